"""Exact cosine search: the rank of the gold document and the first k, from the same tiles of one matrix product.

Scores are cosines, downwards; equal ones, to 1e-13, stand in document order. A zero vector has no direction: 0.

A matrix product is fast and good to some last bits, which depend on where a document stands in a tile: equal documents
may come out unequal. So a tile only sorts documents into above, below, and too close to tell; the last are scored again
one by one, all in the same order of operations. Ranks therefore do not depend on tiles, and equal documents tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError, counted
from steelyard.retrieval import kernels

Floats = npt.NDArray[np.float64]
Matrix = npt.NDArray[Any]  # float32 or float64
Codes = npt.NDArray[np.int64]

_ROWS, _COLUMNS = 1024, 16384  # of a tile: larger ones multiply faster, up to what is at hand in memory
_PAIRS = 1 << 14  # scored exactly at once
_NOTED = 1 << 21  # candidates for the first k that are held before they are settled
_WORTH_SHARING = 0.1  # of the documents that are copies: from here each vector is searched once
_UNIT = 1e-6  # up to here documents need not be divided by their lengths
_TIE = 1e-13  # between exact cosines: vectors that point the same way may differ by their rounding
_FINE = 1e-11  # beyond the rounding of a 64-bit sum, whatever its order


@dataclass(frozen=True, kw_only=True)
class Hits:
    """Of every query: the rank of its gold document (0 without one), the first k documents and their cosines.

    `top` is −1 and `scores` NaN where there are fewer than k documents.
    """

    ranks: Codes
    top: Codes
    scores: Floats
    zero_queries: int
    zero_documents: int


def gold_ranks(queries: npt.ArrayLike, docs: npt.ArrayLike, gold: npt.ArrayLike) -> Codes:
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
) -> Hits:
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
    zero_documents = int((other.norm == 0).sum())
    copies = _copies(other)
    if copies is not None:
        other = _Side(other.matrix[copies.first], other.norm[copies.first])
    ranks, top, scores = np.zeros(size, np.int64), np.full((size, k), -1), np.full((size, k), np.nan)
    for start in range(0, size, _ROWS):
        rows = slice(start, min(start + _ROWS, size))
        block = _Block(one.part(rows), other, wanted[rows], k, copies)
        ranks[rows], top[rows], scores[rows] = block.searched()
        if progress is not None:
            progress(rows.stop / size)
    return Hits(
        ranks=ranks, top=top, scores=scores, zero_queries=int((one.norm == 0).sum()), zero_documents=zero_documents
    )


def cosines(queries: Matrix, docs: Matrix) -> Floats:
    """The cosine of each query with the document in the same row; 0 where either is a zero vector.

    Sums run over a row in one fixed order, so equal vectors have equal cosines wherever they stand.
    """
    one, other = queries.astype(np.float64), docs.astype(np.float64)
    norms = np.sqrt((one * one).sum(axis=1)) * np.sqrt((other * other).sum(axis=1))
    ratios = np.divide((one * other).sum(axis=1), norms, out=np.zeros(len(one)), where=norms > 0)
    return np.clip(ratios, -1.0, 1.0)


@dataclass(frozen=True)
class _Side:
    """The vectors of one side, and their lengths to some last bits of 64."""

    matrix: Matrix
    norm: Floats

    def part(self, rows: slice) -> _Side:
        return _Side(self.matrix[rows], self.norm[rows])


def _prepared(name: str, vectors: Any) -> _Side:
    matrix = np.asarray(vectors)
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf" or not matrix.size:
        raise InputError(f"{name} are a matrix of numbers, one row a vector; this has shape {matrix.shape}")
    kept = matrix if matrix.dtype == np.float32 else matrix.astype(np.float64, copy=False)
    side = _side(kept)
    return side if _is_moderate(side) else _side(_moderate(name, kept))


def _side(matrix: Matrix) -> _Side:
    return _Side(matrix, kernels.lengths(matrix))


def _is_moderate(side: _Side) -> bool:
    """True if every length is 0 or can be multiplied with others, which a NaN or an overflow cannot."""
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
        raise InputError(f"gold is the index of a document for each of {counted(queries, 'query')}")
    wrong = (wanted < -1) | (wanted >= docs)
    if wrong.any():
        raise InputError(f"gold of query {int(np.argmax(wrong))} is no index of {counted(docs, 'document')}")
    return wanted.astype(np.int64)


@dataclass(frozen=True)
class _Copies:
    """Documents with the same vector, searched once. `docs` are the documents by vector, in order within each."""

    first: Codes  # the first document of each vector
    place: Codes  # of each document, its vector
    docs: Codes
    start: Codes  # of each vector, where its documents begin

    @property
    def counts(self) -> Codes:
        return np.diff(self.start, append=len(self.docs))

    def before(self, vectors: Codes, gold: Codes) -> Codes:
        """How many documents of these vectors stand before these documents."""
        size = len(self.docs)
        keys = np.repeat(np.arange(len(self.first)), self.counts) * size + self.docs
        return np.searchsorted(keys, vectors * size + gold) - self.start[vectors]

    def expanded(self, row: Codes, vectors: Codes, score: Floats, most: int) -> tuple[Codes, Codes, Floats]:
        """The documents of these vectors, the first of each and no more than could be asked for."""
        times = np.minimum(self.counts[vectors], most)
        offset = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        return np.repeat(row, times), self.docs[np.repeat(self.start[vectors], times) + offset], np.repeat(score, times)


def _copies(side: _Side) -> _Copies | None:
    """Which documents have the same vector; None where too few have to be worth it."""
    docs, lengths = side.matrix, np.sort(side.norm)
    if np.count_nonzero(lengths[1:] == lengths[:-1]) < _WORTH_SHARING * len(docs):
        return None  # equal vectors have equal lengths
    key = _hashes(docs)
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    if len(docs) - len(first) < _WORTH_SHARING * len(docs) or not (docs == docs[first[place]]).all():
        return None
    order = np.argsort(first)  # vectors in the order of their first documents
    renamed = np.empty(len(first), np.int64)
    renamed[order] = np.arange(len(first))
    place = renamed[place]
    grouped = np.argsort(place, kind="stable")
    return _Copies(first[order], place, grouped, np.searchsorted(place[grouped], np.arange(len(first))))


def _hashes(rows: Matrix) -> npt.NDArray[np.uint64]:
    """A number for each row; equal rows have equal ones."""
    bits = (np.ascontiguousarray(rows) + 0.0).view(np.uint32 if rows.dtype == np.float32 else np.uint64)
    odd = np.frombuffer(np.random.default_rng(0).bytes(8 * bits.shape[1]), np.uint64) | np.uint64(1)
    hashes = np.zeros(len(bits), np.uint64)
    for j in range(bits.shape[1]):
        hashes += bits[:, j] * odd[j]
        hashes ^= hashes >> np.uint64(29)
        hashes *= np.uint64(0xBF58476D1CE4E5B9)
    return hashes


class _Block:
    """Some queries against all documents, tile by tile."""

    def __init__(self, queries: _Side, docs: _Side, gold: Codes, k: int, copies: _Copies | None) -> None:
        self._queries, self._docs, self._gold, self._k, self._copies = queries, docs, gold, k, copies
        unevenness = float(np.abs(docs.norm - 1).max())
        self._is_unit = unevenness < _UNIT
        self._slack = (_slack(queries.matrix) + (unevenness if self._is_unit else 0.0)) * queries.norm
        self._zero = queries.norm == 0
        self._asked = (gold >= 0) & ~self._zero
        self._goal = np.zeros(len(gold))  # the gold document's score
        self._above = np.zeros(len(gold), np.int64)  # how many documents stand before it
        self._best = np.where(self._zero, np.inf, -np.inf)  # of every query, what the k-th score is at least
        self._noted: list[tuple[Codes, Codes, Floats]] = []  # row, document, score of what may be among the first k
        self._near, self._first = _Firsts(len(gold), k), _Firsts(len(gold), k)  # by tiles, and exactly

    def searched(self) -> tuple[Codes, Codes, Floats]:
        asked = np.flatnonzero(self._asked)
        wanted = self._gold[asked]
        self._goal[asked] = self._exact(asked, wanted if self._copies is None else self._copies.place[wanted])
        around = self._goal * self._queries.norm
        kind = self._docs.matrix.dtype
        low, high = (np.where(self._asked, around + sign * self._slack, np.inf).astype(kind) for sign in (-1, 1))
        for start, tile in self._tiles():
            self._look_at(start, tile, low, high)
        self._settle_firsts()
        ranks = self._gold + 1  # of a query without direction, which scores 0 everywhere: document order
        ranks[asked] = 1 + self._above[asked]
        top, scores = self._first.top, self._first.scores
        top[self._zero], scores[self._zero] = np.arange(self._k), 0.0
        return ranks, top, scores

    def _tiles(self) -> Iterator[tuple[int, Matrix]]:
        """Products of the queries with some documents each, divided by the documents' lengths."""
        docs = self._docs
        inverse = np.divide(1, docs.norm, out=np.zeros_like(docs.norm), where=docs.norm > 0).astype(docs.matrix.dtype)
        width = min(_COLUMNS, len(docs.matrix))
        buffer = np.empty((len(self._gold), width), docs.matrix.dtype)
        for start in range(0, len(docs.matrix), _COLUMNS):
            part = docs.matrix[start : start + _COLUMNS]
            tile = buffer if len(part) == width else np.empty((len(self._gold), len(part)), part.dtype)
            np.matmul(self._queries.matrix, part.T, out=tile)
            if not self._is_unit:
                tile *= inverse[start : start + _COLUMNS]
            yield start, tile

    def _look_at(self, start: int, tile: Matrix, low: Matrix, high: Matrix) -> None:
        if self._asked.any():
            above, rows, columns = kernels.sides(tile, low, high)
            if self._copies is not None:
                times = self._copies.counts[start : start + tile.shape[1]].astype(np.float64)
                above = ((tile > high[:, None]) @ times).astype(np.int64)
            self._above += above + self._before(rows, start + columns)
        if self._k:
            self._note_firsts(tile, start)

    def _before(self, rows: Codes, columns: Codes) -> Codes:
        """How many of these documents, too close to tell in a tile, stand before each query's gold document."""
        goal = self._goal[rows]
        score = self._fine(rows, columns)
        close = np.flatnonzero(np.abs(score - goal) <= _FINE)
        score[close] = self._exact(rows[close], columns[close])
        gold, ties = self._gold[rows], np.abs(score - goal) <= _TIE
        if self._copies is None:
            before = np.where(ties, columns < gold, score > goal)
        else:
            above = np.where(score > goal, self._copies.counts[columns], 0)
            before = np.where(ties, self._copies.before(columns, gold), above)
        return np.bincount(rows, before, minlength=len(self._gold)).astype(np.int64)

    def _note_firsts(self, tile: Matrix, start: int) -> None:
        """Note the documents of a tile that may be among the first k."""
        if start == 0 and self._k <= tile.shape[1]:  # nothing is known yet: else all of it would be noted
            self._best = np.maximum(self._best, kernels.kth_largest(tile, self._k))
        low = (self._best - 2 * self._slack).astype(tile.dtype)
        _, row, column = kernels.sides(tile, low, np.where(self._zero, -np.inf, np.inf).astype(tile.dtype))
        score = tile[row, column].astype(np.float64)
        self._noted.append((row, start + column, score))
        self._near.add(row, start + column, score)
        self._best = np.fmax(self._best, self._near.scores[:, -1])  # NaN: fewer than k so far
        if sum(len(row) for row, _, _ in self._noted) > _NOTED:
            self._settle_firsts()

    def _settle_firsts(self) -> None:
        """Score what was noted exactly, and keep the first k."""
        if not self._noted:
            return
        row, column, near = (np.concatenate(parts) for parts in zip(*self._noted, strict=True))
        self._noted = []
        kept = near >= (self._best - 2 * self._slack)[row]
        row, column = row[kept], column[kept]
        near = self._fine(row, column)
        kept = near >= _kth(row, near, len(self._gold), self._k)[row] - _FINE
        row, column = row[kept], column[kept]
        score = self._exact(row, column)
        if self._copies is not None:
            row, column, score = self._copies.expanded(row, column, score, self._k)
        self._first.add(row, column, score)

    def _fine(self, rows: Codes, columns: Codes) -> Floats:
        """Cosines of pairs to some last bits of 64."""
        lengths = self._queries.norm[rows] * self._docs.norm[columns]
        dots = kernels.dots(self._queries.matrix, self._docs.matrix, rows, columns)
        return np.divide(dots, lengths, out=np.zeros(len(rows)), where=lengths > 0)

    def _exact(self, rows: Codes, columns: Codes) -> Floats:
        """Cosines of pairs, the same wherever they stand."""
        values = np.empty(len(rows))
        for start in range(0, len(rows), _PAIRS):
            part = slice(start, start + _PAIRS)
            values[part] = cosines(self._queries.matrix[rows[part]], self._docs.matrix[columns[part]])
        return values


class _Firsts:
    """The first k documents of every query so far: by score downwards, equal ones in document order."""

    def __init__(self, queries: int, k: int) -> None:
        self.top = np.full((queries, k), -1)
        self.scores = np.full((queries, k), np.nan)

    def add(self, row: Codes, column: Codes, score: Floats) -> None:
        """Let further documents compete."""
        place_row, place = np.nonzero(self.top >= 0)
        row = np.concatenate((place_row, row))
        column = np.concatenate((self.top[place_row, place], column))
        score = np.concatenate((self.scores[place_row, place], score))
        order = np.lexsort((column, -score, row))
        row, column, score = row[order], column[order], score[order]
        apart = np.ones(len(row), bool)
        apart[1:] = (row[1:] != row[:-1]) | (score[:-1] - score[1:] > _TIE)
        order = np.lexsort((column, np.cumsum(apart)))  # those that tie, in document order
        row, column, score = row[order], column[order], score[order]
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        inside = rank < self.top.shape[1]
        self.top[row[inside], rank[inside]] = column[inside]
        self.scores[row[inside], rank[inside]] = score[inside]


def _kth(row: Codes, score: Floats, rows: int, k: int) -> Floats:
    """The k-th score of every row; −∞ where it has fewer."""
    order = np.lexsort((-score, row))
    first, last = (
        np.searchsorted(row[order], np.arange(rows)),
        np.searchsorted(row[order], np.arange(rows), side="right"),
    )
    scores = np.full(rows, -np.inf)
    enough = last - first >= k
    scores[enough] = score[order][first[enough] + k - 1]
    return scores


def _slack(queries: Matrix) -> float:
    """How far a cosine from a tile may be from one that ties with the exact one: a sum of d products rounds d times."""
    return float(np.finfo(queries.dtype).eps) / 2 * (queries.shape[1] + 16) + _TIE
