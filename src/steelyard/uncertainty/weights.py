"""Cluster weights: how often each cluster is drawn in each resample.

One set serves every metric of a table and both sides of a comparison. The default stream is counter-based: any block
of resamples can be drawn alone and does not depend on row order, partitions or workers. Above a hundred thousand
clusters the multinomial is replaced by independent Poisson counts. Of strata, such as the tasks of a benchmark, each
keeps its number of clusters in every resample. The legacy stream repeats NumPy's
`RandomState(seed).randint(0, P, P)` per resample over the sorted clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.errors import UsageError
from steelyard.ground import compiling
from steelyard.ground.randomness import words
from steelyard.metrics.evidence import passes
from steelyard.records.clusters import Clusters

Counts = npt.NDArray[Any]
Places = npt.NDArray[np.int64]

STREAMS = ("counter", "legacy")
MULTINOMIAL_LIMIT = 100_000
_KEPT = 60_000_000  # weights kept in memory; more are drawn block by block
_COMPILED = 20_000_000


def scheme(clusters: int, stream: str) -> str:
    """How weights are drawn: multinomial or poisson."""
    return "poisson" if stream == "counter" and clusters > MULTINOMIAL_LIMIT else "multinomial"


def legacy_order(ids: Clusters) -> Places | None:
    """Where each cluster stands among the clusters sorted by value, as the legacy stream counts them."""
    place = np.argsort(ids.by_value)
    return None if (place == np.arange(len(ids))).all() else place


class Weights:
    """The weights of `resamples` resamples of `clusters` clusters."""

    def __init__(
        self,
        clusters: int,
        *,
        resamples: int,
        seed: int,
        stream: str = "counter",
        order: Places | None = None,
        strata: Places | None = None,
    ) -> None:
        if stream not in STREAMS:
            raise UsageError(f"stream is counter or legacy, not '{stream}'")
        if resamples < 1:
            raise UsageError("resamples is at least 1")
        self.clusters, self.resamples, self.seed, self.stream = clusters, resamples, seed, stream
        self._strata = None if strata is None else strata.astype(np.int64).tobytes()  # drawn apart from each other
        self.order = order  # the column of the legacy stream that each cluster has, where that is not its own place

    def blocks(self, size: int) -> Iterator[Counts]:
        """All resamples, in blocks of at most `size`."""
        for first in range(0, self.resamples, size):
            yield self.block(first, min(self.resamples, first + size))

    def block(self, first: int, last: int) -> Counts:
        """Resamples first, …, last − 1: one row of counts each."""
        if self.stream == "legacy":
            counts = _legacy(self.clusters, self.resamples, self.seed)[first:last]
            return counts if self.order is None else counts[:, self.order]
        if self.clusters * self.resamples <= _KEPT:
            return _all(self.clusters, self.resamples, self.seed, self._strata)[first:last]
        compiled = self.clusters * self.resamples >= _COMPILED
        return _draw(self.seed, first, last, self.clusters, self._strata, compiled=compiled)


@lru_cache(maxsize=4)
def _all(clusters: int, resamples: int, seed: int, strata: bytes | None) -> Counts:
    return _draw(seed, 0, resamples, clusters, strata, compiled=clusters * resamples >= _COMPILED)


@lru_cache(maxsize=2)
def _legacy(clusters: int, resamples: int, seed: int) -> Counts:
    draws = np.random.RandomState(seed).randint(0, clusters, size=(resamples, clusters))
    return _tally(draws, clusters)


def _draw(
    seed: int, first: int, last: int, clusters: int, strata: bytes | None = None, *, compiled: bool = False
) -> Counts:
    if scheme(clusters, "counter") == "poisson":
        return _poisson(seed, first, last, clusters)
    if compiled and strata is None and compiling.available():
        return passes.tally(seed, first, last, clusters)
    step = max(1, 4_000_000 // max(clusters, 1))
    parts = []
    for start in range(first, last, step):
        stop = min(last, start + step)
        bits = words(seed, start, stop, (clusters + 1) // 2)
        halves = np.stack([bits & np.uint64(0xFFFFFFFF), bits >> np.uint64(32)], -1).reshape(stop - start, -1)
        parts.append(_tally(_chosen(halves[:, :clusters], strata), clusters))
    return np.concatenate(parts)


def _chosen(random: npt.NDArray[np.uint64], strata: bytes | None) -> npt.NDArray[Any]:
    """The cluster that each random word draws: any of them, or of strata one of the stratum whose place it has."""
    if strata is None:
        return (random * np.uint64(random.shape[1])) >> np.uint64(32)
    chosen = np.empty(random.shape, np.int64)
    stratum = np.frombuffer(strata, np.int64)
    for each in np.unique(stratum):
        members = np.flatnonzero(stratum == each)
        chosen[:, members] = members[(random[:, members] * np.uint64(len(members))) >> np.uint64(32)]
    return chosen


def _tally(draws: npt.NDArray[Any], clusters: int) -> Counts:
    rows = len(draws)
    place = draws.astype(np.int64) + np.arange(rows)[:, None] * clusters
    counts = np.bincount(place.ravel(), minlength=rows * clusters).reshape(rows, clusters)
    return counts.astype(np.uint8 if clusters <= 255 else np.uint16)


def _poisson(seed: int, first: int, last: int, clusters: int) -> Counts:
    # P(Poisson(1) ≤ k); twenty steps leave less than 1e-19
    steps = np.cumsum(np.exp(-1.0) / np.cumprod(np.r_[1.0, np.arange(1, 20)]))
    parts = []
    for row in range(first, last):
        uniform = (words(seed, row, row + 1, clusters)[0] >> np.uint64(11)) * 2.0**-53
        parts.append(np.searchsorted(steps, uniform, side="right").astype(np.uint16))
    return np.stack(parts)
