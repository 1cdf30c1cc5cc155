"""The four evaluators against loops over queries and references, and where they are undefined."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.errors import InputError, UsageError
from steelyard.retrieval.diagnosis import Relevance, diagnose, evaluators
from steelyard.retrieval.shifts.shift import NoShift, applied, shift_of
from steelyard.retrieval.wire import diagnosis_document
from tests.support.search import naive_cosine, naive_order

NAMES = ["CosineSimilarityEvaluator", "MarginEvaluator", "NdcgEvaluator", "MrrEvaluator"]


def naive(query: list[float], refs: list[list[float]], relevant: list[int], k: int, mrr_index: int) -> list[Any]:
    """Section 6.3 of the document, one query at a time."""
    cosines = [naive_cosine(query, ref) for ref in refs]
    order = naive_order(query, refs)
    falling = sorted(cosines, reverse=True)
    k = max(k, 1)
    inside = {index for index in relevant if index < len(refs)}
    gained = sum(1 / math.log2(place + 2) for place, j in enumerate(order[:k]) if j in inside)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(k, len(inside))))
    return [
        sum(cosines) / len(cosines),
        falling[0] - falling[1] if len(falling) > 1 else None,
        gained / ideal if ideal else 0.0,
        1 / (order.index(mrr_index) + 1) if mrr_index < len(refs) else 0.0,
    ]


@st.composite
def problems(draw: Any) -> dict[str, Any]:
    d = draw(st.integers(1, 4))
    vector = st.lists(st.integers(-2, 2), min_size=d, max_size=d)
    refs = draw(st.lists(vector, min_size=1, max_size=8))
    refs += draw(st.lists(st.sampled_from(refs), max_size=4))
    return {
        "queries": draw(st.lists(vector, min_size=1, max_size=5)),
        "refs": refs,
        "relevant": draw(st.lists(st.integers(0, 14), max_size=6)),
        "k": draw(st.integers(-1, 12)),
        "mrr_index": draw(st.integers(0, 13)),
        "factor": draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]), min_size=d, max_size=d)),
        "offset": draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=d, max_size=d)),
    }


@example(  # two references tie but for rounding
    {
        "queries": [[1, -1, 1]], "refs": [[-1, -2, 2], [0, 0, 1]], "relevant": [], "k": 0, "mrr_index": 0,
        "factor": [-1.0] * 3, "offset": [-1.0] * 3,
    },
    np.float64,
    "none",
)  # fmt: skip
@given(problems(), st.sampled_from([np.float64, np.float32]), st.sampled_from(["none", "additive", "multiplicative"]))
def test_against_loops(problem: dict[str, Any], kind: Any, how: str) -> None:
    queries, refs = np.array(problem["queries"], kind), np.array(problem["refs"], kind)
    vector = {"none": None, "additive": problem["offset"], "multiplicative": problem["factor"]}[how]
    shift = shift_of(how, vector)
    relevance = Relevance(tuple(problem["relevant"]), problem["k"], problem["mrr_index"])
    about = (problem["relevant"], problem["k"], problem["mrr_index"])
    moved = applied(shift, queries).astype(float).tolist()
    wanted = {
        side: [naive([float(x) for x in q], problem["refs"], *about) for q in rows]
        for side, rows in (("baseline", problem["queries"]), ("shift", moved))
    }
    for place, name in enumerate(NAMES):
        found = evaluators[name](np.array(moved, kind), refs, relevance)
        for score, expected in zip(found, wanted["shift"], strict=True):
            assert np.isnan(score) if expected[place] is None else score == pytest.approx(expected[place], abs=1e-6)
    found = diagnose(queries, refs, shift, baseline=True, relevance=relevance, resamples=100)
    for place, name in enumerate(NAMES):
        means = {
            side: None if rows[0][place] is None else sum(row[place] for row in rows) / len(rows)
            for side, rows in wanted.items()
        }
        assert found.metrics[f"{name}.baseline"] == pytest.approx(means["baseline"], abs=1e-6)
        assert found.metrics[f"{name}.shift"] == found.metrics[name] == pytest.approx(means["shift"], abs=1e-6)
        if means["shift"] is None or means["baseline"] is None:
            assert found.metrics[f"{name}.delta"] is None
        else:
            wanted_delta = means["shift"] - means["baseline"]
            assert found.metrics[f"{name}.delta"] == pytest.approx(wanted_delta, abs=1e-6)
    assert found.zero_queries == sum(not any(q) for q in moved)
    assert (found.queries, found.references) == (len(queries), len(refs))


def test_the_registry_keeps_the_documented_names() -> None:
    assert list(evaluators) == NAMES


def test_a_margin_needs_two_references() -> None:
    found = diagnose(np.eye(2), np.array([[1.0, 1.0]]), NoShift(), baseline=True, resamples=100)
    for key in ("MarginEvaluator", "MarginEvaluator.baseline", "MarginEvaluator.shift", "MarginEvaluator.delta"):
        assert found.metrics[key] is None
    assert found.metrics["NdcgEvaluator"] == found.metrics["MrrEvaluator"] == 1.0
    document = diagnosis_document(found, {})
    (margin,) = (e for e in document["estimates"] if "Margin" in e["metric"])
    assert margin["value"] is None
    assert margin["note"]


def test_intervals_and_deltas_stand_beside_the_means() -> None:
    rng = np.random.default_rng(0)
    queries, refs = rng.normal(size=(50, 6)), rng.normal(size=(9, 6))
    found = diagnose(queries, refs, shift_of("additive", rng.normal(size=6)), baseline=True, resamples=300)
    assert found.comparison is not None
    for name, estimate, delta in zip(NAMES, found.evaluation, found.comparison, strict=True):
        assert estimate.metric == delta.metric == f"mean({name}, better=higher)"
        assert estimate.value == pytest.approx(found.metrics[name], abs=1e-12)
        assert estimate.interval is not None
        assert estimate.interval[0] <= estimate.value <= estimate.interval[1]
        assert delta.delta == pytest.approx(found.metrics[f"{name}.delta"], abs=1e-12)
        assert (delta.base, delta.new) == pytest.approx(
            (found.metrics[f"{name}.baseline"], found.metrics[f"{name}.shift"]), abs=1e-12
        )


def test_no_shift_differs_in_nothing() -> None:
    rng = np.random.default_rng(1)
    found = diagnose(rng.normal(size=(30, 4)), rng.normal(size=(5, 4)), NoShift(), baseline=True, resamples=100)
    assert all(found.metrics[f"{name}.delta"] == 0 for name in NAMES)


def test_all_queries_the_same_zero_looks_perfect_in_ranks_and_not_in_cosines() -> None:
    """A shift that makes every query 0 gives the first reference rank 1: the cosine says why."""
    rng = np.random.default_rng(2)
    queries, refs = np.abs(rng.normal(size=(20, 4))), np.abs(rng.normal(size=(5, 4)))
    found = diagnose(queries, refs, shift_of("multiplicative", [0.0] * 4), baseline=True, resamples=100)
    assert found.metrics["MrrEvaluator"] == found.metrics["NdcgEvaluator"] == 1.0
    assert found.metrics["CosineSimilarityEvaluator"] == found.metrics["MarginEvaluator"] == 0.0
    assert found.zero_queries == 20


@pytest.mark.parametrize(("indices", "mrr_index"), [((-1,), 0), ((0,), -1), ((0, 2, -7), 0)])
def test_indices_count_from_0(indices: tuple[int, ...], mrr_index: int) -> None:
    with pytest.raises(UsageError):
        Relevance(indices, 10, mrr_index)


def test_a_shift_of_another_dimension_is_refused() -> None:
    with pytest.raises(InputError):
        diagnose(np.eye(3), np.eye(3), shift_of("additive", [1.0]), resamples=100)


@pytest.mark.parametrize("factor", [1e-300, 1e300])
def test_very_short_and_very_long_vectors_have_directions(factor: float) -> None:
    queries, refs = np.array([[0.6, 0.8], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    plain = diagnose(queries, refs, NoShift(), resamples=100).metrics
    scaled = diagnose(factor * queries, refs, NoShift(), resamples=100).metrics
    for name in NAMES:
        assert scaled[name] == pytest.approx(plain[name], abs=1e-12)
