"""Where relevant documents stand, against loops: per query, as KPIs, and as paired differences under a shift."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError
from steelyard.retrieval.corpus import UNKNOWN
from steelyard.retrieval.ranks import per_query, retrieve
from steelyard.retrieval.search import search
from steelyard.retrieval.shifts.named import NamedShift
from steelyard.retrieval.shifts.shift import NoShift, applied, shift_of
from steelyard.retrieval.wire import retrieval_document
from tests.support.retrieval import corpus_of, drifted
from tests.support.search import naive_cosine, naive_order
from tests.support.search import problems as shift_problems


def naive_entry(query: list[float], docs: list[list[float]], gold: int) -> list[Any]:
    order = naive_order(query, docs)
    rank = order.index(gold) + 1
    tops: list[Any] = []
    for place in range(3):
        known = place < len(order)
        tops += [f"d{order[place]}", naive_cosine(query, docs[order[place]])] if known else [None, None]
    return [rank, 1 / rank, 1 / math.log2(rank + 1) if rank <= 3 else 0.0, *tops]


@given(shift_problems(), st.sampled_from([np.float64, np.float32]), st.data())
def test_per_query_against_loops(problem: dict[str, Any], kind: Any, data: Any) -> None:
    docs, queries = problem["docs"], problem["queries"]
    gold = [data.draw(st.integers(0, len(docs) - 1)) for _ in queries]
    offset = data.draw(st.lists(st.sampled_from([-1.0, 0.0, 2.0]), min_size=len(docs[0]), max_size=len(docs[0])))
    corpus = corpus_of(docs, queries, gold, kind=kind)
    for shift in (NoShift(), shift_of("additive", offset)):
        moved = applied(shift, corpus.queries)
        hits = search(moved, corpus.docs.matrix, corpus.gold, k=3)
        entries = per_query(corpus, hits)
        assert hits.zero_queries == sum(not any(q) for q in moved.tolist())
        for i, entry in enumerate(entries):
            wanted = naive_entry(moved[i].tolist(), docs, gold[i])
            found = [entry.rank, entry.ap1, entry.ndcg3, entry.top_doc_id, entry.top_score]
            found += [entry.top2_doc_id, entry.top2_score, entry.top3_doc_id, entry.top3_score]
            for one, other in zip(found, wanted, strict=True):
                assert one == (pytest.approx(other, abs=1e-12) if isinstance(other, float) else other)
            assert (entry.query_id, entry.relevant_doc_id, entry.cluster) == (f"q{i}", f"d{gold[i]}", None)
            scores = [s for s in (entry.top_score, entry.top2_score, entry.top3_score) if s is not None]
            assert all(-1 <= s <= 1 for s in scores)
            assert scores == sorted(scores, reverse=True)


@given(st.integers(0, 10_000), st.booleans())
def test_kpis_against_loops(seed: int, clustered: bool) -> None:
    rng = np.random.default_rng(seed)
    docs, queries, gold = rng.normal(size=(9, 4)), rng.normal(size=(15, 4)), rng.integers(0, 9, 15)
    clusters = [f"c{i}" for i in rng.integers(0, 6, 15)] if clustered else None
    corpus = corpus_of(docs, queries, gold.tolist(), clusters=clusters)
    offset = rng.normal(size=4)
    found = retrieve(corpus, shift_of("additive", offset, scale=0.5), resamples=100)
    assert found.shifted is not None
    assert found.comparison is not None
    means = []
    for side, rows in ((found.baseline, queries), (found.shifted, queries + 0.5 * offset)):
        entries = [naive_entry(q, docs.tolist(), int(g)) for q, g in zip(rows.tolist(), gold, strict=True)]
        mean = {
            "map@1": float(np.mean([e[1] for e in entries])),
            "mrr": float(np.mean([e[1] for e in entries])),
            "ndcg@3": float(np.mean([e[2] for e in entries])),
            "hit@1": float(np.mean([e[0] == 1 for e in entries])),
        }
        assert {e.metric: e.value for e in side.evaluation} == pytest.approx(mean, abs=1e-12)
        for e in side.evaluation:
            assert e.n == 15
            assert e.clusters == (len(set(clusters)) if clusters else 15)
        means.append(mean)
    for delta in found.comparison:
        assert (delta.base, delta.new) == pytest.approx((means[0][delta.metric], means[1][delta.metric]), abs=1e-12)
        assert delta.delta == pytest.approx(means[1][delta.metric] - means[0][delta.metric], abs=1e-12)
    assert [d.metric for d in found.comparison] == ["map@1", "mrr", "ndcg@3", "hit@1"]


def test_map_at_1_is_mrr_in_everything() -> None:
    corpus = drifted(0)
    found = retrieve(corpus, shift_of("additive", -3.0 * np.eye(8)[0]), resamples=300)
    assert found.shifted is not None
    assert found.comparison is not None
    for side in (found.baseline, found.shifted):
        one, other = side.evaluation["map@1"], side.evaluation["mrr"]
        assert (one.value, one.interval, one.se, one.n) == (other.value, other.interval, other.se, other.n)
        assert "not cut off" in one.note
        for kept in side.evaluation.kept:
            assert kept.evidence["map@1"] is kept.evidence["mrr"]
    one, other = found.comparison["map@1"], found.comparison["mrr"]
    assert (one.delta, one.interval, one.p_value, one.verdict) == (
        other.delta,
        other.interval,
        other.p_value,
        other.verdict,
    )
    assert one.verdict == "better"


def test_queries_without_a_known_document_are_counted() -> None:
    corpus = corpus_of(np.eye(3), [[1.0, 0.5, 0.0]] * 4, [0, 1, 2, 0], left_out={"x": UNKNOWN, "y": UNKNOWN})
    found = retrieve(corpus, resamples=100)
    assert found.shifted is None
    assert found.comparison is None
    for e in found.baseline.evaluation:
        assert e.n == 4
        assert sum(e.excluded.values()) == 2
    document = retrieval_document(found, corpus, None)
    assert document["effective_queries"] == 4
    assert document["left_out"] == {UNKNOWN: 2}
    assert document["ties"] == "equal cosines in document order"
    assert "deltas" not in document
    assert "posneg" not in document
    assert any("2 queries left out" in note for note in document["notes"])


def test_zero_queries_are_said() -> None:
    corpus = corpus_of(np.eye(3), [[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]], [2, 2])
    shift = shift_of("additive", [-1.0, 0.0, 0.0])
    found = retrieve(corpus, shift, resamples=100)
    document = retrieval_document(found, corpus, NamedShift(shift, "mine"))
    assert document["zero_queries"] == {"baseline": 0, "posneg": 1}
    assert any("1 shifted queries have no direction" in note for note in document["notes"])
    assert found.shifted is not None
    assert found.shifted.entries[0].rank == 3
    assert found.shifted.entries[0].top_score == 0.0


def test_documents_are_never_shifted_and_nothing_is_normalised() -> None:
    corpus = corpus_of([[10.0, 0.0], [0.0, 0.1]], [[3.0, 4.0]], [0])
    docs, queries = corpus.docs.matrix.copy(), corpus.queries.copy()
    retrieve(corpus, shift_of("additive", [5.0, 0.0]), resamples=100)
    assert (corpus.docs.matrix == docs).all()
    assert (corpus.queries == queries).all()


def test_the_order_of_queries_is_irrelevant() -> None:
    corpus = drifted(1)
    order = np.random.default_rng(0).permutation(len(corpus))
    mixed = corpus_of(
        corpus.docs.matrix,
        corpus.queries[order],
        corpus.gold[order].tolist(),
        query_ids=[corpus.query_ids[i] for i in order],
    )
    shift = shift_of("additive", -2.0 * np.eye(8)[0])
    one, two = (retrieve(each, shift, resamples=300) for each in (corpus, mixed))
    assert one.comparison is not None
    assert two.comparison is not None
    for a, b in zip(one.comparison, two.comparison, strict=True):
        assert b.delta == pytest.approx(a.delta, abs=1e-12)
        assert b.interval == pytest.approx(a.interval, abs=1e-12)
        assert b.p_value == a.p_value


def test_progress_ends_at_1_and_never_falls() -> None:
    seen: list[float] = []
    retrieve(drifted(2), shift_of("additive", np.ones(8)), resamples=100, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_a_shift_that_is_too_far_is_refused() -> None:
    with pytest.raises(InputError):
        retrieve(corpus_of(np.eye(2), np.eye(2), [0, 1]), shift_of("additive", [1e308, 1e308], scale=10), resamples=100)
