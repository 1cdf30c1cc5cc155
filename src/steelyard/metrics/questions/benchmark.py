"""How good is a model over all tasks of a benchmark? Means over tasks, categories of metrics, and one combined score.

Each task counts alike, however many rows it has. Which metric belongs to which category, and what the categories weigh,
is stated by a suite (`steelyard.study.suite`) or by `benchmark` in a task file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steelyard.ground.arrays import Floats
from steelyard.metrics.by_task import TaskSource, TaskValues, measured_by, planned
from steelyard.metrics.categories import combined_of, mean_of
from steelyard.metrics.contract import of_tasks
from steelyard.metrics.definition import AS_BASE
from steelyard.metrics.evidence.by_task import Name
from steelyard.metrics.metric import Metric
from steelyard.metrics.options import Constant, Param
from steelyard.records.plan import Plan
from steelyard.records.table import Records

Weights = tuple[tuple[str, float], ...]


def _weighed(metric: Metric, plan: Plan | None, table: Records) -> list[Name]:
    """The measures of a task that count in a category with a weight."""
    plan = planned(metric, plan)
    weights = dict(plan.weights)
    return [tuple(each) for each in _here(plan, table) if weights.get(each.category, 0) > 0]


def _of_category(metric: Metric, plan: Plan | None, table: Records) -> list[Name]:
    return [tuple(each) for each in _here(planned(metric, plan), table) if each.category == metric.label]


def _of_metric(metric: Metric, plan: Plan | None, table: Records) -> list[Name]:
    """The measures that are this metric; without a plan, every task is measured by it."""
    base = metric.values["base"]
    if plan is not None:
        return [(each.task, base.name, "") for each in _here(plan, table) if measured_by(each) == base]
    if "task" not in table:
        return [("", base.name, "")]
    return [(str(task), base.name, "") for task in table.labels("task").values]


def _here(plan: Plan, table: Records) -> list[Any]:
    """The measures of the tasks that a table has rows of; a slice of one task has that task's alone."""
    if "task" not in table:
        return list(plan.measures)
    met = set(map(str, table.labels("task").values))
    return [each for each in plan.measures if each.task in met]


@of_tasks(
    TaskSource((), _weighed),
    title="Combined Score",
    also=("overall", "total score"),
    better="higher",
    bounds=(0, 1),
    formula="mean over tasks of Σ_k (w_k / Z_t)·v_tk,  Z_t = Σ of the weights of the categories that task t has",
    undefined="no task has a category with a weight",
)
def combined_score(measured: TaskValues, *, weights: Constant, renormalize: Constant) -> Floats:
    """The combined score of a benchmark: the weighted mean of its categories in each task, averaged over tasks.

    A task without one of the categories shares its weight among the others, or, where the suite says so
    (`renormalize_missing: false`), gets nothing for it. It is of one task where the table holds one.

    >>> plan = {"tasks": {"": {"accuracy": "diagnostics"}}, "weights": {"diagnostics": 1}}
    >>> value("combined_score", target=["a", "b"], prediction=["a", "a"], task={"benchmark": plan})
    0.5
    """
    return mean_of([_of_task(measured, task, weights, renormalize) for task in measured.tasks], measured.size)


def _of_task(measured: TaskValues, task: str, weights: Weights, renormalize: bool) -> Floats:
    categories = {
        name: mean_of(measured.where(task=task, category=name), measured.size)
        for name, _ in weights
        if measured.where(task=task, category=name)
    }
    return combined_of(categories, dict(weights), measured.size, renormalize_missing=renormalize)


@combined_score.detail
def _(measured: TaskValues, *, weights: Constant, renormalize: Constant) -> dict[str, Any]:
    tasks = {task: float(_of_task(measured, task, weights, renormalize)[0]) for task in measured.tasks}
    return {"weights": dict(weights), "renormalize_missing": renormalize, "tasks": tasks}


def _categories(table: Records) -> Sequence[str]:
    plan = table.task.benchmark
    return () if plan is None else plan.categories


@of_tasks(
    TaskSource((), _of_category),
    title="Category {label}",
    also=("overall",),
    better="higher",
    bounds=(0, 1),
    members=_categories,
    formula="mean over tasks of the mean of the task's metrics of the category",
    undefined="no task has a metric of this category",
)
def category(measured: TaskValues, *, label: str) -> Floats:  # noqa: ARG001 - it says which measures there are
    """A category of a benchmark: `category.safety` is the mean of the metrics that count in it, averaged over tasks.

    >>> plan = {"tasks": {"": {"accuracy": "diagnostics"}}, "weights": {"diagnostics": 1}}
    >>> value("category.diagnostics", target=["a", "b"], prediction=["a", "a"], task={"benchmark": plan})
    0.5
    """
    return mean_of([mean_of(measured.where(task=t), measured.size) for t in measured.tasks], measured.size)


@of_tasks(
    TaskSource((Param("base", "metric"),), _of_metric),
    title="{base}, Mean over Tasks",
    also=("macro average",),
    better="as base",
    bounds=AS_BASE,
    formula="mean of the metric over tasks",
    undefined="the metric is undefined in every task",
)
def task_mean(measured: TaskValues) -> Floats:
    """A metric averaged over tasks: each task counts alike, however many rows it has.

    In a benchmark the tasks are those that its suite measures by this metric.

    >>> value("task_mean(accuracy)", task=["x", "x", "y"], target=["a", "b", "a"], prediction=["a", "a", "a"])
    0.75
    """
    return mean_of(list(measured.values), measured.size)


@combined_score.present
@category.present
@task_mean.present
def _(measured: TaskValues) -> Any:
    """Which measures a resample determines."""
    defined = [~np.isnan(value) for value in measured.values]
    return np.stack(defined, -1) if defined else np.ones((measured.size, 0), bool)
