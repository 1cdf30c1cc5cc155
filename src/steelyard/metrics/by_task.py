"""Evidence of what a benchmark measures: each metric in the rows of its task, composed afterwards.

What is measured where is a fact of the table, `Task.benchmark`; a metric here chooses among these measures. A measure
that has nothing to count (no answer, no such column) is left out, and named by whoever shows the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.errors import InputError, UsageError
from steelyard.ground.arrays import Floats, Mask
from steelyard.metrics.compositions import Composed, united_part
from steelyard.metrics.evidence.by_task import Name, TaskReadings, Tasks
from steelyard.metrics.options import Constants, Param, hashable
from steelyard.records.derive import DERIVED, FAILED
from steelyard.records.plan import Plan
from steelyard.records.table import Records

if TYPE_CHECKING:
    from steelyard.metrics.collector import Collector
    from steelyard.metrics.evidence.sums import Evidence
    from steelyard.metrics.metric import Metric

_OTHER_COLUMNS = "what the suite names"  # no column: only the plan says what is read


@dataclass(frozen=True)
class TaskValues:
    """The value of every measure under each of `size` resamples."""

    names: tuple[Name, ...]
    values: tuple[Floats, ...]
    size: int

    def where(self, *, task: str | None = None, category: str | None = None) -> list[Floats]:
        """The values of a task, of a category, or of both."""
        return [
            value
            for (its_task, _, its_category), value in zip(self.names, self.values, strict=True)
            if task in (None, its_task) and category in (None, its_category)
        ]

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name[0] for name in self.names))


@dataclass(frozen=True)
class TaskSource(Composed):
    """Evidence of those measures of a benchmark that `chosen(metric, table)` names."""

    over_tasks = True

    params: tuple[Param, ...]
    chosen: Callable[[Metric, Plan | None, Records], Sequence[Name]]

    def reads(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        own = options["base"].reads if "base" in options else (_OTHER_COLUMNS,)
        return (*own, "task")

    def inner(self, metric: Metric, evidence: Tasks, *constants: Constants) -> list[tuple[Any, ...]]:  # noqa: ARG002
        named = zip(evidence.names, evidence.parts, strict=True)
        return [(measured_by(name), part, *(each["tasks"][name] for each in constants)) for name, part in named]

    def summarised(self, metric: Metric, table: Records) -> Any:
        """What each task says for each of its metrics, and how many of its rows count."""
        plan = table.task.benchmark
        names = tuple(self.chosen(metric, plan, table))
        parts, counted = {}, {}
        for name in names:
            base, rows = measured_by(name), table.take(rows_of(table, name[0]))
            parts[name] = base.summary(rows)
            counted[name] = _counted(base, rows, parts[name])
        how = ((), True) if plan is None else (plan.weights, plan.renormalize_missing)
        return {"how": how, "names": names, "parts": parts, "counted": counted}

    def merged(self, metric: Metric, summaries: Sequence[Any], runs: int) -> dict[str, Any]:  # noqa: ARG002
        """The constants: the weights, those of each metric in its task, and which of them have rows in every run."""
        how = _alike([summary["how"] for summary in summaries])
        names = tuple(dict.fromkeys(name for summary in summaries for name in summary["names"]))
        for name in names if runs > 1 else ():
            if not all(name in summary["names"] for summary in summaries):
                raise InputError("the runs were measured by different suites, or with other categories")
        each = {name: [s["parts"][name] for s in summaries if name in s["parts"]] for name in names}
        lacking = [
            name for name in names if not (all if runs > 1 else any)(s["counted"].get(name, 0) for s in summaries)
        ]
        return {
            "weights": how[0],
            "renormalize": how[1],
            "tasks": {name: measured_by(name).merged(own, runs=runs) for name, own in each.items()},
            "lacking": tuple(lacking),
        }

    def key(self, metric: Metric, constants: Constants) -> tuple[Any, ...]:
        return (metric.name, constants.get("lacking"), hashable(constants.get("tasks")))

    def collect(self, metric: Metric, constants: Constants, collector: Collector) -> Evidence:  # noqa: ARG002
        names = tuple(name for name in constants["tasks"] if name not in constants["lacking"])
        tasks = tuple(dict.fromkeys(name[0] for name in constants["tasks"]))
        records, size = collector.records, len(collector.ids)
        parts, holds = [], np.zeros((size, len(tasks)), bool)
        rows, failed = np.zeros(size, np.int64), 0
        inside = {task: rows_of(records, task) for task in tasks}
        for name in names:
            part = collector.within(inside[name[0]])
            parts.append(part.evidence(measured_by(name), constants["tasks"][name]))
        for place, task in enumerate(tasks):
            asked = inside[task] & (records.outcome != FAILED)
            count = np.bincount(collector.cluster[asked], minlength=size)
            holds[:, place] = count > 0
            failed += int((inside[task] & ~asked).sum())
            if any(name[0] == task for name in names):
                rows += count
        return Tasks(
            names=names,
            parts=tuple(parts),
            ids=collector.ids,
            rows=rows,
            tasks=tasks,
            holds=holds,
            lost={"failed": failed} if failed else {},
            lacking=constants["lacking"],
        )

    def missing(self, metric: Metric, constants: Constants, collector: Collector) -> Mask:  # noqa: ARG002
        missing = np.zeros(len(collector.records), bool)
        for name, own in constants["tasks"].items():
            if name not in constants["lacking"]:
                part = collector.within(rows_of(collector.records, name[0]))
                missing[part.rows] |= part.missing(measured_by(name), own)
        return missing

    def united(self, _metric: Metric, sides: Sequence[tuple[Constants, Any]]) -> dict[str, Any]:
        (one, mine), (two, theirs) = sides
        _alike([(one["weights"], one["renormalize"]), (two["weights"], two["renormalize"])])
        if set(one["tasks"]) != set(two["tasks"]):
            raise InputError("the runs were measured by different suites, or with other categories")
        ours, others = (dict(zip(e.names, e.parts, strict=True)) for e in (mine, theirs))
        tasks = {}
        for name, own in one["tasks"].items():
            both = [(c, e[name]) for c, e in ((own, ours), (two["tasks"][name], others)) if name in e]
            tasks[name] = united_part(measured_by(name), both, own)
        return {**one, "tasks": tasks}

    def readied(self, metric: Metric, reading: TaskReadings, constants: Constants) -> TaskValues:  # noqa: ARG002
        """The values of the measures."""
        own = constants["tasks"]
        return reading.once(
            reading.names,
            lambda: TaskValues(
                reading.names,
                tuple(measured_by(n).finished(r, own[n]) for n, r in zip(reading.names, reading.readings, strict=True)),
                reading.size,
            ),
        )

    def shares(self, metric: Metric, evidence: Tasks, constants: Constants) -> Floats:
        """What each measure carries of the value: what it is where that measure is 1, and the others 0."""
        size = len(evidence.names)
        alone = TaskValues(evidence.names, tuple(np.eye(size)), size)
        return np.nan_to_num(metric.of_values(alone, constants)) if size else np.empty(0)

    def parts(self, metric: Metric, evidence: Tasks, constants: Constants) -> tuple[Any, Floats]:
        """The clusters that hold each part of each measure, and what it carries of the value."""
        shares = self.shares(metric, evidence, constants)
        holds, weights = [np.zeros((len(evidence.ids), 0), bool)], [np.empty(0)]
        for share, (base, part, own) in zip(shares, self.inner(metric, evidence, constants), strict=True):
            inside, weight = base.parts(part, own) or ((part.rows > 0)[:, None], np.ones(1))
            holds.append(np.asarray(inside, bool))
            weights.append(share * np.asarray(weight, np.float64))
        return np.concatenate(holds, 1), np.concatenate(weights)


def rows_of(table: Records, task: str) -> Mask:
    """The rows of a task; all of them where the table does not tell tasks apart."""
    if "task" not in table:
        return np.ones(len(table), bool)
    return np.asarray(table.labels("task") == task)


def planned(metric: Metric, plan: Plan | None) -> Plan:
    """The plan of a benchmark, without which its scores mean nothing."""
    if plan is None:
        raise UsageError(
            f"{metric} is made of what a suite measures in each task; evaluate the answers with `steelyard benchmark`, "
            "or state `benchmark` in the task file"
        )
    return plan


def lacks_column(metric: Metric, table: Records) -> str | None:
    """A column that the metric reads and the table does not have."""
    return next((column for column in metric.reads if column not in table and column not in DERIVED), None)


def measured_by(name: Name) -> Metric:
    """The metric of a measure. Its name is a key of evidence, on disk too, and is read once."""
    from steelyard.metrics import metrics

    return _known(name[1], metrics.changes)


@lru_cache(maxsize=1024)
def _known(name: str, _changes: int) -> Metric:
    from steelyard.metrics.definition import metric_of

    return metric_of(name)


def _counted(base: Metric, rows: Records, summary: Any) -> int:
    """How many rows a metric counts; none where a column that it reads is not there."""
    from steelyard.metrics.collector import Collector

    if lacks_column(base, rows) is not None:
        return 0
    return int(Collector.whole(rows).evidence(base, base.merged([summary])).rows.sum())


def _alike(how: Sequence[Any]) -> Any:
    if any(each != how[0] for each in how[1:]):
        raise InputError("the runs weigh their categories differently; their combined scores cannot be compared")
    return how[0]
