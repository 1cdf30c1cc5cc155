"""Random numbers that depend on a counter, not on order: draw d of resample r is a function of (seed, r, d).

Any block of resamples can be drawn alone, by any worker, and comes out the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from steelyard.ground.arrays import Words

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0xD1342543DE82EF95)
SIGN_DRAWS = 9_999


def mix(words: Words) -> Words:
    """One step of SplitMix64 from each word: neighbouring inputs give unrelated outputs."""
    with np.errstate(over="ignore"):
        return finalized(words + _GOLDEN)


def finalized(words: Words) -> Words:
    """SplitMix64's output function."""
    with np.errstate(over="ignore"):
        z = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))


def words(seed: int, first: int, last: int, draws: int) -> Words:
    """64 random bits for each of `draws` draws of resamples first, …, last − 1: (resamples, draws)."""
    with np.errstate(over="ignore"):
        base = mix(np.array([seed % 2**64], np.uint64))
        key = mix(base ^ mix(np.arange(first, last, dtype=np.uint64)))
        return mix(key[:, None] + np.arange(draws, dtype=np.uint64) * _STEP)


def sign_blocks(clusters: int) -> Iterator[npt.NDArray[np.float64]]:
    """Random ±1 per cluster, one row per draw, in blocks that fit the memory; fewer draws for very many clusters."""
    rows = int(np.clip(1_000_000_000 // max(clusters, 1), 999, SIGN_DRAWS))
    step = max(1, 10_000_000 // max(clusters, 1))
    for first in range(0, rows, step):
        yield sign_block(42, first, min(rows, first + step), clusters)


def sign_block(seed: int, first: int, last: int, clusters: int) -> npt.NDArray[np.float64]:
    """Rows first, …, last − 1 of the stream of random signs."""
    packed = words(seed ^ 0x5167, first, last, (clusters + 63) // 64)
    bits = np.unpackbits(packed.view(np.uint8), axis=1, bitorder="little")[:, :clusters]
    return bits.astype(np.float64) * 2.0 - 1.0
