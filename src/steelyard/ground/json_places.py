"""Where in a JSON text things begin: the line of each element of a list that stands at a known path.

Parsers hand over values without their places; an error is easier to mend with one.
"""

from __future__ import annotations

import json
import re

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
