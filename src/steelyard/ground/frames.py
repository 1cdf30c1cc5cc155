"""Columns as Arrow tables, and these as frames of libraries that need not be installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import pyarrow as pa

from steelyard.errors import UsageError
from steelyard.ground.json import whole_text

if TYPE_CHECKING:
    import pandas
    import polars


def arrow_table(columns: Mapping[str, pa.Array]) -> pa.Table:
    """Columns as one table; half a character in a name, which Arrow cannot hold, is its escape."""
    return pa.table({whole_text(name): column for name, column in columns.items()})


def to_pandas(table: pa.Table) -> pandas.DataFrame:
    """A pandas frame; whole numbers and booleans stay what they are where values are missing."""
    library = _installed("pandas")
    kinds = {pa.int64(): library.Int64Dtype(), pa.bool_(): library.BooleanDtype()}
    return table.to_pandas(types_mapper=kinds.get)


def to_polars(table: pa.Table) -> polars.DataFrame:
    """A polars frame."""
    return _installed("polars").from_arrow(table)


def _installed(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        raise UsageError(f"{name} is not installed, and a frame of it was asked for: pip install {name}") from None
