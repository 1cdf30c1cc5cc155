"""What a process that was killed left half-made: it is said, and removed, and what somebody is writing never is."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from steelyard.ground import files as ground
from tests.support.commands import command
from tests.support.failures import killed, process, race
from tests.support.stores import RUNS, kept, leftovers, listed, problems

KILLED = """
from steelyard.ground import files
real = files._write_flushed
def half(path, data, *rest):
    if path.name == "run.json":
        print("half", flush=True)
        time.sleep(600)
    real(path, data, *rest)
files._write_flushed = half
kept("never")
"""


def half_made(root: Path) -> Path:
    """A folder that a process which is gone left."""
    killed(root, KILLED, 0.0)
    (folder,) = leftovers(root)[:1]
    assert folder.is_dir()
    return folder


def test_a_save_that_was_killed_is_named_by_the_list(tmp_path: Path) -> None:
    kept(tmp_path, "old")
    half_made(tmp_path)
    done = command("runs", "list", "--root", tmp_path, "--format", "json")
    assert [run["run_id"] for run in done.json["runs"]] == ["old"]
    (problem,) = done.json["problems"]
    assert "never" in problem["run"]
    assert "was stopped" in problem["problem"]
    said = command("runs", "list", "--root", tmp_path).out
    assert "was stopped" in said
    assert "--leftovers" in said


def test_the_next_save_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    kept(tmp_path, "old")
    left = half_made(tmp_path)
    kept(tmp_path, "new")
    assert not left.exists()
    assert listed(tmp_path) == ["new", "old"]
    assert problems(tmp_path) == {}


def test_leftovers_are_removed_on_demand_and_said(tmp_path: Path) -> None:
    kept(tmp_path, "old")
    left = half_made(tmp_path)
    done = command("runs", "delete", "--leftovers", "--root", tmp_path, "--format", "json")
    assert done.code == 0, done.err
    assert done.json["removed"] == [left.name]
    assert not left.exists()
    assert listed(tmp_path) == ["old"]
    again = command("runs", "delete", "--leftovers", "--root", tmp_path)
    assert again.code == 0, again.err
    assert "nothing was left" in again.out


def test_a_run_and_leftovers_are_not_asked_for_at_once(tmp_path: Path) -> None:
    kept(tmp_path, "old")
    for words in (("old", "--leftovers"), ("--leftovers", "--texts-only"), ()):
        assert command("runs", "delete", *words, "--yes", "--root", tmp_path).code == 2


def test_a_folder_that_somebody_is_writing_is_neither_named_nor_removed(tmp_path: Path) -> None:
    kept(tmp_path, "old")
    writer = process(tmp_path, KILLED)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline()
        (folder,) = [p for p in leftovers(tmp_path) if p.is_dir()]
        assert command("runs", "list", "--root", tmp_path, "--format", "json").json["problems"] == []
        assert command("runs", "delete", "--leftovers", "--root", tmp_path).code == 0
        kept(tmp_path, "new")
        assert folder.is_dir()
    finally:
        writer.kill()
        writer.communicate()
    kept(tmp_path, "newer")
    assert not folder.exists()


def test_a_half_made_folder_without_a_lock_is_left_alone_while_it_is_young(tmp_path: Path) -> None:
    place = kept(tmp_path, "old").with_name(".young.0123456789ab")
    place.mkdir()
    kept(tmp_path, "new")
    assert place.exists()
    day_before = time.time() - 86_400
    os.utime(place, (day_before, day_before))
    kept(tmp_path, "newer")
    assert not place.exists()


def test_other_hidden_folders_are_nobodys_leftovers(tmp_path: Path) -> None:
    place = kept(tmp_path, "old").with_name(".cache")
    place.mkdir()
    os.utime(place, (0, 0))
    assert command("runs", "delete", "--leftovers", "--root", tmp_path).code == 0
    kept(tmp_path, "new")
    assert place.exists()


def test_saves_and_sweeps_of_several_processes_lose_nothing(tmp_path: Path) -> None:
    root = tmp_path / "store"
    code = """
from steelyard.ground.files import sweep
meet()
for _ in range(40):
    kept()
    sweep(root / "results/evaluation/runs/Triage")
print(json.dumps(number))
"""
    race(root, 4, code)
    assert len(listed(root)) == 160
    assert problems(root) == {}
    assert leftovers(root) == []


@pytest.mark.parametrize("swept", ["the folder", "a file in it", "the folder of the workflow"])
def test_a_removal_bears_another_one_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swept: str
) -> None:
    """Whatever another process takes away first, the run is gone and nobody hears of an error."""
    place = kept(tmp_path, "one").parent
    kept(tmp_path, "two")
    real, done = shutil.rmtree, []

    def raced(path: Path, *rest: object, **options: object) -> None:
        if not done:
            done.append(path)
            if swept == "a file in it":
                (Path(path) / "run.json").unlink()
                raise FileNotFoundError(2, "No such file or directory")
            real(place if swept == "the folder of the workflow" else path)
        real(path, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ground.shutil, "rmtree", raced)
    ended = command("runs", "delete", "one", "--yes", "--root", tmp_path)
    assert ended.code == 0, ended.err
    assert done
    assert not (place / "one").exists()
    assert not [p for p in leftovers(tmp_path) if p.is_dir()]


def test_several_processes_delete_at_the_same_time(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for i in range(24):
        kept(root, f"run{i}")
    code = """
from steelyard.runs.deleting import delete_run, doomed
from steelyard.runs.layout import View
meet()
for i in range(number, 24, count):
    delete_run(doomed(View(root), f"run{i}"))
print(json.dumps(number))
"""
    race(root, 4, code)
    assert listed(root) == []
    assert not list((root / RUNS / "Triage").iterdir())
