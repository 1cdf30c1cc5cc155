"""Intervals, one rule per kind of number. Simulated coverage decided which rule serves which family of metrics.

wilson      0/1 row means: Wilson's interval with the effective number of rows and Student's t
t, log-t    other row means, rmse and correlations: t times a standard error, with fewer degrees of freedom where a few
            clusters carry the spread; on a log scale where the value cannot be negative
shares      means of shares, such as balanced accuracy: every share with the spread of its own clusters
bca         smooth functions of sums: bias-corrected and accelerated bootstrap, at a level widened for few clusters
ball        norms of noise, such as ECE: a bootstrap never covers a true 0
percentile  deltas of what is no row mean; on request; and for artifacts that are documented so
sparse      bounded row means of which hardly any cluster differs from the rest: see `sparse.py`

A `Rule` gives the interval at any level. All of them are nested: more confidence, more room. So a rule also says at
which level it begins to exclude a value, which is the p-value that belongs to the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from steelyard.ground.arrays import Floats

Interval = tuple[float, float]

FEW_MINORITY_CLUSTERS = 5
_SMALLEST = 1e-12  # no p-value is told apart from less


@dataclass(frozen=True)
class Rule:
    """How an interval follows from the level it is asked for."""

    method: str
    ends: Callable[[float], Interval]
    least: float = 0.0  # the smallest α that resamples can tell apart

    def at(self, level: float) -> Interval:
        """The interval at this level."""
        return self.ends(level)

    def alpha(self, value: float) -> float:
        """The smallest α whose interval excludes a value: the p-value that goes with the interval.

        >>> round(Rule("t", lambda level: student(1.0, 0.5, 60, level)).alpha(0.0), 4)
        0.0501
        """
        if self._holds(value, 1.0 - 1e-9):
            return 1.0
        low, high = math.log(_SMALLEST), math.log(1.0 - 1e-9)  # held at `low` unless it is excluded everywhere
        if not self._holds(value, math.exp(low)):
            return max(math.exp(low), self.least)
        while high - low > 1e-11 * max(1.0, abs(high)):
            middle = (low + high) / 2
            if self._holds(value, math.exp(middle)):
                low = middle
            else:
                high = middle
        return max(math.exp(high), self.least)

    def _holds(self, value: float, alpha: float) -> bool:
        low, high = self.ends(1 - alpha)
        return low <= value <= high


# -- row means and what has a standard error -----------------------------------------------------------------------


def student(value: float, se: float, clusters: float, level: float) -> Interval:
    """value ± t_{G−1} · se; `clusters` − 1 are the degrees of freedom, which need not be whole."""
    half = quantile_t(level, clusters) * se
    return value - half, value + half


def quantile_t(level: float, clusters: float) -> float:
    """The two-sided t quantile with G − 1 degrees of freedom."""
    return float(stdtrit(clusters - 1, 0.5 + level / 2))


def log_student(value: float, se: float, clusters: float, level: float) -> Interval:
    """exp(log value ± t · se/value): for a value above 0 that cannot be below."""
    half = quantile_t(level, clusters) * se / value
    return value * math.exp(-half), value * math.exp(min(half, 700.0))


def effective_clusters(influence: Floats) -> float:
    """1 + the degrees of freedom that the spread of the influences is worth: G, or less where a few carry it all."""
    size = len(influence)
    if size < 2:
        return float(size)
    scale = float(np.abs(influence).max())
    if scale == 0:
        return float(size)
    square = (influence / scale) ** 2
    second, fourth = float(square.sum()), float((square**2).sum())
    room = fourth - second**2 / size
    return float(size) if room <= 0 else 1 + min(size - 1, 2 * second**2 / room)


def effective_rows(p: float, se: float, clusters: int, minority: int) -> float | None:
    """As many independent rows as the spread between clusters implies; None where there is no spread."""
    rows = math.inf if se == 0 else p * (1 - p) / se**2
    if minority < FEW_MINORITY_CLUSTERS:
        rows = min(rows, clusters)
    return rows if math.isfinite(rows) and rows > 0 else None


def wilson_of(p: float, rows: float, clusters: int, level: float) -> Interval:
    """Wilson's interval for a share of so many rows, with t for z."""
    z2 = quantile_t(level, clusters) ** 2
    centre = (p + z2 / (2 * rows)) / (1 + z2 / rows)
    half = math.sqrt(z2 * (p * (1 - p) / rows + z2 / (4 * rows**2))) / (1 + z2 / rows)
    return max(0.0, centre - half), min(1.0, centre + half)


def cluster_se(totals: Floats, rows: Floats) -> float:
    """The standard error of Σtotals / Σrows over clusters, as of a ratio, with the G/(G − 1) correction."""
    inside = rows > 0
    return math.sqrt(float((influences(totals, rows)[inside] ** 2).sum())) if int(inside.sum()) > 1 else math.nan


def influences(totals: Floats, rows: Floats) -> Floats:
    """What each cluster contributes to Σtotals / Σrows, scaled so that their squares add up to its variance."""
    size = int((rows > 0).sum())
    if size < 2:
        return np.full(len(rows), np.nan)
    count = float(rows.sum())
    return (totals - totals.sum() / count * rows) * (math.sqrt(size / (size - 1)) / count)


def padded_variance(totals: Floats, rows: Floats, low: float, high: float) -> float:
    """The variance of a bounded mean with two pseudo-clusters of mean size, one at each bound: never 0."""
    inside = rows > 0
    size = float(rows[inside].mean())
    return cluster_se(np.append(totals[inside], [low * size, high * size]), np.append(rows[inside], [size, size])) ** 2


def shares(hits: Floats, rows: Floats) -> tuple[float, float, float]:
    """A mean of shares: its value, standard error and 1 + degrees of freedom; clusters × shares each.

    V = ΣΣ w_k w_l Cov_kl from the clusters' influences, each share with its two pseudo-clusters in its own variance.
    """
    parts = [k for k in range(rows.shape[1]) if rows[:, k].sum() > 0]
    weight = 1 / len(parts)
    clusters = [int((rows[:, k] > 0).sum()) for k in parts]
    if min(clusters) < 2:
        return math.nan, math.nan, math.nan
    psi = np.stack([influences(hits[:, k], rows[:, k]) for k in parts], -1)
    own = np.array([padded_variance(hits[:, k], rows[:, k], 0.0, 1.0) for k in parts])
    together = float((psi.sum(-1) ** 2).sum()) - float((psi**2).sum())  # ΣΣ over k ≠ l
    variance = weight**2 * (float(own.sum()) + together)
    pieces = sum(weight**4 * v**2 / (g - 1) for v, g in zip(own, clusters, strict=True))
    freedom = (weight**2 * float(own.sum())) ** 2 / pieces if pieces > 0 else math.inf
    value = float(np.mean([hits[:, k].sum() / rows[:, k].sum() for k in parts]))
    most = int((rows > 0).any(-1).sum()) - 1
    return value, math.sqrt(max(variance, 0.0)), 1 + min(freedom, most)


# -- resampled -------------------------------------------------------------------------------------------------------


def percentile(replicates: Floats, tail: float) -> Interval:
    """The plain percentile interval that leaves `tail` of the replicates out on each side."""
    low, high = np.percentile(replicates, [100 * tail, 100 * (1 - tail)])
    return float(low), float(high)


def tail_of(level: float) -> float:
    """What a two-sided level leaves out on each side."""
    return (1 - level) / 2


@dataclass(frozen=True)
class Worth:
    """What clusters are worth to a resampled interval: 1 + degrees of freedom, and how much too narrow resamples are.

    G clusters drawn together are worth G, and their resamples are too narrow by √(G/(G − 1)).
    """

    clusters: float
    widened: float

    @classmethod
    def of(cls, clusters: float) -> Worth:
        return cls(clusters, math.sqrt(clusters / (clusters - 1)))

    @classmethod
    def in_strata(cls, left_out: Floats, strata: npt.NDArray[np.int64]) -> Worth | None:
        """Of clusters that are drawn within strata, from the values without each of them: each stratum has its own.

        A stratum of n clusters adds V_s to the variance, of which its resamples show (n − 1)/n. None where nothing
        varies.
        """
        shown, true, pieces = 0.0, 0.0, 0.0
        for each in np.unique(strata):
            values = left_out[strata == each]
            values = values[~np.isnan(values)]
            size = len(values)
            if size < 2:
                continue
            spread = float(((values - values.mean()) ** 2).sum()) * (size - 1) / size
            shown += spread * (size - 1) / size
            true += spread
            pieces += spread**2 / (size - 1)
        if shown <= 0 or pieces <= 0:
            return None
        return cls(1 + true**2 / pieces, math.sqrt(true / shown))


def expanded_tail(level: float, clusters: float | Worth) -> float:
    """The tail at which a percentile interval has the width of a t interval with the cluster correction."""
    worth = clusters if isinstance(clusters, Worth) else Worth.of(clusters)
    return float(ndtr(-worth.widened * quantile_t(level, worth.clusters)))


def alpha_of_tail(tail: float, clusters: float | Worth) -> float:
    """The α whose expanded tail this is."""
    worth = clusters if isinstance(clusters, Worth) else Worth.of(clusters)
    return float(2 * stdtr(worth.clusters - 1, float(ndtri(tail)) / worth.widened))


def quantiles(replicates: Floats) -> Callable[[float], float]:
    """The quantile function of the replicates, linear between them; sorted once."""
    ordered = np.sort(replicates)

    def at(share: float) -> float:
        place = min(max(share, 0.0), 1.0) * (len(ordered) - 1)
        before = int(place)
        after = min(before + 1, len(ordered) - 1)
        return float(ordered[before] + (ordered[after] - ordered[before]) * (place - before))

    return at


def percentile_rule(replicates: Floats, clusters: float | Worth, method: str = "percentile") -> Rule:
    """Percentiles at the expanded tail; no p-value below what so many resamples can tell."""
    at = quantiles(replicates)

    def ends(level: float) -> Interval:
        tail = expanded_tail(level, clusters)
        return at(tail), at(1 - tail)

    return Rule(method, ends, alpha_of_tail(1 / (len(replicates) + 1), clusters))


def bca_rule(value: float, replicates: Floats, left_out: Floats, clusters: float | Worth) -> Rule:
    """Efron's BCa interval at the expanded tail; percentile there where the bias correction is infinite."""
    correct = _correction(value, replicates, left_out)
    if correct is None:
        return percentile_rule(replicates, clusters, "bca")
    at = quantiles(replicates)

    def ends(level: float) -> Interval:
        z = float(ndtri(expanded_tail(level, clusters)))
        low, high = sorted((correct(z), correct(-z)))
        return at(low), at(high)

    return Rule("bca", ends, alpha_of_tail(1 / (len(replicates) + 1), clusters))


def bca(value: float, replicates: Floats, left_out: Floats, tail: float) -> Interval:
    """Efron's BCa interval; percentile with the same tail where the bias correction is infinite."""
    correct = _correction(value, replicates, left_out)
    if correct is None:
        return percentile(replicates, tail)
    z = float(ndtri(tail))
    low, high = np.percentile(replicates, [100 * share for share in sorted((correct(z), correct(-z)))])
    return float(low), float(high)


def _correction(value: float, replicates: Floats, left_out: Floats) -> Callable[[float], float] | None:
    """The share of replicates below the end of the interval that a normal one would have at z."""
    rounding = 1e-12 * float(np.abs(replicates).max(initial=0.0))  # equal values may come out unequal in the last bits
    under, over = (np.count_nonzero(side > rounding) for side in (value - replicates, replicates - value))
    below = (under + (len(replicates) - under - over) / 2) / len(replicates)
    if not 0 < below < 1:
        return None
    bias = float(ndtri(below))
    influence = left_out[~np.isnan(left_out)]
    centred = influence.mean() - influence if len(influence) else np.zeros(1)
    spread = float((centred**2).sum())
    acceleration = float((centred**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0

    def corrected(z: float) -> float:
        moved = bias + z
        room = 1 - acceleration * moved
        if not math.isfinite(moved) or room <= 0:  # so far out that the correction turns over
            return 0.0 if moved < 0 else 1.0
        return float(ndtr(bias + moved / room))

    return corrected


def ball(value: float, distances: Floats, clusters: int, level: float) -> Interval:
    """value ± q, where q bounds the norm of the noise around the vector whose norm the value is."""
    q = radius(distances, clusters, level)
    return max(0.0, value - q), value + q


def radius(distances: Floats, clusters: int, level: float) -> float:
    """How far noise reaches at this level, widened for few clusters."""
    scale = quantile_t(level, clusters) / float(ndtri(0.5 + level / 2)) * math.sqrt(clusters / (clusters - 1))
    return float(np.quantile(distances, level)) * scale


def shown_rule(method: str, value: float, interval: Interval, level: float, clusters: int) -> Rule:
    """A rule that gives the interval that is shown, where only the interval itself is known.

    Wilson's is solved for its number of rows; any other is taken to grow with t, on each side from its own end.
    """
    end = next((e for e in interval if e != value and 0 < e < 1), None)
    if method == "wilson" and end is not None and clusters > 1:
        rows = quantile_t(level, clusters) ** 2 * end * (1 - end) / (value - end) ** 2
        return Rule("wilson", lambda asked: wilson_of(value, rows, clusters, asked))
    log = method == "log-t" and value > 0 and interval[0] > 0

    def ends(asked: float) -> Interval:
        times = quantile_t(asked, clusters) / quantile_t(level, clusters)
        if log:
            low, high = (value * (e / value) ** times if math.isfinite(e) else e for e in interval)
        else:
            low, high = (value + (e - value) * times for e in interval)
        return low, high

    return Rule(method, ends)


# -- left out ----------------------------------------------------------------------------------------------------------


def jackknife_se(left_out: Floats) -> float:
    """The standard error from leave-one-out values; NaN with fewer than two."""
    return math.sqrt(float((jackknife_influences(left_out) ** 2).sum())) if len(left_out) > 1 else math.nan


def jackknife_influences(left_out: Floats) -> Floats:
    """What each cluster contributes, from the values without it, scaled so that squares add up to the variance."""
    defined = left_out[~np.isnan(left_out)]
    size = len(defined)
    if size < 2:
        return np.full(max(size, 1), np.nan)
    return (defined.mean() - defined) * math.sqrt((size - 1) / size)


def no_spread(se: float, *values: float) -> bool:
    """True if a standard error is nothing but rounding of the values it belongs to."""
    return se <= 1e-12 * max(map(abs, values), default=0.0) or se < 1e-300


def containing(interval: Interval, value: float) -> Interval:
    """The interval, stretched to its value where it missed it."""
    return min(interval[0], value), max(interval[1], value)


def within(interval: Interval, bounds: tuple[float | None, float | None], value: float) -> Interval:
    """The interval cut to the bounds and stretched to its value."""
    low, high = bounds
    cut = (
        interval[0] if low is None else max(interval[0], float(low)),
        interval[1] if high is None else min(interval[1], float(high)),
    )
    return containing(cut, value)
