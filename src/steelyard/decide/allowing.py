"""What is accepted beforehand: kinds of cautions that bar no rule, up to the share of rows that they are about.

excerpt            any of this kind
failed=0.1         of up to a tenth of the rows
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from steelyard.errors import UsageError, printable
from steelyard.naming import number_in
from steelyard.records.cautions import KINDS, Kind
from steelyard.registry import closest


def allowed(asked: Iterable[str] | Mapping[str, float] | str) -> dict[Kind, float]:
    """The kinds that are allowed, each with its share.

    >>> allowed(["excerpt", "failed=0.1"])
    {'excerpt': 1.0, 'failed': 0.1}
    """
    if isinstance(asked, Mapping):
        pairs: list[tuple[str, object]] = list(asked.items())
    else:
        texts = [asked] if isinstance(asked, str) else asked
        pairs = [
            (kind.strip(), share if mark else 1.0) for kind, mark, share in (text.partition("=") for text in texts)
        ]
    found: dict[Kind, float] = {}
    for name, given in pairs:
        kind = next((kind for kind in KINDS if kind == name), None)
        if kind is None:
            near = closest(name, list(KINDS))
            hint = f"did you mean '{near}'?" if near else f"there are: {', '.join(KINDS)}"
            raise UsageError(f"`allow={printable(name)}` is no kind of caution; {hint}")
        if kind in found:
            raise UsageError(f"`allow=` names '{kind}' twice")
        found[kind] = _share(kind, given)
    return found


def _share(kind: Kind, given: object) -> float:
    try:
        share = number_in(str(given))
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"`allow={kind}=…` takes a share of the rows, from 0 to 1, not '{printable(given)}'")
    return share


def allow_text(allow: Mapping[Kind, float]) -> str:
    """What is allowed, in words; nothing where nobody asked for it."""
    return ", ".join(kind if share == 1 else f"{kind} up to {100 * share:g}%" for kind, share in allow.items())
