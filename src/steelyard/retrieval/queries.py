"""What is asked: queries, with the one document that each should find where no judgements say more.

    {"queryId": "q1", "query": "…", "relevantDocId": "d7"}
    {"id": "q2", "vector": [0.1, 0.2], "gold": null, "cluster": "patient 4"}

A query without a relevant document is one that should find nothing. Capital letters in field names make no difference.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steelyard.errors import InputError, UsageError, printable
from steelyard.retrieval.rows import Names, Row, read_rows, same_for_all, unique_ids
from steelyard.texts.embedders.contract import Embedder
from steelyard.texts.vectors import Matrix, Vectors, checked, lacks, read_vectors

_FIELDS: Names = {
    "id": ("id", "queryId"),
    "text": ("text", "query"),
    "vector": ("vector",),
    "gold": ("relevantDocId", "gold"),
    "cluster": ("cluster",),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Queries:
    """Queries as texts or as vectors. `gold` is the relevant document's id, None where no document is relevant.

    Vectors may differ in length: whoever searches says which queries do not fit the documents. `lacking` is what to say
    of a file of vectors that names no relevant document at all.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...] | None
    vectors: tuple[Matrix, ...] | None
    gold: tuple[str | None, ...]
    clusters: tuple[str, ...] | None
    name: str
    sha256: str
    lacking: InputError | None = None

    def __len__(self) -> int:
        return len(self.ids)


def read_queries(path: str | os.PathLike[str]) -> Queries:
    """The queries in a `.jsonl` file, a `.json` file, or as vectors in a `.npz` archive or a `.npy` file.

    A `.json` file holds a list of objects, or an object with such a list under `queries`. Vectors without ids are
    called 0, 1, 2 and so on.
    """
    name = os.fspath(path)
    if Path(name).suffix.lower() in (".npz", ".npy"):
        return _of_vectors(read_vectors(name))
    rows, sha256 = read_rows(name, _FIELDS, what="queries", inside="queries")
    ids = unique_ids(rows)
    vectors = same_for_all(rows, "vector", Row.vector)
    texts = None if vectors is not None else same_for_all(rows, "text", Row.text)
    if texts is None and vectors is None:
        raise rows[0].error("is missing: a text or a vector is expected", "text")
    gold = tuple(_gold(row) for row in rows)
    return Queries(
        ids=ids,
        texts=texts,
        vectors=vectors,
        gold=gold,
        clusters=same_for_all(rows, "cluster", Row.label),
        name=name,
        sha256=sha256,
    )


def embedded(
    queries: Queries, embedder: Embedder | None, *, progress: Callable[[float], None] | None = None
) -> Vectors:
    """One vector per query: the given ones where the file has them, else what the embedder makes of the texts."""
    if queries.vectors is not None:
        first = len(queries.vectors[0])
        for id, vector in zip(queries.ids, queries.vectors, strict=True):
            if len(vector) != first:
                problem = f"the vector of query '{printable(id)}' has {len(vector)} numbers, that of the first {first}"
                raise InputError(f"{problem}; embed all with the same model", file=queries.name)
        matrix = checked(np.stack(queries.vectors), f"the queries of {printable(queries.name)}")
    elif embedder is None:
        raise UsageError(f"{printable(queries.name)} has texts; name an embedder that turns them into vectors")
    else:
        assert queries.texts is not None
        matrix = embedder.embed(queries.ids, queries.texts, what="queries", progress=progress)
    return Vectors(name=queries.name, matrix=matrix, ids=queries.ids, gold=queries.gold, sha256=queries.sha256)


def _of_vectors(vectors: Vectors) -> Queries:
    ids = vectors.ids or tuple(map(str, range(len(vectors))))
    gold = vectors.gold or (None,) * len(vectors)
    meaning = "gold has the id of each query's relevant document; a search takes judgements instead: `qrels=`"
    return Queries(
        ids=ids,
        texts=None,
        vectors=tuple(vectors.matrix),
        gold=gold,
        clusters=None,
        name=vectors.name,
        sha256=vectors.sha256 or "",
        lacking=lacks(vectors, "gold", meaning) if vectors.gold is None else None,
    )


def _gold(row: Row) -> str | None:
    value = row.value("gold")
    if not isinstance(value, list):
        return row.label("gold")
    if len(value) > 1:
        raise row.error(
            "several relevant documents: a query names one here; a search takes several as judgements: `qrels=`",
            "gold",
        )
    return row.label("gold", value[0]) if value and value[0] is not None else None
