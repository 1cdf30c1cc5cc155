"""Rates of one class against the rest: oracles, the class that is meant, and what declining does to fairness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import steelyard as sy
from steelyard.records.table import Records
from steelyard.study.evaluation import value
from tests.support.naive.screening import SCREENING
from tests.support.naive.strategies import check, label_tables
from tests.support.naive.table import Table


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


def test_the_class_is_a_fact_of_its_task_and_of_the_rows_that_were_chosen() -> None:
    tumours = {"target": ["benign"] * 30 + ["malignant"] * 10, "prediction": ["benign"] * 35 + ["malignant"] * 5}
    answers = {"target": ["no"] * 12 + ["yes"] * 8, "prediction": ["no"] * 15 + ["yes"] * 5}
    both = {name: tumours[name] + answers[name] for name in tumours}
    columns = {"item": range(60), "task": ["slides"] * 40 + ["letters"] * 20, **both}
    records = Records.from_columns({name: list(c) for name, c in columns.items()})
    result = sy.evaluate(records, ["sensitivity"], resamples=100)
    assert result["sensitivity{task=slides}"].detail == {"positive": "malignant"}
    assert result["sensitivity{task=letters}"].detail == {"positive": "yes"}
    alone = sy.evaluate(records.filter("task=letters"), ["sensitivity"], resamples=100)["sensitivity"]
    assert (alone.value, alone.detail) == (5 / 8, {"positive": "yes"})
    pooled = sy.evaluate(records, ["sensitivity"], pool=["task"], resamples=100)["sensitivity"]
    assert pooled.value is None
    assert "more than two labels among the targets: say which with positive=" in pooled.note


@pytest.mark.parametrize(("labels", "positive"), [((0, 1), "1"), ((False, True), "true"), (("0", "1"), "1")])
def test_one_is_positive_however_common_it_is(labels: tuple[object, object], positive: str) -> None:
    target = [labels[0]] * 3 + [labels[1]] * 9
    records = Records.from_columns({"item": list(range(12)), "target": target, "prediction": target})
    assert sy.evaluate(records, ["sensitivity"], resamples=0)["sensitivity"].detail == {"positive": positive}


def test_a_group_without_positives_bars_equalized_odds_from_passing_as_it_does_the_gap() -> None:
    rng = np.random.default_rng(5)
    site = np.repeat(["x", "y", "z"], 60)
    target = np.where((site != "z") & (rng.random(180) < 0.5), "yes", "no")
    answer = np.where(rng.random(180) < 0.9, target, "no")
    columns = {"item": range(180), "group.site": site, "target": target, "prediction": answer}
    records = Records.from_columns({name: list(c) for name, c in columns.items()})
    texts = ["equalized_odds(by=group.site, positive=yes)", "fairness_gap(sensitivity(positive=yes), by=group.site)"]
    result = sy.evaluate(records, texts, resamples=200)
    for text in texts:
        assert "group z left out: the metric is undefined there" in result[text].note
        assert "missing group" in result[text].cautions
        decision = sy.Gate.parse([f"high({text}) <= 0.99"]).check(result)
        assert decision.verdict == "inconclusive"
    assert (result[texts[0]].n, result[texts[0]].excluded) == (180, {})
    delta = sy.compare(records, records.take(np.arange(180)), texts, resamples=200)[texts[0]]
    assert "group z left out: without a value in both runs" in delta.note


def test_ratios_of_areas_are_up_to_the_coverage_that_all_groups_reach() -> None:
    rng = np.random.default_rng(8)
    site = np.repeat(["x", "y"], 80)
    answered = np.where(site == "x", np.arange(160) % 2 == 0, True)
    said = np.where(answered, np.where(rng.random(160) < 0.7, "a", "b"), None)
    confidence = [float(c) if a else None for c, a in zip(rng.random(160), answered, strict=True)]
    columns = {
        "item": range(160),
        "group.site": site,
        "target": ["a"] * 160,
        "prediction": said,
        "confidence": confidence,
    }
    records = Records.from_columns({name: list(c) for name, c in columns.items()})
    gap, ratio = (f"fairness_{kind}(aurc, by=group.site)" for kind in ("gap", "ratio"))
    result = sy.evaluate(records, [gap, ratio], resamples=100)
    assert result[gap].detail["per_group"] == pytest.approx(result[ratio].detail["per_group"])
    low, high = sorted(result[ratio].detail["per_group"].values())
    assert result[ratio].value == pytest.approx(low / high)


def test_a_declined_patient_is_not_treated_and_counts() -> None:
    columns = {
        "item": list(range(40)),
        "target": ["sick"] * 20 + ["well"] * 20,
        "prediction": (["sick"] * 10 + [None] * 10) * 2,
        "risk": ([0.9] * 10 + [None] * 10) + ([0.1] * 10 + [None] * 10),
    }
    text = "net_benefit(pt=0.5, positive=sick, score=risk)"
    estimate = sy.evaluate(Records.from_columns(columns), [text], resamples=100)[text]
    assert (estimate.value, estimate.n, estimate.detail["treat_all"]) == (0.25, 40, 0.0)


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


def test_a_cohort_without_positives_has_a_specificity_where_the_class_is_declared() -> None:
    columns = {"item": list(range(40)), "target": ["well"] * 40, "prediction": ["well"] * 39 + ["sick"]}
    records = Records.from_columns(columns, task={"labels": ["well", "sick"], "positive": "sick"})
    result = sy.evaluate(records, ["specificity", "fpr", "npv", "sensitivity"], resamples=0)
    assert [result[name].value for name in ("specificity", "fpr", "npv")] == pytest.approx([39 / 40, 1 / 40, 1.0])
    assert result["sensitivity"].value is None


@pytest.mark.parametrize(
    ("labels", "last"), [((9, 10), "10"), ((-1, -2), "-1"), (("b", "a"), "b"), (("nan", "3"), "nan")]
)
def test_of_equally_common_labels_the_last_in_order_is_positive(labels: tuple[object, object], last: str) -> None:
    target = list(labels) * 5
    records = Records.from_columns({"item": list(range(10)), "target": target, "prediction": target})
    assert sy.evaluate(records, ["ppv"], resamples=0)["ppv"].detail == {"positive": last}


def test_a_rare_loss_of_net_benefit_has_as_much_room_as_one_of_accuracy() -> None:
    """At pt = 0.5 a lost case and a needless treatment weigh the same, so differences are those of accuracy."""
    target = ["sick", "well"] * 50

    def run(lost: int) -> Records:
        wrong = set(range(0, 2 * lost, 2))
        risk = [0.1 if i in wrong or t == "well" else 0.9 for i, t in enumerate(target)]
        said = ["sick" if r > 0.5 else "well" for r in risk]
        return Records.from_columns({"item": list(range(100)), "target": target, "prediction": said, "risk": risk})

    text = "net_benefit(pt=0.5, positive=sick, score=risk)"
    for lost in (0, 1, 4):
        compared = sy.compare(run(0), run(lost), [text, "accuracy"], resamples=400, unchanged="judge")
        worth, right = compared[text], compared["accuracy"]
        assert worth.delta == pytest.approx(right.delta)
        assert worth.interval is not None
        assert worth.interval[0] <= right.interval[0] + 1e-9
        assert worth.interval[1] >= right.interval[1] - 1e-9


def test_a_score_that_is_no_probability_is_refused() -> None:
    records = Records.from_columns({"item": [1, 2], "target": ["a", "b"], "risk": [0.5, 5.0]})
    with pytest.raises(sy.InputError, match="from 0 to 1"):
        sy.evaluate(records, ["net_benefit(pt=0.5, positive=a, score=risk)"], resamples=0)


@pytest.mark.parametrize("text", ["ppv(positive=yes)", "npv(positive=yes)"])
def test_declining_what_is_wrong_is_no_better_predictive_value(text: str) -> None:
    rng = np.random.default_rng(3)
    target = rng.choice(["no", "yes"], 200)
    said = np.where(rng.random(200) < 0.8, target, np.where(target == "no", "yes", "no"))
    base = {"item": range(200), "target": target, "prediction": said}
    silent = [None if s != t else s for s, t in zip(said, target, strict=True)]
    runs = [Records.from_columns({k: list(v) for k, v in {**base, "prediction": p}.items()}) for p in (said, silent)]
    delta = sy.compare(*runs, [text], resamples=300)[text]
    assert delta.verdict_from == "answered_by_both"
    assert delta.verdict != "better"


def test_the_odds_stand_on_the_scarcer_gap() -> None:
    """Ten positives and four hundred negatives: a change of the one gap could not have been seen."""
    target = ["yes"] * 10 + ["no"] * 400
    said = ["yes"] * 9 + ["no"] * 401
    site = ["x", "y"] * 205
    columns = {"item": list(range(410)), "target": target, "prediction": said, "group.site": site}
    base = Records.from_columns(columns)
    new = Records.from_columns({**columns, "prediction": [*said[:-1], "yes"]})
    odds, gap = "equalized_odds(by=group.site, positive=yes)", "fairness_gap(sensitivity(positive=yes), by=group.site)"
    compared = sy.compare(base, new, [odds, gap], resamples=300)
    assert (compared[odds].clusters, compared[odds].clusters_scarcest) == (10, 10)
    assert compared[odds].interval[0] <= compared[gap].interval[0]
    assert compared[odds].interval[1] >= compared[gap].interval[1]
    assert compared[odds].n_base == 410
    estimate = sy.evaluate(base, [odds], resamples=300)[odds]
    assert (estimate.n, estimate.clusters, estimate.excluded) == (410, 10, {})


@pytest.mark.parametrize(
    ("pt", "worth", "treat_all"),
    [
        (0.05, 0.266667, 0.263158),
        (0.10, 0.179630, 0.222222),
        (0.20, 0.100000, 0.125000),
        (0.35, -0.033333, -0.076923),
        (0.50, -0.200000, -0.400000),
        (0.80, -0.400000, -2.500000),
    ],
)
def test_net_benefit_is_that_of_dcurves(pt: float, worth: float, treat_all: float) -> None:
    """The numbers are those of dcurves 1.1 on the same sixty patients, to the digits that it prints."""
    target = ["sick" if (i * 37 + 11) % 100 < 30 else "well" for i in range(60)]
    risk = [round(((i * 53 + 7) % 97) / 97, 4) for i in range(60)]
    text = f"net_benefit(pt={pt}, positive=sick, score=risk)"
    records = Records.from_columns({"item": list(range(60)), "target": target, "risk": risk})
    estimate = sy.evaluate(records, [text], resamples=0)[text]
    assert estimate.value == pytest.approx(worth, abs=5e-7)
    assert estimate.detail["treat_all"] == pytest.approx(treat_all, abs=5e-7)


def test_a_share_of_predictions_needs_no_target() -> None:
    records = Records.from_columns({"item": [1, 2], "prediction": ["yes", "no"]})
    found = sy.evaluate(records, ["selection_rate(positive=yes)", "selection_rate"], resamples=0)
    assert found["selection_rate(positive=yes)"].value == 0.5
    assert found["selection_rate"].value is None  # of which class, nobody said
