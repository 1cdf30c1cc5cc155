"""The risk-coverage curve, read off sorted rows.

Answered rows stand in descending order of what ranks them; equal ranks form a plateau, one working point each. Under
weights w, a working point has accepted K = Σw rows with S = Σw·loss, of N = Σw asked rows:

    coverage K/N      selective risk S/K      generalized risk S/N
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from steelyard.ground import compiling
from steelyard.ground.arrays import Codes, Floats, Mask
from steelyard.metrics.evidence import kernels, passes
from steelyard.metrics.evidence.clusters import WHOLE
from steelyard.metrics.evidence.codec import reading
from steelyard.metrics.evidence.sorted_rows import SortedReading, SortedRows, SortedTerms
from steelyard.metrics.evidence.sums import Draw
from steelyard.records.clusters import Clusters

_POINTS_WORTH = 200_000  # rows from which merging sorted classes beats ordering rows
_FEW_LOSSES = 8
_FEW_POINTS = 64  # up to which the hulls of a block of resamples are found without the compiler
_SOME_POINTS = 5_000  # the same for a few readings: loading the compiler takes longer
HULL_HEIGHT = 1e-10  # a point this little under its chord is not a corner


@dataclass(frozen=True)
class CurveTerms(SortedTerms):
    """What ranks each asked row and its loss; rows without an answer are counted, not sorted."""

    reading: type[SortedReading] | None = field(default_factory=lambda: CurveReading)

    def collect(self, ids: Clusters, cluster: Codes) -> tuple[Any, Mask]:
        if ids is not WHOLE or len(cluster) < _POINTS_WORTH or not compiling.available():
            return super().collect(ids, cluster)
        assert self.unsorted is not None
        lost = (*self.left_out.values(), *self.missing.values())
        kept = ~np.logical_or.reduce([np.zeros(len(cluster), bool), *lost])
        rows: Any = kept & ~self.unsorted
        rows = slice(None) if rows.all() else rows
        loss = np.asarray(self.value, np.float64)[rows]
        values = _few_values(loss)
        if values is None or not len(loss):
            return super().collect(ids, cluster)
        counted = np.array([int(kept.sum())], np.int64)
        return PointCurve.of(self.score[rows] + 0.0, loss, values, ids=ids, asked=counted), kept


@dataclass(frozen=True, kw_only=True)
class PointCurve:
    """The working points of a table taken as one cluster: enough for values, and the cheapest way to them.

    Ranks are sorted within each distinct loss, which needs no order of rows, and merged. Only `value` reads it.
    """

    runs: Floats
    begins: Codes
    values: Floats
    ids: Clusters
    rows: Codes
    excluded: Mapping[str, int] = field(default_factory=dict)
    small = True

    @classmethod
    def of(cls, rank: Floats, loss: Floats, values: Floats, *, ids: Clusters, asked: Codes) -> PointCurve:
        """The points of rows as they come; `values` are the distinct losses."""
        runs, begins = passes.sorted_runs(rank, loss, values)
        return cls(runs=runs, begins=begins, values=values, ids=ids, rows=asked)

    @property
    def width(self) -> int:
        return 12 * len(self.runs)

    @cached_property
    def areas(self) -> tuple[float, float]:
        return passes.merged_areas(self.runs, self.begins, self.values, float(self.rows.sum()))

    @cached_property
    def _points(self) -> tuple[Floats, Floats, Floats]:
        return passes.merged_points(self.runs, self.begins, self.values)

    @property
    def points(self) -> int:
        return len(self._points[0])

    @property
    def thresholds(self) -> Floats:
        return self._points[0]

    @property
    def levels(self) -> tuple[Floats, Floats]:
        counts = np.diff(self.begins).reshape(-1, len(self.values)).sum(0)
        return self.values, counts[None].astype(np.float64)

    def sums(self, weights: Floats) -> tuple[Floats, Floats]:
        return weights * self._points[1], weights * self._points[2]

    def under(self, draw: Draw) -> CurveReading:
        return CurveReading(self, draw)


def _few_values(loss: Floats) -> Floats | None:
    """The distinct losses, if they are few."""
    seen = np.unique(loss[:100_000])
    if len(seen) <= _FEW_LOSSES and not np.isin(loss, seen).all():
        seen = np.unique(loss)
    return seen if len(seen) <= _FEW_LOSSES else None


@reading("CurveReading")
class CurveReading(SortedReading):
    """The risk-coverage curve under a block of resamples."""

    @cached_property
    def _scans(self) -> dict[tuple[object, ...], Floats]:
        return {}

    @cached_property
    def _truncated(self) -> dict[bytes, tuple[Floats, Floats]]:
        return {}

    @cached_property
    def coverage(self) -> Floats:
        return self.sums[0] / self.counted[:, None]

    @cached_property
    def risk(self) -> Floats:
        """Selective risk at every working point; before the first accepted row, the risk at the first."""
        accepted, loss = self.sums
        accepts = accepted > 0
        risk = loss / np.where(accepts, accepted, 1)
        if not risk.shape[1]:
            return risk
        first = np.take_along_axis(risk, np.argmax(accepts, 1)[:, None], 1)
        return np.where(accepts, risk, first)

    @property
    def generalized(self) -> Floats:
        return self.sums[1] / self.counted[:, None]

    @property
    def thresholds(self) -> Floats:
        return self._rows.thresholds

    @cached_property
    def _answered(self) -> Floats:
        if self.compiled:
            return self._floats @ np.bincount(self._rows.cluster, minlength=len(self._rows.ids)).astype(float)
        accepted = self.sums[0]
        return accepted[:, -1] if accepted.shape[1] else np.zeros(len(accepted))

    def _defined(self, values: Floats) -> Floats:
        return np.where(self._answered > 0, values, np.nan)

    @property
    def cmax(self) -> Floats:
        """Share of the asked rows that was answered."""
        return np.where(self.counted > 0, self._answered / np.where(self.counted > 0, self.counted, 1), np.nan)

    @cached_property
    def areas(self) -> tuple[Floats, Floats]:
        """AURC and AUGRC: trapezoids over [0, cmax] with risk(0) = the first risk, generalized risk(0) = 0."""
        if isinstance(self._rows, PointCurve):
            aurc, augrc = self._rows.areas
            return np.array([aurc]), np.array([augrc])
        if self.compiled:
            scanned = self._scan(0.5)
            return self._defined(scanned[:, 0]), self._defined(scanned[:, 1])
        return self._trapezoids(None)

    def areas_at(self, c: float | Floats) -> tuple[Floats, Floats]:
        """The areas up to min(c, cmax), landing on it by linear interpolation; c may be one coverage per resample."""
        if self.compiled:
            scanned = self._scan(c)
            return self._defined(scanned[:, 2]), self._defined(scanned[:, 3])
        key = np.asarray(c, float).tobytes()
        if key not in self._truncated:  # one metric asks for the first area, another for the second
            self._truncated[key] = self._trapezoids(c)
        return self._truncated[key]

    def _trapezoids(self, c: float | Floats | None) -> tuple[Floats, Floats]:
        coverage, risk = self.coverage, self.risk
        if not coverage.shape[1]:
            nothing = np.full(len(coverage), np.nan)
            return nothing, nothing
        return (
            self._defined(_area(coverage, risk, risk[:, :1], c)),
            self._defined(_area(coverage, self.generalized, np.zeros((len(risk), 1)), c)),
        )

    def risk_at(self, c: float) -> Floats:
        """Selective risk at the first working point with coverage ≥ c; undefined where none reaches it."""
        if self.compiled:
            grid = kernels.GRID if c in kernels.GRID else (c,)
            scanned = self._scan(0.5, grid)
            return scanned[:, 4 + grid.index(c)]
        place, reached = self._first_at(c)
        if not self.risk.shape[1]:
            return np.full(len(self.counted), np.nan)
        return np.where(reached, np.take_along_axis(self.risk, place[:, None], 1)[:, 0], np.nan)

    def coverage_at(self, c: float) -> Floats:
        """The coverage of the working point that `risk_at` reads."""
        place, reached = self._first_at(c)
        if not self.risk.shape[1]:
            return np.full(len(self.counted), np.nan)
        return np.where(reached, np.take_along_axis(self.coverage, place[:, None], 1)[:, 0], np.nan)

    def _first_at(self, c: float) -> tuple[Codes, Mask]:
        reached = self.coverage >= c
        first = np.argmax(reached, 1) if reached.shape[1] else np.zeros(len(reached), np.int64)
        return np.asarray(first), np.asarray(reached.any(1))

    def _scan(self, c: float | Floats, grid: tuple[float, ...] = kernels.GRID) -> Floats:
        key = (np.asarray(c, float).tobytes(), *grid)
        if key not in self._scans:
            rows = self._rows
            self._scans[key] = kernels.scan(rows.cluster, rows.value, rows.ends, self._weights, self.counted, c, grid)
        return self._scans[key]

    @cached_property
    def optimal(self) -> tuple[Floats, Floats]:
        """AURC and AUGRC if rows were ranked by their loss, every row its own working point."""
        if isinstance(self._rows, PointCurve):
            values, counts = self._rows.levels
            return self._row_by_row(counts, values[None])
        return self._exact_areas(self._rows.by_value)

    @property
    def exact(self) -> Floats:
        """AURC with ties taken at the mean over their orders: every row its own working point."""
        return self._exact_areas(self._rows)[0]

    def _exact_areas(self, rows: Any) -> tuple[Floats, Floats]:
        """AURC and AUGRC of rows taken one by one, the rows of a plateau at their mean loss."""
        if not rows.points:
            nothing = np.full(len(self.counted), np.nan)
            return nothing, nothing
        if not rows.small and len(self._weights) >= kernels.LANES and compiling.available():
            harmonic = _harmonic(int(self._answered.max(initial=0)))
            areas = kernels.row_by_row(rows.cluster, rows.value, rows.ends, self._weights, self.counted, harmonic)
            return self._defined(areas[:, 0]), self._defined(areas[:, 1])
        accepted, loss = rows.sums(self._floats)
        counts = np.diff(accepted, axis=1, prepend=0)
        level = np.diff(loss, axis=1, prepend=0) / np.where(counts > 0, counts, 1)
        return self._row_by_row(counts, level)

    def _row_by_row(self, counts: Floats, level: Floats) -> tuple[Floats, Floats]:
        """The areas of a curve that takes `counts` rows of loss `level` one by one, left to right.

        Within a level L after K₀ rows with loss S₀, the risk at k rows is L + (S₀ − K₀L)/k, so its sum is a
        difference of harmonic numbers.
        """
        after = np.cumsum(counts, 1)
        before = after - counts
        total = np.cumsum(counts * level, 1)
        earlier = total - counts * level
        harmonic = _harmonic(int(after[:, -1].max(initial=0)))
        steps = harmonic[after.astype(np.int64)] - harmonic[before.astype(np.int64)]
        risks = (counts * level + (earlier - before * level) * steps).sum(1)
        first = np.take_along_axis(np.broadcast_to(level, counts.shape), np.argmax(counts > 0, 1)[:, None], 1)[:, 0]
        answered = after[:, -1]
        last = total[:, -1] / np.where(answered > 0, answered, 1)
        aurc = (risks + first / 2 - last / 2) / self.counted
        augrc = (counts * (earlier + total) / 2).sum(1) / self.counted**2
        return self._defined(aurc), self._defined(augrc)

    @cached_property
    def achievable(self) -> Floats:
        """AURC of the lower convex hull of the working points."""
        rows = self._rows
        few = _FEW_POINTS if len(self._weights) >= kernels.LANES else _SOME_POINTS
        if isinstance(rows, SortedRows) and rows.points > few and compiling.available():
            areas = kernels.hull_areas(rows.cluster, rows.value, rows.ends, self._floats, self.counted, self._height)
            return self._defined(areas)
        accepted = self.sums[0]
        grows = np.diff(accepted, axis=1, prepend=0) > 0  # an empty plateau of a resample is no point
        return self._defined(hull_area(self.coverage, self.risk, grows, self._height))

    @property
    def _height(self) -> float:
        return hull_height(self._rows.points)


def _area(x: Floats, y: Floats, start: Floats, c: float | Floats | None) -> Floats:
    """Trapezoids under (x, y) from (0, start), up to c where given: one for all, or one for each row."""
    x0 = np.concatenate([np.zeros((len(x), 1)), x[:, :-1]], 1)
    y0 = np.concatenate([start, y[:, :-1]], 1)
    step = x - x0
    if c is None:
        return (step * (y0 + y)).sum(1) / 2
    taken = np.clip(np.reshape(c, (-1, 1)) - x0, 0, step)
    slope = np.where(step > 0, (y - y0) / np.where(step > 0, step, 1), 0)
    return (taken * (2 * y0 + taken * slope)).sum(1) / 2


def hull_area(x: Floats, y: Floats, valid: Mask, height: float) -> Floats:
    """The area under the lower convex hull of each row's valid points, flat from 0 to the first."""
    corner, corners = _hull(x, y, valid, height)
    count, size = x.shape
    row = np.arange(count)
    corner_x, corner_y = x[row, corner], y[row, corner]
    area = np.where(corners > 0, corner_x[0] * corner_y[0], 0.0) if size else np.zeros(count)
    for j in range(1, size):
        step = (corner_x[j] - corner_x[j - 1]) * (corner_y[j] + corner_y[j - 1]) / 2
        area += np.where(j < corners, step, 0.0)
    return area


def hull_corners(x: Floats, y: Floats) -> Codes:
    """The working points of one curve that are corners of its lower convex hull."""
    corner, corners = _hull(x[None], y[None], np.ones((1, len(x)), bool), hull_height(len(x)))
    return corner[: int(corners[0]), 0]


def hull_height(points: int) -> float:
    """How little under its chord a point is no corner; neighbours of a fine curve lie closer than any fixed height."""
    return HULL_HEIGHT * min(1.0, (1000 / max(points, 1)) ** 2)


def _hull(x: Floats, y: Floats, valid: Mask, height: float) -> tuple[Codes, Codes]:
    """The places of each row's corners, one column per row, and how many there are.

    Points come from left to right; the last corner goes as long as it lies less than `height` under the chord from
    the corner before it to the new point. All rows move together.
    """
    count, size = x.shape
    corner = np.zeros((size, count), np.int64)
    corners = np.zeros(count, np.int64)
    for j in range(size):
        new = np.flatnonzero(valid[:, j])
        open_ = new[corners[new] >= 2]
        while len(open_):
            before, last = corner[corners[open_] - 2, open_], corner[corners[open_] - 1, open_]
            x0, y0 = x[open_, before], y[open_, before]
            chord = y0 + (y[open_, j] - y0) * (x[open_, last] - x0) / (x[open_, j] - x0)
            gone = open_[chord - y[open_, last] <= height]
            corners[gone] -= 1
            open_ = gone[corners[gone] >= 2]
        corner[corners[new], new] = j
        corners[new] += 1
    return corner, corners


_HARMONIC = np.zeros(1)


def _harmonic(size: int) -> Floats:
    """H₀ … H_size, kept and extended."""
    global _HARMONIC
    if len(_HARMONIC) <= size:
        length = max(size + 1, 2 * len(_HARMONIC))
        _HARMONIC = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, length))])
    return _HARMONIC
