"""Exact search: ranks and first documents against loops over pairs, ties and duplicates included."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError
from steelyard.ground import compiling
from steelyard.retrieval import kernels, search
from steelyard.retrieval.search import gold_ranks
from tests.support.search import naive_cosine, naive_order


@st.composite
def problems(draw: Any) -> tuple[list[list[int]], list[list[int]]]:
    """Small whole numbers: sums are exact, so ties are ties; copies, multiples and zero vectors are common."""
    d = draw(st.integers(1, 4))
    vector = st.lists(st.integers(-2, 2), min_size=d, max_size=d)
    docs = draw(st.lists(vector, min_size=1, max_size=12))
    docs += draw(st.lists(st.sampled_from(docs), max_size=4))
    docs += [[4 * x for x in doc] for doc in draw(st.lists(st.sampled_from(docs), max_size=3))]
    return draw(st.lists(vector, min_size=1, max_size=5)), docs


@given(problems(), st.sampled_from([np.float64, np.float32, np.int64]), st.data())
def test_ranks_under_ties(problem: Any, kind: Any, data: Any) -> None:
    queries, docs = problem
    gold = [data.draw(st.integers(0, len(docs) - 1)) for _ in queries]
    found = search.search(np.array(queries, kind), np.array(docs, kind), np.array(gold), k=5)
    for i, query in enumerate(queries):
        order = naive_order(query, docs)
        assert found.ranks[i] == order.index(gold[i]) + 1
        shown = [j for j in found.top[i] if j >= 0]
        assert shown == order[: len(shown)]
        assert len(shown) == min(5, len(docs))
        for j, score in zip(shown, found.scores[i], strict=False):
            assert score == pytest.approx(naive_cosine(query, docs[j]), abs=1e-12)
    assert found.zero_queries == sum(not any(q) for q in queries)
    assert found.zero_documents == sum(not any(d) for d in docs)


@given(st.integers(0, 10_000), st.sampled_from([np.float32, np.float64]))
def test_copies_tie_wherever_they_stand(seed: int, kind: Any) -> None:
    """Of equal documents the first comes first, though a matrix product gives them different last bits."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(7, 33)).astype(kind)
    docs = base[rng.integers(0, 7, 400)]
    queries = rng.normal(size=(20, 33)).astype(kind)
    gold = rng.integers(0, 400, 20)
    found = search.search(queries, docs, gold, k=3)
    for i in range(20):
        cosines = search.cosines(np.repeat(queries[i : i + 1], 400, axis=0), docs)
        order = np.lexsort((np.arange(400), -cosines))
        assert found.ranks[i] == int(np.flatnonzero(order == gold[i])[0]) + 1
        assert found.top[i].tolist() == order[:3].tolist()
        assert (cosines[gold[i]] == cosines[(docs == docs[gold[i]]).all(axis=1)]).all()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("k", [1, 3, 40])
def test_tiles_do_not_matter(monkeypatch: pytest.MonkeyPatch, k: int, compiled: bool) -> None:
    rng = np.random.default_rng(5)
    queries, docs = rng.normal(size=(70, 24)).astype(np.float32), rng.normal(size=(1500, 24)).astype(np.float32)
    docs[700:1400] = docs[:700]
    gold = rng.integers(0, 1500, 70)
    whole = search.search(queries, docs, gold, k=k)
    monkeypatch.setattr(search, "_ROWS", 16)
    monkeypatch.setattr(search, "_COLUMNS", 256)
    monkeypatch.setattr(kernels, "_WORTH", 1)
    if not compiled:
        monkeypatch.setattr(compiling, "available", lambda: False)
    parts = search.search(queries, docs, gold, k=k)
    for name in ("ranks", "top", "scores"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))
    exact = np.array([search.cosines(np.repeat(q[None], 1500, axis=0), docs) for q in queries])
    order = np.argsort(-exact, axis=1, kind="stable")
    assert np.array_equal(whole.top, order[:, :k])
    assert np.array_equal(whole.ranks, np.argmax(order == gold[:, None], axis=1) + 1)


@given(st.integers(0, 10_000), st.sampled_from([3, 5, 7, 0.3, 1e-5]))
def test_documents_that_point_the_same_way_tie(seed: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    docs = rng.integers(-5, 6, size=(6, 4)).astype(float)
    docs[0] += 0.5
    docs = np.concatenate([docs, docs[:1] * factor])
    queries = rng.integers(-5, 6, size=(20, 4)).astype(float)
    ranks = [gold_ranks(queries, docs, np.full(20, place)) for place in (0, 6)]
    assert (ranks[0] < ranks[1]).all()


@pytest.mark.parametrize("batch", [1, 7, 64, 300])
def test_small_numbers_after_a_large_one_are_not_lost(batch: int) -> None:
    """A 32-bit sum that starts with 1 loses small products: errors of one sign, as large as they get."""
    query = np.full(384, 2.4e-4, np.float32)
    query[0] = 1.0
    other = query.copy()
    other[200] += np.float32(1.4e-3)
    found = search.search(np.repeat(query[None], batch, axis=0), np.stack([query, other]), np.ones(batch, int), k=2)
    assert set(found.ranks.tolist()) == {2}
    assert found.top.tolist() == [[0, 1]] * batch


@pytest.mark.parametrize("k", [0, 3, 30])
def test_queries_that_are_not_asked_cost_nothing(k: int) -> None:
    """Zero queries and queries without gold, and documents that all tie: memory stays bounded, answers right."""
    rng = np.random.default_rng(3)
    docs = np.eye(40, dtype=np.float32)[rng.integers(0, 40, 5000)]
    queries = np.eye(40, dtype=np.float32)[rng.integers(0, 40, 30)]
    queries[:10] = 0
    gold = rng.integers(0, 5000, 30)
    gold[5:15] = -1
    found = search.search(queries, docs, gold, k=k)
    for i in range(30):
        cosines = search.cosines(np.repeat(queries[i : i + 1], 5000, axis=0), docs)
        order = np.argsort(-cosines, kind="stable")
        assert found.ranks[i] == (int(np.flatnonzero(order == gold[i])[0]) + 1 if gold[i] >= 0 else 0)
        assert found.top[i].tolist() == order[:k].tolist()


def test_memory_is_bounded_by_blocks() -> None:
    """All scores at once would be 3 GB."""
    rng = np.random.default_rng(1)
    queries, docs = rng.normal(size=(2_000, 3)).astype(np.float32), rng.normal(size=(400_000, 3)).astype(np.float32)
    gold = rng.integers(0, len(docs), len(queries))
    tracemalloc.start()
    try:
        found = search.search(queries, docs, gold, k=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 500 * 2**20
    for i in (0, 1_500):
        order = np.argsort(-search.cosines(np.repeat(queries[i : i + 1], len(docs), axis=0), docs), kind="stable")
        assert found.ranks[i] == int(np.flatnonzero(order == gold[i])[0]) + 1


def test_a_query_without_gold_has_no_rank() -> None:
    assert search.search([[1.0, 0.0]] * 2, [[1.0, 0.0], [0.0, 1.0]], [-1, 1]).ranks.tolist() == [0, 2]


@pytest.mark.parametrize("factor", [1e-200, 1e-30, 1.0, 1e30, 1e200])
def test_lengths_do_not_matter(factor: float) -> None:
    queries, docs = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([[1.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
    assert gold_ranks(queries * factor, docs * factor, [2, 1]).tolist() == gold_ranks(queries, docs, [2, 1]).tolist()


@pytest.mark.parametrize(
    ("queries", "docs", "gold", "problem"),
    [
        ([[1.0, 2.0]], [[1.0]], [0], "2 dimensions and docs 1"),
        ([[1.0]], [[1.0]], [1], "no index of 1 document"),
        ([[1.0]], [[1.0]], [-2], "no index"),
        ([[1.0]], [[1.0]], [0, 0], "for each of 1 query"),
        ([[1.0]], [[1.0]], [0.5], "index"),
        ([[float("nan")]], [[1.0]], [0], "queries hold a number that is not finite, in row 0"),
        ([[1.0]], [[1.0], [float("inf")]], [0], "docs hold a number that is not finite, in row 1"),
        ([1.0], [[1.0]], [0], "a matrix"),
        ([["a"]], [[1.0]], [0], "a matrix of numbers"),
        (np.zeros((0, 2)), [[1.0, 1.0]], [], "a matrix"),
    ],
)
def test_what_is_refused(queries: Any, docs: Any, gold: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        gold_ranks(queries, docs, gold)
