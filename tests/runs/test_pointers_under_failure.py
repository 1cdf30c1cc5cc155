"""Pointers under failure: racing promotions, failing disks, edited files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import SteelyardError, StorageError
from steelyard.runs import attempts, pointers
from steelyard.runs.layout import Scope
from steelyard.runs.pointers import ANY, Pointers
from steelyard.runs.saved import SavedRun
from tests.support.failures import FAILURES, failing, killed, race
from tests.support.pointers import ACTIVE, attempt, file_of, in_line, promoted
from tests.support.stores import call, kept, leftovers, linked, printed, raised, tree

# -- racing and failing writers ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_racing_promotions_make_one_line(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for number in range(4):
        kept(root, f"run{number}a")
        kept(root, f"run{number}b")
    code = """
folders = [root / f"results/evaluation/runs/Triage/run{number}{part}" for part in "ab"]
opened = [SavedRun.at(folder) for folder in folders]
meet()
seen = [Pointers(Scope(root)).promote(opened[i % 2], "accuracy").history[-1]["Seq"] for i in range(20)]
print(json.dumps(seen))
"""
    seen = race(root, 4, code)
    pointer = Pointers(Scope(root)).get("accuracy")
    in_line(pointer)
    assert len(pointer.history) == len(pointer.stack) == 80
    assert sorted(seq for sequence in seen for seq in sequence) == list(range(1, 81))
    for number in range(4):
        mine = [entry["RunId"][-1] for entry in pointer.history if entry["RunId"].startswith(f"run{number}")]
        assert mine == ["a", "b"] * 10
    assert leftovers(root) == []


@pytest.mark.slow
def test_racing_promotions_and_rollbacks_make_one_line(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for number in range(4):
        kept(root, f"run{number}")
    code = """
opened = SavedRun.at(root / f"results/evaluation/runs/Triage/run{number}")
pointers = Pointers(Scope(root))
meet()
done = 0
for i in range(15):
    before = len(pointers.get("accuracy").history)
    try:
        if number < 2:
            pointers.promote(opened, "accuracy")
        else:
            pointers.rollback("accuracy")
            done += 1
    except SteelyardError as problem:
        assert "earlier runs" in str(problem), problem
print(done)
"""
    rollbacks = sum(race(root, 4, code))
    pointer = Pointers(Scope(root)).get("accuracy")
    in_line(pointer)
    actions = [entry["Action"] for entry in pointer.history]
    assert actions.count("rollback") == rollbacks
    assert len(pointer.stack) == actions.count("promote") - rollbacks


def promotion(root: Path) -> Any:
    folders = sorted((root / "results/evaluation/runs/Triage").iterdir())
    active = Pointers(Scope(root)).get("accuracy").run_id
    return Pointers(Scope(root)).promote(SavedRun.at(next(f for f in folders if f.name != active)), "accuracy")


def rollback(root: Path) -> Any:
    return Pointers(Scope(root)).rollback("accuracy")


@FAILURES
@pytest.mark.parametrize("change", [promotion, rollback, attempt])
def test_whatever_fails_while_a_pointer_changes_it_is_the_old_one_or_the_new_one(
    tmp_path: Path, change: Callable[[Path], Any], error: Callable[[], BaseException], for_good: bool
) -> None:
    promoted(tmp_path, *("one", "two") * 10)
    attempt(tmp_path)
    for k in range(1, 100):
        before = tree(tmp_path)
        with pytest.MonkeyPatch.context() as patch:
            uses = failing(patch, k, error, for_good=for_good)
            problem = raised(lambda: change(tmp_path))
        if problem is None:
            break
        assert isinstance(problem, KeyboardInterrupt if error is KeyboardInterrupt else StorageError)
        assert leftovers(tmp_path) == []
        if "replace" not in uses[: k - 1]:
            assert tree(tmp_path) == before
        in_line(Pointers(Scope(tmp_path)).get("accuracy"))
    assert uses[-6:] == ["open", "write", "fsync", "replace", "open", "fsync"]  # before it, runs are read
    assert tree(tmp_path) != before
    in_line(Pointers(Scope(tmp_path)).get("accuracy"))


@pytest.mark.parametrize("change", [promotion, attempt])
def test_a_folder_that_cannot_be_made_changes_nothing(
    tmp_path: Path, change: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(tmp_path, "one")
    (tmp_path / ACTIVE).write_text("a file in its place")
    (tmp_path / "results/evaluation/gates").write_text("a file in its place")
    before = tree(tmp_path)
    with pytest.raises(StorageError):
        change(tmp_path)
    assert tree(tmp_path) == before


def test_a_pointer_that_does_not_fit_on_the_disk_stays_as_it_was(tmp_path: Path) -> None:
    root = tmp_path / "store"
    promoted(root, "one", "two")
    kept(root, "three")
    before = tree(root)
    code = """
import resource
seen = []
for most in (0, 1, 100, 500):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    for change in (
        lambda: Pointers(Scope(root)).promote(SavedRun.at(root / "results/evaluation/runs/Triage/three"), "accuracy"),
        lambda: Pointers(Scope(root)).rollback("accuracy"),
    ):
        try:
            change()
            seen.append(0)
        except SteelyardError as problem:
            seen.append(problem.exit_code)
print(json.dumps(seen))
"""
    assert race(root, 1, code) == [[5] * 8]
    assert tree(root) == before
    assert leftovers(root) == []


@pytest.mark.slow
def test_processes_killed_in_the_middle_of_promotions_leave_a_line(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for name in ("one", "two"):
        kept(root, name)
    code = """
opened = [SavedRun.at(root / "results/evaluation/runs/Triage" / name) for name in ("one", "two")]
pointers = Pointers(Scope(root))
i = 0 if pointers.get("accuracy").run_id == "two" else 1
while True:
    i += 1
    print(len(pointers.promote(opened[i % 2], "accuracy").history), flush=True)
"""
    for cycle in range(3):
        said = killed(root, code, 0.02 + 0.037 * cycle)
        pointer = Pointers(Scope(root)).get("accuracy")
        in_line(pointer)
        assert len(pointer.history) - int(said[-1]) in (0, 1)  # the last one may be done and not said
    promotion(root)
    in_line(Pointers(Scope(root)).get("accuracy"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_pointer_in_a_read_only_folder_can_be_read_and_not_changed(tmp_path: Path) -> None:
    found = promoted(tmp_path, "one", "two")
    folders = [tmp_path / ACTIVE, tmp_path / ACTIVE / "default"]
    before = tree(tmp_path)
    for folder in folders:
        folder.chmod(0o555)
    try:
        with pytest.raises(StorageError):
            found.rollback("accuracy")
        assert found.get("accuracy").run_id == "two"
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert tree(tmp_path) == before


def test_the_clock_steps_back_and_the_order_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(datetime(2026, 1, 3, 12, tzinfo=UTC) - timedelta(hours=i) for i in range(100))
    stepping = type("stepping", (datetime,), {"now": staticmethod(lambda zone=None: next(moments))})
    monkeypatch.setattr(pointers, "datetime", stepping)
    monkeypatch.setattr(attempts, "datetime", stepping)
    found = promoted(tmp_path, "one", "two", "three")
    assert found.rollback("accuracy").run_id == "two"
    assert found.rollback("accuracy").run_id == "one"
    in_line(found.get("accuracy"))
    assert [len(attempt(tmp_path)) for _ in range(3)] == [1, 2, 3]


# -- pointers that were changed ----------------------------------------------------------------------------------------


def pointer_edits() -> dict[str, Callable[[dict[str, Any]], Any]]:
    """What is done to the document of a pointer; what comes back is written instead of it."""
    return {
        "no object": lambda d: [],
        "a text": lambda d: "text",
        "nothing": lambda d: b"",
        "torn": lambda d: b'{"SchemaVersion": "1", "Stack": [',
        "no text": lambda d: b"\xff\xfe",
        "deep": lambda d: b"[" * 100_000,
        "a version from the future": lambda d: d.update(SchemaVersion="2"),
        "no version": lambda d: d.pop("SchemaVersion") and None,
        "no stack": lambda d: d.pop("Stack") and None,
        "a stack of numbers": lambda d: d.update(Stack=[1, 2]),
        "a stack of texts": lambda d: d.update(Stack=["ab"]),
        "a stack without runs": lambda d: d.update(Stack=[{}]),
        "a run that is a number": lambda d: d["Stack"][1].update(RunId=5),
        "a folder that is a number": lambda d: d["Stack"][1].update(Folder=5),
        "a value that is a text": lambda d: d["Stack"][1].update(Value="high"),
        "a value that is no number": lambda d: d["Stack"][1].update(Value=float("nan")),
        "no history": lambda d: d.pop("History") and None,
        "a history of numbers": lambda d: d.update(History=[1, 2, 3]),
        "a history that is a text": lambda d: d.update(History="abc"),
        "a history of nothing": lambda d: d.update(History=[{}, {}, {}]),
        "a history with a gap": lambda d: d["History"].pop(0) and None,
        "a number that is a text": lambda d: d["History"][0].update(Seq="first"),
        "a time that is a number": lambda d: d["History"][0].update(AtUtc=5),
        "a history value that is a text": lambda d: d["History"][0].update(Value="high"),
        "another run": lambda d: d["Stack"][1].update(RunId="three"),
        "another folder": lambda d: d["Stack"][1].update(Folder=d["Stack"][0]["Folder"]),
        "a folder elsewhere": lambda d: d["Stack"][1].update(Folder="../elsewhere/two"),
        "a folder from the top": lambda d: d["Stack"][1].update(Folder="/"),
        "another active run": lambda d: d.update(RunId="one"),
        "another metric": lambda d: d.update(Metric="f1_macro"),
    }


def edited(root: Path, what: str) -> Path:
    path = file_of(root)
    document = json.loads(path.read_text())
    found = pointer_edits()[what](document)
    if not isinstance(found, bytes):
        found = json.dumps(found if isinstance(found, list | str) else document).encode()
    path.write_bytes(found)
    return path


@pytest.mark.parametrize("what", pointer_edits())
def test_a_pointer_that_was_edited_is_refused_and_left_as_it_is(tmp_path: Path, what: str) -> None:
    root = tmp_path / "store"
    found = promoted(root, "one", "two", "three")
    shutil.copytree(root / "results/evaluation/runs/Triage/two", tmp_path / "elsewhere/two")
    path = edited(root, what)
    before = path.read_bytes()
    with pytest.raises(StorageError) as refused:
        found.rollback("accuracy")
    assert str(refused.value).isprintable()
    assert path.read_bytes() == before


@pytest.mark.parametrize("what", pointer_edits())
def test_a_pointer_that_was_edited_breaks_no_command(tmp_path: Path, what: str) -> None:
    promoted(tmp_path, "one", "two", "three")
    kept(tmp_path, "four")
    edited(tmp_path, what)
    for command in (
        ("runs", "active", "--metric", "accuracy"),
        ("runs", "history", "--metric", "accuracy", "--format", "json"),
        ("runs", "active", "--all"),
        ("runs", "active"),
        ("runs", "decide", "--metric", "accuracy"),
        ("gate", "--run", "four", "--baseline", "active:accuracy", "--rule", "accuracy >= 0"),
        ("runs", "promote", "four", "--metric", "accuracy"),
    ):
        problem = raised(lambda command=command: call(*command, "--root", tmp_path))
        assert problem is None or isinstance(problem, StorageError)


@pytest.mark.parametrize("what", ["another folder", "a folder elsewhere", "another run"])
def test_a_baseline_is_the_run_that_was_promoted_or_none(tmp_path: Path, what: str) -> None:
    root = tmp_path / "store"
    promoted(root, "one", "two")
    kept(root, "three")
    shutil.copytree(root / "results/evaluation/runs/Triage/two", tmp_path / "elsewhere/two")
    edited(root, what)
    with pytest.raises(StorageError):
        call("gate", "--run", "three", "--baseline", "active", "--rule", "delta(accuracy) >= -1", "--root", root)


def test_one_damaged_pointer_hides_no_other(tmp_path: Path) -> None:
    found = promoted(tmp_path, "one")
    file_of(tmp_path).write_text("{")
    found.promote(SavedRun.at(kept(tmp_path, "two")), ANY)
    at = ("--root", tmp_path)
    assert printed("runs", "active", "--metric", ANY, *at)["run_id"] == "two"
    assert found.get(ANY).run_id == "two"


@pytest.mark.parametrize("part", ["results/evaluation/active", "results/evaluation/active/default"])
def test_no_pointer_is_read_or_written_through_a_link(tmp_path: Path, part: str) -> None:
    root = tmp_path / "store"
    found = promoted(root, "one", "two")
    away = linked(root, part)
    before = tree(away)
    for use in (lambda: found.get("accuracy"), lambda: found.rollback("accuracy"), lambda: promoted(root, "three")):
        with pytest.raises(StorageError, match="is a link"):
            use()
    assert tree(away) == before


def test_a_pointer_that_is_a_link_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "store"
    found = promoted(root, "one", "two")
    path = file_of(root)
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    before = (tmp_path / "elsewhere.json").read_bytes()
    for use in (lambda: found.get("accuracy"), lambda: found.rollback("accuracy")):
        with pytest.raises(StorageError, match="is a link"):
            use()
    assert (tmp_path / "elsewhere.json").read_bytes() == before


def test_a_metric_that_is_no_text_at_all_is_not_active(tmp_path: Path) -> None:
    kept(tmp_path, "one")
    for command in (("active",), ("history",), ("rollback",), ("promote", "one"), ("decide",)):
        problem = raised(lambda command=command: call("runs", *command, "--metric", "\udcff", "--root", tmp_path))
        assert problem is None or isinstance(problem, SteelyardError)
    assert not list((tmp_path / ACTIVE).glob("*/*.json"))
