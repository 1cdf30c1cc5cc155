"""Whether the labels of a table may stand next to its numbers: names of classes may, texts of people may not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from steelyard.uncertainty.number import Estimate

_MATRIX = ("labels", "confusion_matrix", "predicted_but_never_a_target")


def without_texts(estimates: Sequence[Estimate], has_texts: Callable[[], bool]) -> list[Estimate]:
    """The estimates of a table and its slices: where its labels are texts, with their counts only.

    Labels that a metric was asked with stay. Whether they are texts is asked only where a detail names some.
    """
    if not any(_names(e.detail) for e in estimates) or not has_texts():
        return list(estimates)
    return [
        replace(e, detail={**e.detail, **dict.fromkeys(hidden)}) if (hidden := _to_hide(e)) else e for e in estimates
    ]


def _to_hide(estimate: Estimate) -> list[str]:
    """The keys of the detail that name labels which the metric was not asked with."""
    if not _names(estimate.detail):
        return []
    asked = {} if estimate.of is None else estimate.of.values
    return [key for key, option in _names(estimate.detail).items() if asked.get(option) is None]


def _names(detail: Any) -> dict[str, str]:
    """The keys of a detail that name labels, each with the option that would have named them."""
    present = isinstance(detail, Mapping)
    matrix = dict.fromkeys(_MATRIX, "labels") if present and set(_MATRIX) <= set(detail) else {}
    return {**matrix, **({"positive": "positive"} if present and "positive" in detail else {})}
