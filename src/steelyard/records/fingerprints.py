"""A number per value of a column, equal for equal values and hardly ever for others, in little memory.

A dictionary of a million ids takes ten times the memory of the ids. These numbers find the few rows that may be alike,
which are then compared exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from steelyard.ground.randomness import finalized
from steelyard.records.schema import kind_of

Fingerprints = npt.NDArray[np.uint64]

_ROWS = 50_000  # at a time
_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that it has an inverse
_INVERSE = np.uint64(pow(int(_BASE), -1, 2**64))
_NOTHING = np.uint64(0x6E756C6C)


def fingerprints(column: pa.Array) -> Fingerprints:
    """One number per row."""
    kind = kind_of(column)
    if kind == "null":
        return np.full(len(column), _NOTHING)
    if kind == "text":
        parts = [_of_texts(column.slice(start, _ROWS)) for start in range(0, len(column), _ROWS)]
        numbers = np.concatenate(parts) if parts else np.zeros(0, np.uint64)
    else:
        numbers = finalized(column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64))
    if column.null_count:
        numbers[column.is_null().to_numpy(zero_copy_only=False)] = _NOTHING
    return numbers


def mixed(one: Fingerprints, two: Fingerprints) -> Fingerprints:
    """The fingerprint of a pair."""
    with np.errstate(over="ignore"):
        return finalized(one * _BASE + two)


def _of_texts(column: pa.Array) -> Fingerprints:
    """Σ byte · base^place, modulo 2⁶⁴, of every text; its length counts too."""
    _, offsets_buffer, data_buffer = column.buffers()
    width = np.int64 if pa.types.is_large_string(column.type) else np.int32
    offsets = np.frombuffer(offsets_buffer, width)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    start, end = int(offsets[0]), int(offsets[-1])
    if data_buffer is None or end == start:
        return finalized(np.diff(offsets).astype(np.uint64))
    data = np.frombuffer(data_buffer, np.uint8)[start:end].astype(np.uint64)
    with np.errstate(over="ignore"):
        data += np.uint64(1)
        sums = np.zeros(len(data) + 1, np.uint64)
        np.cumsum(data * _powers(_BASE, len(data)), out=sums[1:])
        places = offsets - start
        back = _powers(_INVERSE, len(data) + 1)[places[:-1]]
        own = (sums[places[1:]] - sums[places[:-1]]) * back
        return finalized(own + np.diff(offsets).astype(np.uint64))


def _powers(base: np.uint64, count: int) -> Fingerprints:
    """base⁰, base¹, …"""
    powers = np.full(count, base, np.uint64)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint64)
