"""The keys that sums are added up under: which rows have one, the distinct ones, and two lists of them joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.ground.arrays import Codes, Floats, Mask
from steelyard.metrics.evidence.clusters import sortable
from steelyard.records.labels import Labels, ranked


def keyless(part: Any) -> Mask:
    """Rows without a key: null labels, NaN, negative whole numbers."""
    if isinstance(part, Labels):
        return part.missing
    return part < 0 if part.dtype.kind == "i" else np.isnan(part)


def distinct_keys(parts: Sequence[Any], size: int) -> tuple[tuple[npt.NDArray[Any], ...], Codes]:
    """The distinct keys (one array of values per part, aligned) and each row's place among them."""
    if not parts:
        return (), np.zeros(size, np.int64)
    values, codes = [], []
    for part in parts:
        if isinstance(part, Labels):
            values.append(np.array([*part.values, None], dtype=object)[:-1])
            codes.append(part.codes)
        elif part.dtype.kind == "i":
            values.append(np.arange(int(part.max(initial=-1)) + 1))
            codes.append(part)
        else:
            unique, code = np.unique(np.asarray(part, np.float64) + 0.0, return_inverse=True)  # −0.0 becomes 0.0
            values.append(unique)
            codes.append(code)
    key = codes[0].astype(np.int64, copy=False)
    for value, code in zip(values[1:], codes[1:], strict=True):
        key = key * len(value) + code
    space = int(np.prod([len(v) for v in values], dtype=np.float64))
    if space <= max(4 * size, 1024):
        seen = np.flatnonzero(np.bincount(key, minlength=space))
        place = np.zeros(space, np.int64)
        place[seen] = np.arange(len(seen))
        index = key if len(seen) == space else place[key]
    else:
        seen, index = np.unique(key, return_inverse=True)
    out: list[npt.NDArray[Any]] = []
    rest = seen
    for value in reversed(values):
        out.insert(0, value[rest % len(value)] if len(value) else value)
        rest = rest // max(len(value), 1)
    return tuple(out), index.astype(np.int64, copy=False)


def merged_keys(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[tuple[Any, ...], Codes, Codes]:
    """The distinct keys of two lists, and the places of either's among them."""
    if not a:
        return (), np.zeros(1, np.int64), np.zeros(1, np.int64)
    both = [np.concatenate(pair) for pair in zip(a, b, strict=True)]
    parts = [_labelled(part) if part.dtype.hasobject else part for part in both]
    keys, place = distinct_keys(parts, len(both[0]))
    return keys, place[: len(a[0])], place[len(a[0]) :]


def _labelled(part: npt.NDArray[Any]) -> Labels:
    """Keys as labels; null, which a key may be, comes last."""
    labels = ranked(part.tolist(), sortable)
    return Labels(np.where(labels.missing, len(labels.values), labels.codes), (*labels.values, None))


def midranks(values: Floats, counts: Floats) -> Floats:
    """The mean rank of each value under every row of counts."""
    if not len(values):
        return counts
    order = np.argsort(values, kind="stable")
    first = np.flatnonzero(np.r_[True, np.diff(values[order]) > 0])
    together = np.add.reduceat(counts[:, order], first, axis=-1)
    ranks = np.cumsum(together, -1) - (together - 1) / 2
    group = np.empty(len(values), np.int64)
    group[order] = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(values)]))
    return np.asarray(ranks[:, group])
