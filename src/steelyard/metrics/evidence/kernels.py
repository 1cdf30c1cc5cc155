"""Compiled scans over sorted rows, sixteen resamples at a time. Optional: without the compiler NumPy does the same.

The compiler is imported, and the kernels compiled or loaded from their cache, at the first use only.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.ground.arrays import Codes, Floats
from steelyard.ground.compiling import compile_

LANES = 16
GRID = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_NEVER = 1e300


def scan(
    cluster: Codes,
    loss: Floats,
    ends: Codes,
    weights: npt.NDArray[Any],
    asked: Floats,
    c: float | Floats,
    grid: tuple[float, ...],
) -> Floats:
    """AURC, AUGRC, both up to c, and the risk at each coverage of the sorted `grid`, one row per resample.

    c is one coverage for all, or one for each resample: areas up to NaN are NaN.
    """
    closes = np.zeros(len(cluster), np.bool_)
    closes[ends] = True
    count = len(weights)
    blocks = lane_blocks(weights)
    padded, up_to = np.ones((2, blocks.shape[0] * LANES))
    padded[:count] = asked
    up_to[:count] = c
    stops = _rows_beyond(up_to, padded)
    reaches = np.stack([*(_rows_for(at, padded) for at in grid), np.full(len(padded), _NEVER)], 1)
    return np.asarray(_compiled()["scan"](cluster, loss, closes, blocks, padded, up_to, stops, reaches))[:count]


def lane_blocks(weights: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """Weights as (blocks, clusters, lanes): the sixteen resamples of a block side by side."""
    count, clusters = weights.shape
    blocks = -(-count // LANES)
    full = np.zeros((blocks * LANES, clusters), np.uint16)
    full[:count] = weights
    return np.ascontiguousarray(full.reshape(blocks, LANES, clusters).transpose(0, 2, 1))


def row_by_row(
    cluster: Codes,
    loss: Floats,
    ends: Codes,
    weights: npt.NDArray[Any],
    asked: Floats,
    harmonic: Floats,
) -> Floats:
    """AURC and AUGRC where every row is its own point, rows of a plateau at their mean loss: one row per resample."""
    closes = np.zeros(len(cluster), np.bool_)
    closes[ends] = True
    blocks = lane_blocks(weights)
    padded = np.ones(len(blocks) * LANES)
    padded[: len(weights)] = asked
    areas = _compiled()["row_by_row"](cluster, np.ascontiguousarray(loss), closes, blocks, padded, harmonic)
    return np.asarray(areas)[: len(weights)]


def hull_areas(
    cluster: Codes,
    loss: Floats,
    ends: Codes,
    weights: Floats,
    asked: Floats,
    height: float,
) -> Floats:
    """The area under the lower convex hull of each resample's curve."""
    closes = np.zeros(len(cluster), np.bool_)
    closes[ends] = True
    return np.asarray(
        _compiled()["hull"](cluster, loss, closes, np.ascontiguousarray(weights), asked, height, len(ends))
    )


def auroc(cluster: Codes, positive: Floats, ends: Codes, weights: npt.NDArray[Any]) -> Floats:
    """The area under the ROC curve of rows in descending score, one number per resample; NaN without both classes."""
    closes = np.zeros(len(cluster), np.bool_)
    closes[ends] = True
    return np.asarray(_compiled()["auroc"](cluster, np.ascontiguousarray(positive), closes, lane_blocks(weights)))[
        : len(weights)
    ]


def quantile(cluster: Codes, score: Floats, weights: npt.NDArray[Any], q: float) -> Floats:
    """The q-quantile of rows in descending score, one number per resample; NaN where a resample is empty."""
    blocks = lane_blocks(weights)
    totals = weights.astype(np.float64) @ np.bincount(cluster, minlength=weights.shape[1])
    padded = np.zeros(len(blocks) * LANES)
    padded[: len(weights)] = totals
    return np.asarray(_compiled()["quantile"](cluster, score, blocks, padded, q))[: len(weights)]


@cache
def _compiled() -> dict[str, Any]:
    # None of these may refer to another compiled function: its identity would be part of the key under which the code
    # is kept, and every process would compile again.

    def scan_(cluster, loss, closes, blocks, asked, up_to, stops, reaches):  # type: ignore[no-untyped-def]
        out = np.full((blocks.shape[0] * LANES, 3 + reaches.shape[1]), np.nan)
        for b in range(blocks.shape[0]):
            weights = blocks[b]
            k = np.zeros(LANES)
            s = np.zeros(LANES)
            k_before = np.zeros(LANES)
            s_before = np.zeros(LANES)
            risk_before = np.zeros(LANES)
            area = np.zeros(LANES)
            general = np.zeros(LANES)
            next_event = np.zeros(LANES)
            stop = np.zeros(LANES)
            reach = np.zeros(LANES)
            step = np.zeros(LANES, np.int64)
            for q in range(LANES):
                stop[q] = stops[b * LANES + q]
                reach[q] = reaches[b * LANES + q, 0]
                next_event[q] = min(stop[q], reach[q])
            for i in range(cluster.shape[0]):
                g = cluster[i]
                x = loss[i]
                for q in range(LANES):
                    w = float(weights[g, q])
                    k[q] += w
                    s[q] += w * x
                if closes[i]:
                    due = 0
                    for q in range(LANES):
                        due += k[q] >= next_event[q]
                    if due:
                        for q in range(LANES):
                            if k[q] >= next_event[q]:
                                row = b * LANES + q
                                n = asked[row]
                                risk = s[q] / k[q]
                                start = risk if k_before[q] == 0.0 else risk_before[q]
                                if k[q] >= stop[q]:
                                    width = (k[q] - k_before[q]) / n
                                    taken = up_to[row] - k_before[q] / n
                                    at = start + taken * (risk - start) / width
                                    low = s_before[q] / n
                                    high = low + taken * (s[q] / n - low) / width
                                    out[row, 2] = 0.5 * area[q] / n + 0.5 * taken * (start + at)
                                    out[row, 3] = 0.5 * general[q] / n / n + 0.5 * taken * (low + high)
                                    stop[q] = _NEVER
                                while k[q] >= reach[q]:
                                    out[row, 4 + step[q]] = risk
                                    step[q] += 1
                                    reach[q] = reaches[row, step[q]]
                                next_event[q] = min(stop[q], reach[q])
                    for q in range(LANES):
                        added = k[q] - k_before[q]
                        risk = s[q] / max(k[q], 1.0)
                        start = risk if k_before[q] == 0.0 else risk_before[q]
                        area[q] += added * (risk + start)
                        general[q] += added * (s[q] + s_before[q])
                        k_before[q] = k[q]
                        s_before[q] = s[q]
                        risk_before[q] = risk
            for q in range(LANES):
                row = b * LANES + q
                n = asked[row]
                out[row, 0] = 0.5 * area[q] / n
                out[row, 1] = 0.5 * general[q] / n / n
                if stop[q] < _NEVER:
                    out[row, 2] = out[row, 0]
                    out[row, 3] = out[row, 1]
        return out

    def row_by_row_(cluster, loss, closes, blocks, asked, harmonic):  # type: ignore[no-untyped-def]
        out = np.full((blocks.shape[0] * LANES, 2), np.nan)
        for b in range(blocks.shape[0]):
            weights = blocks[b]
            k = np.zeros(LANES)
            s = np.zeros(LANES)
            k_before = np.zeros(LANES)
            s_before = np.zeros(LANES)
            first = np.zeros(LANES)
            risks = np.zeros(LANES)
            general = np.zeros(LANES)
            for i in range(cluster.shape[0]):
                g = cluster[i]
                x = loss[i]
                for q in range(LANES):
                    w = float(weights[g, q])
                    k[q] += w
                    s[q] += w * x
                if closes[i]:
                    for q in range(LANES):
                        taken = k[q] - k_before[q]
                        if taken > 0.0:
                            level = (s[q] - s_before[q]) / taken
                            if k_before[q] == 0.0:
                                first[q] = level
                            step = harmonic[int(k[q])] - harmonic[int(k_before[q])]
                            risks[q] += taken * level + (s_before[q] - k_before[q] * level) * step
                            general[q] += taken * (s[q] + s_before[q])
                            k_before[q] = k[q]
                            s_before[q] = s[q]
            for q in range(LANES):
                row = b * LANES + q
                n = asked[row]
                if k[q] > 0.0:
                    out[row, 0] = (risks[q] + 0.5 * first[q] - 0.5 * s[q] / k[q]) / n
                    out[row, 1] = 0.5 * general[q] / n / n
        return out

    def hull_(cluster, loss, closes, weights, asked, height, points):  # type: ignore[no-untyped-def]
        out = np.full(weights.shape[0], np.nan)
        xs = np.empty(points)
        ys = np.empty(points)
        for r in range(weights.shape[0]):
            k = 0.0
            s = 0.0
            seen = 0.0
            top = 0
            for i in range(cluster.shape[0]):
                w = weights[r, cluster[i]]
                k += w
                s += w * loss[i]
                if closes[i] and k > seen:
                    seen = k
                    x = k / asked[r]
                    y = s / k
                    while top >= 2:
                        run = x - xs[top - 2]
                        chord = ys[top - 2] + (y - ys[top - 2]) * (xs[top - 1] - xs[top - 2]) / run
                        if chord - ys[top - 1] > height:
                            break
                        top -= 1
                    xs[top] = x
                    ys[top] = y
                    top += 1
            if top > 0:
                total = xs[0] * ys[0]
                for j in range(1, top):
                    total += 0.5 * (xs[j] - xs[j - 1]) * (ys[j] + ys[j - 1])
                out[r] = total
        return out

    def auroc_(cluster, positive, closes, blocks):  # type: ignore[no-untyped-def]
        out = np.full(blocks.shape[0] * LANES, np.nan)
        for b in range(blocks.shape[0]):
            weights = blocks[b]
            ones = np.zeros(LANES)
            zeros = np.zeros(LANES)
            ones_before = np.zeros(LANES)
            zeros_before = np.zeros(LANES)
            area = np.zeros(LANES)
            for i in range(cluster.shape[0]):
                g = cluster[i]
                x = positive[i]
                for q in range(LANES):
                    w = float(weights[g, q])
                    ones[q] += w * x
                    zeros[q] += w * (1.0 - x)
                if closes[i]:
                    for q in range(LANES):
                        area[q] += (zeros[q] - zeros_before[q]) * 0.5 * (ones[q] + ones_before[q])
                        ones_before[q] = ones[q]
                        zeros_before[q] = zeros[q]
            for q in range(LANES):
                if ones[q] > 0.0 and zeros[q] > 0.0:
                    out[b * LANES + q] = area[q] / (ones[q] * zeros[q])
        return out

    def quantile_(cluster, score, blocks, totals, share):  # type: ignore[no-untyped-def]
        out = np.full(blocks.shape[0] * LANES, np.nan)
        for b in range(blocks.shape[0]):
            weights = blocks[b]
            seen = np.zeros(LANES)
            upper = np.empty(LANES)
            lower = np.empty(LANES)
            part = np.empty(LANES)
            high = np.full(LANES, np.nan)
            low = np.full(LANES, np.nan)
            for q in range(LANES):
                n = totals[b * LANES + q]
                place = (n - 1.0) * (1.0 - share)
                upper[q] = math.floor(place)
                lower[q] = min(upper[q] + 1.0, n - 1.0)
                part[q] = place - upper[q]
            for i in range(cluster.shape[0]):
                g = cluster[i]
                open_ = 0
                for q in range(LANES):
                    before = seen[q]
                    seen[q] += float(weights[g, q])
                    if before <= upper[q] < seen[q]:
                        high[q] = score[i]
                    if before <= lower[q] < seen[q]:
                        low[q] = score[i]
                    open_ += seen[q] <= lower[q]
                if open_ == 0:
                    break
            for q in range(LANES):
                if totals[b * LANES + q] > 0.0:
                    out[b * LANES + q] = high[q] - (high[q] - low[q]) * part[q]
        return out

    functions = {
        "scan": scan_,
        "row_by_row": row_by_row_,
        "hull": hull_,
        "auroc": auroc_,
        "quantile": quantile_,
    }
    return {name: compile_(function) for name, function in functions.items()}


def _rows_for(c: float | Floats, n: Floats) -> Floats:
    """The smallest whole k with k/n ≥ c, by the comparison the definition uses: c·n rounds."""
    with np.errstate(invalid="ignore", divide="ignore"):
        k = np.ceil(c * n)
        while (early := (k > 0) & ((k - 1) / n >= c)).any():
            k -= early
        while (late := k / n < c).any():
            k += late
    return k


def _rows_beyond(c: Floats, n: Floats) -> Floats:
    """The smallest whole k with k/n > c; none is beyond NaN."""
    k = _rows_for(c, n)
    with np.errstate(invalid="ignore", divide="ignore"):
        while (at := k / n <= c).any():
            k += at
    return np.where(np.isnan(c), _NEVER, k)
