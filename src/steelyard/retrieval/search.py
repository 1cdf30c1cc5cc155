"""Exact cosine search: the rank of the gold document and the first k, from the same tiles of one matrix product.

Scores are cosines, downwards; equal ones stand in document order. A zero vector has no direction and scores 0.

A matrix product is fast and good to some last bits, which depend on where a document stands in a tile: equal documents
may come out unequal. So a tile only sorts documents into above, below, and too close to tell; the last are scored again
one by one, all in the same order of operations. Ranks therefore do not depend on tiles, and equal documents tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError
from steelyard.retrieval import kernels

Floats = npt.NDArray[np.float64]
Matrix = npt.NDArray[Any]  # float32 or float64
Codes = npt.NDArray[np.int64]

_ROWS, _COLUMNS = 1024, 4096  # of a tile: it stays in the processor's cache while it is looked at
_PAIRS = 1 << 14  # scored again at once


@dataclass(frozen=True)
class Found:
    """Of every query: the rank of its gold document (0 without one), the first k documents and their cosines.

    `top` is −1 and `scores` NaN where there are fewer than k documents.
    """

    ranks: Codes
    top: Codes
    scores: Floats
    zero_queries: int
    zero_documents: int


def gold_ranks(queries: Any, docs: Any, gold: Any) -> Codes:
    """The rank of each query's gold document among all documents, from 1; equal cosines in document order.

    `gold` are indices of documents.

    >>> gold_ranks([[1.0, 0.2]], [[0.0, 1.0], [1.0, 0.0]], [0]).tolist()
    [2]
    """
    return search(queries, docs, gold).ranks


def search(
    queries: Any,
    docs: Any,
    gold: Any = None,
    *,
    k: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Found:
    """Search all documents for all queries. `gold` are indices of documents, −1 where a query has none."""
    one, other = _prepared("queries", queries), _prepared("docs", docs)
    if one.matrix.shape[1] != other.matrix.shape[1]:
        raise InputError(
            f"queries have {one.matrix.shape[1]} dimensions and docs {other.matrix.shape[1]}; embed both alike"
        )
    wanted = _gold(gold, len(one.matrix), len(other.matrix))
    if one.matrix.dtype != other.matrix.dtype:
        one, other = _side(one.matrix.astype(np.float64)), _side(other.matrix.astype(np.float64))
    size, k = len(one.matrix), min(k, len(other.matrix))
    ranks, top, scores = np.zeros(size, np.int64), np.full((size, k), -1), np.full((size, k), np.nan)
    for start in range(0, size, _ROWS):
        rows = slice(start, min(start + _ROWS, size))
        block = _Block(one.part(rows), other, wanted[rows], k)
        ranks[rows], top[rows], scores[rows] = block.searched()
        if progress is not None:
            progress(rows.stop / size)
    return Found(ranks, top, scores, int((one.norm == 0).sum()), int((other.norm == 0).sum()))


def cosines(queries: Matrix, docs: Matrix) -> Floats:
    """The cosine of each query with the document in the same row; 0 where either is a zero vector.

    Sums run over a row in one fixed order, so equal vectors have equal cosines wherever they stand.
    """
    one, other = queries.astype(np.float64), docs.astype(np.float64)
    norms = np.sqrt((one * one).sum(axis=1)) * np.sqrt((other * other).sum(axis=1))
    return np.divide((one * other).sum(axis=1), norms, out=np.zeros(len(one)), where=norms > 0)


@dataclass(frozen=True)
class _Side:
    """The vectors of one side, and their lengths to some last bits."""

    matrix: Matrix
    norm: Matrix

    def part(self, rows: slice) -> _Side:
        return _Side(self.matrix[rows], self.norm[rows])


def _prepared(name: str, vectors: Any) -> _Side:
    matrix = np.asarray(vectors)
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf" or not matrix.size:
        raise InputError(f"{name} are a matrix of numbers, one row a vector; this has shape {matrix.shape}")
    kept = matrix if matrix.dtype == np.float32 else matrix.astype(np.float64, copy=False)
    found = _side(kept)
    return found if _is_moderate(found) else _side(_moderate(name, kept))


def _side(matrix: Matrix) -> _Side:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return _Side(matrix, np.sqrt(np.einsum("ij,ij->i", matrix, matrix)))


def _is_moderate(side: _Side) -> bool:
    """Whether every length is 0 or can be multiplied with others; a NaN or an overflow is not."""
    small, large = (1e-15, 1e15) if side.matrix.dtype == np.float32 else (1e-125, 1e125)
    odd = ~((side.norm > small) & (side.norm < large))
    return not odd.any() or not side.matrix[odd].any()


def _moderate(name: str, matrix: Matrix) -> Matrix:
    """Every row divided by a power of two near its largest number: its direction to the last bit, no overflow."""
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        raise InputError(f"{name} hold a number that is not finite, in row {int(np.argmin(finite))} from 0")
    largest = np.abs(matrix).max(axis=1)
    exponent = np.frexp(np.where(largest > 0, largest, 1.0))[1]
    return np.ldexp(matrix.astype(np.float64), -exponent[:, None])


def _gold(gold: Any, queries: int, docs: int) -> Codes:
    if gold is None:
        return np.full(queries, -1)
    wanted = np.asarray(gold)
    if wanted.shape != (queries,) or wanted.dtype.kind not in "iu":
        raise InputError(f"gold is the index of a document for each of {queries} queries")
    wrong = (wanted < -1) | (wanted >= docs)
    if wrong.any():
        raise InputError(f"gold of query {int(np.argmax(wrong))} is no index of {docs} documents")
    return wanted.astype(np.int64)


class _Block:
    """Some queries against all documents, tile by tile."""

    def __init__(self, queries: _Side, docs: _Side, gold: Codes, k: int) -> None:
        self._queries, self._docs, self._gold, self._k = queries, docs, gold, k
        self._slack = _slack(queries.matrix.shape[1], queries.matrix.dtype) * queries.norm
        self._zero = queries.norm == 0
        self._has_gold = bool((gold >= 0).any())
        self._above = np.zeros(len(gold), np.int64)  # how many documents surely stand before the gold one
        self._best = np.full(len(gold), -np.inf)  # of every query, what the k-th score is at least
        self._firsts: list[tuple[Codes, Codes, Matrix]] = []  # row, document and score of what may be among them
        self._close: list[tuple[Codes, Codes]] = []  # row and document too close to the gold's score to tell

    def searched(self) -> tuple[Codes, Codes, Floats]:
        asked = np.flatnonzero((self._gold >= 0) & ~self._zero)
        goal = np.zeros(len(self._gold))
        goal[asked] = self._exact(asked, self._gold[asked])
        around = goal * self._queries.norm
        low, high = ((around + sign * self._slack).astype(self._docs.matrix.dtype) for sign in (-1, 1))
        self._look_at_all(low, high)
        above = self._above + self._settled(goal)
        ranks = self._gold + 1  # of a query without direction, which scores 0 everywhere: document order
        ranks[asked] = 1 + above[asked]
        return ranks, *self._ordered()

    def _look_at_all(self, low: Matrix, high: Matrix) -> None:
        """Look at every tile, one while the next is multiplied."""
        with ThreadPoolExecutor(1) as other:
            looking = None
            for start, tile in self._tiles():
                if looking is not None:
                    looking.result()
                looking = other.submit(self._look_at, start, tile, low, high)
            if looking is not None:
                looking.result()

    def _look_at(self, start: int, tile: Matrix, low: Matrix, high: Matrix) -> None:
        if self._has_gold:
            self._above += kernels.above(tile, high)
            rows, columns = kernels.between(tile, low, high)
            self._close.append((rows, start + columns))
        if self._k:
            self._note_firsts(tile, start)

    def _tiles(self) -> Iterator[tuple[int, Matrix]]:
        """Products of the queries with some documents each, divided by the documents' lengths.

        Two tiles exist at a time: the one before may still be looked at.
        """
        docs = self._docs
        inverse = np.divide(1, docs.norm, out=np.zeros_like(docs.norm), where=docs.norm > 0)
        is_unit = bool((np.abs(docs.norm - 1) < 1e-6).all()) and docs.norm.dtype == np.float32
        width = min(_COLUMNS, len(docs.matrix))
        buffers = [np.empty((len(self._gold), width), docs.matrix.dtype) for _ in range(2)]
        for turn, start in enumerate(range(0, len(docs.matrix), _COLUMNS)):
            part = docs.matrix[start : start + _COLUMNS]
            tile = buffers[turn % 2] if len(part) == width else np.empty((len(self._gold), len(part)), part.dtype)
            np.matmul(self._queries.matrix, part.T, out=tile)
            if not is_unit:
                tile *= inverse[start : start + _COLUMNS]
            yield start, tile

    def _settled(self, goal: Floats) -> Codes:
        """How many of the documents too close to tell stand before each query's gold document."""
        if not self._close:
            return np.zeros(len(goal), np.int64)
        rows, columns = (np.concatenate(parts) for parts in zip(*self._close, strict=True))
        meant = (self._gold[rows] >= 0) & ~self._zero[rows]
        rows, columns = rows[meant], columns[meant]
        score = self._exact(rows, columns)
        before = (score > goal[rows]) | ((score == goal[rows]) & (columns < self._gold[rows]))
        return np.bincount(rows[before], minlength=len(goal))

    def _note_firsts(self, tile: Matrix, start: int) -> None:
        """Note the documents of a tile that may be among the first k."""
        rows = np.flatnonzero(tile.max(axis=1) >= self._best - 2 * self._slack)
        if not len(rows):
            return
        part, k = tile[rows], min(self._k, tile.shape[1])
        floor = kernels.kth_largest(part, k)
        if k == self._k:
            self._best[rows] = np.maximum(self._best[rows], floor)
        self._note_all(part, rows, start, np.maximum(floor, self._best[rows]) if k == self._k else floor)

    def _note_all(self, tile: Matrix, rows: Codes, start: int, floor: Matrix) -> None:
        """Note every document of these rows whose score is at least the floor, or too close to tell."""
        low = (floor - 2 * self._slack[rows]).astype(tile.dtype)
        row, column = kernels.between(tile, low, np.full_like(low, np.inf))
        self._firsts.append((rows[row], start + column, tile[row, column]))

    def _ordered(self) -> tuple[Codes, Floats]:
        """The first k of what was noted, by exact score and document order."""
        size = len(self._gold)
        top, scores = np.full((size, self._k), -1), np.full((size, self._k), np.nan)
        if not self._k:
            return top, scores
        row, column, near = (np.concatenate(parts) for parts in zip(*self._firsts, strict=True))
        order = np.lexsort((-near, row))
        row, column, near = row[order], column[order], near[order]
        first = np.searchsorted(row, np.arange(size))
        kth = near[np.minimum(first + self._k - 1, len(near) - 1)]
        kept = near >= (kth - 2 * self._slack)[row]
        row, column = row[kept], column[kept]
        score = self._exact(row, column)
        order = np.lexsort((column, -score, row))
        row, column, score = row[order], column[order], score[order]
        place = np.arange(len(row)) - np.searchsorted(row, row)
        inside = place < self._k
        top[row[inside], place[inside]] = column[inside]
        scores[row[inside], place[inside]] = score[inside]
        top[self._zero], scores[self._zero] = np.arange(self._k), 0.0
        return top, scores

    def _exact(self, rows: Codes, columns: Codes) -> Floats:
        """Cosines of pairs, the same wherever they stand."""
        found = np.empty(len(rows))
        for start in range(0, len(rows), _PAIRS):
            part = slice(start, start + _PAIRS)
            found[part] = cosines(self._queries.matrix[rows[part]], self._docs.matrix[columns[part]])
        return found


def _slack(dimension: int, kind: np.dtype[Any]) -> float:
    """How far a cosine from a tile may be from the exact one, lengths included.

    A sum of d products rounds d times. Compiled products add in four lanes or more, so errors of one sign stay below
    d/4 roundings; errors of either sign grow like √d, and six times that is beyond chance.
    """
    rounding = float(np.finfo(kind).eps) / 2
    return rounding * (2 * dimension + 16 if kind == np.float64 else max(6 * dimension**0.5, dimension / 4) + 16)
