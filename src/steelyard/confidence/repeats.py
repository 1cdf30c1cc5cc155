"""Signals from asking the same question several times: how often the commonest answer came, how far answers spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from steelyard.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """The commonest answer of repeated samples, its share, and the spread of the scores: None for labels."""

    modal_score: str | float | None
    modal_count: int
    modal_confidence: float
    score_std: float | None
    na_rate: float

    def signals(self) -> dict[str, str | float | None]:
        """The statistics by the names that confidence variants know them by."""
        return {f"consistency_{field.name}": getattr(self, field.name) for field in fields(self)}


def consistency(samples: Sequence[str | float | None]) -> Consistency:
    """Statistics of repeated answers, all numbers or all labels; None is a declined one. Between equally common
    answers, None comes first, else the smallest: the cautious reading. The spread is the population standard deviation
    of the numbers, 0 if there is none, and undefined for labels.

    >>> consistency([3, 3, 1, 1, None])
    Consistency(modal_score=1, modal_count=2, modal_confidence=0.4, score_std=1.0, na_rate=0.2)
    >>> consistency(["b", "a", "b"]).signals()["consistency_modal_score"]
    'b'
    """
    if not samples:
        raise InputError("at least one sample is expected")
    answers: list[Any] = [s for s in samples if s is not None]
    labels = bool(answers) and all(type(s) is str for s in answers)
    if not labels and not all(type(s) in (int, float) and np.isfinite(s) for s in answers):
        raise InputError("samples are finite numbers, or texts, or None for a declined answer")
    counts = Counter(samples)
    modal = min(answers, key=lambda s: (-counts[s], s), default=None)
    if counts[None] >= counts[modal]:
        modal = None
    return Consistency(
        modal_score=modal,
        modal_count=counts[modal],
        modal_confidence=counts[modal] / len(samples),
        score_std=None if labels else float(np.std(answers)) if answers else 0.0,
        na_rate=counts[None] / len(samples),
    )
