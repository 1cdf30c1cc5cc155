"""Shifts of query embeddings: what they are, how they are applied, and how one is learned from mistakes.

Three kinds stand behind one small port. `none` leaves queries as they are, `additive` adds scale · vector, and
`multiplicative` multiplies dimension by dimension. Documents are never shifted and nothing is normalised again.

`train_shift` learns an additive one: for every query whose relevant document is not first, the directions from the
first wrong documents to the right one; their mean is the shift.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError, UsageError
from steelyard.registry import Registry
from steelyard.retrieval.search import Codes, Floats, Matrix, search
from steelyard.retrieval.shifts.kept import TrainingStats

ZERO_DIRECTION = 1e-18  # squared length up to which two documents are the same place
SUSPICIOUS_NORM = 1e-3  # of a mean over pairs: its directions may have cancelled out
_PAIRS = 1 << 14  # directions looked at together


class Shift(Protocol):
    """Something that moves queries."""

    @property
    def kind(self) -> str: ...

    @property
    def dimension(self) -> int | None: ...  # None: any

    def applied(self, queries: Matrix) -> Matrix: ...


@dataclass(frozen=True)
class NoShift:
    """Queries as they are."""

    kind: str = "none"
    dimension: int | None = None

    def applied(self, queries: Matrix) -> Matrix:
        return queries


@dataclass(frozen=True, eq=False)
class Additive:
    """q + scale · vector."""

    vector: Floats
    scale: float = 1.0
    kind: str = "additive"

    @property
    def dimension(self) -> int:
        return len(self.vector)

    def applied(self, queries: Matrix) -> Matrix:
        return queries + _as(self.scale * self.vector, queries)


@dataclass(frozen=True, eq=False)
class Multiplicative:
    """q · vector, dimension by dimension."""

    vector: Floats
    kind: str = "multiplicative"

    @property
    def dimension(self) -> int:
        return len(self.vector)

    def applied(self, queries: Matrix) -> Matrix:
        return queries * _as(self.vector, queries)


def _as(vector: Floats, queries: Matrix) -> Matrix:
    """The vector in the queries' precision; whole numbers have none."""
    return vector.astype(queries.dtype) if queries.dtype.kind == "f" else vector


def _none(vector: Any, scale: float) -> Shift:  # noqa: ARG001 - every kind is made alike
    if vector is not None:
        raise UsageError("the shift 'none' takes no vector")
    return NoShift()


def _additive(vector: Any, scale: float) -> Shift:
    return Additive(_vector(vector), scale)


def _multiplicative(vector: Any, scale: float) -> Shift:
    if scale != 1.0:
        raise UsageError("a multiplicative shift has no scale; it is applied as it is")
    return Multiplicative(_vector(vector))


shifts: Registry[Callable[[Any, float], Shift]] = Registry("shift")
shifts.add("none", _none, aliases=("identity",))
shifts.add("additive", _additive)
shifts.add("multiplicative", _multiplicative)


def shift_of(kind: str, vector: Any = None, *, scale: float = 1.0) -> Shift:
    """A shift of a registered kind."""
    if not np.isfinite(scale):
        raise UsageError("the scale of a shift is a finite number")
    return shifts[kind](vector, scale)


def applied(shift: Shift, queries: Matrix) -> Matrix:
    """The queries, shifted; an error where dimensions differ or numbers overflow."""
    if shift.dimension is not None and shift.dimension != queries.shape[1]:
        raise InputError(f"the shift has {shift.dimension} dimensions and the queries {queries.shape[1]}")
    with np.errstate(over="ignore", invalid="ignore"):
        moved = shift.applied(queries if queries.dtype.kind == "f" else queries.astype(np.float64))
    if not np.isfinite(moved).all():
        raise InputError("the shift moves queries beyond the largest number there is; give it a smaller scale")
    return moved


def _vector(vector: Any) -> Floats:
    array = np.asarray(vector, np.float64) if vector is not None else np.zeros(0)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise InputError("a shift's vector is a list of finite numbers")
    return array


# -- learning one ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class ShiftTraining:
    """A learned shift: where it points, how far, and whether there is anything in it."""

    delta: Floats
    norm: float
    cancelled: bool
    cancel_reason: str | None
    stats: TrainingStats

    @property
    def shift(self) -> Shift:
        """The shift to apply: none where training was cancelled."""
        return NoShift() if self.cancelled else Additive(self.delta)


def train_shift(
    queries: npt.ArrayLike,
    docs: npt.ArrayLike,
    gold: npt.ArrayLike,
    *,
    hard_negatives: int = 1,
    max_norm: float | None = 1.5,
    epsilon: float = 1e-3,
) -> ShiftTraining:
    """Learn an additive shift from the queries whose gold document is not first.

    gold            index of the relevant document, −1 where there is none
    hard_negatives  how many of the first other documents each such query pushes away from
    max_norm        the longest shift; None or 0 for no limit
    epsilon         a shift shorter than this is cancelled
    """
    check_options(max_norm, epsilon)
    return learned(mistakes(queries, docs, gold, hard_negatives), docs, max_norm=max_norm, epsilon=epsilon)


def check_options(max_norm: float | None, epsilon: float) -> None:
    """Refuse limits that are no limits."""
    if not np.isfinite(epsilon) or epsilon < 0:
        raise UsageError("epsilon is a finite number from 0")
    if max_norm is not None and (not np.isfinite(max_norm) or max_norm < 0):
        raise UsageError("the longest norm is a finite number above 0; 0 or none for no limit")


@dataclass(frozen=True, eq=False)
class Pairs:
    """A query, its right and a wrong document, and whether the two are the same place. One entry per pair."""

    query: Codes
    positive: Codes
    negative: Codes
    zero: npt.NDArray[np.bool_]

    def of(self, queries: npt.NDArray[np.bool_]) -> Pairs:
        """The pairs of some queries."""
        kept = queries[self.query]
        return Pairs(self.query[kept], self.positive[kept], self.negative[kept], self.zero[kept])


def learned(pairs: Pairs, docs: Any, *, max_norm: float | None, epsilon: float) -> ShiftTraining:
    """The mean direction of pairs, clipped, or cancelled where nothing is left of it."""
    documents = np.asarray(docs)
    used_positive, used_negative = pairs.positive[~pairs.zero], pairs.negative[~pairs.zero]
    total, norms = np.zeros(documents.shape[1]), np.zeros(len(used_positive))
    for part, direction in _directions(documents, used_positive, used_negative):
        total += direction.sum(axis=0)
        norms[part] = np.sqrt((direction * direction).sum(axis=1))
    before = total / max(len(norms), 1)
    length = float(np.sqrt((before * before).sum()))
    clipped = max_norm is not None and 0 < max_norm < length
    delta = before * (max_norm / length) if clipped and max_norm else before
    norm = float(np.sqrt((delta * delta).sum()))
    cancelled = norm < epsilon
    return ShiftTraining(
        delta=delta,
        norm=norm,
        cancelled=cancelled,
        cancel_reason=f"Delta norm {norm:.6f} below epsilon {epsilon:.6f}" if cancelled else None,
        stats=TrainingStats(
            pairs=len(norms),
            unique_pairs=len(set(zip(pairs.positive.tolist(), pairs.negative.tolist(), strict=True))),
            zero_directions=int(pairs.zero.sum()),
            clipped=clipped,
            norm_before_clip=length,
            direction_norm_min=float(norms.min()) if len(norms) else 0.0,
            direction_norm_mean=float(norms.mean()) if len(norms) else 0.0,
            direction_norm_max=float(norms.max(initial=0.0)),
            cancel_out_suspected=len(norms) > 0 and length <= SUSPICIOUS_NORM,
        ),
    )


def _directions(docs: Matrix, positive: Codes, negative: Codes) -> Iterator[tuple[slice, Floats]]:
    """From the wrong to the right document of every pair, some pairs at a time."""
    for start in range(0, len(positive), _PAIRS):
        part = slice(start, start + _PAIRS)
        yield part, docs[positive[part]].astype(np.float64) - docs[negative[part]].astype(np.float64)


def mistakes(queries: Any, docs: Any, gold: Any, hard_negatives: int) -> Pairs:
    """The pairs of every query whose right document is not first: with the first wrong ones from the top.

    A wrong document in the same place as the right one says nothing: the next in the ranking is taken instead.
    """
    queries, docs, gold = np.asarray(queries), np.asarray(docs), np.asarray(gold)
    wanted = max(hard_negatives, 1)
    ranks = search(queries, docs, gold).ranks
    open_ = np.flatnonzero(ranks > 1)
    depth = wanted + 1
    batches: list[tuple[Codes, Codes, Codes, npt.NDArray[np.bool_]]] = []
    while len(open_):
        top = search(queries[open_], docs, k=depth).top
        query, place = np.nonzero(top != gold[open_][:, None])
        negative, positive = top[query, place], gold[open_][query]
        zero = np.zeros(len(query), bool)
        for part, direction in _directions(docs, positive, negative):
            zero[part] = (direction * direction).sum(axis=1) <= ZERO_DIRECTION
        useful = np.cumsum(~zero)
        start = np.concatenate(([0], useful))[np.searchsorted(query, query)]
        before = useful - ~zero - start  # useful pairs of the same query that stand before this one
        counts = np.bincount(query[~zero], minlength=len(open_))
        done = (counts >= wanted) | (top.shape[1] >= len(docs))
        kept = done[query] & (before < wanted)
        batches.append((open_[query[kept]], positive[kept], negative[kept], zero[kept]))
        open_, depth = open_[~done], depth * 2
    if not batches:
        nothing = np.zeros(0, np.int64)
        return Pairs(nothing, nothing, nothing, np.zeros(0, bool))
    query, positive, negative, zero = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    order = np.argsort(query, kind="stable")
    return Pairs(query[order], positive[order], negative[order], zero[order])
