"""Vectors without a model: each word and each part of a word falls into a bucket that its hash names.

Texts that share words, or spell them nearly alike, come close to each other; meaning is not looked at. It is the
baseline that a model has to beat, and it needs no network, no weights and no waiting.

The same text has the same bits on every machine: features are hashed with BLAKE2, weights are whole numbers, whose
sums are exact in any order, and the length is a correctly rounded sum.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from math import fsum, sqrt

import numpy as np
import numpy.typing as npt

from steelyard.errors import UsageError, printable
from steelyard.texts.embedders.contract import Progress, embedders, empty
from steelyard.texts.vectors import Matrix

DIMENSION = 256
MOST = 65_536
WORD_WEIGHT = 3  # of a whole word; a part of one weighs 1
_SCALE = 2**12  # weights are whole multiples of 1 / scale
_PARTS = (3, 4, 5)  # characters
_WORD = re.compile(r"[^\W_]+")
_USUAL = 64  # characters; longer words are hashed but not remembered
_EVERY = 256  # texts between two words of progress


class Hash:
    """Signed feature hashing of words and their 3 to 5 character parts."""

    provider = "hash"

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension

    @property
    def model(self) -> str:
        return f"words-{self._dimension}"

    def embed(self, ids: Sequence[str], texts: Sequence[str], *, what: str, progress: Progress | None = None) -> Matrix:
        vectors = np.empty((len(texts), self._dimension), np.float32)
        for row, (id, text) in enumerate(zip(ids, texts, strict=True)):
            words = Counter(_WORD.findall(unicodedata.normalize("NFKC", text).lower()))
            if not words:
                raise empty(what, id)
            vectors[row] = self._vector(words)
            if progress is not None and (row % _EVERY == _EVERY - 1 or row == len(texts) - 1):
                progress((row + 1) / len(texts))
        return vectors

    def _vector(self, words: Counter[str]) -> npt.NDArray[np.float64]:
        each = [_features(word) if len(word) <= _USUAL else _features.__wrapped__(word) for word in words]
        times = np.repeat(np.fromiter(words.values(), np.int64, len(words)), [len(features) for features in each])
        features, place = np.unique(np.concatenate(each), return_inverse=True)
        counts = np.bincount(place, times)
        weights = np.rint(_SCALE * (1 + np.log(counts)) * np.where(features & 1, WORD_WEIGHT, 1))
        buckets = ((features >> np.uint64(2)) % np.uint64(self._dimension)).astype(np.int64)
        sums = np.bincount(buckets, np.where(features & 2, weights, -weights), self._dimension)
        if not sums.any():  # plus and minus met in every bucket
            sums[buckets[0]] = 1.0
        return sums / sqrt(fsum(sums * sums))


@lru_cache(maxsize=2**16)
def _features(word: str) -> npt.NDArray[np.uint64]:
    """A word's features as hashes: bit 0 says whether it is the whole word, bit 1 its sign, the rest its bucket."""
    marked = f"<{word}>"
    parts = [marked[at : at + size] for size in _PARTS for at in range(len(marked) - size + 1)]
    digests = b"".join(blake2b(part.encode(), digest_size=8).digest() for part in parts)
    whole = blake2b(word.encode(), digest_size=8, person=b"word").digest()
    hashes = np.frombuffer(whole + digests, "<u8").astype(np.uint64) & ~np.uint64(1)
    hashes[0] |= np.uint64(1)
    return hashes


def factory(argument: str) -> Hash:
    if not argument:
        return Hash(DIMENSION)
    dimension = int(argument) if re.fullmatch(r"[0-9]{1,6}", argument) else 0
    if not 1 <= dimension <= MOST:
        raise UsageError(f"hash:{printable(argument)}: a dimension between 1 and {MOST:,} is expected, as in hash:256")
    return Hash(dimension)


embedders.add("hash", factory)
