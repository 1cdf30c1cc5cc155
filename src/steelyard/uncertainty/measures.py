"""Numbers that are made of what a benchmark measures in its tasks: which measures have a value, and which is alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard.metrics.by_task import TaskSource, measured_by
from steelyard.metrics.evidence.by_task import Name, Tasks
from steelyard.metrics.evidence.combined import Groups
from steelyard.metrics.evidence.sums import Draw
from steelyard.records.labels import value_name
from steelyard.uncertainty.intervals import Interval, Rule
from steelyard.uncertainty.sampling import Sample, read_sample

_SHOWN = 3


def measures_with_value(s: Sample) -> set[Name]:
    """The measures of a sample that have a value in the data as they are."""
    reading = _unit(s).read(s.evidence)
    values = s.metric.definition.source.readied(s.metric, reading, s.constants)
    return {name for name, value in zip(values.names, values.values, strict=True) if not math.isnan(value[0])}


def measures_without_value(s: Sample) -> list[Name]:
    """What was planned and has no value."""
    known = measures_with_value(s)
    return [name for name in (*s.evidence.names, *s.evidence.lacking) if name not in known]


def named_measures(names: Sequence[Name]) -> str:
    """Measures by name: each metric with the task that it is of."""
    shown = ", ".join(f"{metric} of {task}" if task else metric for task, metric, _ in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def lone(s: Sample) -> Sample | None:
    """The one metric that a number is made of, where its value is that metric's: its interval is then too."""
    if isinstance(s.evidence, Groups) and s.metric.over_groups == "one":
        return _of_group(s)
    if not isinstance(s.evidence, Tasks) or len(s.evidence.names) != 1:
        return None
    name, part = s.evidence.names[0], s.evidence.parts[0]
    inner = Sample(metric=measured_by(name), constants=s.constants["tasks"][name], evidence=part, side=s.side)
    read_sample(inner, _unit(s))
    same = math.isclose(inner.value, s.value, rel_tol=1e-12, abs_tol=1e-15)
    return inner if same or (math.isnan(inner.value) and math.isnan(s.value)) else None


def _of_group(s: Sample) -> Sample | None:
    """The metric on the rows of the one group that is asked for; None where no row is in it."""
    for name, part in zip(s.evidence.names, s.evidence.groups, strict=True):
        if value_name(name) == s.metric.label:
            inner = Sample(metric=s.metric.values["base"], constants=s.constants["groups"][name], evidence=part)
            return read_sample(inner, _unit(s))
    return None


def lone_sides(base: Sample, new: Sample) -> tuple[Sample, Sample]:
    """Both sides as the one metric that they are made of, where that is all of them."""
    inner = lone(base), lone(new)
    if inner[0] is None or inner[1] is None or inner[0].metric != inner[1].metric:
        return base, new
    return inner[0], inner[1]


def shared_measures(base: Sample, new: Sample) -> tuple[Sample, Sample, tuple[str, ...]]:
    """Both sides with what has a value in both of a benchmark's tasks, and what must be said of the rest."""
    known = [measures_with_value(s) for s in (base, new)]
    shared = [name for name in base.evidence.names if name in known[0] and name in known[1]]
    planned = dict.fromkeys(n for s in (base, new) for n in (*s.evidence.names, *s.evidence.lacking))
    if len(shared) == len(planned):
        return base, new, ()
    lost = [name for name in planned if name not in shared]
    kept = [read_sample(replace(s, evidence=s.evidence.of_parts(shared)), _unit(s)) for s in (base, new)]
    return kept[0], kept[1], (f"{named_measures(lost)} left out: without a value in one run, or in both",)


@dataclass(frozen=True)
class Unseen:
    """What tasks in which every answer scored alike, at a bound, may hide: a few answers that scored otherwise.

    Each of them could be off by its share of the value times q(0) = 1 − (α/2)^(1/n), n its clusters; they are added up
    as independent errors. A task of six perfect answers says little about the seventh.
    """

    value: float
    below: tuple[tuple[float, int], ...]  # share of the value and clusters of what is at its upper bound
    above: tuple[tuple[float, int], ...]

    def widened(self, rule: Rule) -> Rule:
        """The rule with room for what was not seen."""
        if not self.below and not self.above:
            return rule

        def ends(level: float) -> Interval:
            low, high = rule.at(level)
            down, up = (
                math.hypot(*(share * (1 - ((1 - level) / 2) ** (1 / clusters)) for share, clusters in side))
                for side in (self.below, self.above)
            )
            return (
                self.value - math.hypot(max(self.value - low, 0.0), down),
                self.value + math.hypot(max(high - self.value, 0.0), up),
            )

        return Rule(rule.method, ends, rule.least)


def unseen(s: Sample) -> Unseen:
    """What the tasks of a sample that stand at a bound may hide."""
    reading = _unit(s).read(s.evidence)
    source = s.metric.definition.source
    assert isinstance(source, TaskSource)
    values = source.readied(s.metric, reading, s.constants)
    shares = source.shares(s.metric, s.evidence, s.constants)
    rooms: dict[tuple[str, bool], tuple[float, int]] = {}
    for name, part, share, value in zip(values.names, s.evidence.parts, shares, values.values, strict=True):
        bounds = measured_by(name).bounds
        for bound, upper in zip(bounds, (False, True), strict=True):
            if bound is not None and math.isclose(value[0], bound, abs_tol=1e-12):
                before, clusters = rooms.get((name[0], upper), (0.0, 0))
                rooms[name[0], upper] = before + float(share), max(clusters, int(np.count_nonzero(part.rows)))
    below, above = (tuple(room for (_, up), room in rooms.items() if up is upper) for upper in (True, False))
    return Unseen(s.value, below, above)


def _unit(s: Sample) -> Draw:
    return Draw(np.ones((1, len(s.evidence.ids))))
