"""The first edition of the intervals and verdicts, kept so that a later one can be measured against it.

    estimates   shares of rows     Wilson's interval with n_e = p(1 − p)/se² effective rows and Student's t
                other row means    t times the cluster standard error
                ece, fairness_gap, stability.stddev
                                   the noise ball: value ± the 95% quantile of how far the parts move together
                everything else    BCa at the expanded tail
    deltas      t times the jackknife's standard error; fewer than 5 clusters differ and the metric is bounded:
                stretched to hold ±3.84/(G + 3.84) of the range
    p           sign flips of the clusters' summed differences (row means) or of jackknife pseudo-values (the rest)
    verdict     the interval excludes 0 and p ≤ 0.05, with at least 6 clusters

It reads the library's evidence and weights, which both editions share, and nothing of the library's intervals, tests
or verdicts. When it was written, the library still *was* the first edition, and the two agreed to 1e-9 in every value,
interval, p-value and verdict on the populations of this study. Rows must be in the same order on both sides, and none
may have failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from steelyard.ground.randomness import words
from steelyard.metrics.collector import Collector
from steelyard.metrics.definition import Metric, metric_of
from steelyard.metrics.evidence.sums import Draw
from steelyard.records.derive import ANSWERED
from steelyard.records.table import Records
from steelyard.uncertainty.weights import Weights

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]

FEW = 5  # clusters that differ, or that hold the rarer outcome
Z_SQUARE = 3.84
FEWEST_FOR_VERDICT = 6
ALL_FLIPS = 14
UNEQUAL_RATES = 0.01
COMMON_AREA = {"aurc": "aurc_at", "augrc": "augrc_at"}  # judged up to the coverage that both runs reach
NO_COMMON_AREA = ("eaurc", "eaugrc")


@dataclass(frozen=True)
class Estimated:
    """A value and its interval."""

    value: float
    interval: Interval | None


@dataclass(frozen=True)
class SegmentComparison:
    """A paired difference: new − base."""

    delta: float
    interval: Interval | None
    p_value: float | None
    p_adjusted: float | None  # of what the verdict rests on; nothing else is compared with it
    verdict: str
    note: str = ""


# -- what both editions share --------------------------------------------------------------------------------------


class Reading:
    """A metric's evidence on one table, read under any weights of its clusters."""

    def __init__(self, metric: Metric, collector: Collector, constants: Any) -> None:
        self.metric, self.constants = metric, constants
        self.evidence: Any = collector.evidence(metric, constants)
        unit = collector.unit.read(self.evidence)
        self.value = float(metric.finished(unit, constants)[0])
        present = metric.present(unit, constants)
        self._whole = None if present is None else present[0]
        self.part_norm = None if math.isnan(self.value) else _part_norm(metric)
        self._parts = self.part_norm and self._noise(unit)[0]

    def under(self, draw: Draw) -> tuple[Floats, Floats | None]:
        """The values, undefined where a class or group of the data is missing; how far the parts moved."""
        reading = draw.read(self.evidence)
        values = self.metric.finished(reading, self.constants)
        if self._whole is not None:
            lost = (self._whole & ~self.metric.present(reading, self.constants)).any(-1)
            values = np.where(lost, np.nan, values)
        if self.part_norm is None:
            return values, None
        moved = self._noise(reading) - self._parts
        return values, self.part_norm(np.where(np.isnan(self._parts), np.nan, moved))

    def left_out(self, clusters: npt.NDArray[np.int64]) -> Floats:
        """The values with each of these clusters left out in turn."""
        weights = np.ones((len(clusters), len(self.evidence.rows)), np.uint8)
        weights[np.arange(len(clusters)), clusters] = 0
        return self.metric.finished(Draw(weights).read(self.evidence), self.constants)

    @property
    def is_score(self) -> bool:
        """True for a mean over rows."""
        return bool(getattr(self.evidence, "is_score", False))

    @property
    def is_share(self) -> bool:
        """True for a mean over rows that are 0 or 1."""
        return self.is_score and self.evidence.binary and self.metric.bounds == (0, 1)

    @property
    def sums(self) -> tuple[Floats, Floats]:
        """A row mean's totals and rows, cluster by cluster."""
        return np.asarray(self.evidence.cells[:, 0], float), np.asarray(self.evidence.cells[:, 1], float)

    def _noise(self, reading: Any) -> Floats:
        """The parts behind a size of noise: the bins' gaps, or the metric in every group or repeat."""
        if self.metric.base is None:
            return self.metric.noise(reading, self.constants)
        return np.asarray(self.metric.definition.source.readied(self.metric, reading, self.constants).values)


def _part_norm(metric: Metric) -> Callable[[Floats], Floats] | None:
    """The norm of its parts' noise, for the metrics that had a noise ball."""
    head = metric.definition.name
    if head == "ece":
        return lambda parts: np.abs(parts).sum(-1)
    if head == "fairness_gap":
        return lambda parts: np.nanmax(parts, -1) - np.nanmin(parts, -1)
    if head == "stability" and metric.label == "stddev":
        return lambda parts: parts.std(-1)
    return None


# -- estimates -----------------------------------------------------------------------------------------------------


def estimates(
    records: Records, metrics: Sequence[str], *, resamples: int, seed: int, level: float = 0.95
) -> dict[str, Estimated]:
    """Every metric of a table with the interval that the first edition gave it."""
    collector = Collector(records)
    asked = {name: metric_of(name) for name in metrics}
    readings = {name: Reading(m, collector, m.constants([records])) for name, m in asked.items()}
    resampled = {name: r for name, r in readings.items() if not math.isnan(r.value) and not r.is_score}
    drawn: dict[str, list[Any]] = {name: [] for name in resampled}
    if resampled:
        for block in Weights(len(collector.ids), resamples=resamples, seed=seed).blocks(500):
            draw = Draw(block)
            for name, reading in resampled.items():
                drawn[name].append(reading.under(draw))
    found = {}
    for name, reading in readings.items():
        interval = None
        if name in resampled:
            interval = _resampled_interval(reading, drawn[name], level)
        elif not math.isnan(reading.value):
            interval = _mean_interval(reading, level)
        found[name] = Estimated(reading.value, interval)
    return found


def _mean_interval(reading: Reading, level: float) -> Interval | None:
    totals, rows = reading.sums
    clusters = int(np.count_nonzero(rows))
    if clusters < 2:
        return None
    value, se = reading.value, _cluster_se(totals, rows)
    flat = se <= 1e-12 * abs(value) or se < 1e-300
    if not reading.is_share:
        half = _t(level, clusters) * se
        return None if flat else _within((value - half, value + half), reading)
    rarer = totals if value <= 0.5 else rows - totals
    effective = math.inf if flat else value * (1 - value) / se**2
    if np.count_nonzero(rarer > 0) < FEW:
        effective = min(effective, clusters)
    if not math.isfinite(effective) or effective <= 0:
        return None
    z2 = _t(level, clusters) ** 2
    centre = (value + z2 / (2 * effective)) / (1 + z2 / effective)
    half = math.sqrt(z2 * (value * (1 - value) / effective + z2 / (4 * effective**2))) / (1 + z2 / effective)
    return _containing((max(0.0, centre - half), min(1.0, centre + half)), value)


def _resampled_interval(reading: Reading, drawn: Sequence[Any], level: float) -> Interval | None:
    clusters = np.flatnonzero(reading.evidence.rows > 0)
    values = np.concatenate([v for v, _ in drawn])
    defined = values[~np.isnan(values)]
    if len(clusters) < 2 or len(defined) < 2 or np.ptp(defined) <= 1e-12 * abs(reading.value):
        return None
    size = len(clusters)
    if reading.part_norm is not None:
        moved = np.concatenate([d for _, d in drawn])
        moved = moved[~np.isnan(moved) & ~np.isnan(values)]
        wider = _t(level, size) / float(ndtri(0.5 + level / 2)) * math.sqrt(size / (size - 1))
        q = float(np.quantile(moved, level)) * wider
        return _within((max(0.0, reading.value - q), reading.value + q), reading)
    tail = float(ndtr(-math.sqrt(size / (size - 1)) * _t(level, size)))
    return _within(_bca(reading.value, defined, reading.left_out(clusters), tail), reading)


def _bca(value: float, replicates: Floats, left_out: Floats, tail: float) -> Interval:
    """Efron's bias-corrected and accelerated interval; percentiles where the bias correction is infinite."""
    below = (np.count_nonzero(replicates < value) + np.count_nonzero(replicates == value) / 2) / len(replicates)
    z = float(ndtri(tail))
    if not 0 < below < 1:
        return _percentiles(replicates, tail, 1 - tail)
    bias = float(ndtri(below))
    influence = left_out[~np.isnan(left_out)]
    centred = influence.mean() - influence if len(influence) else np.zeros(1)
    spread = float((centred**2).sum())
    acceleration = float((centred**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0
    shares = []
    for end in (z, -z):
        moved = bias + end
        room = 1 - acceleration * moved
        shares.append(float(ndtr(bias + moved / room)) if room > 0 else float(moved >= 0))
    return _percentiles(replicates, *sorted(shares))


def _percentiles(replicates: Floats, low: float, high: float) -> Interval:
    ends = np.percentile(replicates, [100 * low, 100 * high])
    return float(ends[0]), float(ends[1])


# -- deltas --------------------------------------------------------------------------------------------------------


def compared(
    base: Records, new: Records, name: str, *, resamples: int, seed: int, level: float = 0.95
) -> SegmentComparison:
    """A paired difference, with the verdict from what the first edition took it from.

    Metrics of answered rows: from the rows that both answered, where answer rates differ. Areas: from the area up to
    the coverage that both reach.
    """
    metric = metric_of(name)
    found = _measured(base, new, metric, resamples, seed, level)
    judged: SegmentComparison | None = found
    answered = base.outcome == ANSWERED, new.outcome == ANSWERED
    rates = [float(a.mean()) for a in answered]
    head = metric.definition.name
    if metric.population == "answered" and abs(rates[0] - rates[1]) > UNEQUAL_RATES:
        both = answered[0] & answered[1]
        judged = _measured(base.take(both), new.take(both), metric, resamples, seed, level) if both.any() else None
    unequal = rates[0] != rates[1] and min(rates) > 0
    if head in COMMON_AREA and unequal:
        options = {k: v for k, v in metric.values.items() if k not in ("ties", "c")}
        area = metric_of(COMMON_AREA[head]).definition(**options, c=min(rates))
        judged = _measured(base, new, area, resamples, seed, level)
    elif head in NO_COMMON_AREA and unequal:
        judged = None
    if judged is None:
        return replace(found, p_adjusted=None, verdict="inconclusive")
    return replace(found, p_adjusted=judged.p_value, verdict=judged.verdict)


def _measured(
    base: Records, new: Records, metric: Metric, resamples: int, seed: int, level: float
) -> SegmentComparison:
    ids, cluster = base.cluster
    constants = metric.constants((base, new))
    one, two = sides = [Reading(metric, Collector(t, ids=ids, cluster=cluster), constants) for t in (base, new)]
    delta = two.value - one.value
    present = np.flatnonzero((one.evidence.rows > 0) | (two.evidence.rows > 0))
    clusters = len(present)
    if math.isnan(delta) or clusters < 2:
        return SegmentComparison(delta, None, None, None, "inconclusive", "undefined")
    left_out = two.left_out(present) - one.left_out(present)
    interval, note = _delta_interval(sides, delta, left_out, level)
    p = _sign_flip_p(_flipped(sides, left_out, delta, present), resamples, seed)
    verdict = "inconclusive"
    if interval is not None and p <= 1 - level and clusters >= FEWEST_FOR_VERDICT and metric.better is not None:
        if interval[0] > 0:
            verdict = "better" if metric.better == "higher" else "worse"
        elif interval[1] < 0:
            verdict = "worse" if metric.better == "higher" else "better"
    shown = None if math.isnan(p) else p
    return SegmentComparison(delta, interval, shown, shown, verdict, note)


def _delta_interval(
    sides: Sequence[Reading], delta: float, left_out: Floats, level: float
) -> tuple[Interval | None, str]:
    clusters, se = len(left_out), _jackknife_se(left_out)
    interval: Interval | None = None
    if not math.isnan(se) and not (se <= 1e-12 * max(abs(s.value) for s in sides) or se < 1e-300):
        half = _t(level, clusters) * se
        interval = delta - half, delta + half
    low, high = sides[0].metric.bounds
    width = None if low is None or high is None else float(high) - float(low)
    if width is None and sides[0].constants.get("loss") in ("zero_one", "abs_norm"):
        width = 1.0
    different = int(sides[0].evidence.differs(sides[1].evidence).sum())
    note = ""
    if different < FEW and width is not None:
        margin = Z_SQUARE / (clusters + Z_SQUARE) * width
        near = interval or (delta, delta)
        interval = min(near[0], -margin), max(near[1], margin)
        note = f"only {different} clusters differ"
    return (None, "no interval") if interval is None else (_containing(interval, delta), note)


def _flipped(sides: Sequence[Reading], left_out: Floats, delta: float, present: npt.NDArray[np.int64]) -> Floats:
    """What a sign flip flips: a cluster's summed difference, else its jackknife pseudo-value."""
    if all(s.is_score for s in sides):
        (mine, my_rows), (theirs, their_rows) = (s.sums for s in sides)
        if (my_rows == their_rows).all():
            return (theirs - mine)[present]
    return len(left_out) * delta - (len(left_out) - 1) * left_out


def _sign_flip_p(differences: Floats, resamples: int, seed: int) -> float:
    d = differences[~np.isnan(differences)]
    if not len(d):
        return math.nan
    reach = abs(float(d.sum())) - 1e-9 * max(float(np.abs(d).sum()), 1e-300)
    if len(d) <= ALL_FLIPS:
        signs = ((np.arange(2 ** len(d))[:, None] >> np.arange(len(d))) & 1) * 2.0 - 1.0
        return float(np.mean(np.abs(signs @ d) >= reach))
    packed = words(seed ^ 0x5167, 0, resamples, (len(d) + 63) // 64)
    bits = np.unpackbits(packed.view(np.uint8), axis=1, bitorder="little")[:, : len(d)]
    return (1 + int(np.count_nonzero(np.abs((bits * 2.0 - 1.0) @ d) >= reach))) / (1 + resamples)


# -- gates ---------------------------------------------------------------------------------------------------------


def gate_p(records: Records, name: str, threshold: float) -> float:
    """The p-value beside a rule `metric <= threshold` on a row mean: Wald's, whatever made the interval."""
    metric = metric_of(name)
    reading = Reading(metric, Collector(records), metric.constants([records]))
    se = _cluster_se(*reading.sums)
    if se <= 0:
        return float(reading.value <= threshold)
    return float(stdtr(np.count_nonzero(reading.evidence.rows) - 1, (threshold - reading.value) / se))


# -- small parts ---------------------------------------------------------------------------------------------------


def _t(level: float, clusters: int) -> float:
    return float(stdtrit(clusters - 1, 0.5 + level / 2))


def _cluster_se(totals: Floats, rows: Floats) -> float:
    inside = rows > 0
    size = int(inside.sum())
    residual = totals[inside] - totals.sum() / rows.sum() * rows[inside]
    return math.sqrt(size / (size - 1) * float((residual**2).sum())) / float(rows.sum())


def _jackknife_se(left_out: Floats) -> float:
    defined = left_out[~np.isnan(left_out)]
    size = len(defined)
    return math.nan if size < 2 else math.sqrt((size - 1) / size * float(((defined - defined.mean()) ** 2).sum()))


def _within(interval: Interval, reading: Reading) -> Interval:
    """The interval cut to the metric's bounds and stretched to its value."""
    low, high = reading.metric.bounds
    cut = (
        interval[0] if low is None else max(interval[0], float(low)),
        interval[1] if high is None else min(interval[1], float(high)),
    )
    return _containing(cut, reading.value)


def _containing(interval: Interval, value: float) -> Interval:
    return min(interval[0], value), max(interval[1], value)
