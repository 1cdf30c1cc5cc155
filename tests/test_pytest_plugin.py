"""The fixture `steelyard_gate`: runs by id, pointers, counted attempts, and one line that says why."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.pytest_plugin import check
from tests.support.answers import lines, rows
from tests.support.commands import command

TESTS = """
RULE = "low(delta(accuracy)) >= -0.02"

def test_by_id(steelyard_gate):
    steelyard_gate("new", baseline="old", rules=RULE)

def test_active(steelyard_gate):
    steelyard_gate("new", baseline="active:accuracy", rules=RULE)

def test_pinned(steelyard_gate):
    assert steelyard_gate("new", baseline="pinned:anchor", rules=RULE).passed

def test_fails(steelyard_gate):
    steelyard_gate("old", baseline="new", rules=[RULE, "accuracy >= 0.99"])

def test_open(steelyard_gate):
    steelyard_gate("new", rules="low(accuracy) >= 0.92")

def test_open_skipped(steelyard_gate):
    steelyard_gate("new", rules="low(accuracy) >= 0.92", inconclusive="skip")

def test_open_expected(steelyard_gate):
    steelyard_gate("new", rules="low(accuracy) >= 0.92", inconclusive="xfail")

def test_open_failed_all_the_same(steelyard_gate):
    steelyard_gate("new", rules="accuracy >= 0.99", inconclusive="skip")

def test_no_file(steelyard_gate):
    steelyard_gate("nowhere.jsonl", rules="accuracy >= 0")

def test_no_baseline(steelyard_gate):
    steelyard_gate("new.jsonl", baseline="odl.jsonl", rules=RULE, cluster="patient", resamples=200)

def test_typo(steelyard_gate):
    steelyard_gate("new", rules="acuracy >= 0")

def test_other_tenant(steelyard_gate):
    steelyard_gate("new", rules="accuracy >= 0", tenant="acme")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, share in (("old", 0.6), ("new", 0.93)):
        (folder / f"{name}.jsonl").write_text(lines(rows(3, share)))
        saved = command("evaluate", f"{name}.jsonl", "-m", "accuracy", "--cluster", "patient", "--resamples", 200,
                        "--save", "--run-id", name, "--root", folder, cwd=folder)  # fmt: skip
        assert saved.returncode == 0, saved.stderr
    assert command("runs", "promote", "old", "-m", "accuracy", "--root", folder).returncode == 0
    assert command("runs", "pin", "old", "--as", "anchor", "--root", folder).returncode == 0
    (folder / "test_model.py").write_text(TESTS)
    return folder


def test_gates_as_tests(project: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "STEELYARD_ROOT": str(project), "HOME": str(project), "COLUMNS": "300"}
    line = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-n", "0", "test_model.py"]
    done = subprocess.run(line, cwd=project, env=environment, capture_output=True, text=True, check=False)
    summary = {
        line.split("::")[1].split(" ")[0]: line for line in done.stdout.splitlines() if "test_model.py::" in line
    }
    ended = {name: line.split(" ")[0] for name, line in summary.items()}
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    passed = {"test_by_id", "test_active", "test_pinned"}
    failed = {"test_fails", "test_open", "test_open_failed_all_the_same", "test_no_file", "test_no_baseline",
              "test_typo", "test_other_tenant"}  # fmt: skip
    assert {name for name, how in ended.items() if how == "PASSED"} == passed, done.stdout
    assert {name for name, how in ended.items() if how == "FAILED"} == failed, done.stdout
    assert ended["test_open_expected"] == "XFAIL"
    assert len(skipped) == 1
    assert "gate inconclusive: low(accuracy) >= 0.92: inconclusive, the interval contains the threshold" in skipped[0]
    said = {
        "test_fails": "gate fail: low(delta(accuracy)) >= -0.02: fail, shown to miss the threshold (and 1 more)",
        "test_open": "gate inconclusive: low(accuracy) >= 0.92: inconclusive",
        "test_no_file": "steelyard: the run 'nowhere.jsonl' is no file",
        "test_no_baseline": "the baseline 'odl.jsonl' is no file; did you mean 'old.jsonl'?",
        "test_typo": "unknown metric 'acuracy'; did you mean 'accuracy'?",
        "test_other_tenant": "'new' is no run here",
    }
    for name, words in said.items():
        assert words in summary[name], summary[name]
    assert "Traceback" not in done.stdout
    assert 'File "' not in done.stdout
    attempts = json.loads((project / "results/evaluation/gates/attempts.json").read_text())["Attempts"]
    assert [a["RunId"] for a in attempts if a["Baseline"]] == ["new", "new", "new", "old"]


def test_files_are_read_as_read_reads_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines([{**row, "age": i} for i, row in enumerate(rows(3, 0.9))]).replace('"item"', '"q"'))
    asked: dict[str, Any] = {"rules": "accuracy >= 0.5", "resamples": 200, "root": tmp_path}
    decision = check(path, map={"item": "q"}, where=["age>=40", "group.site=x,y"], cluster="patient", **asked)
    assert decision.rules[0].number.n == 80
    assert "clustered" not in capsys.readouterr().out
    check(path, map={"item": "q"}, **asked)
    assert "rows look clustered by 'patient' (40 values in 160 rows): cluster='patient'" in capsys.readouterr().out
