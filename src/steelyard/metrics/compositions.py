"""Evidence of metrics about metrics: a base metric in groups, in two views of a table, or several metrics together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.errors import InputError
from steelyard.ground.arrays import Floats, Mask
from steelyard.metrics.evidence.combined import GroupedReadings, Groups, PartReadings, Parts
from steelyard.metrics.evidence.sums import Evidence
from steelyard.metrics.options import Constants, Param, hashable
from steelyard.metrics.views import Views
from steelyard.metrics.vocabulary import FROM_PAIRS, Population
from steelyard.records.derive import FAILED
from steelyard.records.table import Records

if TYPE_CHECKING:
    from steelyard.metrics.collector import Collector
    from steelyard.metrics.metric import Metric


class Composed(ABC):
    """What sources of other metrics' evidence have in common: what becomes of it becomes of each of its parts."""

    over_tasks = False

    @abstractmethod
    def inner(self, metric: Metric, evidence: Any, *constants: Constants) -> list[tuple[Any, ...]]:
        """Every part: its metric, its evidence, and of each set of constants its own."""

    def rebuilt(self, evidence: Any, parts: tuple[Any, ...]) -> Any:
        """The evidence with other parts, in the order of `inner`."""
        return replace(evidence, parts=parts)

    def population(self, options: Mapping[str, Any]) -> Population:
        """As of the metric that it is about; where it is about several, all that was asked."""
        base: Metric | None = options.get("base")
        return "asked" if base is None else base.population

    def grouped_by(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        base: Metric | None = options.get("base")
        return () if base is None else base.grouped_by

    def today(self, metric: Metric, evidence: Any) -> Any:
        return self._changed(evidence, self.inner(metric, evidence), lambda m, part: m.today(part))

    def ordered(self, metric: Metric, evidence: Any) -> Any:
        return self._changed(evidence, self.inner(metric, evidence), lambda m, part: m.ordered(part))

    def converted(self, metric: Metric, evidence: Any, own: Constants, joint: Constants) -> Any:
        inner = self.inner(metric, evidence, own, joint)
        return self._changed(evidence, inner, lambda m, part, mine, both: m.converted(part, mine, both))

    def _changed(self, evidence: Any, inner: list[tuple[Any, ...]], change: Callable[..., Any]) -> Any:
        """The evidence with each part changed: itself where none is, None where one cannot be."""
        parts = tuple(change(*part) for part in inner)
        if any(part is None for part in parts):
            return None
        same = all(part is before for part, (_, before, *_) in zip(parts, inner, strict=True))
        return evidence if same else self.rebuilt(evidence, parts)


def united_part(metric: Metric, sides: Sequence[tuple[Constants, Any]], usual: Constants) -> Constants:
    """The constants of a part, of both sides together or of the one that has it."""
    return metric.united(sides) if len(sides) == 2 else sides[0][0] if sides else usual


@dataclass(frozen=True)
class GroupSource(Composed):
    """Evidence of a base metric in every value of a column (an option, or fixed), and overall."""

    params: tuple[Param, ...]
    fixed: str | None = None

    def column(self, options: Mapping[str, Any]) -> str:
        return self.fixed or str(options["by"])

    def reads(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (*options["base"].reads, self.column(options))

    def grouped_by(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (*super().grouped_by(options), self.column(options))

    def inner(self, metric: Metric, evidence: Groups, *constants: Constants) -> list[tuple[Any, ...]]:
        base: Metric = metric.values["base"]
        named = zip(evidence.names, evidence.groups, strict=True)
        groups = [(base, group, *(each["groups"][name] for each in constants)) for name, group in named]
        return [*groups, (base, evidence.overall, *(each["overall"] for each in constants))]

    def rebuilt(self, evidence: Groups, parts: tuple[Any, ...]) -> Groups:
        return replace(evidence, groups=parts[:-1], overall=parts[-1])

    def parts(self, _metric: Metric, _evidence: Any, _constants: Constants) -> None:
        """Groups are its parts."""

    def summarised(self, metric: Metric, table: Records) -> Any:
        """The base metric's summaries of the table, of each group in it, and of a group that is not in it."""
        base: Metric = metric.values["base"]
        column = self.column(metric.values)
        if column not in table and column != "outcome":
            raise InputError(table.lacks(column, metric.name))
        labels = table.labels(column)
        return {
            "overall": base.summary(table),
            "groups": {name: base.summary(table.take(labels == name)) for name in labels.values},
            "nobody": base.summary(table.take(np.zeros(len(table), bool))),
        }

    def merged(self, metric: Metric, summaries: Sequence[Any], runs: int) -> dict[str, Any]:
        base: Metric = metric.values["base"]
        names = sorted({name for summary in summaries for name in summary["groups"]})
        groups = {name: [s["groups"].get(name, s["nobody"]) for s in summaries] for name in names}
        return {
            "overall": base.merged([summary["overall"] for summary in summaries], runs=runs),
            "groups": {name: base.merged(each, runs=runs) for name, each in groups.items()},
        }

    def key(self, metric: Metric, constants: Constants) -> tuple[Any, ...]:
        return ("groups", self.column(metric.values), metric.values["base"], hashable(constants))

    def collect(self, metric: Metric, constants: Constants, collector: Collector) -> Evidence:
        base: Metric = metric.values["base"]
        labels = collector.records.labels(self.column(metric.values))
        parts = {}
        for name, own in constants["groups"].items():
            inside = labels == name
            if inside.any():
                parts[name] = collector.within(inside).evidence(base, own)
        overall = collector.evidence(base, constants["overall"])
        return Groups(tuple(parts), tuple(parts.values()), overall, int(labels.missing.sum()))

    def missing(self, metric: Metric, constants: Constants, collector: Collector) -> Mask:
        return collector.missing(metric.values["base"], constants["overall"])

    def united(self, _metric: Metric, sides: Sequence[tuple[Constants, Any]]) -> dict[str, Any]:
        base: Metric = _metric.values["base"]
        (one, mine), (two, theirs) = sides
        ours, others = (dict(zip(e.names, e.groups, strict=True)) for e in (mine, theirs))
        groups = {}
        for name in dict.fromkeys((*one["groups"], *two["groups"])):
            both = [(c["groups"][name], e[name]) for c, e in ((one, ours), (two, others)) if name in e]
            groups[name] = united_part(base, both, one["groups"].get(name, {}))
        return {"overall": base.united([(c["overall"], e.overall) for c, e in sides]), "groups": groups}

    def readied(self, metric: Metric, reading: GroupedReadings, constants: Constants) -> Any:
        """The base metric's values in each group, and overall; between groups, areas up to the coverage all reach."""
        base: Metric = metric.values["base"]
        own = constants["groups"]
        if base.is_area and metric.over_groups in FROM_PAIRS:
            return reading.once((base, "common"), lambda: reading.up_to_common_coverage(base.up_to))
        return reading.once(
            base,
            lambda: reading.finished(
                lambda name, part: base.finished(part, own[name]),
                lambda part: base.finished(part, constants["overall"]),
            ),
        )


@dataclass(frozen=True)
class PartSource(Composed):
    """Evidence of several metrics; options of the composition are handed to the parts that have them.

    With `views` there are two, each in its own view of the table.
    """

    metrics: Callable[[Mapping[str, Any]], tuple[Metric, ...]]
    params: tuple[Param, ...]
    views: Views | None = None

    def reads(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        own = [column for m in self.metrics(options) for column in m.reads]
        return tuple(dict.fromkeys((*own, *(self.views.reads(own) if self.views else ()))))

    def grouped_by(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for m in self.metrics(options) for column in m.grouped_by))

    def inner(self, metric: Metric, evidence: Parts, *constants: Constants) -> list[tuple[Any, ...]]:
        return [*zip(self.metrics(metric.values), evidence.parts, *(c["parts"] for c in constants), strict=True)]

    def summarised(self, metric: Metric, table: Records) -> Any:
        return tuple(m.summary(table) for m in self.metrics(metric.values))

    def merged(self, metric: Metric, summaries: Sequence[Any], runs: int) -> dict[str, Any]:
        each = zip(self.metrics(metric.values), zip(*summaries, strict=True), strict=True)
        return {"parts": tuple(m.merged(own, runs=runs) for m, own in each)}

    def key(self, metric: Metric, constants: Constants) -> tuple[Any, ...]:
        own = id(self) if self.views else "parts"  # what two views collect is not shared with other compositions
        return (own, *self.metrics(metric.values), hashable(constants))

    def collect(self, metric: Metric, constants: Constants, collector: Collector) -> Evidence:
        each = zip(self.metrics(metric.values), constants["parts"], self._tables(metric, collector), strict=True)
        parts = tuple(table.evidence(m, own) for m, own, table in each)
        return Parts(parts, self.views.lost(collector.records) if self.views else {})

    def _tables(self, metric: Metric, collector: Collector) -> tuple[Collector, ...]:
        """The table that each part reads."""
        if self.views is None:
            return (collector,) * len(self.metrics(metric.values))
        return self.views.first(collector), self.views.second(collector)

    def missing(self, metric: Metric, constants: Constants, collector: Collector) -> Mask:
        missing = np.zeros(len(collector.records), bool)
        each = zip(self.metrics(metric.values), constants["parts"], self._tables(metric, collector), strict=True)
        for m, own, table in each:
            missing[slice(None) if table is collector else table.rows] |= table.missing(m, own)
            if self.views is not None:  # rows that the view cannot show, such as those without a partner
                hidden = np.ones(len(missing), bool)
                hidden[table.rows] = False
                missing |= hidden & (collector.records.outcome != FAILED)
        return missing

    def united(self, _metric: Metric, sides: Sequence[tuple[Constants, Any]]) -> dict[str, Any]:
        (one, mine), (two, theirs) = sides
        parts = zip(self.metrics(_metric.values), one["parts"], two["parts"], mine.parts, theirs.parts, strict=True)
        return {"parts": tuple(m.united([(a, e), (b, f)]) for m, a, b, e, f in parts)}

    def parts(self, metric: Metric, evidence: Parts, constants: Constants) -> tuple[Any, Floats] | None:
        """The parts of every metric that this one is composed of: it is no surer than any of them."""
        parts = [m.parts(part, own) for m, part, own in self.inner(metric, evidence, constants)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return np.concatenate([holds for holds, _ in known], 1), np.concatenate([weight for _, weight in known])

    def readied(self, metric: Metric, reading: PartReadings, constants: Constants) -> Any:
        """The values of the parts."""
        metrics = self.metrics(metric.values)
        own = constants["parts"]
        return reading.once(
            metrics,
            lambda: tuple(m.finished(r, c) for m, r, c in zip(metrics, reading.readings, own, strict=True)),
        )
