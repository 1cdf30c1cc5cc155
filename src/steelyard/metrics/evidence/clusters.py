"""Evidence on lists of clusters: that of two sides on one list, and which clusters are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.ground.arrays import Codes, Mask
from steelyard.records.clusters import Clusters
from steelyard.records.labels import label_key
from steelyard.records.schema import OUTCOMES

WHOLE = Clusters.of([("",)])  # everything in one cluster, where only the value is asked for


class Merger:
    """Two sides put together: the clusters of both, and what was merged already, because several metrics share it."""

    def __init__(self, mine: Clusters, theirs: Clusters, both: Clusters | None = None) -> None:
        joint, self.mine, self.theirs = mine.united(theirs)  # the places of either side's clusters
        self.ids = joint if both is None else both  # one list where there is one already, so that it is kept once
        assert len(self.ids) == len(joint)
        self._merged: dict[tuple[int, int], tuple[Any, ...]] = {}

    def merged(self, mine: Any, theirs: Any) -> Any:
        """The evidence of both as one; one of them may be None."""
        key = id(mine), id(theirs)
        if key not in self._merged:
            self._merged[key] = mine, theirs, self._made(mine, theirs)
        return self._merged[key][-1]

    def _made(self, mine: Any, theirs: Any) -> Any:
        if theirs is None:
            return mine.on(self.ids, self.mine)
        return theirs.on(self.ids, self.theirs) if mine is None else mine.merge(theirs, self)

    def added(self, mine: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Numbers of either side's clusters, added up in those of both."""
        total = spread(mine, self.mine, len(self.ids))
        if len(self.mine) + len(self.theirs) > len(self.ids):
            theirs = total[self.theirs] + theirs
        total[self.theirs] = theirs
        return total

    def cluster(self, mine: Codes, theirs: Codes) -> Codes:
        """The cluster of every row of one side and then of the other."""
        return np.concatenate([self.mine[mine], self.theirs[theirs]])


def moved(cluster: Codes, clusters: Codes, size: int) -> tuple[Mask, Codes]:
    """The rows that belong to these clusters, and the place of each row's cluster among them."""
    place = np.full(size, -1, np.int64)
    place[clusters] = np.arange(len(clusters))
    inside = place[cluster] >= 0
    return inside, place[cluster[inside]]


def spread(values: npt.NDArray[Any], place: Codes, size: int) -> npt.NDArray[Any]:
    """Numbers of clusters at the places of these in a longer list, 0 elsewhere."""
    longer = np.zeros((size, *values.shape[1:]), values.dtype)
    longer[place] = values
    return longer


def segments_differ(
    mine: tuple[Codes, Sequence[npt.NDArray[Any]]], theirs: tuple[Codes, Sequence[npt.NDArray[Any]]], clusters: int
) -> Mask:
    """The clusters whose rows are not the same, in whatever order: (cluster of each row, columns) on both sides."""
    counts = [np.bincount(cluster, minlength=clusters) for cluster, _ in (mine, theirs)]
    different = counts[0] != counts[1]
    ordered = []
    for cluster, columns in (mine, theirs):
        order = np.lexsort((*columns, cluster))
        kept = order[~different[cluster[order]]]
        ordered.append((cluster[kept], [column[kept] for column in columns]))
    (cluster, one), (_, two) = ordered
    for a, b in zip(one, two, strict=True):
        different[np.unique(cluster[a != b])] = True
    return np.asarray(different)


def sortable(value: Any) -> tuple[str, Any]:
    """Orders values of mixed kinds, null first; within a kind by value."""
    return ("", 0) if value is None else label_key(value)


def added(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {reason: a.get(reason, 0) + b.get(reason, 0) for reason in (*a, *(r for r in b if r not in a))}


def left_out(mine: Mapping[str, int], theirs: Mapping[str, int]) -> dict[str, int]:
    """Rows left out, by reason: outcomes first, in their order, then the other reasons."""
    total = added(mine, theirs)
    return {reason: total[reason] for reason in dict.fromkeys((*OUTCOMES, *total)) if total.get(reason)}
