"""Which column of a file stands for which name here: {name here: name in the file}."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping

from steelyard.errors import UsageError, printable
from steelyard.records.schema import field_of


def renames(map: Mapping[str, str] | None) -> Mapping[str, str]:
    """What was stated: names here and names in the file."""
    if map is not None and not isinstance(map, Mapping):
        raise UsageError('map is a mapping of names here to names in the file: {"item": "question_id"}')
    return map or {}


def check_renamed(names: Mapping[str, str], renamed: Container[str], columns: Iterable[str]) -> None:
    """Refuse a name in the file that no file has; where a pair is the wrong way round, say how to write it."""
    absent = next((original for original in names.values() if original not in renamed), None)
    if absent is None:
        return
    have = list(columns)
    problem = (
        f"cannot rename '{printable(absent)}': there is no such column; columns: {', '.join(map(printable, have))}"
    )
    turned = {known: original for known, original in names.items() if known in have and _is_turned(known, original)}
    if turned:
        right = dict((original, known) if known in turned else (known, original) for known, original in names.items())
        written = json.dumps({printable(k): printable(v) for k, v in right.items()}, ensure_ascii=False)
        marked = written.replace("`", "\\u0060")  # a parameter stands between such marks
        problem += f". The name here comes first, then the name in the file: `map={marked}`"
    raise UsageError(problem)


def _is_turned(known: str, original: str) -> bool:
    """True if a pair makes sense the other way round only: a column of one's own, then a name of the vocabulary."""
    return field_of(known) is None and field_of(original) is not None
