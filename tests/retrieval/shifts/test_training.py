"""Does training say the truth about unseen queries? Drift is found, noise is not, and folds keep their promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError, UsageError
from steelyard.ground.json import dumps
from steelyard.retrieval.corpus import Corpus
from steelyard.retrieval.shifts.kept import training_document
from steelyard.retrieval.shifts.training import Options, train
from steelyard.retrieval.wire import training_notes, training_result
from steelyard.uncertainty.folds import held_out_folds
from tests.support.retrieval import corpus_of, drifted
from tests.support.search import naive_rank, naive_training

# -- folds -------------------------------------------------------------------------------------------------------------

names = st.lists(st.sampled_from([f"c{i}" for i in range(12)]), min_size=2, max_size=40)


@given(names, st.integers(2, 15), st.integers(0, 1000), st.randoms(use_true_random=False))
def test_folds(clusters: list[str], folds: int, seed: int, random: Any) -> None:
    distinct = sorted(set(clusters))
    if len(distinct) < 2:
        with pytest.raises(InputError):
            held_out_folds(clusters, folds, seed)
        return
    found = held_out_folds(clusters, folds, seed)
    of_cluster = {name: {f for c, f in zip(clusters, found, strict=True) if c == name} for name in distinct}
    assert all(len(each) == 1 for each in of_cluster.values()), "a cluster is split"
    sizes = np.bincount([each.pop() for each in of_cluster.values()])
    assert len(sizes) == min(folds, len(distinct))
    assert sizes.max() - sizes.min() <= 1, "folds are dealt evenly"
    assert held_out_folds(clusters, folds, seed).tolist() == found.tolist()
    order = list(range(len(clusters)))
    random.shuffle(order)
    assert held_out_folds([clusters[i] for i in order], folds, seed).tolist() == [found[i] for i in order]


def test_another_seed_gives_other_folds() -> None:
    ids = [f"q{i}" for i in range(40)]
    assert len({tuple(held_out_folds(ids, 5, seed).tolist()) for seed in range(20)}) == 20


@pytest.mark.parametrize("folds", [1, 0, -3])
def test_one_fold_is_refused(folds: int) -> None:
    with pytest.raises(UsageError):
        train(drifted(0), Options(folds=folds))


# -- against loops -----------------------------------------------------------------------------------------------------


def score(rank: int) -> float:
    gain = {1: 1.0, 2: 0.6309297535714575, 3: 0.5}
    return 0.7 / rank + 0.3 * gain.get(rank, 0.0)


@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 3]),
    st.sampled_from([None, 0.3, 1.5]),
    st.sampled_from([1e-3, 0.5, 5.0]),
    st.sampled_from([1.0, 0.5, -1.0]),
    st.booleans(),
)
def test_training_against_loops(
    seed: int, hard_negatives: int, max_norm: float | None, epsilon: float, scale: float, clustered: bool
) -> None:
    rng = np.random.default_rng(seed)
    docs, queries = rng.normal(size=(7, 3)), rng.normal(size=(12, 3))
    gold = rng.integers(0, 7, 12)
    clusters = [f"c{i}" for i in rng.integers(0, 5, 12)] if clustered else None
    if clusters is not None and len(set(clusters)) < 2:
        return
    options: dict[str, Any] = {"hard_negatives": hard_negatives, "max_norm": max_norm, "epsilon": epsilon}
    corpus = corpus_of(docs, queries, gold.tolist(), clusters=clusters)
    found = train(corpus, Options(**options, scale=scale, folds=4, seed=seed), resamples=100)
    assigned = held_out_folds(clusters or corpus.query_ids, 4, seed)
    before = [naive_rank(q, docs, g) for q, g in zip(queries, gold, strict=True)]
    after = [0] * 12
    assert len(found.held_out.folds) == int(assigned.max()) + 1
    for number, fold in enumerate(found.held_out.folds):
        others, held = np.flatnonzero(assigned != number), np.flatnonzero(assigned == number)
        learned = naive_training(queries[others].tolist(), docs.tolist(), gold[others].tolist(), **options)
        cancelled = learned["norm"] < epsilon
        for i in held:
            moved = queries[i] if cancelled else queries[i] + scale * np.array(learned["delta"])
            after[i] = naive_rank(moved.tolist(), docs.tolist(), int(gold[i]))
        assert (fold.queries, fold.pairs, fold.cancelled) == (len(held), learned["pairs"], cancelled)
        assert fold.baseline == pytest.approx(np.mean([score(before[i]) for i in held]))
        assert fold.shifted == pytest.approx(np.mean([score(after[i]) for i in held]))
        assert fold.gain == pytest.approx(fold.shifted - fold.baseline, abs=1e-12)
    judged = found.held_out.score
    assert judged.n == 12
    assert judged.clusters == len(set(clusters or corpus.query_ids))
    gains = [score(b) - score(a) for a, b in zip(before, after, strict=True)]
    assert judged.delta == pytest.approx(np.mean(gains), abs=1e-12)
    whole = naive_training(queries.tolist(), docs.tolist(), gold.tolist(), **options)
    assert found.training.delta.tolist() == pytest.approx(whole["delta"], abs=1e-12)
    moved = queries + scale * np.array(whole["delta"])  # as the oracle: what it would do, cancelled or not
    final = [naive_rank(q, docs.tolist(), int(g)) for q, g in zip(moved.tolist(), gold, strict=True)]
    assert found.in_sample["SelectionMapAt1Baseline"] == pytest.approx(np.mean([1 / r for r in before]))
    assert found.in_sample["SelectionMapAt1Shifted"] == pytest.approx(np.mean([1 / r for r in final]))
    difference = np.mean([score(r) for r in final]) - np.mean([score(r) for r in before])
    assert found.in_sample["SelectionScore"] == pytest.approx(difference, abs=1e-12)
    assert found.options == Options(**options, scale=scale, folds=4, seed=seed)


def test_a_fold_is_judged_by_a_shift_that_never_saw_it() -> None:
    """Other gold documents in one fold change what the other folds learn, and nothing that this fold learns from."""
    corpus = drifted(3, queries=40)
    assigned = held_out_folds(corpus.query_ids, 5, 42)
    changed = corpus.gold.copy()
    changed[assigned == 2] = (changed[assigned == 2] + 1) % 30
    one = train(corpus, resamples=100).held_out.folds
    two = train(corpus_of(corpus.docs.matrix, corpus.queries, changed.tolist()), resamples=100).held_out.folds
    assert one[2].pairs == two[2].pairs
    assert all(a.pairs != b.pairs for a, b in zip(one, two, strict=True) if a is not one[2] and b is not two[2])


def test_the_order_of_queries_is_irrelevant() -> None:
    corpus = drifted(4)
    order = np.random.default_rng(0).permutation(len(corpus))
    mixed = corpus_of(
        corpus.docs.matrix,
        corpus.queries[order],
        corpus.gold[order].tolist(),
        query_ids=[corpus.query_ids[i] for i in order],
    )
    one, two = train(corpus, resamples=300), train(mixed, resamples=300)
    assert two.held_out.score.delta == pytest.approx(one.held_out.score.delta, abs=1e-12)
    assert two.held_out.score.interval == pytest.approx(one.held_out.score.interval, abs=1e-12)
    assert two.held_out.score.p_value == one.held_out.score.p_value
    assert [f.pairs for f in two.held_out.folds] == [f.pairs for f in one.held_out.folds]
    assert two.training.delta == pytest.approx(one.training.delta, abs=1e-12)


# -- what is claimed ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_planted_drift_is_found(seed: int) -> None:
    found = train(drifted(seed), resamples=1000)
    judged = found.held_out.score
    assert judged.interval is not None
    assert judged.interval[0] > 0
    assert judged.delta is not None
    assert judged.delta > 0.1
    assert found.held_out.helps
    assert found.usable
    delta = found.training.delta
    assert int(np.abs(delta).argmax()) == 0
    assert delta[0] < -1, "it points against the offset"
    result = training_result(found, drifted(seed), workflow="w", training_id="t", created="", base_directory="")
    assert result.usable
    assert result.why_not == ""
    assert result.improvement_first_plus_delta == result.delta_improvement == judged.delta


def pure_noise(rng: np.random.Generator) -> Corpus:
    return corpus_of(rng.normal(size=(30, 8)), rng.normal(size=(60, 8)), rng.integers(0, 30, 60).tolist())


def shuffled_gold(rng: np.random.Generator) -> Corpus:
    docs, gold = rng.normal(size=(30, 8)), rng.integers(0, 30, 60)
    queries = docs[gold] + 0.5 * rng.normal(size=(60, 8)) + 3.0 * np.eye(8)[0]
    return corpus_of(docs, queries, rng.permutation(gold).tolist())


def no_drift(rng: np.random.Generator) -> Corpus:
    """Queries find their documents more or less well, but what misleads them has no common direction."""
    docs, gold = rng.normal(size=(30, 8)), rng.integers(0, 30, 60)
    return corpus_of(docs, docs[gold] + rng.normal(size=(60, 8)), gold.tolist())


@pytest.mark.parametrize("clustered", [True, False])
def test_copies_of_queries_make_no_finding(clustered: bool) -> None:
    """Twelve queries, ten times each, with nothing shared: a copy must not be evidence, nor be seen in training."""
    claims = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        docs, queries, gold = rng.normal(size=(20, 6)), rng.normal(size=(12, 6)), rng.integers(0, 20, 12)
        copies = np.repeat(np.arange(12), 10)
        clusters = [str(i) for i in range(120)] if clustered else None
        corpus = corpus_of(docs, queries[copies], gold[copies].tolist(), clusters=clusters)
        found = train(corpus, resamples=500)
        assert found.held_out.score.clusters == 12
        claims += found.held_out.helps
    assert claims <= 3


@pytest.mark.parametrize("make", [pure_noise, shuffled_gold, no_drift])
def test_noise_is_not_said_to_help(make: Any) -> None:
    """At most 3 of 40 where nothing can be learned: a claim rests on held-out queries, not on the training ones."""
    found = [train(make(np.random.default_rng(seed)), resamples=1000) for seed in range(40)]
    assert sum(each.held_out.helps for each in found) <= 3
    assert sum(each.usable for each in found) <= 3
    in_sample = np.mean([each.in_sample["SelectionScore"] for each in found])
    held_out = np.mean([each.held_out.score.delta or 0.0 for each in found])
    assert in_sample > held_out, "in-sample numbers are optimistic"


def test_nothing_to_learn_where_every_document_is_first() -> None:
    docs = np.eye(6)
    gold = [i % 6 for i in range(24)]
    corpus = corpus_of(docs, docs[gold] + 0.01, gold)
    found = train(corpus, resamples=100)
    assert found.training.stats.pairs == 0
    assert found.training.cancelled
    assert not found.training.stats.cancel_out_suspected
    assert not found.usable
    assert found.held_out.score.delta == 0
    assert not found.held_out.helps
    assert all(fold.cancelled and fold.gain == 0 for fold in found.held_out.folds)
    result = training_result(found, corpus, workflow="w", training_id="t", created="", base_directory="")
    assert result.is_cancelled
    assert result.why_not == "cancelled"
    assert result.cancel_reason == "Delta norm 0.000000 below epsilon 0.001000"
    assert any("nothing to learn" in note for note in result.notes)


def test_directions_that_cancel_out_are_noticed() -> None:
    docs = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    queries = [[0.6, 0.8, 0.0], [0.8, 0.6, 0.0]] * 8
    corpus = corpus_of(docs, queries, [0, 1] * 8)
    found = train(corpus, Options(folds=16), resamples=100)
    assert found.training.stats.cancel_out_suspected
    assert found.training.cancelled
    assert not found.usable
    result = training_result(found, corpus, workflow="w", training_id="t", created="", base_directory="")
    assert any("cancel each other out" in note for note in result.notes)


def test_one_query_cannot_be_held_out() -> None:
    with pytest.raises(InputError, match="at least 2"):
        train(corpus_of(np.eye(3), [[1.0, 2.0, 0.0]], [0]))
    with pytest.raises(InputError, match="at least 2"):
        train(corpus_of(np.eye(3), [[1.0, 2.0, 0.0]] * 3, [0, 1, 2], clusters=["a", "a", "a"]))


def test_few_clusters_claim_nothing() -> None:
    """Five patients with many queries each: p cannot reach 0.05, however large the gain."""
    corpus = drifted(5)
    clusters = [f"c{i % 5}" for i in range(len(corpus))]
    few = corpus_of(corpus.docs.matrix, corpus.queries, corpus.gold.tolist(), clusters=clusters)
    found = train(few, resamples=1000)
    assert found.held_out.score.clusters == 5
    assert (found.held_out.score.delta or 0) > 0.1
    assert not found.held_out.helps


@pytest.mark.parametrize("hard_negatives", [0, -1])
def test_hard_negatives_are_at_least_one(hard_negatives: int) -> None:
    with pytest.raises(UsageError):
        train(drifted(0), Options(hard_negatives=hard_negatives))


@pytest.mark.parametrize("max_norm", [np.nan, np.inf])
def test_a_longest_shift_that_is_not_finite_is_refused_or_can_be_kept(max_norm: float) -> None:
    """What is kept must be JSON, which has no NaN and no infinity."""
    corpus = drifted(0)
    try:
        found = train(corpus, Options(max_norm=max_norm), resamples=100)
    except UsageError:
        return
    result = training_result(found, corpus, workflow="w", training_id="t", created="", base_directory="")
    dumps(training_document(result))


@pytest.mark.parametrize("scale", [np.nan, np.inf])
def test_the_scale_is_finite(scale: float) -> None:
    with pytest.raises(UsageError):
        train(drifted(0), Options(scale=scale), resamples=100)


# -- norms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "clipped"), [(1.0, False), (40.0, True), (1e-6, False)])
def test_a_longest_norm_is_meant_for_vectors_of_length_one(factor: float, clipped: bool) -> None:
    made = drifted(3)
    unit = [matrix / np.linalg.norm(matrix, axis=1, keepdims=True) for matrix in (made.docs.matrix, made.queries)]
    docs, queries = (np.float16(matrix) if factor == 1 else matrix * factor for matrix in unit)
    corpus = corpus_of(docs, queries, made.gold.tolist())
    for longest in (1.5, None):
        outcome = train(corpus, Options(max_norm=longest), resamples=100)
        said = [note for note in training_notes(outcome, corpus) if "not normalised" in note]
        assert bool(said) == (factor != 1 and longest is not None)
        if said:
            assert ("clipped to it from" in said[0]) == clipped
            assert f"documents have lengths from {factor:.3g} to {factor:.3g}" in said[0]
            assert "a longest shift of 1.5" in said[0]
