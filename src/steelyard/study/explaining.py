"""How scores of texts came about: of one pair of texts, or of the worst rows of a table.

What is returned holds names and words from the texts, which may be patient data: it is made only where it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.metrics.collector import Collector
from steelyard.metrics.definition import Metric, MetricLike, metric_of
from steelyard.metrics.sources import RowSource
from steelyard.records.labels import value_of
from steelyard.records.schema import KEY
from steelyard.records.table import Records
from steelyard.texts.breakdown import Breakdown


@dataclass(frozen=True, kw_only=True)
class ExplainedRow:
    """One row and how its score came about. `key` are the columns that tell rows apart, `line` is where it stands."""

    metric: str
    key: Mapping[str, Any]
    line: int
    breakdown: Breakdown

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"metric": self.metric, **self.key, "line": self.line, "breakdown": self.breakdown.to_dict()}


def read_row(document: Mapping[str, Any]) -> ExplainedRow:
    """The row that a document holds; a KeyError or TypeError where it holds none."""
    about = dict(document)
    metric, line, breakdown = (about.pop(name) for name in ("metric", "line", "breakdown"))
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in breakdown.items()
    }
    return ExplainedRow(metric=metric, key=about, line=line, breakdown=Breakdown(metric=metric, **fields))


def explain(
    metric: MetricLike, target: str, prediction: str, *, lexicon: Sequence[str] | str = (), **columns: str
) -> Breakdown:
    """How a metric of texts scores an answer: components, and what matched, was missed and was extra.

    `columns` are others that the metric reads, such as `contraindicated`; `lexicon` are tables of further terms.

    >>> explain("clinical_accuracy", "pneumonia, no fever", "pneumonia and fever").extra
    ('fever',)
    """
    tables = [lexicon] if isinstance(lexicon, str) else list(lexicon)
    values = {"item": [0], "target": [target], "prediction": [prediction], **{n: [v] for n, v in columns.items()}}
    records = Records.from_columns(values, task={"lexicon": tables})
    asked = metric_of(metric)
    for member in asked.expanded(records):
        for row in _rows(member, records):
            return row.breakdown
    raise UsageError(f"{asked} does not explain its scores, or has none for these texts")


def worst_rows(records: Records, asked: Sequence[Metric], n: int) -> list[ExplainedRow]:
    """Of every metric that explains itself, the rows with the lowest scores, the worst first."""
    rows = []
    for metric in asked:
        own = sorted(_rows(metric, records), key=lambda row: _badness(metric, row.breakdown))
        rows += own[:n]
    if asked and not rows:
        raise UsageError("`explain=` is for metrics of texts, such as clinical_accuracy; none was asked for")
    return rows


def _badness(metric: Metric, breakdown: Breakdown) -> float:
    score = np.inf if breakdown.score is None else breakdown.score
    return float(score if metric.better != "lower" else -score)


def _rows(metric: Metric, records: Records) -> list[ExplainedRow]:
    """Every row that the metric explains."""
    source = metric.definition.source
    if not isinstance(source, RowSource):
        return []
    inside, breakdowns = source.explained(metric, metric.constants([records]), Collector(records))
    places = range(len(records)) if inside is None else np.flatnonzero(inside).tolist()
    known = [name for name in KEY if name in records]
    labels = {name: records.labels(name) for name in known} if breakdowns else {}
    return [
        ExplainedRow(
            metric=metric.name,
            key={name: value_of(labels[name], row) for name in known if labels[name].codes[row] >= 0},
            line=records.where(row)[1],
            breakdown=breakdown,
        )
        for row, breakdown in zip(places, breakdowns, strict=False)
        if breakdown is not None and breakdown.score is not None
    ]
