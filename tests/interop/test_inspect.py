"""Logs that inspect_ai wrote are read as the package itself reads them, and its metrics come out again."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.errors import InputError
from steelyard.records.readers.inspect_scores import number, parts
from tests.support.commands import command

LOGS = (
    "two_epochs.eval", "document.json", "several_scorers.eval", "graded.eval", "pattern.eval", "errors.eval",
    "limits.eval", "limited.eval", "reducers.eval", "stopped.eval", "two_epochs_chunked.eval",
    "several_scorers_chunked.eval", "two_epochs_deflated.eval", "two_epochs_scored_again.eval", "unfinished.eval",
)  # fmt: skip
EXCERPTS = {"stopped.eval": "6 of 12 samples", "unfinished.eval": "7 of 10 samples"}
Made = Callable[[str], Path]


@pytest.fixture
def folder(made: Made) -> Path:
    return made("inspect")


def facts(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "facts.json").read_text())[name]
    return found


def test_every_log_was_made(folder: Path) -> None:
    assert set(json.loads((folder / "facts.json").read_text())) == set(LOGS)


@pytest.mark.parametrize("name", LOGS)
def test_samples_and_scores_are_those_that_the_package_reads(folder: Path, name: str) -> None:
    records = sy.read(folder / name)
    task = records.column("task").to_pylist()
    keys = zip(
        records.column("item").to_pylist(),
        records.column("repeat").to_pylist(),
        (each.partition("/")[2] for each in task),
        strict=True,
    )
    read = dict(zip(keys, records.column("score").to_pylist(), strict=True))
    several = len(set(task)) > 1
    expected = {}
    for sample in facts(folder, name)["samples"]:
        scores = [part for scorer, score in sample["scores"].items() for part in parts(scorer, score["value"])]
        for scorer, value in scores or [("", None)]:
            expected[sample["id"], sample["epoch"], scorer if several else ""] = number(value)
    assert read == expected
    failed = {
        key[:2] for key, outcome in zip(read, records.column("outcome").to_pylist(), strict=True) if outcome == "failed"
    }
    assert {(s["id"], s["epoch"]) for s in facts(folder, name)["samples"] if s["error"] or s["limit"]} <= failed
    assert records.sources[0].excerpt.startswith(EXCERPTS.get(name, ""))
    assert bool(records.sources[0].excerpt) is (name in EXCERPTS)


@pytest.mark.parametrize("name", LOGS)
def test_stated_metrics_come_out_again(folder: Path, name: str) -> None:
    declared = sy.read(folder / name).sources[0].declared
    stated = facts(folder, name)["metrics"]
    assert [each.stated for each in declared] == [pytest.approx(metric[-1], nan_ok=True) for metric in stated]
    for each in declared:
        assert each.recomputed is not None, each.name
        assert each.recomputed == pytest.approx(each.stated, rel=1e-9, abs=1e-12) or isnan(each.stated)


def test_clustered_errors_are_among_them(folder: Path) -> None:
    declared = sy.read(folder / "reducers.eval").sources[0].declared
    clustered = [each for each in declared if each.name.startswith("choice/stderr2")]
    assert len(clustered) == 7
    assert sum(each.recomputed is not None and each.recomputed > 0 for each in clustered) >= 5


@pytest.mark.parametrize("name", ["two_epochs", "several_scorers"])
def test_samples_in_parts_are_the_same(folder: Path, name: str) -> None:
    whole, in_parts = sy.read(folder / f"{name}.eval"), sy.read(folder / f"{name}_chunked.eval")
    assert set(whole.stated) == set(in_parts.stated)
    for column in whole.stated:
        assert whole.column(column).to_pylist() == in_parts.column(column).to_pylist(), column


@pytest.mark.parametrize("name", ["two_epochs.eval", "two_epochs_chunked.eval", "document.json"])
def test_a_cut_log_is_refused_or_salvaged(folder: Path, name: str, tmp_path: Path) -> None:
    content = (folder / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="`salvage=True` keeps the"):
        sy.read(tmp_path / name)
    records = sy.read(tmp_path / name, salvage=True)
    assert 0 < len(records) < 20
    assert not records.sources[0].is_whole


@pytest.mark.parametrize("name", LOGS)
def test_every_log_is_evaluated_without_options(folder: Path, name: str) -> None:
    done = command("evaluate", folder / name, "--format", "json", "--resamples", 0)
    assert done.code == 0, done.err
    assert any(each["metric"] in ("accuracy", "mean(score)") for each in done.json["estimates"])
