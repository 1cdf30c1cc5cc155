"""Runs leave the store, whole or only the rows they kept; not while something points to them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from steelyard.ground import files
from steelyard.runs.saved import SavedRun
from tests.support.commands import command


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"item": i, "target": "a", "prediction": "a" if i % 3 else "b"}) + "\n" for i in range(30))
    )
    for name in ("one", "two"):
        done = command("evaluate", tmp_path / "a.jsonl", "-m", "accuracy", "--resamples", 100, "--save-records",
                       "--workflow", "W", "--run-id", name, "--root", tmp_path)  # fmt: skip
        assert done.returncode == 0, done.stderr
    return tmp_path


def runs(store: Path, *words: Any, code: int = 0) -> Any:
    done = command("runs", *words, "--root", store, "--format", "json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout) if code == 0 else done.stderr


def test_a_run_is_deleted_whole(store: Path) -> None:
    folder = store / "results/evaluation/runs/W/one"
    assert "records.parquet" in runs(store, "delete", "one", "--yes")["removed"]
    assert not folder.exists()
    assert [path.name for path in folder.parent.iterdir()] == ["two"]
    assert [run["run_id"] for run in runs(store, "list")["runs"]] == ["two"]
    assert "is no run here" in runs(store, "delete", "one", "--yes", code=2)


def test_the_index_forgets_a_deleted_run_at_once(store: Path) -> None:
    done = command("evaluate", store / "a.jsonl", "-m", "accuracy", "--resamples", 100, "--save", "--workflow", "W",
                   "--run-id", "secret", "--label", "who=JohnCanary", "--root", store)  # fmt: skip
    assert done.returncode == 0
    runs(store, "list")
    runs(store, "delete", "secret", "--yes")
    for path in (store / "results").rglob("*"):
        assert not path.is_file() or b"JohnCanary" not in path.read_bytes(), path


def test_only_the_rows_can_go(store: Path) -> None:
    folder = store / "results/evaluation/runs/W/one"
    before = json.loads((folder / "run.json").read_text())
    assert runs(store, "delete", "one", "--texts-only", "--yes")["removed"] == ["records.parquet"]
    assert not (folder / "records.parquet").exists()
    opened = SavedRun.at(folder)
    opened.verify()
    after = json.loads((folder / "run.json").read_text())
    assert set(before["Files"]) - set(after["Files"]) == {"records.parquet"}
    assert {k: v for k, v in before.items() if k not in ("Files", "Digest")} == {
        k: v for k, v in after.items() if k not in ("Files", "Digest")
    }
    assert runs(store, "compare", "-m", "accuracy")["runs"][1]["verdict"] in ("unchanged", "inconclusive")
    assert runs(store, "delete", "one", "--texts-only", "--yes")["removed"] == []


def test_what_something_points_to_stays(store: Path) -> None:
    runs(store, "promote", "one", "-m", "accuracy")
    runs(store, "pin", "two", "--as", "anchor")
    for name, said in (("one", "is active for accuracy (default)"), ("two", "is pinned as anchor")):
        for more in ((), ("--texts-only",)):
            assert said in runs(store, "delete", name, "--yes", *more, code=2)
    runs(store, "promote", "two", "-m", "accuracy")
    runs(store, "delete", "one", "--yes")
    assert "is not here any more" in runs(store, "rollback", "-m", "accuracy", code=5)


def test_nobody_is_asked_where_nobody_can_answer(store: Path) -> None:
    assert "there is no terminal to ask at; add --yes" in runs(store, "delete", "one", code=2)
    assert len(runs(store, "list")["runs"]) == 2


@pytest.mark.parametrize(("answer", "left"), [("y\n", 1), ("n\n", 2), ("\n", 2)])
def test_at_a_terminal_the_question_is_asked(
    store: Path, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    import io
    import sys

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    done = command("runs", "delete", "one", "--root", store)
    assert "Remove run W/one? This cannot be undone" in done.stderr + done.stdout
    assert len(runs(store, "list")["runs"]) == left


def test_what_a_crash_left_goes_with_the_next_removal(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files.shutil, "rmtree", killed)
        assert command("runs", "delete", "one", "--yes", "--root", store).returncode == 130
    place = store / "results/evaluation/runs/W"
    assert [run["run_id"] for run in runs(store, "list")["runs"]] == ["two"]
    assert len(list(place.iterdir())) == 2
    runs(store, "delete", "two", "--yes")
    assert list(place.iterdir()) == []


def test_a_run_that_cannot_be_read_can_be_removed(store: Path) -> None:
    runs(store, "promote", "two", "-m", "accuracy")
    for how in (("--texts-only",), ()):
        (store / "results/evaluation/runs/W/one/run.json").write_text("{")
        assert runs(store, "delete", "one", "--yes", *how)["removed"]
    assert not (store / "results/evaluation/runs/W/one").exists()


def test_a_pointer_that_cannot_be_read_keeps_only_what_it_mentions(store: Path) -> None:
    runs(store, "promote", "two", "-m", "accuracy")
    (pointer,) = (store / "results/evaluation/active").glob("*/*.json")
    pointer.write_text(pointer.read_text() + "x")
    assert "cannot be read and mentions the run" in runs(store, "delete", "two", "--yes", code=2)
    runs(store, "delete", "one", "--yes")


def test_of_two_copies_one_can_be_named_by_its_path(store: Path) -> None:
    place = store / "results/evaluation/runs/W"
    shutil.copytree(place / "one", place / "copy")
    said = runs(store, "delete", "one", "--yes", code=2)
    assert "results/evaluation/runs/W/copy" in said
    runs(store, "delete", "results/evaluation/runs/W/copy", "--yes")
    assert sorted(path.name for path in place.iterdir()) == ["one", "two"]
