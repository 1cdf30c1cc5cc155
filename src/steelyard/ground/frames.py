"""Arrow tables as frames of libraries that need not be installed."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import pyarrow as pa

from steelyard.errors import UsageError

if TYPE_CHECKING:
    import pandas
    import polars


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
