"""x"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steelyard.records.table import Source
from steelyard.retrieval.corpus import Corpus
from steelyard.retrieval.documents import Ingest
from steelyard.retrieval.vectors import Vectors


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
        Vectors("docs", matrix, names),
        names,
        np.array(queries, kind),
        tuple(query_ids or (f"q{i}" for i in range(len(queries)))),
        np.array(gold, np.int64),
        tuple(gold_ids or (names[i] for i in gold)),
        None if clusters is None else tuple(clusters),
        left_out or {},
        Ingest(size, size, dimension, "given", "", False, None, 0, (), None, 0, 0),
        (Source("queries", "0" * 64, len(queries)),),
    )
