"""Who was asked what: models and strategies of one table that have different items are not comparable as they are."""

from __future__ import annotations

import numpy as np

from steelyard.errors import counted, printable
from steelyard.records.cautions import Caution
from steelyard.records.derive import combine
from steelyard.records.labels import value_name, value_of
from steelyard.records.schema import CELL
from steelyard.records.table import Records

_FEW = 6  # up to here each is named with its count


def uneven_items(records: Records) -> list[str]:
    """A warning where models, or strategies, have rows for different items. A declined item counts: it was asked.

    >>> uneven_items(Records.from_columns({"model": ["a", "a", "b"], "item": [1, 2, 2]}))
    ["models were asked different items: a 2, b 1, 1 in common; compare them with `align=intersection`"]
    """
    warnings = []
    for column, several in (("model", "models"), ("strategy", "strategies")):
        counts, common = _items(records, column)
        if any(count != common for count in counts.values()):
            sizes = [*counts.values()]
            each = ", ".join(f"{printable(name)} {count}" for name, count in counts.items())
            shown = each if len(sizes) <= _FEW else f"{len(sizes)} {several}, {min(sizes)} to {max(sizes)} each"
            warnings.append(
                f"{several} were asked different items: {shown}, {common} in common; "
                "compare them with `align=intersection`"
            )
    return warnings


def _items(records: Records, column: str) -> tuple[dict[str, int], int]:
    """How many items every value of the column has, and how many all of them have. A task has its own items."""
    if column not in records:
        return {}, 0
    labels = records.labels(column)
    names = [name for name in ("task", "item") if name in records]
    _, item = np.unique(combine([records.codes(name) for name in names], len(records)), return_inverse=True)
    who, first, place = np.unique(labels.codes, return_index=True, return_inverse=True)
    pairs = np.unique(place * len(records) + item)
    counts = np.bincount(pairs // len(records), minlength=len(who))
    common = int((np.bincount(pairs % len(records)) == len(who)).sum())
    shown = [value_name(value_of(labels, int(row))) for row in first]
    return dict(zip(shown, counts.tolist(), strict=True)), common


def uneven_repeats(records: Records) -> tuple[Caution, ...]:
    """A caution where some items were asked more often than others of their cell: they weigh more.

    >>> uneven_repeats(Records.from_columns({"item": [1, 1, 2], "repeat": [1, 2, 1]}))[0].text
    '1 of 2 items was asked less often than others: 1 time and not 2'
    """
    if "repeat" not in records or "item" not in records:
        return ()
    columns = [name for name in (*CELL, "item") if name in records]
    cells, items = (combine([records.codes(n) for n in names], len(records)) for names in (columns[:-1], columns))
    _, first, times = np.unique(items, return_index=True, return_counts=True)
    _, cell = np.unique(cells[first], return_inverse=True)
    most = np.zeros(int(cell.max()) + 1, np.int64)
    np.maximum.at(most, cell, times)
    fewer = times < most[cell]
    if not fewer.any():
        return ()
    were = "was" if fewer.sum() == 1 else "were"
    least = counted(int(times[fewer].min()), "time")
    how = f"{were} asked less often than others: {least} and not {int(most.max())}"
    return (Caution("repeats", f"{int(fewer.sum()):,} of {counted(len(times), 'item')} {how}", float(fewer.mean())),)
