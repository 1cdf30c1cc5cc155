"""The scores in an Inspect log: values as numbers, and the metrics that the log states, made again of its samples.

A value is a letter (C right, I wrong, P partly right, N no answer), a number, true or false, a text, or an object or a
list of these, whose parts are scores of their own: `scorer.key`. A value that is missing, or NaN, means that the sample
was not scored; the tool leaves it out of every mean.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import comb, isfinite, nan, sqrt
from statistics import fmean, median
from typing import Any

import numpy as np

from steelyard.records.declared import Declared

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_COUNTED = re.compile(r"(at_least|pass_at|pass_k)_(\d+)")


def parts(scorer: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The scores that a value holds, each with its name; None is one that was not made."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield f"{scorer}.{key}", _plain(part)
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield f"{scorer}.{place}", _plain(part)
    else:
        yield scorer, _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if isinstance(value, str | int) else None


def number(value: Any) -> float | None:
    """The number that a value stands for, by the rules of the tool; None for a text that stands for none.

    >>> [number(value) for value in ("C", "P", "N", True, 0.25, "yes", "3", "rude")]
    [1.0, 0.5, 0.0, 1.0, 0.25, 1.0, 3.0, None]
    """
    if not isinstance(value, str):
        return None if value is None else float(value)
    if value in _LETTERS:
        return _LETTERS[value]
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    try:
        converted = float(value)
    except ValueError:
        return None
    return converted if isfinite(converted) else None


class Scores:
    """The scores of one name in a log, in the order of its samples."""

    def __init__(self) -> None:
        self._items, self._epochs, self.values = array("q"), array("q"), list[Any]()

    def add(self, item: int, epoch: int, value: Any) -> None:
        """Add the score of a sample, whose item has a number."""
        self._items.append(item)
        self._epochs.append(epoch)
        self.values.append(value)

    def by_item(self) -> Iterator[tuple[int, list[Any]]]:
        """The scores of each item that has any, in the order of epochs."""
        items = np.frombuffer(self._items, np.int64) if self._items else np.zeros(0, np.int64)
        epochs = np.frombuffer(self._epochs, np.int64) if self._epochs else np.zeros(0, np.int64)
        order = np.lexsort((epochs, items))
        starts = np.flatnonzero(np.diff(items[order], prepend=-1))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            scored = [self.values[row] for row in order[start:end] if self.values[row] is not None]
            if scored:
                yield int(items[order[start]]), scored

    def each(self) -> Iterator[tuple[int, Any]]:
        """Every score with its item."""
        return ((item, value) for item, value in zip(self._items, self.values, strict=True) if value is not None)


def declared(
    results: Any, scores: Mapping[str, Scores], clusters: Mapping[str, Sequence[Any]], *, unreduced: bool
) -> Iterator[Declared]:
    """The metrics that a log states, next to the same of its samples.

    `clusters` are values of metadata by name and item. `unreduced` says that epochs were not put together.
    """
    stated = [entry for entry in _objects(results, "scores") if isinstance(entry.get("name"), str)]
    reduced_too = {entry.get("scorer") for entry in stated if entry.get("reducer") is not None}
    for entry in stated:
        scorer, reducer = entry.get("scorer") or entry["name"], entry.get("reducer")
        name = entry["name"] if scorer == entry["name"] else f"{scorer}.{entry['name']}"
        apart = reducer is None and (unreduced or scorer in reduced_too)
        values = _values(scores.get(name), reducer, apart=apart)
        metrics = entry.get("metrics")
        for key, metric in metrics.items() if isinstance(metrics, dict) else ():
            value = metric.get("value") if isinstance(metric, dict) else None
            if isinstance(value, int | float) and not isinstance(value, bool):
                shown = f"{name}/{key}" if reducer is None else f"{name}/{key} ({reducer})"
                made = None if values is None else _made(metric, values, clusters)
                yield Declared(name=shown, stated=float(value), recomputed=made)


def _objects(holder: Any, key: str) -> list[dict[str, Any]]:
    listed = holder.get(key) if isinstance(holder, dict) else None
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _values(scores: Scores | None, reducer: Any, *, apart: bool) -> list[tuple[int, float]] | None:
    """One number per item, or per sample where they stay apart; None where it is not known how they were made."""
    if scores is None:
        return None
    if apart:
        return [(item, number(value) or 0.0) for item, value in scores.each()]
    values = []
    for item, scored in scores.by_item():
        value = _reduced(reducer, scored)
        if value is None:
            return None
        if value == value:
            values.append((item, value))
    return values


def _reduced(reducer: Any, scored: list[Any]) -> float | None:
    """The scores of several epochs as one; NaN where they give none, None where the way is not known."""
    numbers = [number(value) or 0.0 for value in scored]
    if reducer is None or reducer == "mean":
        return fmean(numbers)
    if reducer in ("median", "max"):
        return median(numbers) if reducer == "median" else max(numbers)
    if reducer == "mode":
        return number(Counter(scored).most_common(1)[0][0]) or 0.0
    counted = _COUNTED.fullmatch(reducer) if isinstance(reducer, str) else None
    if counted is None or not set(numbers) <= {0.0, 1.0}:  # the score that counts as right is not stated
        return None
    return _of_right(counted[1], int(counted[2]), int(sum(numbers)), len(numbers))


def _of_right(reducer: str, k: int, right: int, total: int) -> float:
    """What `k` says of so many right ones in all."""
    if reducer == "at_least":
        return float(right >= k)
    if not 0 < k <= total:
        return nan
    return comb(right, k) / comb(total, k) if reducer == "pass_k" else 1.0 - comb(total - right, k) / comb(total, k)


def _made(
    metric: Mapping[str, Any], values: Sequence[tuple[int, float]], clusters: Mapping[str, Sequence[Any]]
) -> float | None:
    """A metric of these values, by the tool's own definition; None where that is not known."""
    params = metric.get("params") or {}
    cluster = params.get("cluster") if isinstance(params, dict) else None
    if not isinstance(params, dict) or set(params) - {"cluster"} or metric.get("group") is not None:
        return None
    numbers = np.array([value for _, value in values])
    if not len(numbers):
        return nan
    name = metric.get("name")
    if name in ("accuracy", "mean"):
        return float(numbers.mean())
    if name == "stderr" and cluster is not None:
        return _clustered(values, clusters.get(cluster, ()))
    if name not in ("std", "var", "stderr"):
        return None
    spread = float(numbers.var(ddof=1)) if len(numbers) > 1 else 0.0
    return {"var": spread, "std": sqrt(spread), "stderr": sqrt(spread / len(numbers))}[name]


def _clustered(values: Sequence[tuple[int, float]], cluster_of: Sequence[Any]) -> float | None:
    """The standard error of the mean from the sums of deviations per cluster, with the factor C / (C − 1)."""
    mean = fmean(value for _, value in values)
    sums: dict[Any, float] = {}
    for item, value in values:
        cluster = cluster_of[item] if item < len(cluster_of) else None
        if cluster is None:
            return None
        sums[cluster] = sums.get(cluster, 0.0) + value - mean
    if len(sums) < 2:
        return 0.0
    return sqrt(sum(each * each for each in sums.values()) * len(sums) / (len(sums) - 1)) / len(values)
