"""A side: one table's clusters, and the evidence of every metric on it.

An evaluation has one side, a comparison two. A `Collector` is the side of a table that is at hand; what a run kept of
its table is another. The collector keeps what it has collected, so that metrics that read the same sums share them.
`United` is two sides as one. `side_of` says which a table has: one that came from several files is collected file by
file, and merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from steelyard.ground.arrays import Codes, Mask
from steelyard.metrics.evidence.clusters import WHOLE, Merger, added
from steelyard.metrics.evidence.sums import Draw, Evidence
from steelyard.metrics.options import Constants
from steelyard.metrics.vocabulary import Population
from steelyard.records.clusters import Clusters
from steelyard.records.derive import ANSWERED, FAILED
from steelyard.records.table import Records

if TYPE_CHECKING:
    from steelyard.metrics.metric import Metric

_MOST_SIDES = 32  # of more files, several are collected together: a side costs as much as some hundred rows


class Side(Protocol):
    """One table, as estimates and deltas read it: its clusters, and what every metric collected from them."""

    @property
    def ids(self) -> Clusters: ...

    @property
    def unit(self) -> Draw: ...  # every cluster once: the data as they are

    @property
    def counts(self) -> Mapping[str, int]: ...  # rows by outcome

    def constants(self, metric: Metric) -> Constants: ...  # of this table alone

    def evidence(self, metric: Metric, constants: Constants) -> Evidence: ...

    def missing_rows(self, metric: Metric, constants: Constants) -> int: ...  # that lack a value the metric reads


class Collector:
    """One table's clusters and populations, and the evidence already collected from it."""

    def __init__(self, records: Records, *, ids: Any = None, cluster: Any = None, rows: Any = None) -> None:
        self.records = records
        if ids is None:
            ids, cluster = records.cluster
        self.ids, self.cluster = ids, cluster
        self.rows = np.arange(len(records)) if rows is None else rows  # where its rows stand in the table it is part of
        self._populations: dict[str, Mask | None] = {}
        self._evidence: dict[tuple[Any, ...], Evidence] = {}
        self._missing: dict[tuple[Any, ...], Mask | None] = {}
        self._within: dict[bytes, Collector] = {}

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many rows have each outcome."""
        return self.records.counts()

    @cached_property
    def unit(self) -> Draw:
        """Every cluster once: the data as they are."""
        return Draw(np.ones((1, len(self.ids))))

    @classmethod
    def whole(cls, records: Records) -> Collector:
        """Everything in one cluster: enough for the value alone, and the cheapest way to it."""
        return cls(records, ids=WHOLE, cluster=np.zeros(len(records), np.int64))

    def population(self, rows: Population) -> Mask | None:
        """A mask of the rows in a population; None if that is all."""
        if rows not in self._populations:
            outcome = self.records.outcome
            mask = outcome == ANSWERED if rows == "answered" else outcome != FAILED if rows == "asked" else None
            self._populations[rows] = None if mask is None or mask.all() else mask
        return self._populations[rows]

    def within(self, rows: Mask) -> Collector:
        """The same clusters, fewer rows; made once, so that metrics share what is collected from them."""
        key = rows.tobytes()
        if key not in self._within:
            self._within[key] = Collector(
                self.records.take(rows), ids=self.ids, cluster=self.cluster[rows], rows=np.flatnonzero(rows)
            )
        return self._within[key]

    def on(self, records: Records) -> Collector:
        """The same clusters and rows with other columns."""
        return Collector(records, ids=self.ids, cluster=self.cluster, rows=self.rows)

    def summaries(self, metric: Metric) -> list[Any]:
        """What this table says that constants are made from."""
        return [metric.summary(self.records)]

    def constants(self, metric: Metric) -> Constants:
        """What the metric must know of this table as a whole."""
        return metric.merged(self.summaries(metric))

    def missing(self, metric: Metric, constants: Constants) -> Mask:
        """The rows that the metric cannot count because they lack a value that it reads."""
        return metric.definition.source.missing(metric, constants, self)

    def missing_rows(self, metric: Metric, constants: Constants) -> int:
        """How many rows lack a value that the metric reads."""
        return int(self.missing(metric, constants).sum())

    def note_missing(self, key: tuple[Any, ...], inside: Mask | None, lacking: Mask | None) -> None:
        """Remember which rows of a population lack a value; None where none does."""
        if inside is None or lacking is None:
            self._missing[key] = lacking
        else:
            whole = np.zeros(len(inside), bool)
            whole[inside] = lacking
            self._missing[key] = whole

    def noted_missing(self, key: tuple[Any, ...]) -> Mask:
        missing = self._missing[key]
        return np.zeros(len(self.records), bool) if missing is None else missing

    def evidence(self, metric: Metric, constants: Constants) -> Evidence:
        key = metric.key(constants)
        if key not in self._evidence:
            self._evidence[key] = metric.collect(constants, self)
        return self._evidence[key]


class United:
    """Two sides as one: what either collected is merged, and gives what their rows in one table would give."""

    def __init__(
        self,
        first: Collector | United,
        second: Collector | United,
        table: Records | None = None,
        ids: Clusters | None = None,
    ) -> None:
        self._sides, self._table = (first, second), table  # the table of all rows, where it is at hand
        self._merger = Merger(first.ids, second.ids, ids)
        self._evidence: dict[tuple[Any, ...], Evidence] = {}
        self.ids: Clusters = self._merger.ids
        self.rows: Codes = np.sort(np.concatenate([first.rows, second.rows]))

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many rows have each outcome."""
        return added(*(side.counts for side in self._sides))

    @cached_property
    def unit(self) -> Draw:
        """Every cluster once: the data as they are."""
        return Draw(np.ones((1, len(self.ids))))

    def summaries(self, metric: Metric) -> list[Any]:
        """What the tables say that constants are made from; a fact of all rows is no fact of a part of them."""
        if self._table is not None:
            return [metric.summary(self._table)]
        return [summary for side in self._sides for summary in side.summaries(metric)]

    def constants(self, metric: Metric) -> Constants:
        """What the metric must know of both tables as one."""
        return metric.merged(self.summaries(metric))

    def missing(self, metric: Metric, constants: Constants) -> Mask:
        """The rows that the metric cannot count because they lack a value that it reads, in the order of the table."""
        missing = np.zeros(len(self.rows), bool)
        for side in self._sides:
            missing[np.searchsorted(self.rows, side.rows)] = side.missing(metric, constants)
        return missing

    def missing_rows(self, metric: Metric, constants: Constants) -> int:
        """How many rows lack a value that the metric reads."""
        return sum(side.missing_rows(metric, constants) for side in self._sides)

    def evidence(self, metric: Metric, constants: Constants) -> Evidence:
        key = metric.key(constants)
        if key not in self._evidence:
            self._evidence[key] = self._merger.merged(*(side.evidence(metric, constants) for side in self._sides))
        return self._evidence[key]


def united(
    sides: Sequence[Collector | United], table: Records | None = None, ids: Clusters | None = None
) -> Collector | United:
    """Several sides as one, two by two: every row is merged about as often as the number of sides can be halved."""
    if len(sides) == 1:
        return sides[0]
    half = len(sides) // 2
    return United(united(sides[:half]), united(sides[half:]), table, ids)


def side_of(records: Records, clusters: tuple[Clusters, Codes] | None = None) -> Collector | United:
    """The side of a table, collected apart for each file that it came from; on given clusters, or on its own."""
    ids, cluster = records.cluster if clusters is None else clusters
    files = records.by_source()
    if len(files) < 2:
        return Collector(records, ids=ids, cluster=cluster)
    together = -(-len(files) // _MOST_SIDES)
    sides = []
    for rows in (np.concatenate(files[i : i + together]) for i in range(0, len(files), together)):
        held, place = np.unique(cluster[rows], return_inverse=True)
        sides.append(Collector(records.take(rows), ids=ids.at(held), cluster=place, rows=rows))
    return united(sides, records, ids)
