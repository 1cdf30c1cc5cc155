"""Many writers of one store: every run is kept, every id is given once, every index is whole."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import StorageError
from steelyard.ground.files import exclusive
from steelyard.runs import database
from steelyard.runs import index as index_module
from steelyard.runs.index import Index
from steelyard.runs.layout import Scope
from steelyard.runs.saved import SavedRun
from tests.support.failures import race
from tests.support.stores import (
    INDEX,
    RUNS,
    kept,
    leftovers,
    listed,
    problems,
)

pytestmark = pytest.mark.slow


def test_eight_processes_save_a_hundred_runs_each_and_none_is_lost(tmp_path: Path) -> None:
    root = tmp_path / "store"
    code = """
meet()
print(json.dumps([str(kept(workflow=f"w{number % 2}").name) for _ in range(100)]))
"""
    saved = [run_id for ids in race(root, 8, code) for run_id in ids]
    assert len(set(saved)) == 800
    assert listed(root) == sorted(saved)
    assert problems(root) == {}
    assert leftovers(root) == []
    for folder in (root / RUNS).glob("*/*"):
        SavedRun.at(folder).verify()


def test_one_id_is_given_to_one_of_several_racing_processes(tmp_path: Path) -> None:
    root = tmp_path / "store"
    code = """
won = []
for i in range(20):
    meet(i)
    try:
        kept(f"run{i}")
        won.append(i)
    except SteelyardError as problem:
        assert problem.exit_code == 5, problem
print(json.dumps(won))
"""
    assert sorted(i for won in race(root, 3, code) for i in won) == list(range(20))
    assert listed(root) == sorted(f"run{i}" for i in range(20))
    assert leftovers(root) == []


def test_processes_that_make_the_index_at_the_same_moment_wait_for_each_other(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for i in range(25):
        kept(root / str(i), "run")
    code = """
seen = []
for i in range(25):
    meet(i)
    try:
        with Index(root / str(i)) as index:
            seen.append(len(index.runs()))
    except BaseException as problem:
        seen.append(f"{type(problem).__name__}: {problem}")
print(json.dumps(seen))
"""
    assert race(root, 4, code) == [[1] * 25] * 4


def test_a_new_index_waits_for_the_process_that_is_making_it(tmp_path: Path) -> None:
    kept(tmp_path, "first")
    (tmp_path / INDEX).parent.mkdir()
    with closing(sqlite3.connect(tmp_path / INDEX, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        done = threading.Timer(0.3, other.rollback)
        done.start()
        try:
            assert listed(tmp_path) == ["first"]
        finally:
            done.join()


def test_an_index_that_is_rebuilt_again_and_again_never_misleads_those_who_read_it(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for i in range(30):
        kept(root, f"run{i}")
    code = """
meet()
seen = set()
for _ in range(25):
    try:
        with Index(root, rebuild=number < 2) as index:
            seen.add(f"{len(index.runs())} {len(index.cells()[1])}")
    except BaseException as problem:
        seen.add(f"{type(problem).__name__}: {problem}")
print(json.dumps(sorted(seen)))
"""
    assert race(root, 4, code) == [["30 30"]] * 4


def test_a_run_that_another_process_indexed_meanwhile_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(tmp_path, "first")
    assert listed(tmp_path) == ["first"]
    looked = index_module.run_folders
    other: list[Index] = []

    def then_another_saves(scope: Scope) -> Iterator[Any]:
        yield from list(looked(scope))
        monkeypatch.setattr(index_module, "run_folders", looked)
        if not other:
            kept(tmp_path, "second")
            other.append(Index(tmp_path))

    monkeypatch.setattr(index_module, "run_folders", then_another_saves)
    with Index(tmp_path), other[0] as index:
        assert sorted(run.run_id for run in index.runs()) == ["first", "second"]


def test_an_index_that_stays_locked_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(tmp_path, "first")
    assert listed(tmp_path) == ["first"]
    monkeypatch.setattr(database, "PATIENCE", 0.05)
    with closing(sqlite3.connect(tmp_path / INDEX, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert listed(tmp_path) == ["first"]  # what needs no writing needs no lock
        kept(tmp_path, "second")
        with pytest.raises(StorageError, match="locked"):
            Index(tmp_path)
    assert listed(tmp_path) == ["first", "second"]


def test_a_folder_that_stays_locked_is_a_storage_error(tmp_path: Path) -> None:
    with exclusive(tmp_path), pytest.raises(StorageError, match="locked"), exclusive(tmp_path, patience=0.05):
        pass
    with exclusive(tmp_path):
        pass
