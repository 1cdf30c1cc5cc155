"""Compiled passes over rows as they come: sums, bins, counts of resamples, and the curve of a whole table.

The compiler is imported, and the passes compiled or loaded from their cache, at the first use only.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.ground.arrays import Codes, Floats
from steelyard.ground.compiling import compile_
from steelyard.ground.randomness import mix


def summed(place: Codes, values: Floats, size: int) -> Floats:
    """`np.bincount` with weights, without its extra passes over the data."""
    view = values.view()
    view.flags.writeable = False  # one compiled form for all arrays
    return np.asarray(_compiled()["summed"](place, view, size))


def bins(confidence: Floats, count: int) -> Codes:
    """The equal-width bin of each confidence, −1 where there is none: one pass."""
    view = confidence.view()
    view.flags.writeable = False
    return np.asarray(_compiled()["bins"](view, count))


def tally(seed: int, first: int, last: int, clusters: int) -> npt.NDArray[np.uint16]:
    """Multinomial counts of resamples first, …, last − 1: the same stream as `uncertainty.weights` draws in NumPy."""
    base = mix(np.array([seed % 2**64], np.uint64))
    keys = mix(base ^ mix(np.arange(first, last, dtype=np.uint64)))
    return np.asarray(_compiled()["tally"](keys, clusters))


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


@cache
def _compiled() -> dict[str, Any]:
    # None of these may refer to another compiled function: see `kernels`.

    def summed_(place, values, size):  # type: ignore[no-untyped-def]
        out = np.zeros(size)
        for i in range(place.shape[0]):
            out[place[i]] += values[i]
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
        "summed": summed_,
        "bins": bins_,
        "tally": tally_,
        "scatter": scatter_,
        "merge": merge_,
    }
    return {name: compile_(function) for name, function in functions.items()}
