"""One table, several metrics: each value with its interval, its denominator and what was left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from steelyard.metrics.combined import Groups
from steelyard.metrics.definition import Metric
from steelyard.metrics.sources import Collector
from steelyard.records.table import Records
from steelyard.uncertainty import intervals
from steelyard.uncertainty.groups import (
    GroupRule,
    disparity_rule,
    gap_rule,
    groups_without_value,
    named,
    named_samples,
    worst_rule,
)
from steelyard.uncertainty.intervals import Interval, Rule, Sparse
from steelyard.uncertainty.sampling import Progress, Sample, jackknife, resample, sample
from steelyard.uncertainty.scarcity import FEW_CLUSTERS, Scarcity, scarcity
from steelyard.uncertainty.settings import Settings
from steelyard.wire import plain

Floats = npt.NDArray[np.float64]

TOLERATED_UNDEFINED = 0.05
_SHORT_OF_FREEDOM = 0.25  # degrees of freedom per cluster below which a few clusters carry the spread

# What keeps a rule from reading a number as it stands; a closed vocabulary, written to artifacts.
Caution = Literal[
    "scarce",  # parts in few clusters carry the value: the interval is not usable
    "doubtful",  # undefined in too many resamples, or without one of the clusters: the interval is not usable
    "open low",  # nothing is known of this end
    "open high",
    "missing group",  # a group has no value: no rule passes
    "lost clusters",  # kept runs lost too many clusters with the rows that failed or lack values: no rule passes
    "unequal missing",  # the runs lack values in different shares of their rows: no rule passes
    "constant",  # every cluster differs by the same: there is no interval, and the test alone decides
    "twin worse",  # the metric that stands in for this one is shown to be worse: no rule passes
]

BARS: dict[Caution, str] = {  # cautions under which a number stands for nothing: no rule passes, no run is promoted
    "missing group": "a group has no value",
    "unequal missing": "the runs lack values in different shares of their rows",
    "lost clusters": "more than a fifth of the rows left with clusters in which others failed or lack values",
    "twin worse": "calibration_error2 is shown to be worse",
}


def barred_by(cautions: Sequence[Caution]) -> str:
    """Why a number stands for nothing, or nothing."""
    return next((reason for caution, reason in BARS.items() if caution in cautions), "")


@dataclass(frozen=True)
class Estimate:
    """A metric's value on a slice, how sure it is, and what it counted.

    `n` rows count in this metric. `n_predictions` are the rows of the slice with a reply (answered, abstained or
    unparsed), `n_abstained` those of them where the model declined, whether they count as wrong here or are left out;
    None where that is not known, as of an estimate that an earlier version wrote.
    """

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
    clusters_scarcest: int | None = None
    cautions: tuple[Caution, ...] = ()
    n_abstained: int | None = None
    n_predictions: int | None = None
    n_missing: int | None = None  # rows whose outcome counts, but which lack a value that the metric reads
    rule: Rule | None = field(default=None, compare=False, repr=False)  # the interval at other levels

    @property
    def missing_share(self) -> float:
        """The share of the asked rows that lack a value that the metric reads; 0 where that is not known."""
        return self.n_missing / self.n_predictions if self.n_missing and self.n_predictions else 0.0

    @property
    def n_evaluated(self) -> int:
        """The rows that count, under the name that other documents know it by."""
        return self.n

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as in `evaluation.json`; `method` is the family's word, `variant` what exactly was done."""
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.repr}  # rules are not shown
        return plain({**shown, "n_evaluated": self.n_evaluated, "variant": self.shown_method})

    @property
    def shown_method(self) -> str:
        """The method as people read it."""
        return shown_method(self.method)


def shown_method(method: str) -> str:
    """The method as people read it: Wilson's interval is the one with t for z."""
    return "wilson-t" if method == "wilson" else method


@dataclass(frozen=True)
class _Made:
    """An interval's rule and what must be said with it."""

    rule: Rule | None
    se: float | None = None
    undefined: int = 0
    notes: tuple[str, ...] = ()
    cautions: tuple[Caution, ...] = ()
    bounds: tuple[float | None, float | None] = (None, None)
    stretched: bool = True

    def at(self, level: float, value: float) -> Interval | None:
        if self.rule is None:
            return None
        found = self.rule.at(level)
        return intervals.within(found, self.bounds, value) if self.stretched else found


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
    counts = records.counts()
    asked = sum(counts.values()) - counts["failed"]
    found = [
        replace(e, n_abstained=counts["abstained"], n_predictions=asked, n_missing=missing_rows(s))
        for e, s in zip(estimates_of(samples, settings, slice_, progress), samples, strict=True)
    ]
    return list(zip(found, samples, strict=True))


def missing_rows(s: Sample) -> int:
    """The rows that lack a value that the metric reads, or the group that it compares."""
    ungrouped = s.evidence.ungrouped if isinstance(s.evidence, Groups) else 0
    return int(s.side.missing_rows(s.metric, s.constants)) + int(ungrouped)


def estimates_of(
    samples: Sequence[Sample], settings: Settings, slice_: Mapping[str, Any], progress: Progress | None = None
) -> list[Estimate]:
    """The estimates of samples on one list of clusters."""
    inner = {
        id(s): named_samples(s) for s in samples if s.metric.definition.over_groups == "worst" and settings.by_family
    }
    each = [*samples, *(part for parts in inner.values() for part in parts.values())]
    resampled = [s for s in each if _needs_resampling(s, settings)]
    resample(resampled, settings, progress)
    if not settings.percentiles:
        jackknife([s for s in resampled if s.vector is None or not settings.by_family])
    jackknife([s for s in each if _by_jackknife(s) and (settings.by_family or _never_resampled(s))])
    return [_estimate(s, settings, slice_, inner.get(id(s), {})) for s in samples]


def _by_jackknife(s: Sample) -> bool:
    """True where the standard error is the jackknife's, and no resample is needed."""
    return bool(s.metric.definition.spread) and not s.is_score and _has_spread(s)


def _never_resampled(s: Sample) -> bool:
    """True where a bootstrap is off by just what the metric is free of, whatever method is asked for."""
    return s.metric.definition.spread == "t"


def _has_spread(s: Sample) -> bool:
    return not math.isnan(s.value) and s.clusters > 1


def _needs_resampling(s: Sample, settings: Settings) -> bool:
    if not _has_spread(s) or not settings.resamples:
        return False
    if _never_resampled(s):
        return False
    if not settings.by_family:
        return not (s.metric.definition.by_cluster and s.metric.definition.no_interval)
    known = s.is_score or s.metric.definition.spread or s.metric.definition.over_groups or s.metric.definition._shares
    return not known and not no_interval(s)


def no_interval(s: Sample) -> str:
    """Why the metric has no honest interval, or nothing."""
    reason = s.metric.definition.no_interval
    return reason if isinstance(reason, str) else reason(s.evidence, s.value, s.metric.label)


def _estimate(s: Sample, settings: Settings, slice_: Mapping[str, Any], groups: Mapping[Any, Sample]) -> Estimate:
    metric, notes = s.metric, []
    cautions: list[Caution] = []
    parts = scarcity([s])
    made = _Made(None)
    interval = None
    if math.isnan(s.value):
        notes.append(undefined_reason(s))
    else:
        made = _made(s, settings, parts, groups)
        interval = made.at(settings.level, s.value)
        notes += made.notes
        cautions += made.cautions
        if made.undefined > TOLERATED_UNDEFINED * settings.resamples:
            doubt = ": the interval is doubtful" if interval is not None else ""
            notes.append(f"undefined in {made.undefined} of {settings.resamples} resamples{doubt}")
            cautions.append("doubtful")
        if isinstance(s.evidence, Groups):
            group_notes, group_cautions = _about_groups(s)
            notes += group_notes
            cautions += group_cautions
        more, also = about_scarcity(parts, s.clusters, with_interval=interval is not None)
        notes += more
        cautions += also
    return Estimate(
        metric.name,
        dict(slice_),
        None if math.isnan(s.value) else s.value,
        None if made.se is None or math.isnan(made.se) else made.se,
        interval,
        settings.level,
        "none" if made.rule is None else made.rule.method,
        int(s.evidence.rows.sum()),
        s.clusters,
        dict(s.evidence.excluded),
        made.undefined,
        s.constants.get("better") or metric.better,
        metric.unit,
        "; ".join(notes),
        s.detail,
        parts.fewest,
        tuple(dict.fromkeys(cautions)),
        rule=None if made.rule is None else Rule(made.rule.method, _ends(made, s.value), made.rule.least),
    )


def _ends(made: _Made, value: float) -> Any:
    return lambda level: made.at(level, value)


def _about_groups(s: Sample) -> tuple[list[str], list[Caution]]:
    """What must be said of groups: those without a value, and rows without a group."""
    notes: list[str] = []
    cautions: list[Caution] = []
    lost = groups_without_value(s)
    if lost:
        notes.append(f"{named(lost)} left out: the metric is undefined there")
        if s.metric.definition.over_groups in ("gap", "worst"):
            cautions.append("missing group")
    if s.evidence.ungrouped:
        notes.append(f"{s.evidence.ungrouped} rows have no group and count in the whole only")
    return notes, cautions


def about_scarcity(parts: Scarcity, clusters: int, *, with_interval: bool) -> tuple[list[str], list[Caution]]:
    """What must be said of a number that stands on few clusters."""
    if parts.scarce and parts.fewest < clusters:
        return [f"a part of it sits in {parts.fewest} clusters only: too few for a verdict or a gate"], ["scarce"]
    if parts.scarce:
        return [f"only {clusters} clusters: too few for a verdict or a gate"], ["scarce"]
    if with_interval and (parts.few or 2 <= clusters < FEW_CLUSTERS):
        where = (
            f"only {clusters} clusters" if clusters < FEW_CLUSTERS else f"a part of it sits in {parts.fewest} clusters"
        )
        return [f"{where}: the interval may be too narrow"], []
    return [], []


def undefined_reason(s: Sample) -> str:
    """Why a value is undefined."""
    if not int(s.evidence.rows.sum()):
        lost = ", ".join(f"{n} {reason}" for reason, n in s.evidence.excluded.items())
        return f"undefined: no row counts ({lost})" if lost else "undefined: no row counts"
    return (
        f"undefined: {s.constants.get('undefined') or s.metric.definition.undefined or 'the data do not determine it'}"
    )


# -- which rule ----------------------------------------------------------------------------------------------------


def _made(s: Sample, settings: Settings, parts: Scarcity, groups: Mapping[Any, Sample]) -> _Made:
    """The rule of the metric's family, or the method that was asked for."""
    definition = s.metric.definition
    if s.clusters < 2:
        return _Made(None, notes=("fewer than 2 clusters: no interval",))
    if settings.by_family:
        if s.is_share:
            return _share(s)
        if s.is_score:
            return _score(s)
        if definition.over_groups:
            return _of_groups(s, settings, groups)
        if definition._shares is not None:
            return _shares(s)
        if definition.spread:
            return _jackknifed(s, settings, parts)
    if _never_resampled(s):
        return _jackknifed(s, settings, parts)
    reason = no_interval(s)
    if reason and (settings.by_family or (definition.by_cluster and definition.no_interval)):
        return _Made(None, notes=(f"no interval: {reason}",))
    if not settings.resamples:
        return _Made(None, notes=("no interval: no resamples were asked for",))
    return _resampled(s, settings, parts)


def _share(s: Sample) -> _Made:
    """A share of rows: Wilson's interval with the number of rows that the spread between clusters implies."""
    totals, rows = s.score_sums
    se = intervals.cluster_se(totals, rows)
    rarer = totals if s.value <= 0.5 else rows - totals
    minority = int(np.count_nonzero(rarer > 0))
    spread = 0.0 if intervals.no_spread(se, s.value) else se
    count = intervals.effective_rows(s.value, spread, s.clusters, minority)
    if count is None:
        return _Made(None, se, notes=("no interval: every cluster has the same share",))
    return _Made(Rule("wilson", lambda level: intervals.wilson_of(s.value, count, s.clusters, level)), se)


def _score(s: Sample) -> _Made:
    """Another row mean: t, on a log scale where it cannot be negative, and room for rare clusters where bounded."""
    totals, rows = s.score_sums
    inside = rows > 0
    se = intervals.cluster_se(totals, rows)
    worth = intervals.effective_clusters((totals - s.value * rows)[inside])
    limits, bounds = s.limits, s.metric.bounds
    log = (s.metric.definition.spread == "log-t" or bounds == (0, None)) and s.value > 0
    steady = intervals.no_spread(se, s.value)
    if steady and limits is None:
        return _Made(None, se, notes=("no interval: every cluster has the same value",))
    plain = intervals.log_student if log else intervals.student
    method = "log-t" if log else "t"
    notes = () if steady else _carried(worth, s.clusters)
    if limits is None:
        rule = Rule(method, lambda level: plain(s.value, se, worth, level))
        return _Made(rule, se, notes=notes, bounds=bounds)
    sparse = Sparse.of(totals, rows, *limits)
    spread = 0.0 if steady else se
    rule = Rule(method, lambda level: sparse.widened(plain(s.value, spread, worth, level), level))
    return _Made(rule, se, notes=notes, bounds=limits)


def _carried(worth: float, clusters: int) -> tuple[str, ...]:
    few = worth - 1 < _SHORT_OF_FREEDOM * clusters
    return ("a few clusters carry the spread",) if few else ()


def _of_groups(s: Sample, settings: Settings, groups: Mapping[Any, Sample]) -> _Made:
    """A gap, the worst group, or one group against the whole."""
    kind = s.metric.definition.over_groups
    undefined = 0
    found: GroupRule
    if kind == "gap":
        found = gap_rule(s)
    elif kind == "disparity":
        found = disparity_rule(s)
    else:
        own = {name: _made(part, settings, scarcity([part]), {}) for name, part in groups.items()}
        undefined = max((made.undefined for made in own.values()), default=0)  # the worst group is no surer than any
        found = worst_rule(s, [(name, part, own[name].rule) for name, part in groups.items()])
    notes = (*((found.reason,) if found.reason else ()), *found.notes)
    end: tuple[Caution, ...] = ("open high",) if found.open_end == "high" else ()
    end = ("open low",) if found.open_end == "low" else end
    return _Made(found.rule, found.se, undefined, notes=notes, cautions=end)


def _shares(s: Sample) -> _Made:
    """A mean of shares: every share with the spread of its own clusters."""
    found = s.metric.shares(s.evidence)
    assert found is not None
    _, se, worth = intervals.shares(*found)
    if math.isnan(se) or se <= 0:
        return _Made(None, notes=("no interval: a part of it sits in a single cluster",))
    return _Made(Rule("t", lambda level: intervals.student(s.value, se, worth, level)), se, bounds=s.metric.bounds)


def _jackknifed(s: Sample, settings: Settings, parts: Scarcity) -> _Made:
    """A smooth function whose bootstrap is off: t times the jackknife's standard error."""
    if np.isnan(s.left_out).any():
        lost = int(np.isnan(s.left_out).sum())
        return _Made(None, notes=(f"no interval: undefined without one of {lost} clusters",), cautions=("doubtful",))
    influence = intervals.jackknife_influences(s.left_out)
    se = intervals.jackknife_se(s.left_out)
    if intervals.no_spread(se, s.value):
        return _at_bound(s, settings, se, 0, parts)
    spread = s.metric.definition.spread
    worth = float(s.clusters) if spread == "t" else intervals.effective_clusters(influence)
    log = spread == "log-t" and s.value > 0
    plain = intervals.log_student if log else intervals.student
    rule = Rule("log-t" if log else "t", lambda level: plain(s.value, se, worth, level))
    return _Made(rule, se, notes=() if spread == "t" else _carried(worth, s.clusters), bounds=s.metric.bounds)


def _resampled(s: Sample, settings: Settings, parts: Scarcity) -> _Made:
    """What only resampling can tell: BCa, the noise ball of a norm, or percentiles on request."""
    drawn = s.drawn
    defined = drawn[~np.isnan(drawn)]
    undefined = len(drawn) - len(defined)
    if len(defined) < 2:
        return _Made(None, undefined=undefined, notes=("no interval: undefined in nearly every resample",))
    se = intervals.cluster_se(*s.score_sums) if s.is_score else float(defined.std(ddof=1))
    if intervals.no_spread(float(defined.max() - defined.min()), s.value):
        return _at_bound(s, settings, se, undefined, parts)
    bounds = s.metric.bounds
    if settings.percentiles:
        tail = intervals.tail_of
        at = intervals.quantiles(defined)
        rule = Rule("percentile", lambda level: (at(tail(level)), at(1 - tail(level))), 2 / (len(defined) + 1))
        return _Made(rule, se, undefined, stretched=not settings.unstretched)
    if settings.by_family and s.vector is not None:
        ball = _ball(s, drawn)
        lost = () if ball is not None else ("no interval: the mean that it is relative to is 0",)
        return _Made(ball, se, undefined, lost, bounds=bounds)
    if settings.by_family:
        return _Made(intervals.bca_rule(s.value, defined, s.left_out, s.clusters), se, undefined, bounds=bounds)
    ends = partial(intervals.bca, s.value, defined, s.left_out)
    rule = Rule("bca", lambda level: ends(intervals.tail_of(level)), 2 / (len(defined) + 1))
    return _Made(rule, se, undefined, bounds=bounds)


def _at_bound(s: Sample, settings: Settings, se: float, undefined: int, parts: Scarcity) -> _Made:
    """Every resample gives the same value: at a bound, what so many clusters could have missed; elsewhere nothing."""
    limits = s.limits
    at = (
        None
        if limits is None or not settings.by_family
        else next((b for b in limits if math.isclose(b, s.value, abs_tol=1e-12)), None)
    )
    if at is None or limits is None or not parts.fewest:
        return _Made(None, se, undefined, ("no interval: every cluster, or every resample, gives the same value",))
    low, high = limits

    def ends(level: float) -> Interval:
        unseen = (1 - ((1 - level) / 2) ** (1 / parts.fewest)) * (high - low)
        return (high - unseen, high) if at == high else (low, low + unseen)

    return _Made(Rule("bound", ends), se, undefined, bounds=limits)


def _ball(s: Sample, drawn: Floats) -> Rule | None:
    """The noise ball of a norm; where the vector has a second row, its ball says whether the lower end is 0."""
    assert s.metric.norm is not None
    assert s.vector is not None
    moved = np.concatenate(s.distances)
    defined = ~np.isnan(drawn)
    if moved.ndim == 1:
        distances = moved[defined & ~np.isnan(moved)]
        ends_ = partial(intervals.ball, s.value, distances, s.clusters)
        return Rule("ball", ends_, 1 / (len(distances) + 1)) if len(distances) else None
    distances, anchors = (moved[defined & ~np.isnan(moved).any(-1), i] for i in range(2))
    if not len(distances):
        return None
    size, anchor = (float(v) for v in s.metric.norm(s.vector))
    turned = s.metric.better == "higher"  # the value is 1 − the norm

    def ends(level: float) -> Interval:
        low, high = intervals.ball(size, distances, s.clusters, level)
        above = intervals.ball(anchor, anchors, s.clusters, level)[0]
        low = 0.0 if above == 0 else low if low > 0 else size * above / anchor
        return (1 - high, 1 - low) if turned else (low, high)

    return Rule("ball", ends, 1 / (len(distances) + 1))
