"""What each answer scored, row by row: numbers and counts only, never what was asked or answered."""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard.metrics.by_task import lacks_column
from steelyard.metrics.collector import Collector
from steelyard.metrics.definition import Metric
from steelyard.metrics.evidence.sums import Sums
from steelyard.metrics.sources import RowSource
from steelyard.records.clusters import Clusters
from steelyard.records.labels import value_name
from steelyard.records.schema import OUTCOMES
from steelyard.records.table import Records
from steelyard.study.answers import stated_values
from steelyard.study.suite import SuiteTask
from steelyard.texts.breakdown import Breakdown

_WEIGHTED = ("hits", "weight")  # what a weighted mean of rows adds up
WEIGHT = "weight"  # the component that says how much a row weighs


def scored_rows(task: SuiteTask, table: Records, *, with_words: bool = False) -> list[dict[str, Any]]:
    """One result per answer of a task: its case, its outcome, and its score by every metric that is a mean of rows,
    weighted or not.

    Metrics that explain themselves add what each score is made of: components and counts, and `with_words` also what
    matched and was missed, which are words of the texts.
    """
    ids = Clusters.of((row,) for row in range(len(table)))
    collector = Collector(table, ids=ids, cluster=np.arange(len(table)))
    scores: list[dict[str, float]] = [{} for _ in ids]
    parts: list[dict[str, Any]] = [{} for _ in ids]
    for metric in task.metrics:
        if lacks_column(metric, table) is not None:
            continue
        evidence = collector.evidence(metric, collector.constants(metric))
        if not isinstance(evidence, Sums) or not (evidence.is_score or evidence.names[:2] == _WEIGHTED):
            continue
        for row in np.flatnonzero(np.asarray(evidence.rows) > 0).tolist():
            total, count = evidence.cells[row, :2]
            scores[row][metric.name] = float(total / count)
        for row, breakdown in _explained(metric, collector):
            made = parts[row][metric.name] = breakdown.to_dict(with_words=with_words)
            if not evidence.is_score and metric.name in scores[row]:
                made["components"] = {**made.get("components", {}), WEIGHT: float(evidence.cells[row, 1])}
    items = [value_name(item) for item in stated_values(table, "item")]
    return [
        {"task_id": task.name, "item": item, "outcome": OUTCOMES[outcome], "scores": own}
        | ({"breakdown": made} if made else {})
        for item, outcome, own, made in zip(items, table.outcome.tolist(), scores, parts, strict=True)
    ]


def _explained(metric: Metric, collector: Collector) -> list[tuple[int, Breakdown]]:
    """The rows that a metric explains, each with its breakdown."""
    source = metric.definition.source
    if not isinstance(source, RowSource):
        return []
    inside, breakdowns = source.explained(metric, collector.constants(metric), collector)
    places = range(len(collector.records)) if inside is None else np.flatnonzero(inside).tolist()
    return [(row, each) for row, each in zip(places, breakdowns, strict=False) if each is not None]
