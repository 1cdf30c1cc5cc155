"""How much data a decision needs: the smallest difference that could be seen, the clusters at which a rule passes."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import stdtrit

POWER = 0.80
OUT_OF_REACH = 1_000_000  # clusters


def detectable(se: float, clusters: int, level: float) -> float:
    """The smallest difference that a run of this size would show four times in five: (t_{1−α/2} + t_{0.80}) · se."""
    return float(stdtrit(clusters - 1, 0.5 + level / 2) + stdtrit(clusters - 1, POWER)) * se


def fewest_clusters(passes: Callable[[int], bool], clusters: int) -> int | None:
    """The smallest number of clusters, more than there are, at which a rule passes; None where that is out of reach.

    No forecast: what passes there is today's data and nothing else.
    """
    if not passes(OUT_OF_REACH):
        return None
    low, high = clusters, OUT_OF_REACH
    step = clusters + 1
    while step < OUT_OF_REACH and not passes(step):
        low, step = step, 2 * step
    high = min(step, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def estimate_clusters(value: float, end: float, threshold: float, clusters: int) -> int | None:
    """The clusters at which an interval that narrows with their root meets a threshold; None if it never will."""
    room, half = abs(value - threshold), abs(value - end)
    misses = (value - threshold) * (value - end) <= 0  # the value itself, or nothing but it meets the threshold
    if misses or not math.isfinite(half) or half > room * math.sqrt(OUT_OF_REACH / clusters):
        return None
    return max(math.ceil(clusters * (half / room) ** 2), clusters + 1)
