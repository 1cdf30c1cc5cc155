"""Intervals, one function a method. Simulated coverage decided which method serves which family of metrics.

wilson      0/1 row means: Wilson's interval with the effective number of rows and Student's t
student     other row means, and every paired delta: t times a cluster or jackknife standard error
bca         smooth functions of sums: bias-corrected and accelerated bootstrap, at a level widened for few clusters
ball        norms of noise, such as ECE or a gap between groups: a bootstrap never covers a true 0
percentile  on request, and for artifacts that are documented so
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtrit

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]

FEW_MINORITY_CLUSTERS = 5
WILSON_SQUARE = 3.84  # z² of 95%, the pseudo-count a rare difference is given


def student(value: float, se: float, clusters: int, level: float) -> Interval:
    """value ± t_{G−1} · se."""
    half = quantile_t(level, clusters) * se
    return value - half, value + half


def quantile_t(level: float, clusters: int) -> float:
    """The two-sided t quantile with G − 1 degrees of freedom."""
    return float(stdtrit(clusters - 1, 0.5 + level / 2))


def wilson(p: float, se: float, clusters: int, minority: int, level: float) -> Interval | None:
    """Wilson's interval for a share, with n_e = p(1 − p)/se² effective rows and t for z.

    If fewer than five clusters hold the rarer outcome, no more than one row a cluster is believed. None where every
    cluster has the same share, so that the spread is unknown.
    """
    rows = math.inf if se == 0 else p * (1 - p) / se**2
    if minority < FEW_MINORITY_CLUSTERS:
        rows = min(rows, clusters)
    if not math.isfinite(rows) or rows <= 0:
        return None
    z2 = quantile_t(level, clusters) ** 2
    centre = (p + z2 / (2 * rows)) / (1 + z2 / rows)
    half = math.sqrt(z2 * (p * (1 - p) / rows + z2 / (4 * rows**2))) / (1 + z2 / rows)
    return max(0.0, centre - half), min(1.0, centre + half)


def percentile(replicates: Floats, tail: float) -> Interval:
    """The plain percentile interval that leaves `tail` of the replicates out on each side."""
    low, high = np.percentile(replicates, [100 * tail, 100 * (1 - tail)])
    return float(low), float(high)


def tail_of(level: float) -> float:
    """What a two-sided level leaves out on each side."""
    return (1 - level) / 2


def expanded_tail(level: float, clusters: int) -> float:
    """The tail at which a percentile interval has the width of a t interval with the cluster correction."""
    return float(ndtr(-math.sqrt(clusters / (clusters - 1)) * quantile_t(level, clusters)))


def bca(value: float, replicates: Floats, left_out: Floats, tail: float) -> Interval:
    """Efron's BCa interval; percentile with the same tail where the bias correction is infinite."""
    below = (np.count_nonzero(replicates < value) + np.count_nonzero(replicates == value) / 2) / len(replicates)
    if not 0 < below < 1:
        return percentile(replicates, tail)
    bias = float(ndtri(below))
    influence = left_out[~np.isnan(left_out)]
    centred = influence.mean() - influence if len(influence) else np.zeros(1)
    spread = float((centred**2).sum())
    acceleration = float((centred**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0
    z = float(ndtri(tail))
    shares = sorted(_corrected(end, bias, acceleration) for end in (z, -z))
    low, high = np.percentile(replicates, [100 * share for share in shares])
    return float(low), float(high)


def _corrected(z: float, bias: float, acceleration: float) -> float:
    """The share of replicates below the end of the interval that a normal one would have at z."""
    moved = bias + z
    room = 1 - acceleration * moved
    if not math.isfinite(moved) or room <= 0:  # so far out that the correction turns over
        return 0.0 if moved < 0 else 1.0
    return float(ndtr(bias + moved / room))


def ball(value: float, distances: Floats, clusters: int, level: float) -> Interval:
    """value ± q, where q bounds the norm of the noise around the vector whose norm the value is."""
    scale = quantile_t(level, clusters) / float(ndtri(0.5 + level / 2)) * math.sqrt(clusters / (clusters - 1))
    q = float(np.quantile(distances, level)) * scale
    return max(0.0, value - q), value + q


def jackknife_se(left_out: Floats) -> float:
    """The standard error from leave-one-out values; NaN with fewer than two."""
    defined = left_out[~np.isnan(left_out)]
    size = len(defined)
    if size < 2:
        return math.nan
    return math.sqrt((size - 1) / size * float(((defined - defined.mean()) ** 2).sum()))


def cluster_se(totals: Floats, rows: Floats) -> float:
    """The standard error of Σtotals / Σrows over clusters, as of a ratio, with the G/(G − 1) correction."""
    inside = rows > 0
    size = int(inside.sum())
    if size < 2:
        return math.nan
    mean = totals.sum() / rows.sum()
    residual = totals[inside] - mean * rows[inside]
    return math.sqrt(size / (size - 1) * float((residual**2).sum())) / float(rows.sum())


def no_spread(se: float, *values: float) -> bool:
    """True if a standard error is nothing but rounding of the values it belongs to."""
    return se <= 1e-12 * max(map(abs, values), default=0.0) or se < 1e-300


def containing(interval: Interval, value: float) -> Interval:
    """The interval, stretched to its value where it missed it."""
    return min(interval[0], value), max(interval[1], value)


def sparse_margin(clusters: int, width: float) -> float:
    """How far a delta's interval must reach when hardly any cluster differs: the rare loss not yet seen."""
    return WILSON_SQUARE / (clusters + WILSON_SQUARE) * width
