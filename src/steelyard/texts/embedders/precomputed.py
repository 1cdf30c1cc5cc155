"""Vectors that were made elsewhere: `npz:FILE` has them by id, `npy:FILE` in the order of the texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from steelyard.errors import InputError, UsageError, counted, printable
from steelyard.texts.embedders.contract import Progress, embedders
from steelyard.texts.vectors import Matrix, Vectors, folded, lacks, read_vectors


class Precomputed:
    """Looks vectors up, by id where the file has ids, else by order. Texts are not looked at."""

    def __init__(self, provider: str, vectors: Vectors) -> None:
        self.provider, self._vectors = provider, vectors
        self._places = None if vectors.ids is None else {folded(id): row for row, id in enumerate(vectors.ids)}

    @property
    def model(self) -> str:
        return self._vectors.name

    def embed(self, ids: Sequence[str], texts: Sequence[str], *, what: str, progress: Progress | None = None) -> Matrix:
        if len(set(ids)) < len(ids):
            name = printable(self.model)
            raise UsageError(f"{name} has one vector for each of the {what}, none for their pieces; embed them whole")
        vectors = self._by_order(texts, what) if self._places is None else self._by_id(ids, what, self._places)
        if progress is not None:
            progress(1.0)
        return vectors

    def _by_order(self, texts: Sequence[str], what: str) -> Matrix:
        if len(texts) != len(self._vectors):
            problem = (
                f"has {counted(len(self._vectors), 'vector')} for {len(texts)} {what}; vectors without ids go by order"
            )
            raise InputError(f"{problem}, so their numbers must agree", file=self.model)
        return self._vectors.matrix

    def _by_id(self, ids: Sequence[str], what: str, places: dict[str, int]) -> Matrix:
        rows = np.empty(len(ids), np.int64)
        for at, id in enumerate(ids):
            row = places.get(folded(id))
            if row is None:
                raise InputError(
                    f"has no vector for '{printable(id)}' of the {what}; add it, or embed with a model", file=self.model
                )
            rows[at] = row
        return self._vectors.matrix[rows]


def _factory(provider: str) -> Callable[[str], Precomputed]:
    def factory(argument: str) -> Precomputed:
        if Path(argument).suffix.lower() != f".{provider}":
            raise UsageError(f"{provider}: names a .{provider} file with vectors, as in {provider}:vectors.{provider}")
        vectors = read_vectors(argument)
        if provider == "npz" and vectors.ids is None:
            raise lacks(vectors, "ids", "ids says whose vector is whose")
        return Precomputed(provider, vectors)

    return factory


embedders.add("npz", _factory("npz"))
embedders.add("npy", _factory("npy"))
