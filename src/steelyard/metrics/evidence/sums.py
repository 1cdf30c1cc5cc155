"""Evidence: what a metric adds up, per cluster, and what those sums become under other weights.

Every kind of evidence answers the same few calls. `under(draw)` gives a *reading*: the sums of each resample in the
draw, which a metric's finish turns into values. A bootstrap, a jackknife, a slice, a paired comparison and a merge of
partitions are all the same evidence under other weights.

`Sums` is the usual kind: terms added up per cluster and key. `combined.py` has those that hold other evidence or whole
columns, `sorted_rows.py` those that stand in an order. All of them are plain data: what they mean, the metric knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from steelyard.ground import compiling
from steelyard.ground.arrays import Codes, Floats, Mask
from steelyard.metrics.evidence import passes
from steelyard.metrics.evidence.clusters import Merger, left_out, spread
from steelyard.metrics.evidence.codec import kind
from steelyard.metrics.evidence.keys import distinct_keys, keyless, merged_keys, midranks
from steelyard.records.clusters import Clusters
from steelyard.records.labels import Labels

_DENSE_CELLS = 20_000_000
_FULL_SHARE = 0.05  # of the cells that must hold something: a product with fewer is cheaper one by one
_ANY_SHARE = 200_000  # cells up to which it does not matter
_COMPILED_ROWS = 2_000_000  # from here one compiled pass beats one pass per term


class Draw:
    """A block of resamples: one row of cluster weights each. Evidence shared by several metrics is read once."""

    def __init__(self, weights: npt.NDArray[Any]) -> None:
        self.weights = weights  # whole numbers or floats
        self._readings: dict[int, tuple[Evidence, Any]] = {}

    def read(self, evidence: Evidence) -> Any:
        key = id(evidence)
        if key not in self._readings:
            self._readings[key] = (evidence, evidence.under(self))
        return self._readings[key][1]

    @cached_property
    def floats(self) -> Floats:
        """The weights as floats."""
        return self.weights.astype(np.float64, copy=False)


class Evidence(Protocol):
    """What a metric has collected from one table."""

    @property
    def ids(self) -> Clusters: ...

    @property
    def rows(self) -> Codes: ...  # included rows per cluster

    @property
    def excluded(self) -> Mapping[str, int]: ...

    @property
    def width(self) -> int: ...  # numbers that the reading of a resample holds, to plan memory

    def under(self, draw: Draw) -> Any: ...

    def on(self, ids: Clusters, place: Codes) -> Any: ...  # the same on a longer list, where its clusters have places

    def merge(self, other: Any, merger: Merger) -> Any: ...  # that of two sides, on the clusters of both

    def among(self, clusters: Codes) -> Any: ...  # the same evidence with some clusters only

    def differs(self, other: Any) -> Mask: ...  # the clusters that are not alike, on one list of them

    def stacked(self, other: Any) -> Any: ...  # both, each with clusters of its own: (0, c) here, (1, c) there


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a metric adds up for each row, and under which key."""

    values: Mapping[str, Any]
    by: tuple[Any, ...] = ()
    left_out: Mapping[str, Any] = field(default_factory=dict)  # rows outside the metric's own denominator, by reason
    missing: Mapping[str, Any] = field(default_factory=dict)  # rows that lack a value, by reason
    score: bool = False  # the value is total over n: no finish is needed
    explained: Sequence[Any] = ()  # how the score of every row came about, where the metric can say so

    def collect(self, ids: Clusters, cluster: Codes) -> tuple[Sums, Mask]:
        """The sums per cluster, and which rows were included."""
        return Sums.collect(self, ids, cluster)


def sums(
    *,
    by: Any = None,
    left_out: Mapping[str, Any] | None = None,
    missing: Mapping[str, Any] | None = None,
    explained: Sequence[Any] = (),
    **values: Any,
) -> Terms:
    """Say what to add up per row: one array or constant per name, optionally under the key(s) `by`.

    A NaN in any term or a null key leaves the row out as lacking a value, and counts it. `left_out` names rows that are
    outside the metric's own denominator, `missing` further rows that lack a value, each with its reason. In a
    comparison a row that lacks a value in one run leaves both.

    >>> sums(off=[0.0, 2.0], size=[1.0, 4.0]).values
    {'off': [0.0, 2.0], 'size': [1.0, 4.0]}
    """
    keys = () if by is None else by if isinstance(by, tuple) else (by,)
    parts = tuple(part if isinstance(part, Labels) else np.asarray(part) for part in keys)
    return Terms(values=values, by=parts, left_out=left_out or {}, missing=missing or {}, explained=explained)


def row_score(
    values: Any,
    *,
    left_out: Mapping[str, Any] | None = None,
    missing: Mapping[str, Any] | None = None,
    explained: Sequence[Any] = (),
    **more: Any,
) -> Terms:
    """One score per row, averaged; `more` are sums next to it, `explained` is how each score came about.

    >>> row_score([1.0, 0.0]).values
    {'total': [1.0, 0.0], 'n': 1}
    """
    terms = {"total": values, "n": 1, **more}
    return Terms(values=terms, left_out=left_out or {}, missing=missing or {}, score=True, explained=explained)


class Cells:
    """A reading of `Sums`: `s.total` has shape (resamples,), or (resamples, keys) where the terms were keyed.

    `s.key(0)` are the values of the first key column, aligned with the last axis. What needs every cluster's own sums
    (such as squares) takes them from `s.each`, one row per cluster, and adds up under the same weights: `s.added(x)`.
    """

    def __init__(
        self,
        sums_: Mapping[str, Floats],
        keys: tuple[npt.NDArray[Any], ...],
        *,
        score: bool = False,
        each: Callable[[], Cells] | None = None,
        added: Callable[[Floats], Floats] | None = None,
    ) -> None:
        self._sums, self._keys, self.is_score = sums_, keys, score
        self._each, self._added = each, added

    @property
    def each(self) -> Cells:
        """The same sums in every single cluster."""
        assert self._each is not None
        return self._each()

    def added(self, values: Any) -> Floats:
        """Numbers of the clusters, added up under the weights of each resample."""
        assert self._added is not None
        return self._added(np.asarray(values, np.float64))

    def __getattr__(self, name: str) -> Floats:
        try:
            return self._sums[name]
        except KeyError:
            raise AttributeError(name) from None

    def key(self, part: int = 0) -> npt.NDArray[Any]:
        return self._keys[part]


@kind("Sums", "names keys ids cells rows excluded is_score binary")
@dataclass(frozen=True, kw_only=True)
class Sums:
    """One row per cluster, one column per (key, term)."""

    names: tuple[str, ...]
    keys: tuple[npt.NDArray[Any], ...]
    ids: Clusters
    cells: Any  # (clusters, keys * terms), dense or CSR
    rows: Codes
    excluded: Mapping[str, int] = field(default_factory=dict)
    is_score: bool = False  # the value is total over n: its spread between clusters is known without resampling
    binary: bool = False  # every row score was 0 or 1

    @property
    def width(self) -> int:
        return int(self.cells.shape[1])

    @classmethod
    def collect(cls, terms: Terms, ids: Clusters, cluster: Codes) -> tuple[Sums, Mask]:
        """The sums, and which rows were included."""
        size = len(cluster)
        values = {n: np.broadcast_to(np.asarray(v, np.float64), (size,)) for n, v in terms.values.items()}
        kept = np.ones(size, bool)
        for rows in (*terms.left_out.values(), *terms.missing.values()):
            kept &= ~np.asarray(rows, bool)
        for value in values.values():
            if value.strides != (0,) or np.isnan(value[:1]).any():
                kept &= ~np.isnan(value)
        for part in terms.by:
            kept &= ~keyless(part)
        whole = bool(kept.all())
        if not whole:
            values = {name: value[kept] for name, value in values.items()}
            cluster = cluster[kept]
        keys, key = distinct_keys([part if whole else part[kept] for part in terms.by], len(cluster))
        counts = np.bincount(cluster, minlength=len(ids)).astype(np.int64)
        cells = _cells(list(values.values()), cluster, key, len(ids), len(keys[0]) if keys else 1)
        scores = values["total"] if terms.score else np.array([np.nan])
        binary = bool(((scores == 0.0) | (scores == 1.0)).all())
        evidence = cls(
            names=tuple(values), keys=keys, ids=ids, cells=cells, rows=counts, is_score=terms.score, binary=binary
        )
        return evidence, kept

    def under(self, draw: Draw) -> Cells:
        return self._reading(np.asarray(draw.floats @ self.cells), lambda values: draw.floats @ values)

    @cached_property
    def each(self) -> Cells:
        """The sums of every single cluster, read like resamples."""
        return self._reading(self.cells if isinstance(self.cells, np.ndarray) else self.cells.toarray(), None)

    def without(self, blocks: Codes, first: int, last: int) -> Cells:
        """The readings with block `first`, …, `last - 1` left out, one at a time."""
        inside = (blocks >= first) & (blocks < last)

        def rest(values: Any) -> Floats:
            left = np.zeros((last - first, *values.shape[1:]))
            part = values[inside]
            np.add.at(left, blocks[inside] - first, part if isinstance(part, np.ndarray) else part.toarray())
            return np.asarray(np.asarray(values.sum(axis=0))[None] - left)

        return self._reading(rest(self.cells), rest)

    def _reading(self, flat: Floats, added: Callable[[Floats], Floats] | None) -> Cells:
        split = np.moveaxis(flat.reshape(len(flat), flat.shape[1] // len(self.names), len(self.names)), -1, 0)
        values = dict(zip(self.names, split if self.keys else split[..., 0], strict=True))
        return Cells(values, self.keys, score=self.is_score, each=lambda: self.each, added=added)

    def on(self, ids: Clusters, place: Codes) -> Sums:
        if isinstance(self.cells, np.ndarray):
            cells: Any = spread(self.cells, place, len(ids))
        else:
            cells = _summed([self.cells], [place], (len(ids), self.width))
        return replace(self, ids=ids, cells=cells, rows=spread(self.rows, place, len(ids)))

    def among(self, clusters: Codes) -> Sums:
        return replace(self, ids=self.ids.at(clusters), cells=self.cells[clusters], rows=self.rows[clusters])

    def differs(self, other: Sums) -> Mask:
        keys, mine, theirs = merged_keys(self.keys, other.keys)
        width = (len(keys[0]) if keys else 1) * len(self.names)
        different = _wide(self, mine, width) != _wide(other, theirs, width)
        unlike = (
            different.any(1) if isinstance(different, np.ndarray) else np.asarray(different.sum(axis=1)).ravel() > 0
        )
        return np.asarray((self.rows != other.rows) | unlike)

    def merge(self, other: Sums, merger: Merger) -> Sums:
        keys, mine, theirs = merged_keys(self.keys, other.keys)
        rows, terms = merger.added(self.rows, other.rows), len(self.names)
        size = len(keys[0]) if keys else 1
        wide = [_wide(sums_, place, size * terms) for sums_, place in ((self, mine), (other, theirs))]
        if _dense(int(rows.sum()) * terms, len(rows), size, terms):
            cells: Any = merger.added(*(c if isinstance(c, np.ndarray) else c.toarray() for c in wide))
        else:
            cells = _summed(wide, [merger.mine, merger.theirs], (len(rows), size * terms))
        excluded = left_out(self.excluded, other.excluded)
        binary = self.binary and other.binary
        return replace(self, keys=keys, ids=merger.ids, cells=cells, rows=rows, excluded=excluded, binary=binary)

    def stacked(self, other: Sums) -> Sums:
        keys, mine, theirs = merged_keys(self.keys, other.keys)
        width = (len(keys[0]) if keys else 1) * len(self.names)
        ids = self.ids.stacked(other.ids)
        cells = _joined_cells(_wide(self, mine, width), _wide(other, theirs, width))
        rows = np.concatenate([self.rows, other.rows])
        binary = self.binary and other.binary
        return replace(self, keys=keys, ids=ids, cells=cells, rows=rows, excluded={}, binary=binary)

    def by_rank(self) -> Sums:
        """Sums under a pair of numbers: the second replaced by its midrank among all rows, over their number."""
        counts = np.asarray(self.cells.sum(axis=0)).reshape(1, -1)[:, :: len(self.names)]
        scores = np.asarray(self.keys[-1], np.float64)
        ranks = midranks(scores, counts)[0] / max(float(counts.sum()), 1.0)
        return replace(self, keys=(*self.keys[:-1], ranks))


def _wide(sums_: Sums, place: Codes, width: int) -> Any:
    """The cells with every key at its place in a longer list of keys."""
    terms = len(sums_.names)
    column = (place[:, None] * terms + np.arange(terms)).ravel()
    if isinstance(sums_.cells, np.ndarray):
        if len(column) == width and (column == np.arange(width)).all():
            return sums_.cells
        wide = np.zeros((len(sums_.ids), width))
        wide[:, column] = sums_.cells
        return wide
    from scipy import sparse

    coo = sums_.cells.tocoo()
    return sparse.coo_array((coo.data, (coo.row, column[coo.col])), shape=(len(sums_.ids), width)).tocsr()


def _summed(parts: Sequence[Any], places: Sequence[Codes], shape: tuple[int, int]) -> Any:
    """Cells of several lists of clusters, added up as sparse cells of a longer one."""
    from scipy import sparse

    coo = [sparse.coo_array(cells) for cells in parts]
    row = np.concatenate([place[part.row] for place, part in zip(places, coo, strict=True)])
    data, column = (np.concatenate([getattr(part, name) for part in coo]) for name in ("data", "col"))
    return sparse.coo_array((data, (row, column)), shape=shape).tocsr()


def _joined_cells(mine: Any, theirs: Any) -> Any:
    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
        return np.concatenate([mine, theirs])
    from scipy import sparse

    return sparse.vstack([sparse.csr_array(mine), sparse.csr_array(theirs)]).tocsr()


def _dense(numbers: int, clusters: int, keys: int, terms: int) -> bool:
    """True if the cells are few, or not nearly empty as those of very many keys are."""
    cells = clusters * keys * terms
    return keys == 1 or cells <= _ANY_SHARE or (cells <= _DENSE_CELLS and numbers >= _FULL_SHARE * cells)


def _cells(values: list[Floats], cluster: Codes, key: Codes, clusters: int, keys: int) -> Any:
    terms = len(values)
    if _dense(len(cluster) * terms, clusters, keys, terms):
        flat = cluster * keys + key if clusters > 1 else key
        compiled = len(cluster) >= _COMPILED_ROWS and compiling.available()
        dense = np.empty((clusters, keys, terms))
        for i, value in enumerate(values):
            if value.strides == (0,) and len(value):
                totals = np.bincount(flat, minlength=clusters * keys) * value[0]
            elif compiled:
                totals = passes.summed(flat, value, clusters * keys)
            else:
                totals = np.bincount(flat, weights=value, minlength=clusters * keys)
            dense[..., i] = totals.reshape(clusters, keys)
        return dense.reshape(clusters, keys * terms)
    from scipy import sparse

    row = np.tile(cluster, terms)
    column = np.concatenate([key * terms + i for i in range(terms)])
    shape = (clusters, keys * terms)
    return sparse.coo_array((np.concatenate(values), (row, column)), shape=shape).tocsr()
