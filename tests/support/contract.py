"""What every metric must obey, as checks that any metric can be put through."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from steelyard.metrics.collector import Collector
from steelyard.metrics.definition import Metric
from steelyard.metrics.evidence.clusters import Merger
from steelyard.metrics.evidence.sums import Draw
from steelyard.records.clusters import Clusters
from steelyard.study.evaluation import evaluate
from tests.support.tables import fitting


def read(chosen: Metric, collector: Collector, constants: object, weights: np.ndarray | None = None) -> float:
    rows = np.ones((1, len(collector.ids))) if weights is None else np.asarray(weights, float)[None]
    reading = Draw(rows).read(collector.evidence(chosen, constants))
    return float(chosen.finished(reading, constants)[0])


def agree(got: float, wanted: float) -> None:
    assert got == pytest.approx(wanted, rel=1e-9, abs=1e-12, nan_ok=True)


def check_weights_are_repetition(chosen: Metric, seed: int) -> None:
    rng = np.random.default_rng(seed)
    records = fitting(chosen, rng)
    constants = chosen.constants([records])
    whole = Collector(records)
    for _ in range(4):
        weights = rng.multinomial(len(whole.ids), np.full(len(whole.ids), 1 / len(whole.ids)))
        repeated = np.repeat(np.arange(len(records)), weights[whole.cluster])
        copy = Collector(records.take(repeated), ids=whole.ids, cluster=whole.cluster[repeated])
        if chosen.by_cluster and not chosen.no_delta:  # a cluster drawn twice is two clusters
            which = np.concatenate([np.arange(w) for w in weights[whole.cluster]])
            names = sorted({(c, n) for c, n in zip(whole.cluster[repeated].tolist(), which.tolist(), strict=True)})
            place = {name: i for i, name in enumerate(names)}
            own = np.array([place[c, n] for c, n in zip(whole.cluster[repeated].tolist(), which.tolist(), strict=True)])
            copy = Collector(records.take(repeated), ids=Clusters.of(names), cluster=own)
        agree(read(chosen, whole, constants, weights), read(chosen, copy, constants))


def check_merge_is_whole(chosen: Metric, seed: int) -> None:
    rng = np.random.default_rng(seed)
    records = fitting(chosen, rng)
    constants = chosen.constants([records])
    whole = Collector(records)
    wanted = whole.evidence(chosen, constants)
    part = rng.integers(0, 3, len(records))
    merged: Any = None
    for p in range(3):
        evidence = Collector(records.take(part == p)).evidence(chosen, constants)
        merged = evidence if merged is None else Merger(merged.ids, evidence.ids).merged(merged, evidence)
    assert merged is not None
    assert merged.ids == wanted.ids
    assert merged.rows.tolist() == wanted.rows.tolist()
    assert dict(merged.excluded) == dict(wanted.excluded)
    for weights in (np.ones(len(whole.ids)), rng.integers(0, 4, len(whole.ids))):
        got, expected = (
            chosen.finished(Draw(np.asarray(weights, float)[None]).read(e), constants)[0] for e in (merged, wanted)
        )
        agree(float(got), float(expected))


def check_row_order_is_irrelevant(chosen: Metric, seed: int) -> None:
    rng = np.random.default_rng(seed)
    records = fitting(chosen, rng)
    shuffled = records.take(rng.permutation(len(records)))
    one, two = (list(evaluate(t, [chosen], pool=["perturbation"], resamples=200)) for t in (records, shuffled))
    assert len(one) == len(two) == 1
    agree(_number(one[0].value), _number(two[0].value))
    assert (one[0].interval is None) == (two[0].interval is None)
    for a, b in zip(one[0].interval or (), two[0].interval or (), strict=True):
        agree(a, b)
    assert one[0].n == two[0].n
    assert one[0].excluded == two[0].excluded


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def check_bounds(chosen: Metric, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = chosen.bounds
    for rows in (2, 10, 60):
        records = fitting(chosen, rng, rows=rows)
        for estimate in evaluate(records, [chosen], pool=["perturbation"], resamples=200):
            for number in (estimate.value, *(estimate.interval or ())):
                if number is not None:
                    assert math.isfinite(number)
                    assert low is None or number >= low - 1e-12
                    assert high is None or number <= high + 1e-12
            if estimate.value is None:
                assert estimate.note.startswith("undefined")
            elif estimate.interval is not None:
                assert estimate.interval[0] <= estimate.value <= estimate.interval[1]


CHECKS = [check_weights_are_repetition, check_merge_is_whole, check_row_order_is_irrelevant, check_bounds]
