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

import msgspec
import numpy as np

from steelyard.records.declared import Declared
from steelyard.records.readers.log_values import real

SCORER = "steelyard"  # of the logs that we write
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
    return value if isinstance(value, str) or real(value) is not None else None


def number(value: Any) -> float | None:
    """The number that a value stands for, by the rules of the tool; None for a text that stands for none.

    >>> [number(value) for value in ("C", "P", "N", True, 0.25, "yes", "3", "rude")]
    [1.0, 0.5, 0.0, 1.0, 0.25, 1.0, 3.0, None]
    """
    if not isinstance(value, str):
        return real(value)
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


class _Metric(msgspec.Struct):
    """A metric as a log states it."""

    name: str
    value: float | None = None
    group: str | None = None
    params: dict[str, Any] | None = None

    @property
    def cluster(self) -> str | None:
        """The name of the metadata by which a standard error is clustered."""
        cluster = (self.params or {}).get("cluster")
        return cluster if isinstance(cluster, str) else None


class Stated(msgspec.Struct):
    """The metrics that a log states of a scorer, or of one key of its values, under one way to put epochs together."""

    name: str
    scorer: str | None = None
    reducer: str | None = None
    metrics: dict[str, _Metric] = {}

    @property
    def scores(self) -> str:
        """The name of the scores that they are about."""
        return self.name if self.scorer in (None, self.name) else f"{self.scorer}.{self.name}"

    @property
    def clusters(self) -> set[str]:
        return {metric.cluster for metric in self.metrics.values() if metric.cluster is not None}


def stated(results: Any) -> list[Stated]:
    """What the results of a log state; what is not as documented is left out."""
    entries = results.get("scores") if isinstance(results, dict) else None
    found = []
    for entry in entries if isinstance(entries, list) else ():
        try:
            found.append(msgspec.convert(entry, Stated))
        except msgspec.ValidationError:
            continue
    return found


def declared(
    entries: Sequence[Stated], scores: Mapping[str, Scores], clusters: Mapping[str, Sequence[Any]], *, unreduced: bool
) -> Iterator[Declared]:
    """The metrics that a log states, next to the same of its samples.

    `clusters` are values of metadata by name and item. `unreduced` says that epochs were not put together.
    """
    reduced_too = {entry.scorer for entry in entries if entry.reducer is not None}
    for entry in entries:
        apart = entry.reducer is None and (unreduced or entry.scorer in reduced_too)
        values = _values(scores.get(entry.scores), entry.reducer, apart=apart)
        for key, metric in entry.metrics.items():
            if metric.value is not None:
                shown = f"{entry.scores}/{key}" + (f" ({entry.reducer})" if entry.reducer else "")
                made = None if values is None else _made(metric, values, clusters)
                yield Declared(name=shown, stated=metric.value, recomputed=made)


def _values(scores: Scores | None, reducer: str | None, *, apart: bool) -> list[tuple[int, float]] | None:
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


def _reduced(reducer: str | None, scored: list[Any]) -> float | None:
    """The scores of several epochs as one; NaN where they give none, None where the way is not known."""
    numbers = [number(value) or 0.0 for value in scored]
    if reducer is None or reducer == "mean":
        return fmean(numbers)
    if reducer in ("median", "max"):
        return median(numbers) if reducer == "median" else max(numbers)
    if reducer == "mode":
        return number(Counter(scored).most_common(1)[0][0]) or 0.0
    counted = _COUNTED.fullmatch(reducer)
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


def _made(metric: _Metric, values: Sequence[tuple[int, float]], clusters: Mapping[str, Sequence[Any]]) -> float | None:
    """A metric of these values, by the tool's own definition; None where that is not known."""
    if set(metric.params or ()) - {"cluster"} or metric.group is not None:
        return None
    numbers = np.array([value for _, value in values])
    if not len(numbers):
        return nan
    name = metric.name
    if name in ("accuracy", "mean"):
        return float(numbers.mean())
    if name == "stderr" and metric.cluster is not None:
        return _clustered(values, clusters.get(metric.cluster, ()))
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
