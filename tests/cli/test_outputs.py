"""What may be written where: nothing over what is read or kept, everything or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import answers, lines
from tests.support.commands import command as command

FEW = ("-m", "accuracy", "--resamples", 100)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_text(lines(answers()))
    return path


@pytest.fixture
def store(data: Path) -> Path:
    root = data.parent / "store"
    for run in ("base", "new"):
        done = command("evaluate", data, *FEW, "--save", "--run-id", run, "--root", root, root=data.parent)
        assert done.code == 0, done.err
    return root


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and ".index" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("name", ["a.task.yaml", ".task.yaml"])
@pytest.mark.parametrize("option", ["--summary", "--output", "--junit"])
def test_the_task_file_next_to_the_data_is_an_input(data: Path, name: str, option: str) -> None:
    task = data.parent / name
    task.write_text("direction: higher\n")
    done = command("gate", "--run", data, "--rule", "accuracy >= 0", option, task, root=data.parent)
    assert done.code == 2
    assert "is what would be read" in done.err
    assert task.read_text() == "direction: higher\n"


def test_a_step_summary_of_actions_may_not_be_a_task_file(data: Path) -> None:
    task = data.parent / "a.task.yaml"
    task.write_text("direction: higher\n")
    actions = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(task)}
    done = command("gate", "--run", data, "--rule", "accuracy >= 0", root=data.parent, **actions)
    assert done.code == 2
    assert task.read_text() == "direction: higher\n"


@pytest.mark.parametrize(
    "place",
    [
        "results/evaluation/gates/attempts.json",
        "results/evaluation/active/default/accuracy.json",
        "results/evaluation/runs/evaluate/new/records.parquet",
        "results/evaluation/runs/evaluate/new/more/x.json",
        "results/.index/runs.sqlite",
        "results/evaluation/tenants/t/active/default/x.json",
    ],
)
def test_nothing_is_written_into_the_store(data: Path, store: Path, place: str) -> None:
    before = contents(store)
    asked = ("gate", "--run", "new", "--baseline", "base", "--root", store, "--rule", "accuracy >= 0")
    done = command(*asked, "--output", store / place, root=data.parent)
    assert done.code == 2
    assert "belongs to a run that was kept" in done.err
    assert contents(store) == before


@pytest.mark.parametrize(("out", "code"), [("a.jsonl", 5), ("store/results/evaluation/runs/evaluate/once", 2)])
def test_a_run_is_not_kept_where_its_outputs_cannot_be_written(data: Path, out: str, code: int) -> None:
    root = data.parent / "store"
    asked = ("evaluate", data, *FEW, "--save", "--run-id", "once", "--root", root)
    done = command(*asked, "--out", data.parent / out, root=data.parent)
    assert done.code == code
    assert not root.exists()
    assert command(*asked, "--out", data.parent / "o", root=data.parent).code == 0


def test_several_outputs_are_written_all_or_not_at_all(data: Path) -> None:
    blocked = data.parent / "blocked"
    blocked.write_text("")
    asked = ("gate", "--run", data, "--rule", "accuracy >= 0", "--junit", data.parent / "new" / "x.xml")
    done = command(*asked, "--output", blocked / "no.json", root=data.parent)
    assert done.code == 5, done.err
    assert not (data.parent / "new").exists()


def test_a_run_that_cannot_be_used_is_named_where_runs_are_chosen(data: Path, store: Path) -> None:
    path = store / "results/evaluation/runs/evaluate/new/run.json"
    document: dict[str, Any] = json.loads(path.read_text())
    document["Metrics"]["accuracy"] = 0.99
    path.write_text(json.dumps(document))
    for asked in (("compare",), ("best",), ("decide",)):
        done = command("runs", *asked, "-m", "accuracy", "--root", store, root=data.parent)
        assert done.code == 0, done.err
        assert "cannot be used: run new" in done.err


def test_every_format_that_is_named_is_written_next_to_the_document(data: Path) -> None:
    folder = data.parent
    for asked, names in (
        ((), {"evaluation.json"}),
        (("--format", "json"), {"evaluation.json"}),
        (("--format", "latex"), {"evaluation.json", "evaluation.tex"}),
        (("--format", "table,csv,html"), {"evaluation.json", "evaluation.txt", "evaluation.csv", "evaluation.html"}),
    ):
        out = folder / f"out{len(asked and asked[1])}"
        done = command("evaluate", data, *FEW, *asked, "--out", out, root=folder)
        assert done.code == 0, done.err
        assert {path.name for path in out.iterdir()} == names
    assert command("evaluate", data, *FEW, "--format", "table,csv", root=folder).code == 2


def test_titles_and_names_of_metrics(data: Path) -> None:
    for asked, word in (((), "accuracy"), (("--titles",), "Accuracy")):
        done = command("evaluate", data, *FEW, "--format", "csv", *asked, root=data.parent)
        assert done.out.splitlines()[1].startswith(word)
