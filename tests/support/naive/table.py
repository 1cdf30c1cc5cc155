"""Rows as dicts, their outcomes, and what is counted of them (section 1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

Row = dict[str, Any]
Value = float | None


@dataclass(frozen=True)
class Table:
    """Rows as dicts, all with the same keys, and what is known of them as a whole."""

    rows: list[Row]
    labels: tuple[Any, ...] | None = None  # the task's fixed label set
    width: float | None = None  # the task's declared score range
    wall_seconds: float | None = None
    kwh: float | None = None
    co2_kg: float | None = None
    cluster: str = "item"
    plan: Any = None  # what a benchmark measures
    whole: list[Row] | None = None  # of a part: the rows of the table it is a part of

    def of(self, rows: list[Row]) -> Table:
        """The same task with other rows."""
        return replace(self, rows=rows, whole=self.whole or self.rows)


Oracle = Callable[[Table], Value]


def outcome(row: Row) -> str:
    """A stated outcome wins; else a null prediction is an abstention, where there is a prediction column."""
    if row.get("outcome") is not None:
        return str(row["outcome"])
    if "prediction" in row and row["prediction"] is None:
        return "abstained"
    return "answered"


def asked(table: Table) -> list[Row]:
    """N: answered, abstained and unparsed rows."""
    return [row for row in table.rows if outcome(row) != "failed"]


def answered(table: Table) -> list[Row]:
    return [row for row in table.rows if outcome(row) == "answered"]


def with_target(rows: list[Row]) -> list[Row]:
    """Rows that can be judged at all."""
    return [row for row in rows if row["target"] is not None]


def is_correct(row: Row) -> bool:
    return outcome(row) == "answered" and row["prediction"] == row["target"]


def share(part: float, whole: float) -> Value:
    return part / whole if whole else None


def mean(numbers: list[float]) -> Value:
    return math.fsum(numbers) / len(numbers) if numbers else None
