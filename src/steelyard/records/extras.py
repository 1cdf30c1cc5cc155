"""Columns that are kept although nobody can read them yet: mixed kinds, nested values, numbers that are not finite.

They are written again by `convert` and in frames, and the problem is raised when somebody asks for the column.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from steelyard.errors import InputError
from steelyard.records.schema import text_array


@dataclass(frozen=True)
class Extra:
    """A column that cannot be read, what is wrong with it, and whether its texts are JSON."""

    column: Any
    problem: InputError
    is_json: bool = False


def json_texts(column: Any) -> pa.Array:
    """Every value of a column as JSON text; null stays null."""
    return text_array([None if value is None else json.dumps(value, default=str) for value in column.to_pylist()])
