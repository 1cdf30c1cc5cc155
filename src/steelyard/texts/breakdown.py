"""How a score came about, as a value: components, counts, and in words what matched, was missed and was extra."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """One score and what it is made of.

    `components` are the numbers that it follows from, `counts` how many entities or words they stand on. The words
    themselves (`matched`, `missed`, `extra`, `remarks`) come from the texts and may be patient data: they are kept only
    where somebody asks for them.
    """

    metric: str
    score: float | None
    components: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    matched: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The breakdown as a sentence or two, for people."""
        parts = [f"{self.metric} {'n/a' if self.score is None else f'{self.score:.4f}'}"]
        parts += [
            f"{name}: {', '.join(values)}"
            for name, values in (("matched", self.matched), ("missed", self.missed), ("extra", self.extra))
            if values
        ]
        if self.components:
            parts.append(", ".join(f"{name} {value:.4f}" for name, value in self.components.items()))
        return "; ".join((*parts, *self.remarks))

    def __str__(self) -> str:
        return self.words

    def to_dict(self, *, with_words: bool = True) -> dict[str, Any]:
        """Plain data; without words, only numbers are left."""
        numbers = {"score": self.score, "components": dict(self.components), "counts": dict(self.counts)}
        if not with_words:
            return numbers
        return {
            **numbers,
            "matched": list(self.matched),
            "missed": list(self.missed),
            "extra": list(self.extra),
            "remarks": list(self.remarks),
        }
