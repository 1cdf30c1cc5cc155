"""Models and strategies of one table are told apart by what they were asked, not by what they answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steelyard.records.asked import uneven_items
from steelyard.records.table import Records
from steelyard.study.evaluation import evaluate
from tests.support.answers import lines
from tests.support.commands import command


def table(asked: dict[str, range], column: str = "model", **more: Any) -> Records:
    rows = [(who, f"q{i}") for who, items in asked.items() for i in items]
    columns = {column: [who for who, _ in rows], "item": [item for _, item in rows]}
    return Records.from_columns({**columns, "target": ["a"] * len(rows), "prediction": ["a"] * len(rows), **more})


def test_models_with_different_items_are_counted() -> None:
    uneven = table({"alder-1": range(180), "birch-2": range(10, 182)})
    said = "asked different items: alder-1 180, birch-2 172, 170 in common; compare them with `align=intersection`"
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


def test_files_are_counted_together_and_in_a_comparison_each_by_itself(tmp_path: Path) -> None:
    for name, asked in (("a", {"m": range(8)}), ("b", {"n": range(2, 9)}), ("both", {"m": range(8), "n": range(2, 9)})):
        rows = [{"model": m, "item": i, "target": "y", "prediction": "y"} for m, items in asked.items() for i in items]
        (tmp_path / f"{name}.jsonl").write_text(lines(rows))
    said = "models were asked different items: m 8, n 7, 6 in common; compare them with `align=intersection`"

    def warnings(*asked: str) -> list[str]:
        done = command(*asked, "-m", "accuracy", "--resamples", "100", "--format", "json", cwd=tmp_path)
        assert done.code == 0, done.err
        return list(done.json["warnings"])

    assert said in warnings("evaluate", "a.jsonl", "b.jsonl")
    assert said in warnings("evaluate", "both.jsonl")
    assert warnings("compare", "both.jsonl", "both.jsonl").count(said) == 1
    assert said not in warnings("compare", "both.jsonl", "--versus", "model=m,n", "--align", "intersection")
    unequal = command("compare", "a.jsonl", "b.jsonl", "-m", "accuracy", cwd=tmp_path)
    assert unequal.code == 3
    assert "2 rows of the base run and 1 of the new one have no partner" in unequal.err
    common = command("compare", "a.jsonl", "b.jsonl", "-m", "accuracy", "--align", "intersection", cwd=tmp_path)
    assert "left out, without partner: 2 base rows, 1 new row\n" in common.out
