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
from steelyard.ground.randomness import mix

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
    """AURC, AUGRC, both up to c, and the risk at each coverage of the sorted `grid`, one row a resample.

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
    """AURC and AUGRC where every row is its own point, rows of a plateau at their mean loss: one row a resample."""
    closes = np.zeros(len(cluster), np.bool_)
    closes[ends] = True
    blocks = lane_blocks(weights)
    padded = np.ones(len(blocks) * LANES)
    padded[: len(weights)] = asked
    found = _compiled()["row_by_row"](cluster, np.ascontiguousarray(loss), closes, blocks, padded, harmonic)
    return np.asarray(found)[: len(weights)]


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


def summed(place: Codes, values: Floats, size: int) -> Floats:
    """`np.bincount` with weights, without its extra passes over the data."""
    view = values.view()
    view.flags.writeable = False  # one compiled form for all arrays
    return np.asarray(_compiled()["summed"](place, view, size))


def sorted_runs(rank: Floats, loss: Floats, values: Floats) -> tuple[Floats, Codes]:
    """Ranks in ascending buckets, within a bucket one ascending run for each distinct loss; and where runs begin.

    Buckets are small enough to be sorted in the cache, which is several times faster than sorting at once.
    """
    low, high = float(rank.min()), float(rank.max())
    buckets = max(1, min(8192, len(rank) // 1200))
    scale = buckets / (high - low) if 0 < high - low < np.inf else 0.0
    out, begins = _compiled()["scatter"](rank, loss, values, low, scale, buckets)
    for first, last in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
        if last - first > 1:
            out[first:last].sort()
    return out, begins


def merged_areas(runs: Floats, begins: Codes, values: Floats, asked: float) -> tuple[float, float]:
    """AURC and AUGRC of sorted runs."""
    *_, aurc, augrc = _compiled()["merge"](runs, begins, values, asked, False)
    return float(aurc), float(augrc)


def merged_points(runs: Floats, begins: Codes, values: Floats) -> tuple[Floats, Floats, Floats]:
    """Thresholds, accepted rows and loss at every working point of sorted runs."""
    thresholds, accepted, loss, count, *_ = _compiled()["merge"](runs, begins, values, 1.0, True)
    return thresholds[:count], accepted[:count], loss[:count]


def bins(confidence: Floats, count: int) -> Codes:
    """The equal-width bin of each confidence, −1 where there is none: one pass."""
    view = confidence.view()
    view.flags.writeable = False
    return np.asarray(_compiled()["bins"](view, count))


def auroc(cluster: Codes, positive: Floats, ends: Codes, weights: npt.NDArray[Any]) -> Floats:
    """The area under the ROC curve of rows in descending score, one number a resample; NaN without both classes."""
    closes = np.zeros(len(cluster), np.bool_)
    closes[ends] = True
    return np.asarray(_compiled()["auroc"](cluster, np.ascontiguousarray(positive), closes, lane_blocks(weights)))[
        : len(weights)
    ]


def quantile(cluster: Codes, score: Floats, weights: npt.NDArray[Any], q: float) -> Floats:
    """The q-quantile of rows in descending score, one number a resample; NaN where a resample is empty."""
    blocks = lane_blocks(weights)
    totals = weights.astype(np.float64) @ np.bincount(cluster, minlength=weights.shape[1])
    padded = np.zeros(len(blocks) * LANES)
    padded[: len(weights)] = totals
    return np.asarray(_compiled()["quantile"](cluster, score, blocks, padded, q))[: len(weights)]


def tally(seed: int, first: int, last: int, clusters: int) -> npt.NDArray[np.uint16]:
    """Multinomial counts of resamples first, …, last − 1: the same stream as `uncertainty.weights` draws in NumPy."""
    base = mix(np.array([seed % 2**64], np.uint64))
    keys = mix(base ^ mix(np.arange(first, last, dtype=np.uint64)))
    return np.asarray(_compiled()["tally"](keys, clusters))


@cache
def _compiled() -> dict[str, Any]:
    # None of these may refer to another compiled function: its identity would be part of the key under which the code
    # is kept, and every process would compile anew.

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

    def tally_(keys, clusters):  # type: ignore[no-untyped-def]
        counts = np.zeros((keys.shape[0], clusters), np.uint16)
        p = np.uint64(clusters)
        for r in range(keys.shape[0]):
            for d in range((clusters + 1) // 2):
                z = keys[r] + np.uint64(d) * np.uint64(0xD1342543DE82EF95) + np.uint64(0x9E3779B97F4A7C15)
                z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                z = z ^ (z >> np.uint64(31))
                counts[r, ((z & np.uint64(0xFFFFFFFF)) * p) >> np.uint64(32)] += np.uint16(1)
                if 2 * d + 1 < clusters:
                    counts[r, ((z >> np.uint64(32)) * p) >> np.uint64(32)] += np.uint16(1)
        return counts

    def summed_(place, values, size):  # type: ignore[no-untyped-def]
        out = np.zeros(size)
        for i in range(place.shape[0]):
            out[place[i]] += values[i]
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

    def bins_(confidence, count):  # type: ignore[no-untyped-def]
        edges = np.arange(count + 1) / count
        edges[count] = np.inf
        out = np.empty(confidence.shape[0], np.int64)
        for i in range(confidence.shape[0]):
            x = confidence[i]
            k = min(int(x * count), count - 1) if x >= 0 else 0
            # the edges are the doubles k / count: the product may have rounded across one
            out[i] = -1 if np.isnan(x) else k - (x < edges[k]) + (x >= edges[k + 1])
        return out

    def scatter_(rank, loss, values, low, scale, buckets):  # type: ignore[no-untyped-def]
        kinds = values.shape[0]
        begins = np.zeros(buckets * kinds + 1, np.int64)
        places = np.empty(rank.shape[0], np.int32)
        for i in range(rank.shape[0]):
            bucket = min(int((rank[i] - low) * scale), buckets - 1)
            kind = 0
            while values[kind] != loss[i]:
                kind += 1
            places[i] = bucket * kinds + kind
            begins[places[i] + 1] += 1
        for j in range(1, begins.shape[0]):
            begins[j] += begins[j - 1]
        at = begins[:-1].copy()
        out = np.empty(rank.shape[0])
        for i in range(rank.shape[0]):
            out[at[places[i]]] = rank[i]
            at[places[i]] += 1
        return out, begins

    def merge_(runs, begins, values, asked, keep):  # type: ignore[no-untyped-def]
        kinds = values.shape[0]
        size = runs.shape[0] if keep else 0
        thresholds = np.empty(size)
        accepted = np.empty(size)
        loss = np.empty(size)
        left = np.empty(kinds, np.int64)
        taken = np.zeros(kinds)
        k_before = 0.0
        s_before = 0.0
        risk_before = 0.0
        area = 0.0
        general = 0.0
        count = 0
        for bucket in range((begins.shape[0] - 1) // kinds - 1, -1, -1):
            base = bucket * kinds
            for j in range(kinds):
                left[j] = begins[base + j + 1]
            while True:
                best = -np.inf
                for j in range(kinds):
                    if left[j] > begins[base + j] and runs[left[j] - 1] > best:
                        best = runs[left[j] - 1]
                if best == -np.inf:
                    break
                k = k_before
                s = 0.0
                for j in range(kinds):
                    while left[j] > begins[base + j] and runs[left[j] - 1] == best:
                        left[j] -= 1
                        taken[j] += 1.0
                        k += 1.0
                    s += taken[j] * values[j]  # counts are exact, so the sum does not drift
                risk = s / k
                start = risk if k_before == 0.0 else risk_before
                area += (k - k_before) * (risk + start)
                general += (k - k_before) * (s + s_before)
                k_before = k
                s_before = s
                risk_before = risk
                if keep:
                    thresholds[count] = best
                    accepted[count] = k
                    loss[count] = s
                count += 1
        return thresholds, accepted, loss, count, 0.5 * area / asked, 0.5 * general / asked / asked

    functions = {
        "scan": scan_,
        "row_by_row": row_by_row_,
        "hull": hull_,
        "tally": tally_,
        "summed": summed_,
        "auroc": auroc_,
        "quantile": quantile_,
        "bins": bins_,
        "scatter": scatter_,
        "merge": merge_,
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
