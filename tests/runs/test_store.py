"""The run store under failure: many writers, failing disks, killed processes, links, hostile names, edited files."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import SteelyardError, StorageError, UsageError
from steelyard.ground import files as store
from steelyard.ground.files import exclusive, write_atomic, write_folder
from steelyard.records.readers import read
from steelyard.records.table import Records
from steelyard.runs import index as index_module
from steelyard.runs import saved as keeping
from steelyard.runs.index import Index
from steelyard.runs.layout import Scope, checked
from steelyard.runs.run_json import read_run
from steelyard.runs.saved import Clock, Opened, compare_runs, save
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate
from tests.support.answers import lines
from tests.support.commands import steelyard
from tests.support.failures import FAILURES, OPERATIONS, disk_full, failing, killed, race
from tests.support.stores import (
    FOREIGN,
    INDEX,
    PARTS,
    RUNS,
    by_run,
    call,
    edit,
    foreign,
    found,
    kept,
    leftovers,
    linked,
    listed,
    printed,
    problems,
    raised,
    small,
    tree,
)

# -- many writers ------------------------------------------------------------------------------------------------------


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
        Opened.at(folder).verify()


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
    monkeypatch.setattr(index_module, "PATIENCE", 0.05)
    with closing(sqlite3.connect(tmp_path / INDEX, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert listed(tmp_path) == ["first"]  # what needs no writing needs no lock
        kept(tmp_path, "second")
        with pytest.raises(StorageError, match="locked"):
            Index(tmp_path)
    assert listed(tmp_path) == ["first", "second"]


def test_a_folder_that_stays_locked_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PATIENCE", 0.05)
    with exclusive(tmp_path), pytest.raises(StorageError, match="locked"), exclusive(tmp_path):
        pass
    with exclusive(tmp_path):
        pass


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
            Opened.at(folder).verify()
            shutil.rmtree(folder)
        assert tree(tmp_path) == before
    assert len(uses) < k
    assert {"open", "write", "fsync", "rename"} <= set(uses)
    assert uses.count("fsync") == uses.count("write") + 2  # every file, the folder, and the folder that holds it
    assert listed(tmp_path) == sorted(["old", name])


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
        Opened.at(folder).verify()
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
        Opened.at(found(root, run_id)).verify()
    assert {p for p in leftovers(root) if p.is_dir()}  # they were killed in the middle of it
    assert before.items() <= tree(root).items()


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
        Opened.at(found(root, run_id)).verify()


# -- links -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", PARTS)
def test_what_is_behind_a_link_is_not_listed(tmp_path: Path, part: str) -> None:
    root = tmp_path / "store"
    kept(root, "run", tenant="acme")
    linked(root, part)
    assert listed(root) == []


@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_written_through_a_link(tmp_path: Path, part: str) -> None:
    root = tmp_path / "store"
    kept(root, "run", tenant="acme")
    away = linked(root, part)
    before = tree(away)
    with pytest.raises(StorageError, match=r"link|there already"):
        kept(root, "run", tenant="acme")
    if not part.endswith("/run"):
        with pytest.raises(StorageError, match="is a link"):
            kept(root, "new", tenant="acme")
    assert tree(away) == before
    assert leftovers(away) == []


def test_a_link_that_leads_nowhere_is_not_written_through(tmp_path: Path) -> None:
    root = tmp_path / "store"
    kept(root, "run")
    (root / RUNS / "Triage" / "new").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="is a link"):
        kept(root, "new")
    assert not (tmp_path / "nowhere").exists()


def test_a_run_json_that_is_a_link_is_named_and_not_read(tmp_path: Path) -> None:
    kept(tmp_path, "good")
    folder = kept(tmp_path, "linked")
    os.rename(folder / "run.json", tmp_path / "elsewhere.json")
    (folder / "run.json").symlink_to(tmp_path / "elsewhere.json")
    assert listed(tmp_path) == ["good"]
    assert "linked" in problems(tmp_path)["linked"]


def test_a_pipe_in_the_place_of_a_run_json_does_not_stop_the_list(tmp_path: Path) -> None:
    kept(tmp_path, "good")
    folder = tmp_path / RUNS / "Triage" / "pipe"
    folder.mkdir()
    os.mkfifo(folder / "run.json")
    command = [str(Path(sys.executable).with_name("steelyard")), "runs", "list", "--root", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "good" in done.stdout
    assert "pipe" in done.stdout


def test_files_beside_a_run_are_not_looked_for_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    digest = hashlib.sha256(b"secret").hexdigest()
    for number, name in enumerate(("../../../../../secret", str(tmp_path / "secret"))):
        folder = foreign(tmp_path, {**FOREIGN, "RunId": f"theirs{number}", "Files": {name: digest}}, f"theirs{number}")
        with pytest.raises(StorageError):
            Opened.at(folder).verify()


# -- names -------------------------------------------------------------------------------------------------------------

HOSTILE = (
    "", ".", "..", "../up", "a/b", "/etc", "a\\b", "a\0b", "\0", "a\nb", "a b", " a", "a ", "a..b", "a.", "...",
    ".hidden", "-option", "+plus", "_under", "a" * 101, "a" * 5000, "Τriage", "tri\u0430ge", "Trïage", "\u212a", "１",
    "a\u202eb", "a\u200bb", "\ud800", "\udcff", "~", "$HOME", "a:b", "a*", "a?", "a|b", "a;b", "a%2f", "CON\t",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    root = tmp_path / "store"
    for make in (
        lambda: kept(root, "run", name),
        lambda: kept(root, "run", tenant=name),
        lambda: Scope(root, domain=name),
        lambda: Scope(root).run("Triage", name),
    ):
        with pytest.raises(UsageError, match="is not a plain name") as refused:
            make()
        assert refused.value.exit_code == 2
        assert str(refused.value).isprintable()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", [name for name in HOSTILE if name])
def test_a_hostile_run_id_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="the run id"):
        kept(tmp_path / "store", name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("option", ["--tenant", "--domain", "--workflow", "--run-id"])
def test_the_command_refuses_a_hostile_name(tmp_path: Path, option: str) -> None:
    rows = [{"item": f"q{i}", "target": "yes", "prediction": "yes"} for i in range(8)]
    (tmp_path / "answers.jsonl").write_text(lines(rows))
    arguments = (
        "evaluate",
        tmp_path / "answers.jsonl",
        "-m",
        "accuracy",
        "--resamples",
        0,
        "--save",
        "--root",
        tmp_path,
    )
    with pytest.raises(UsageError, match="is not a plain name"):
        call(*arguments, option, "../../up")
    assert os.listdir(tmp_path) == ["answers.jsonl"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", "show", "{}"),
        ("runs", "list", "--tenant", "{}"),
        ("runs", "list", "--workflow", "{}"),
        ("runs", "compare", "--metric", "{}"),
        ("runs", "metrics", "--metric", "{}"),
        ("gate", "--run", "{}", "--rule", "accuracy >= 0"),
    ],
    ids=lambda arguments: " ".join(arguments[:3]),
)
def test_a_name_that_is_no_text_at_all_finds_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    kept(tmp_path, "good")
    for name in ("\udcff", "a\udc80b"):
        problem = raised(lambda name=name: call(*(a.format(name) for a in arguments), "--root", tmp_path))
        assert problem is None or isinstance(problem, SteelyardError)


@given(st.one_of(st.text(max_size=120), st.from_regex(r"[A-Za-z0-9._+/\\-]{1,12}", fullmatch=True)))
@settings(max_examples=300)
def test_a_name_that_passes_is_one_folder_below_its_place(name: str) -> None:
    root = Path("/nowhere/at/all")
    try:
        folder = Scope(root, tenant=name).run(name, name)
    except UsageError:
        return
    assert re.fullmatch(r"[A-Za-z0-9._+-]{1,100}", name)
    assert os.path.normpath(folder) == str(folder)
    assert folder.relative_to(root).parts == ("results", "evaluation", "tenants", name, "runs", name, name)
    assert checked("anything", name) == name


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}", fullmatch=True))
@settings(max_examples=40)
def test_a_plain_name_is_kept_and_found_again_and_its_other_cases_are_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    if ".." in name or name.endswith("."):
        return
    root = tmp_path_factory.mktemp("names")
    path = kept(root, name, name, tenant=name)
    assert listed(root) == [name]
    assert found(root, name) == path
    other = name.swapcase()
    if other != name:
        for places in ((other, name, name), (name, other, name), (name, name, other)):
            with pytest.raises(StorageError, match="in case only"):
                kept(root, places[0], places[1], tenant=places[2])
        assert listed(root) == [name]


@pytest.mark.parametrize(("first", "second"), [("Triage", "triage"), ("triage", "TRIAGE")])
def test_names_that_differ_in_case_only_are_refused(tmp_path: Path, first: str, second: str) -> None:
    kept(tmp_path, "run", first)
    before = tree(tmp_path)
    with pytest.raises(StorageError, match=f"'{second}' differs from '{first}' in case only"):
        kept(tmp_path, "other", second)
    with pytest.raises(StorageError, match="in case only"):
        save(Scope(tmp_path, "Evaluation"), small(), workflow=first, clock=Clock())
    assert tree(tmp_path) == before


def test_a_run_is_never_written_over(tmp_path: Path) -> None:
    kept(tmp_path, "run")
    before = tree(tmp_path)
    with pytest.raises(StorageError, match="there already"):
        kept(tmp_path, "run", no_every=5)
    with pytest.raises(StorageError, match="there already"):
        write_folder(tmp_path / RUNS / "Triage" / "run", {})
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["v1..v2", "old.", ".hidden", "-x", "with space", "Größe", "a" * 101])
@pytest.mark.parametrize(
    "place", ["results", "results/evaluation/tenants", "results/evaluation/runs", "results/evaluation/runs/Triage"]
)
def test_other_folders_in_the_store_do_not_stop_the_list(tmp_path: Path, place: str, name: str) -> None:
    kept(tmp_path, "good")
    (tmp_path / place / name / "runs" / "w" / "r").mkdir(parents=True)
    (tmp_path / place / "a-file").write_text("")
    assert "good" in listed(tmp_path)


def test_unfinished_folders_are_no_runs(tmp_path: Path) -> None:
    folder = kept(tmp_path, "good")
    shutil.copytree(folder, folder.with_name(".good.0123456789ab"))
    shutil.copytree(folder.parent, folder.parent.with_name(".Triage"))
    assert listed(tmp_path) == ["good"]
    assert problems(tmp_path) == {}


def test_ids_are_found_whole_or_by_their_beginning(tmp_path: Path) -> None:
    for name in ("abcd1", "abcd2", "efgh"):
        kept(tmp_path, name)
    assert found(tmp_path, "abcd1").name == "abcd1"
    assert found(tmp_path, "efgh").name == "efgh"
    assert found(tmp_path, "abcd2").name == "abcd2"
    for name, problem in {
        "abcd": "2 runs",
        "efg": "no run here",
        "zzzz": "no run",
        "%": "no run",
        "": "no run",
    }.items():
        with pytest.raises(UsageError, match=problem):
            found(tmp_path, name)


def test_a_whole_id_is_found_however_many_others_begin_with_it(tmp_path: Path) -> None:
    for i in range(25):
        kept(tmp_path, f"run-{i}", "Alpha")
    kept(tmp_path, "run", "Beta")
    assert found(tmp_path, "run").name == "run"
    with pytest.raises(UsageError, match="25 runs"):
        found(tmp_path, "run-")


def test_a_damaged_run_is_not_mistaken_for_another_whose_id_begins_with_its_own(tmp_path: Path) -> None:
    folder = kept(tmp_path, "base")
    kept(tmp_path, "base-2")
    (folder / "run.json").write_text("{}}")
    with pytest.raises(StorageError, match=r"run base: run\.json"):
        found(tmp_path, "base")


# -- files that were changed -------------------------------------------------------------------------------------------


def with_records(root: Path, run_id: str = "run", **options: Any) -> Path:
    columns = {
        "item": [f"q{i}" for i in range(12)],
        "target": ["yes" if i % 2 else "no" for i in range(12)],
        "prediction": ["yes" if i % 3 else "no" for i in range(12)],
    }
    records = Records.from_columns(columns)
    return save(Scope(root), small(), workflow="Triage", clock=Clock(), run_id=run_id, records=records, **options)[1]


def refused_everywhere(root: Path, run_id: str) -> str:
    """Let every command that uses a run refuse it; what they say."""
    commands = (
        ("runs", "show", run_id),
        ("runs", "promote", run_id, "--metric", "accuracy"),
        ("runs", "promote", run_id),
        ("runs", "pin", run_id, "--as", "anchor"),
        ("gate", "--run", run_id, "--rule", "accuracy >= 0"),
        ("gate", "--run", "good", "--baseline", run_id, "--rule", "accuracy >= 0"),
    )
    said = []
    for command in commands:
        with pytest.raises(StorageError) as refused:
            call(*command, "--root", root)
        assert refused.value.exit_code == 5
        said.append(str(refused.value))
    assert not list((root / "results/evaluation").glob("active/*/*.json"))
    assert len(set(said)) == 1, said
    return said[0]


@pytest.mark.parametrize("file", ["evaluation.json", "evidence.npz", "records.parquet"])
@pytest.mark.parametrize("change", ["flipped", "cut", "emptied", "removed", "longer"])
def test_a_file_that_was_changed_is_named_and_its_run_is_used_for_nothing(
    tmp_path: Path, file: str, change: str
) -> None:
    kept(tmp_path, "good")
    path = with_records(tmp_path) / file
    data = path.read_bytes()
    middle = len(data) // 2
    changed = {
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "cut": data[:-1],
        "emptied": b"",
        "longer": data + b"\n",
    }
    path.write_bytes(changed.get(change, b""))
    if change == "removed":
        path.unlink()
    said = refused_everywhere(tmp_path, "run")
    assert "run run: " in said
    assert file in said
    call("runs", "show", "good", "--root", tmp_path)
    assert "good" in listed(tmp_path)


def test_every_flipped_bit_of_a_run_json_is_noticed(tmp_path: Path) -> None:
    folder = kept(tmp_path, "run")
    path = folder / "run.json"
    data, run = path.read_bytes(), read_run(folder)
    unnoticed: list[int] = []
    for position in range(len(data)):
        for bit in (1, 32):
            path.write_bytes(data[:position] + bytes([data[position] ^ bit]) + data[position + 1 :])
            read: list[Any] = []
            problem = raised(lambda read=read: read.append(read_run(folder)))
            assert problem is None or "run run: " in str(problem)
            if read and read != [run]:
                unnoticed.append(position)
    assert [data[max(position - 20, 0) : position + 1] for position in unnoticed] == []


def hand_edits() -> dict[str, Callable[[dict[str, Any]], Any]]:
    """Edits of a run.json: what they do, by the field that the message names."""
    return {
        "Digest: a metric": lambda d: d["Metrics"].update(accuracy=0.99),
        "Digest: a metric more": lambda d: d["Metrics"].update(f1_macro=0.99),
        "Digest: a metric less": lambda d: d["Metrics"].clear(),
        "Digest: no number": lambda d: d["Metrics"].update(accuracy=float("nan")),
        "Digest: infinite": lambda d: d["Metrics"].update(accuracy=float("inf")),
        "Digest: null": lambda d: d["Metrics"].update(accuracy=None),
        "Digest: an interval": lambda d: d["Intervals"].update(accuracy=[0.9, 1.0]),
        "Digest: a label": lambda d: d["Labels"].update(model="better"),
        "Digest: a time": lambda d: d.update(CompletedAtUtc="2030-01-01T00:00:00Z"),
        "Digest: another id": lambda d: d.update(RunId="another"),
        "Digest: a file's digest": lambda d: d["Files"].update({"evidence.npz": "0" * 64}),
        "Digest: a file less": lambda d: d["Files"].pop("evidence.npz"),
        "Digest: a field more": lambda d: d.update(Approved=True),
        "Digest: emptied": lambda d: d.update(Digest=""),
        "Digest: null digest": lambda d: d.update(Digest=None),
        "Digest: removed": lambda d: (d.pop("Digest"), d["Metrics"].update(accuracy=0.99)),
        "SchemaVersion: future": lambda d: d.update(SchemaVersion="2"),
        "SchemaVersion: far": lambda d: d.update(SchemaVersion="1.1"),
    }


@pytest.mark.parametrize("what", hand_edits())
def test_an_edited_run_json_is_named_with_its_field_and_used_for_nothing(tmp_path: Path, what: str) -> None:
    kept(tmp_path, "good")
    folder = kept(tmp_path, "run")
    edit(folder, hand_edits()[what])
    assert listed(tmp_path) == ["good"]
    said = refused_everywhere(tmp_path, "run")
    assert said == problems(tmp_path)["run"]
    assert said.startswith(f"run run: {what.partition(':')[0]}: ")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b"[]", b'"text"', b"{}}", b"\xff\xfe{\x00}\x00", b"\x00" * 100, b"[" * 100_000, b"cut"],
    ids=["empty", "torn", "null", "list", "text", "more", "utf-16", "zeros", "deep", "cut"],
)
def test_a_run_json_that_is_none_is_named_and_its_run_is_used_for_nothing(tmp_path: Path, content: bytes) -> None:
    kept(tmp_path, "good")
    path = kept(tmp_path, "run") / "run.json"
    path.write_bytes(path.read_bytes()[:-40] if content == b"cut" else content)
    assert listed(tmp_path) == ["good"]
    said = refused_everywhere(tmp_path, "run")
    assert said.startswith("run run: run.json: ")


@pytest.mark.parametrize("instead", ["nothing", "a folder"])
def test_a_folder_without_a_run_json_is_named(tmp_path: Path, instead: str) -> None:
    kept(tmp_path, "good")
    folder = kept(tmp_path, "run")
    (folder / "run.json").unlink()
    if instead == "a folder":
        (folder / "run.json").mkdir()
    assert listed(tmp_path) == ["good"]
    assert refused_everywhere(tmp_path, "run").startswith("run run: run.json cannot be read")


def test_the_command_line_ends_with_5_and_one_line_that_names_the_run(tmp_path: Path) -> None:
    kept(tmp_path, "good")
    edit(kept(tmp_path, "run"), lambda d: d["Metrics"].update(accuracy=0.99))
    done = steelyard("runs", "show", "run", "--root", tmp_path)
    assert done.returncode == 5
    assert done.stderr == "steelyard: error: run run: Digest: the file was changed after it was written\n"
    done = steelyard("runs", "list", "--root", tmp_path, "--format", "json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert [run["run_id"] for run in document["runs"]] == ["good"]
    assert [problem["run"] for problem in document["problems"]] == ["run"]
    assert "0.99" not in done.stdout


WRONG = [
    ("SchemaVersion", "2"),
    ("SchemaVersion", 2),
    ("SchemaVersion", [1]),
    ("SchemaVersion", {"a": 1}),
    ("RunId", 5),
    ("RunId", ["a"]),
    ("Workflow", {}),
    ("Tenant", 3),
    ("StartedAtUtc", 20260103),
    ("StartedAtUtc", "yesterday"),
    ("StartedAtUtc", "2026-13-01T00:00:00Z"),
    ("StartedAtUtc", "0001-01-01T00:00:00+23:00"),
    ("CompletedAtUtc", "9999-12-31T23:59:59-23:00"),
    ("CompletedAtUtc", True),
    ("Complete", "false"),
    ("Complete", 0),
    ("Labels", ["a"]),
    ("Labels", "a=b"),
    ("Metrics", [0.5]),
    ("Metrics", 0.5),
    ("Metrics", {"ndcg@3": "0.5"}),
    ("Metrics", {"ndcg@3": True}),
    ("Metrics", {"ndcg@3": {"value": 0.5}}),
    ("Metrics", {"ndcg@3": [0.5]}),
    ("Intervals", {"ndcg@3": 0.5}),
    ("Intervals", {"ndcg@3": [0.5]}),
    ("Intervals", {"ndcg@3": ["0", "1"]}),
    ("Intervals", [0.1, 0.9]),
    ("Counts", {"ndcg@3": "many"}),
    ("Counts", 7),
    ("Better", "higher"),
    ("Files", ["evidence.npz"]),
    ("Inputs", 5),
    ("Inputs", True),
    ("Inputs", "answers.jsonl"),
]


@pytest.mark.parametrize(("field", "value"), WRONG, ids=lambda v: json.dumps(v))
@pytest.mark.parametrize("sealed", [False, True], ids=["theirs", "ours"])
def test_a_field_of_the_wrong_type_is_named_with_its_run_and_hides_no_other(
    tmp_path: Path, field: str, value: Any, sealed: bool
) -> None:
    kept(tmp_path, "good")
    if sealed:
        edit(kept(tmp_path, "bad"), lambda d: d.update({field: value}), sealed=True)
    else:
        foreign(tmp_path, {**FOREIGN, field: value}, "bad")
    assert listed(tmp_path) == ["good"]
    named = {field.lower()} if sealed else {field.lower(), "digest"}  # a field of ours without our digest
    assert re.split(r"[:.] ?", problems(tmp_path)["bad"])[1].lower() in named
    assert call("gate", "--run", "good", "--rule", "accuracy >= 0", "--root", tmp_path) == 0


@pytest.mark.parametrize("version", ["2", 2, "1.1", "99", 0])
def test_a_version_from_the_future_is_refused_with_the_ones_that_are_read(tmp_path: Path, version: Any) -> None:
    folder = foreign(tmp_path, {**FOREIGN, "SchemaVersion": version})
    with pytest.raises(StorageError, match=f"SchemaVersion: version {version}; this program reads 1$"):
        read_run(folder)


# -- files of other tools ----------------------------------------------------------------------------------------------


def test_a_file_of_another_tool_is_picked_up_whatever_the_case_of_its_keys(tmp_path: Path) -> None:
    kept(tmp_path, "ours")
    theirs = {
        "runId": "B7C1",
        "workflowName": "Retrieval",
        "TENANT": "",
        "startedUtc": "2026-01-03T01:00:00+01:00",
        "finishedUtc": "2026-01-03T00:00:05.1234567Z",
        "labels": {"Model": "m1", "k": 3},
        "METRICS": {"Map@1": 0.25, "NDCG@3": 0.5},
        "somethingElse": [1, {"a": None}],
    }
    foreign(tmp_path, theirs)
    assert problems(tmp_path) == {}
    with Index(tmp_path) as index:
        run = index.find("B7C1")
        rows = [row[:3] for row in index.rows() if row[0] == "B7C1"]
    assert (run.workflow, run.tenant, run.complete, run.sealed) == ("Retrieval", None, True, False)
    assert run.started_at == "2026-01-03T00:00:00.000000Z"
    assert run.completed_at == "2026-01-03T00:00:05.123456Z"
    assert run.labels == {"Model": "m1", "k": "3"}
    assert run.metrics == {"Map@1": 0.25, "NDCG@3": 0.5}
    assert sorted(rows) == [("B7C1", "Map@1", 0.25), ("B7C1", "NDCG@3", 0.5)]
    for key in ("ndcg@3", "NDCG@3", "Ndcg@3"):
        assert Opened.at(run.folder).run.value(key) == 0.5
        best = printed("runs", "best", "--metric", key, "--root", tmp_path)
        assert (best["run_id"], best["value"], best["of"]) == ("B7C1", 0.5, 1)


@pytest.mark.parametrize(
    "more",
    [{"counts": {"queries": 50}}, {"inputs": [{"path": "queries.json"}]}, {"files": {}}, {"SchemaVersion": "1"}],
    ids=lambda more: next(iter(more)),
)
def test_fields_that_another_tool_has_too_are_no_sign_of_tampering(tmp_path: Path, more: dict[str, Any]) -> None:
    foreign(tmp_path, {**FOREIGN, **more})
    assert listed(tmp_path) == ["b7c1"]


def test_keys_of_own_runs_are_exact_and_questions_about_them_may_be_in_any_case(tmp_path: Path) -> None:
    folder = kept(tmp_path, "ours")
    run = read_run(folder)
    assert run.value("accuracy") == small()["accuracy"].value
    assert run.value("Accuracy") is None
    assert printed("runs", "best", "--metric", "ACCURACY", "--root", tmp_path)["metric"] == "accuracy"
    with pytest.raises(UsageError, match="no run has a value of 'acuracy'; the nearest are accuracy"):
        call("runs", "best", "--metric", "acuracy", "--root", tmp_path)


def test_rules_read_keys_in_any_case(tmp_path: Path) -> None:
    kept(tmp_path, "ours")
    foreign(tmp_path, {**FOREIGN, "RunId": "theirs", "Metrics": {"NDCG@3": 0.5, "map@1": 0.25}})
    assert call("gate", "--run", "theirs", "--rule", "ndcg@3 >= 0.5", "--root", tmp_path) == 0
    assert call("gate", "--run", "theirs", "--rule", "ndcg@3 >= 0.6", "--root", tmp_path) == 1
    assert call("gate", "--run", "ours", "--rule", "accuracy >= 0", "--root", tmp_path) == 0
    assert call("gate", "--run", "ours", "--rule", "ACCURACY >= 0", "--root", tmp_path) == 0


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "null", None])
def test_a_metric_that_is_no_number_is_missing_and_cannot_pass(tmp_path: Path, value: str | None) -> None:
    numbers = '"map@1": 0.25' + ("" if value is None else f', "ndcg@3": {value}')
    text = json.dumps({**FOREIGN, "Metrics": 0}).replace('"Metrics": 0', f'"Metrics": {{{numbers}}}')
    foreign(tmp_path, text)
    with Index(tmp_path) as index:
        assert index.find("b7c1").metrics == {"map@1": 0.25}
        names, rows = index.cells()
        assert (names, by_run(rows)) == (["map@1"], {"b7c1": {"map@1": 0.25}})
    assert call("gate", "--run", "b7c1", "--rule", "map@1 >= 0", "--root", tmp_path) == 0
    for rule in ("ndcg@3 >= 0", "! ndcg@3 <= 1", "ndcg@3 >= -1e9"):
        assert call("gate", "--run", "b7c1", "--rule", rule, "--root", tmp_path) == 1
    with pytest.raises(UsageError, match="no run has a value of 'ndcg@3'"):
        call("runs", "promote", "b7c1", "--metric", "ndcg@3", "--root", tmp_path)


def test_only_metrics_may_be_no_numbers(tmp_path: Path) -> None:
    foreign(tmp_path, '{"RunId": "one", "Metrics": {"a": NaN}, "Labels": {"temperature": NaN}}', "one")
    foreign(tmp_path, '{"RunId": "two", "Labels": {"temperature": NaN}, "Metrics": {"a": NaN}}', "two")
    foreign(tmp_path, '{"RunId": "three", "Metrics": {"a": 1, "a": 2}}', "three")
    assert listed(tmp_path) == []
    said = problems(tmp_path)
    assert said["one"].startswith("run one: Labels.temperature")
    assert said["two"].startswith("run two: Labels.temperature")
    assert said["three"].lower().startswith("run three: metrics")


@pytest.mark.parametrize(
    "change",
    [
        {"RunId": "\ud800"},
        {"Workflow": "w\ud800"},
        {"Tenant": "\udfff"},
        {"Labels": {"model": "\ud800"}},
        {"Labels": {"\ud800": "m"}},
        {"Metrics": {"ndcg\ud800": 0.5}},
        {"Metrics": {"ndcg{a=\ud800}": 0.5}},
        {"Better": {"ndcg@3": "\ud800"}},
        {"RunId": "a\0b"},
        {"RunId": "\x1b[31m"},
        {"RunId": "../../../up"},
        {"RunId": "x" * 100_000},
        {"Metrics": {"(" * 5000 + "{a=b}": 1}},
        {
            "Metrics": dict.fromkeys(
                ("", "{", "}", "a{", "a{b}", "{a=b}", "a{a=}", "a{b=c}{d=e}", "'; DROP TABLE runs"), 1
            )
        },
        {"RunId": ""},
        {"StartedAtUtc": "0001-01-01T00:00:00"},
        {"StartedAtUtc": "9999-12-31T23:59:59Z"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_a_file_of_another_tool_holds_the_others_are_listed(tmp_path: Path, change: dict[str, Any]) -> None:
    kept(tmp_path, "good")
    foreign(tmp_path, {**FOREIGN, **change})
    for _ in range(2):
        assert "good" in listed(tmp_path)
        with Index(tmp_path) as index:
            assert len(index.runs()) + len(index.problems()) == 2
            assert all(index.find(run.run_id) == run for run in index.runs())
            assert by_run(index.cells()[1])["good"] == {"accuracy": small()["accuracy"].value, "n_predictions": 12}
    for command in (["list"], ["metrics"], ["metrics", "--pivot"], ["compare", "--metric", "accuracy"]):
        call("runs", *command, "--root", tmp_path, "--format", "json")
        call("runs", *command, "--root", tmp_path)


def test_a_field_twice_in_different_cases_is_an_error(tmp_path: Path) -> None:
    folder = foreign(tmp_path, {**FOREIGN, "metrics": {"ndcg@3": 0.9}})
    with pytest.raises(StorageError, match=r"run theirs: metrics: the field stands twice"):
        read_run(folder)


def test_a_run_without_an_end_is_not_complete(tmp_path: Path) -> None:
    foreign(tmp_path, {k: v for k, v in FOREIGN.items() if k != "CompletedAtUtc"})
    foreign(tmp_path, {**FOREIGN, "RunId": "said", "Complete": False}, "said")
    with Index(tmp_path) as index:
        assert [run.complete for run in index.runs()] == [False, False]
    with pytest.raises(SteelyardError, match="no complete run"):
        call("runs", "best", "--metric", "ndcg@3", "--root", tmp_path)
    assert call("gate", "--run", "b7c1", "--rule", "ndcg@3 >= 0", "--root", tmp_path) == 1


def test_the_folder_says_whose_run_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "results/evaluation/tenants/acme/runs/Retrieval/theirs"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({**FOREIGN, "Tenant": "rival"}))
    with Index(tmp_path, tenant="rival") as index:
        assert index.runs() == []


# -- the index follows the folders -------------------------------------------------------------------------------------


def view(root: Path) -> tuple[list[Any], ...]:
    """All that an index says."""
    with Index(root, all_tenants=True) as index:
        runs = [(r.run_id, str(r.folder.relative_to(root)), dict(r.metrics), dict(r.labels)) for r in index.runs()]
        pivot = sorted((c.run_id, sorted(c.cell.items()), sorted(c.values.items())) for c in index.cells()[1])
        return (
            sorted(runs, key=lambda r: r[1]),
            [(str(p.folder.relative_to(root)), p.problem) for p in index.problems()],
            pivot,
            sorted(index.rows(), key=str),
        )


def anew(root: Path) -> tuple[list[Any], ...]:
    """What an index that was never there before says of the same folders."""
    copy = root.with_name(f"{root.name}-{uuid.uuid4().hex[:6]}")
    shutil.copytree(root / "results", copy / "results", ignore=shutil.ignore_patterns(".index"))
    try:
        return view(copy)
    finally:
        shutil.rmtree(copy)


def step(root: Path, what: str, which: int) -> None:
    """Change the folders in one way."""
    folders = sorted((root / RUNS).glob("*/*"))
    folder = folders[which % len(folders)] if folders else None
    if what == "save" or folder is None:
        kept(root, uuid.uuid4().hex, f"w{which % 3}")
    elif what == "remove":
        shutil.rmtree(folder)
    elif what == "damage":
        (folder / "run.json").write_text("{")
    elif what == "repair":
        shutil.rmtree(folder)
        kept(root, folder.name, folder.parent.name)
    elif what == "empty":
        (folder / "run.json").unlink(missing_ok=True)
    elif what == "move":
        os.rename(folder, folder.with_name(uuid.uuid4().hex))
    elif what == "theirs":
        foreign(root, {**FOREIGN, "RunId": uuid.uuid4().hex, "Metrics": {"ndcg@3": which / 10}}, uuid.uuid4().hex)
    elif what == "copy":
        shutil.copytree(folder, folder.parent.with_name(f"w{which % 4}") / f"copy{uuid.uuid4().hex[:4]}")


STEPS = ("save", "remove", "damage", "repair", "empty", "move", "theirs")


@pytest.mark.parametrize("steps", [STEPS, (*STEPS, "copy", "copy")], ids=["without copies", "with copies"])
@given(data=st.data())
@settings(max_examples=15)
def test_an_index_that_followed_the_folders_says_what_a_new_one_says(
    tmp_path_factory: pytest.TempPathFactory, steps: tuple[str, ...], data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("steps") / "store"
    for _ in range(3):
        step(root, "save", 0)
    walk = st.lists(st.tuples(st.sampled_from(steps), st.integers(0, 8)), min_size=1, max_size=6)
    for what, which in data.draw(walk):
        step(root, what, which)
        assert view(root) == anew(root)


def damages() -> dict[str, Callable[[Path], Any]]:
    def statements(path: Path, *texts: str) -> None:
        path.unlink()
        with closing(sqlite3.connect(path)) as connection:
            for text in texts:
                connection.execute(text)
            connection.commit()

    def lies(path: Path, *texts: str) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for text in texts:
                connection.execute(text)
            connection.commit()

    return {
        "removed": lambda p: p.unlink(),
        "its folder removed": lambda p: shutil.rmtree(p.parent),
        "emptied": lambda p: p.write_bytes(b""),
        "random bytes": lambda p: p.write_bytes(random.Random(1).randbytes(50_000)),
        "a text": lambda p: p.write_text("not a database " * 100),
        "cut": lambda p: p.write_bytes(p.read_bytes()[:5000]),
        "an odd end": lambda p: p.write_bytes(p.read_bytes()[:-100]),
        "a folder": lambda p: (p.unlink(), p.mkdir()),
        "its folder a file": lambda p: (shutil.rmtree(p.parent), p.parent.write_text("")),
        "a random journal": lambda p: p.with_name(p.name + "-wal").write_bytes(random.Random(2).randbytes(5000)),
        "another version": lambda p: lies(p, "PRAGMA user_version = 99"),
        "an old version": lambda p: statements(p, "CREATE TABLE runs (a)", "PRAGMA user_version = 0"),
        "a version with other tables": lambda p: statements(p, "CREATE TABLE x (y)", "PRAGMA user_version = 99"),
        "this version without tables": lambda p: statements(p, "PRAGMA user_version = 1"),
        "this version with another table": lambda p: statements(p, "CREATE TABLE runs (a)", "PRAGMA user_version = 1"),
        "views for tables": lambda p: statements(p, "CREATE VIEW runs AS SELECT 1", "PRAGMA user_version = 7"),
        "a table dropped": lambda p: lies(p, "DROP TABLE metrics"),
    }


def indexed(root: Path, runs: int = 12) -> tuple[list[Any], ...]:
    """Some runs and an index of them."""
    for i in range(runs):
        kept(root, f"run{i}")
    foreign(root, FOREIGN)
    (kept(root, "damaged") / "run.json").write_text("{")
    return view(root)


@pytest.mark.parametrize("what", damages())
def test_an_index_that_was_damaged_is_made_anew(tmp_path: Path, what: str) -> None:
    said = indexed(tmp_path)
    damages()[what](tmp_path / INDEX)
    assert view(tmp_path) == said
    call("runs", "list", "--root", tmp_path)
    assert view(tmp_path) == said


def test_an_index_with_any_page_overwritten_is_made_anew(tmp_path: Path) -> None:
    said = indexed(tmp_path)
    whole = (tmp_path / INDEX).read_bytes()
    wrong = {}
    for page in range(len(whole) // 4096):
        noise = random.Random(page).randbytes(4096)
        for suffix in ("-wal", "-shm"):
            (tmp_path / f"{INDEX}{suffix}").unlink(missing_ok=True)
        (tmp_path / INDEX).write_bytes(whole[: page * 4096] + noise + whole[(page + 1) * 4096 :])
        try:
            if view(tmp_path) != said:
                wrong[page] = "other runs"
        except Exception as problem:
            wrong[page] = f"{type(problem).__name__}: {problem}"
    assert wrong == {}


@pytest.mark.parametrize("what", ["", *damages()])
def test_an_index_is_rebuilt_on_request(tmp_path: Path, what: str) -> None:
    said = indexed(tmp_path)
    with closing(sqlite3.connect(tmp_path / INDEX)) as connection:
        connection.execute("UPDATE runs SET metrics = '{}', problem = NULL")
        connection.execute("DELETE FROM metrics")
        connection.commit()
    if what:
        damages()[what](tmp_path / INDEX)
    assert printed("runs", "index", "--rebuild", "--root", tmp_path) == {
        "runs": 13,
        "problems": [{"run": "damaged", "problem": "run damaged: run.json: the text ends early"}],
    }
    assert view(tmp_path) == said


def test_a_change_that_keeps_size_and_time_is_noticed(tmp_path: Path) -> None:
    path = foreign(tmp_path, FOREIGN) / "run.json"
    with Index(tmp_path) as index:
        assert index.find("b7c1").metrics == {"ndcg@3": 0.5}
    times = os.stat(path)
    path.write_text(path.read_text().replace("0.5", "0.7"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert os.stat(path).st_size == times.st_size
    with Index(tmp_path) as index:
        assert index.find("b7c1").metrics == {"ndcg@3": 0.7}
        assert by_run(index.cells()[1]) == {"b7c1": {"ndcg@3": 0.7}}


@pytest.mark.parametrize("removed", [0, 1])
@pytest.mark.parametrize("between", [False, True], ids=["saved together", "indexed between"])
def test_an_id_in_two_folders_means_none_of_them_until_one_is_gone(tmp_path: Path, removed: int, between: bool) -> None:
    kept(tmp_path, "good")
    folders = [kept(tmp_path, "same", "B")]
    other = tmp_path / RUNS / "A" / "same"
    if between:
        assert listed(tmp_path) == ["good", "same"]
    shutil.copytree(folders[0], other)
    folders.append(other)
    assert "good" in listed(tmp_path)
    with pytest.raises(UsageError, match="same"):  # neither is taken for the other
        found(tmp_path, "same")
    for command in (("show", "same"), ("promote", "same", "--metric", "accuracy")):
        with pytest.raises(UsageError, match="same"):
            call("runs", *command, "--root", tmp_path)
    shutil.rmtree(folders[removed])
    assert listed(tmp_path) == ["good", "same"]
    assert problems(tmp_path) == {}
    assert found(tmp_path, "same") == folders[1 - removed]


def test_reading_makes_no_folders_where_no_runs_are(tmp_path: Path) -> None:
    call("runs", "list", "--root", tmp_path / "typo")
    assert os.listdir(tmp_path) == []


def test_slices_are_columns_of_the_index_whatever_their_values(tmp_path: Path) -> None:
    sites = ["{x}", "a=b,c", 'q"', "plain"]
    columns = {
        "item": [f"q{i}" for i in range(16)],
        "target": ["yes" if i % 2 else "no" for i in range(16)],
        "prediction": ["yes"] * 16,
        "model": ["m{1}" if i < 8 else "m2" for i in range(16)],
        "group.site": [sites[i % 4] for i in range(16)],
    }
    result = evaluate(Records.from_columns(columns), ["accuracy"], by=["group.site"], resamples=0, keep_evidence=True)
    save(Scope(tmp_path), result, workflow="Triage", clock=Clock(), run_id="run")
    with Index(tmp_path) as index:
        rows = list(index.rows("accuracy"))
        assert len(list(index.rows("n_predictions"))) == len(rows)
    assert len(rows) == len(result) == 10
    assert {row[1] for row in rows} == {"accuracy"}
    assert {row[6] for row in rows} == {"m{1}", "m2"}


@pytest.mark.parametrize("column", ["item", "group.site", "model", "target"])
def test_half_characters_in_the_data_are_kept_and_stop_no_list(tmp_path: Path, column: str) -> None:
    columns = {
        "item": [f"q{i}" for i in range(8)],
        "target": ["a", "b"] * 4,
        "prediction": ["a"] * 8,
        "model": ["m1"] * 4 + ["m2"] * 4,
        "group.site": ["x"] * 8,
    }
    columns[column] = [f"\ud800{value}" if i % 2 else value for i, value in enumerate(columns[column])]
    records = Records.from_columns(columns)
    result = evaluate(records, ["accuracy"], by=["group.site"], resamples=0, keep_evidence=True)
    _, folder = save(Scope(tmp_path), result, workflow="Triage", clock=Clock(), run_id="run", records=records)
    kept(tmp_path, "good")
    assert listed(tmp_path) == ["good", "run"]
    for command in (
        ["list"],
        ["show", "run"],
        ["metrics"],
        ["metrics", "--pivot"],
        ["compare", "--metric", "accuracy"],
    ):
        for format_ in ("table", "json", "markdown", "csv"):
            call("runs", *command, "--root", tmp_path, "--format", format_)
    again = Opened.at(folder).records
    assert again is not None
    assert again.column(column).equals(records.column(column))


def test_a_label_that_is_half_a_character_is_refused_or_listed(tmp_path: Path) -> None:
    problem = raised(
        lambda: save(Scope(tmp_path), small(), workflow="Triage", clock=Clock(), run_id="run", labels={"a": "\udcff"})
    )
    kept(tmp_path, "good")
    assert listed(tmp_path) == (["good", "run"] if problem is None else ["good"])
    assert problems(tmp_path) == {}


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_undefined_numbers_have_no_key_and_every_number_stands_under_its_flat_key(tmp_path: Path) -> None:
    columns = {
        "item": [f"q{i}" for i in range(12)],
        "target": ["a"] * 12,
        "prediction": ["a"] * 12,
        "model": ["m1", "m2"] * 6,
        "group.site": ["x", "x", "y", "y"] * 3,
    }
    records = Records.from_columns(columns)
    result = evaluate(records, ["accuracy", "balanced_accuracy"], by=["group.site"], resamples=0, keep_evidence=True)
    _, folder = save(Scope(tmp_path), result, workflow="Triage", clock=Clock())
    document = json.loads((folder / "run.json").read_text(), parse_constant=pytest.fail)
    assert sorted(document["Metrics"]) == [
        "accuracy{model=m1,group.site=x}",
        "accuracy{model=m1,group.site=y}",
        "accuracy{model=m1}",
        "accuracy{model=m2,group.site=x}",
        "accuracy{model=m2,group.site=y}",
        "accuracy{model=m2}",
        *(
            f"n_predictions{{model={model}{site}}}"
            for model in ("m1", "m2")
            for site in (",group.site=x", ",group.site=y", "")
        ),
    ]
    kinds = {key.partition("{")[0]: type(value) for key, value in document["Metrics"].items()}
    assert kinds == {"accuracy": float, "n_predictions": int}


TABLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "clusters": {"patient": [f"p{i // 3}" for i in range(12)], "cluster=": "patient"},
    "a cluster column that is not the cluster": {"cluster": [f"p{i // 3}" for i in range(12)], "cluster=": "item"},
    "tasks": {"task": ["t1", "t2"] * 6},
    "numbers": {"target": list(range(12)), "prediction": [0.5, None] * 6, "task=": {"range": [0, 12]}},
    "truths": {"target": [True, False] * 6, "prediction": [True] * 12},
    "labels": {"task=": {"labels": ["yes", "no", "maybe"]}},
    "facts": {"task=": {"facts": {"wall_seconds": 3.5}}},
    "nulls": {"extra": [None] * 12, "confidence": [0.5, None] * 6, "repeat": [1] * 12},
    "lists": {"gains": [[1.0, None], [], [0.0]] * 4},
    "texts": {"item": [f"é\u2028\0\x1b[31m😀{i}" for i in range(12)]},
    "dots": {"group.site": ["x", "y"] * 6, "signal.evidence": [0.25] * 12},
    "altered": {"perturbation": ["none", "typo", "none", None] * 3, "item": [f"q{i}" for i in range(12)]},
    "failures": {"prediction": ["yes", None] * 6, "outcome": ["answered", "failed", "answered", "unparsed"] * 3},
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_records_that_were_kept_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    table = dict(TABLES[name])
    cluster, task = table.pop("cluster=", None), table.pop("task=", None)
    columns = {
        "item": [f"q{i}" for i in range(12)],
        "target": ["yes", "no"] * 6,
        "prediction": ["yes", None, "no"] * 4,
        **table,
    }
    records = Records.from_columns(columns, cluster=cluster, task=task)
    result = evaluate(records, ["failure_rate"], resamples=0, keep_evidence=True)
    _, folder = save(Scope(tmp_path), result, workflow="Triage", clock=Clock(), records=records)
    assert "records.parquet" in os.listdir(folder)
    opened = Opened.at(folder)
    opened.verify()
    again = opened.records
    assert again is not None
    assert again.stated == records.stated
    for column in records.stated:
        assert again.column(column).type == records.column(column).type
        assert again.column(column).equals(records.column(column)), column
    assert again.task == records.task
    assert again.cluster_columns == records.cluster_columns
    assert again.cluster[0] == records.cluster[0]
    assert again.counts() == records.counts()


def two_runs(root: Path, *, rows: tuple[bool, bool]) -> tuple[list[Opened], list[Records]]:
    """Two runs on the same questions, four to a patient; in the second one row failed. Rows are kept where asked."""
    tables, runs = [], []
    for number, failed in enumerate((-1, 7)):
        columns = {
            "item": [f"q{i}" for i in range(32)],
            "patient": [f"p{i // 4}" for i in range(32)],
            "target": ["yes" if i % 2 else "no" for i in range(32)],
            "prediction": ["yes" if i % (3 + 2 * number) else "no" for i in range(32)],
            "outcome": ["failed" if i == failed else "answered" for i in range(32)],
            "group.site": ["x" if i < 16 else "y" for i in range(32)],
        }
        records = Records.from_columns(columns, cluster="patient")
        result = evaluate(records, ["accuracy"], by=["group.site"], resamples=200, keep_evidence=True)
        _, folder = save(
            Scope(root), result, workflow="Triage", clock=Clock(), records=records if rows[number] else None
        )
        tables.append(records)
        runs.append(Opened.at(folder))
    return runs, tables


def test_two_runs_with_their_records_are_compared_row_by_row(tmp_path: Path) -> None:
    (base, new), tables = two_runs(tmp_path, rows=(True, True))
    here, there = compare_runs(base, new, ["accuracy"])["accuracy"], compare(*tables, ["accuracy"])["accuracy"]
    assert here.n == 31  # the failed row left both; without rows its whole patient does
    assert (here.delta, here.interval, here.p_value) == (there.delta, there.interval, there.p_value)


@pytest.mark.parametrize("rows", [(False, False), (True, False), (False, True)])
def test_two_runs_of_which_one_kept_no_records_are_compared_by_their_evidence(
    tmp_path: Path, rows: tuple[bool, bool]
) -> None:
    (base, new), _ = two_runs(tmp_path, rows=rows)
    assert compare_runs(base, new, ["accuracy"])["accuracy"].n == 28


def test_records_take_no_slices_away_from_a_comparison(tmp_path: Path) -> None:
    slices = [
        [dict(delta.slice) for delta in compare_runs(*two_runs(tmp_path, rows=rows)[0], ["accuracy"])]
        for rows in ((False, False), (True, True))
    ]
    assert slices[0] == [{}, {"group.site": "x"}, {"group.site": "y"}]
    assert slices[1] == slices[0]


def test_records_whose_digest_is_right_and_that_are_none_are_a_storage_error(tmp_path: Path) -> None:
    folder = with_records(tmp_path)
    (folder / "records.parquet").write_bytes(b"PAR1 no")
    digest = hashlib.sha256(b"PAR1 no").hexdigest()
    edit(folder, lambda d: d["Files"].update({"records.parquet": digest}), sealed=True)
    opened = Opened.at(folder)
    opened.verify()
    with pytest.raises(StorageError, match="not the records of a run"):
        _ = opened.records


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + bytes(18), b"noise" * 100])
def test_evidence_whose_digest_is_right_and_that_is_none_is_a_storage_error(tmp_path: Path, content: bytes) -> None:
    folder = kept(tmp_path, "run")
    (folder / "evidence.npz").write_bytes(content)
    edit(folder, lambda d: d["Files"].update({"evidence.npz": hashlib.sha256(content).hexdigest()}), sealed=True)
    with pytest.raises(StorageError, match="evidence"):
        _ = Opened.at(folder).kept


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_clock_that_steps_back_makes_no_run_end_before_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter(datetime(2026, 1, 3, 12, tzinfo=UTC) - timedelta(hours=i) for i in range(100))

    def now(zone: Any = None) -> datetime:
        return next(moments)

    stepping = type("stepping", (datetime,), {"now": staticmethod(now)})
    monkeypatch.setattr(keeping, "datetime", stepping)
    for i in range(3):
        clock = Clock()
        time.sleep(0.002)
        run, folder = save(Scope(tmp_path), small(), workflow="Triage", clock=clock, run_id=f"run{i}")
        document = json.loads((folder / "run.json").read_text())
        assert document["StartedAtUtc"] == f"2026-01-03T{12 - i}:00:00.000000Z"
        assert document["StartedAtUtc"] < document["CompletedAtUtc"] < f"2026-01-03T{12 - i}:30"
        assert run.complete
    with Index(tmp_path) as index:
        assert [run.run_id for run in index.runs()] == ["run0", "run1", "run2"]


# -- where the root is -------------------------------------------------------------------------------------------------


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
        done = steelyard(*arguments, "--run-id", "run", *more, cwd=work, **environment)
        assert done.returncode == 0, done.stderr
    assert (here / "results/evaluation/tenants/acme/runs/W/run/run.json").is_file()
    assert (there / "results/evaluation/tenants/acme/runs/W/run/run.json").is_file()
    assert (here / "results/evaluation/tenants/other/runs/W/run/run.json").is_file()
    (work / ".git").mkdir()
    (work / "deep").mkdir()
    none = {"STEELYARD_ROOT": "", "STEELYARD_TENANT": ""}
    done = steelyard(*arguments, "--run-id", "run", "--save-records", cwd=work / "deep", **none)
    assert done.returncode == 0, done.stderr
    folder = work / "results/evaluation/runs/W/run"
    assert sorted(os.listdir(folder)) == ["evaluation.json", "evidence.npz", "records.parquet", "run.json"]
    assert os.listdir(work / "deep") == []
    document = json.loads((folder / "run.json").read_text())
    digest = hashlib.sha256((tmp_path / "answers.jsonl").read_bytes()).hexdigest()
    assert [source["Sha256"] for source in document["Inputs"]] == [digest]
    records, again = read(tmp_path / "answers.jsonl"), Opened.at(folder).records
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
