"""Which interval a metric's value has: the rule of its family, or the method that was asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from steelyard.errors import counted
from steelyard.ground.arrays import Codes, Floats
from steelyard.metrics.evidence.by_task import Tasks
from steelyard.uncertainty import intervals
from steelyard.uncertainty.groups import disparity_rule, gap_rule, gaps_rule, ratio_rule, worst_rule
from steelyard.uncertainty.intervals import Interval, Rule, Worth
from steelyard.uncertainty.measures import unseen
from steelyard.uncertainty.number import Caution
from steelyard.uncertainty.sampling import Sample
from steelyard.uncertainty.scarcity import Scarcity, scarcity
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.sparse import Sparse

_SHORT_OF_FREEDOM = 0.25  # degrees of freedom per cluster below which a few clusters carry the spread


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How far a value may be off: the rule of its interval, and what must be said with it."""

    rule: Rule | None
    se: float = math.nan
    undefined: int = 0  # resamples without a value
    notes: tuple[str, ...] = ()
    cautions: tuple[Caution, ...] = ()
    bounds: tuple[float | None, float | None] = (None, None)
    stretched: bool = True  # whether the interval is made to hold the value and kept within the bounds

    def at(self, level: float, value: float) -> Interval | None:
        """The interval at a level."""
        if self.rule is None:
            return None
        ends = self.rule.at(level)
        return intervals.within(ends, self.bounds, value) if self.stretched else ends


def by_jackknife(s: Sample) -> bool:
    """True where the standard error is the jackknife's, and no resample is needed."""
    return bool(s.metric.spread) and not s.is_score and has_spread(s)


def never_resampled(s: Sample) -> bool:
    """True where a bootstrap is off by just what the metric is free of, whatever method is asked for."""
    return s.metric.spread == "t"


def has_spread(s: Sample) -> bool:
    """True if there is a value, in more than one cluster."""
    return not math.isnan(s.value) and s.clusters > 1


def needs_resampling(s: Sample, settings: Settings) -> bool:
    """True if the interval is made from resamples."""
    if not has_spread(s) or not settings.resamples:
        return False
    if never_resampled(s):
        return False
    if not settings.by_family:
        return not (s.metric.by_cluster and s.metric.no_interval)
    known = s.is_score or s.metric.spread or s.metric.over_groups or s.metric.is_mean_of_shares
    return not known and not no_interval(s)


def no_interval(s: Sample) -> str:
    """Why the metric has no honest interval, or nothing."""
    reason = s.metric.no_interval
    return reason if isinstance(reason, str) else reason(s.evidence, s.value, s.metric.label)


def spread_of(s: Sample, settings: Settings, parts: Scarcity, groups: Mapping[Any, Sample]) -> Spread:
    """The rule of the metric's family, or the method that was asked for."""
    metric = s.metric
    if s.clusters < 2:
        return Spread(rule=None, notes=("fewer than 2 clusters: no interval",))
    if settings.by_family:
        if s.is_share:
            return _share(s)
        if s.is_score:
            return _score(s)
        if metric.over_groups:
            return _of_groups(s, settings, groups)
        if metric.is_mean_of_shares:
            return _shares(s)
        if metric.spread:
            return _jackknifed(s, settings, parts)
    if never_resampled(s):
        return _jackknifed(s, settings, parts)
    reason = no_interval(s)
    if reason and (settings.by_family or (metric.by_cluster and metric.no_interval)):
        return Spread(rule=None, notes=(f"no interval: {reason}",))
    if not settings.resamples:
        return Spread(rule=None, notes=("no interval: no resamples were asked for",))
    return _resampled(s, settings, parts)


def _share(s: Sample) -> Spread:
    """A share of rows: Wilson's interval with the number of rows that the spread between clusters implies."""
    totals, rows = s.score_sums
    se = intervals.cluster_se(totals, rows)
    rarer = totals if s.value <= 0.5 else rows - totals
    minority = int(np.count_nonzero(rarer > 0))
    spread = 0.0 if intervals.no_spread(se, s.value) else se
    count = intervals.effective_rows(s.value, spread, s.clusters, minority)
    if count is None:
        return Spread(rule=None, se=se, notes=("no interval: every cluster has the same share",))
    return Spread(rule=Rule("wilson", lambda level: intervals.wilson_of(s.value, count, s.clusters, level)), se=se)


def _score(s: Sample) -> Spread:
    """Another row mean: t, on a log scale where it cannot be negative, and room for rare clusters where bounded."""
    totals, rows = s.score_sums
    inside = rows > 0
    se = intervals.cluster_se(totals, rows)
    worth = intervals.effective_clusters((totals - s.value * rows)[inside])
    limits, bounds = s.limits, s.metric.bounds
    log = (s.metric.spread == "log-t" or bounds == (0, None)) and s.value > 0
    steady = intervals.no_spread(se, s.value)
    if steady and limits is None:
        return Spread(rule=None, se=se, notes=("no interval: every cluster has the same value",))
    plain = intervals.log_student if log else intervals.student
    method = "log-t" if log else "t"
    notes = () if steady else _carried(worth, s.clusters)
    if limits is None:
        rule = Rule(method, lambda level: plain(s.value, se, worth, level))
        return Spread(rule=rule, se=se, notes=notes, bounds=bounds)
    sparse = Sparse.of(totals, rows, *limits)
    spread = 0.0 if steady else se
    rule = Rule(method, lambda level: sparse.widened(plain(s.value, spread, worth, level), level))
    return Spread(rule=rule, se=se, notes=notes, bounds=limits)


def _carried(worth: float, clusters: int) -> tuple[str, ...]:
    few = worth - 1 < _SHORT_OF_FREEDOM * clusters
    return ("a few clusters carry the spread",) if few else ()


_BY_KIND = {"gap": gap_rule, "gaps": gaps_rule, "ratio": ratio_rule, "disparity": disparity_rule}


def _of_groups(s: Sample, settings: Settings, groups: Mapping[Any, Sample]) -> Spread:
    """A gap, the worst group, or one group against the whole."""
    kind = s.metric.over_groups
    undefined = 0
    if kind in _BY_KIND:
        group_rule = _BY_KIND[kind](s)
    else:
        own = {name: spread_of(part, settings, scarcity([part]), {}) for name, part in groups.items()}
        # the worst group is no surer than any
        undefined = max((spread.undefined for spread in own.values()), default=0)
        group_rule = worst_rule(s, [(name, part, own[name].rule) for name, part in groups.items()])
    notes = (*((group_rule.reason,) if group_rule.reason else ()), *group_rule.notes)
    end: tuple[Caution, ...] = ("open high",) if group_rule.open_end == "high" else ()
    end = ("open low",) if group_rule.open_end == "low" else end
    return Spread(
        rule=group_rule.rule,
        se=math.nan if group_rule.se is None else group_rule.se,
        undefined=undefined,
        notes=notes,
        cautions=end,
    )


def _shares(s: Sample) -> Spread:
    """A mean of shares: every share with the spread of its own clusters."""
    _, se, worth = intervals.shares(*s.metric.shares(s.evidence))
    if math.isnan(se) or se <= 0:
        return Spread(rule=None, notes=("no interval: a part of it sits in a single cluster",))
    return Spread(
        rule=Rule("t", lambda level: intervals.student(s.value, se, worth, level)), se=se, bounds=s.metric.bounds
    )


def _jackknifed(s: Sample, settings: Settings, parts: Scarcity) -> Spread:
    """A smooth function whose bootstrap is off: t times the jackknife's standard error."""
    if np.isnan(s.left_out).any():
        lost = int(np.isnan(s.left_out).sum())
        return Spread(
            rule=None,
            notes=(f"no interval: undefined without one of {counted(lost, 'cluster')}",),
            cautions=("doubtful",),
        )
    influence = intervals.jackknife_influences(s.left_out)
    se = intervals.jackknife_se(s.left_out)
    if intervals.no_spread(se, s.value):
        return _at_bound(s, settings, se, 0, parts)
    spread = s.metric.spread
    worth = float(s.clusters) if spread == "t" else intervals.effective_clusters(influence)
    log = spread == "log-t" and s.value > 0
    plain = intervals.log_student if log else intervals.student
    rule = Rule("log-t" if log else "t", lambda level: plain(s.value, se, worth, level))
    return Spread(rule=rule, se=se, notes=() if spread == "t" else _carried(worth, s.clusters), bounds=s.metric.bounds)


def _resampled(s: Sample, settings: Settings, parts: Scarcity) -> Spread:
    """What only resampling can tell: BCa, the noise ball of a norm, or percentiles on request."""
    drawn = s.drawn
    defined = drawn[~np.isnan(drawn)]
    undefined = len(drawn) - len(defined)
    if len(defined) < 2:
        return Spread(rule=None, undefined=undefined, notes=("no interval: undefined in nearly every resample",))
    se = intervals.cluster_se(*s.score_sums) if s.is_score else float(defined.std(ddof=1))
    if intervals.no_spread(float(defined.max() - defined.min()), s.value):
        return _at_bound(s, settings, se, undefined, parts)
    bounds = s.metric.bounds
    if settings.percentiles:
        tail = intervals.tail_of
        at = intervals.quantiles(defined)
        rule = Rule("percentile", lambda level: (at(tail(level)), at(1 - tail(level))), 2 / (len(defined) + 1))
        return Spread(rule=rule, se=se, undefined=undefined, stretched=not settings.unstretched)
    if settings.by_family and s.vector is not None:
        ball = _ball(s, drawn)
        lost = () if ball is not None else ("no interval: the mean that it is relative to is 0",)
        return Spread(rule=ball, se=se, undefined=undefined, notes=lost, bounds=bounds)
    if settings.by_family:
        rule = intervals.bca_rule(s.value, defined, s.left_out, worth_of(s, s.left_out))
        if isinstance(s.evidence, Tasks):
            rule = unseen(s).widened(rule)
        return Spread(rule=rule, se=se, undefined=undefined, bounds=bounds)
    ends = partial(intervals.bca, s.value, defined, s.left_out)
    rule = Rule("bca", lambda level: ends(intervals.tail_of(level)), 2 / (len(defined) + 1))
    return Spread(rule=rule, se=se, undefined=undefined, bounds=bounds)


def worth_of(s: Sample, left_out: Floats, present: Codes | None = None) -> float | Worth:
    """What the clusters of a resampled value are worth, from the values without each of those that are present."""
    there = np.flatnonzero(s.evidence.rows > 0) if present is None else present
    strata = s.strata
    if strata is None or len(left_out) != len(there):  # blocks of clusters were left out: there are very many
        return len(there)
    return Worth.in_strata(left_out, strata[there]) or len(there)


def _at_bound(s: Sample, settings: Settings, se: float, undefined: int, parts: Scarcity) -> Spread:
    """Every resample gives the same value: at a bound, what so many clusters could have missed; elsewhere nothing."""
    limits = s.limits
    at = (
        None
        if limits is None or not settings.by_family
        else next((b for b in limits if math.isclose(b, s.value, abs_tol=1e-12)), None)
    )
    if at is None or limits is None or not parts.fewest:
        return Spread(
            rule=None,
            se=se,
            undefined=undefined,
            notes=("no interval: every cluster, or every resample, gives the same value",),
        )
    if isinstance(s.evidence, Tasks):
        value = s.value
        return Spread(rule=unseen(s).widened(Rule("bound", lambda _: (value, value))), se=se, bounds=limits)
    low, high = limits

    def ends(level: float) -> Interval:
        room = (1 - ((1 - level) / 2) ** (1 / parts.fewest)) * (high - low)
        return (high - room, high) if at == high else (low, low + room)

    return Spread(rule=Rule("bound", ends), se=se, undefined=undefined, bounds=limits)


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
