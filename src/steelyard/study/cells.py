"""Cells of a table and slices of its cells: which rows an estimate or a delta is about.

A cell is what one model answered under one strategy to one task under one perturbation; rows of different cells are
never pooled unless that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steelyard.errors import InputError, UsageError, printable
from steelyard.metrics.definition import Metric
from steelyard.records.derive import with_reference
from steelyard.records.schema import CELL
from steelyard.records.table import Records


def slices(records: Records, by: Sequence[str], pool: Sequence[str]) -> Iterator[tuple[dict[str, Any], Records]]:
    """The cells of a table and their slices, each with its mapping."""
    cell_columns = cells(records, checked_pool(pool))
    for cell, table in records.split(cell_columns):
        yield cell, table
        for group in dict.fromkeys(by):
            columns = columns_of(group)
            if all(c in cell_columns for c in columns):
                continue
            for name in columns:
                if name not in records and name != "outcome":
                    raise UsageError(records.lacks(name, "by"))
            for values, part in table.split(columns):
                yield {**cell, **values}, part


def columns_of(group: str) -> list[str]:
    """The columns that a group of slices is of: one, or several with stars between them."""
    return [column.strip() for column in group.split("*")]


def checked_pool(pool: Sequence[str]) -> Sequence[str]:
    """The cell columns to pool over; anything else is an error."""
    for name in pool:
        if name not in CELL:
            raise UsageError(f"pool takes cell columns ({', '.join(CELL)}), not '{printable(name)}'")
    return pool


def cells(records: Records, pool: Sequence[str] = ()) -> list[str]:
    """The cell columns that tell cells of this table apart."""
    return [c for c in CELL if c in records and c not in pool and several(records, c)]


def one_cell(records: Records) -> Records:
    """The records, if they are one cell; else an error that says what tells the cells apart."""
    columns = cells(records)
    if columns:
        raise UsageError(f"the rows differ in {', '.join(columns)}; choose one with `mode=` or `where=`")
    return records


def several(records: Records, column: str) -> bool:
    """True if the column has more than one value (a null counts as one)."""
    labels = records.labels(column)
    return len(labels.values) + bool(labels.missing.any()) > 1


def applies(metric: Metric, table: Records, parts: int, slice_: Mapping[str, Any]) -> bool:
    """Metrics of altered questions have nothing to say of the originals, nor those over groups inside one group."""
    if metric.perturbed_only and parts > 1 and table.is_unperturbed().all():
        return False
    return not set(metric.grouped_by) & set(slice_)


def joined(records: Records, asked: Sequence[Metric]) -> Records:
    """The records, with the unperturbed partner's columns where a metric reads them."""
    needing = [m for m in asked if m.perturbed_only or any(c.startswith("reference.") for c in m.reads)]
    if not needing:
        return records
    if "perturbation" not in records:
        raise InputError(
            f"{needing[0]} compares altered questions with the originals and needs the column 'perturbation'",
            file=records.name,
        )
    return with_reference(records)
