"""Cells, slices, pooling, picking one estimate from a result."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import evaluate, value
from steelyard.errors import UsageError
from steelyard.ground.json import dumps
from steelyard.metrics.definition import metric_of
from steelyard.naming import slice_text
from steelyard.records.schema import OUTCOMES
from steelyard.records.table import Records
from steelyard.study.defaults import choose
from steelyard.study.evaluation import values
from steelyard.uncertainty.wire import read_estimate


def table(**more: Any) -> Records:
    rng = np.random.default_rng(0)
    rows = [(model, task, item) for model in ("m1", "m2") for task in ("a", "b") for item in range(12)]
    return Records.from_columns(
        {
            "model": [r[0] for r in rows],
            "task": [r[1] for r in rows],
            "item": [r[2] for r in rows],
            "target": ["x"] * len(rows),
            "prediction": ["x" if rng.random() < 0.7 else "y" for _ in rows],
            "group.site": ["n" if r[2] % 2 else "s" for r in rows],
            "group.sex": ["f" if r[2] % 3 else "m" for r in rows],
            **more,
        }
    )


def test_a_table_is_evaluated_cell_by_cell() -> None:
    found = evaluate(table(), ["accuracy"])
    assert [e.slice for e in found] == [{"model": m, "task": t} for m in ("m1", "m2") for t in ("a", "b")]
    assert all(e.n == 12 for e in found)


def test_pooling_is_on_request_only() -> None:
    found = evaluate(table(), ["accuracy"], pool=["task"])
    assert [e.slice for e in found] == [{"model": "m1"}, {"model": "m2"}]
    assert all(e.n == 24 for e in found)
    with pytest.raises(UsageError, match="pool takes cell columns"):
        evaluate(table(), ["accuracy"], pool=["item"])


def test_by_adds_marginals_and_crosses() -> None:
    found = evaluate(table(), ["accuracy"], by=["group.site", "group.site*group.sex"], pool=["task", "model"])
    slices = [e.slice for e in found]
    assert slices[0] == {}
    assert {"group.site": "n"} in slices
    assert {"group.site": "n", "group.sex": "m"} in slices
    assert len(slices) == 1 + 2 + 4


def test_a_slice_is_what_the_filtered_table_gives() -> None:
    records = table().filter({"model": "m1", "task": "a"})
    names = ["accuracy", "f1_macro", "answer_rate"]
    sliced = evaluate(records, names, by=["group.site"])
    alone = evaluate(records.filter({"group.site": "n"}), names)
    for name in names:
        one, two = sliced[f"{name}{{group.site=n}}"], alone[name]
        assert (one.value, one.interval, one.n, one.clusters) == (two.value, two.interval, two.n, two.clusters)


def test_one_estimate_is_picked_or_the_slices_are_listed() -> None:
    found = evaluate(table(), ["accuracy", "ece(bins=15)"][:1])
    assert found["accuracy{model=m1,task=a}"].slice == {"model": "m1", "task": "a"}
    with pytest.raises(UsageError, match=r"matches 4 estimates; choose one of: accuracy\{model=m1,task=a\}"):
        found["accuracy"]
    with pytest.raises(UsageError, match="was not evaluated; there are: accuracy"):
        found["ece"]
    single = evaluate(table().filter({"model": "m1", "task": "a"}), [metric_of("accuracy")])
    assert single["accuracy"] is single[metric_of("accuracy")]


def test_outcomes_can_be_sliced_by() -> None:
    records = Records.from_columns({"item": [1, 2, 3], "target": ["a"] * 3, "prediction": ["a", None, "b"]})
    found = evaluate(records, ["accuracy"], by=["outcome"])
    assert found["accuracy{outcome=abstained}"].value == 0.0
    assert found["accuracy{outcome=answered}"].n == 2


def test_repeats_are_pooled_in_their_cell_and_stay_together() -> None:
    rows = {"item": [1, 1, 2, 2], "repeat": [1, 2, 1, 2], "target": ["a"] * 4, "prediction": ["a", "b", "a", "a"]}
    (estimate,) = evaluate(Records.from_columns(rows), ["accuracy"])
    assert (estimate.n, estimate.clusters) == (4, 2)


def test_values_without_intervals() -> None:
    records = table().filter({"model": "m1", "task": "a"})
    found = values(["accuracy", "answer_rate"], records)
    assert found["accuracy"] == evaluate(records, ["accuracy"])["accuracy"].value
    with pytest.raises(UsageError, match="stands for several"):
        value("latency", latency_ms=[1.0])


def test_the_seed_and_nothing_else_moves_an_interval() -> None:
    records = table(**{"signal.s": np.random.default_rng(1).random(48)}).filter({"model": "m1", "task": "a"})
    name = "aurc(rank=signal.s)"
    one, two, three = (evaluate(records, [name], seed=s)[name].interval for s in (1, 1, 2))
    assert one == two
    assert one != three


def test_settings_are_checked() -> None:
    for wrong in (
        {"level": 1.0},
        {"resamples": 5},
        {"resamples": 10**12},
        {"seed": -1},
        {"seed": 2**40},
        {"method": "magic"},
        {"stream": "other"},
    ):
        with pytest.raises(UsageError):
            evaluate(table(), ["accuracy"], **wrong)


def test_the_stack_follows_the_columns() -> None:
    def names(**columns: Any) -> set[str]:
        size = len(next(iter(columns.values())))
        records = Records.from_columns({"item": list(range(size)), **columns})
        return {str(m) for choice in choose(records) for m in choice.metrics}

    assert {"accuracy", "f1_macro"} <= names(target=["a", "b"], prediction=["a", None])
    assert {"mae", "rmse"} <= names(target=[1.0, 2.0], prediction=[1.5, None])
    assert "failure_rate" in names(target=["a"], prediction=[None], outcome=["failed"])
    assert "parse_failure_rate" in names(target=["a"], prediction=[None], outcome=["unparsed"])
    assert "deferral_alignment" in names(target=["a"], prediction=["a"], should_abstain=[False])
    assert "aurc" in names(target=["a"], prediction=["a"], confidence=[0.5])
    assert "aurc" not in names(target=["a", "b"], prediction=["a", "b"], confidence=[0.5, None])
    assert names(score=[1.0, 0.5]) == {"mean(score)"}
    with pytest.raises(UsageError, match="no metric suits"):
        names(text=["hello"])


@pytest.mark.parametrize(
    ("items", "labels", "classes"),
    [
        (3, 3, True),
        (20, 20, True),
        (22, 22, False),
        (40, 21, False),
        (43, 21, True),
        (100, 60, False),
        (1000, 77, True),
    ],
)
def test_texts_that_hardly_repeat_are_no_class_labels(items: int, labels: int, classes: bool) -> None:
    target = [f"l{i % labels}" for i in range(items)]
    columns = {"item": list(range(items)), "target": target, "prediction": target}
    (choice, *_) = choose(Records.from_columns(columns))
    chosen = set(map(str, choice.metrics))
    assert {"accuracy", "selective_accuracy"} <= chosen
    assert ({"balanced_accuracy", "f1_macro"} <= chosen) == classes
    assert (f"{labels} different ones on {items} items" in choice.why) != classes
    assert "l1" not in choice.why
    repeated = {"item": list(range(items)) * 3, "repeat": [r for r in range(3) for _ in range(items)]}
    tripled = Records.from_columns({**repeated, "target": target * 3, "prediction": target * 3})
    assert choose(tripled)[0] == choice
    said = Records.from_columns(columns, task={"labels": sorted(set(target))})
    assert "f1_macro" in map(str, choose(said)[0].metrics)


def test_rows_without_a_group_and_undefined_groups_are_noted() -> None:
    columns = {"item": list(range(40)), "target": ["a"] * 40, "prediction": ["a", "b"] * 15 + [None] * 10}
    site = ["x"] * 10 + ["y"] * 10 + [None] * 10 + ["z"] * 10
    records = Records.from_columns({**columns, "group.site": site})
    note = evaluate(records, ["fairness_gap(selective_accuracy, by=group.site)"]).estimates[0].note
    assert "10 rows without a group" in note
    assert "group z left out: the metric is undefined there" in note


# -- what was counted --------------------------------------------------------------------------------------------------

MIXED = {  # two models on six items: by hand, m1 declines 2 of 5 (one failed), m2 declines 1 of 6
    "model": ["m1"] * 6 + ["m2"] * 6,
    "item": [*range(6)] * 2,
    "target": ["a", "b", "a", "b", "a", "b"] * 2,
    "prediction": ["a", "b", None, None, None, None, "a", "a", "a", None, "b", "b"],
    "outcome": [
        "answered", "answered", "abstained", "abstained", "unparsed", "failed",
        "answered", "answered", "answered", "abstained", "answered", "answered",
    ],
    "confidence": [0.9, 0.8, None, None, None, None, 0.9, None, 0.7, None, 0.6, 0.5],
    "group.site": ["n", "s", "n", "s", "n", "s"] * 2,
}  # fmt: skip


def test_every_estimate_says_how_many_rows_count_were_declined_and_had_a_reply() -> None:
    names = ["accuracy", "selective_accuracy", "ece", "abstention_rate", "failure_rate", "f1_macro", "cmax"]
    found = evaluate(Records.from_columns(MIXED), names, by=["group.site"], resamples=100)
    replies = {
        "{model=m1}": (2, 5),
        "{model=m1,group.site=n}": (1, 3),
        "{model=m1,group.site=s}": (1, 2),
        "{model=m2}": (1, 6),
        "{model=m2,group.site=n}": (0, 3),
        "{model=m2,group.site=s}": (1, 3),
    }
    for slice_, wanted in replies.items():
        for name in names:
            e = found[name + slice_]
            assert (e.n_abstained, e.n_predictions) == wanted, (name, slice_)
            assert e.n_evaluated == e.n
    assert [found[f"{name}{{model=m1}}"].n_evaluated for name in names] == [5, 2, 2, 5, 6, 5, 5]
    assert [found[f"{name}{{model=m2}}"].n_evaluated for name in names] == [6, 5, 4, 6, 6, 6, 6]


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("ns"), st.sampled_from(OUTCOMES)), min_size=1))
def test_counts_are_those_of_the_rows_in_the_slice(rows: list[tuple[str, str, str]]) -> None:
    columns = {
        "model": [model for model, _, _ in rows],
        "item": [*range(len(rows))],
        "target": ["a"] * len(rows),
        "prediction": ["a" if outcome == "answered" else None for _, _, outcome in rows],
        "outcome": [outcome for _, _, outcome in rows],
        "group.site": [site for _, site, _ in rows],
    }
    for e in evaluate(
        Records.from_columns(columns), ["accuracy", "selective_accuracy"], by=["group.site"], resamples=0
    ):
        wanted = dict(e.slice)
        inside = [o for m, s, o in rows if wanted.get("model", m) == m and wanted.get("group.site", s) == s]
        assert e.n_abstained == inside.count("abstained")
        assert e.n_predictions == len(inside) - inside.count("failed")


def test_an_evaluation_as_plain_data_is_its_document() -> None:
    found = evaluate(Records.from_columns(MIXED), ["accuracy", "ece"], resamples=100)
    document = found.to_dict()
    assert json.loads(dumps(document)) == document
    assert document["kind"] == "evaluation"
    assert document["estimates"] == [e.to_dict() for e in found]
    one = found["accuracy{model=m1}"]
    assert {name: one.to_dict()[name] for name in ("n", "n_evaluated", "n_abstained", "n_predictions")} == {
        "n": 5, "n_evaluated": 5, "n_abstained": 2, "n_predictions": 5,
    }  # fmt: skip
    assert read_estimate(one.to_dict()) == one


def test_an_estimate_of_an_earlier_version_does_not_know_what_it_did_not_write() -> None:
    document = evaluate(Records.from_columns(MIXED), ["accuracy"], resamples=100)["accuracy{model=m1}"].to_dict()
    earlier = {key: v for key, v in document.items() if key not in ("n_evaluated", "n_abstained", "n_predictions")}
    found = read_estimate(earlier)
    assert (found.n_evaluated, found.n_abstained, found.n_predictions) == (5, None, None)


# -- the default stack, and what it reads ------------------------------------------------------------------------------


def test_the_default_stack_has_a_brier_score_of_two_labels_only() -> None:
    confident = {"item": [*range(6)], "target": list("ababab"), "confidence": [0.9] * 6}
    two = Records.from_columns({**confident, "prediction": list("abbaba")})
    three = Records.from_columns({**confident, "prediction": list("abcaba")})
    chosen = [[str(metric) for choice in choose(table) for metric in choice.metrics] for table in (two, three)]
    assert ["brier(binary=true)" in names for names in chosen] == [True, False]
    assert not any("brier" in names for names in chosen)
    assert evaluate(two, resamples=100)["brier(binary=true)"].value is not None
    undefined = evaluate(three, "brier(binary=true)", resamples=100)["brier(binary=true)"]
    assert undefined.value is None
    assert undefined.note == "undefined: the answered rows hold 3 labels, not two"


def test_the_largest_coverage_reads_outcomes_alone() -> None:
    assert value("cmax", prediction=["a", None, "b", None]) == 0.5
    assert value("cmax", outcome=["answered", "unparsed", "failed"]) == 0.5
    unsure = {"target": ["a", "b", None], "prediction": ["a", "b", None], "confidence": [0.9, None, None]}
    assert value("cmax", **unsure) == pytest.approx(2 / 3)
    records = Records.from_columns(MIXED)
    found = evaluate(records, ["cmax", "answer_rate"], by=["group.site"], resamples=100)
    for e in found:
        same = found["answer_rate" + slice_text(e.slice)]
        assert (e.value, e.interval, e.n) == (same.value, same.interval, same.n)
