"""`eval.perQuery.*.json`: where each query's relevant document stood, and what stood first."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from steelyard.errors import InputError, printable
from steelyard.ground.json import dumps, read_strict
from steelyard.ground.structs import converted
from steelyard.records.table import Records, Source

_AGREES = 1e-3  # between a stated score and its rank; other tools write 32-bit floats


class PerQueryEval(msgspec.Struct, frozen=True, rename="pascal", kw_only=True, omit_defaults=False):
    """One query: the rank of its relevant document from 1 (0: not found), its scores, and the first three documents."""

    query_id: Annotated[str, Meta(min_length=1)]
    relevant_doc_id: str
    rank: Annotated[int, Meta(ge=0, le=2**31)]
    ap1: float
    ndcg3: float
    top_doc_id: str | None = None
    top_score: float | None = None
    top2_doc_id: str | None = None
    top2_score: float | None = None
    top3_doc_id: str | None = None
    top3_score: float | None = None
    cluster: Annotated[str, Meta(min_length=1)] | None = None
    seen_in_training: bool | None = None  # whether the shift was learned from this query


class PerQuery(tuple[PerQueryEval, ...]):
    """All queries of a file, and where they came from."""

    source: Source


def ap1(rank: int) -> float:
    """1/rank, not cut off; 0 where the document was not found."""
    return 1 / rank if rank else 0.0


def ndcg3(rank: int) -> float:
    """nDCG@3 with one relevant document."""
    return 1 / math.log2(rank + 1) if 1 <= rank <= 3 else 0.0


def per_query_text(entries: Sequence[PerQueryEval]) -> str:
    """The file's content. What is not documented stands only where it is known."""
    documents = [msgspec.to_builtins(entry) for entry in entries]
    for document in documents:
        for name in ("Cluster", "SeenInTraining"):
            if document[name] is None:
                del document[name]
    return dumps(documents)


def read_per_query(path: str | Path) -> PerQuery:
    """The entries of a file; ids are unique, capital letters aside, and scores are those of their ranks."""
    document, raw = read_strict(path)
    name = str(path)
    if not isinstance(document, list) or not document:
        raise InputError("a list of queries is expected", file=name)
    entries = PerQuery(converted(entry, PerQueryEval, name, f"entry {i}") for i, entry in enumerate(document, 1))
    entries.source = Source(name, hashlib.sha256(raw).hexdigest(), len(entries))
    by_id(entries, name)
    for i, entry in enumerate(entries, 1):
        for field, stated, meant in (("Ap1", entry.ap1, ap1(entry.rank)), ("Ndcg3", entry.ndcg3, ndcg3(entry.rank))):
            if not abs(stated - meant) <= _AGREES:
                raise InputError("is not what the rank gives", file=name, field=f"entry {i}.{field}")
    if len({entry.cluster is None for entry in entries}) > 1:
        raise InputError("some queries have a cluster and others have none", file=name, field="Cluster")
    return entries


def by_id(entries: Sequence[PerQueryEval], name: str) -> dict[str, PerQueryEval]:
    """Entries by their ids in small letters; a duplicate id is an error."""
    by_query: dict[str, PerQueryEval] = {}
    for i, entry in enumerate(entries, 1):
        key = entry.query_id.casefold()
        if key in by_query:
            raise InputError(
                f"the query '{printable(entry.query_id)}' appears twice, capital letters aside",
                file=name,
                field=f"entry {i}.QueryId",
            )
        by_query[key] = entry
    return by_query


def records_of(entries: Sequence[PerQueryEval]) -> Records:
    """A table with one row per query."""
    columns: dict[str, Any] = {
        "item": [entry.query_id for entry in entries],
        "gold_rank": [entry.rank for entry in entries],
    }
    if entries and entries[0].cluster is not None:
        columns["cluster"] = [entry.cluster for entry in entries]
    return Records.from_columns(columns)
