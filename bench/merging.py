"""What merging the evidence of two halves of a table costs, against collecting it from them, for every kind of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from steelyard.metrics.collector import Collector
from steelyard.metrics.definition import Metric, metric_of
from steelyard.metrics.evidence.clusters import Merger
from steelyard.records.table import Records

CLUSTERS = 250_000
ASKED = (
    *("accuracy", "f1_macro", "ece", "spearman", "aurc", "latency.p95", "p_calibrated", "eaurc"),
    *("fairness_gap(accuracy, by=group.site)", "combined_score"),
)


def measured() -> Iterator[tuple[str, float, float]]:
    """What was merged, and the least CPU seconds of merging and of collecting; the lists of clusters on their own."""
    yield "lists of clusters", *_least(_lists, _columns())
    for metric in map(metric_of, ASKED):
        columns = _columns(numeric=metric.name == "spearman")
        yield str(metric), *_least(partial(_evidence, metric), columns)


def _least(once: Callable[[list[Records]], tuple[float, float]], columns: dict[str, pa.Array]) -> tuple[float, float]:
    """The least of a few times; each has tables of its own, because they keep what was made of them."""
    merging, collecting = zip(*(once(_halves(columns)) for _ in range(3)), strict=True)
    return min(merging), min(collecting)


def _lists(halves: list[Records]) -> tuple[float, float]:
    collecting, lists = _timed(lambda: [half.cluster[0] for half in halves])
    return _timed(lambda: lists[0].united(lists[1]))[0], collecting


def _evidence(metric: Metric, halves: list[Records]) -> tuple[float, float]:
    constants = metric.merged([metric.summary(half) for half in halves])
    merger = Merger(*(half.cluster[0] for half in halves))
    collecting, both = _timed(lambda: [Collector(half).evidence(metric, constants) for half in halves])
    return _timed(lambda: merger.merged(*both))[0], collecting


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    made = work()
    return time.process_time() - started, made


def _columns(*, numeric: bool = False) -> dict[str, pa.Array]:
    """As many clusters as rows, named by texts, and continuous scores; targets are labels or numbers."""
    rng = np.random.default_rng(0)
    target, said, score = rng.gamma(2, 1, CLUSTERS), rng.gamma(2, 1, CLUSTERS), rng.random(CLUSTERS)
    names = [f"patient-{i:07d}" for i in rng.permutation(CLUSTERS)]
    return {
        "item": pa.array(np.arange(CLUSTERS)),
        "cluster": pa.array(names),
        "target": pa.array(target if numeric else np.where(target > 1, "yes", "no")),
        "prediction": pa.array(said if numeric else np.where(said > 1, "yes", "no")),
        "confidence": pa.array(score),
        "latency_ms": pa.array(rng.gamma(2, 100, CLUSTERS)),
        "group.site": pa.array(rng.choice(list("xyz"), CLUSTERS)),
    }


def _halves(columns: dict[str, pa.Array]) -> list[Records]:
    """Every other row, so that the clusters of both halves alternate."""
    measured_by = {"": {"accuracy": "diagnostics", "f1_macro": "safety"}}
    plan = {"tasks": measured_by, "weights": {"diagnostics": 0.6, "safety": 0.4}}
    places = (pa.array(np.arange(half, CLUSTERS, 2)) for half in (0, 1))
    return [
        Records.from_columns({n: c.take(rows) for n, c in columns.items()}, task={"benchmark": plan}) for rows in places
    ]
