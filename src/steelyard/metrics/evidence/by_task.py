"""Evidence of a benchmark: the evidence of each metric of each task, on one list of clusters.

Tasks that share no cluster are asked of different people, so they are resampled apart: `strata` says which clusters
belong together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from steelyard.ground.arrays import Codes, Mask
from steelyard.metrics.evidence.clusters import Merger, added, spread
from steelyard.metrics.evidence.codec import kind
from steelyard.metrics.evidence.combined import Unfinished
from steelyard.metrics.evidence.sums import Draw
from steelyard.records.clusters import Clusters

Name = tuple[str, str, str]  # a task, a metric of it, and the category that it counts in


@kind("Tasks", "names parts ids rows tasks holds lost lacking")
@dataclass(frozen=True, kw_only=True)
class Tasks:
    """The evidence of every metric of every task, and which clusters have rows of which task."""

    names: tuple[Name, ...]
    parts: tuple[Any, ...]
    ids: Clusters
    rows: Codes  # of tasks that a part measures, without those that failed
    tasks: tuple[str, ...]
    holds: Mask  # clusters × tasks
    lost: Mapping[str, int] = field(default_factory=dict)  # rows that no part counts, by reason
    lacking: tuple[Name, ...] = ()  # what was planned, and has nothing to count

    @property
    def excluded(self) -> Mapping[str, int]:
        return self.lost

    @property
    def width(self) -> int:
        return max(sum(part.width for part in self.parts), 1)

    @cached_property
    def strata(self) -> Codes | None:
        """Which clusters are resampled together: those of tasks that share one; None where that is all of them."""
        groups = np.arange(len(self.tasks))
        for held in self.holds:
            mine = np.flatnonzero(held)
            if len(mine) > 1:
                joined = groups[mine]
                groups[np.isin(groups, joined)] = joined.min()
        if len(self.tasks) == 0 or not self.holds.any() or len(np.unique(groups)) < 2:
            return None
        first = np.where(self.holds.any(1), groups[self.holds.argmax(1)], -1)
        stratum = np.unique(first, return_inverse=True)[1].astype(np.int64)
        return stratum if stratum.max() > 0 else None

    def under(self, draw: Draw) -> TaskReadings:
        return TaskReadings(self.names, tuple(map(draw.read, self.parts)), len(draw.weights))

    def on(self, ids: Clusters, place: Codes) -> Tasks:
        size, parts = len(ids), tuple(part.on(ids, place) for part in self.parts)
        rows, holds = spread(self.rows, place, size), spread(self.holds, place, size)
        return replace(self, ids=ids, parts=parts, rows=rows, holds=holds)

    def among(self, clusters: Codes) -> Tasks:
        return replace(
            self,
            ids=self.ids.at(clusters),
            parts=tuple(part.among(clusters) for part in self.parts),
            rows=self.rows[clusters],
            holds=self.holds[clusters],
        )

    def differs(self, other: Tasks) -> Mask:
        if self.names != other.names:
            return np.ones(len(self.ids), bool)
        different = np.zeros(len(self.ids), bool)
        for mine, theirs in zip(self.parts, other.parts, strict=True):
            different |= mine.differs(theirs)
        return different

    def merge(self, other: Tasks, merger: Merger) -> Tasks:
        mine, theirs = (dict(zip(e.names, e.parts, strict=True)) for e in (self, other))
        names = tuple({**mine, **theirs})
        return Tasks(
            names=names,
            parts=tuple(merger.merged(mine.get(name), theirs.get(name)) for name in names),
            ids=merger.ids,
            rows=merger.added(self.rows, other.rows),
            tasks=self.tasks,
            holds=merger.added(self.holds, other.holds),
            lost=added(self.lost, other.lost),
            lacking=tuple(n for n in dict.fromkeys((*self.lacking, *other.lacking)) if n not in names),
        )

    def stacked(self, other: Tasks) -> Tasks:
        shared = [name for name in self.names if name in other.names]
        mine, theirs = self.of_parts(shared), other.of_parts(shared)
        return Tasks(
            names=tuple(shared),
            parts=tuple(a.stacked(b) for a, b in zip(mine.parts, theirs.parts, strict=True)),
            ids=self.ids.stacked(other.ids),
            rows=np.concatenate([self.rows, other.rows]),
            tasks=self.tasks,
            holds=np.concatenate([self.holds, other.holds]),
        )

    def of_parts(self, names: Sequence[Name]) -> Tasks:
        """The same with some parts only."""
        by_name = dict(zip(self.names, self.parts, strict=True))
        return replace(self, names=tuple(names), parts=tuple(by_name[name] for name in names))


class TaskReadings(Unfinished):
    """The readings of every part under the same resamples."""

    def __init__(self, names: tuple[Name, ...], readings: tuple[Any, ...], size: int) -> None:
        super().__init__()
        self.names, self.readings, self.size = names, readings, size
