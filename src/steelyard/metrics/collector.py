"""A side: one table's clusters, and the evidence of every metric on it.

An evaluation has one side, a comparison two. A `Collector` is the side of a table that is at hand; what a run kept of
its table is another. The collector keeps what it has collected, so that metrics that read the same sums share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from steelyard.ground.arrays import Mask
from steelyard.metrics.evidence.clusters import WHOLE
from steelyard.metrics.evidence.sums import Draw, Evidence
from steelyard.metrics.options import Constants
from steelyard.metrics.vocabulary import Population
from steelyard.records.clusters import Clusters
from steelyard.records.derive import ANSWERED, FAILED
from steelyard.records.table import Records

if TYPE_CHECKING:
    from steelyard.metrics.metric import Metric


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

    def constants(self, metric: Metric) -> Constants:
        """What the metric must know of this table as a whole."""
        return metric.constants([self.records])

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
