"""The store on failing disks and in killed processes: a run is there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import StorageError
from steelyard.ground.files import write_atomic
from steelyard.runs.layout import Scope
from steelyard.runs.saved import Clock, SavedRun, keep, run_folder
from tests.support.failures import FAILURES, OPERATIONS, disk_full, failing, killed, race
from tests.support.stores import (
    RUNS,
    found,
    kept,
    leftovers,
    listed,
    problems,
    raised,
    small,
    tree,
)

# -- failing disks -----------------------------------------------------------------------------------------------------


@FAILURES
def test_whatever_fails_while_a_run_is_saved_it_is_there_whole_or_not_at_all(
    tmp_path: Path, error: Callable[[], BaseException], for_good: bool
) -> None:
    kept(tmp_path, "old")
    before = tree(tmp_path)
    for k in range(1, 100):
        name = f"new{k}"
        with pytest.MonkeyPatch.context() as patch:
            uses = failing(patch, k, error, for_good=for_good)
            problem = raised(lambda name=name: kept(tmp_path, name))
        if problem is None:
            break
        assert isinstance(problem, KeyboardInterrupt if error is KeyboardInterrupt else StorageError)
        assert leftovers(tmp_path) == []
        folder = tmp_path / RUNS / "Triage" / name
        assert not folder.exists() or "rename" in uses[: k - 1]
        if folder.exists():
            SavedRun.at(folder).verify()
            shutil.rmtree(folder)
        assert tree(tmp_path) == before
    assert len(uses) < k
    assert {"open", "write", "fsync", "rename"} <= set(uses)
    assert uses.count("fsync") == uses.count("write") + 2  # every file, the folder, and the folder that holds it
    assert listed(tmp_path) == sorted(["old", name])


@FAILURES
def test_whatever_fails_while_two_runs_are_saved_both_are_there_or_none(
    tmp_path: Path, error: Callable[[], BaseException], for_good: bool
) -> None:
    scope = Scope(tmp_path)
    for k in range(1, 100):
        pair = [
            run_folder(small(), workflow=name, clock=Clock(), run_id=f"run{k}")
            for name in ("Search-Baseline", "Search")
        ]
        with pytest.MonkeyPatch.context() as patch:
            uses = failing(patch, k, error, for_good=for_good)
            problem = raised(lambda pair=pair: keep(scope, *pair))
        if problem is None:
            break
        assert leftovers(tmp_path) == []
        if for_good:  # a disk that is gone cannot say whose a folder is: what was written stays, whole
            for path in tmp_path.rglob("run.json"):
                SavedRun.at(path.parent).verify()
            shutil.rmtree(tmp_path / "results", ignore_errors=True)
        assert tree(tmp_path) == {}
    assert len(uses) < k
    assert listed(tmp_path) == [f"run{k}", f"run{k}"]


@FAILURES
def test_whatever_fails_while_a_file_is_replaced_the_old_one_or_the_new_one_is_there(
    tmp_path: Path, error: Callable[[], BaseException], for_good: bool
) -> None:
    path = tmp_path / "file.json"
    for k in range(1, 100):
        path.write_text("old")
        with pytest.MonkeyPatch.context() as patch:
            uses = failing(patch, k, error, for_good=for_good)
            problem = raised(lambda: write_atomic(path, "new"))
        if problem is None:
            break
        assert isinstance(problem, KeyboardInterrupt if error is KeyboardInterrupt else StorageError)
        assert os.listdir(tmp_path) == ["file.json"]
        assert path.read_text() == ("new" if "replace" in uses[: k - 1] else "old")
    assert uses == ["open", "write", "fsync", "replace", "open", "fsync"]
    assert path.read_text() == "new"


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, made = Path.mkdir, []

    def mkdir(self: Path, *arguments: Any, **options: Any) -> None:
        made.append(self)
        if len(made) == k:
            raise disk_full()
        real(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    for k in range(1, 20):
        made.clear()
        problem = raised(lambda k=k: kept(tmp_path / str(k), "run"))
        if problem is None:
            break
        assert isinstance(problem, StorageError)
        assert "No space left on device" in str(problem)
        assert tree(tmp_path / str(k)) == {}
        assert leftovers(tmp_path) == []
    assert 2 < k < 19


def test_files_that_do_not_fit_on_the_disk_leave_nothing_behind(tmp_path: Path) -> None:
    root = tmp_path / "store"
    kept(root, "old")
    before = tree(root)
    code = """
import resource
seen = {}
for most in (0, 1, 100, 700, 1200):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    try:
        kept(f"new{most}")
    except SteelyardError as problem:
        seen[most] = [problem.exit_code, str(problem)]
print(json.dumps(seen))
"""
    (seen,) = race(root, 1, code)
    assert sorted(seen, key=int) == ["0", "1", "100", "700", "1200"]
    assert {code for code, _ in seen.values()} == {5}
    assert all(f"new{most}: File too large" in problem for most, (_, problem) in seen.items())
    assert tree(root) == before
    assert leftovers(root) == []


def test_runs_are_listed_even_where_the_index_does_not_fit_on_the_disk(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for i in range(40):
        kept(root, f"run{i}")
    code = """
import resource, shutil
seen = {}
for most in (0, 512, 4096, 20_000, 40_000, 60_000, 80_000, 1_000_000):
    shutil.rmtree(root / "results" / ".index", ignore_errors=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    try:
        with Index(root) as index:
            seen[most] = [len(index.runs()), len(index.cells()[1])]
    except BaseException as problem:
        seen[most] = f"{type(problem).__name__}: {problem}"
print(json.dumps(seen))
"""
    (seen,) = race(root, 1, code)
    assert set(map(str, seen.values())) == {"[40, 40]"}, seen


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_device_that_is_full_is_a_storage_error() -> None:
    with pytest.raises(StorageError, match="No space left"):
        write_atomic(Path("/dev/full"), "text")


def read_only(folder: Path) -> Iterator[None]:
    folders = [folder, *(p for p in folder.rglob("*") if p.is_dir())]
    for part in folders:
        part.chmod(0o555)
    yield
    for part in folders:
        part.chmod(0o755)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only_can_be_read_and_not_written(tmp_path: Path) -> None:
    folder = kept(tmp_path, "old")
    kept(tmp_path, "other", "Elsewhere")
    if_indexed = listed(tmp_path)
    protected = read_only(tmp_path / "results")
    next(protected)
    try:
        with pytest.raises(StorageError, match="Permission denied"):
            kept(tmp_path, "new")
        with pytest.raises(StorageError, match="Permission denied"):
            kept(tmp_path, "new", "New")
        assert listed(tmp_path) == if_indexed == ["old", "other"]
        SavedRun.at(folder).verify()
    finally:
        next(protected, None)
    assert leftovers(tmp_path) == []
    shutil.rmtree(tmp_path / "results" / ".index")
    protected = read_only(tmp_path / "results")
    next(protected)
    try:
        assert listed(tmp_path) == ["old", "other"]
    finally:
        next(protected, None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everywhere")
@pytest.mark.parametrize("part", ["run.json", ".", ".."])
def test_a_run_that_may_not_be_read_hides_no_other(tmp_path: Path, part: str) -> None:
    kept(tmp_path, "good")
    secret = Path(os.path.normpath(kept(tmp_path, "secret", "Secret") / part))
    secret.chmod(0o000)
    try:
        assert listed(tmp_path) == ["good"]
        if part != "..":
            assert "secret" in problems(tmp_path)
    finally:
        secret.chmod(0o755)
    assert listed(tmp_path) == ["good", "secret"]


# -- killed processes --------------------------------------------------------------------------------------------------


def test_a_process_killed_at_any_moment_of_a_save_leaves_a_whole_run_or_none(tmp_path: Path) -> None:
    root = tmp_path / "store"
    kept(root, "old")
    before = tree(root)
    code = f"""
from types import ModuleType
from steelyard.ground import files as store

def killing(k):
    uses = []
    def killed(name, real):
        def use(*arguments, **options):
            uses.append(name)
            if len(uses) == k:
                os._exit(137)
            return real(*arguments, **options)
        return use
    faulty = ModuleType("os")
    vars(faulty).update(vars(os))
    vars(faulty).update({{name: killed(name, getattr(os, name)) for name in {OPERATIONS!r}}})
    store.os = faulty

codes = []
while not codes or codes[-1]:
    child = os.fork()
    if child == 0:
        killing(len(codes) + 1)
        kept(f"new{{len(codes) + 1}}")
        os._exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
"""
    (codes,) = race(root, 1, code)
    assert len(codes) > 8
    assert codes == [137] * (len(codes) - 1) + [0]
    there = listed(root)
    assert "old" in there
    assert f"new{len(codes)}" in there
    assert problems(root) == {}
    for run_id in there:
        SavedRun.at(found(root, run_id)).verify()
    assert {p for p in leftovers(root) if p.is_dir()}  # they were killed in the middle of it
    assert before.items() <= tree(root).items()


@pytest.mark.slow
def test_processes_killed_in_the_middle_of_saves_lose_nothing_that_was_saved(tmp_path: Path) -> None:
    root = tmp_path / "store"
    said: list[str] = []
    code = """
while True:
    print(kept().name, flush=True)
"""
    for cycle in range(4):
        said += killed(root, code, 0.02 + 0.031 * cycle)
    there = listed(root)
    assert problems(root) == {}
    assert set(said) <= set(there)
    assert len(there) <= len(said) + 4  # one a cycle may be saved and not said
    for run_id in there:
        SavedRun.at(found(root, run_id)).verify()
