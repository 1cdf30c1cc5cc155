"""Estimates and deltas as tidy tables: one row each, a column per slice column, and none that nobody could read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from steelyard.errors import counted
from steelyard.records.labels import value_name
from steelyard.uncertainty.number import Delta, Estimate, Number

_ESTIMATE = ("value", "low", "high", "level", "se", "unit", "method", "n", "clusters", "better", "note")
_DELTA = (
    *("base", "new", "delta", "low", "high", "level", "se", "p_value", "p_adjusted", "verdict"),
    *("n", "clusters", "better", "note"),
)
_FLOATS = ("value", "low", "high", "level", "se", "base", "new", "delta", "p_value", "p_adjusted")
_KINDS = {**dict.fromkeys(_FLOATS, pa.float64()), **dict.fromkeys(("n", "clusters"), pa.int64())}


def estimates_table(estimates: Sequence[Estimate], **more: Sequence[str]) -> pa.Table:
    """One row per estimate; `more` are columns that come first."""
    return _table(estimates, _ESTIMATE, more)


def deltas_table(deltas: Sequence[Delta], **more: Sequence[str]) -> pa.Table:
    """One row per delta; `more` are columns that come first."""
    return _table(deltas, _DELTA, more)


def _table(numbers: Sequence[Estimate | Delta], fields: Sequence[str], more: Mapping[str, Sequence[str]]) -> pa.Table:
    slices = dict.fromkeys(column for number in numbers for column in number.slice)
    columns: dict[str, Sequence[Any]] = {**more, "metric": [number.metric for number in numbers]}
    for column in slices:
        columns[column] = [None if column not in n.slice else value_name(n.slice[column]) for n in numbers]
    for name in fields:
        key = name if name not in columns else f"{name}_"  # a slice column of that name comes first
        columns[key] = [_field(number, name) for number in numbers]
    return pa.table({name: pa.array(values, _KINDS.get(name)) for name, values in columns.items()})


def main_lines(numbers: Sequence[Estimate | Delta], *, most: int = 6) -> list[str]:
    """A line per number of the whole table, for a `repr`; the others are counted, since their names may hold data."""
    whole = [n for n in numbers if not n.slice and (n.of is None or n.of.label is None)][:most]
    width = max((len(n.metric) for n in whole), default=0)
    lines = [f"  {n.metric:<{width}}  {n.in_short}" for n in whole]
    rest = len(numbers) - len(whole)
    slices = len({tuple(n.slice.items()) for n in numbers if n.slice})
    where = f" in {counted(slices, 'slice')}" if slices else ""
    return lines + ([f"  {'and ' if whole else ''}{rest:,}{' more' if whole else ''}{where}"] if rest else [])


def _field(number: Number, name: str) -> Any:
    if name in ("low", "high"):
        return None if number.interval is None else number.interval[name == "high"]
    return getattr(number, name)
