"""How well are documents ranked? One row per query; every metric is a row score, as trec_eval computes it.

`level` is the grade from which a document counts as relevant; nDCG reads the grades themselves. A query without any
relevant document scores 0, as there, and is counted in the detail.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.ground.arrays import Codes, Floats, Mask
from steelyard.metrics.contract import metric
from steelyard.metrics.definition import Definition
from steelyard.metrics.evidence.sums import Cells, Terms, row_score
from steelyard.records.rankings import Rankings, rankings
from steelyard.records.table import Records

_READS = ("gains", "judged")
_REFERENCE = "trec_eval 9"


@metric(
    better="higher",
    bounds=(0, 1),
    reads=_READS,
    formula="Σ grade / log2(rank + 1) over ranks ≤ k, divided by the same sum in the best order of all judged",
    reference=_REFERENCE,
)
def ndcg(records: Records, *, k: int | None = None) -> Terms:
    """Normalised discounted cumulative gain: graded relevance, more weight to higher ranks. Grades below 0 count 0.

    >>> round(value("ndcg@3", gains=[[None, 1]], judged=[[1]]), 3)
    0.631
    """
    ranked, cut = rankings(records, needed_by="ndcg"), _cutoff("ndcg", k)
    gained = _by_query(ranked, ranked.query, ranked.grade, ranked.rank, cut)
    order = np.lexsort((-ranked.judged_grade, ranked.judged_query))
    owner = ranked.judged_query[order]
    best = _by_query(ranked, owner, ranked.judged_grade[order], _place_within(owner) + 1, cut)
    return _scored(ranked, np.divide(gained, best, out=np.zeros(ranked.queries), where=best > 0), best == 0)


@metric(
    better="higher",
    bounds=(0, 1),
    reads=_READS,
    formula="mean of 1 / rank of the first relevant document; 0 without one, or beyond k",
    reference=_REFERENCE,
)
def mrr(records: Records, *, k: int | None = None, level: int = 1) -> Terms:
    """Mean reciprocal rank of the first relevant document.

    >>> value("mrr", gains=[[None, 1], [1]], judged=[[1], [1]])
    0.75
    """
    ranked, cut = rankings(records, needed_by="mrr"), _cutoff("mrr", k)
    query, rank, relevant = _relevant(ranked, level)
    first = np.flatnonzero(np.diff(query, prepend=-1))
    score = np.zeros(ranked.queries)
    score[query[first]] = np.where(rank[first] <= cut, 1 / rank[first], 0.0)
    return _scored(ranked, score, relevant == 0)


@metric(
    better="higher",
    bounds=(0, 1),
    reads=_READS,
    formula="mean over all relevant documents of the precision at their ranks; 0 for those not retrieved, or beyond k",
    reference=_REFERENCE,
)
def map(records: Records, *, k: int | None = None, level: int = 1) -> Terms:
    """Mean average precision. `map@k` still divides by all relevant documents, as trec_eval's map_cut does.

    >>> value("map", gains=[[1, None, 1]], judged=[[1, 1, 0]])
    0.8333333333333333
    """
    ranked, cut = rankings(records, needed_by="map"), _cutoff("map", k)
    query, rank, relevant = _relevant(ranked, level)
    precision = np.where(rank <= cut, (_place_within(query) + 1) / rank, 0.0)
    added = np.bincount(query, precision, minlength=ranked.queries)
    return _scored(ranked, added / np.maximum(relevant, 1), relevant == 0)


@metric(
    name="precision@",
    better="higher",
    bounds=(0, 1),
    reads=_READS,
    formula="relevant documents among the first k / k",
    reference=_REFERENCE,
)
def precision_at(records: Records, *, k: int, level: int = 1) -> Terms:
    """Share of the first k places that hold a relevant document; a shorter ranking is filled up with misses.

    >>> value("precision@4", gains=[[1, 0]], judged=[[1, 0]])
    0.25
    """
    ranked, cut = rankings(records, needed_by="precision@k"), _cutoff("precision@k", k)
    query, rank, relevant = _relevant(ranked, level)
    return _scored(ranked, _hits(ranked, query, rank, cut) / cut, relevant == 0)


@metric(
    name="recall@",
    better="higher",
    bounds=(0, 1),
    reads=_READS,
    formula="relevant documents among the first k / all relevant ones",
    reference=_REFERENCE,
)
def recall_at(records: Records, *, k: int, level: int = 1) -> Terms:
    """Share of the relevant documents that stand among the first k.

    >>> value("recall@1", gains=[[1, 1]], judged=[[1, 1]])
    0.5
    """
    ranked, cut = rankings(records, needed_by="recall@k"), _cutoff("recall@k", k)
    query, rank, relevant = _relevant(ranked, level)
    return _scored(ranked, _hits(ranked, query, rank, cut) / np.maximum(relevant, 1), relevant == 0)


@metric(
    better="higher",
    bounds=(0, 1),
    reads=_READS,
    formula="1 if a relevant document stands among the first k, else 0",
    reference=f"{_REFERENCE}, success",
)
def hit(records: Records, *, k: int, level: int = 1) -> Terms:
    """Share of the queries with a relevant document among the first k.

    >>> value("hit@1", gains=[[None, 1], [1]], judged=[[1], [1]])
    0.5
    """
    ranked, cut = rankings(records, needed_by="hit@k"), _cutoff("hit@k", k)
    query, rank, relevant = _relevant(ranked, level)
    return _scored(ranked, np.minimum(_hits(ranked, query, rank, cut), 1.0), relevant == 0)


@metric(
    better="higher",
    bounds=(0, 1),
    reads=_READS,
    formula="relevant documents among the first R / R, with R relevant documents in all",
    reference=_REFERENCE,
)
def rprec(records: Records, *, level: int = 1) -> Terms:
    """Precision at the number of relevant documents, where precision and recall are equal.

    >>> value("rprec", gains=[[1, 0, 1]], judged=[[1, 0, 1]])
    0.5
    """
    ranked = rankings(records, needed_by="rprec")
    query, rank, relevant = _relevant(ranked, level)
    inside = query[rank <= relevant[query]]
    hits = np.bincount(inside, minlength=ranked.queries)
    return _scored(ranked, hits / np.maximum(relevant, 1), relevant == 0)


def _barren(s: Cells) -> dict[str, Any] | None:
    """How many queries have no relevant document: they score 0."""
    count = int(s.barren[0])
    return {"queries_without_relevant": count} if count else None


_EVERY: tuple[Definition, ...] = (ndcg, mrr, map, precision_at, recall_at, hit, rprec)
for _definition in _EVERY:
    _definition.detail(_barren)


def _scored(ranked: Rankings, score: Floats, barren: Mask) -> Terms:
    return row_score(
        np.where(ranked.missing, np.nan, score),
        missing={ranked.reason: ranked.missing},
        barren=(barren & ~ranked.missing).astype(np.float64),
    )


def _cutoff(name: str, k: int | None) -> float:
    if k is not None and k < 1:
        raise UsageError(f"{name}: the cutoff is a whole number from 1")
    return np.inf if k is None else k


def _relevant(ranked: Rankings, level: int) -> tuple[Codes, Codes, Codes]:
    """Query and rank of the relevant documents that were retrieved, and how many there are for every query."""
    if level < 1:
        raise UsageError("level: the grade from which a document counts as relevant is a whole number from 1")
    retrieved = ranked.grade >= level
    relevant = np.bincount(ranked.judged_query[ranked.judged_grade >= level], minlength=ranked.queries)
    return ranked.query[retrieved], ranked.rank[retrieved], relevant


def _hits(ranked: Rankings, query: Codes, rank: Codes, cut: float) -> Floats:
    return np.bincount(query[rank <= cut], minlength=ranked.queries).astype(np.float64)


def _by_query(ranked: Rankings, query: Codes, grade: Floats, rank: Codes, cut: float) -> Floats:
    """Discounted gains added up for every query."""
    inside = (rank <= cut) & (grade > 0)
    gains = grade[inside] / np.log2(rank[inside] + 1.0)
    return np.bincount(query[inside], gains, minlength=ranked.queries).astype(np.float64)


def _place_within(query: Codes) -> Codes:
    """The place of each entry among those of its query, from 0; queries stand one after the other."""
    first = np.flatnonzero(np.diff(query, prepend=-1))
    lengths = np.diff(first, append=len(query))
    return np.arange(len(query)) - np.repeat(first, lengths)
