"""Where the root of a store is."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from steelyard.records.readers import read
from steelyard.runs.saved import SavedRun
from tests.support.answers import lines
from tests.support.commands import command
from tests.support.stores import (
    kept,
    listed,
    problems,
    raised,
)


def test_root_and_tenant_come_from_the_environment_and_options_override_them(tmp_path: Path) -> None:
    rows = [{"item": f"q{i}", "target": "yes", "prediction": "yes" if i % 2 else "no"} for i in range(8)]
    (tmp_path / "answers.jsonl").write_text(lines(rows))
    here, there, work = tmp_path / "here", tmp_path / "there", tmp_path / "work"
    work.mkdir()
    arguments = (
        "evaluate",
        tmp_path / "answers.jsonl",
        "-m",
        "accuracy",
        "--resamples",
        0,
        "--save",
        "--workflow",
        "W",
    )
    environment = {"STEELYARD_ROOT": str(here), "STEELYARD_TENANT": "acme"}
    for more in ((), ("--root", there), ("--tenant", "other")):
        done = command(*arguments, "--run-id", "run", *more, cwd=work, **environment)
        assert done.returncode == 0, done.stderr
    assert (here / "results/evaluation/tenants/acme/runs/W/run/run.json").is_file()
    assert (there / "results/evaluation/tenants/acme/runs/W/run/run.json").is_file()
    assert (here / "results/evaluation/tenants/other/runs/W/run/run.json").is_file()
    (work / ".git").mkdir()
    (work / "deep").mkdir()
    none = {"STEELYARD_ROOT": "", "STEELYARD_TENANT": ""}
    done = command(*arguments, "--run-id", "run", "--save-records", cwd=work / "deep", **none)
    assert done.returncode == 0, done.stderr
    folder = work / "results/evaluation/runs/W/run"
    assert sorted(os.listdir(folder)) == ["evaluation.json", "evidence.npz", "records.parquet", "run.json"]
    assert os.listdir(work / "deep") == []
    document = json.loads((folder / "run.json").read_text())
    digest = hashlib.sha256((tmp_path / "answers.jsonl").read_bytes()).hexdigest()
    assert [source["Sha256"] for source in document["Inputs"]] == [digest]
    records, again = read(tmp_path / "answers.jsonl"), SavedRun.at(folder).records
    assert again is not None
    assert {name: again.column(name).to_pylist() for name in again.stated} == {
        name: records.column(name).to_pylist() for name in records.stated
    }
    assert sorted(os.listdir(tmp_path)) == ["answers.jsonl", "here", "there", "work"]


@pytest.mark.parametrize(
    "second", [{"tenant": "other"}, {"workflow": "Other", "tenant": "acme"}], ids=["tenant", "workflow"]
)
def test_a_run_that_was_saved_can_be_used_even_if_another_one_elsewhere_has_its_name(
    tmp_path: Path, second: dict[str, Any]
) -> None:
    kept(tmp_path, "nightly", tenant="acme")
    if raised(lambda: kept(tmp_path, "nightly", **second)) is None:  # it may be refused, but not lost
        assert listed(tmp_path) == ["nightly", "nightly"]
    assert problems(tmp_path) == {}
