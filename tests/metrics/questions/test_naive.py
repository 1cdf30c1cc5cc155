"""Every metric has a naive oracle, and agrees with it on tables that hypothesis makes."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import metric_of
from tests.support.naive import NAIVE
from tests.support.naive.benchmark import BENCHMARK, PLAN, WEIGHTS, combined_score
from tests.support.naive.calibration import (
    CALIBRATION,
    brier,
)
from tests.support.naive.correctness import (
    CORRECTNESS,
    SCORES,
    accuracy,
)
from tests.support.naive.deferral import DEFERRAL
from tests.support.naive.efficiency import COST
from tests.support.naive.groups import (
    GROUPS_LABELS,
    GROUPS_NUMBERS,
    PERTURBED_LABELS,
    PERTURBED_NUMBERS,
    REPEATS_LABELS,
    REPEATS_NUMBERS,
    stability,
)
from tests.support.naive.regression import REGRESSION, root
from tests.support.naive.resources import TAKEN, TAKEN_NUMBERS
from tests.support.naive.selective import (
    SELECTIVE_LABELS,
    SELECTIVE_NUMBERS,
    selective_family,
)
from tests.support.naive.strategies import (
    EIGHTHS,
    check,
    label_tables,
    labels_of,
    largest_loss,
    number_tables,
    numbers_of,
    perturbed_tables,
    repeat_tables,
)
from tests.support.naive.table import Table

# -- coverage of the registry ------------------------------------------------------------------------------------------


def heads() -> set[str]:
    return {metric_of(text).definition.name for text in NAIVE}


@pytest.mark.parametrize("name", list(registry))
def test_every_metric_has_an_oracle(name: str) -> None:
    assert name in heads(), f"{name} has no oracle in tests/support/naive"


def test_no_oracle_is_left_of_a_metric_that_is_gone() -> None:
    assert heads() <= set(registry)


PLANNED = {
    "tasks": {task: {m: c or None for t, m, c in PLAN if t == task} for task in ("x", "y", "z")},
    "weights": WEIGHTS,
}


# -- one family after the other ----------------------------------------------------------------------------------------


@given(label_tables(("signal.x",), missing=("confidence", "signal.x")))
def test_correctness(table: Table) -> None:
    check(CORRECTNESS, table, to=1e-12)


@given(label_tables(("signal.x",), missing=("target", "confidence", "signal.x")))
def test_correctness_without_some_targets(table: Table) -> None:
    check(CORRECTNESS, table, to=1e-12)


@given(label_tables(missing=("target", "confidence")))
def test_calibration(table: Table) -> None:
    check(CALIBRATION, table)


@given(label_tables(("signal.x",)))
def test_selective_labels(table: Table) -> None:
    check(SELECTIVE_LABELS, table)


@given(label_tables(("should_abstain",)))
def test_deferral(table: Table) -> None:
    check(DEFERRAL, table, to=1e-12)


@given(label_tables(("latency_ms", "input_tokens", "output_tokens", "cost", "score")))
def test_cost_and_row_scores(table: Table) -> None:
    check({**COST, **TAKEN, **SCORES}, table)


@given(label_tables(("group.site",)))
def test_groups_of_labels(table: Table) -> None:
    check(GROUPS_LABELS, table)


@given(label_tables(("task",)))
def test_tasks_of_a_benchmark(table: Table) -> None:
    check(BENCHMARK, replace(table, plan=PLANNED))
    apart = {**PLANNED, "renormalize_missing": False}
    check({"combined_score": partial(combined_score, renormalize=False)}, replace(table, plan=apart))


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=25))
def test_row_scores_without_predictions_are_all_answered(scores: list[float | None]) -> None:
    check(SCORES, Table([{"item": i, "score": score} for i, score in enumerate(scores)]))


@given(number_tables(EIGHTHS))
def test_regression(table: Table) -> None:
    check({**REGRESSION, **TAKEN_NUMBERS}, table)


@given(number_tables([1, 2, 3, 4, 5, 8, 13, 21, 34, 40, 100, -2, 0]))
def test_regression_of_whole_numbers(table: Table) -> None:
    check({**REGRESSION, "accuracy": accuracy, "brier": brier}, table)


@given(number_tables([k / 8 for k in range(9)], offset=1e8))
def test_regression_far_from_zero(table: Table) -> None:
    """Spread 1 at offset 1e8: one pass of raw squares would lose all sixteen digits."""
    check(REGRESSION, table)


@given(number_tables([k / 8 for k in range(9)], offset=-1e12))
def test_regression_farther_from_zero(table: Table) -> None:
    check(REGRESSION, table, to=1e-6)


@given(number_tables([0.0, -0.0, 1e-300, -3e-300, 2e-300], size=8))
def test_regression_of_tiny_numbers(table: Table) -> None:
    """Squares of 1e-300 underflow; the correlation and r2 of such numbers are as defined as any other."""
    absolute = {t: o for t, o in REGRESSION.items() if t not in ("r2", "pearson", "spearman")}
    check(absolute, table, scale=largest_loss(table))
    check({t: REGRESSION[t] for t in ("r2", "pearson", "spearman")}, table)


@given(number_tables([0.0, 1.0, 3.0, 1e-300, 1e150, -1e150, 2e150], size=8))
def test_regression_of_huge_numbers(table: Table) -> None:
    absolute = {t: o for t, o in REGRESSION.items() if t not in ("r2", "pearson", "spearman")}
    check(absolute, table, scale=largest_loss(table))
    check({t: REGRESSION[t] for t in ("r2", "pearson", "spearman")}, table)


@given(number_tables(EIGHTHS))
def test_selective_numbers(table: Table) -> None:
    check(SELECTIVE_NUMBERS, table, scale=max(1.0, largest_loss(table)))


@given(number_tables([0.0, 1.0, 3.0, 1e-300, 1e150, -1e150], size=8))
def test_selective_huge_numbers(table: Table) -> None:
    check(SELECTIVE_NUMBERS, table, scale=max(1.0, largest_loss(table)))


@given(number_tables([0.0, 1e-300, 3e-300, -1e-300], size=8))
def test_selective_tiny_numbers(table: Table) -> None:
    """All points lie within 1e-10 of any chord: the hull keeps its ends alone."""
    check(selective_family("loss=abs", loss="abs"), table, scale=largest_loss(table))


@given(number_tables(EIGHTHS, extra=("group.site",)))
def test_groups_of_numbers(table: Table) -> None:
    check(GROUPS_NUMBERS, table)


@given(repeat_tables(labels_of, ("latency_ms",)))
def test_repeats_of_labels(table: Table) -> None:
    check(REPEATS_LABELS, table)


@given(repeat_tables(numbers_of))
def test_repeats_of_numbers(table: Table) -> None:
    """A coefficient of variation around a mean that is 0 but for rounding is left out."""
    near_zero = set()
    for base in ("mae", "bias", "r2"):
        centre = stability(table, base=base, of="mean")
        spread = stability(table, base=base, of="stddev")
        if centre is not None and spread is not None and 0 < abs(centre) < 1e-6 * spread:
            near_zero.add(f"stability({base}).cv")
    check({t: o for t, o in REPEATS_NUMBERS.items() if t not in near_zero}, table)


@given(perturbed_tables(labels_of))
def test_perturbations_of_labels(table: Table) -> None:
    check(PERTURBED_LABELS, table)


@given(perturbed_tables(numbers_of))
def test_perturbations_of_numbers(table: Table) -> None:
    check(PERTURBED_NUMBERS, table)


# -- the oracle itself -------------------------------------------------------------------------------------------------


def test_the_oracles_square_root_where_floats_overflow_or_underflow() -> None:
    assert root(Fraction(1e300) ** 2) == 1e300
    assert root(Fraction(1e-300) ** 2) == 1e-300
    assert root(Fraction(2)) == math.sqrt(2)
