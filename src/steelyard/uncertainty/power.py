"""How much data a decision needs: the smallest difference that could be seen, and the clusters for a given one."""

from __future__ import annotations

import math

from scipy.special import stdtr, stdtrit

POWER = 0.80
_MOST_TIMES = 1e6  # a difference this much smaller than what can be seen is none


def detectable(se: float, clusters: int, level: float) -> float:
    """The smallest difference that a run of this size would show four times in five: (t_{1−α/2} + t_{0.80}) · se."""
    return float(stdtrit(clusters - 1, 0.5 + level / 2) + stdtrit(clusters - 1, POWER)) * se


def clusters_needed(se: float, clusters: int, level: float, difference: float) -> int | None:
    """About how many clusters would show this difference four times in five; None where none would."""
    times = detectable(se, clusters, level) / difference if difference > 0 else math.inf
    return math.ceil(clusters * times**2) if times < _MOST_TIMES else None


def one_sided_p(value: float, threshold: float, se: float, clusters: int) -> float:
    """How likely a value this far below the threshold, or farther, would be if the truth were the threshold."""
    if se <= 0:
        return 0.0 if value < threshold else 1.0
    return float(stdtr(clusters - 1, (value - threshold) / se))
