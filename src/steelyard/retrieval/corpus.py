"""Documents and queries together, ready to be searched: which queries count, and which do not and why.

A query counts where its one relevant document is known and its vector has the documents' dimension; with judgements,
where it was judged. The others are left out and counted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from steelyard.errors import InputError, UsageError
from steelyard.records.table import Source
from steelyard.retrieval import documents as documents_
from steelyard.retrieval import queries as queries_
from steelyard.retrieval.documents import Documents, Ingest, read_documents
from steelyard.retrieval.judgements import Judged, Judgements, judged, read_judgements
from steelyard.retrieval.queries import Queries, read_queries
from steelyard.retrieval.search import Codes
from steelyard.texts.embedders import Embedder
from steelyard.texts.embedders import embedder as named_embedder
from steelyard.texts.vectors import Matrix, Vectors, directions, folded, lacks, read_vectors

Progress = Callable[[float], None]
UNKNOWN, OTHER_DIMENSION = "no known relevant document", "another dimension than the documents"
NOT_JUDGED = "not judged"


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus:
    """Documents and the effective queries, with the index of each one's relevant document.

    With judgements, `judged` says which documents are relevant, and `gold` is −1 and `gold_ids` empty.
    """

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
    embedder: tuple[str, str] = ("given", "")  # provider and model of the vectors
    judged: Judged | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """A digest of each query's vector: enough to know the query again, whatever it is called."""
        return vector_digests(self.queries)

    def __len__(self) -> int:
        return len(self.query_ids)

    @property
    def reasons(self) -> dict[str, int]:
        """How many queries were left out, by reason."""
        counts: dict[str, int] = {}
        for reason in self.left_out.values():
            counts[reason] = counts.get(reason, 0) + 1
        return counts


def load(
    docs: str | os.PathLike[str],
    queries: str | os.PathLike[str],
    embedder: Embedder | None = None,
    *,
    qrels: str | os.PathLike[str] | None = None,
    chunk_size: int | None = None,
    overlap: int = 0,
    check: Callable[[Sequence[str], Sequence[str]], None] | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """Read documents and queries, and embed what is not vectors yet: with `hash` where no embedder is named.

    Where only one side has vectors, the embedder that made them must be named: another one's vectors mean nothing to
    them. `qrels` are judgements, instead of the one relevant document that queries name. `check` looks at the ids of
    documents and queries before anything is embedded.
    """
    asked, read = read_queries(queries), _documents(docs)
    judgements = None if qrels is None else read_judgements(qrels)
    if judgements is None and asked.lacking is not None:
        raise asked.lacking
    if check is not None:
        check(read.ids, asked.ids)
    if embedder is None and (read.vectors is None or asked.vectors is None):
        if (read.vectors is None) != (asked.vectors is None):
            raise UsageError(
                "one of documents and queries has vectors and the other texts: name the embedder that made the vectors"
            )
        embedder = named_embedder("hash")
    if embedder is not None and read.vectors is None and asked.vectors is None:
        _check_precomputed(embedder, read.ids, asked.ids)
    _, left_out = _gold(read.ids, asked, judgements)
    if len(left_out) == len(asked):
        raise _nothing_counts(left_out, asked)  # known before anything is embedded
    if judgements is not None:
        judged(judgements, asked.ids, read.ids)
    vectors, ingest = documents_.embedded(read, embedder, chunk_size=chunk_size, overlap=overlap, progress=progress)
    return corpus(vectors, ingest, asked, embedder, judgements, progress=progress)


def _check_precomputed(embedder: Embedder, docs: Sequence[str], queries: Sequence[str]) -> None:
    """One file of vectors serves documents and queries only if it can tell them apart."""
    if embedder.provider == "npy":
        raise UsageError("npy has one vector after the other, for documents or for queries; use npz with ids for both")
    if embedder.provider == "npz":
        both = {folded(id) for id in docs} & {folded(id) for id in queries}
        if both:
            raise UsageError(
                f"{len(both)} ids are used by a document and by a query, so one file cannot hold both vectors; "
                "give documents or queries as .npz files of their own"
            )


def corpus(
    docs: Vectors,
    ingest: Ingest,
    queries: Queries,
    embedder: Embedder | None,
    judgements: Judgements | None = None,
    *,
    progress: Progress | None = None,
) -> Corpus:
    """Documents with those of the queries that count."""
    assert docs.ids is not None
    gold, left_out = _gold(docs.ids, queries, judgements)
    if queries.vectors is not None:
        odd = [len(vector) != docs.dimension for vector in queries.vectors]
        left_out |= {id: OTHER_DIMENSION for id, is_odd in zip(queries.ids, odd, strict=True) if is_odd}
    kept = [i for i, id in enumerate(queries.ids) if id not in left_out]
    if not kept:
        raise _nothing_counts(left_out, queries)
    effective = _subset(queries, kept)
    embedded = queries_.embedded(effective, embedder, progress=progress)
    if embedded.dimension != docs.dimension:
        raise InputError(
            f"queries have {embedded.dimension} dimensions and documents {docs.dimension}; embed both alike",
            file=queries.name,
        )
    embedded_by = (ingest.provider, ingest.model)
    if ingest.provider == "given" and embedder is not None and queries.vectors is None:
        embedded_by = (embedder.provider, embedder.model)
    return Corpus(
        docs=docs,
        doc_ids=docs.ids,
        queries=embedded.matrix,
        query_ids=effective.ids,
        gold=gold[kept],
        gold_ids=tuple(str(id) for id in effective.gold) if judgements is None else (),
        clusters=effective.clusters,
        left_out=left_out,
        ingest=ingest,
        sources=(
            Source(queries.name, queries.sha256, len(queries)),
            _source(docs, ingest),
            *([] if judgements is None else [judgements.source]),
        ),
        embedder=embedded_by,
        judged=None if judgements is None else judged(judgements, effective.ids, docs.ids),
        notes=() if judgements is None else tuple(_judged_notes(judgements, queries, docs.ids)),
    )


def _gold(docs: Sequence[str], queries: Queries, judgements: Judgements | None) -> tuple[Codes, dict[str, str]]:
    """The index of each query's relevant document, −1 where it is not known; and queries to leave out, with the reason.

    With judgements no query has the one relevant document, and those that were not judged are left out.
    """
    if judgements is not None:
        return np.full(len(queries), -1), {id: NOT_JUDGED for id in queries.ids if id not in judgements.grades}
    places = {folded(id.strip()): place for place, id in enumerate(docs)}
    gold = np.array([places.get(folded(id.strip()), -1) if id else -1 for id in queries.gold])
    return gold, {id: UNKNOWN for id, place in zip(queries.ids, gold, strict=True) if place < 0}


def _judged_notes(judgements: Judgements, queries: Queries, docs: Sequence[str]) -> list[str]:
    """What judgements and corpus do not share, and what is not used."""
    asked, known = set(queries.ids), set(docs)
    strangers = sum(topic not in asked for topic in judgements.grades)
    lost = {id for topic, grades in judgements.grades.items() if topic in asked for id in grades} - known
    notes = [f"{strangers} judged topics are not among the queries"] if strangers else []
    if lost:
        notes.append(f"{len(lost)} judged documents are not among the documents: they count as not retrieved")
    if any(gold is not None for gold in queries.gold):
        notes.append("the relevant documents that the queries name are not used: the judgements say which are")
    return notes


def _nothing_counts(left_out: Mapping[str, str], queries: Queries) -> InputError:
    reasons = sorted(set(left_out.values()))
    hint = "embed both with the same model"
    if UNKNOWN in reasons:
        hint = "do queries and documents use the same ids?"
    elif NOT_JUDGED in reasons:
        hint = "do queries and judgements use the same ids?"
    return InputError(f"no query counts: {', '.join(reasons)}; {hint}", file=queries.name)


def _source(docs: Vectors, ingest: Ingest) -> Source:
    """The documents as one input: a folder by the digest of its texts; its files stand in the ingest manifest."""
    if len(ingest.inputs) == 1:
        return Source(str(ingest.inputs[0]["path"]), ingest.inputs[0]["sha256"], 0)
    return Source(docs.name, ingest.texts_sha256, 0)


def vector_digests(queries: Matrix) -> tuple[str, ...]:
    """A digest of each row's direction to four decimals: whatever its length, kind of float or sign of zero."""
    places = np.round(directions(queries) * 10_000).astype(np.int16)
    return tuple(hashlib.sha256(row.tobytes()).hexdigest()[:16] for row in places)


def _documents(path: str | os.PathLike[str]) -> Documents:
    if Path(path).suffix.lower() not in (".npz", ".npy"):
        return read_documents(path)
    vectors = read_vectors(path)
    ids = vectors.ids
    if ids is None and vectors.arrays:
        raise lacks(vectors, "ids", "ids has the name of each document")
    ids = ids or tuple(map(str, range(len(vectors))))
    source = Source(vectors.name, vectors.sha256, len(vectors))
    return Documents(ids=ids, texts=("",) * len(vectors), vectors=vectors.matrix, sources=(source,), name=vectors.name)


def _subset(queries: Queries, kept: list[int]) -> Queries:
    return replace(
        queries,
        ids=tuple(queries.ids[i] for i in kept),
        texts=None if queries.texts is None else tuple(queries.texts[i] for i in kept),
        vectors=None if queries.vectors is None else tuple(queries.vectors[i] for i in kept),
        gold=tuple(queries.gold[i] for i in kept),
        clusters=None if queries.clusters is None else tuple(queries.clusters[i] for i in kept),
    )
