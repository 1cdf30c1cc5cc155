"""How fast, and at what cost in tokens? Facts of the whole table, such as wall time, are values without interval."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from steelyard.errors import counted
from steelyard.ground.arrays import Floats
from steelyard.metrics.contract import metric
from steelyard.metrics.evidence.sorted_rows import SortedReading, SortedRows, SortedTerms
from steelyard.metrics.evidence.sums import Cells, Terms, row_score, sums
from steelyard.metrics.options import Constant
from steelyard.metrics.vocabulary import Default
from steelyard.records.table import Records

_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "min": 0.0, "max": 1.0}
_TAIL_CLUSTERS = 10


def _no_interval(evidence: SortedRows, value: float, label: str) -> str:
    """Extremes have no honest interval, nor has a far quantile with a handful of clusters beyond it."""
    if label in ("min", "max"):
        return "resampling does not cover an extreme"
    if label == "p99":
        tail = len(np.unique(evidence.cluster[evidence.score >= value]))
        if tail < _TAIL_CLUSTERS:
            return f"only {counted(tail, 'cluster')} in the tail; at least {_TAIL_CLUSTERS} are needed"
    return ""


@metric(
    title="Latency",
    member_titles={
        "p50": "Median Latency",
        "p95": "95th Percentile of Latency",
        "p99": "99th Percentile of Latency",
        "mean": "Mean Latency",
        "min": "Minimum Latency",
        "max": "Maximum Latency",
    },
    also=("speed", "time", "duration", "seconds"),
    better="lower",
    bounds=(0, None),
    unit="ms",
    formula="a percentile of latency_ms, linear between order statistics; or its mean, min, max",
    members=("p50", "p95", "p99", "mean", "min", "max"),
    default_for=(Default("latencies", 1, "p50"), Default("latencies", 2, "p95")),
    no_interval=_no_interval,
)
def latency(latency_ms: Floats, *, label: str) -> Any:
    """Time to the answer: `latency.p95`. Rows without a reply are left out.

    >>> value("latency.p50", latency_ms=[10.0, 20.0, 90.0])
    20.0
    """
    return latency_ms if label == "mean" else SortedTerms(latency_ms)


@latency.finish
def _(s: SortedReading, *, label: str) -> Floats:
    return s.quantile(_QUANTILES[label])


@metric(
    title="Throughput",
    also=("speed", "requests"),
    better="higher",
    bounds=(0, None),
    unit="rows/min",
    formula="rows / wall seconds × 60",
    undefined="it needs the wall time of the whole table: facts: {wall_seconds: 812.5} in the task file",
    no_interval="wall time is one fact of the whole table",
    no_delta="wall time is one fact of a whole table",
    reads=("facts.wall_seconds",),
)
def throughput(records: Records) -> Terms:
    """Rows a minute, from the wall time of the whole table (`facts: {wall_seconds: …}` in the task file).

    >>> value("throughput", task={"facts": {"wall_seconds": 60.0}}, prediction=["a", "b"])
    2.0
    """
    return sums(rows=np.ones(len(records)))


@throughput.summary
def _(table: Records) -> dict[str, Any]:
    if table.is_part:
        return {"wall": None, "undefined": "wall time is a fact of the whole table, not of a part of it"}
    return {"wall": table.task.facts.get("wall_seconds")}


@throughput.finish
def _(s: Cells, *, wall: Constant) -> Floats:
    return s.rows / wall * 60 if wall else np.full(len(s.rows), np.nan)


def _token_sum(s: Cells) -> dict[str, Any]:
    return {"sum": int(s.total[0])}


_tokens = partial(metric, better="lower", bounds=(0, None), unit="tokens", detail=_token_sum)


@_tokens(
    title="Input Tokens per Row",
    also=("prompt tokens",),
    formula="mean input_tokens",
)
def input_tokens(input_tokens: Floats) -> Terms:
    """Tokens read, per row; the sum is the detail.

    >>> value("input_tokens", input_tokens=[10, 20])
    15.0
    """
    return row_score(input_tokens)


@_tokens(
    title="Output Tokens per Row",
    also=("completion tokens",),
    formula="mean output_tokens",
)
def output_tokens(output_tokens: Floats) -> Terms:
    """Tokens written, per row; the sum is the detail.

    >>> value("output_tokens", output_tokens=[10, 20])
    15.0
    """
    return row_score(output_tokens)


@metric(
    title="Tokens per Second",
    also=("speed", "tps"),
    better="higher",
    bounds=(0, None),
    unit="tokens/s",
    formula="Σ output_tokens / Σ seconds",
)
def tokens_per_second(output_tokens: Floats, latency_ms: Floats) -> Terms:
    """Tokens written for each second of waiting.

    >>> value("tokens_per_second", output_tokens=[10, 20], latency_ms=[500.0, 1000.0])
    20.0
    """
    return sums(tokens=output_tokens, seconds=latency_ms / 1000)


@tokens_per_second.finish
def _(s: Cells) -> Floats:
    return s.tokens / s.seconds
