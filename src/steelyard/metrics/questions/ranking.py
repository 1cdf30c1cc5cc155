"""How well are documents ranked? One row per query; every metric is a row score, as trec_eval computes it.

`level` is the grade from which a document counts as relevant; nDCG reads the grades themselves. A query without any
relevant document scores 0, as there, and is counted in the detail.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.ground.arrays import Codes, Floats, Mask
from steelyard.metrics.contract import metric
from steelyard.metrics.evidence.sums import Cells, Terms, row_score
from steelyard.records.rankings import Rankings, rankings
from steelyard.records.table import Records

_READS = ("gains", "judged")


def _barren(s: Cells) -> dict[str, Any] | None:
    """How many queries have no relevant document: they score 0."""
    count = int(s.barren[0])
    return {"queries_without_relevant": count} if count else None


_ranked = partial(
    metric,
    better="higher",
    bounds=(0, 1),
    reads=_READS,
    reference="trec_eval 9",
    option_titles={"level": "relevant from grade {}"},
    option_aliases={"rel": "level", "cutoff": "k"},  # as ir_measures calls them
    detail=_barren,
)
_HIGHEST = 50  # a grade is an exponent


def _exponential(grade: Floats) -> Floats:
    """2^grade − 1, and what is below 0 as it is: it counts as no gain."""
    return np.where(grade > 0, 2.0 ** np.clip(grade, 0, _HIGHEST) - 1, grade)


_GAINS: dict[str, Callable[[Floats], Floats]] = {"linear": np.asarray, "exponential": _exponential}


@_ranked(
    title="nDCG",
    aliases=("ndcg_cut_{k}", "ndcg_cut.{k}", "ndcg_at_{k}"),
    also=("gain", "dcg", "graded relevance"),
    formula="Σ gain / log2(rank + 1) over ranks ≤ k, divided by the same sum in the best order of all judged; "
    "the gain is the grade, or 2^grade − 1 if exponential",
)
def ndcg(records: Records, *, k: int | None = None, gain: str = "linear") -> Terms:
    """Normalised discounted cumulative gain: graded relevance, more weight to higher ranks. Grades below 0 count 0.

    >>> round(value("ndcg@3", gains=[[None, 1]], judged=[[1]]), 3)
    0.631
    """
    if gain not in _GAINS:
        raise UsageError(f"ndcg: gain is one of {', '.join(_GAINS)}")
    ranked, cut = rankings(records, needed_by="ndcg"), _cutoff("ndcg", k)
    gained = _by_query(ranked, ranked.query, _GAINS[gain](ranked.grade), ranked.rank, cut)
    order = np.lexsort((-ranked.judged_grade, ranked.judged_query))
    owner = ranked.judged_query[order]
    best = _by_query(ranked, owner, _GAINS[gain](ranked.judged_grade[order]), _place_within(owner) + 1, cut)
    return _scored(ranked, np.divide(gained, best, out=np.zeros(ranked.queries), where=best > 0), best == 0)


@_ranked(
    title="Mean Reciprocal Rank",
    aliases=("rr", "recip_rank", "reciprocal_rank", "recip_rank_cut_{k}", "recip_rank_cut.{k}", "mrr_at_{k}"),
    also=("first hit",),
    formula="mean of 1 / rank of the first relevant document; 0 without one, or beyond k",
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


@_ranked(
    title="Mean Average Precision",
    aliases=("ap", "map_cut_{k}", "map_cut.{k}", "map_at_{k}"),
    also=("precision",),
    formula="mean over all relevant documents of the precision at their ranks; 0 for those not retrieved, or beyond k",
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


@_ranked(
    title="Precision",
    aliases=("p@", "P_{k}", "P.{k}", "precision_at_{k}"),
    also=("set_p", "setp", "p"),
    name="precision@",
    formula="relevant documents among the first k / k",
)
def precision_at(records: Records, *, k: int, level: int = 1) -> Terms:
    """Share of the first k places that hold a relevant document; a shorter ranking is filled up with misses.

    >>> value("precision@4", gains=[[1, 0]], judged=[[1, 0]])
    0.25
    """
    ranked, cut = rankings(records, needed_by="precision@k"), _cutoff("precision@k", k)
    query, rank, relevant = _relevant(ranked, level)
    return _scored(ranked, _hits(ranked, query, rank, cut) / cut, relevant == 0)


@_ranked(
    title="Recall",
    aliases=("r@", "recall_{k}", "recall_at_{k}"),
    also=("set_recall", "setr", "r"),
    name="recall@",
    formula="relevant documents among the first k / all relevant ones",
)
def recall_at(records: Records, *, k: int, level: int = 1) -> Terms:
    """Share of the relevant documents that stand among the first k.

    >>> value("recall@1", gains=[[1, 1]], judged=[[1, 1]])
    0.5
    """
    ranked, cut = rankings(records, needed_by="recall@k"), _cutoff("recall@k", k)
    query, rank, relevant = _relevant(ranked, level)
    return _scored(ranked, _hits(ranked, query, rank, cut) / np.maximum(relevant, 1), relevant == 0)


@_ranked(
    title="Hit Rate",
    aliases=("success", "success_{k}", "success.{k}", "hit_rate", "hit_rate_{k}", "hit_at_{k}"),
    also=("hit rate", "top k accuracy"),
    formula="1 if a relevant document stands among the first k, else 0",
    reference="trec_eval 9, success",
)
def hit(records: Records, *, k: int, level: int = 1) -> Terms:
    """Share of the queries with a relevant document among the first k.

    >>> value("hit@1", gains=[[None, 1], [1]], judged=[[1], [1]])
    0.5
    """
    ranked, cut = rankings(records, needed_by="hit@k"), _cutoff("hit@k", k)
    query, rank, relevant = _relevant(ranked, level)
    return _scored(ranked, np.minimum(_hits(ranked, query, rank, cut), 1.0), relevant == 0)


@_ranked(
    title="R-Precision",
    aliases=("r_precision",),
    also=("precision",),
    formula="relevant documents among the first R / R, with R relevant documents in all",
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


@metric(
    title="Judged Documents",
    also=("judgement rate", "unjudged", "holes"),
    aliases=("judged_{k}", "judged_at_{k}"),
    better="higher",
    bounds=(0, 1),
    reads=_READS,
    formula="judged documents among the first k / documents among the first k",
    reference="ir_measures, Judged",
)
def judged(records: Records, *, k: int | None = None) -> Terms:
    """Share of the first k documents that somebody judged, relevant or not; 0 where nothing was retrieved.

    Where it is low, the other metrics count as misses what nobody looked at.

    >>> value("judged@3", gains=[[None, 1]], judged=[[1, 0]])
    0.5
    """
    ranked, cut = rankings(records, needed_by="judged@k"), _cutoff("judged@k", k)
    seen = _hits(ranked, ranked.query, ranked.rank, cut)
    return _scored(ranked, seen / np.maximum(np.minimum(ranked.retrieved, cut), 1), np.zeros(ranked.queries, bool))


@_ranked(
    title="Binary Preference",
    also=("preference", "incomplete judgements"),
    aliases=("binary_preference",),
    formula="1/R Σ over the R relevant documents, if retrieved, of 1 − min(n, R) / min(N, R), with n of all N "
    "documents judged not relevant above it",
)
def bpref(records: Records, *, level: int = 1) -> Terms:
    """How seldom documents judged not relevant stand above relevant ones; what was not judged does not count.

    A grade below 0 counts as not judged.

    >>> value("bpref", gains=[[0, None, 1, 1]], judged=[[1, 1, 0, 0]])
    0.5
    """
    ranked = rankings(records, needed_by="bpref")
    _, _, relevant = _relevant(ranked, level)
    others = (ranked.judged_grade >= 0) & (ranked.judged_grade < level)
    other = np.bincount(ranked.judged_query[others], minlength=ranked.queries)
    kept = ranked.grade >= 0
    query, hit_ = ranked.query[kept], ranked.grade[kept] >= level
    above = _before(query, ~hit_)[hit_]
    query = query[hit_]
    least = np.maximum(np.minimum(relevant, other)[query], 1)
    preferred = 1 - np.minimum(above, relevant[query]) / least
    added = np.bincount(query, preferred, minlength=ranked.queries)
    return _scored(ranked, added / np.maximum(relevant, 1), relevant == 0)


@_ranked(
    title="Rank-Biased Precision",
    also=("persistence", "precision"),
    aliases=("rank_biased_precision",),
    formula="(1 − p) Σ p^(rank − 1) over relevant documents",
    reference="Moffat and Zobel, ACM TOIS 27 (2008)",
)
def rbp(records: Records, *, p: float = 0.8, level: int = 1) -> Terms:
    """Rank-biased precision: what is found by a reader who goes on to the next document with probability p.

    >>> round(value("rbp(p=0.5)", gains=[[1, None, 1]], judged=[[1, 1]]), 6)
    0.625
    """
    if not 0 <= p < 1:
        raise UsageError("rbp: the probability p of reading on is from 0 to below 1")
    ranked = rankings(records, needed_by="rbp")
    query, rank, relevant = _relevant(ranked, level)
    added: Floats = np.bincount(query, (1 - p) * p ** (rank - 1.0), minlength=ranked.queries).astype(np.float64)
    return _scored(ranked, added, relevant == 0)


@_ranked(
    title="Expected Reciprocal Rank",
    option_titles={"max_grade": "grades up to {}"},
    option_aliases={},
    also=("cascade", "reciprocal rank"),
    aliases=("expected_reciprocal_rank", "err_at_{k}", "err_cut_{k}"),
    formula="Σ 1/rank · R Π over documents above of (1 − R), with R = (2^grade − 1) / 2^max_grade",
    reference="Chapelle et al., CIKM 2009; gdeval",
)
def err(records: Records, *, k: int | None = None, max_grade: int = 4) -> Terms:
    """Expected reciprocal rank of the document that satisfies; the higher its grade, the likelier it does.

    `max_grade` is the highest grade there can be, 4 as gdeval has it. Grades below 0 count 0.

    >>> value("err@2(max_grade=1)", gains=[[1, 1]], judged=[[1, 1]])
    0.625
    """
    ranked, cut = rankings(records, needed_by="err@k"), _cutoff("err@k", k)
    if not 1 <= max_grade <= _HIGHEST:
        raise UsageError(f"err: max_grade is a whole number from 1 to {_HIGHEST}")
    if (ranked.judged_grade > max_grade).any():
        raise UsageError(f"err: there are grades above {max_grade}; give the highest there can be as max_grade=")
    inside = (ranked.grade > 0) & (ranked.rank <= cut)
    query, rank = ranked.query[inside], ranked.rank[inside]
    satisfied = _exponential(ranked.grade[inside]) / 2.0**max_grade
    place = _place_within(query)
    score, unsatisfied = np.zeros(ranked.queries), np.ones(ranked.queries)
    order = np.argsort(place, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):  # one document of each query at a time
        own = query[at]
        score[own] += unsatisfied[own] * satisfied[at] / rank[at]
        unsatisfied[own] *= 1 - satisfied[at]
    best = np.zeros(ranked.queries)
    np.maximum.at(best, ranked.judged_query, ranked.judged_grade)
    return _scored(ranked, score, best <= 0)


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


def _before(query: Codes, counted: Mask) -> Codes:
    """How many of the counted entries stand before each entry of its query; queries stand one after the other."""
    total: Codes = np.cumsum(counted) - counted
    first = np.flatnonzero(np.diff(query, prepend=-1))
    return total - np.repeat(total[first], np.diff(first, append=len(query)))


def _place_within(query: Codes) -> Codes:
    """The place of each entry among those of its query, from 0; queries stand one after the other."""
    first = np.flatnonzero(np.diff(query, prepend=-1))
    lengths = np.diff(first, append=len(query))
    return np.arange(len(query)) - np.repeat(first, lengths)
