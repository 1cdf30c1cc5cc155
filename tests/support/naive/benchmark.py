"""Scores over the tasks of a benchmark, in plain loops (section 11)."""

from __future__ import annotations

from functools import partial

from tests.support.naive.groups import BASES
from tests.support.naive.table import Oracle, Table, Value, mean

# task, metric, category: metrics that need two classes are undefined in some tasks, and a task may be missing
PLAN = (
    ("x", "accuracy", "diagnostics"),
    ("x", "balanced_accuracy", "diagnostics"),
    ("x", "answer_rate", "safety"),
    ("y", "accuracy", "diagnostics"),
    ("y", "f1_macro", "communication"),
    ("y", "parse_failure_rate", ""),
    ("z", "balanced_accuracy", "safety"),
)
WEIGHTS = {"diagnostics": 0.5, "safety": 0.3, "communication": 0.2}


def of_task(table: Table, task: str) -> Table:
    return table.of([row for row in table.rows if row["task"] == task])


def tasks_of(table: Table) -> list[str]:
    return sorted({row["task"] for row in table.rows})


def category_of_task(table: Table, task: str, category: str) -> Value:
    mine = [metric for its_task, metric, its_category in PLAN if (its_task, its_category) == (task, category)]
    values = [BASES[metric](of_task(table, task)) for metric in mine]
    return mean([value for value in values if value is not None])


def category(table: Table, *, name: str) -> Value:
    values = [category_of_task(table, task, name) for task in tasks_of(table)]
    return mean([value for value in values if value is not None])


def combined_score(table: Table, *, renormalize: bool = True) -> Value:
    scores = []
    for task in tasks_of(table):
        values = {name: category_of_task(table, task, name) for name in WEIGHTS}
        present = {name: value for name, value in values.items() if value is not None}
        if present:
            whole = sum(WEIGHTS[name] for name in (present if renormalize else WEIGHTS))
            scores.append(sum(WEIGHTS[name] / whole * value for name, value in present.items()))
    return mean(scores)


def task_mean(table: Table, *, base: str) -> Value:
    values = [BASES[base](of_task(table, task)) for task in tasks_of(table) if (task, base) in [p[:2] for p in PLAN]]
    return mean([value for value in values if value is not None])


BENCHMARK: dict[str, Oracle] = {
    "combined_score": combined_score,
    **{f"category.{name}": partial(category, name=name) for name in WEIGHTS},
    "task_mean(accuracy)": partial(task_mean, base="accuracy"),
    "task_mean(balanced_accuracy)": partial(task_mean, base="balanced_accuracy"),
    "task_mean(mae)": partial(task_mean, base="mae"),
}
