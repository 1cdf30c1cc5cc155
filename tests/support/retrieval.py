"""Documents and queries as vectors: in memory, as files, and as a store that was filled from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np

from steelyard.records.table import Source
from steelyard.retrieval.corpus import Corpus
from steelyard.retrieval.documents import Ingest
from steelyard.texts.vectors import Vectors
from tests.support.commands import Done, command

FAST = ("--resamples", 200)


class World:
    """Drifted queries as files, and a store with a baseline run, a training, and a run with its shift."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "root"
        rng = np.random.default_rng(0)
        docs, gold = rng.normal(size=(30, 8)), rng.integers(0, 30, 80)
        queries = docs[gold] + 0.4 * rng.normal(size=(80, 8)) + 3.0 * np.eye(8)[0]
        self.docs, self.queries = docs, queries
        (folder / "docs.json").write_text(json.dumps([{"id": f"d{i}", "vector": list(v)} for i, v in enumerate(docs)]))
        rows = [
            {"id": f"q{i}", "vector": list(v), "relevantDocId": f"d{g}"}
            for i, (v, g) in enumerate(zip(queries, gold, strict=True))
        ]
        rows.append({"id": "lost", "vector": list(queries[0]), "relevantDocId": "nowhere"})
        (folder / "queries.json").write_text(json.dumps(rows))
        self.files = (folder / "docs.json", folder / "queries.json")
        run = ("retrieval", "run", *self.files, *FAST, "--format", "json", "--workflow", "PosNeg")
        self.baseline = self.ok(*run)
        self.training = self.ok("shift", "train", *self.files, *FAST, "--format", "json")
        self.shifted = self.ok(*run, "--shift", "best", "--label", "model=m1")

    def __call__(self, *arguments: Any, **env: str) -> Done:
        return command(*arguments, root=self.root, **env)

    def ok(self, *arguments: Any) -> Any:
        done = self(*arguments)
        assert done.code == 0, done.err
        return done.json

    @property
    def per_query(self) -> tuple[Any, ...]:
        folder = Path(self.shifted["folder"])
        baseline, shifted = folder / "eval.perQuery.baseline.json", folder / "eval.perQuery.posneg.json"
        return shifted, baseline


def corpus_of(
    docs: Any,
    queries: Any,
    gold: Sequence[int],
    *,
    clusters: Sequence[str] | None = None,
    doc_ids: Sequence[str] | None = None,
    query_ids: Sequence[str] | None = None,
    gold_ids: Sequence[str] | None = None,
    left_out: dict[str, str] | None = None,
    kind: Any = np.float64,
) -> Corpus:
    """A corpus in memory, past the readers: vectors may be zero."""
    matrix = np.array(docs, kind)
    names = tuple(doc_ids or (f"d{i}" for i in range(len(matrix))))
    size, dimension = matrix.shape
    return Corpus(
        docs=Vectors(name="docs", matrix=matrix, ids=names),
        doc_ids=names,
        queries=np.array(queries, kind),
        query_ids=tuple(query_ids or (f"q{i}" for i in range(len(queries)))),
        gold=np.array(gold, np.int64),
        gold_ids=tuple(gold_ids or (names[i] for i in gold)),
        clusters=None if clusters is None else tuple(clusters),
        left_out=left_out or {},
        ingest=Ingest(
            documents=size,
            chunks=size,
            dimension=dimension,
            provider="given",
            model="",
            normalised=False,
            chunk_size=None,
            overlap=0,
            inputs=(),
            texts_sha256=None,
            cached=0,
            ignored_files=0,
        ),
        sources=(Source("queries", "0" * 64, len(queries)),),
    )


def drifted(seed: int, *, queries: int = 80, docs: int = 30, offset: float = 3.0, noise: float = 0.4) -> Corpus:
    """Queries are their documents with some noise and one offset that all of them share."""
    rng = np.random.default_rng(seed)
    made = rng.normal(size=(docs, 8))
    gold = rng.integers(0, docs, queries)
    shared = offset * np.eye(8)[0]
    return corpus_of(made, made[gold] + noise * rng.normal(size=(queries, 8)) + shared, gold)


def schema(name: str, root: Path) -> Any:
    done = command("schema", name, root=root)
    assert done.code == 0, done.err
    jsonschema.Draft202012Validator.check_schema(done.json)
    return jsonschema.Draft202012Validator(done.json)
