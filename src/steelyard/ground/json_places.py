"""Where in a JSON text things begin: the line of each element of a list, the characters of each member of an object.

Parsers hand over values without their places; an error is easier to mend with one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import isfinite
from typing import Any

from steelyard.halves import whole

Path = tuple[str | None, ...]  # names of members; None for every element of a list
Place = tuple[int, ...]  # the index in each list on the way

_SPACE = re.compile(r"[ \t\n\r]*")
_SKIP = json.JSONDecoder(parse_int=len, parse_float=len).raw_decode


def element_lines(text: str, path: Path) -> dict[Place, int]:
    """The line on which each value at `path` begins; `text` is known to be JSON. Nothing where the form differs.

    >>> element_lines('{"rows": [{},\\n {}]}', ("rows", None))
    {(0,): 1, (1,): 2}
    """
    walk = _Walk(text)
    try:
        walk.value(walk.blank(0), path, ())
    except RecursionError:  # a few frames deeper than the parser that let it pass
        return {}
    return walk.lines


class _Walk:
    """One pass over a text: follows the path, skips everything else."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {}
        self._text, self._last, self._line = text, 0, 1

    def blank(self, at: int) -> int:
        space = _SPACE.match(self._text, at)
        assert space is not None
        return space.end()

    def value(self, at: int, path: Path, place: Place) -> int:
        """Take the value at `at`; returns where it ends."""
        if not path:
            self._line += self._text.count("\n", self._last, at)
            self._last = at
            self.lines[place] = self._line
        if not path or self._text[at] != ("[" if path[0] is None else "{"):
            return _SKIP(self._text, at)[1]
        at, number = self.blank(at + 1), 0
        while self._text[at] not in "}]":
            if path[0] is None:
                at = self.value(at, path[1:], (*place, number))
                number += 1
            else:
                key, at = _SKIP(self._text, at)
                at = self.blank(self.blank(at) + 1)
                at = self.value(at, path[1:], place) if key == path[0] else _SKIP(self._text, at)[1]
            at = self.blank(at)
            if self._text[at] == ",":
                at = self.blank(at + 1)
        return at + 1


# -- members of an object ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """A value in an object, and the first and the last character (exclusive) of where it stands."""

    value: Any
    span: tuple[int, int]


def members_at(text: str, at: int) -> tuple[dict[str, Member], int] | None:
    """The members of the object that begins at `at`, whatever follows it, and where it ends; None if it is no JSON.

    A key that appears twice, a number that is not finite or too large to be kept: all are none.

    >>> members_at('see {"a": 1} there', 4)
    ({'a': Member(value=1, span=(10, 11))}, 12)
    """
    members: dict[str, Member] = {}
    walk = _Walk(text)
    try:
        at = walk.blank(at + 1)
        while text[at] != "}" or members:
            key, at = _STRICT(text, at)
            key, at = whole(key), walk.blank(at)
            if not isinstance(key, str) or key in members or text[at] != ":":
                return None
            start = walk.blank(at + 1)
            value, at = _STRICT(text, start)
            members[key] = Member(whole(value), (start, at))
            at = walk.blank(at)
            if text[at] == "}":
                break
            if text[at] != ",":
                return None
            at = walk.blank(at + 1)
    except (ValueError, IndexError, RecursionError):
        return None
    return members, at + 1


def _refused(_: str) -> Any:
    raise ValueError


def _int(text: str) -> int:
    return int(text) if len(text) <= 20 else _refused(text)


def _float(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _refused(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    return members if len(members) == len(pairs) else _refused("")


_STRICT = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_refused, parse_int=_int, parse_float=_float, strict=False
).raw_decode
