"""A short form of `make coverage`: do 95% intervals hold the truth, and are equal runs called equal?

Seeds are fixed, so a test passes or fails for good. The bounds are those that a right method would miss in one of a
thousand seeds; `test_bounds_notice` shows that wrong methods do miss them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy.stats import binom

from bench.coverage import (
    PAIRINGS,
    POPULATIONS,
    Plan,
    Population,
    Random,
    Tally,
    comparisons,
    evaluations,
    true_deltas,
    true_values,
)
from steelyard.records.table import Records

PLAN = Plan(replications=240, resamples=500, truth_clusters=20_000, seed=7)
EVERY = range(PLAN.replications)
RARE = 0.001
NOMINAL = 0.95
GOAL = 0.055  # false alarms
SMOOTH = ("accuracy", "selective_accuracy", "f1_macro", "auroc", "aurc", "augrc", "brier", "deferral_balanced")


def population(name: str, *metrics: str) -> Population:
    found = next(p for p in POPULATIONS if p.name == name)
    return replace(found, metrics=metrics or found.metrics)


def tallies(drawn: Population, clusters: int, method: str = "auto") -> dict[str, Tally]:
    """What each metric's intervals did, over all replications."""
    found = evaluations(drawn, true_values(drawn, PLAN), clusters, EVERY, PLAN, (method,))
    return {metric: tally for (_, metric, _, _), tally in found.items()}


def fewest(share: float = NOMINAL) -> int:
    """The number of hits that a method with this coverage falls short of in one of a thousand studies."""
    return int(binom.ppf(RARE, PLAN.replications, share))


def most(share: float) -> int:
    """The number of hits that a method with this rate exceeds in one of a thousand studies."""
    return int(binom.ppf(1 - RARE, PLAN.replications, share))


@pytest.mark.parametrize("clusters", [20, 50])
def test_intervals_hold_the_truth_as_often_as_they_say(clusters: int) -> None:
    found = tallies(population("answers", *SMOOTH), clusters)
    assert {metric: t.intervals for metric, t in found.items()} == dict.fromkeys(SMOOTH, PLAN.replications)
    outside = {m: t.coverage for m, t in found.items() if not fewest() <= t.held <= most(NOMINAL)}
    assert outside == {}


def test_rare_errors_are_allowed_for() -> None:
    drawn = population("rare")
    assert tallies(drawn, 20)["accuracy"].held >= fewest()
    assert tallies(drawn, 20, "percentile")["accuracy"].held < fewest()


@pytest.mark.parametrize(
    ("name", "metric"), [("calibrated", "ece"), ("answers", "fairness_gap(accuracy, by=group.site)")]
)
def test_a_norm_of_noise_covers_a_true_zero_where_a_bootstrap_cannot(name: str, metric: str) -> None:
    drawn = population(name, metric)
    assert true_values(drawn, PLAN)[metric] == 0
    assert tallies(drawn, 20)[metric].held >= fewest()
    assert tallies(drawn, 20, "percentile")[metric].held <= 1


def test_ece_of_a_miscalibrated_model_is_covered() -> None:
    drawn = population("answers", "ece")
    assert true_values(drawn, PLAN)["ece"] > 0.05
    assert tallies(drawn, 50)["ece"].held >= fewest()


def test_bounds_notice_rows_taken_for_clusters() -> None:
    """The same tables with every row a cluster of its own: too narrow, and the bounds of this file say so."""

    def rows_alone(random: Random, clusters: int) -> Records:
        drawn = population("skewed").draw(random, clusters)
        return Records.from_columns({n: drawn.column(n) for n in ("item", "target", "prediction")})

    clustered = population("skewed", "mae")
    assert tallies(clustered, 50)["mae"].held >= fewest()
    assert tallies(replace(clustered, draw=rows_alone), 50)["mae"].held < fewest()


@pytest.mark.parametrize(
    ("name", "metric"), [("answers", "accuracy"), ("answers", "f1_macro"), ("answers", "aurc"), ("skewed", "mae")]
)
def test_equal_runs_are_seldom_told_apart(name: str, metric: str) -> None:
    pairing = replace(next(p for p in PAIRINGS if p.name == name), metrics=(metric,))
    (tally,) = comparisons(pairing, 0.0, {metric: 0.0}, 20, EVERY, PLAN).values()
    assert tally.small_p <= most(GOAL)
    assert tally.better + tally.worse <= most(GOAL)
    assert tally.held >= fewest()


def test_two_calibrated_runs_are_not_told_apart_by_ece() -> None:
    pairing = next(p for p in PAIRINGS if p.name == "calibrated")
    (tally,) = comparisons(pairing, 0.0, {"ece": 0.0}, 20, EVERY, PLAN).values()
    assert tally.better + tally.worse <= most(GOAL)


def test_a_planted_difference_is_found_and_covered() -> None:
    pairing = next(p for p in PAIRINGS if p.name == "skewed")
    truths = true_deltas(pairing, PLAN)
    (tally,) = comparisons(pairing, pairing.gain, truths, 50, EVERY, PLAN).values()
    assert truths["mae"] < 0
    assert tally.better >= fewest(0.6)
    assert tally.worse <= most(0.025)
    assert fewest() <= tally.held <= most(NOMINAL)
