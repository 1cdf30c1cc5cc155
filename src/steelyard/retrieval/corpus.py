"""Documents and queries together, ready to be searched: which queries count, and which do not and why.

A query counts where its one relevant document is known and its vector has the documents' dimension. The others are left
out and counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from steelyard.errors import InputError, UsageError, printable
from steelyard.records.table import Source
from steelyard.retrieval import documents as documents_
from steelyard.retrieval import queries as queries_
from steelyard.retrieval.documents import Documents, Ingest, read_documents
from steelyard.retrieval.embedders import Embedder
from steelyard.retrieval.queries import Queries, read_queries
from steelyard.retrieval.search import Codes
from steelyard.retrieval.vectors import Matrix, Vectors, folded, read_vectors

Progress = Callable[[float], None]
UNKNOWN, OTHER_DIMENSION = "no known relevant document", "another dimension than the documents"


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents and the effective queries, with the index of each one's relevant document."""

    docs: Vectors
    doc_ids: tuple[str, ...]
    queries: Matrix
    query_ids: tuple[str, ...]
    gold: Codes
    gold_ids: tuple[str, ...]  # as the queries wrote them
    clusters: tuple[str, ...] | None
    left_out: Mapping[str, str]  # the reason, by the query's id
    ingest: Ingest
    sources: tuple[Source, ...]

    def __len__(self) -> int:
        return len(self.query_ids)

    @property
    def reasons(self) -> dict[str, int]:
        """How many queries were left out, by reason."""
        found: dict[str, int] = {}
        for reason in self.left_out.values():
            found[reason] = found.get(reason, 0) + 1
        return found


def load(
    docs: str | os.PathLike[str],
    queries: str | os.PathLike[str],
    embedder: Embedder | None,
    *,
    chunk_size: int | None = None,
    overlap: int = 0,
    progress: Progress | None = None,
) -> Corpus:
    """Read documents and queries, and embed what is not vectors yet."""
    asked = read_queries(queries)
    vectors, ingest = documents_.embedded(
        _documents(docs), embedder, chunk_size=chunk_size, overlap=overlap, progress=progress
    )
    return corpus(vectors, ingest, asked, embedder, progress=progress)


def corpus(
    docs: Vectors, ingest: Ingest, queries: Queries, embedder: Embedder | None, *, progress: Progress | None = None
) -> Corpus:
    """Documents with those of the queries that count."""
    assert docs.ids is not None
    places = {folded(id): place for place, id in enumerate(docs.ids)}
    gold = np.array([places.get(folded(id.strip()), -1) if id else -1 for id in queries.gold])
    left_out = {id: UNKNOWN for id, place in zip(queries.ids, gold, strict=True) if place < 0}
    if queries.vectors is not None:
        odd = [len(vector) != docs.dimension for vector in queries.vectors]
        left_out |= {id: OTHER_DIMENSION for id, is_odd in zip(queries.ids, odd, strict=True) if is_odd}
    kept = [i for i, id in enumerate(queries.ids) if id not in left_out]
    if not kept:
        shown = ", ".join(sorted(set(left_out.values())))
        raise InputError(f"no query counts: {shown}; do queries and documents use the same ids?", file=queries.name)
    chosen = _some(queries, kept)
    embedded = queries_.embedded(chosen, embedder, progress=progress)
    if embedded.dimension != docs.dimension:
        raise InputError(
            f"queries have {embedded.dimension} dimensions and documents {docs.dimension}; embed both alike",
            file=queries.name,
        )
    inputs = tuple(Source(str(entry["path"]), entry["sha256"], 0) for entry in ingest.inputs)
    return Corpus(
        docs,
        docs.ids,
        embedded.matrix,
        chosen.ids,
        gold[kept],
        tuple(str(id) for id in chosen.gold),
        chosen.clusters,
        left_out,
        ingest,
        (Source(queries.name, queries.sha256, len(queries)), *inputs),
    )


def _documents(path: str | os.PathLike[str]) -> Documents:
    if Path(path).suffix.lower() not in (".npz", ".npy"):
        return read_documents(path)
    found = read_vectors(path)
    if found.ids is None:
        raise UsageError(f"{printable(os.fspath(path))}: documents need an array `ids` beside their vectors")
    source = Source(found.name, found.sha256, len(found))
    return Documents(found.ids, ("",) * len(found), found.matrix, (source,), found.name)


def _some(queries: Queries, kept: list[int]) -> Queries:
    return replace(
        queries,
        ids=tuple(queries.ids[i] for i in kept),
        texts=None if queries.texts is None else tuple(queries.texts[i] for i in kept),
        vectors=None if queries.vectors is None else tuple(queries.vectors[i] for i in kept),
        gold=tuple(queries.gold[i] for i in kept),
        clusters=None if queries.clusters is None else tuple(queries.clusters[i] for i in kept),
    )
