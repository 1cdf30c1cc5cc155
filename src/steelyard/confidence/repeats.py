"""Signals from asking the same question several times: how often the commonest answer came, how far answers spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """The commonest answer of repeated samples, its share, and the spread of the scores that were given."""

    modal_score: float | None
    modal_count: int
    modal_confidence: float
    score_std: float
    na_rate: float


def consistency(samples: Sequence[float | None]) -> Consistency:
    """Statistics of repeated answers; None is a declined one. Between equally common answers, None comes first,
    else the smallest: the cautious reading. The spread is the population standard deviation of the scores.

    >>> consistency([3, 3, 1, 1, None])
    Consistency(modal_score=1, modal_count=2, modal_confidence=0.4, score_std=1.0, na_rate=0.2)
    """
    if not samples:
        raise InputError("at least one sample is expected")
    scores = [s for s in samples if s is not None]
    if not all(type(s) in (int, float) and np.isfinite(s) for s in scores):
        raise InputError("samples are finite numbers, or None for a declined answer")
    counts = Counter(samples)
    modal = min(counts, key=lambda s: (-counts[s], s is not None, 0 if s is None else s))
    return Consistency(
        modal_score=modal,
        modal_count=counts[modal],
        modal_confidence=counts[modal] / len(samples),
        score_std=float(np.std(scores)) if scores else 0.0,
        na_rate=(len(samples) - len(scores)) / len(samples),
    )
