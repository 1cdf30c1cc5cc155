"""Rates of one class against the rest: oracles, the class that is meant, and what declining does to fairness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import steelyard as sy
from steelyard.records.table import Records
from steelyard.study.evaluation import value
from tests.support.naive.screening import SCREENING
from tests.support.naive.strategies import check, fixed, label_tables
from tests.support.naive.table import Table


@fixed
@given(label_tables(("signal.x",), missing=("target", "confidence", "signal.x")))
def test_screening(table: Table) -> None:
    check(SCREENING, table, to=1e-12)


def screened() -> Records:
    """Two sites of 40 patients each. Of 20 negatives, x alarms about 5 and declines 5, y alarms about 1 and declines 0.

    Of 20 positives both find 15 and decline 2.
    """
    rows = []
    for site, alarms, silent in (("x", 5, 5), ("y", 1, 0)):
        negatives = ["yes"] * alarms + [None] * silent + ["no"] * (20 - alarms - silent)
        positives = ["yes"] * 15 + [None] * 2 + ["no"] * 3
        rows += [{"group.site": site, "target": "no", "prediction": p} for p in negatives]
        rows += [{"group.site": site, "target": "yes", "prediction": p} for p in positives]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return Records.from_columns({"item": list(range(len(rows))), **columns})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("fairness_gap(fpr, by=group.site)", 5 / 20 - 1 / 20),
        ("fairness_gap(fpr(answered_only=true), by=group.site)", 5 / 15 - 1 / 20),
        ("fairness_gap(specificity, by=group.site)", 19 / 20 - 10 / 20),
        ("fairness_gap(sensitivity, by=group.site)", 0.0),
        ("fairness_gap(selection_rate, by=group.site)", 20 / 40 - 16 / 40),
        ("fairness_ratio(selection_rate, by=group.site)", 16 / 20),
        ("equalized_odds(by=group.site)", 4 / 20),
    ],
)
def test_known_rates_by_group_where_models_decline(text: str, wanted: float) -> None:
    estimate = sy.evaluate(screened(), [text], resamples=100)[text]
    assert estimate.value == pytest.approx(wanted, abs=1e-12)
    assert estimate.interval is not None
    assert estimate.interval[0] <= wanted <= estimate.interval[1]


def test_the_class_is_a_fact_of_the_whole_table() -> None:
    """In site x yes is the more common target, in the whole the rarer: it is positive in both."""
    columns = {
        "item": list(range(8)),
        "group.site": list("xxxyyyyy"),
        "target": ["yes", "yes", "no", "no", "no", "no", "no", "yes"],
        "prediction": ["yes", "no", "no", "no", "no", "no", "yes", "yes"],
    }
    result = sy.evaluate(Records.from_columns(columns), ["sensitivity", "fpr"], by=["group.site"], resamples=100)
    assert {e.detail["positive"] for e in result} == {"yes"}
    assert result["sensitivity{group.site=x}"].value == 0.5
    assert result["fpr{group.site=x}"].value == 0.0
    declared = Records.from_columns(columns, task={"labels": ["yes", "no"], "positive": "no"})
    assert sy.evaluate(declared, ["sensitivity"], resamples=100)["sensitivity"].value == pytest.approx(4 / 5)


def test_a_positive_label_that_nobody_has_is_undefined() -> None:
    estimate = sy.evaluate(screened(), ["specificity(positive=sick)"], resamples=100)["specificity(positive=sick)"]
    assert estimate.value is None
    assert "no label equals the positive one" in estimate.note


def test_net_benefit_beside_treating_all() -> None:
    """Vickers and Elkin: at pt = 0.2 a needless treatment costs a quarter of a found case."""
    columns = {"target": ["sick"] * 2 + ["well"] * 8, "risk": [0.9, 0.1, 0.5, 0.2, *[0.1] * 6], "item": list(range(10))}
    text = "net_benefit(pt=0.2, positive=sick, score=risk)"
    estimate = sy.evaluate(Records.from_columns(columns), [text], resamples=100)[text]
    assert estimate.value == pytest.approx(1 / 10 - 2 / 10 / 4)
    assert estimate.detail["treat_all"] == pytest.approx(2 / 10 - 8 / 10 / 4)
    assert estimate.detail["treat_none"] == 0.0


@pytest.mark.parametrize("text", ["sensitivity", "ppv", "mcc", "kappa", "auprc", "equalized_odds(by=group.site)"])
def test_two_runs_are_compared(text: str) -> None:
    rng = np.random.default_rng(1)
    target = rng.choice(["no", "yes"], 120, p=[0.6, 0.4])

    def run(skill: float) -> Records:
        answer = np.where(rng.random(120) < skill, target, np.where(target == "no", "yes", "no"))
        columns = {"target": target, "prediction": answer, "confidence": rng.random(120), "item": range(120)}
        return Records.from_columns({name: list(c) for name, c in columns.items()} | {"group.site": ["x", "y"] * 60})

    delta = sy.compare(run(0.6), run(0.95), [text], resamples=200)[text]
    assert delta.interval is not None
    assert delta.interval[0] <= delta.delta <= delta.interval[1]


@pytest.mark.parametrize("pt", [0.1, 0.3, 0.5, 0.7])
def test_net_benefit_counts_who_is_treated(pt: float) -> None:
    rows = [(i % 10 < 3, (i * 7 % 11) / 10) for i in range(50)]  # scores at the threshold itself, too
    worth = sum((1.0 if sick else -pt / (1 - pt)) for sick, risk in rows if risk >= pt) / len(rows)
    columns = {"target": ["sick" if sick else "well" for sick, _ in rows], "risk": [risk for _, risk in rows]}
    found = value(f"net_benefit(pt={pt}, positive=sick, score=risk)", **columns)
    assert found == pytest.approx(worth, rel=1e-9, abs=1e-12)
