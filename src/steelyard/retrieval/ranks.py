"""Where the relevant documents stand: per query, as KPIs with intervals, and what a shift does to them.

Of queries with one relevant document each, `map@1` is 1/rank of it, not cut off at 1: it is what `mrr` is. With
judgements, several documents may be relevant, and metrics are those of rankings, as trec_eval computes them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.records.table import Records
from steelyard.retrieval.corpus import Corpus, Progress
from steelyard.retrieval.per_query import PerQueryEval, ap1, ndcg3, records_of
from steelyard.retrieval.search import Floats, Hits, search
from steelyard.retrieval.shifts.shift import Shift, applied
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate
from steelyard.study.ranked_lists import STACK
from steelyard.study.results import Comparison, Evaluation
from steelyard.uncertainty.settings import Settings

KPIS = ("mrr", "ndcg@3", "hit@1")
MAP_AT_1 = "map@1"
MEANING = "1/rank of the one relevant document, not cut off at 1"
DEPTH = 1000  # documents of a ranking
_FIRST = 3  # documents that are named for each query


@dataclass(frozen=True, kw_only=True)
class Side:
    """The queries as they are, or shifted: where their relevant documents stand.

    `entries` are those of queries with one relevant document each; with judgements there are none.
    """

    entries: tuple[PerQueryEval, ...]
    records: Records
    evaluation: Evaluation
    hits: Hits

    @property
    def zero_queries(self) -> int:
        """How many queries have no direction: they score 0 everywhere."""
        return self.hits.zero_queries


@dataclass(frozen=True)
class Retrieval:
    """A corpus searched with the queries as they are and, where there is a shift, shifted; and the difference."""

    baseline: Side
    shifted: Side | None
    comparison: Comparison | None
    depth: int  # how many documents of each query count, where several may be relevant


def retrieve(
    corpus: Corpus,
    shift: Shift | None = None,
    *,
    seen: Collection[str] = (),
    depth: int | None = None,
    resamples: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Retrieval:
    """Search the corpus; with a shift, twice. `seen` are digests of the queries that the shift was learned from.

    `depth` is how many documents of each query are kept; with judgements, what stands beyond it is not retrieved.
    """
    settings = settings or Settings(resamples=resamples, seed=seed, level=level)
    if depth is not None and depth < 1:
        raise UsageError("`depth=` is a whole number from 1")
    k = depth or (_FIRST if corpus.judged is None else DEPTH)
    half = progress if shift is None or progress is None else (lambda share: progress(share / 2))
    baseline = _side(corpus, corpus.queries, (), settings, k, half)
    if shift is None:
        return Retrieval(baseline, None, None, k)
    rest = None if progress is None else (lambda share: progress(0.5 + share / 2))
    shifted = _side(corpus, applied(shift, corpus.queries), seen, settings, k, rest)
    if corpus.judged is not None:
        return Retrieval(baseline, shifted, compare(baseline.records, shifted.records, STACK, settings=settings), k)
    comparison = compare(baseline.records, shifted.records, KPIS, settings=settings)
    deltas = [
        d
        for delta in comparison
        for d in ((replace(delta, metric=MAP_AT_1), delta) if delta.metric == "mrr" else (delta,))
    ]
    return Retrieval(baseline, shifted, replace(comparison, deltas=tuple(deltas)), k)


def per_query(corpus: Corpus, hits: Hits, seen: Collection[str] = ()) -> tuple[PerQueryEval, ...]:
    """One entry per query with its one relevant document."""
    entries = []
    for i, id in enumerate(corpus.query_ids):
        rank = int(hits.ranks[i])
        tops = [_top(corpus, hits.top[i], hits.scores[i], place) for place in range(_FIRST)]
        entries.append(
            PerQueryEval(
                query_id=id,
                relevant_doc_id=corpus.gold_ids[i],
                rank=rank,
                ap1=ap1(rank),
                ndcg3=ndcg3(rank),
                top_doc_id=tops[0][0],
                top_score=tops[0][1],
                top2_doc_id=tops[1][0],
                top2_score=tops[1][1],
                top3_doc_id=tops[2][0],
                top3_score=tops[2][1],
                cluster=None if corpus.clusters is None else corpus.clusters[i],
                seen_in_training=corpus.digests[i] in seen if seen else None,
            )
        )
    return tuple(entries)


def _top(corpus: Corpus, documents: Any, scores: Floats, place: int) -> tuple[str | None, float | None]:
    if place >= len(documents) or documents[place] < 0:
        return None, None
    return corpus.doc_ids[documents[place]], float(np.clip(scores[place], -1.0, 1.0))


def _side(
    corpus: Corpus, queries: Any, seen: Collection[str], settings: Settings, depth: int, progress: Progress | None
) -> Side:
    gold = corpus.gold if corpus.judged is None else None
    hits = search(queries, corpus.docs.matrix, gold, k=max(depth, _FIRST), progress=progress)
    entries = per_query(corpus, hits, seen) if corpus.judged is None else ()
    records = records_of(entries) if corpus.judged is None else _ranked(corpus, hits, depth)
    evaluation = evaluate(records, KPIS if corpus.judged is None else STACK, keep_evidence=True, settings=settings)
    counted = tuple(replace(e, excluded={**e.excluded, **corpus.reasons}) for e in evaluation)
    known = sum(digest in seen for digest in corpus.digests)
    warnings = (*evaluation.warnings, *([seen_remark(known, len(corpus))] if known else []))
    evaluation = replace(evaluation, estimates=counted, sources=corpus.sources, warnings=warnings)
    return Side(
        entries=entries,
        records=records,
        evaluation=with_map_at_1(evaluation) if corpus.judged is None else evaluation,
        hits=hits,
    )


def _ranked(corpus: Corpus, hits: Hits, depth: int) -> Records:
    """A table with one row per query: the grades of what was found, and all judged ones."""
    assert corpus.judged is not None
    columns: dict[str, Any] = {
        "item": list(corpus.query_ids),
        **corpus.judged.columns(len(corpus), len(corpus.doc_ids), hits.top[:, :depth]),
        **({} if corpus.clusters is None else {"cluster": list(corpus.clusters)}),
    }
    return Records.from_columns(columns)


def seen_remark(seen: int, queries: int) -> str:
    """What must be said where a shift meets the queries it was learned from."""
    return (
        f"the shift was learned from {seen} of these {queries} queries: it is judged on what it has seen; "
        "its held-out score says what to expect of others"
    )


def with_map_at_1(evaluation: Evaluation) -> Evaluation:
    """The same with `mrr` under its documented name too, kept evidence included."""
    estimates = []
    for e in evaluation:
        if e.metric == "mrr":
            estimates.append(replace(e, metric=MAP_AT_1, notes=(MEANING, *e.notes)))
        estimates.append(e)
    kept = [
        replace(
            part,
            evidence={**part.evidence, MAP_AT_1: part.evidence["mrr"]},
            constants={**part.constants, MAP_AT_1: part.constants.get("mrr", {})},
        )
        for part in evaluation.kept
    ]
    return replace(evaluation, estimates=tuple(estimates), kept=tuple(kept))
