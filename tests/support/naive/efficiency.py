"""What answers cost, in plain loops (section 10)."""

from __future__ import annotations

import math
from functools import partial

from tests.support.naive.correctness import mean_of
from tests.support.naive.table import Oracle, Table, Value, asked, mean, share


def percentile(numbers: list[float], q: float) -> Value:
    """Linear between order statistics: place (n − 1)·q."""
    if not numbers:
        return None
    ordered, place = sorted(numbers), (len(numbers) - 1) * q
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def latency(table: Table, *, of: str) -> Value:
    found = [row["latency_ms"] for row in asked(table) if row["latency_ms"] is not None]
    if not found:
        return None
    if of == "mean":
        return mean(found)
    if of in ("min", "max"):
        return {"min": min, "max": max}[of](found)
    return percentile(found, int(of.removeprefix("p")) / 100)


def throughput(table: Table) -> Value:
    if table.wall_seconds is None:
        return None
    rate = share(len(asked(table)), table.wall_seconds)
    return None if rate is None else rate * 60


def tokens_per_second(table: Table) -> Value:
    rows = [row for row in asked(table) if row["output_tokens"] is not None and row["latency_ms"] is not None]
    return share(sum(row["output_tokens"] for row in rows), math.fsum(row["latency_ms"] for row in rows) / 1000)


# -- by name ---------------------------------------------------------------------------------------------------------

COST: dict[str, Oracle] = {
    **{f"latency.{of}": partial(latency, of=of) for of in ("p50", "p95", "p99", "mean", "min", "max")},
    "throughput": throughput,
    "input_tokens": partial(mean_of, column="input_tokens"),
    "output_tokens": partial(mean_of, column="output_tokens"),
    "tokens_per_second": tokens_per_second,
}
