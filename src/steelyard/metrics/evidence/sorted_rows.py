"""Sorted rows as evidence: ordered once by a score, read under any weights. Ranking metrics and quantiles stand on it.

Rows stand in descending order of their score; equal scores form a plateau. Under weights w, the first k plateaus hold
K = Σw rows with S = Σw·value. Nothing is sorted again for a resample. Few clusters × plateaus: one matrix product over
cumulative sums. Many: a compiled scan over the rows, sixteen resamples at a time; without the compiler, the same sums
in NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from steelyard.ground import compiling
from steelyard.ground.arrays import Codes, Floats, Mask
from steelyard.metrics.evidence import kernels
from steelyard.metrics.evidence.clusters import Merger, left_out, moved, segments_differ, spread
from steelyard.metrics.evidence.codec import kind, reading
from steelyard.metrics.evidence.sums import Draw
from steelyard.records.clusters import Clusters

_SMALL_TABLE = 2_000_000  # clusters × plateaus that may be held for the matrix product
# What a resample costs, in cells of clusters × plateaus under the matrix product, about 0.2 ns each. Measured with the
# fourteen numbers of the curve: a plateau is also read by some dozens of passes, a row by a few scans.
_POINT_COST = 650
_ROW_COST = 100
_LOADING_COST = 500_000  # of the compiler, half a second, shared by the ten thousand resamples it is loaded for


@dataclass(frozen=True)
class SortedTerms:
    """One score per row, a value that is summed in its order, and the rows that are counted without being sorted."""

    score: Floats
    value: Any = 0.0
    unsorted: Mask | None = None
    _: KW_ONLY
    left_out: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, Any] = field(default_factory=dict)
    reading: type[SortedReading] | None = None

    def collect(self, ids: Clusters, cluster: Codes) -> tuple[SortedRows, Mask]:
        """The evidence, and which rows were included."""
        value = np.broadcast_to(np.asarray(self.value, np.float64), self.score.shape)
        kept = ~(np.isnan(self.score) | np.isnan(value))
        if self.unsorted is not None:
            kept |= self.unsorted
        for lost in (*self.left_out.values(), *self.missing.values()):
            kept &= ~np.asarray(lost, bool)
        counted = np.bincount(cluster[kept] if not kept.all() else cluster, minlength=len(ids)).astype(np.int64)
        rows: Any = kept if self.unsorted is None else kept & ~self.unsorted
        rows = slice(None) if rows.all() else np.flatnonzero(rows)
        score = self.score[rows] + 0.0  # −0.0 becomes 0.0
        evidence = SortedRows.of(
            score, value[rows], cluster[rows], ids=ids, rows=counted, reading=self.reading or SortedReading
        )
        return evidence, kept


@kind("SortedRows", "score value cluster ends ids rows excluded reading")
@dataclass(frozen=True, kw_only=True)
class SortedRows:
    """Rows in descending score: value and cluster of each, and the last row of every plateau.

    `rows` counts the included rows of each cluster, those without a place in the order too.
    """

    score: Floats
    value: Floats
    cluster: Codes
    ends: Codes
    ids: Clusters
    rows: Codes
    excluded: Mapping[str, int]
    reading: type[SortedReading]

    @classmethod
    def of(
        cls,
        score: Floats,
        value: Floats,
        cluster: Codes,
        *,
        ids: Clusters,
        rows: Codes,
        reading: type[SortedReading],
        excluded: Mapping[str, int] | None = None,
    ) -> SortedRows:
        """Rows as they come, put in order."""
        order = np.argsort(-score, kind="stable")
        score, value, cluster = score[order], value[order], cluster[order]
        ends = np.flatnonzero(np.r_[score[1:] != score[:-1], True]) if len(score) else np.empty(0, np.int64)
        return cls(
            score=score,
            value=value,
            cluster=cluster,
            ends=ends,
            ids=ids,
            rows=rows,
            excluded=excluded or {},
            reading=reading,
        )

    @property
    def width(self) -> int:
        if self.small:
            return 12 * max(self.points, 1)
        return len(self.ids) if compiling.available() else 6 * len(self.score)

    @property
    def small(self) -> bool:
        """True if a matrix product over cumulative sums costs less than a scan over the rows, or than loading it."""
        cells = len(self.ids) * self.points
        scanned = max(_LOADING_COST, _ROW_COST * len(self.score))
        return cells <= _SMALL_TABLE and cells + _POINT_COST * self.points <= scanned

    @property
    def points(self) -> int:
        return len(self.ends)

    @property
    def thresholds(self) -> Floats:
        return self.score[self.ends]

    def sums(self, weights: Floats) -> tuple[Floats, Floats]:
        """Rows and value up to every plateau under each row of weights: (resamples, plateaus) each."""
        if self.small:
            rows, value = self._cumulative
            return weights @ rows, weights @ value
        if len(weights) == 1 and (weights == 1).all():
            return np.asarray(self.ends + 1, np.float64)[None], np.cumsum(self.value)[self.ends][None]
        w = weights[:, self.cluster]
        return np.cumsum(w, 1)[:, self.ends], np.cumsum(w * self.value, 1)[:, self.ends]

    def under(self, draw: Draw) -> SortedReading:
        return self.reading(self, draw)

    def on(self, ids: Clusters, place: Codes) -> SortedRows:
        return replace(self, ids=ids, cluster=place[self.cluster], rows=spread(self.rows, place, len(ids)))

    def among(self, clusters: Codes) -> SortedRows:
        inside, cluster = moved(self.cluster, clusters, len(self.ids))
        score, value = self.score[inside], self.value[inside]
        ids, rows = self.ids.at(clusters), self.rows[clusters]
        return SortedRows.of(score, value, cluster, ids=ids, rows=rows, reading=self.reading, excluded=self.excluded)

    def differs(self, other: SortedRows) -> Mask:
        mine, theirs = ((s.cluster, (s.score, s.value)) for s in (self, other))
        return segments_differ(mine, theirs, len(self.ids)) | (self.rows != other.rows)

    def merge(self, other: SortedRows, merger: Merger) -> SortedRows:
        return SortedRows.of(
            np.concatenate([self.score, other.score]),
            np.concatenate([self.value, other.value]),
            merger.cluster(self.cluster, other.cluster),
            ids=merger.ids,
            rows=merger.added(self.rows, other.rows),
            reading=self.reading,
            excluded=left_out(self.excluded, other.excluded),
        )

    def stacked(self, other: SortedRows) -> SortedRows:
        return SortedRows.of(
            np.concatenate([self.score, other.score]),
            np.concatenate([self.value, other.value]),
            np.concatenate([self.cluster, other.cluster + len(self.ids)]),
            ids=self.ids.stacked(other.ids),
            rows=np.concatenate([self.rows, other.rows]),
            reading=self.reading,
        )

    def by_rank(self) -> SortedRows:
        begins = np.concatenate([[0], self.ends[:-1] + 1]) if self.points else self.ends
        size = len(self.score)
        ranks = (size - (begins + self.ends) / 2) / max(size, 1)
        return replace(self, score=np.repeat(ranks, self.ends - begins + 1))

    @cached_property
    def _cumulative(self) -> tuple[Floats, Floats]:
        plateau = np.searchsorted(self.ends, np.arange(len(self.score)))
        tables = [self.table(plateau, self.points, weights) for weights in (None, self.value)]
        return np.cumsum(tables[0], axis=1), np.cumsum(tables[1], axis=1)

    @cached_property
    def by_value(self) -> SortedRows:
        """The same rows in ascending order of their value."""
        return SortedRows.of(-self.value, self.value, self.cluster, ids=self.ids, rows=self.rows, reading=self.reading)

    def table(self, column: Codes, size: int, weights: Floats | None) -> Floats:
        """Rows (or weights) per cluster and column."""
        flat = self.cluster * size + column
        counts = np.bincount(flat, weights=weights, minlength=len(self.ids) * size)
        return counts.reshape(len(self.ids), size).astype(np.float64)


@reading("SortedReading")
class SortedReading:
    """Sorted rows under a block of resamples; each number is computed when it is asked for, (resamples,) each."""

    def __init__(self, rows: Any, draw: Draw) -> None:
        # the arrays, not the draw: a cycle would keep every block of resamples alive
        self._rows, self._weights, self._floats = rows, draw.weights, draw.floats

    @cached_property
    def counted(self) -> Floats:
        """Included rows in each resample."""
        return self._floats @ self._rows.rows.astype(np.float64)

    @cached_property
    def sums(self) -> tuple[Floats, Floats]:
        """K and S at every plateau: (resamples, plateaus) each."""
        sums: tuple[Floats, Floats] = self._rows.sums(self._floats)
        return sums

    @property
    def compiled(self) -> bool:
        """True where a compiled scan is worth it."""
        return not self._rows.small and len(self._weights) >= kernels.LANES and compiling.available()

    @property
    def auroc(self) -> Floats:
        """P(score of a 1 > score of a 0) + ½ P(equal), where the value is 0 or 1."""
        if self.compiled:
            rows = self._rows
            return kernels.auroc(rows.cluster, rows.value, rows.ends, self._weights)
        taken, ones = self.sums
        if not taken.shape[1]:
            return np.full(len(taken), np.nan)
        zeros = np.diff(taken - ones, axis=1, prepend=0.0)
        # a zero loses to the ones above it and halves with the ones on its plateau
        above = ones - np.diff(ones, axis=1, prepend=0.0) / 2
        both = ones[:, -1] * (taken - ones)[:, -1]
        return (zeros * above).sum(1) / np.where(both > 0, both, np.nan)

    @property
    def average_precision(self) -> Floats:
        """Σ (recall gained on a plateau) · (precision up to its end), where the value is 0 or 1."""
        rows = self._rows
        if not rows.points:
            return np.full(len(self._weights), np.nan)
        if rows.small:
            return _average_precision(*self.sums)
        # one resample at a time: a block of them would hold all rows many times over
        return np.concatenate([_average_precision(*rows.sums(w[None])) for w in self._floats])

    def quantile(self, q: float) -> Floats:
        """The q-quantile of the score, linear between order statistics of the repeated sample."""
        rows = self._rows
        if not rows.points:
            return np.full(len(self._weights), np.nan)
        if self.compiled:
            return kernels.quantile(rows.cluster, rows.score, self._weights, q)
        up_to = self.sums[0]
        n = up_to[:, -1:]
        # in descending order the i-th smallest is the (n − 1 − i)-th from the top
        place = (n - 1) * (1 - q)
        upper = np.floor(place)
        part = (place - upper)[:, 0]
        high = rows.thresholds[np.argmax(up_to > upper, 1)]
        low = rows.thresholds[np.argmax(up_to > np.minimum(upper + 1, n - 1), 1)]
        return np.where(n[:, 0] > 0, high - (high - low) * part, np.nan)


def _average_precision(taken: Floats, ones: Floats) -> Floats:
    gained = np.diff(ones, axis=1, prepend=0.0)
    found = (gained * ones / np.where(taken > 0, taken, 1.0)).sum(1)
    return np.asarray(found / np.where(ones[:, -1] > 0, ones[:, -1], np.nan))
