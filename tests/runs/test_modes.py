"""Who may read what is kept: evidence holds the ids of patients, so its owner, or a group that it is shared with."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steelyard.runs.saved import SavedRun
from tests.support.commands import command, steelyard
from tests.support.stores import RUNS, listed

UMASKS = pytest.mark.parametrize("umask", [0o022, 0o000, 0o077])
FEW = ("--resamples", "100")


@contextmanager
def under(umask: int) -> Iterator[None]:
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


def modes(root: Path) -> dict[str, int]:
    """The mode of everything under a root, by its place there."""
    paths = [root, *(root / "results").rglob("*"), root / "results"]
    return {path.relative_to(root).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in paths[1:]}


def unlike(root: Path, folder: int, file: int) -> dict[str, str]:
    return {
        name: oct(mode) for name, mode in modes(root).items() if mode != (folder if (root / name).is_dir() else file)
    }


def answers(folder: Path) -> Path:
    path = folder / "a.jsonl"
    rows = [{"item": i, "cluster": f"p{i // 2}", "target": "a", "prediction": "a" if i % 3 else "b"} for i in range(30)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def used(root: Path, *shared: str) -> None:
    """Everything that the store is used for: runs, the index, pointers, gates, deletions."""
    data = answers(root.parent)

    def done(*words: Any) -> None:
        ended = command(*words, "--root", root)
        assert ended.code in (0, 1, 6), ended.err

    for name in ("one", "two", "three"):
        done("evaluate", data, "-m", "accuracy", "--workflow", "W", "--save-records", "--run-id", name, *FEW, *shared)
    done("runs", "list")
    done("runs", "promote", "one", "-m", "accuracy", "--reason", "r")
    done("runs", "pin", "one", "--as", "anchor", "--reason", "r")
    done("gate", "two", "active:accuracy", "--rule", "low(delta(accuracy)) >= -1")
    done("runs", "delete", "three", "--texts-only", "--yes")
    done("runs", "list")


@UMASKS
def test_what_is_kept_is_its_owners_alone(tmp_path: Path, umask: int) -> None:
    root = tmp_path / "store"
    with under(umask):
        used(root)
    assert modes(root)["results/.index/runs.sqlite"] == 0o600
    assert unlike(root, 0o700, 0o600) == {}


@UMASKS
def test_a_store_may_be_shared_with_a_group(tmp_path: Path, umask: int) -> None:
    root = tmp_path / "store"
    with under(umask):
        used(root, "--group-readable")
    assert unlike(root, 0o750, 0o640) == {}


def test_a_store_that_is_shared_stays_so(tmp_path: Path) -> None:
    root = tmp_path / "store"
    used(root)
    data = answers(tmp_path)
    asked = ("evaluate", data, "-m", "accuracy", "--save", "--workflow", "W", *FEW, "--root", root)
    assert command(*asked, "--run-id", "shared", "--group-readable").code == 0
    assert command(*asked, "--run-id", "later").code == 0
    found = modes(root)
    for name in ("shared", "later"):
        assert found[f"{RUNS}/W/{name}"] == 0o750
        assert found[f"{RUNS}/W/{name}/evidence.npz"] == 0o640
    assert found[f"{RUNS}/W/one"] == 0o700  # what was kept for its owner stays so
    for above in ("results", "results/evaluation", str(RUNS), f"{RUNS}/W", "results/.index"):
        assert found[above] == 0o750, above
    assert found["results/.index/runs.sqlite"] == 0o640


def test_what_another_version_kept_is_read_and_not_opened_wider(tmp_path: Path) -> None:
    root = tmp_path / "store"
    used(root)
    for path in [root / "results", *(root / "results").rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    data = answers(tmp_path)
    done = command(
        "evaluate", data, "-m", "accuracy", "--save", "--workflow", "W", "--run-id", "new", *FEW, "--root", root
    )
    assert done.code == 0, done.err
    assert listed(root) == ["new", "one", "three", "two"]
    assert modes(root)[f"{RUNS}/W/new"] == 0o700
    assert modes(root)[f"{RUNS}/W/new/run.json"] == 0o600
    assert modes(root)["results/.index/runs.sqlite"] == 0o600
    assert modes(root)["results"] == 0o755


@pytest.mark.parametrize("shared", [(), ("--group-readable",)])
def test_models_that_are_asked_leave_their_replies_to_their_owner(tmp_path: Path, shared: tuple[str, ...]) -> None:
    (tmp_path / "f.py").write_text('def rule(item, prompt):\n    return "Answer: yes"\n')
    (tmp_path / "items.jsonl").write_text("".join(f'{{"id": "q{i}", "text": "t", "label": "yes"}}\n' for i in range(4)))
    task = {
        "name": "t",
        "data": "items.jsonl",
        "id": "id",
        "question": "text",
        "target": "label",
        "labels": ["yes", "no"],
    }
    (tmp_path / "t.task.yaml").write_text(json.dumps(task))
    spec = {"id": "s", "task": "t.task.yaml", "metrics": ["accuracy"],
            "models": [{"name": "m", "backend": "callable", "options": {"function": "f.py:rule"}}]}  # fmt: skip
    (tmp_path / "run.yaml").write_text(json.dumps(spec))
    root = tmp_path / "store"
    with under(0o000):
        done = command("run", tmp_path / "run.yaml", "--root", root, *FEW, *shared)
        assert done.code == 0, done.err
        matrix = {"workflow": "M", "variants": [{"name": "v", "command": ["true"]}]}
        (tmp_path / "matrix.yaml").write_text(json.dumps(matrix))
        assert command("runs", "matrix", tmp_path / "matrix.yaml", "--root", root).code == 0
    for path in [root / "results", *(root / "results").rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        parts = path.relative_to(root).parts
        if {"running", "cache.sqlite"} & {*parts} and path.name != "running":
            assert mode & 0o077 == 0, path
        elif "matrices" in parts and path.is_file():
            continue  # nobody else enters the folder
        else:
            assert mode == (0o750 if path.is_dir() else 0o640) & (0o777 if shared else 0o700), path


def test_a_folder_that_gives_its_group_to_what_is_in_it_goes_on_doing_so(tmp_path: Path) -> None:
    root = tmp_path / "store"
    (root / "results").mkdir(parents=True)
    (root / "results").chmod(0o2750)
    used(root)
    assert modes(root)["results"] == 0o2750
    found = modes(root)[f"{RUNS}/W/one"]
    assert found & 0o777 == 0o750
    assert found & 0o2000


def test_a_run_that_others_may_not_read_hides_none_of_theirs(tmp_path: Path) -> None:
    root = tmp_path / "store"
    used(root, "--group-readable")
    for folder in (root / RUNS / "W").iterdir():
        SavedRun.at(folder).verify()


def test_files_that_are_written_elsewhere_follow_the_umask(tmp_path: Path) -> None:
    data = answers(tmp_path)
    with under(0o022):
        done = steelyard("evaluate", data, "-m", "accuracy", "--out", tmp_path / "out", *FEW)
    assert done.code == 0, done.err
    assert stat.S_IMODE((tmp_path / "out/evaluation.json").stat().st_mode) == 0o644
