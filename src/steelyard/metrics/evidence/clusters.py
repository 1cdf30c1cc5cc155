"""The clusters that evidence stands on: their ids, in which order they come, and lists of them joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.ground.arrays import Codes, Mask
from steelyard.records.labels import label_key, value_name

Ids = tuple[tuple[Any, ...], ...]
WHOLE: Ids = (("",),)  # everything in one cluster, where only the value is asked for


def some(ids: Ids, clusters: Codes) -> Ids:
    """The ids at these places."""
    return tuple(ids[i] for i in clusters)


def moved(cluster: Codes, clusters: Codes, size: int) -> tuple[Mask, Codes]:
    """The rows that belong to these clusters, and the place of each row's cluster among them."""
    place = np.full(size, -1, np.int64)
    place[clusters] = np.arange(len(clusters))
    inside = place[cluster] >= 0
    return inside, place[cluster[inside]]


def merged_ids(mine: Ids, theirs: Ids) -> Ids:
    """The union of two cluster lists, in their order: by text."""
    return mine if mine == theirs else tuple(sorted({*mine, *theirs}, key=id_order))


def id_order(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """What cluster ids are sorted by: their text, null first; the kind only where the text is equal."""
    return tuple((part is not None, value_name(part), type(part).__name__) for part in parts)


def stacked_ids(mine: Ids, theirs: Ids) -> Ids:
    """The clusters of two runs side by side, told apart by a first part 0 or 1."""
    return (*((0, *parts) for parts in mine), *((1, *parts) for parts in theirs))


def places(ids: Ids, longer: Ids) -> Codes:
    place = {cluster: i for i, cluster in enumerate(longer)}
    return np.array([place[cluster] for cluster in ids], np.int64)


def spread(rows: Codes, place: Codes, size: int) -> Codes:
    spread = np.zeros(size, np.int64)
    spread[place] = rows
    return spread


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
