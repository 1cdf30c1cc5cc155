"""Evidence that is made of other evidence, or of whole columns; their readings wait for the metric to finish them.

Rows     the columns themselves, for a metric that is not a function of sums: slow but correct
Groups   the evidence of a base metric in every group of a column, and overall
Parts    the evidence of several metrics that are composed into one
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from steelyard.ground.arrays import Codes, Floats, Mask
from steelyard.metrics.evidence.clusters import Merger, added, left_out, moved, segments_differ, sortable, spread
from steelyard.metrics.evidence.codec import kind
from steelyard.metrics.evidence.keys import keyless
from steelyard.metrics.evidence.sums import Draw
from steelyard.records.clusters import Clusters
from steelyard.records.labels import Labels, together, value_name


class Unfinished:
    """A reading that only the metric can finish; what it becomes is kept, because several calls ask for it."""

    def __init__(self) -> None:
        self._finished: dict[Any, Any] = {}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._finished:
            self._finished[key] = make()
        return self._finished[key]


@dataclass(frozen=True)
class RowTerms:
    """The columns of a metric that asks for `weight`."""

    columns: tuple[Any, ...]
    left_out: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, Any] = field(default_factory=dict)

    def collect(self, ids: Clusters, cluster: Codes) -> tuple[Rows, Mask]:
        """The columns, without rows that lack any of them, and which rows were included."""
        kept = np.ones(len(cluster), bool)
        for column in self.columns:
            if isinstance(column, Labels | np.ndarray):
                kept &= ~keyless(column)
        columns = tuple(column[kept] if len(column) == len(kept) else column for column in self.columns)
        rows = np.bincount(cluster[kept], minlength=len(ids)).astype(np.int64)
        return Rows(columns=columns, ids=ids, cluster=cluster[kept], rows=rows), kept


@kind("Rows", "columns ids cluster rows excluded")
@dataclass(frozen=True, kw_only=True)
class Rows:
    """The columns themselves: evidence of a metric that asks for `weight`. Each resample calls its function once."""

    columns: tuple[Any, ...]
    ids: Clusters
    cluster: Codes
    rows: Codes
    excluded: Mapping[str, int] = field(default_factory=dict)

    @property
    def width(self) -> int:
        return len(self.cluster)

    def under(self, draw: Draw) -> WeightedRows:
        return WeightedRows(self, draw.floats)

    def on(self, ids: Clusters, place: Codes) -> Rows:
        return replace(self, ids=ids, cluster=place[self.cluster], rows=spread(self.rows, place, len(ids)))

    def among(self, clusters: Codes) -> Rows:
        inside, cluster = moved(self.cluster, clusters, len(self.ids))
        columns = tuple(column[inside] for column in self.columns)
        return replace(self, columns=columns, ids=self.ids.at(clusters), cluster=cluster, rows=self.rows[clusters])

    def differs(self, other: Rows) -> Mask:
        size = len(self.cluster)
        both = [_joined(a, b) for a, b in zip(self.columns, other.columns, strict=True)]
        codes = [column.codes if isinstance(column, Labels) else column for column in both]
        mine, theirs = (self.cluster, [c[:size] for c in codes]), (other.cluster, [c[size:] for c in codes])
        return segments_differ(mine, theirs, len(self.ids))

    def merge(self, other: Rows, merger: Merger) -> Rows:
        return Rows(
            columns=tuple(_joined(a, b) for a, b in zip(self.columns, other.columns, strict=True)),
            ids=merger.ids,
            cluster=merger.cluster(self.cluster, other.cluster),
            rows=merger.added(self.rows, other.rows),
            excluded=left_out(self.excluded, other.excluded),
        )

    def stacked(self, other: Rows) -> Rows:
        return Rows(
            columns=tuple(_joined(a, b) for a, b in zip(self.columns, other.columns, strict=True)),
            ids=self.ids.stacked(other.ids),
            cluster=np.concatenate([self.cluster, other.cluster + len(self.ids)]),
            rows=np.concatenate([self.rows, other.rows]),
        )


class WeightedRows(Unfinished):
    """Columns under a block of resamples."""

    def __init__(self, rows: Rows, weights: Floats) -> None:
        super().__init__()
        self._rows, self._weights = rows, weights

    def called(self, function: Callable[..., float]) -> Floats:
        """The function of the rows that each resample holds."""
        return np.array([self._value(function, row) for row in self._weights])

    def _value(self, function: Callable[..., float], weights: Floats) -> float:
        weight = weights[self._rows.cluster]
        kept = weight > 0
        return float(function(*(column[kept] for column in self._rows.columns), weight=weight[kept]))


@dataclass(frozen=True)
class GroupReading:
    """Values of the base metric: `values` (resamples, groups) in the order of `names`, and `overall` (resamples,)."""

    names: tuple[Any, ...]
    values: Floats
    overall: Floats


@kind("Groups", "names groups overall ungrouped")
@dataclass(frozen=True)
class Groups:
    """The base metric's evidence in each group, on one list of clusters, and overall."""

    names: tuple[Any, ...]
    groups: tuple[Any, ...]
    overall: Any
    ungrouped: int = 0  # rows without a group: in the overall value, in no group's

    @property
    def ids(self) -> Clusters:
        return self.overall.ids

    @property
    def rows(self) -> Codes:
        return self.overall.rows

    @property
    def excluded(self) -> Mapping[str, int]:
        return self.overall.excluded

    @property
    def width(self) -> int:
        return sum(group.width for group in (*self.groups, self.overall))

    def under(self, draw: Draw) -> GroupedReadings:
        return GroupedReadings(self.names, tuple(map(draw.read, self.groups)), draw.read(self.overall))

    def on(self, ids: Clusters, place: Codes) -> Groups:
        groups = tuple(group.on(ids, place) for group in self.groups)
        return replace(self, groups=groups, overall=self.overall.on(ids, place))

    def among(self, clusters: Codes) -> Groups:
        groups = tuple(group.among(clusters) for group in self.groups)
        return replace(self, groups=groups, overall=self.overall.among(clusters))

    def differs(self, other: Groups) -> Mask:
        different = self.overall.differs(other.overall)
        theirs = dict(zip(other.names, other.groups, strict=True))
        if set(self.names) != set(other.names):
            return np.ones(len(self.ids), bool)
        for name, group in zip(self.names, self.groups, strict=True):
            different = different | group.differs(theirs[name])
        return different

    def merge(self, other: Groups, merger: Merger) -> Groups:
        mine, theirs = (dict(zip(e.names, e.groups, strict=True)) for e in (self, other))
        names = tuple(sorted({**mine, **theirs}, key=sortable))
        groups = tuple(merger.merged(mine.get(name), theirs.get(name)) for name in names)
        overall = merger.merged(self.overall, other.overall)
        return Groups(names, groups, overall, self.ungrouped + other.ungrouped)

    def stacked(self, other: Groups) -> Groups:
        theirs = dict(zip(other.names, other.groups, strict=True))
        shared = [name for name in self.names if name in theirs]
        mine = dict(zip(self.names, self.groups, strict=True))
        groups = tuple(mine[name].stacked(theirs[name]) for name in shared)
        return Groups(tuple(shared), groups, self.overall.stacked(other.overall))

    def of_groups(self, names: tuple[Any, ...]) -> Groups:
        """The same with some groups only."""
        by_name = dict(zip(self.names, self.groups, strict=True))
        return replace(self, names=names, groups=tuple(by_name[name] for name in names))


class GroupedReadings(Unfinished):
    """The base metric's readings in each group and overall."""

    def __init__(self, names: tuple[Any, ...], groups: tuple[Any, ...], overall: Any) -> None:
        super().__init__()
        self.names, self._groups, self._overall = names, groups, overall

    def finished(self, group: Callable[[Any, Any], Floats], overall: Callable[[Any], Floats]) -> GroupReading:
        """The values: `group(name, reading)` in each group, `overall(reading)`."""
        whole = overall(self._overall)
        values = [group(name, reading) for name, reading in zip(self.names, self._groups, strict=True)]
        return GroupReading(self.names, np.stack(values, -1) if values else np.empty((len(whole), 0)), whole)

    def up_to_common_coverage(self, area: Callable[[Any, Floats], Floats]) -> GroupReading:
        """Areas of every group, and of the whole, up to the coverage that all groups with answers reach."""
        reached = [np.where(reading.cmax > 0, reading.cmax, np.inf) for reading in self._groups]
        common = np.minimum.reduce([np.ones(len(self._overall.cmax)), *reached])
        return self.finished(
            lambda _, reading: area(reading, common),
            lambda reading: area(reading, common),
        )


@kind("Parts", "parts lost")
@dataclass(frozen=True)
class Parts:
    """The evidence of several metrics on one list of clusters."""

    parts: tuple[Any, ...]
    lost: Mapping[str, int] = field(default_factory=dict)  # rows left out before the parts saw them

    @property
    def ids(self) -> Clusters:
        return self.parts[0].ids

    @property
    def rows(self) -> Codes:
        return np.maximum.reduce([part.rows for part in self.parts])

    @property
    def excluded(self) -> Mapping[str, int]:
        """Rows by reason; a reason that several parts have is mostly of the same rows, and counts once."""
        reasons = dict.fromkeys(reason for part in self.parts for reason in part.excluded)
        most = {reason: max(part.excluded.get(reason, 0) for part in self.parts) for reason in reasons}
        return added(self.lost, most)

    @property
    def width(self) -> int:
        return sum(part.width for part in self.parts)

    def under(self, draw: Draw) -> PartReadings:
        return PartReadings(tuple(map(draw.read, self.parts)))

    def on(self, ids: Clusters, place: Codes) -> Parts:
        return replace(self, parts=tuple(part.on(ids, place) for part in self.parts))

    def among(self, clusters: Codes) -> Parts:
        return replace(self, parts=tuple(part.among(clusters) for part in self.parts))

    def differs(self, other: Parts) -> Mask:
        return np.logical_or.reduce([a.differs(b) for a, b in zip(self.parts, other.parts, strict=True)])

    def merge(self, other: Parts, merger: Merger) -> Parts:
        parts = tuple(merger.merged(a, b) for a, b in zip(self.parts, other.parts, strict=True))
        return Parts(parts, added(self.lost, other.lost))

    def stacked(self, other: Parts) -> Parts:
        return Parts(tuple(a.stacked(b) for a, b in zip(self.parts, other.parts, strict=True)))


class PartReadings(Unfinished):
    """The readings of several metrics under the same resamples."""

    def __init__(self, readings: tuple[Any, ...]) -> None:
        super().__init__()
        self.readings = readings


def _joined(a: Any, b: Any) -> Any:
    return together(a, b, sortable) if isinstance(a, Labels) else np.concatenate([a, b])


def defined_groups(groups: GroupReading) -> Mask:
    """Which groups have a value, per resample."""
    return ~np.isnan(groups.values)


def values_by_group(groups: GroupReading) -> dict[str, Any]:
    """The value of every group by its name, and that of all rows."""
    values = {
        value_name(n): None if np.isnan(v) else float(v) for n, v in zip(groups.names, groups.values[0], strict=True)
    }
    return {"per_group": values, "overall": None if np.isnan(groups.overall[0]) else float(groups.overall[0])}
