"""Cells, slices, pooling, picking one estimate from a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steelyard import evaluate, value
from steelyard.errors import UsageError
from steelyard.evaluation import values
from steelyard.metrics.definition import metric_of
from steelyard.records.table import Records
from steelyard.stack import choose


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
        return {m for choice in choose(records) for m in choice.metrics}

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
    assert {"accuracy", "selective_accuracy"} <= set(choice.metrics)
    assert ({"balanced_accuracy", "f1_macro"} <= set(choice.metrics)) == classes
    assert (f"{labels} different ones on {items} items" in choice.why) != classes
    assert "l1" not in choice.why
    repeated = {"item": list(range(items)) * 3, "repeat": [r for r in range(3) for _ in range(items)]}
    tripled = Records.from_columns({**repeated, "target": target * 3, "prediction": target * 3})
    assert choose(tripled)[0] == choice
    said = Records.from_columns(columns, task={"labels": sorted(set(target))})
    assert "f1_macro" in choose(said)[0].metrics


def test_rows_without_a_group_and_undefined_groups_are_noted() -> None:
    columns = {"item": list(range(40)), "target": ["a"] * 40, "prediction": ["a", "b"] * 15 + [None] * 10}
    site = ["x"] * 10 + ["y"] * 10 + [None] * 10 + ["z"] * 10
    records = Records.from_columns({**columns, "group.site": site})
    note = evaluate(records, ["fairness_gap(selective_accuracy, by=group.site)"]).estimates[0].note
    assert "10 rows have no group" in note
    assert "group z left out: the metric is undefined there" in note
