"""How sure is a number that compares groups? Intervals of a gap, of the worst group, of one group against the whole.

A gap is the largest of several differences, so it is positive where all groups are equal, and a bootstrap of it never
covers 0. Its interval follows from the differences of all pairs at once (Welch, Bonferroni). A group with fewer than
four clusters says nothing of its own spread: it can only widen a gap, so its upper end is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from steelyard.errors import printable
from steelyard.ground.arrays import Floats
from steelyard.metrics.compositions import PartSource
from steelyard.metrics.evidence.combined import Groups
from steelyard.metrics.evidence.sums import Draw
from steelyard.metrics.vocabulary import FROM_PAIRS
from steelyard.records.labels import value_name
from steelyard.uncertainty.intervals import (
    Interval,
    Rule,
    containing,
    influences,
    jackknife_influences,
    padded_variance,
    quantile_t,
    within,
)
from steelyard.uncertainty.jackknife import leave_one_out
from steelyard.uncertainty.sampling import Sample, read_sample

FEWEST_GROUP_CLUSTERS = 4
_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Group:
    """One group: its value, its variance, and what each cluster contributes to it."""

    name: Any
    sample: Sample
    variance: float
    influence: Floats  # one per cluster of the whole table, 0 where the group has no rows
    clusters: int

    @property
    def value(self) -> float:
        return self.sample.value


def group_samples(s: Sample) -> list[Sample]:
    """The base metric in every group that has a value, as samples of their own."""
    base, constants, evidence = s.metric.values["base"], s.constants["groups"], s.evidence
    unit = Draw(np.ones((1, len(evidence.ids))))
    held = s.metric.over_groups in FROM_PAIRS
    common = _common_coverage(evidence, unit) if base.is_area and held else None
    samples = [
        read_sample(Sample(metric=base, constants=constants[name], evidence=group, up_to=common), unit)
        for name, group in zip(evidence.names, evidence.groups, strict=True)
    ]
    return [sample for sample in samples if not math.isnan(sample.value)]


def _common_coverage(evidence: Any, unit: Draw) -> float:
    """The coverage that all groups with answers reach."""
    reached = [float(unit.read(part).cmax[0]) for part in evidence.groups]
    return min([c for c in reached if c > 0], default=1.0)


def named_samples(s: Sample) -> dict[Any, Sample]:
    """The groups with a value by their names."""
    defined = [n for n, ok in zip(s.evidence.names, _defined(s), strict=True) if ok]
    return dict(zip(defined, group_samples(s), strict=True))


def _defined(s: Sample) -> npt.NDArray[np.bool_]:
    unit = Draw(np.ones((1, len(s.evidence.ids))))
    reading = s.metric.definition.source.readied(s.metric, unit.read(s.evidence), s.constants)
    return np.asarray(~np.isnan(reading.values[0]))


def over_groups(s: Sample) -> list[Sample]:
    """What is over groups in a sample: itself, or the gaps that it is the larger of; nothing in any other."""
    if isinstance(s.evidence, Groups):
        return [s]
    source = s.metric.definition.source
    if s.metric.over_groups != "gaps" or not isinstance(source, PartSource):
        return []
    unit = Draw(np.ones((1, len(s.evidence.ids))))
    gaps = zip(source.metrics(s.metric.values), s.constants["parts"], s.evidence.parts, strict=True)
    return [read_sample(Sample(metric=m, constants=own, evidence=part), unit) for m, own, part in gaps]


def groups_without_value(s: Sample) -> list[str]:
    """The names of the groups in which a base metric is undefined."""
    lost = [n for part in over_groups(s) for n, ok in zip(part.evidence.names, _defined(part), strict=True) if not ok]
    return [value_name(name) for name in dict.fromkeys(lost)]


def counted_rows(s: Sample) -> int:
    """The rows that count; of gaps of different rows, those of all."""
    parts = over_groups(s)
    if len(parts) < 2:
        return int(s.evidence.rows.sum())
    return sum(int(part.evidence.rows.sum()) for part in parts)


def excluded_rows(s: Sample) -> dict[str, int]:
    """The rows that were left out, by reason; of several gaps, those that each of them left out."""
    parts = [part.evidence.excluded for part in over_groups(s)]
    if len(parts) < 2:
        return dict(s.evidence.excluded)
    return {reason: min(part[reason] for part in parts) for reason in parts[0] if all(reason in p for p in parts)}


def ungrouped_rows(s: Sample) -> int:
    """The rows that have no group: they count in the overall value only."""
    return max((int(part.evidence.ungrouped) for part in over_groups(s)), default=0)


def _group(name: Any, sample: Sample, limits: tuple[float, float] | None) -> Group:
    """The spread of one group over the clusters that hold it; of a bounded mean with two pseudo-clusters."""
    rows = np.asarray(sample.evidence.rows)
    present = np.flatnonzero(rows > 0)
    influence = np.zeros(len(rows))
    if sample.is_score:
        totals, counts = sample.score_sums
        influence[present] = influences(totals[present], counts[present])
        variance = float((influence**2).sum())
        if limits is not None and len(present) > 1:
            variance = padded_variance(totals[present], counts[present], *limits)
        return Group(name=name, sample=sample, variance=variance, influence=influence, clusters=len(present))
    left_out = leave_one_out(sample.evidence, [sample.finish], present)[0]
    contributions = jackknife_influences(left_out)
    if len(contributions) == len(present):
        influence[present] = contributions
    variance = math.nan if np.isnan(left_out).any() else float((contributions**2).sum())
    return Group(name=name, sample=sample, variance=variance, influence=influence, clusters=len(present))


def unfit_base(s: Sample) -> str:
    """Why groups cannot be compared by this base metric, or nothing."""
    base = s.metric.values["base"]
    if base.norm is not None or base.is_extreme or base.over_groups:
        return f"{base} is itself the size of noise or an extreme: calibration_error2 compares groups"
    reason = base.no_interval
    if callable(reason):
        reading = Draw(np.ones((1, len(s.evidence.ids)))).read(s.evidence.overall)
        reason = reason(s.evidence.overall, float(base.finished(reading, s.constants["overall"])[0]), base.label)
    return str(reason)


def shared_limits(samples: Sequence[Sample]) -> tuple[float, float] | None:
    """The range of the values, where all groups have the same."""
    limits = {sample.limits for sample in samples}
    return next(iter(limits)) if len(limits) == 1 else None


@dataclass(frozen=True, kw_only=True)
class GroupRule:
    """The rule of a number over groups, what must be said of it, and whether its upper or lower end is unknown."""

    rule: Rule | None
    se: float | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()
    open_end: str = ""  # low or high


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """How far two groups are apart: the scale, how a distance is written there, and what is unknown of small groups."""

    of: Callable[[Group], Group]
    distance: Callable[[Group, Group], float]
    unknown: str
    open_end: Literal["low", "high"]


_DIFFERENCE = _Scale(
    of=lambda group: group,
    distance=lambda a, b: abs(a.value - b.value),
    unknown="how far the gap may reach is unknown",
    open_end="high",
)
_RATIO = _Scale(  # of a value v, the logarithm has the variance V/v²
    of=lambda g: replace(g, variance=g.variance / g.value**2, influence=g.influence / g.value),
    distance=lambda a, b: abs(math.log(a.value / b.value)),
    unknown="how small the ratio may be is unknown",
    open_end="low",
)


@dataclass(frozen=True, kw_only=True)
class _Pairs:
    """The distances of all pairs of groups with their spread, and how far apart the limits of the values are."""

    pairs: Sequence[tuple[float, float, float]]  # distance, variance, degrees of freedom
    limits: tuple[float, float] | None
    small: Sequence[str]  # groups with too few clusters
    scale: _Scale

    def reach(self, level: float) -> Interval:
        """Simultaneous ends of the largest distance."""
        each = 1 - (1 - level) / len(self.pairs)
        halves = [quantile_t(each, freedom + 1) * math.sqrt(variance) for _, variance, freedom in self.pairs]
        near = max(0.0, max(d - h for (d, _, _), h in zip(self.pairs, halves, strict=True)))
        return near, max(d + h for (d, _, _), h in zip(self.pairs, halves, strict=True))

    @property
    def se(self) -> float:
        """Of the pair that lies farthest apart."""
        return math.sqrt(max(self.pairs)[1])

    def rule(self, ends: Callable[[float], Interval], se: float) -> GroupRule:
        few = f"fewer than {FEWEST_GROUP_CLUSTERS} clusters"
        have = "has" if len(self.small) == 1 else "have"
        return GroupRule(
            rule=Rule("welch", ends),
            se=se,
            notes=(f"{named(self.small)} {have} {few}: {self.scale.unknown}",) if self.small else (),
            open_end=self.scale.open_end if self.small else "",
        )


def _all_pairs(s: Sample, scale: _Scale) -> _Pairs | str:
    """Every two groups on a scale, or why they cannot be compared."""
    unfit = unfit_base(s)
    if unfit:
        return unfit
    samples = named_samples(s)
    if scale is _RATIO and any(not sample.value > 0 for sample in samples.values()):
        return "a ratio to 0 has no interval"
    limits = shared_limits(list(samples.values()))
    groups = [_group(name, sample, limits) for name, sample in samples.items()]
    kept = [g for g in groups if g.clusters >= FEWEST_GROUP_CLUSTERS]
    if len(kept) < 2:
        return f"fewer than two groups have at least {FEWEST_GROUP_CLUSTERS} clusters"
    if any(math.isnan(g.variance) for g in kept):
        return "undefined in a group without one of its clusters"
    pairs = [(scale.distance(a, b), *_spread(scale.of(a), scale.of(b))) for a, b in combinations(kept, 2)]
    if any(not variance > 0 for _, variance, _ in pairs):
        return "two groups have no spread to compare"
    small = [value_name(g.name) for g in groups if g.clusters < FEWEST_GROUP_CLUSTERS]
    return _Pairs(pairs=pairs, limits=limits, small=small, scale=scale)


def gap_rule(s: Sample) -> GroupRule:
    """Simultaneous Welch intervals of all pairs of groups: low and high end of their largest distance."""
    found = _all_pairs(s, _DIFFERENCE)
    if isinstance(found, str):
        return GroupRule(rule=None, reason=f"no interval: {found}")
    top = math.inf if found.limits is None else found.limits[1] - found.limits[0]

    def ends(level: float) -> Interval:
        near, far = found.reach(level)
        return containing((near, top if found.small else min(top, far)), s.value)

    return found.rule(ends, found.se)


def ratio_rule(s: Sample) -> GroupRule:
    """Simultaneous intervals of the logarithms' differences of all pairs: the ends of the smallest ratio."""
    found = _all_pairs(s, _RATIO)
    if isinstance(found, str):
        return GroupRule(rule=None, reason=f"no interval: {found}")

    def ends(level: float) -> Interval:
        near, far = found.reach(level)
        return containing((0.0 if found.small else math.exp(-far), math.exp(-near)), s.value)

    return found.rule(ends, s.value * found.se)


def gaps_rule(s: Sample) -> GroupRule:
    """The larger of several gaps: each gap's own interval, all at once, and the larger of their ends."""
    rules = [gap_rule(part) for part in over_groups(s)]
    own = [found.rule for found in rules if found.rule is not None]
    if len(own) < len(rules):
        return GroupRule(rule=None, reason=next(found.reason for found in rules if found.rule is None))

    def ends(level: float) -> Interval:
        intervals = [rule.at(1 - (1 - level) / len(own)) for rule in own]
        return containing((max(low for low, _ in intervals), max(high for _, high in intervals)), s.value)

    return GroupRule(
        rule=Rule("welch", ends),
        se=max((math.nan if found.se is None else found.se for found in rules), key=lambda se: (math.isnan(se), se)),
        notes=tuple(dict.fromkeys(note for found in rules for note in found.notes)),
        open_end="high" if any(found.open_end for found in rules) else "",
    )


def _spread(a: Group, b: Group) -> tuple[float, float]:
    """Variance and degrees of freedom of the difference of two groups."""
    variance = a.variance + b.variance - 2 * float((a.influence * b.influence).sum())
    pieces = sum(g.variance**2 / (g.clusters - 1) for g in (a, b))
    freedom = (a.variance + b.variance) ** 2 / pieces if pieces > 0 else math.inf
    return variance, freedom


def disparity_rule(s: Sample) -> GroupRule:
    """One group against the whole, which holds it too: the jackknife of their difference, all groups at once."""
    groups = named_samples(s)
    name = next((n for n in groups if value_name(n) == s.metric.label), None)
    assert name is not None
    limits = shared_limits(list(groups.values()))
    group = _group(name, groups[name], limits)
    if group.clusters < FEWEST_GROUP_CLUSTERS:
        return GroupRule(rule=None, reason=f"no interval: the group has fewer than {FEWEST_GROUP_CLUSTERS} clusters")
    unfit = unfit_base(s)
    if unfit:
        return GroupRule(rule=None, reason=f"no interval: {unfit}")
    left_out = leave_one_out(s.evidence, [s.finish])[0]
    if np.isnan(left_out).any():
        return GroupRule(rule=None, reason="no interval: undefined without one of the clusters")
    variance = float((jackknife_influences(left_out) ** 2).sum())
    if group.sample.is_score and limits is not None:  # what the two pseudo-clusters add
        variance += group.variance - float((group.influence**2).sum())
    if not variance > 0:
        return GroupRule(rule=None, reason="no interval: the group has no spread to compare")
    se, count = math.sqrt(variance), len(groups)

    def ends(level: float) -> Interval:
        half = quantile_t(1 - (1 - level) / count, group.clusters) * se
        return s.value - half, s.value + half

    return GroupRule(rule=Rule("t", ends), se=se)


def worst_rule(s: Sample, rules: Sequence[tuple[Any, Sample, Rule | None]]) -> GroupRule:
    """The worst of several values: every group's own interval, all at once, and the worst of their ends."""
    kept = [(sample, rule) for _, sample, rule in rules if sample.clusters >= FEWEST_GROUP_CLUSTERS]
    small = [value_name(name) for name, sample, _ in rules if sample.clusters < FEWEST_GROUP_CLUSTERS]
    unfit = unfit_base(s)
    if unfit:
        return GroupRule(rule=None, reason=f"no interval: {unfit}")
    if not kept or any(rule is None for _, rule in kept):
        return GroupRule(rule=None, reason="no interval: not every group has one")
    base = s.metric.values["base"]
    lower = (s.constants["overall"].get("better") or base.better) == "lower"
    bad = base.bounds[1] if lower else base.bounds[0]
    worst_end = math.inf if lower else -math.inf
    worst_end = worst_end if bad is None else float(bad)

    def ends(level: float) -> Interval:
        each = 1 - (1 - level) / len(rules)
        intervals = [within(rule.at(each), base.bounds, sample.value) for sample, rule in kept if rule is not None]
        choose = max if lower else min
        low, high = choose(e[0] for e in intervals), choose(e[1] for e in intervals)
        if small:
            low, high = (low, worst_end) if lower else (worst_end, high)
        return containing((low, high), s.value)

    end = ("high" if lower else "low") if small and math.isinf(worst_end) else ""
    notes = (f"{named(small)}: fewer than {FEWEST_GROUP_CLUSTERS} clusters, so how bad it may be is unknown",)
    return GroupRule(rule=Rule("simultaneous", ends), notes=notes if small else (), open_end=end)


def named(names: Sequence[str]) -> str:
    """A few names of groups, for a note."""
    shown = ", ".join(printable(name, limit=30) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{'group' if len(names) == 1 else 'groups'} {shown}{more}"
