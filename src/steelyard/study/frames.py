"""Estimates and deltas as pandas frames: one row each, a column per slice column, and none that nobody could read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from steelyard.records.frames import to_pandas
from steelyard.records.labels import value_name
from steelyard.uncertainty.number import Delta, Estimate, Number

_ESTIMATE = ("value", "low", "high", "level", "se", "method", "n", "clusters", "better", "note")
_DELTA = (
    *("base", "new", "delta", "low", "high", "level", "se", "p_value", "p_adjusted", "verdict"),
    *("n", "clusters", "better", "note"),
)


def estimates_frame(estimates: Sequence[Estimate]) -> Any:
    """One row per estimate."""
    return _frame(estimates, _ESTIMATE)


def deltas_frame(deltas: Sequence[Delta]) -> Any:
    """One row per delta."""
    return _frame(deltas, _DELTA)


def _frame(numbers: Sequence[Any], fields: Sequence[str]) -> Any:
    slices = dict.fromkeys(column for number in numbers for column in number.slice)
    columns: dict[str, list[Any]] = {"metric": [number.metric for number in numbers]}
    for column in slices:
        columns[column] = [None if column not in n.slice else value_name(n.slice[column]) for n in numbers]
    for name in fields:
        key = name if name not in columns else f"{name}_"  # a slice column of that name comes first
        columns[key] = [_field(number, name) for number in numbers]
    return to_pandas(pa.table(columns))


def _field(number: Number, name: str) -> Any:
    if name in ("low", "high"):
        return None if number.interval is None else number.interval[name == "high"]
    return getattr(number, name)
