"""The names people type: other spellings of a metric, and what may have been meant by a name that is none.

A definition lists its other names as `aliases`. One with places in braces is a pattern: `P_{k}` reads `P_5` as the
metric with `k=5`, `per_class.{label}.f1` reads `per_class.Critical.f1` as `f1.Critical`; `{base}` is another metric's
name. The words people use for it, which are no names, are in `also`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from steelyard.errors import UsageError, printable
from steelyard.metrics.vocabulary import CUTOFF
from steelyard.naming import Expr
from steelyard.registry import Registry

if TYPE_CHECKING:
    from steelyard.metrics.definition import Definition

_MOST = 5
_NEAR = 0.72  # how alike two names are that differ by a slip of the pen
_CALLED, _WITHIN = 0.9, 0.8  # what people call it comes next to that, a word of it before what is merely alike
_PLACE = re.compile(r"\{(\w+)\}")
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_PLACES = {"label": ".+", "base": "[^\0]+", "k": "[0-9]+"}  # what may stand at a place; elsewhere a number
_LISTS_ALL = "`steelyard metrics` lists all"


def spelled(expr: Expr, metrics: Registry[Definition]) -> Expr:
    """The expression with the name of a metric as its head, where it is written as one of the patterns of aliases."""
    named = metrics.meant(expr.head) is not None and not expr.labels  # `success.5` is written as a pattern
    if named or (expr.cutoff is not None and metrics.meant(f"{expr.head}{CUTOFF}")):
        return expr
    written = (expr.head, *expr.labels)
    readings = [
        (definition, found)
        for definition in metrics.values()
        for alias in definition.names.aliases
        if "{" in alias and (found := _read(alias, written)) is not None
    ]
    names = list(dict.fromkeys(definition.name for definition, _ in readings))
    if len(names) > 1:
        raise UsageError(f"'{printable(str(expr))}' may mean {' or '.join(names)}; write it as one of them")
    if not readings:
        return expr
    definition, found = readings[0]
    label, base = found.pop("label", None), found.pop("base", None)
    cutoff = int(found.pop("k")) if "k" in found else expr.cutoff
    args = (*expr.args, *((name, float(text)) for name, text in found.items()))
    if base is not None:  # options and a cutoff at the end are those of the metric within
        args, cutoff = (("", Expr(head=base, cutoff=cutoff, args=args)),), None
    return replace(
        expr,
        head=definition.name.removesuffix(CUTOFF),
        cutoff=cutoff,
        args=args,
        labels=() if label is None else (label,),
    )


def _read(alias: str, written: tuple[str, ...]) -> dict[str, str] | None:
    """What stands at the places of a pattern, or None where it is not written so."""
    match = _pattern(alias).fullmatch("\0".join(written))
    return None if match is None else {name: text.replace("\0", ".") for name, text in match.groupdict().items()}


@cache
def _pattern(alias: str) -> re.Pattern[str]:
    """A pattern of an alias over the words and labels of an expression, joined by NUL; a label may hold dots."""
    parts = []
    for i, text in enumerate(_PLACE.split(alias)):
        place = f"(?P<{text}>{_PLACES.get(text, _NUMBER)})"
        parts.append(place if i % 2 else re.escape(text).replace(r"\.", "\0"))
    return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)


def suggestions(name: str, definitions: Iterable[Definition]) -> str:
    """What to say after a name that is no metric's: a few that may be meant, and where all are."""
    near = nearest(name, definitions)
    if not near:
        return _LISTS_ALL
    named = near[0] if len(near) == 1 else f"{', '.join(near[:-1])} or {near[-1]}"
    return f"did you mean {named}? {_LISTS_ALL}"


def nearest(name: str, definitions: Iterable[Definition]) -> list[str]:
    """The metrics that a name may mean, best first: by what people call them, then by how they are written.

    >>> from steelyard.metrics import metrics
    >>> nearest("bleu", metrics.values()), nearest("accurracy", metrics.values())[0]
    (['chrf'], 'accuracy')
    """
    written = _words(name)
    scores: dict[str, float] = {}
    for definition in definitions:
        called = [_words(word) for word in definition.names.also]
        own = [_words(text) for text in (definition.name, *definition.names.aliases) if "{" not in text]
        score = max((difflib.SequenceMatcher(None, written, text).ratio() for text in own), default=0.0)
        if score < _NEAR:
            score = 0.0
        if written in called:
            score = max(score, _CALLED)
        elif any(f" {written} " in f" {text} " for text in (*called, *own, _words(definition.names.title))):
            score = max(score, _WITHIN)
        if score:
            scores[shown_name(definition)] = score
    return sorted(scores, key=lambda text: -scores[text])[:_MOST]


def shown_name(definition: Definition) -> str:
    """The name as it is written: `precision@k` where the cutoff belongs to it."""
    return f"{definition.name}k" if definition.name.endswith(CUTOFF) else definition.name


def _words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))
