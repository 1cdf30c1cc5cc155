"""One table, several metrics: each value with its interval, its denominator and what was left out.

The evidence is collected once, the weights are drawn once, and every metric is read from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from steelyard.errors import UsageError
from steelyard.metrics.combined import Groups
from steelyard.metrics.definition import UNIT, Metric
from steelyard.metrics.evidence import Draw, Sums
from steelyard.metrics.sources import Collector
from steelyard.records.table import Records
from steelyard.uncertainty import intervals
from steelyard.uncertainty.intervals import Interval
from steelyard.uncertainty.jackknife import leave_one_out
from steelyard.uncertainty.weights import STREAMS, Weights

Floats = npt.NDArray[np.float64]

MOST_RESAMPLES = 10_000_000
METHODS = ("auto", "percentile", "bca", "plain")
FEW_CLUSTERS = 20
TOLERATED_UNDEFINED = 0.05
_BLOCK_NUMBERS = 4_000_000

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Settings:
    """How uncertainty is computed; with the data, all that a result depends on."""

    resamples: int = 10_000
    seed: int = 42
    level: float = 0.95
    method: str = "auto"
    stream: str = "counter"

    def __post_init__(self) -> None:
        if self.resamples and not 100 <= self.resamples <= MOST_RESAMPLES:
            raise UsageError(f"resamples is at least 100 and at most {MOST_RESAMPLES:,}, or 0 for none")
        if not 0 <= self.seed < 2**32:
            raise UsageError("seed is a whole number from 0 to 4294967295")
        if not 0.5 <= self.level < 1:
            raise UsageError("level is at least 0.5 and below 1, such as 0.95")
        if self.method not in METHODS:
            raise UsageError(f"method is one of {', '.join(METHODS)}")
        if self.stream not in STREAMS:
            raise UsageError(f"stream is one of {', '.join(STREAMS)}")
        if self.stream == "legacy" and self.method == "bca":
            raise UsageError("the legacy stream is documented with plain percentile intervals; drop method=bca")

    @property
    def by_family(self) -> bool:
        """True where each family of metrics has its own method."""
        return self.method == "auto" and self.stream == "counter"

    @property
    def percentiles(self) -> bool:
        """True where intervals are percentiles of the resampled values."""
        return self.method in ("percentile", "plain") or self.stream == "legacy"

    @property
    def unstretched(self) -> bool:
        """True where a percentile interval is left as it comes, not stretched to what it should allow for."""
        return self.method == "plain" or self.stream == "legacy"


@dataclass(frozen=True)
class Estimate:
    """A metric's value on a slice, how sure it is, and what it counted."""

    metric: str
    slice: Mapping[str, Any]
    value: float | None
    se: float | None
    interval: Interval | None
    level: float
    method: str
    n: int
    clusters: int
    excluded: Mapping[str, int]
    undefined_resamples: int
    better: str | None
    unit: str
    note: str
    detail: Any = None


class Reads(Protocol):
    """Where evidence is read from: a table's collector, or what a run kept."""

    @property
    def unit(self) -> Draw: ...

    def evidence(self, metric: Metric, constants: Mapping[str, Any]) -> Any: ...


@dataclass
class Sample:
    """A metric's evidence on one table, and what resampling it gave."""

    metric: Metric
    constants: Mapping[str, Any]
    evidence: Any
    value: float = math.nan
    vector: Floats | None = None
    whole: npt.NDArray[np.bool_] | None = None
    detail: Any = None
    replicates: list[Floats] = field(default_factory=list)
    distances: list[Floats] = field(default_factory=list)
    left_out: Floats = field(default_factory=lambda: np.empty(0))

    def finish(self, reading: Any) -> Floats:
        """The metric under each resample of a reading."""
        return self.metric.finished(reading, self.constants)

    def read(self, draw: Draw) -> Floats:
        """The metric under each resample; NaN where it is undefined or lacks a class of the full data."""
        reading = draw.read(self.evidence)
        values = self.finish(reading)
        if self.whole is not None:
            present = self.metric.present(reading, self.constants)
            assert present is not None
            values = np.where((self.whole & ~present).any(-1), np.nan, values)
        return values

    def take(self, draw: Draw) -> None:
        values = self.read(draw)
        self.replicates.append(values)
        if self.vector is not None:
            assert self.metric.norm is not None
            moved = self.metric.noise(draw.read(self.evidence), self.constants) - self.vector
            self.distances.append(self.metric.norm(np.where(np.isnan(self.vector), np.nan, moved)))

    @property
    def clusters(self) -> int:
        """Clusters that contribute rows."""
        return int(np.count_nonzero(self.evidence.rows))

    @property
    def is_score(self) -> bool:
        return isinstance(self.evidence, Sums) and self.evidence.is_score


def sample(metric: Metric, collector: Reads, constants: Mapping[str, Any]) -> Sample:
    """Collect a metric's evidence and read its value."""
    evidence = collector.evidence(metric, constants)
    found = Sample(metric, constants, evidence)
    reading = collector.unit.read(evidence)
    found.value = float(metric.finished(reading, constants)[0])
    present = metric.present(reading, constants)
    found.whole = None if present is None else present[0]
    if metric.norm is not None and not math.isnan(found.value):
        found.vector = metric.noise(reading, constants)[0]
    if int(evidence.rows.sum()):
        found.detail = metric.detail(reading, constants)
    return found


def estimates(
    records: Records,
    metrics: Sequence[Metric],
    settings: Settings,
    slice_: Mapping[str, Any],
    progress: Progress | None = None,
) -> list[tuple[Estimate, Sample]]:
    """Every metric on one table, and the sample that it was read from."""
    collector = Collector(records)
    samples = [sample(metric, collector, metric.constants([records])) for metric in metrics]
    resampled = [s for s in samples if _needs_resampling(s, settings)]
    resample(resampled, len(collector.ids), settings, progress)
    if not settings.percentiles:
        jackknife([s for s in resampled if s.vector is None or not settings.by_family])
    return [(_estimate(s, settings, slice_), s) for s in samples]


def resample(samples: Sequence[Sample], clusters: int, settings: Settings, progress: Progress | None = None) -> None:
    """Read every sample under the same weights, block by block."""
    if not samples:
        return
    weights = Weights(clusters, resamples=settings.resamples, seed=settings.seed, stream=settings.stream)
    widths = {id(s.evidence): s.evidence.width for s in samples}
    width = max(sum(widths.values()), clusters, 1)
    size = max(16, min(settings.resamples, _BLOCK_NUMBERS // width) // 16 * 16)
    done = 0
    for block in weights.blocks(size):
        draw = Draw(block)
        for s in samples:
            s.take(draw)
        done += len(block)
        if progress is not None:
            progress(done / settings.resamples)


def jackknife(samples: Sequence[Sample]) -> None:
    """Leave-one-out values of every sample; what shares evidence is read once."""
    groups: dict[int, list[Sample]] = {}
    for s in samples:
        groups.setdefault(id(s.evidence), []).append(s)
    for together in groups.values():
        found = leave_one_out(together[0].evidence, [s.finish for s in together])
        for s, values in zip(together, found, strict=True):
            s.left_out = values


def _needs_resampling(s: Sample, settings: Settings) -> bool:
    if math.isnan(s.value) or s.clusters < 2 or not settings.resamples:
        return False
    if settings.by_family:
        return not s.is_score and not no_interval(s)
    return not s.metric.definition.by_cluster


def no_interval(s: Sample) -> str:
    """Why the metric has no honest interval, or nothing."""
    reason = s.metric.definition.no_interval
    return reason if isinstance(reason, str) else reason(s.evidence, s.value, s.metric.label)


def _estimate(s: Sample, settings: Settings, slice_: Mapping[str, Any]) -> Estimate:
    metric, notes = s.metric, []
    if math.isnan(s.value):
        interval, se, method, undefined = None, None, "none", 0
        notes.append(undefined_reason(s))
    else:
        interval, se, method, undefined, reason = _interval(s, settings)
        if reason:
            notes.append(reason)
        if undefined > TOLERATED_UNDEFINED * settings.resamples:
            notes.append(f"undefined in {undefined} of {settings.resamples} resamples: the interval is doubtful")
        if isinstance(s.evidence, Groups) and s.whole is not None and not s.whole.all():
            notes.append(f"{int((~s.whole).sum())} groups are undefined and left out")
        if isinstance(s.evidence, Groups) and s.evidence.ungrouped:
            notes.append(f"{s.evidence.ungrouped} rows have no group and count in the whole only")
        if 2 <= s.clusters < FEW_CLUSTERS and interval is not None:
            notes.append(f"only {s.clusters} clusters: the interval may be too narrow")
    better = s.constants.get("better") or metric.better
    return Estimate(
        metric.name,
        dict(slice_),
        None if math.isnan(s.value) else s.value,
        None if se is None or math.isnan(se) else se,
        interval,
        settings.level,
        method,
        int(s.evidence.rows.sum()),
        s.clusters,
        dict(s.evidence.excluded),
        undefined,
        better,
        metric.unit,
        "; ".join(notes),
        s.detail,
    )


def undefined_reason(s: Sample) -> str:
    """Why a value is undefined."""
    if not int(s.evidence.rows.sum()):
        lost = ", ".join(f"{n} {reason}" for reason, n in s.evidence.excluded.items())
        return f"undefined: no row counts ({lost})" if lost else "undefined: no row counts"
    return (
        f"undefined: {s.constants.get('undefined') or s.metric.definition.undefined or 'the data do not determine it'}"
    )


def _interval(s: Sample, settings: Settings) -> tuple[Interval | None, float | None, str, int, str]:
    """Interval, standard error, method, undefined resamples and a reason where there is no interval."""
    if s.clusters < 2:
        return None, None, "none", 0, "fewer than 2 clusters: no interval"
    if s.is_score and settings.by_family:
        return _score_interval(s, settings)
    reason = no_interval(s)
    if reason and (settings.by_family or s.metric.definition.by_cluster):
        return None, None, "none", 0, f"no interval: {reason}"
    if not settings.resamples:
        return None, None, "none", 0, "no interval: no resamples were asked for"
    drawn = np.concatenate(s.replicates)
    defined = drawn[~np.isnan(drawn)]
    undefined = len(drawn) - len(defined)
    if len(defined) < 2:
        return None, None, "none", undefined, "no interval: undefined in nearly every resample"
    se = score_se(s.evidence) if s.is_score else float(defined.std(ddof=1))
    if intervals.no_spread(float(defined.max() - defined.min()), s.value):
        return None, se, "none", undefined, "no interval: every resample gives the same value"
    if settings.percentiles:
        found = intervals.percentile(defined, intervals.tail_of(settings.level))
        kept = found if settings.unstretched else intervals.containing(found, s.value)
        return kept, se, "percentile", undefined, ""
    if settings.by_family and s.vector is not None:
        moved = np.concatenate(s.distances)
        moved = moved[~np.isnan(moved) & ~np.isnan(drawn)]
        found = intervals.ball(s.value, moved, s.clusters, settings.level)
        return _within(found, s), se, "ball", undefined, ""
    level = settings.level
    tail = intervals.expanded_tail(level, s.clusters) if settings.by_family else intervals.tail_of(level)
    found = intervals.bca(s.value, defined, s.left_out, tail)
    return _within(found, s), se, "bca", undefined, ""


def _score_interval(s: Sample, settings: Settings) -> tuple[Interval | None, float | None, str, int, str]:
    evidence: Sums = s.evidence
    se = score_se(evidence)
    definition = s.metric.definition
    share = definition.share if definition.share is not None else definition.bounds == UNIT
    if not (evidence.binary and share):
        if intervals.no_spread(se, s.value):
            return None, se, "none", 0, "no interval: every cluster has the same value"
        return _within(intervals.student(s.value, se, s.clusters, settings.level), s), se, "t", 0, ""
    totals, rows = _score_sums(evidence)
    rarer = totals if s.value <= 0.5 else rows - totals
    minority = int(np.count_nonzero(rarer > 0))
    spread = 0.0 if intervals.no_spread(se, s.value) else se
    found = intervals.wilson(s.value, spread, s.clusters, minority, settings.level)
    if found is None:
        return None, se, "none", 0, "no interval: every cluster has the same share"
    return intervals.containing(found, s.value), se, "wilson", 0, ""


def score_se(evidence: Sums) -> float:
    """The cluster standard error of a row score."""
    return intervals.cluster_se(*_score_sums(evidence))


def _score_sums(evidence: Sums) -> tuple[Floats, Floats]:
    return np.asarray(evidence.cells[:, 0], float), np.asarray(evidence.cells[:, 1], float)


def _within(interval: Interval, s: Sample) -> Interval:
    """The interval cut to the metric's bounds and stretched to its value."""
    low, high = s.metric.bounds
    cut = (
        interval[0] if low is None else max(interval[0], float(low)),
        interval[1] if high is None else min(interval[1], float(high)),
    )
    return intervals.containing(cut, s.value)
