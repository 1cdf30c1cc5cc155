"""Intervals against their definitions, computed another way."""

from __future__ import annotations

import math
from inspect import signature

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from steelyard.records.table import Records
from steelyard.study.evaluation import evaluate
from steelyard.uncertainty import intervals
from steelyard.uncertainty.significance import holm
from steelyard.uncertainty.weights import Weights, scheme


def scored(scores: list[list[float]]) -> Records:
    """One list of row scores a cluster."""
    cluster = [i for i, rows in enumerate(scores) for _ in rows]
    flat = [float(s) for rows in scores for s in rows]
    return Records.from_columns({"item": list(range(len(flat))), "cluster": cluster, "score": flat})


def test_one_row_a_cluster_gives_the_textbook_t_interval() -> None:
    values = np.linspace(-1, 1, 30)  # no tails: every cluster counts in full
    (estimate,) = evaluate(scored([[v] for v in values]), ["mean(score)"])
    wanted = stats.t.interval(0.95, 29, values.mean(), stats.sem(values))
    assert estimate.method == "t"
    assert estimate.interval == pytest.approx(wanted, rel=1e-12)
    assert estimate.se == pytest.approx(stats.sem(values), rel=1e-12)


def test_cluster_se_equals_the_jackknife_for_equal_sizes() -> None:
    rng = np.random.default_rng(1)
    means = rng.normal(size=(25, 4))
    totals, rows = means.sum(1), np.full(25, 4.0)
    left_out = (totals.sum() - totals) / (rows.sum() - rows)
    assert intervals.cluster_se(totals, rows) == pytest.approx(intervals.jackknife_se(left_out), rel=1e-12)


def test_wilson_with_independent_rows_is_wilsons_with_t() -> None:
    outcomes = [1.0] * 30 + [0.0] * 10
    (estimate,) = evaluate(scored([[s] for s in outcomes]), ["mean(score)"])
    p, se = 0.75, math.sqrt(40 / 39 * 0.75 * 0.25 / 40)
    rows, z = p * (1 - p) / se**2, stats.t.ppf(0.975, 39)
    centre = (p + z**2 / (2 * rows)) / (1 + z**2 / rows)
    half = z / (1 + z**2 / rows) * math.sqrt(p * (1 - p) / rows + z**2 / (4 * rows**2))
    assert estimate.method == "wilson"
    assert estimate.interval == pytest.approx((centre - half, centre + half), rel=1e-12)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_all_right_or_all_wrong_still_has_an_interval(share: float) -> None:
    (estimate,) = evaluate(scored([[share] * 8 for _ in range(20)]), ["mean(score)"])
    assert estimate.interval is not None
    low, high = estimate.interval
    assert (low, high) != (share, share)
    assert low <= share <= high
    # with no minority outcome at most one row a cluster is believed: Wilson with n = 20
    z2 = stats.t.ppf(0.975, 19) ** 2
    assert high - low == pytest.approx(z2 / (20 + z2), rel=1e-9)


def test_rare_errors_in_few_clusters_believe_no_more_rows_than_clusters() -> None:
    scores = [[1.0] * 8 for _ in range(50)]
    scores[3][0] = 0.0
    (estimate,) = evaluate(scored(scores), ["mean(score)"])
    assert estimate.interval is not None
    p, z2 = 399 / 400, stats.t.ppf(0.975, 49) ** 2
    centre = (p + z2 / 100) / (1 + z2 / 50)
    half = math.sqrt(z2 * (p * (1 - p) / 50 + z2 / 10000)) / (1 + z2 / 50)
    assert estimate.interval == pytest.approx((centre - half, min(1, centre + half)), rel=1e-9)


def test_equal_shares_in_every_cluster_have_no_interval() -> None:
    (estimate,) = evaluate(scored([[1.0, 0.0] for _ in range(20)]), ["mean(score)"])
    assert estimate.value == 0.5
    assert estimate.interval is None
    assert "same share" in estimate.note


def test_bca_agrees_with_scipy_on_the_same_replicates() -> None:
    rng = np.random.default_rng(5)
    sample = rng.gamma(2, size=60)
    seeded = "rng" if "rng" in signature(stats.bootstrap).parameters else "random_state"  # before scipy 1.15
    scipys = stats.bootstrap(
        (sample,), lambda x, axis: x.mean(axis=axis) ** 2, method="BCa", n_resamples=5000, **{seeded: rng}
    )
    value = float(sample.mean() ** 2)
    left_out = np.array([np.delete(sample, i).mean() ** 2 for i in range(60)])
    found = intervals.bca(value, scipys.bootstrap_distribution, left_out, 0.025)
    assert found == pytest.approx(tuple(scipys.confidence_interval), rel=1e-9)


def test_bca_without_bias_or_skew_is_the_percentile_interval() -> None:
    replicates = np.linspace(-1, 1, 10_001)
    found = intervals.bca(0.0, replicates, np.array([-1.0, 0.0, 1.0]), 0.025)
    assert found == pytest.approx(intervals.percentile(replicates, 0.025), abs=1e-9)


def test_bca_falls_back_where_the_bias_is_infinite() -> None:
    replicates = np.linspace(0, 1, 1001)
    assert intervals.bca(2.0, replicates, np.array([0.0, 1.0]), 0.025) == intervals.percentile(replicates, 0.025)


def test_the_expanded_tail_gives_a_t_interval_for_normal_replicates() -> None:
    # percentile limits at the expanded tail are sqrt(G/(G-1))·t standard deviations out
    tail = intervals.expanded_tail(0.95, 20)
    assert -stats.norm.ppf(tail) == pytest.approx(math.sqrt(20 / 19) * stats.t.ppf(0.975, 19), rel=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_the_step_down_procedure(p: list[float]) -> None:
    adjusted = holm(p)
    order = sorted(range(len(p)), key=lambda i: p[i])
    for alpha in (0.01, 0.05, 0.5):
        rejected = set()
        for rank, i in enumerate(order):
            if p[i] * (len(p) - rank) > alpha:
                break
            rejected.add(i)
        assert {i for i, q in enumerate(adjusted) if q <= alpha} == rejected


def test_holm_leaves_undefined_values_out() -> None:
    assert holm([0.01, math.nan, 0.04])[0] == pytest.approx(0.02)
    assert math.isnan(holm([0.01, math.nan, 0.04])[1])


def test_weights_do_not_depend_on_how_they_are_drawn() -> None:
    whole = Weights(37, resamples=300, seed=7).block(0, 300)
    parts = [Weights(37, resamples=300, seed=7).block(a, a + 50) for a in range(0, 300, 50)]
    assert (whole == np.concatenate(parts)).all()
    assert (whole.sum(1) == 37).all()
    assert not (whole == Weights(37, resamples=300, seed=8).block(0, 300)).all()
    assert abs(float(whole.var()) - 36 / 37) < 0.05


def test_compiled_and_plain_weights_are_the_same_stream() -> None:
    from steelyard.metrics.evidence import passes
    from steelyard.uncertainty import weights

    plain = weights._draw(11, 3, 40, 301)
    assert (passes.tally(11, 3, 40, 301) == plain).all()


def test_legacy_weights_repeat_numpys_stream() -> None:
    source = np.random.RandomState(42)
    wanted = [np.bincount(source.randint(0, 13, 13), minlength=13) for _ in range(100)]
    assert (Weights(13, resamples=100, seed=42, stream="legacy").block(0, 100) == np.array(wanted)).all()


def test_very_many_clusters_are_drawn_independently() -> None:
    weights = Weights(100_001, resamples=3, seed=1)
    assert scheme(100_001, "counter") == "poisson"
    assert scheme(100_000, "counter") == scheme(100_001, "legacy") == "multinomial"
    block = weights.block(0, 3)
    assert (block[1:2] == weights.block(1, 2)).all()
    assert abs(float(block.mean()) - 1) < 0.01
    assert abs(float(block.var()) - 1) < 0.02
