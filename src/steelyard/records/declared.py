"""Numbers that a log states of itself, next to what its rows give: a log that disagrees with itself is worth a word."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isclose, isnan
from typing import Any

from steelyard.errors import printable


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A metric of a log by the log's own name: the value that is stated there, and the same made of the rows."""

    name: str
    stated: float
    recomputed: float | None  # None where the rows do not tell

    @property
    def agrees(self) -> bool:
        """True unless the two differ by more than was lost in writing them."""
        if self.recomputed is None or (isnan(self.stated) and isnan(self.recomputed)):
            return True
        return isclose(self.stated, self.recomputed, rel_tol=1e-6, abs_tol=1e-6)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"metric": self.name, "stated": self.stated, "recomputed": self.recomputed}


def disagreements(file: str, declared: Iterable[Declared]) -> list[str]:
    """What to say of numbers that the rows do not give."""
    return [
        f"{printable(file)}: the log states {printable(each.name)} = {each.stated:.6g}, its rows give "
        f"{each.recomputed:.6g}"
        for each in declared
        if not each.agrees
    ]
