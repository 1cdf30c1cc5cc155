"""Rows of a table as items need them."""

from __future__ import annotations

from typing import Any

from steelyard.errors import InputError
from steelyard.records.schema import kind_of
from steelyard.records.table import Records


def values_of(records: Records, column: str) -> list[Any]:
    """A column's values; a text that is blank is none."""
    values = records.column(column)
    if kind_of(values) != "text":
        return list(values.to_pylist())
    return [None if text is None or not text.strip() else text for text in values.to_pylist()]


def names_of_rows(records: Records, column: str, what: str) -> list[str | int]:
    """A column of texts or whole numbers that every row has; `what` they are called in an error."""
    names = values_of(records, column)
    for row, name in enumerate(names):
        if not isinstance(name, str | int) or isinstance(name, bool):
            file, line = records.where(row)
            raise InputError(f"a text or a whole number is expected as {what}", file=file, line=line, field=column)
    return names


def ids_of(records: Records, column: str) -> list[str | int]:
    """The same, each of them once."""
    ids = names_of_rows(records, column, "id")
    seen: dict[str | int, int] = {}
    for row, each in enumerate(ids):
        if each in seen:
            (file, line), first = records.where(row), records.where(seen[each])[1]
            raise InputError(f"the id is that of line {first} too", file=file, line=line, field=column)
        seen[each] = row
    return ids
