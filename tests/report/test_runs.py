"""Reports about kept runs say what the commands print: the best, what was removed, how many there are, all numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.ground.json import dumps
from steelyard.report.formats import render
from steelyard.report.runs import best_report, index_report, metrics_report, removal_report
from steelyard.runs.index import Index, RunEntry
from steelyard.runs.layout import View
from steelyard.runs.standing import candidates
from tests.support.commands import command

NOTE = "the best of 2 runs is optimistic: part of its lead is chance"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two runs of different accuracy."""
    folder = tmp_path_factory.mktemp("runs")
    for name, share in (("one", 0.5), ("two", 0.8)):
        right = np.random.default_rng(1).random(60) < share
        rows = [dumps({"item": str(i), "target": 1, "prediction": int(yes)}) for i, yes in enumerate(right.tolist())]
        (folder / f"{name}.jsonl").write_text("".join(row.replace("\n", "") + "\n" for row in rows))
        file = str(folder / f"{name}.jsonl")
        done = command("evaluate", file, "-m", "accuracy", "--save", "--run-id", name, "--resamples", 0, root=folder)
        assert done.code == 0, done.err
    return folder


def runs(root: Path) -> list[RunEntry]:
    with Index.within(View(root, None, None)) as index:
        return index.runs()


def test_the_best_run(root: Path) -> None:
    order = candidates(runs(root), "accuracy")
    shown = render("table", best_report(order[0], "accuracy", len(order), NOTE))
    assert command("runs", "best", "-m", "accuracy", root=root).out == shown
    assert shown.splitlines()[2].split() == ["two", "evaluate", "accuracy", "0.7667", "2"]
    assert NOTE not in render("table", best_report(order[0], "accuracy", 1, ""))


def test_how_many_runs_there_are(root: Path) -> None:
    shown = render("table", index_report(runs(root), []))
    assert command("runs", "index", root=root).out == shown == "runs  cannot be used\n----  --------------\n   2  0\n"


def test_every_number(root: Path) -> None:
    with Index.within(View(root, None, None)) as index:
        shown = render("csv", metrics_report(index.rows()))
    assert command("runs", "metrics", "--format", "csv", root=root).out == shown
    assert "one,accuracy," in shown


def test_what_was_removed() -> None:
    run = ("one", "evaluate")
    assert render("csv", removal_report(*run, ["a", "b"])) == 'run,workflow,removed\none,evaluate,"a, b"\n'
    assert "the run kept no rows" in render("table", removal_report(*run, []))
    assert "kept no rows" not in render("table", removal_report(*run, ["a"]))
