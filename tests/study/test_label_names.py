"""Texts of people are no names of classes: they stand in no warning and no detail, whole or in a slice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.errors import InputError
from steelyard.records.labels import are_names
from steelyard.study.benchmark import benchmark
from steelyard.study.evaluation import evaluate
from steelyard.study.results import Evaluation
from steelyard.uncertainty.settings import Settings
from tests.support.suites import SUITE, lines, write_answers, write_suite

LONG = "Seen on Monday, SECRET with a cough and fever, sent home"
ROWS = [
    {"item": i, "target": f"{LONG} {i % 4}" if i % 3 else "SECRET", "prediction": f"SECRET {i % 5}", "group.site": s}
    for i, s in enumerate("xyz" * 8)
]


def written(result: Evaluation) -> str:
    return json.dumps([result.to_dict(), result.warnings])


@pytest.mark.parametrize("metrics", [["accuracy"], ["f1_macro"], ["accuracy", "f1_weighted", "confusion_matrix"]])
def test_texts_are_in_no_warning_and_no_detail(metrics: list[str]) -> None:
    result = evaluate(ROWS, metrics, by="group.site", resamples=0)
    assert "SECRET" not in written(result)
    assert any("predicted labels are never a target" in warning for warning in result.warnings)


def test_counts_stay() -> None:
    detail: Any = evaluate(ROWS, ["f1_macro"], resamples=0)["f1_macro"].detail
    assert detail["labels"] is detail["confusion_matrix"] is detail["predicted_but_never_a_target"] is None
    assert sum(detail["support"]) == sum(detail["predicted"]) == 24


def test_labels_that_are_declared_or_asked_with_are_named() -> None:
    labels = sorted({str(row[side]) for row in ROWS for side in ("target", "prediction")})
    declared: Any = evaluate(ROWS, ["f1_macro"], resamples=0, task={"labels": labels})["f1_macro"].detail
    assert sorted(declared["labels"]) == labels
    short = [{**row, "target": "SECRET"} for row in ROWS]
    assert set(evaluate(short, ["f1_macro"], resamples=0)["f1_macro"].detail["labels"]) == {
        "SECRET", *(f"SECRET {i}" for i in range(5)),
    }  # fmt: skip


def test_texts_are_no_classes_of_their_own() -> None:
    with pytest.raises(InputError, match="texts, which name no classes") as caught:
        evaluate(ROWS, ["f1"], resamples=0)
    assert "SECRET" not in str(caught.value)


def test_a_benchmark_keeps_counts_only(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "suite")
    answers = write_answers(tmp_path / "birch", suite, right=0.5)
    rows = [json.loads(line) for line in (answers / "triage.jsonl").read_text().splitlines()]
    (answers / "triage.jsonl").write_text(lines([{**row, "prediction": f"{LONG} {row['id']}"} for row in rows]))
    assert "f1_macro" in SUITE["tasks"][0]["metrics"]
    result = benchmark(suite, answers, settings=Settings(resamples=0))
    assert "SECRET" not in written(result.evaluation)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["yes", "no"], True),
        (["x" * 60], True),
        (["x" * 61], False),
        (["one two three four five"], True),
        (["one two three four five six", "no"], False),
        ([f"Mr {i}" for i in range(100)], True),
        ([f"Mr {i}" for i in range(101)], False),
        (range(101), True),
    ],
)
def test_names_are_few_and_short(labels: Any, names: bool) -> None:
    assert are_names(labels) is names


def test_a_class_that_is_a_text_is_not_named_unless_it_was_asked_for() -> None:
    texts = [f"Mrs Smith of room {i % 2} fell again and broke her hip at night, says her son" for i in range(12)]
    table = {"item": list(range(12)), "target": texts, "prediction": texts}
    records = sy.Records.from_columns(table)
    chosen, asked = sy.evaluate(records, ["sensitivity", f"sensitivity(positive={json.dumps(texts[0])})"], resamples=0)
    assert chosen.detail["positive"] is None
    assert asked.detail["positive"] == texts[0]
    few = {"item": list(range(3)), "target": ["a", "b", "b"], "prediction": ["a", "b", "a"]}
    (named,) = sy.evaluate(sy.Records.from_columns(few), ["sensitivity"], resamples=0)
    assert named.detail["positive"] == "a"
