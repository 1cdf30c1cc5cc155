"""What each answer scored, row by row: numbers and counts only, never what was asked or answered."""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard.metrics.by_task import lacks_column
from steelyard.metrics.collector import Collector
from steelyard.metrics.evidence.sums import Sums
from steelyard.records.labels import value_name
from steelyard.records.schema import OUTCOMES
from steelyard.records.table import Records
from steelyard.study.suite import SuiteTask


def scored_rows(task: SuiteTask, table: Records) -> list[dict[str, Any]]:
    """One result per answer of a task: its case, its outcome, and its score by every metric that is a mean of rows."""
    ids = tuple((row,) for row in range(len(table)))
    collector = Collector(table, ids=ids, cluster=np.arange(len(table)))
    scores: list[dict[str, float]] = [{} for _ in ids]
    for metric in task.metrics:
        if lacks_column(metric, table) is not None:
            continue
        evidence = collector.evidence(metric, collector.constants(metric))
        if not isinstance(evidence, Sums) or not evidence.is_score:
            continue
        for row in np.flatnonzero(np.asarray(evidence.rows) > 0).tolist():
            total, count = evidence.cells[row, :2]
            scores[row][metric.name] = float(total / count)
    items = [value_name(item) for item in table.column("item").to_pylist()]
    return [
        {"task_id": task.name, "item": item, "outcome": OUTCOMES[outcome], "scores": own}
        for item, outcome, own in zip(items, table.outcome.tolist(), scores, strict=True)
    ]
