"""Runs that other tools wrote: picked up, whatever the case of their keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import SteelyardError, StorageError, UsageError
from steelyard.runs.index import Index
from steelyard.runs.run_json import read_run
from steelyard.runs.saved import SavedRun
from tests.support.stores import (
    FOREIGN,
    by_run,
    call,
    foreign,
    kept,
    listed,
    printed,
    problems,
    small,
)


def test_a_file_of_another_tool_is_picked_up_whatever_the_case_of_its_keys(tmp_path: Path) -> None:
    kept(tmp_path, "ours")
    theirs = {
        "runId": "B7C1",
        "workflowName": "Retrieval",
        "TENANT": "",
        "startedUtc": "2026-01-03T01:00:00+01:00",
        "finishedUtc": "2026-01-03T00:00:05.1234567Z",
        "labels": {"Model": "m1", "k": 3},
        "METRICS": {"Map@1": 0.25, "NDCG@3": 0.5},
        "somethingElse": [1, {"a": None}],
    }
    foreign(tmp_path, theirs)
    assert problems(tmp_path) == {}
    with Index(tmp_path) as index:
        run = index.find("B7C1")
        rows = [row[:3] for row in index.rows() if row[0] == "B7C1"]
    assert (run.workflow, run.tenant, run.complete, run.sealed) == ("Retrieval", None, True, False)
    assert run.started_at == "2026-01-03T00:00:00.000000Z"
    assert run.completed_at == "2026-01-03T00:00:05.123456Z"
    assert run.labels == {"Model": "m1", "k": "3"}
    assert run.metrics == {"Map@1": 0.25, "NDCG@3": 0.5}
    assert sorted(rows) == [("B7C1", "Map@1", 0.25), ("B7C1", "NDCG@3", 0.5)]
    for key in ("ndcg@3", "NDCG@3", "Ndcg@3"):
        assert SavedRun.at(run.folder).run.value(key) == 0.5
        best = printed("runs", "best", "--metric", key, "--root", tmp_path)
        assert (best["run_id"], best["value"], best["of"]) == ("B7C1", 0.5, 1)


@pytest.mark.parametrize(
    "more",
    [{"counts": {"queries": 50}}, {"inputs": [{"path": "queries.json"}]}, {"files": {}}, {"SchemaVersion": "1"}],
    ids=lambda more: next(iter(more)),
)
def test_fields_that_another_tool_has_too_are_no_sign_of_tampering(tmp_path: Path, more: dict[str, Any]) -> None:
    foreign(tmp_path, {**FOREIGN, **more})
    assert listed(tmp_path) == ["b7c1"]


def test_keys_of_own_runs_are_exact_and_questions_about_them_may_be_in_any_case(tmp_path: Path) -> None:
    folder = kept(tmp_path, "ours")
    run = read_run(folder)
    assert run.value("accuracy") == small()["accuracy"].value
    assert run.value("Accuracy") is None
    assert printed("runs", "best", "--metric", "ACCURACY", "--root", tmp_path)["metric"] == "accuracy"
    with pytest.raises(UsageError, match="no run has a value of 'acuracy'; the nearest are accuracy"):
        call("runs", "best", "--metric", "acuracy", "--root", tmp_path)


def test_rules_read_keys_in_any_case(tmp_path: Path) -> None:
    kept(tmp_path, "ours")
    foreign(tmp_path, {**FOREIGN, "RunId": "theirs", "Metrics": {"NDCG@3": 0.5, "map@1": 0.25}})
    assert call("gate", "--run", "theirs", "--rule", "ndcg@3 >= 0.5", "--root", tmp_path) == 0
    assert call("gate", "--run", "theirs", "--rule", "ndcg@3 >= 0.6", "--root", tmp_path) == 1
    assert call("gate", "--run", "ours", "--rule", "accuracy >= 0", "--root", tmp_path) == 0
    assert call("gate", "--run", "ours", "--rule", "ACCURACY >= 0", "--root", tmp_path) == 0


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "null", None])
def test_a_metric_that_is_no_number_is_missing_and_cannot_pass(tmp_path: Path, value: str | None) -> None:
    numbers = '"map@1": 0.25' + ("" if value is None else f', "ndcg@3": {value}')
    text = json.dumps({**FOREIGN, "Metrics": 0}).replace('"Metrics": 0', f'"Metrics": {{{numbers}}}')
    foreign(tmp_path, text)
    with Index(tmp_path) as index:
        assert index.find("b7c1").metrics == {"map@1": 0.25}
        names, rows = index.cells()
        assert (names, by_run(rows)) == (["map@1"], {"b7c1": {"map@1": 0.25}})
    assert call("gate", "--run", "b7c1", "--rule", "map@1 >= 0", "--root", tmp_path) == 0
    for rule in ("ndcg@3 >= 0", "! ndcg@3 <= 1", "ndcg@3 >= 0.001"):
        assert call("gate", "--run", "b7c1", "--rule", rule, "--root", tmp_path) == 1
    with pytest.raises(UsageError, match="no run has a value of 'ndcg@3'"):
        call("runs", "promote", "b7c1", "--metric", "ndcg@3", "--root", tmp_path)


def test_only_metrics_may_be_no_numbers(tmp_path: Path) -> None:
    foreign(tmp_path, '{"RunId": "one", "Metrics": {"a": NaN}, "Labels": {"temperature": NaN}}', "one")
    foreign(tmp_path, '{"RunId": "two", "Labels": {"temperature": NaN}, "Metrics": {"a": NaN}}', "two")
    foreign(tmp_path, '{"RunId": "three", "Metrics": {"a": 1, "a": 2}}', "three")
    assert listed(tmp_path) == []
    said = problems(tmp_path)
    assert said["one"].startswith("run one: Labels.temperature")
    assert said["two"].startswith("run two: Labels.temperature")
    assert said["three"].lower().startswith("run three: metrics")


@pytest.mark.parametrize(
    "change",
    [
        {"RunId": "\ud800"},
        {"Workflow": "w\ud800"},
        {"Tenant": "\udfff"},
        {"Labels": {"model": "\ud800"}},
        {"Labels": {"\ud800": "m"}},
        {"Metrics": {"ndcg\ud800": 0.5}},
        {"Metrics": {"ndcg{a=\ud800}": 0.5}},
        {"Better": {"ndcg@3": "\ud800"}},
        {"RunId": "a\0b"},
        {"RunId": "\x1b[31m"},
        {"RunId": "../../../up"},
        {"RunId": "x" * 100_000},
        {"Metrics": {"(" * 5000 + "{a=b}": 1}},
        {
            "Metrics": dict.fromkeys(
                ("", "{", "}", "a{", "a{b}", "{a=b}", "a{a=}", "a{b=c}{d=e}", "'; DROP TABLE runs"), 1
            )
        },
        {"RunId": ""},
        {"StartedAtUtc": "0001-01-01T00:00:00"},
        {"StartedAtUtc": "9999-12-31T23:59:59Z"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_a_file_of_another_tool_holds_the_others_are_listed(tmp_path: Path, change: dict[str, Any]) -> None:
    kept(tmp_path, "good")
    foreign(tmp_path, {**FOREIGN, **change})
    for _ in range(2):
        assert "good" in listed(tmp_path)
        with Index(tmp_path) as index:
            assert len(index.runs()) + len(index.problems()) == 2
            assert all(index.find(run.run_id) == run for run in index.runs())
            assert by_run(index.cells()[1])["good"] == {"accuracy": small()["accuracy"].value, "n_predictions": 12}
    for command in (["list"], ["metrics"], ["metrics", "--pivot"], ["compare", "--metric", "accuracy"]):
        call("runs", *command, "--root", tmp_path, "--format", "json")
        call("runs", *command, "--root", tmp_path)


def test_a_field_twice_in_different_cases_is_an_error(tmp_path: Path) -> None:
    folder = foreign(tmp_path, {**FOREIGN, "metrics": {"ndcg@3": 0.9}})
    with pytest.raises(StorageError, match=r"run theirs: metrics: the field appears twice"):
        read_run(folder)


def test_a_run_without_an_end_is_not_complete(tmp_path: Path) -> None:
    foreign(tmp_path, {k: v for k, v in FOREIGN.items() if k != "CompletedAtUtc"})
    foreign(tmp_path, {**FOREIGN, "RunId": "said", "Complete": False}, "said")
    with Index(tmp_path) as index:
        assert [run.complete for run in index.runs()] == [False, False]
    with pytest.raises(SteelyardError, match="no complete run"):
        call("runs", "best", "--metric", "ndcg@3", "--root", tmp_path)
    assert call("gate", "--run", "b7c1", "--rule", "ndcg@3 >= 0", "--root", tmp_path) == 1


def test_the_folder_says_whose_run_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "results/evaluation/tenants/acme/runs/Retrieval/theirs"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({**FOREIGN, "Tenant": "rival"}))
    with Index(tmp_path, tenant="rival") as index:
        assert index.runs() == []
