"""A search as a run in TREC's form: what other tools read.

    topic  Q0  document  rank  score  tag

Readers of such files sort by the score as a 32-bit float and break ties by their own rules. So scores are cosines as
32-bit floats, and one that is not below the score before it is written as the next number below: the order of the
search is the order of the file.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard.errors import InputError
from steelyard.retrieval.corpus import Corpus
from steelyard.retrieval.search import Hits


def check_ids(docs: Sequence[str], queries: Sequence[str]) -> None:
    """Refuse ids that lines of words cannot hold."""
    for what, ids in (("document", docs), ("query", queries)):
        for place, id in enumerate(ids, 1):
            if len(id.split()) != 1 or id != id.strip() or id.startswith("#"):
                raise InputError(
                    f"{what} {place} cannot be named in a TREC run: its id has white space or starts with #, and "
                    "the columns of such a file are words"
                )


def trec_run(corpus: Corpus, hits: Hits, *, depth: int, tag: str) -> str:
    """The first documents of every query, one line each."""
    lines = []
    for query, top, scores in zip(corpus.query_ids, hits.top[:, :depth], hits.scores[:, :depth], strict=True):
        before = np.float32(np.inf)
        for rank, (document, score) in enumerate(zip(top, scores, strict=True), 1):
            before = min(np.float32(score), np.nextafter(before, np.float32(-np.inf)))
            lines.append(f"{query} Q0 {corpus.doc_ids[document]} {rank} {before:.9g} {tag}\n")
    return "".join(lines)
