"""Two runs on the same clusters: the difference of a metric, its interval and its p-value.

The interval is the family's own: t for row means, with room for rare losses where the scores are bounded; the jackknife
for what a bootstrap shifts; percentiles of the resampled difference for the rest. The p-value is the larger of two: how
often swaps of whole clusters reach the difference, and the level at which the interval begins to exclude 0. So a small
p-value never stands next to an interval that holds 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.errors import counted
from steelyard.ground.arrays import Floats
from steelyard.metrics.evidence.by_task import Tasks
from steelyard.metrics.evidence.sums import Draw
from steelyard.metrics.vocabulary import FROM_ALL_GROUPS
from steelyard.uncertainty import intervals
from steelyard.uncertainty.estimate import about_scarcity
from steelyard.uncertainty.families import Spread, worth_of
from steelyard.uncertainty.group_pairs import larger_of_gaps, shared_groups
from steelyard.uncertainty.groups import over_groups
from steelyard.uncertainty.intervals import Interval, Rule, Worth
from steelyard.uncertainty.measures import lone_sides, shared_measures
from steelyard.uncertainty.number import TOLERATED_UNDEFINED, Caution
from steelyard.uncertainty.sampling import Sample, jackknife, resample
from steelyard.uncertainty.scarcity import Scarcity, scarcity
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.significance import Swapped, flip_p, swap_p
from steelyard.uncertainty.sparse import FEW_DIFFERENT, Sparse, rare_clusters, rare_share, sparse_delta

Sides = tuple[Sample, Sample]

_CONSTANT = 1e-9  # a spread this small next to the difference is rounding


@dataclass(kw_only=True)
class PairedSample:
    """A metric on both runs, and what was found of its difference."""

    base: Sample
    new: Sample
    delta: float
    clusters: int
    parts: Scarcity
    rule: Rule | None = None
    se: float = math.nan
    p_swap: float = math.nan
    undefined: int = 0
    notes: tuple[str, ...] = ()
    cautions: tuple[Caution, ...] = ()
    grown: Callable[[int], Rule] | None = None  # the rule if there were so many clusters, and no further one differed

    def interval(self, level: float) -> Interval | None:
        return None if self.rule is None else self.rule.at(level)

    @property
    def p_value(self) -> float:
        """The larger of the swaps' p-value and the interval's."""
        if math.isnan(self.p_swap) or self.rule is None:
            return self.p_swap
        return max(self.p_swap, self.rule.alpha(0.0))


def paired(sides: Sequence[Sides], settings: Settings) -> list[PairedSample]:
    """The differences of several metrics on one pair of runs; what they share is read once."""
    work = [_Work.of(base, new, settings) for base, new in sides]
    live = [w for w in work if w.lives]
    resample([s for w in live if w.kind == "resampled" for s in (w.base, w.new)], settings)
    for w in [each for one in live for each in (one, *one.gaps) if each.lives]:
        shaped = settings.method == "bca" or w.base.strata is not None
        if w.kind == "jackknife" or (w.kind == "resampled" and shaped):
            jackknife([w.base, w.new], w.present)
    _swap(live, settings)
    return [w.sample(settings) for w in work]


@dataclass(kw_only=True)
class _Work:
    """One metric on both runs while its difference is worked out."""

    base: Sample
    new: Sample
    kind: str  # rows, jackknife, resampled, nothing
    delta: float
    present: npt.NDArray[np.int64]
    swapped: Swapped | None = None
    lost_groups: tuple[str, ...] = ()  # what must be said of groups without a value
    over_parts: bool = False  # whether no rule may pass where one of them is without a value
    unconverted: bool = False
    gaps: tuple[_Work, ...] = ()  # of a number that is the larger of several gaps: each of them

    @classmethod
    def of(cls, base: Sample, new: Sample, settings: Settings) -> _Work:
        over_parts = base.metric.over_groups in FROM_ALL_GROUPS or _of_tasks(base)
        base, new, lost = _shared_groups(base, new)
        base, new = lone_sides(base, new)
        present = np.flatnonzero((base.evidence.rows > 0) | (new.evidence.rows > 0))
        delta = new.value - base.value
        kind = "nothing"
        if not math.isnan(delta) and len(present) > 1 and settings.resamples:
            if _same_rows(base, new):
                kind = "rows" if settings.by_family else "resampled"
            else:
                shifts = settings.by_family and base.metric.bootstrap_shifts
                never = base.metric.spread == "t"  # a bootstrap is off by what it should be free of
                kind = "jackknife" if shifts or never else "resampled"
        work = cls(base=base, new=new, kind=kind, delta=delta, present=present, lost_groups=lost, over_parts=over_parts)
        if base.metric.over_groups == "gaps":
            parts = zip(over_groups(base), over_groups(new), strict=True)
            work.gaps = tuple(cls.of(one, two, settings) for one, two in parts)
        if _same_rows(base, new) and not math.isnan(delta):
            totals, rows = work.differences
            work.delta = float(totals.sum() / rows.sum())  # differences averaged: digits that both share cancel
        return work

    @property
    def lives(self) -> bool:
        return self.kind != "nothing"

    @property
    def differences(self) -> tuple[Floats, Floats]:
        """Summed difference and rows of every cluster, of a row mean."""
        (mine, rows), (theirs, _) = self.base.score_sums, self.new.score_sums
        return theirs - mine, rows

    @property
    def reach(self) -> float | None:
        """The width of the metric's range, None where it has no end."""
        limits = self.base.limits, self.new.limits
        return None if limits[0] is None or limits[1] is None else limits[0][1] - limits[0][0]

    def sample(self, settings: Settings) -> PairedSample:
        parts = scarcity([self.base, self.new])
        sample = PairedSample(base=self.base, new=self.new, delta=self.delta, clusters=len(self.present), parts=parts)
        lost = self.lost_groups
        if math.isnan(self.delta):
            gone = " and ".join(side for side, s in (("base", self.base), ("new", self.new)) if math.isnan(s.value))
            return replace(sample, notes=(f"undefined in {gone}" if gone else "undefined", *lost))
        if len(self.present) < 2:
            return replace(sample, notes=("fewer than 2 clusters: no interval", *lost))
        if not self.lives:
            return replace(sample, notes=("no resamples were asked for: neither interval nor p-value", *lost))
        if self.gaps:
            sample.p_swap = math.nan if self.swapped is None else self.swapped.p
            return larger_of_gaps(sample, [gap.sample(settings) for gap in self.gaps], lost)
        spread = self._rule(settings)
        cautions: list[Caution] = list(spread.cautions)
        notes = [*spread.notes, *lost]
        if self.swapped is not None and not math.isnan(self.swapped.p):
            sample.p_swap = self.swapped.p
        if self.unconverted:
            notes.append("what was kept cannot be swapped between the runs: a p-value needs their records")
        if spread.undefined > TOLERATED_UNDEFINED * settings.resamples:
            doubt = ": the interval is doubtful" if spread.rule is not None else ""
            notes.append(f"undefined in {spread.undefined} of {settings.resamples} resamples{doubt}")
            cautions.append("doubtful")
        if self.base.metric.norm is not None:
            notes.append("biased towards 0: noise makes both values larger")
        if lost and self.over_parts:
            cautions.append("missing group")
        more, also = about_scarcity(parts, len(self.present), with_interval=spread.rule is not None)
        return replace(
            sample,
            rule=spread.rule,
            se=spread.se,
            undefined=spread.undefined,
            notes=(*notes, *more),
            cautions=tuple(dict.fromkeys((*cautions, *also))),
            grown=None if spread.rule is None else self._grown(spread.rule),
        )

    def _grown(self, rule: Rule) -> Callable[[int], Rule]:
        """The rule with more clusters of the usual size, in none of which the runs differ."""
        rows, size, reach = self._rows, len(self.present), self.reach
        if self.kind == "rows" and reach is not None:
            totals, counts = (part[self.present] for part in self.differences)

            def with_equal(clusters: int) -> Rule:
                more = max(clusters - size, 0)
                filled = np.append(totals, np.zeros(more)), np.append(counts, np.full(more, counts.mean()))
                return sparse_delta(*filled, reach)

            return with_equal

        def shrunk(clusters: int) -> Rule:
            share = size / max(clusters, size)

            def ends(level: float) -> Interval:
                low, high = rule.at(level)
                heavy = float((rows**2).sum() / (rows.mean() * rows.sum()))
                unseen = min(1.0, rare_clusters(0, clusters, level) * heavy) * (reach or 0.0)
                return min(low * share, -unseen), max(high * share, unseen)

            return Rule(rule.method, ends)

        return shrunk

    # -- the interval ----------------------------------------------------------------------------------------------

    def _rule(self, settings: Settings) -> Spread:
        if self.kind == "rows":
            return self._of_rows()
        spread = self._of_jackknife() if self.kind == "jackknife" else self._of_resamples(settings)
        different = int(self._different.sum())
        if settings.unstretched or spread.rule is None or self.reach is None or different >= FEW_DIFFERENT:
            return spread
        notes = (*spread.notes, _few_differ(different))
        return replace(spread, rule=self._extended(spread.rule, different), notes=notes)

    def _of_rows(self) -> Spread:
        """A row mean: t between clusters; where the scores are bounded, with room for rare differences."""
        totals, rows = self.differences
        totals, rows = totals[self.present], rows[self.present]
        se = intervals.cluster_se(totals, rows)
        different = int(np.count_nonzero(totals))
        notes: tuple[str, ...] = ()
        if self.reach is not None:
            if different < FEW_DIFFERENT:
                notes = (_few_differ(different),)
            return Spread(rule=sparse_delta(totals, rows, self.reach), se=se, notes=notes)
        means = totals / rows
        if float(means.max() - means.min()) <= _CONSTANT * abs(self.delta):
            return self._constant(se)
        return Spread(rule=Rule("t", lambda level: intervals.student(self.delta, se, len(totals), level)), se=se)

    def _constant(self, se: float) -> Spread:
        """Every cluster differs by the same: nothing says how another would."""
        if self.delta == 0:
            return Spread(rule=None, se=se, notes=("no interval: no cluster differs",))
        note = f"every cluster differs by exactly {self.delta:.6g}: there is no interval"
        return Spread(rule=None, se=se, notes=(note,), cautions=("constant",))

    def _of_jackknife(self) -> Spread:
        """What a bootstrap shifts: t times the jackknife's standard error."""
        left_out = self.new.left_out - self.base.left_out
        lost = int(np.isnan(left_out).sum())
        se = intervals.jackknife_se(left_out)
        notes = (f"undefined without one of {counted(lost, 'cluster')}: the interval is doubtful",) if lost else ()
        cautions: tuple[Caution, ...] = ("doubtful",) if lost else ()
        if math.isnan(se) or intervals.no_spread(se, self.base.value, self.new.value):
            spread = self._degenerate(se)
            return replace(spread, notes=(*spread.notes, *notes), cautions=(*spread.cautions, *cautions))
        count, delta, reach = len(self.present), self.delta, self.reach
        ends = (None, None) if reach is None else (-reach, reach)
        rule = Rule("t", lambda level: intervals.within(intervals.student(delta, se, count, level), ends, delta))
        return Spread(rule=rule, se=se, notes=notes, cautions=cautions)

    def _of_resamples(self, settings: Settings) -> Spread:
        """Percentiles of the resampled difference at the expanded tail, or what was asked for."""
        drawn = self.new.drawn - self.base.drawn
        defined = drawn[~np.isnan(drawn)]
        undefined = len(drawn) - len(defined)
        if len(defined) < 2:
            return Spread(rule=None, undefined=undefined, notes=("no interval: undefined in nearly every resample",))
        se = float(defined.std(ddof=1))
        if intervals.no_spread(float(defined.max() - defined.min()), self.base.value, self.new.value, self.delta):
            return replace(self._degenerate(se, plain=settings.unstretched), undefined=undefined)
        if settings.unstretched:
            at, tail = intervals.quantiles(defined), intervals.tail_of
            rule = Rule("percentile", lambda level: (at(tail(level)), at(1 - tail(level))), 2 / (len(defined) + 1))
            return Spread(rule=rule, se=se, undefined=undefined)
        if settings.method == "bca":
            rule = intervals.bca_rule(self.delta, defined, self.new.left_out - self.base.left_out, self._worth)
        else:
            rule = intervals.percentile_rule(defined, self._worth)
        delta = self.delta
        stretched = Rule(rule.method, lambda level: intervals.containing(rule.at(level), delta), rule.least)
        return Spread(rule=stretched, se=se, undefined=undefined)

    @property
    def _worth(self) -> float | Worth:
        """What the clusters are worth to percentiles of the difference."""
        if self.base.strata is None:
            return len(self.present)
        return worth_of(self.base, self.new.left_out - self.base.left_out, self.present)

    def _degenerate(self, se: float, *, plain: bool = False) -> Spread:
        """Every resample gives the same difference: where the metric is bounded, what so many clusters could hide."""
        if plain or self.reach is None:
            return Spread(rule=None, se=se, notes=("no interval: every resample gives the same difference",))
        rows = self._rows
        means = np.full(len(rows), self.delta)
        sparse = Sparse(value=self.delta, means=means, rows=rows, low=-self.reach, high=self.reach)
        delta = self.delta
        return Spread(rule=Rule("bound", lambda level: sparse.widened((delta, delta), level)), se=se)

    @property
    def _rows(self) -> Floats:
        """Rows of the clusters that hold any, of the fuller side."""
        both = np.maximum(self.base.evidence.rows, self.new.evidence.rows)[self.present]
        return np.asarray(both, np.float64)

    @property
    def _different(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.base.evidence.differs(self.new.evidence))[self.present]

    def _extended(self, rule: Rule, different: int) -> Rule:
        """The rule made to hold what the few clusters that differ, or none, could be in the population."""
        rows, off, reach = self._rows, self._different, self.reach
        assert reach is not None

        def ends(level: float) -> Interval:
            low, high = rule.at(level)
            seen = rare_share(different, rows, rows[off], level) * reach
            unseen = rare_share(0, rows, rows[off], level) * reach
            # towards where the runs differ what was seen could be more; at 0 that is both ways
            down = -seen if self.delta <= 0 else -unseen
            up = seen if self.delta >= 0 else unseen
            return intervals.containing((max(-reach, min(low, down)), min(reach, max(high, up))), self.delta)

        return Rule(rule.method, ends, rule.least)


def _few_differ(clusters: int) -> str:
    who = (
        f"only {counted(clusters, 'cluster')} {'differs' if clusters == 1 else 'differ'}"
        if clusters
        else "no cluster differs"
    )
    return f"{who}: the interval allows for a rare difference not yet seen"


def _same_rows(base: Sample, new: Sample) -> bool:
    """True for a row mean whose two sides count as many rows in every cluster."""
    if not (base.is_score and new.is_score):
        return False
    return bool((base.score_sums[1] == new.score_sums[1]).all())


def no_worse(base: Sample, new: Sample, sign: int) -> bool:
    """True for a row mean of which no cluster has a lower sum, or a higher one with the sign −1, on as many rows."""
    if not _same_rows(base, new):
        return False
    return bool((sign * (new.score_sums[0] - base.score_sums[0]) >= -1e-12).all())


def _shared_groups(base: Sample, new: Sample) -> tuple[Sample, Sample, tuple[str, ...]]:
    """Both sides with what has a value in both, and what must be said of the rest."""
    return shared_measures(base, new) if _of_tasks(base) else shared_groups(base, new)


def _of_tasks(s: Sample) -> bool:
    return isinstance(s.evidence, Tasks)


# -- swaps -------------------------------------------------------------------------------------------------------------


def _swap(work: Sequence[_Work], settings: Settings) -> None:
    """The swap p-value of every difference; what is read from the same evidence is swapped together."""
    pools: dict[tuple[Any, ...], tuple[Any, npt.NDArray[np.int64], list[Swapped]]] = {}
    for w in work:
        metric, size = w.base.metric, abs(w.base.value) + abs(w.new.value)
        if _same_rows(w.base, w.new):
            totals, rows = w.differences
            w.swapped = Swapped(metric=metric, constants=w.base.constants, delta=w.delta, size=size)
            flip_p(totals / rows.sum(), w.swapped, len(w.present), resamples=settings.resamples, seed=settings.seed)
            continue
        joint = metric.united([(s.constants, s.evidence) for s in (w.base, w.new)])
        w.swapped = Swapped(metric=metric, constants=joint, delta=w.delta, size=size, common=_up_to_common(w))
        key = (id(w.base.evidence), id(w.new.evidence), metric.definition.rows.reads_order, metric.key(joint))
        if key not in pools:
            both = [metric.converted(s.evidence, s.constants, joint) for s in (w.base, w.new)]
            if any(evidence is None for evidence in both):
                w.swapped, w.unconverted = None, True
                continue
            one, two = (metric.ordered(evidence) for evidence in both)
            pools[key] = one.stacked(two), w.present, []
        pools[key][2].append(w.swapped)
    for pooled, present, asked in pools.values():
        swap_p(pooled, asked, present, resamples=settings.resamples, seed=settings.seed)


def _up_to_common(w: _Work) -> bool:
    """True for areas that both runs have up to the same coverage: swaps are then read up to what both sides reach."""
    if not w.base.metric.is_area:
        return False
    unit = Draw(np.ones((1, len(w.base.evidence.ids))))
    reached = [float(unit.read(s.evidence).cmax[0]) for s in (w.base, w.new)]
    return abs(reached[0] - reached[1]) < 1e-12 or float(w.base.metric.values.get("c", 1.0)) <= min(reached)
