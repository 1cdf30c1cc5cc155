"""Arrow tables as frames of other libraries, which need not be installed; the way in is `in_memory`."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import pyarrow as pa

from steelyard.errors import UsageError


def to_pandas(table: pa.Table) -> Any:
    """A pandas frame; whole numbers and booleans stay what they are where values are missing."""
    pandas = _installed("pandas")
    kinds = {pa.int64(): pandas.Int64Dtype(), pa.bool_(): pandas.BooleanDtype()}
    return table.to_pandas(types_mapper=kinds.get)


def to_polars(table: pa.Table) -> Any:
    """A polars frame."""
    return _installed("polars").from_arrow(table)


def _installed(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        raise UsageError(f"{name} is not installed, and a frame of it was asked for: pip install {name}") from None
