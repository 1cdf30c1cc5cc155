"""eGFR against the formula as it is published, stages at their edges, and every reason to defer."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.runner.tasks.kidneys import (
    Diagnosis,
    constants_for,
    creatinine_for,
    egfr,
    is_ambiguous,
    is_conflict,
    is_near_threshold,
    nearest_threshold,
    reasons_to_defer,
    stage_of,
)
from tests.support.oracles import oracle

DEFERRAL = oracle("deferral")
_DIAGNOSES: tuple[Diagnosis, Diagnosis] = ("ckd", "notckd")  # the classes 0 and 1


def published(creatinine: float, age: float, *, female: bool) -> float:
    """CKD-EPI 2021, written down again from the paper."""
    kappa, alpha = (0.7, -0.241) if female else (0.9, -0.302)
    value = 142.0
    value *= min(creatinine / kappa, 1) ** alpha
    value *= max(creatinine / kappa, 1) ** -1.200
    value *= 0.9938**age
    return value * 1.012 if female else value


@given(st.floats(0.4, 20), st.integers(0, 110), st.booleans())
def test_egfr_is_the_published_formula_to_two_decimals(creatinine: float, age: int, female: bool) -> None:
    value = egfr(creatinine, age, "female" if female else "male")
    assert value is not None
    assert abs(value - published(creatinine, age, female=female)) <= 0.005 + 1e-9
    assert round(value, 2) == value


@pytest.mark.parametrize(
    ("creatinine", "age", "sex", "expected"),
    [  # by hand, from the constants
        (0.7, 0, "female", 143.70),
        (0.9, 0, "male", 142.00),
        (1.8, 0, "male", round(142 * 2**-1.2, 2)),
        (1.0, 50, "male", round(142 * (1 / 0.9) ** -1.2 * 0.9938**50, 2)),
    ],
)
def test_values_by_hand(creatinine: float, age: int, sex: str, expected: float) -> None:
    assert egfr(creatinine, age, sex) == expected


def test_creatinine_has_a_floor_and_so_has_age() -> None:
    assert egfr(0.1, 40, "male") == egfr(0.4, 40, "male") != egfr(0.41, 40, "male")
    assert egfr(1.0, -3, "male") == egfr(1.0, 0, "male")


@pytest.mark.parametrize("creatinine", [None, 0.0, -1.2, math.nan, math.inf, -math.inf])
def test_without_creatinine_there_is_no_egfr(creatinine: float | None) -> None:
    assert egfr(creatinine, 50, "male") is None


@pytest.mark.parametrize("sex", ["female", "Female", " F "])
def test_women(sex: str) -> None:
    assert constants_for(sex) == "female"


@pytest.mark.parametrize("sex", [None, "male", "m", "", "other", "unknown", 1, "females?"])
def test_any_other_sex_uses_the_constants_for_men(sex: object) -> None:
    assert constants_for(sex) == "male"
    assert egfr(1.1, 60, sex) == egfr(1.1, 60, "male")


@pytest.mark.parametrize(
    ("value", "stage"),
    [(120, 1), (90, 1), (89.99, 2), (60, 2), (59.99, 3), (30, 3), (29.99, 4), (15, 4), (14.99, 5), (0, 5)],
)
def test_stages(value: float, stage: int) -> None:
    assert stage_of(value) == stage


@pytest.mark.parametrize("threshold", [15, 30, 60, 90])
def test_near_a_threshold_includes_its_margin(threshold: float) -> None:
    assert all(is_near_threshold(threshold + distance) for distance in (-3.0, -2.99, 0, 2.99, 3.0))
    assert not any(is_near_threshold(threshold + distance) for distance in (-3.01, 3.01))


@given(st.integers(0, 15000))
def test_near_a_threshold_is_decided_on_hundredths(hundredths: int) -> None:
    expected = any(abs(hundredths - threshold * 100) <= 300 for threshold in (15, 30, 60, 90))
    assert is_near_threshold(hundredths / 100) == expected


def test_conflicts() -> None:
    assert [stage for stage in range(1, 6) if is_conflict("ckd", stage)] == [1, 2]
    assert [stage for stage in range(1, 6) if is_conflict("notckd", stage)] == [3, 4, 5]


@pytest.mark.parametrize(
    ("visits", "ambiguous"),
    [
        ((70, 65), True),  # 5.0 is within 5.0
        ((70, 64.99), False),
        ((64.99, 70), False),
        ((61.37, 56.37), True),  # the difference of the doubles is above 5
        ((70, 60, 50), False),
        ((70, 60, 61, 50), True),
        ((70, 70, 60), False),  # no change has no sign
        ((50, 60, 60, 70), False),
        ((70, 70, 70), True),
    ],
)
def test_ambiguous_trajectories(visits: tuple[float, ...], ambiguous: bool) -> None:
    assert is_ambiguous(visits) == ambiguous
    assert is_ambiguous(visits[::-1]) == ambiguous


def test_reasons_come_together() -> None:
    assert reasons_to_defer([45.0], "ckd") == []
    assert reasons_to_defer([62.0], "ckd") == ["label_stage_conflict", "egfr_near_threshold:60"]
    assert reasons_to_defer([62.0], None) == ["egfr_near_threshold:60"]
    assert reasons_to_defer([75.0, 45.0], "notckd", [75.0, 80.0, 45.0]) == [
        "label_stage_conflict",
        "ambiguous_trajectory",
    ]
    assert reasons_to_defer([61.0, 45.0], "ckd", [61.0, 50.0, 45.0]) == ["egfr_near_threshold:60"]
    assert reasons_to_defer([61.0, 29.0], None) == ["egfr_near_threshold:60", "egfr_near_threshold:30"]
    assert reasons_to_defer([61.0, 59.0], None) == ["egfr_near_threshold:60"]


# -- numbers of an independent implementation ------------------------------------------------------------------------


@pytest.mark.parametrize("case", DEFERRAL["egfr_stage"])
def test_egfr_and_stage_are_those_of_the_oracle(case: dict[str, Any]) -> None:
    value = egfr(case["sc"], case["age"], case["sex"])
    assert value == case["egfr"]
    assert (None if value is None else stage_of(value)) == case["stage"]


@pytest.mark.parametrize("case", DEFERRAL["deferral_metadata"])
def test_deferral_is_that_of_the_oracle(case: dict[str, Any]) -> None:
    value, diagnosis = case["egfr"], _DIAGNOSES[case["class"]]
    assert stage_of(value) == case["stage"]
    assert nearest_threshold(value) == tuple(case["nearest"])
    reasons = reasons_to_defer([value], None if case["task"] == "staging" else diagnosis)
    stated = {"should_abstain": bool(reasons), "deferral_reason": ";".join(reasons) or "none"}
    assert stated == case["out"]


@given(st.floats(4, 110), st.integers(20, 90), st.sampled_from(["female", "male"]))
def test_a_creatinine_is_found_for_an_egfr(wanted: float, age: int, sex: str) -> None:
    creatinine = creatinine_for(wanted, age, sex)
    value = egfr(creatinine, age, sex)
    assert value is not None
    assert round(creatinine, 2) == creatinine >= 0.4
    neighbours = [egfr(creatinine + step, age, sex) for step in (-0.01, 0.01)]
    low, high = sorted(each for each in neighbours if each is not None)
    assert creatinine == 0.4 or low - 0.01 <= wanted <= high + 0.01
