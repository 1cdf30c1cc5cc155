"""Marks: how whoever scored an answer found it. They win over comparing prediction and target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard import InputError
from steelyard.records.schema import OUTCOMES
from steelyard.study.defaults import choose
from tests.support.commands import command

ROWS: list[dict[str, Any]] = [
    {"item": 1, "target": "48 hours", "prediction": "two days", "mark": 1},
    {"item": 2, "target": "aspirin", "prediction": "Aspirin.", "mark": 1},
    {"item": 3, "target": "renal", "prediction": "renal", "mark": 0},
    {"item": 4, "target": "none", "prediction": None, "outcome": "abstained", "mark": None},
    {"item": 5, "target": "x", "prediction": None, "outcome": "failed", "mark": None},
]


def value(rows: Any, metric: str) -> float | None:
    (estimate,) = sy.evaluate(rows, [metric], resamples=0)
    return None if estimate.value is None else float(estimate.value)


def test_the_mark_decides_what_is_correct() -> None:
    assert value(ROWS, "accuracy") == 0.5  # of 4 that did not fail
    assert value(ROWS, "selective_accuracy") == pytest.approx(2 / 3)
    assert value([{**row, "confidence": 0.5} for row in ROWS[:3]], "brier") == 0.25


def test_an_answer_without_a_mark_is_left_out_and_counted() -> None:
    (estimate,) = sy.evaluate([*ROWS, {**ROWS[0], "item": 6, "mark": None}], ["accuracy"], resamples=0)
    assert (estimate.value, estimate.n) == (0.5, 4)
    assert estimate.excluded["no mark"] == 1


def test_rows_that_were_scored_and_not_marked_are_left_out_however_they_are_sliced() -> None:
    declined = {"prediction": None, "outcome": "abstained", "mark": None}
    rows: list[dict[str, Any]] = [
        {"item": 1, "task": "t", "site": "a", "prediction": "x", "mark": 1, "score": 1.0},
        {"item": 2, "task": "t", "site": "a", **declined, "score": None},  # declined in vain: wrong
        {"item": 3, "task": "t", "site": "b", **declined, "score": None},
        {"item": 4, "task": "t", "site": "b", "prediction": "x", "mark": None, "score": 0.5},
        {"item": 5, "task": "t", "site": "c", **declined, "score": 0.25},  # graded: neither right nor wrong
        {"item": 6, "task": "u", "site": "c", **declined, "score.tone": 0.5},
    ]
    whole, *parts = sy.evaluate(rows, ["accuracy"], by=["site"], pool=["task"], resamples=0)
    assert {(part.slice["site"], part.value, part.n) for part in parts} == {
        ("a", 0.5, 2),
        ("b", 0.0, 1),
        ("c", None, 0),
    }
    assert (whole.value, whole.n) == (pytest.approx(1 / 3), 3)
    assert sum(part.n for part in parts) == whole.n
    unmarked = [{**row, "mark": None} for row in rows]
    assert [each.n for each in sy.evaluate(unmarked, ["accuracy"], pool=["task"], resamples=0)] == [0]


@given(st.lists(st.tuples(*map(st.sampled_from, ("xy", OUTCOMES[:3], (None, 0, 1), (None, 0.5), "ab"))), min_size=1))
def test_the_slices_of_a_marked_table_add_up_to_it(drawn: list[tuple[str, str, int | None, float | None, str]]) -> None:
    rows = [
        {"item": i, "task": task, "prediction": "p" if outcome == "answered" else None, "outcome": outcome,
         "mark": mark, "score": score, "site": site}
        for i, (task, outcome, mark, score, site) in enumerate(drawn)
    ]  # fmt: skip
    counted = [
        bool(mark) and outcome == "answered"
        for _, outcome, mark, score, _ in drawn
        if any(row[2] is not None for row in drawn) and (mark is not None or (score is None and outcome != "answered"))
    ]
    whole, *parts = sy.evaluate(rows, ["accuracy"], by=["site", "task"], pool=["task"], resamples=0)
    assert whole.n == len(counted)
    for column in ("site", "task"):
        slices = [part for part in parts if set(part.slice) == {column}]
        assert sum(part.n for part in slices) == whole.n
        right = sum(part.n * part.value for part in slices if part.value is not None)
        assert right == pytest.approx(sum(counted))


def test_a_mark_needs_no_target() -> None:
    rows = [{"item": 1, "prediction": "a", "mark": True}, {"item": 2, "prediction": "b", "mark": False}]
    assert value(rows, "accuracy") == 0.5


def test_marks_are_right_or_wrong() -> None:
    with pytest.raises(InputError, match="mark"):
        sy.read([{"item": 1, "mark": 2}])
    with pytest.raises(InputError, match="other values than true and false"):
        value([{"item": 1, "prediction": "a", "mark": 0.5}], "accuracy")


def test_an_answer_may_be_unknown_only_where_it_is_known_how_it_was_scored() -> None:
    silent, said = {"item": 1, "outcome": "answered", "prediction": None}, {"item": 2, "prediction": "a"}
    for score in ({"mark": 1}, {"mark": None, "score": 0.5}, {"mark": None, "score.tone": 0.5}):
        assert len(sy.read([{**silent, **score}, {**said, "mark": 0}])) == 2
    assert len(sy.read([{**silent, "mark": None}, {**silent, "item": 2, "mark": None}])) == 2  # as of all
    for score in ({}, {"score": 0.5}, {"mark": None}, {"mark": None, "score": None}, {"mark": None, "score": "good"}):
        with pytest.raises(InputError, match="says answered, but the prediction is null"):
            sy.read([{**silent, **score}, {**said, **({"mark": 0} if "mark" in score else {})}])
    with pytest.raises(InputError, match="says answered, but the prediction is null"):
        sy.read([silent])


def test_risk_and_coverage_go_by_marks() -> None:
    rows = [{**row, "confidence": 0.9 - 0.1 * i} for i, row in enumerate(ROWS[:3])]
    by_mark = [{"item": i, "target": "a", "prediction": "a" if row["mark"] else "b", "confidence": row["confidence"]}
               for i, row in enumerate(rows)]  # fmt: skip
    without = [{name: value for name, value in row.items() if name != "target"} for row in rows]
    found = [sy.selective(sy.read(each), confidence="confidence", resamples=0) for each in (rows, by_mark, without)]
    areas = [[value(each, "aurc"), value(each, "augrc")] for each in (rows, by_mark)]
    assert areas[0] == areas[1]
    assert len({str(each.readings["confidence"][0].curve) for each in found}) == 1


def test_classes_are_counted_only_where_the_marks_are_those_of_exact_match() -> None:
    free = [metric.name for choice in choose(sy.read(ROWS)) for metric in choice.metrics]
    assert "accuracy" in free
    assert "f1_macro" not in free
    exact = [{"item": i, "target": "ab"[i % 2], "prediction": "a", "mark": i % 2 == 0} for i in range(6)]
    assert "f1_macro" in [metric.name for choice in choose(sy.read(exact)) for metric in choice.metrics]


def test_no_label_is_called_misspelt_where_there_are_marks() -> None:
    assert not [w for w in sy.evaluate(ROWS, ["accuracy"], resamples=0).warnings if "never a target" in w]


def test_marks_of_kept_runs_compare_as_their_rows_do(tmp_path: Path) -> None:
    rows = [{**row, "item": f"{row['item']}-{i}"} for i in range(8) for row in ROWS]
    store = tmp_path / "store"
    other = [{**row, "mark": 1} if row["item"][0] == "3" else row for row in rows]
    for name, each in (("a", rows), ("b", other)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in each))
        done = command("evaluate", tmp_path / f"{name}.jsonl", "-m", "accuracy", "--save", "--run-id", name, root=store)
        assert done.code == 0, done.err
    kept = command("runs", "compare", "-m", "accuracy", "--against", "a", "--format", "json", root=store)
    own = command("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "-m", "accuracy", "--format", "json")
    (best, _), (delta,) = kept.json["runs"], own.json["deltas"]
    assert best["delta"] == delta["delta"] == 0.25
    assert [best["delta_low"], best["delta_high"]] == delta["interval"]
