"""What is asked of a tile of scores: compiled where the compiler is installed, else the same in NumPy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.metrics import compiling

Matrix = npt.NDArray[Any]
Codes = npt.NDArray[np.int64]

_WORTH = 1 << 20  # scores from which compiled code is worth loading
_STRIP = 256  # scores of a row that are looked at together
_FEW = 16  # up to here the k-th largest is found by k maxima


def above(tile: Matrix, high: Matrix) -> Codes:
    """Of every row, how many scores are above its `high`."""
    if tile.size >= _WORTH and compiling.available():
        return _compiled()["above"](tile, high)
    return np.array([np.count_nonzero(row) for row in tile > high[:, None]])  # along an axis would be slower


def between(tile: Matrix, low: Matrix, high: Matrix) -> tuple[Codes, Codes]:
    """Row and column of the scores from a row's `low` to its `high`, which are few."""
    if tile.size < _WORTH or tile.shape[1] % _STRIP or not compiling.available():
        inside = (tile >= low[:, None]) & (tile <= high[:, None])
        rows, columns = np.divmod(np.flatnonzero(inside), tile.shape[1])
        return rows, columns
    strips = np.flatnonzero(_compiled()["strips"](tile, low, high))
    scores = tile.reshape(-1, _STRIP)[strips]
    rows = strips // (tile.shape[1] // _STRIP)
    found, place = np.divmod(np.flatnonzero((scores >= low[rows, None]) & (scores <= high[rows, None])), _STRIP)
    return rows[found], strips[found] % (tile.shape[1] // _STRIP) * _STRIP + place


def kth_largest(tile: Matrix, k: int) -> Matrix:
    """The k-th largest score of every row. Leaves the tile as it was."""
    if k > _FEW:
        return np.partition(tile, tile.shape[1] - k, axis=1)[:, tile.shape[1] - k]
    rows = np.arange(len(tile))
    removed = []
    for _ in range(k):
        place = tile.argmax(axis=1)
        score = tile[rows, place]
        removed.append((place, score))
        tile[rows, place] = -np.inf
    for place, score in removed:
        tile[rows, place] = score
    return removed[-1][1]


@cache
def _compiled() -> dict[str, Any]:
    def above(tile, high):  # type: ignore[no-untyped-def]
        found = np.zeros(tile.shape[0], np.int64)
        for i in range(tile.shape[0]):
            n = np.int32(0)
            for j in range(tile.shape[1]):
                n += np.int32(tile[i, j] > high[i])
            found[i] = n
        return found

    def strips(tile, low, high):  # type: ignore[no-untyped-def]
        rows, columns = tile.shape
        found = np.zeros((rows, columns // _STRIP), np.int32)
        for i in range(rows):
            down, up = low[i], high[i]
            for s in range(columns // _STRIP):
                strip = tile[i, s * _STRIP : (s + 1) * _STRIP]
                n = np.int32(0)
                for j in range(_STRIP):  # without a branch, so that it runs in lanes
                    n += np.int32(strip[j] >= down) - np.int32(strip[j] > up)
                found[i, s] = n
        return found

    return {name: compiling.compile_(kernel, nogil=True) for name, kernel in (("above", above), ("strips", strips))}
