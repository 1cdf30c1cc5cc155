"""Numbers that stand on few clusters: what is said, and that neither a verdict nor a gate rests on them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from steelyard.decide.gate import FAIL, INCONCLUSIVE, Gate
from steelyard.records.table import Records
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate


def rare_class(clusters: int, holding: int, seed: int = 0, **more: Any) -> Records:
    """Labels a and b everywhere, c in a few clusters only."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(clusters), 6)
    target = np.where(np.arange(len(cluster)) % 2 == 0, "a", "b").astype(object)
    target[(cluster < holding) & (np.arange(len(cluster)) % 6 == 5)] = "c"
    right = rng.random(len(cluster)) < 0.7
    said = np.where(right, target, np.where(target == "a", "b", "a"))
    columns = {"item": range(len(cluster)), "cluster": cluster, "target": target, "prediction": said}
    return Records.from_columns({**columns, **more})


@pytest.mark.parametrize("metric", ["f1_macro", "balanced_accuracy", "recall.c", "f1.c"])
def test_a_class_in_few_clusters_leaves_no_verdict_and_no_gate(metric: str) -> None:
    base, new = rare_class(60, 5, 1), rare_class(60, 5, 2)
    result = evaluate(base, [metric], resamples=300)
    (estimate,) = result
    assert estimate.clusters_scarcest == 5
    assert "scarce" in estimate.cautions
    assert Gate.parse(f"low({metric}) >= 0").check(result).verdict == INCONCLUSIVE
    assert Gate.parse(f"high({metric}) >= 0").check(result).verdict == FAIL
    delta = compare(base, new, [metric], resamples=300)[metric]
    assert delta.clusters_scarcest == 5
    assert delta.verdict == "inconclusive"
    assert Gate.parse(f"low(delta({metric})) >= -1").check(compare(base, new, [metric])).verdict == INCONCLUSIVE


def test_a_weighted_mean_does_not_mind_a_class_that_carries_little() -> None:
    (weighted,) = evaluate(rare_class(60, 5), ["f1_weighted"], resamples=300)
    assert weighted.clusters_scarcest == 5
    assert weighted.cautions == ()
    assert weighted.note == ""


@pytest.mark.parametrize(("holding", "note"), [(5, "too few for a verdict"), (12, "may be too narrow"), (30, "")])
def test_what_is_said_follows_the_scarcest_part(holding: int, note: str) -> None:
    (estimate,) = evaluate(rare_class(60, holding), ["balanced_accuracy"])
    assert estimate.clusters_scarcest == holding
    assert (note in estimate.note) if note else estimate.note == ""


def test_of_two_runs_the_scarcer_counts() -> None:
    """Answered positives are what a ranking stands on: a run that answers few of them is the scarcer one."""
    cluster = np.repeat(np.arange(40), 4)
    columns = {"item": range(160), "cluster": cluster, "target": ["a"] * 160, "confidence": np.linspace(0, 1, 160)}
    base = Records.from_columns({**columns, "prediction": ["a", "b"] * 80})
    new = Records.from_columns({**columns, "prediction": np.where((cluster < 4) & (np.arange(160) % 2 == 0), "b", "a")})
    assert compare(base, new, ["auroc"], resamples=300)["auroc"].clusters_scarcest == 4


def test_means_of_shares_add_up_their_clusters_spread() -> None:
    rng = np.random.default_rng(3)
    cluster = np.repeat(np.arange(30), 5)
    should = cluster < 9  # the cases that should be deferred sit in nine clusters
    declined = rng.random(150) < np.where(should, 0.6, 0.2)
    records = Records.from_columns(
        {
            "item": range(150),
            "cluster": cluster,
            "should_abstain": should,
            "prediction": [None if d else "a" for d in declined],
        }
    )
    (found,) = evaluate(records, ["deferral_balanced"])

    def part(inside: np.ndarray, hit: np.ndarray) -> tuple[float, float, int]:
        held = sorted(set(cluster[inside].tolist()))
        totals = np.array([hit[inside & (cluster == c)].sum() for c in held] + [0.0, 5.0])
        rows = np.array([(inside & (cluster == c)).sum() for c in held] + [5.0, 5.0])
        mean, n = totals.sum() / rows.sum(), len(rows)
        variance = n / (n - 1) * ((totals - mean * rows) ** 2).sum() / rows.sum() ** 2
        return float(hit[inside].mean()), float(variance), len(held)

    parts = [part(should, declined), part(~should, ~declined)]
    variance = sum(v for _, v, _ in parts) / 4  # the parts share no cluster
    freedom = min(variance**2 / sum(v**2 / 16 / (g - 1) for _, v, g in parts), 29)
    value = sum(m for m, _, _ in parts) / 2
    half = stats.t.ppf(0.975, freedom) * math.sqrt(variance)
    assert found.value == pytest.approx(value)
    assert found.interval == pytest.approx((value - half, value + half), abs=1e-9)
    assert found.clusters_scarcest == 9


def test_what_is_composed_stands_on_the_clusters_of_its_parts() -> None:
    cluster = np.repeat(np.arange(30), 4)
    said = np.where(cluster < 4, np.where(np.arange(120) % 2 == 0, "a", "b"), None)
    columns = {"item": range(120), "cluster": cluster, "target": ["a"] * 120, "prediction": said}
    records = Records.from_columns(
        {**columns, "confidence": [None if s is None else 0.5 + i / 300 for i, s in enumerate(said)]}
    )
    for metric in ("aurc", "eaurc", "augrc"):
        (found,) = evaluate(records, [metric], resamples=200)
        assert found.clusters_scarcest == 4, metric
        assert "scarce" in found.cautions, metric


def test_risk_at_a_coverage_stands_on_the_rows_it_accepts() -> None:
    """Three clusters hold all the sure answers."""
    cluster = np.repeat(np.arange(40), 5)
    confidence = np.where(cluster < 3, 0.9 + np.arange(200) / 10_000, np.arange(200) / 1000)
    columns = {"item": range(200), "cluster": cluster, "target": ["a"] * 200, "prediction": ["a", "b"] * 100}
    records = Records.from_columns({**columns, "confidence": confidence})
    (few,) = evaluate(records, ["risk_at(c=0.05)"], resamples=200)
    assert few.clusters_scarcest in (2, 3)
    (many,) = evaluate(records, ["risk_at(c=0.9)"], resamples=200)
    assert many.clusters_scarcest is not None
    assert many.clusters_scarcest > 30
