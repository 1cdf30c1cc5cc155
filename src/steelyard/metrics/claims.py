"""What an answer and a score claim: that a row belongs to a class, or that the answer is correct."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steelyard.errors import InputError
from steelyard.ground.arrays import Floats, Mask
from steelyard.records.derive import same_kind
from steelyard.records.labels import is_named, value_name
from steelyard.records.table import Records
from steelyard.records.texts import holds_texts


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


def class_in_table(table: Records, positive: str | None) -> dict[str, Any]:
    """The summary of a metric of one class against the rest: which class is stated, and how often each target occurs.

    Both are facts of the whole table, so that the class is the same in every slice and group of it.
    """
    whole = table.whole
    stated = positive if positive is not None else whole.task.positive
    met: dict[str, int] = {}
    if "target" in whole:
        labels = whole.labels("target")
        counts = np.bincount(labels.codes[~labels.missing], minlength=len(labels.values))
        met = {value_name(value): int(n) for value, n in zip(labels.values, counts, strict=True)}
    named = [value for column in ("target", "prediction") if column in whole for value in whole.labels(column).values]
    text = None if stated is None else value_name(stated)
    return {"stated": text, "met": met, "known": text is None or any(is_named(value, text) for value in named)}


def one_class(summaries: Sequence[Any]) -> dict[str, Any]:
    """The positive class: as asked, as the task declares, else the rarer target; or why there is none."""
    stated = summaries[0]["stated"]
    if stated is not None:
        known = any(summary["known"] for summary in summaries)
        return {"positive": stated} if known else {"positive": stated, "undefined": "no label equals the positive one"}
    label = rarer_label(summaries)
    if label is None:
        return {"positive": None, "undefined": "fewer than two labels among the targets: say which with positive="}
    return {"positive": label}


def rarer_label(summaries: Sequence[Any]) -> str | None:
    """The target label with the fewest rows, of equal ones the last in order; none where all targets are alike."""
    counts: dict[str, int] = {}
    for summary in summaries:
        for name, n in summary["met"].items():
            counts[name] = counts.get(name, 0) + n
    met = sorted(name for name, n in counts.items() if n)
    return min(reversed(met), key=lambda name: counts[name]) if len(met) > 1 else None
