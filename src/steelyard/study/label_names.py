"""Whether the labels of a table may stand next to its numbers: names of classes may, texts of people may not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from steelyard.metrics.definition import metric_of
from steelyard.records.table import Records
from steelyard.records.texts import holds_texts
from steelyard.uncertainty.number import Estimate

_NAMED = ("labels", "confusion_matrix", "predicted_but_never_a_target")


def without_texts(estimates: Sequence[Estimate], records: Records) -> list[Estimate]:
    """The estimates of a table and its slices: where its labels are texts, with their counts only.

    Labels that a metric was asked with stay.
    """
    if not any(_names_labels(e.detail) for e in estimates) or not holds_texts(records):
        return list(estimates)
    return [replace(e, detail=_counts_only(e.detail)) if _is_to_hide(e) else e for e in estimates]


def _is_to_hide(estimate: Estimate) -> bool:
    return _names_labels(estimate.detail) and metric_of(estimate.metric).values.get("labels") is None


def _names_labels(detail: Any) -> bool:
    return isinstance(detail, Mapping) and set(_NAMED) <= set(detail)


def _counts_only(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {**detail, **dict.fromkeys(_NAMED)}
