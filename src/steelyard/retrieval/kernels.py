"""What is asked of a tile of scores: compiled where the compiler is installed, else the same in NumPy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.ground import compiling

Matrix = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

_WORTH = 1 << 20  # scores from which compiled code is worth loading
_PAIRS = 1 << 14  # looked at together
_STRIP = 64  # scores of a row that are looked at together
_FEW = 16  # up to here the k-th largest is found by k maxima


def sides(tile: Matrix, low: Matrix, high: Matrix) -> tuple[Codes, Codes, Codes]:
    """Of every row, how many scores are above its `high`; and row and column of those from `low` to `high`.

    The latter are meant to be few.
    """
    if tile.size < _WORTH or tile.shape[1] % _STRIP or not compiling.available():
        above = np.array([np.count_nonzero(row) for row in tile > high[:, None]])  # along an axis would be slower
        between = (tile >= low[:, None]) & (tile <= high[:, None])
        rows, columns = np.divmod(np.flatnonzero(between), tile.shape[1])
        return above, rows, columns
    above, counts = _compiled()["sides"](tile, low, high)
    strips = np.flatnonzero(counts)
    scores = tile.reshape(-1, _STRIP)[strips]
    rows = strips // (tile.shape[1] // _STRIP)
    inside = np.flatnonzero((scores >= low[rows, None]) & (scores <= high[rows, None]))
    strip, place = np.divmod(inside, _STRIP)
    return above, rows[strip], strips[strip] % (tile.shape[1] // _STRIP) * _STRIP + place


def lengths(matrix: Matrix) -> Floats:
    """The length of every row, summed in 64 bits; NaN or infinite where a row is, or is too long."""
    if matrix.size >= _WORTH and compiling.available() and matrix.flags.c_contiguous:
        return _compiled()["lengths"](matrix)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))


def dots(queries: Matrix, docs: Matrix, rows: Codes, columns: Codes) -> Floats:
    """Products of pairs of rows, summed in 64 bits in some order."""
    if len(rows) * docs.shape[1] >= _WORTH // 64 and compiling.available():  # pairs cost more than scores of a tile
        return _compiled()["dots"](queries, docs, rows, columns)
    products = np.empty(len(rows))
    for start in range(0, len(rows), _PAIRS):
        part = slice(start, start + _PAIRS)
        products[part] = np.einsum("ij,ij->i", queries[rows[part]], docs[columns[part]], dtype=np.float64)
    return products


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
    def sides(tile, low, high):  # type: ignore[no-untyped-def]
        rows, columns = tile.shape
        above = np.zeros(rows, np.int64)
        strips = np.zeros((rows, columns // _STRIP), np.int32)
        for i in range(rows):
            down, up = low[i], high[i]
            for s in range(columns // _STRIP):
                strip = tile[i, s * _STRIP : (s + 1) * _STRIP]
                a = np.int32(0)
                b = np.int32(0)
                for j in range(_STRIP):  # two loops without a branch run in lanes, one with two sums does not
                    a += np.int32(strip[j] > up)
                for j in range(_STRIP):
                    b += np.int32(strip[j] >= down)
                above[i] += a
                strips[i, s] = b - a
        return above, strips

    def lengths(matrix):  # type: ignore[no-untyped-def]
        norms = np.empty(matrix.shape[0])
        for i in range(matrix.shape[0]):
            total = 0.0
            for j in range(matrix.shape[1]):
                total += np.float64(matrix[i, j]) * np.float64(matrix[i, j])
            norms[i] = np.sqrt(total)
        return norms

    def dots(queries, docs, rows, columns):  # type: ignore[no-untyped-def]
        products = np.empty(len(rows))
        for n in range(len(rows)):
            q, p = queries[rows[n]], docs[columns[n]]
            total = 0.0
            for j in range(docs.shape[1]):
                total += np.float64(q[j]) * np.float64(p[j])
            products[n] = total
        return products

    # sums may run in any order, in lanes; NaN and infinity keep their meaning
    any_order = {"nogil": True, "fastmath": {"reassoc", "contract"}}
    return {
        "sides": compiling.compile_(sides, nogil=True),
        "lengths": compiling.compile_(lengths, **any_order),
        "dots": compiling.compile_(dots, **any_order),
    }
