"""What an answer and a score claim: that a row belongs to a class, or that the answer is correct."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from steelyard.errors import InputError
from steelyard.ground.arrays import Floats, Mask
from steelyard.metrics.vocabulary import Population
from steelyard.records.derive import same_kind
from steelyard.records.labels import is_named, value_name
from steelyard.records.table import Records
from steelyard.records.texts import holds_texts

_POSITIVE = {"1": "0", "true": "false"}  # labels that are positive wherever the other one is their opposite


def class_names(records: Records) -> tuple[str, ...]:
    """The labels a family such as `f1` expands to."""
    fixed = records.task.labels
    if fixed is not None:
        return tuple(map(value_name, fixed))
    same_kind(records)
    if holds_texts(records):
        raise InputError(
            "targets and predictions are texts, which name no classes; ask for f1_macro, or declare the task's labels",
            file=records.name,
        )
    return tuple(map(value_name, sorted({*records.labels("target").values, *records.labels("prediction").values})))


def is_label(records: Records, column: str, label: str) -> Mask:
    """The rows whose column holds a label, however the label is spelled."""
    labels = records.labels(column)
    place = [i for i, v in enumerate(labels.values) if is_named(v, label)]
    return labels.codes == (place[0] if place else -2)


def claimed(records: Records, positive: str | None) -> Floats:
    """What a score is about: that the answer is correct, or that the target is `positive`; NaN without a target."""
    if positive is None:
        return np.asarray(records.array("correct"), np.float64)
    return np.where(records.labels("target").missing, np.nan, is_label(records, "target", positive))


def has_positive(table: Records, positive: str | None) -> dict[str, Any]:
    """The summary of a metric about one class: whether a target is that class."""
    return {"known": positive is None or any(is_named(value, positive) for value in table.labels("target").values)}


def known_positive(summaries: Sequence[Any]) -> dict[str, Any]:
    """Why a metric about one class is undefined, or nothing: no target is that class, as where it is misspelt."""
    known = any(summary["known"] for summary in summaries)
    return {} if known else {"undefined": "no target equals the positive label"}


def claiming_rows(options: Mapping[str, Any]) -> Population:
    """The rows of such a metric: a confidence is about an answer, a class's probability about any row with a target."""
    return "answered" if options["positive"] is None else "asked"


# what is stated of a metric about a claim
CLAIMING: dict[str, Any] = {
    "rows": claiming_rows,
    "reads": ("target", "prediction"),
    "summary": has_positive,
    "merge": known_positive,
}


def class_in_table(table: Records, positive: str | None) -> dict[str, Any]:
    """The summary of a metric of one class against the rest: which is stated, and how often each target occurs.

    Targets are counted by task in the whole table, so that the class is the same in every slice and group of a task.
    """
    whole = table.whole
    stated = positive if positive is not None else whole.task.positive
    named = [value for column in ("target", "prediction") if column in whole for value in whole.labels(column).values]
    text = None if stated is None else value_name(stated)
    return {
        "stated": text,
        "known": text is None or any(is_named(value, text) for value in (*named, *(whole.task.labels or ()))),
        **by_task(table, _targets),
    }


def by_task(table: Records, summary: Callable[[Records], Any]) -> dict[str, Any]:
    """A summary of each task of the whole table, and which tasks are asked about: facts that slices share."""
    whole = table.whole
    return {
        "tasks": tuple(_tasks(table)),
        "by_task": {task: summary(whole.take(rows)) for task, rows in _tasks(whole).items()},
    }


def in_tasks(summaries: Sequence[Any]) -> list[Any]:
    """What `by_task` said of the tasks that are asked about."""
    asked = {task for summary in summaries for task in summary["tasks"]}
    return [own for summary in summaries for task, own in summary["by_task"].items() if task in asked]


def _tasks(table: Records) -> dict[str, Mask]:
    """The rows of each task; a table without tasks is one."""
    if "task" not in table:
        return {"": np.ones(len(table), bool)} if len(table) else {}
    labels = table.labels("task")
    present = {value_name(value): labels == value for value in labels.values}
    present |= {"": labels.missing} if labels.missing.any() else {}
    return {name: rows for name, rows in present.items() if rows.any()}


def _targets(table: Records) -> dict[str, int]:
    """How often each target occurs."""
    if "target" not in table:
        return {}
    labels = table.labels("target")
    counts = np.bincount(labels.codes[~labels.missing], minlength=len(labels.values))
    return {value_name(value): int(n) for value, n in zip(labels.values, counts, strict=True) if n}


def one_class(summaries: Sequence[Any]) -> dict[str, Any]:
    """The positive class: as asked or declared, else 1 of 0 and 1, else the rarer of two targets; or why none is."""
    stated = summaries[0]["stated"]
    if stated is not None:
        known = any(summary["known"] for summary in summaries)
        return {"positive": stated} if known else {"positive": stated, "undefined": "no label equals the positive one"}
    counts = _counts(summaries)
    if len(counts) != 2:
        few = "fewer" if len(counts) < 2 else "more"
        return {"positive": None, "undefined": f"{few} than two labels among the targets: say which with positive="}
    by_convention = next((label for label in _POSITIVE if {label, _POSITIVE[label]} == set(counts)), None)
    # of equally rare ones the last in order: yes rather than no
    return {
        "positive": by_convention or min(sorted(counts, key=_in_order, reverse=True), key=lambda name: counts[name])
    }


def _in_order(label: str) -> tuple[float, str]:
    """Numbers by their size, other labels as texts."""
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    return (number, "") if math.isfinite(number) else (math.inf, label)  # a label "nan" has no size


def _counts(summaries: Sequence[Any]) -> dict[str, int]:
    """How often each label is the target, in the tasks that are asked about."""
    counts: dict[str, int] = {}
    for met in in_tasks(summaries):
        for name, n in met.items():
            counts[name] = counts.get(name, 0) + n
    return counts
