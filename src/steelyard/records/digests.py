"""One number per cluster for what a column holds there: equal numbers mean equal rows, whatever their order.

Two runs that kept only sums can so tell whether they gave the same answers, and whether their groups and labels agree.
Numbers count by value: 1 and 1.0 are the same.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from steelyard.ground.arrays import Codes
from steelyard.ground.randomness import finalized
from steelyard.records.derive import NUMBERS
from steelyard.records.labels import Labels
from steelyard.records.schema import PAIRED, kind_of
from steelyard.records.table import Records

Digests = npt.NDArray[np.uint64]


_NOTHING = np.uint64(0x6E756C6C)


def column_digests(records: Records, name: str, cluster: Codes, clusters: int) -> Digests:
    """What a column holds for every question, one number per cluster."""
    return _by_cluster(_mixed(_questions(records), _values(records, name)), cluster, clusters)


def row_digests(records: Records, inside: npt.NDArray[np.bool_], cluster: Codes, clusters: int) -> Digests:
    """Which questions are inside, one number per cluster; 0 where none is."""
    return _by_cluster(np.where(inside, _questions(records), np.uint64(0)), cluster, clusters)


def _questions(records: Records) -> Digests:
    """A number for the question of each row."""
    numbers = np.full(len(records), np.uint64(1), np.uint64)
    for name in PAIRED:
        if name in records and kind_of(records.column(name)) != "null":
            numbers = _mixed(numbers, _values(records, name))
    return numbers


def _values(records: Records, name: str) -> Digests:
    if name == "outcome":
        return _of_labels(records.labels(name))
    column = records.column(name)
    kind = kind_of(column)
    if kind == "list":
        return np.array([_text(json.dumps(row)) for row in column.to_pylist()], np.uint64)
    if kind in NUMBERS or kind == "null":
        return _of_numbers(records.stated_numbers(name), column)
    return _of_labels(records.labels(name))


def _of_numbers(numbers: npt.NDArray[np.float64], column: pa.Array) -> Digests:
    bits = (np.asarray(numbers, np.float64) + 0.0).view(np.uint64)  # −0.0 becomes 0.0
    return np.where(np.asarray(column.is_null()), _NOTHING, finalized(bits))


def _of_labels(labels: Labels) -> Digests:
    known = [_text(f"{type(value).__name__} {value}") for value in labels.values]
    return np.array([*known, _NOTHING], np.uint64)[labels.codes]


def _text(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _mixed(one: Digests, two: Digests) -> Digests:
    with np.errstate(over="ignore"):
        return finalized(one * np.uint64(0x9E3779B97F4A7C15) + two)


def _by_cluster(rows: Digests, cluster: Codes, clusters: int) -> Digests:
    """The rows' numbers added up in every cluster: their order does not matter, how often they occur does."""
    totals = np.zeros(clusters, np.uint64)
    with np.errstate(over="ignore"):
        np.add.at(totals, cluster, rows)
    return totals
