"""Suites are read strictly: what is wrong is said with its line and what may have been meant."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from steelyard.errors import UsageError
from steelyard.study.suite import load_suite, suite_schema
from tests.support.suites import SUITE, write_suite

Change = Callable[[dict[str, Any]], Any]


def changed(change: Change) -> dict[str, Any]:
    suite = copy.deepcopy(SUITE)
    change(suite)
    return suite


def test_a_suite_is_read(tmp_path: Path) -> None:
    suite = load_suite(write_suite(tmp_path))
    assert [task.name for task in suite.tasks] == ["triage", "recall", "notes"]
    assert [task.primary for task in suite.tasks] == ["accuracy", "accuracy", "selective_accuracy"]
    how = suite.combining()
    assert (how.weights, how.name, how.renormalize_missing) == (
        {"diagnostics": 0.6, "safety": 0.4},
        "combined_score",
        True,
    )
    assert suite.plan(how).to_dict()["tasks"] == {
        "triage": {"accuracy": "diagnostics", "f1_macro": "diagnostics"},
        "recall": {"accuracy": "diagnostics"},
        "notes": {"selective_accuracy": "safety", "accuracy": "diagnostics", "parse_failure_rate": None},
    }
    jsonschema.Draft202012Validator(suite_schema()).validate(SUITE)


def test_the_folder_of_a_suite_stands_for_it(tmp_path: Path) -> None:
    assert load_suite(write_suite(tmp_path).parent).name == "clinic"


WRONG: list[tuple[Change, str]] = [
    (lambda s: s.update(task=[]), r"suite.yaml:\d+: unknown key 'task'; did you mean 'tasks'\?"),
    (lambda s: s["tasks"][0].update(metric=["accuracy"]), r":\d+: tasks\[0\]: unknown key 'metric'; did you mean"),
    (lambda s: s["tasks"][1].update(type="quiz"), r":\d+: tasks\[1\].type: one of communication, diagnostic_reasoning"),
    (lambda s: s["tasks"][1].update(metrics=["acuracy"]), r":\d+: tasks\[1\].metrics\[0\]: unknown metric 'acuracy'"),
    (lambda s: s["tasks"][1].update(metrics=["f1"]), "stands for several"),
    (lambda s: s["tasks"][1].update(metrics=[]), "at least 1 entries"),
    (lambda s: s["tasks"][1].update(metrics=["accuracy", "accuracy"]), "listed twice"),
    (lambda s: s["tasks"][0].update(primary="f1_macr"), r":\d+: tasks\[0\].primary: .*did you mean 'f1_macro'\?"),
    (lambda s: s["tasks"][2].update(name="triage"), r":\d+: tasks\[2\].name: another task has this name"),
    (lambda s: s["tasks"][2].update(name="../x"), r":\d+: tasks\[2\].name: a task's name is a plain word"),
    (lambda s: s["tasks"][2].update(data="gone.jsonl"), r":\d+: tasks\[2\].data: there is no such file"),
    (lambda s: s.update(tasks=[]), "at least 1 entries"),
    (lambda s: s.pop("name"), "'name' is needed"),
    (lambda s: s["combined"].update(weights={"diagnostic": 1}), r":\d+: combined: weights: unknown category"),
    (lambda s: s["combined"].update(weights={"safety": -1}), r":\d+: combined: .*at least 0"),
    (lambda s: s["combined"].update(weights={"safety": 0}), r":\d+: combined: .*above 0"),
    (lambda s: s["combined"].update(weights={"safety": "much"}), r":\d+: combined.weights.*: a number is expected"),
    (lambda s: s["combined"].update(name="accuracy"), "is a metric or a category"),
    (lambda s: s["combined"].update(name="an index"), "plain word"),
    (lambda s: s["combined"]["map"].update(parse_failure_rate="safety"), "cannot count in safety"),
    (lambda s: s["combined"]["map"].update(accuracy="very safe"), "a category is a plain word"),
]


@pytest.mark.parametrize(("change", "said"), WRONG)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, change: Change, said: str) -> None:
    path = write_suite(tmp_path, changed(change))
    with pytest.raises(UsageError, match=said):
        load_suite(path)


def test_nan_is_no_weight(tmp_path: Path) -> None:
    path = write_suite(tmp_path)
    path.write_text(path.read_text().replace("safety: 0.4", "safety: .nan"))
    with pytest.raises(UsageError, match="finite"):
        load_suite(path)


@pytest.mark.parametrize("text", ["name: x\na: [", "name: x\n\ttasks: []\n", "name: x\nname: y\n", "? [a]\n: b\n"])
def test_what_is_no_yaml_is_said_with_its_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "suite.yaml").write_text(text)
    with pytest.raises(UsageError, match=r"suite.yaml:\d+: "):
        load_suite(tmp_path)


def test_a_name_that_is_no_suite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a suite file"):
        load_suite("nothing")
    with pytest.raises(UsageError, match="cannot be read"):
        load_suite(tmp_path / "gone.yaml")


def test_a_suite_without_weights_takes_the_usual_ones(tmp_path: Path) -> None:
    suite = load_suite(write_suite(tmp_path, changed(lambda s: s.pop("combined"))))
    assert suite.combining().weights["diagnostics"] == 0.4
    assert suite.combining(weights={"safety": 1}).weights == {"safety": 1.0}


def test_categories_of_ones_own_weigh_alike_where_nothing_is_said(tmp_path: Path) -> None:
    own = {"map": {"accuracy": "recall", "f1_macro": "balance", "selective_accuracy": None}}
    suite = load_suite(write_suite(tmp_path, changed(lambda s: s.update(combined=own))))
    assert suite.combining().weights == {"balance": 1.0, "recall": 1.0}


def test_what_is_asked_for_wins_over_the_suite(tmp_path: Path) -> None:
    suite = load_suite(write_suite(tmp_path))
    how = suite.combining(
        weights={"manners": 1}, name="index", categories={"f1_macro": "manners"}, renormalize_missing=False
    )
    assert (how.name, how.renormalize_missing, how.weights) == ("index", False, {"manners": 1.0})
    assert how.categories.of("f1_macro") == "manners"
    assert yaml.safe_load((tmp_path / "suite.yaml").read_text())["combined"]["map"]["f1_macro"] == "diagnostics"
