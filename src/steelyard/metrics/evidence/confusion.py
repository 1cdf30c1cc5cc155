"""Rows counted by target and prediction, read as hits, support and predictions per class."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from steelyard.ground.arrays import Codes, Floats, Mask
from steelyard.metrics.evidence.sums import Cells, Sums
from steelyard.records.labels import value_name

_SMALL_CHOICE = 10_000  # keys × labels up to which a matrix product adds up fastest


def confusion_counts(s: Cells, labels: tuple[Any, ...] | None) -> ConfusionCounts:
    """The counts of a reading, made once for all that asks for them."""
    kept = _COUNTED.setdefault(s, {})
    if labels not in kept:
        kept[labels] = ConfusionCounts(s, labels)
    return kept[labels]


_COUNTED: WeakKeyDictionary[Cells, dict[tuple[Any, ...] | None, ConfusionCounts]] = WeakKeyDictionary()


class ConfusionCounts:
    """Hits, support and predictions per class, (resamples, classes) each, over the given or the seen labels."""

    def __init__(self, s: Cells, labels: tuple[Any, ...] | None) -> None:
        truth, guess = s.key(0), s.key(1)
        self.fixed = labels is not None
        seen = labels if labels is not None else {*truth, *(g for g in guess if g is not None)}
        self.labels = tuple(labels) if labels is not None else tuple(sorted(seen))
        names = {value_name(label): i for i, label in enumerate(self.labels)}
        rows = np.array([names.get(value_name(t), -1) for t in truth], np.int64)
        columns = np.array([-1 if g is None else names.get(value_name(g), -1) for g in guess], np.int64)
        self.truth, self.guess, self.n = rows, columns, s.n
        self.silent = np.array([g is None for g in guess], bool)
        both = np.where(rows == columns, rows, -1)
        self.hits, self.support, self.predicted = (summed_by(s.n, at, len(self.labels)) for at in (both, rows, columns))

    @property
    def f1(self) -> Floats:
        both = self.support + self.predicted
        return np.where(both > 0, 2 * self.hits / np.where(both > 0, both, 1), 0.0)

    @property
    def counted(self) -> Mask:
        """Classes that enter an average: the fixed set, or those that occur."""
        return np.full_like(self.support, True, bool) if self.fixed else self.support + self.predicted > 0


def summed_by(n: Floats, place: Codes, size: int) -> Floats:
    """The columns of n added up by their place: (resamples, size). Place −1 is none.

    However many labels there are, every column is looked at once.
    """
    if size * len(place) <= _SMALL_CHOICE:
        return n @ (place[:, None] == np.arange(size)).astype(float)
    sums = np.zeros((size, len(n)))
    order = np.argsort(place, kind="stable")
    order = order[place[order] >= 0]
    if len(order):
        places, starts = np.unique(place[order], return_index=True)
        sums[places] = np.add.reduceat(n.T[order], starts, axis=0)
    return sums.T


def class_clusters(evidence: Sums, labels: tuple[Any, ...] | None) -> tuple[Mask, Floats, Mask]:
    """The clusters that hold each class (clusters × classes), its rows, and whether it occurs at all.

    A class stands on the clusters where it is the target; one that is only ever predicted, on those where it is said.
    """
    from scipy import sparse

    cells: Any = sparse.csr_array(evidence.cells).sign()
    truth, guess = ([None if v is None else value_name(v) for v in key.tolist()] for key in evidence.keys)
    met = {name for name in (*truth, *guess) if name is not None}
    names = list(map(value_name, labels)) if labels is not None else sorted(met)
    place = {name: i for i, name in enumerate(names)}
    sides = [np.array([-1 if n is None else place.get(n, -1) for n in side], np.int64) for side in (truth, guess)]
    holds = []
    for at in sides:
        inside = np.flatnonzero(at >= 0)
        pick = sparse.coo_array((np.ones(len(inside)), (inside, at[inside])), shape=(len(at), len(names)))
        holds.append(np.asarray((cells @ pick.tocsr()).toarray()) > 0)
    support = np.bincount(
        np.where(sides[0] >= 0, sides[0], len(names)),
        weights=np.asarray(evidence.cells.sum(axis=0)).ravel(),
        minlength=len(names) + 1,
    )[: len(names)].astype(np.float64)
    return np.where(support > 0, holds[0], holds[1]), support, np.asarray(holds[0].any(0) | holds[1].any(0))


def confusion_matrix(counts: ConfusionCounts, most: int) -> dict[str, Any]:
    """The counts of the data as they are, per class; the matrix itself only up to so many labels."""
    size = len(counts.labels)
    outside = (counts.guess < 0) & ~counts.silent
    matrix = None
    if size <= most:  # it grows with their square
        table = np.zeros((size + 1, size + 1), int)
        np.add.at(table, (counts.truth, counts.guess), counts.n[0].astype(int))
        matrix = table[:size, :size].tolist()
    unmet = [
        value_name(v)
        for v, up, n in zip(counts.labels, counts.support[0], counts.predicted[0], strict=True)
        if n and not up
    ]
    return {
        "labels": list(counts.labels),
        "confusion_matrix": matrix,
        "no_answer": _whole(summed_by(counts.n[:1], np.where(counts.silent, counts.truth, -1), size)),
        "outside_labels": _whole(summed_by(counts.n[:1], np.where(outside, counts.truth, -1), size)),
        **{name: _whole(getattr(counts, name)) for name in ("hits", "support", "predicted")},
        "predicted_but_never_a_target": unmet,
    }


def _whole(counts: Floats) -> list[int]:
    """The counts of the data as they are, a class each."""
    return list(map(int, counts[0]))
