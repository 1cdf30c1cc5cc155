"""Which columns of a file are read, which are kept as they are, and which are not even held in memory.

A column of the vocabulary, or one that is asked for, is read: what it holds must be as it should be. Any other is kept
as it is, and what is wrong with it is said when somebody uses it. A command knows what it will use and skips the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from steelyard.records.schema import FIELDS, PREFIXES, SCORES, is_score
from steelyard.records.unit import may_be_unit

Want = Literal["read", "keep", "skip"]
Rest = Literal["keep", "skip", "skip if scored"]
SCORED = frozenset({"target", "prediction"})


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What is wanted of a file. `rest` is what becomes of columns outside the vocabulary that nobody asked for.

    "skip if scored" keeps them where the table has no targets or predictions: one may be a score of another tool.
    """

    asked: frozenset[str] = frozenset()
    rest: Rest = "keep"
    only: frozenset[str] | None = None
    drop: frozenset[str] = frozenset()
    units: bool = False  # whether columns are kept that may be the unit
    marked: bool = False  # whether the table has marks: a score tells why a row has none
    as_is: bool = False  # whether nothing is read, and every column kept as it is

    def of(self, column: str, *, scored: bool) -> Want:
        """What is wanted of a column, by the name that the table gives it."""
        known = column in FIELDS and not self.as_is  # what rows mean depends on them
        if column in self.drop or not (self.only is None or known or column in self.only or column in self.asked):
            return "skip"
        if (column in FIELDS or column in self.asked) and not self.as_is:
            return "read"
        if (
            column.partition(".")[0] in PREFIXES
            or (is_score(column) and (self.marked or column != SCORES))
            or (self.units and may_be_unit(column))
        ):
            return "keep"
        return "skip" if self.rest == "skip" or (self.rest == "skip if scored" and scored) else "keep"

    def goes_inside(self, path: str, keys: Iterable[str] = (), *, scored: bool) -> bool:
        """True if an object of this name is taken apart into columns; `keys` are some of its own."""
        if path in self.drop:
            return False
        if self.units and self.only is None and any(may_be_unit(f"{path}.{key}") for key in keys):
            return True
        below = f"{path}."
        if path in (*PREFIXES, SCORES) or any(
            name.startswith(below) for name in self.asked | (self.only or frozenset())
        ):
            return True
        return self.only is None and (self.rest == "keep" or (self.rest == "skip if scored" and not scored))
