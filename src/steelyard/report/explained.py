"""The worst rows of metrics of texts, for people: what matched, what was missed, what was extra."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.records.labels import value_name
from steelyard.report.document import Document, Heading, Row, Table, Value
from steelyard.study.explaining import ExplainedRow

_COLUMNS = ("row", "score", "matched", "missed", "extra", "components", "remarks")


def explained_report(rows: Sequence[ExplainedRow]) -> Document:
    """A table of rows per metric, the worst first."""
    document: Document = []
    for metric in dict.fromkeys(row.metric for row in rows):
        own = [row for row in rows if row.metric == metric]
        document += [Heading(f"worst rows by {metric}"), Table(_COLUMNS, tuple(map(_cells, own)))]
    return document


def _part(name: str, value: object) -> str:
    return value_name(value) if name == "item" else f"{name}={value_name(value)}"


def _cells(row: ExplainedRow) -> Row:
    breakdown = row.breakdown
    return (
        ", ".join(_part(name, value) for name, value in row.key.items()),
        Value(breakdown.score),
        ", ".join(breakdown.matched),
        ", ".join(breakdown.missed),
        ", ".join(breakdown.extra),
        ", ".join(f"{name} {value:.2f}" for name, value in breakdown.components.items()),
        "; ".join(breakdown.remarks),
    )
