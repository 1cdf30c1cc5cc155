"""Models and strategies of one table are told apart by what they were asked, not by what they answered."""

from __future__ import annotations

from typing import Any

from steelyard.records.asked import uneven_items
from steelyard.records.table import Records
from steelyard.study.evaluation import evaluate


def table(asked: dict[str, range], column: str = "model", **more: Any) -> Records:
    rows = [(who, f"q{i}") for who, items in asked.items() for i in items]
    columns = {column: [who for who, _ in rows], "item": [item for _, item in rows]}
    return Records.from_columns({**columns, "target": ["a"] * len(rows), "prediction": ["a"] * len(rows), **more})


def test_models_with_different_items_are_counted() -> None:
    uneven = table({"alder-1": range(180), "birch-2": range(10, 182)})
    said = "asked different items: alder-1 180, birch-2 172, 170 in common; compare them with align='intersection'"
    assert uneven_items(uneven) == [f"models were {said}"]
    assert uneven_items(table({"alder-1": range(180), "birch-2": range(10, 182)}, "strategy")) == [
        f"strategies were {said}"
    ]
    assert f"models were {said}" in evaluate(uneven, ["accuracy"], resamples=0).warnings


def test_equal_counts_of_other_items_are_different_items() -> None:
    (said,) = uneven_items(table({"a": range(5), "b": range(5, 10)}))
    assert "a 5, b 5, 0 in common" in said


def test_the_same_items_need_no_warning_whoever_declined_or_repeated() -> None:
    assert uneven_items(table({"a": range(5)})) == []
    assert uneven_items(table({"a": range(5), "b": range(5)})) == []
    assert uneven_items(table({"a": range(2), "b": range(2)}, prediction=["a", None, "a", "b"])) == []
    assert uneven_items(table({"a": range(2), "b": range(2)}, outcome=["failed", None, None, None])) == []
    repeated = {"model": ["a", "a", "b"], "item": ["q", "q", "q"], "repeat": [1, 2, 1]}
    assert uneven_items(Records.from_columns(repeated)) == []
    assert uneven_items(Records.from_columns({"item": [1, 2]})) == []


def test_an_item_of_another_task_is_another_item() -> None:
    columns = {"model": ["a", "b"], "task": ["x", "y"], "item": ["q", "q"]}
    (said,) = uneven_items(Records.from_columns(columns))
    assert "a 1, b 1, 0 in common" in said


def test_many_models_are_summed_up() -> None:
    (said,) = uneven_items(table({f"m{i}": range(i, 20) for i in range(9)}))
    assert "items: 9 models, 12 to 20 each, 12 in common" in said
