"""Differences in which hardly any cluster takes part: the rule read naively, its examples, and its exact coverage."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from steelyard.records.table import Records
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate
from steelyard.uncertainty.sparse import sparse_delta


def spread(totals: list[float], rows: list[float]) -> float:
    """The cluster standard error of Σtotals/Σrows."""
    count, mean = len(rows), sum(totals) / sum(rows)
    square = sum((t - mean * n) ** 2 for t, n in zip(totals, rows, strict=True))
    return math.sqrt(count / (count - 1) * square) / sum(rows)


def by_the_letter(totals: list[float], rows: list[float], reach: float, level: float) -> tuple[float, float]:
    """The rule, step by step, with plain lists."""
    alpha, count = 1 - level, len(rows)
    delta, size = sum(totals) / sum(rows), sum(rows) / count
    x = [round(t / n, 12) for t, n in zip(totals, rows, strict=True)]
    t = stats.t.ppf(1 - alpha / 2, count - 1)
    moved = [v for v in x if v]
    usual = math.sqrt(sum(v * v for v in moved) / len(moved)) if moved else 0.0
    padded = [*totals, usual * size, -usual * size], [*rows, size, size]
    centre, half = sum(padded[0]) / sum(padded[1]), t * spread(*padded)
    low, high = centre - half, centre + half
    often = max(x.count(v) for v in x)
    near = min(abs(v) for v in x if x.count(v) == often)
    for v in {v for v in x if x.count(v) == often and abs(v) == near} if often >= 2 else ():
        sides = {"below": [i for i, w in enumerate(x) if w < v], "above": [i for i, w in enumerate(x) if w > v]}
        far = {"below": v + reach, "above": reach - v}
        se = {
            side: spread([abs(x[i] - v) * rows[i] if i in inside else 0.0 for i in range(count)], rows)
            for side, inside in sides.items()
        }
        off = len(sides["below"]) + len(sides["above"])
        room = {}
        for side, inside in sides.items():
            k = len(inside)
            if k >= 5:
                continue
            distance = min(far[side], max(abs(w - v) for w in x)) if off >= 5 else far[side]
            q = stats.beta.ppf(1 - alpha / 2, k + 1, count - k)
            heavy = (
                sum(n * n for n in rows) / (size * sum(rows))
                if k == 0
                else max(1.0, sum(rows[i] for i in inside) / k / size)
            )
            share = sum(rows[i] for i in inside) / sum(rows)
            room[side] = max(t * se[side], (min(1.0, q * heavy) - share) * distance)
        if "below" in room:
            low = min(low, delta - math.sqrt((t * se["above"]) ** 2 + room["below"] ** 2))
        if "above" in room:
            high = max(high, delta + math.sqrt((t * se["below"]) ** 2 + room["above"] ** 2))
    low, high = max(low, -reach), min(high, reach)
    return min(low, delta), max(high, delta)


def interval(differences: list[float], level: float = 0.95) -> tuple[float, float]:
    return sparse_delta(np.array(differences, float), np.ones(len(differences)), 1.0).at(level)


EXAMPLES = [
    ("0/60 to 60/60", [1.0] * 60, (0.881, 1.0)),
    ("0/60 to 59/60", [1.0] * 59 + [0.0], (0.838, 1.0)),
    ("+.1 for each of 60 queries", [0.1] * 60, (0.034, 0.154)),
    ("6 wins of 60", [1.0] * 6 + [0.0] * 54, (0.002, 0.185)),
    ("6 wins of 20", [1.0] * 6 + [0.0] * 14, (0.023, 0.518)),
    ("16 wins of 20", [1.0] * 16 + [0.0] * 4, (0.327, 0.992)),
    ("4 lost of 100", [-1.0] * 4 + [0.0] * 96, (-0.099, 0.013)),
]


@pytest.mark.parametrize(("name", "differences", "wanted"), EXAMPLES, ids=[e[0] for e in EXAMPLES])
def test_the_examples(name: str, differences: list[float], wanted: tuple[float, float]) -> None:
    assert interval(differences) == pytest.approx(wanted, abs=0.0006), name


@given(
    st.lists(
        st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.0, 0.0, 0.25, 1.0]), st.integers(1, 30)), min_size=3, max_size=25
    ),
    st.sampled_from([0.8, 0.95, 0.99]),
)
def test_the_rule_is_what_it_says(clusters: list[tuple[float, int]], level: float) -> None:
    rows = [float(n) for _, n in clusters]
    totals = [mean * n for mean, n in clusters]
    found = sparse_delta(np.array(totals), np.array(rows), 1.0).at(level)
    assert found == pytest.approx(by_the_letter(totals, rows, 1.0, level), abs=1e-9)


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.0, 0.5, 1.0]), min_size=3, max_size=30))
def test_more_confidence_needs_more_room(differences: list[float]) -> None:
    ends = [interval(differences, level) for level in (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)]
    for (low, high), (lower, higher) in itertools.pairwise(ends):
        assert lower <= low + 1e-12
        assert higher >= high - 1e-12


def coverage(clusters: int, lose: float, win: float) -> tuple[float, float]:
    """How often the truth lies below and above the interval: exactly, over all numbers of won and lost clusters."""
    truth, below, above = win - lose, 0.0, 0.0
    for lost in range(clusters + 1):
        for won in range(clusters + 1 - lost):
            ways = math.comb(clusters, lost) * math.comb(clusters - lost, won)
            chance = ways * lose**lost * win**won * max(0.0, 1 - lose - win) ** (clusters - lost - won)
            low, high = interval_of(clusters, lost, won)
            below += chance * (truth < low - 1e-12)
            above += chance * (truth > high + 1e-12)
    return below, above


_KNOWN: dict[tuple[int, int, int], tuple[float, float]] = {}


def interval_of(clusters: int, lost: int, won: int) -> tuple[float, float]:
    key = clusters, lost, won
    if key not in _KNOWN:
        _KNOWN[key] = interval([-1.0] * lost + [1.0] * won + [0.0] * (clusters - lost - won))
    return _KNOWN[key]


@pytest.mark.parametrize(("clusters", "least"), [(6, 0.965), (10, 0.978), (14, 0.954)])
def test_exact_coverage_of_few_clusters(clusters: int, least: float) -> None:
    shares = [0.0, 0.03, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95]
    for lose, win in itertools.product(shares, shares):
        if lose + win <= 1:
            below, above = coverage(clusters, lose, win)
            assert 1 - below - above >= least, (lose, win)
            assert max(below, above) <= 0.025, (lose, win)


def test_graded_scores_near_their_bound_allow_for_a_rare_loss() -> None:
    """A mean of nDCG near 1: an estimate of a bounded row mean whose clusters nearly all sit at the bound."""
    gains = [[1, 0]] * 57 + [[0, 1]] * 3
    records = Records.from_columns({"item": list(range(60)), "gains": gains, "judged": [[1, 0]] * 60})
    (estimate,) = evaluate(records, ["ndcg"])
    assert estimate.method == "t"
    assert estimate.interval is not None
    # three of sixty below: up to the Clopper-Pearson share of clusters could be, all the way down to 0
    unseen = stats.beta.ppf(0.975, 4, 57) - 3 / 60
    assert estimate.interval[0] == pytest.approx(float(estimate.value or 0) - unseen, abs=1e-9)
    assert estimate.interval[1] == 1.0


def test_a_bounded_value_at_its_bound_has_an_interval() -> None:
    columns = {"item": list(range(40)), "target": ["a", "b"] * 20, "prediction": ["a", "b"] * 20}
    (estimate,) = evaluate(Records.from_columns(columns), ["f1_macro"], resamples=200)
    assert estimate.value == 1.0
    assert estimate.method == "bound"
    assert estimate.interval == pytest.approx((0.025 ** (1 / 20), 1.0))  # each class sits in 20 clusters


def test_a_whole_that_turns_round_is_a_finding() -> None:
    """0/60 → 60/60 was inconclusive; a delta stays within its range."""

    def run(right: int) -> Records:
        answers = ["yes"] * right + ["no"] * (60 - right)
        return Records.from_columns({"item": list(range(60)), "target": ["yes"] * 60, "prediction": answers})

    for metric in ("accuracy", "f1.yes", "balanced_accuracy"):
        found = compare(run(0), run(60), [metric], resamples=500)[metric] if metric != "balanced_accuracy" else None
        if found is not None:
            assert found.verdict == "better"
            assert found.interval is not None
            assert found.interval[1] <= 1
    nearly = compare(run(0), run(59), ["accuracy"])["accuracy"]
    assert nearly.interval == pytest.approx((0.838, 1.0), abs=0.0006)
    assert nearly.verdict == "better"
