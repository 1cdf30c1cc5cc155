"""A gate as a test of a team: one line, and a failure that shows the table."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from steelyard.records.readers import read
from tests.support.answers import answer_files
from tests.support.shelf import Shelf

TEAM = """
RUN = dict(resamples=200, cluster="patient")

def test_passes(steelyard_gate):
    decision = steelyard_gate("new.jsonl", baseline="old.jsonl", rules="low(delta(accuracy)) >= -0.01", **RUN)
    assert decision.passed

def test_fails(steelyard_gate):
    steelyard_gate("new.jsonl", rules=["accuracy >= 0.99", "accuracy >= 0.1"], **RUN)

def test_is_open(steelyard_gate):
    steelyard_gate("new.jsonl", rules=["low(accuracy) >= 0.76"], **RUN)

def test_is_open_and_allowed(steelyard_gate):
    decision = steelyard_gate("new.jsonl", rules=["low(accuracy) >= 0.76"], allow_inconclusive=True, **RUN)
    assert decision.verdict == "inconclusive"

def test_allowing_the_open_does_not_allow_a_fail(steelyard_gate):
    steelyard_gate("new.jsonl", rules=["accuracy >= 0.98"], allow_inconclusive=True, **RUN)

def test_kept_runs(steelyard_gate):
    steelyard_gate("kept/new", baseline="kept/old", rules=["low(delta(accuracy)) >= -0.01"])

def test_records(steelyard_gate):
    import steelyard
    steelyard_gate(steelyard.read("new.jsonl", cluster="patient"), rules="accuracy >= 0.5", resamples=200)
"""


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    folder, files = tmp_path_factory.mktemp("team"), answer_files(tmp_path_factory.mktemp("answers"))
    for name in ("old", "new"):
        shutil.copy(files / f"{name}.jsonl", folder)
    shelf = Shelf(folder / "store")
    runs = folder / "kept"
    runs.mkdir()
    for name in ("old", "new"):
        opened = shelf.keep(read(folder / f"{name}.jsonl", cluster="patient"))
        shutil.copytree(opened.folder, runs / name)
    (folder / "test_team.py").write_text(TEAM)
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-rA", "test_team.py"],
        cwd=folder, env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("test_passes", "PASSED"),
        ("test_fails", "FAILED"),
        ("test_is_open", "FAILED"),
        ("test_is_open_and_allowed", "PASSED"),
        ("test_allowing_the_open_does_not_allow_a_fail", "FAILED"),
        ("test_kept_runs", "PASSED"),
        ("test_records", "PASSED"),
    ],
)
def test_a_gate_is_one_line_of_a_test(team: subprocess.CompletedProcess[str], name: str, outcome: str) -> None:
    assert re.search(rf"^{outcome} test_team.py::{name}\b(?!_)", team.stdout, re.MULTILINE), team.stdout + team.stderr


def test_a_failed_gate_shows_the_table_and_no_traceback(team: subprocess.CompletedProcess[str]) -> None:
    assert team.returncode == 1
    section = team.stdout.split("_ test_fails _")[1].split("_ test_is_open _")[0]
    assert "gate: FAIL" in section
    for said in ("accuracy >= 0.99", "accuracy >= 0.1", "FAIL", "PASS", "no allowance for chance", "95% interval"):
        assert said in section
    assert "Traceback" not in section
    assert "pytest_plugin.py" not in section
    assert "gate: INCONCLUSIVE" in team.stdout.split("_ test_is_open _")[1]
