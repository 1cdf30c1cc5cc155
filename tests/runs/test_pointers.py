"""Active runs under failure: racing promotions, rollbacks step by step, edited pointers, attempts at a gate."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import SteelyardError, StorageError, UsageError
from steelyard.runs import attempts, pointers
from steelyard.runs.attempts import counted
from steelyard.runs.layout import Scope
from steelyard.runs.pointers import ANY, Pointer, Pointers
from steelyard.runs.saved import Opened
from tests.support.commands import steelyard
from tests.support.failures import FAILURES, failing, killed, race
from tests.support.stores import FOREIGN, call, edit, foreign, kept, leftovers, linked, printed, raised, tree

ACTIVE = Path("results/evaluation/active")


def promoted(root: Path, *run_ids: str, metric: str = "accuracy") -> Pointers:
    """Runs that were kept and promoted one after the other."""
    found = Pointers(Scope(root))
    for run_id in run_ids:
        folder = root / "results/evaluation/runs/Triage" / run_id
        found.promote(Opened.at(folder if folder.exists() else kept(root, run_id)), metric)
    return found


def in_line(pointer: Pointer) -> None:
    """The history is one line: numbered without gaps, every step from the run that the step before led to."""
    history = pointer.history
    assert [entry["Seq"] for entry in history] == list(range(1, len(history) + 1))
    before = [None, *(entry["RunId"] for entry in history)]
    assert [entry["PreviousRunId"] for entry in history] == before[:-1]
    assert pointer.run_id == before[-1]


def file_of(root: Path) -> Path:
    """The only pointer's file."""
    (found,) = (root / ACTIVE).glob("*/*.json")
    return found


# -- promote and roll back ---------------------------------------------------------------------------------------------


def test_a_promotion_is_written_with_its_history(tmp_path: Path) -> None:
    found = Pointers(Scope(tmp_path))
    assert found.get("accuracy") == Pointer("accuracy", "default")
    found.promote(Opened.at(kept(tmp_path, "one")), "accuracy", reason="first")
    found.promote(Opened.at(kept(tmp_path, "two", no_every=5)), "accuracy", reason="better")
    pointer = Pointers(Scope(tmp_path)).get("accuracy")
    in_line(pointer)
    assert pointer.run_id == "two"
    assert pointer.stack[-1]["Folder"] == "results/evaluation/runs/Triage/two"
    document = json.loads(file_of(tmp_path).read_text(), parse_constant=pytest.fail)
    assert {k: document[k] for k in ("SchemaVersion", "Metric", "Profile", "RunId")} == {
        "SchemaVersion": "1",
        "Metric": "accuracy",
        "Profile": "default",
        "RunId": "two",
    }
    assert [(h["Action"], h["RunId"], h["Reason"]) for h in document["History"]] == [
        ("promote", "one", "first"),
        ("promote", "two", "better"),
    ]
    assert [entry["Value"] for entry in document["History"]] == [
        Opened.at(tmp_path / entry["Folder"]).run.metrics["accuracy"] for entry in document["Stack"]
    ]


def test_promoting_the_active_run_again_changes_nothing(tmp_path: Path) -> None:
    found = promoted(tmp_path, "one", "two")
    before = file_of(tmp_path).read_bytes()
    found.promote(Opened.at(tmp_path / "results/evaluation/runs/Triage/two"), "accuracy")
    assert file_of(tmp_path).read_bytes() == before


def test_three_rollbacks_in_a_row_walk_back_step_by_step(tmp_path: Path) -> None:
    found = promoted(tmp_path, "one", "two", "three", "four")
    assert [found.rollback("accuracy").run_id for _ in range(3)] == ["three", "two", "one"]
    pointer = found.get("accuracy")
    in_line(pointer)
    assert [entry["Action"] for entry in pointer.history] == ["promote"] * 4 + ["rollback"] * 3
    before = file_of(tmp_path).read_bytes()
    with pytest.raises(StorageError, match="0 earlier runs to go back to, not 1"):
        found.rollback("accuracy")
    assert file_of(tmp_path).read_bytes() == before


@pytest.mark.parametrize(("steps", "active"), [(1, "three"), (2, "two"), (3, "one")])
def test_a_rollback_goes_as_many_steps_as_asked(tmp_path: Path, steps: int, active: str) -> None:
    pointer = promoted(tmp_path, "one", "two", "three", "four").rollback("accuracy", steps=steps, reason="too slow")
    in_line(pointer)
    assert pointer.run_id == active
    assert pointer.history[-1]["PreviousRunId"] == "four"
    assert pointer.history[-1]["Reason"] == "too slow"
    assert len(pointer.history) == 5


@pytest.mark.parametrize(
    ("steps", "error"),
    [(4, StorageError), (5, StorageError), (10**9, StorageError), (0, UsageError), (-1, UsageError)],
)
def test_a_rollback_past_the_beginning_is_refused_and_changes_nothing(
    tmp_path: Path, steps: int, error: type[SteelyardError]
) -> None:
    found = promoted(tmp_path, "one", "two", "three", "four")
    before = file_of(tmp_path).read_bytes()
    with pytest.raises(error):
        found.rollback("accuracy", steps=steps)
    assert file_of(tmp_path).read_bytes() == before


def test_a_rollback_of_what_was_never_promoted_is_refused(tmp_path: Path) -> None:
    kept(tmp_path, "one")
    with pytest.raises(StorageError, match="0 earlier runs"):
        Pointers(Scope(tmp_path)).rollback("accuracy")
    assert not list((tmp_path / ACTIVE).glob("*/*.json"))


def test_a_promotion_after_a_rollback_stands_on_what_was_left(tmp_path: Path) -> None:
    found = promoted(tmp_path, "one", "two", "three")
    found.rollback("accuracy", steps=2)
    promoted(tmp_path, "four")
    pointer = found.rollback("accuracy")
    in_line(pointer)
    assert pointer.run_id == "one"
    assert [entry["RunId"] for entry in pointer.history] == ["one", "two", "three", "one", "four", "one"]
    promoted(tmp_path, "two")
    in_line(found.get("accuracy"))
    assert found.rollback("accuracy").run_id == "one"


def test_metrics_profiles_and_tenants_have_pointers_of_their_own(tmp_path: Path) -> None:
    found = promoted(tmp_path, "one", "two")
    for metric in ("a/b", "a-b", "accuracy{model=m1}", "ACCURACY", "x" * 300, "é", ""):
        assert found.get(metric).run_id is None
    found.promote(Opened.at(kept(tmp_path, "three")), "accuracy", "nightly")
    found.promote(Opened.at(kept(tmp_path, "four")), ANY)
    other = Pointers(Scope(tmp_path, tenant="acme"))
    other.promote(Opened.at(kept(tmp_path, "five", tenant="acme")), "accuracy")
    assert found.get("accuracy").run_id == "two"
    assert found.get("accuracy", "nightly").run_id == "three"
    assert found.get(ANY).run_id == "four"
    assert other.get("accuracy").run_id == "five"
    with pytest.raises(UsageError, match="is not a plain name"):
        found.get("accuracy", "../default")


def test_the_commands_promote_and_roll_back_step_by_step(tmp_path: Path) -> None:
    at = ("--root", tmp_path)
    for run_id in ("one", "two", "three", "four"):
        kept(tmp_path, run_id)
        shown = printed("runs", "promote", run_id, "--metric", "accuracy", "--reason", f"try {run_id}", *at)
        assert shown["run_id"] == run_id
    assert printed("runs", "rollback", *at)["run_id"] == "three"
    assert printed("runs", "rollback", "--steps", 2, *at)["run_id"] == "one"
    assert printed("runs", "active", *at)["run_id"] == "one"
    with pytest.raises(StorageError) as refused:
        call("runs", "rollback", *at)
    assert refused.value.exit_code == 5
    assert printed("runs", "promote", "four", *at)["run_id"] == "four"  # the only metric with a pointer
    history = printed("runs", "history", *at)["history"]
    assert [entry["Seq"] for entry in history] == [1, 2, 3, 4, 5, 6, 7]
    assert [entry["RunId"] for entry in history] == ["one", "two", "three", "four", "three", "one", "four"]
    assert [entry["Reason"] for entry in history][:2] == ["try one", "try two"]


def test_a_rollback_past_the_beginning_ends_the_command_with_5(tmp_path: Path) -> None:
    promoted(tmp_path, "one")
    done = steelyard("runs", "rollback", "--root", tmp_path)
    assert done.returncode == 5
    assert done.stdout == ""
    assert done.stderr == "steelyard: error: accuracy (default) has 0 earlier runs to go back to, not 1\n"


# -- what is never promoted --------------------------------------------------------------------------------------------

INCOMPLETE = {
    "no end": {"CompletedAtUtc": None},
    "an empty end": {"CompletedAtUtc": ""},
    "says so": {"Complete": False},
    "says so in words": {"Complete": "false"},
    "says so with a number": {"Complete": 0},
}


@pytest.mark.parametrize("why", INCOMPLETE)
def test_an_incomplete_run_is_never_promoted_pinned_or_chosen(tmp_path: Path, why: str) -> None:
    foreign(tmp_path, {**FOREIGN, "RunId": "half", "Metrics": {"ndcg@3": 0.9}, **INCOMPLETE[why]}, "half")
    foreign(tmp_path, {**FOREIGN, "RunId": "whole", "Metrics": {"ndcg@3": 0.5}}, "whole")
    at = ("--root", tmp_path)
    for command in (("promote", "half"), ("promote", "half", "--metric", "ndcg@3"), ("pin", "half", "--as", "anchor")):
        with pytest.raises(StorageError, match="half"):
            call("runs", *command, *at)
    assert not list((tmp_path / ACTIVE).glob("*/*.json"))
    assert printed("runs", "decide", "--metric", "ndcg@3", "--apply", *at)["candidate"] == "whole"
    assert printed("runs", "active", *at)["run_id"] == "whole"


def test_a_run_without_the_metric_is_not_promoted_by_it(tmp_path: Path) -> None:
    kept(tmp_path, "one")
    with pytest.raises(UsageError, match="no run has a value of 'f1_macro'"):
        call("runs", "promote", "one", "--metric", "f1_macro", "--root", tmp_path)
    foreign(tmp_path, {**FOREIGN, "Metrics": {"f1_macro": 0.5}})
    with pytest.raises(StorageError, match="run one has no value of f1_macro"):
        call("runs", "promote", "one", "--metric", "f1_macro", "--root", tmp_path)
    assert not (tmp_path / ACTIVE).exists()


def tampering() -> dict[str, Callable[[Path], Any]]:
    def flipped(path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])

    return {
        "a metric": lambda folder: edit(folder, lambda d: d["Metrics"].update(accuracy=0.99)),
        "no number": lambda folder: edit(folder, lambda d: d["Metrics"].update(accuracy=float("nan"))),
        "the evidence": lambda folder: flipped(folder / "evidence.npz"),
        "the evaluation": lambda folder: flipped(folder / "evaluation.json"),
        "a file removed": lambda folder: (folder / "evidence.npz").unlink(),
        "cut": lambda folder: (folder / "run.json").write_text("{"),
        "removed": shutil.rmtree,
        "a version from the future": lambda folder: edit(folder, lambda d: d.update(SchemaVersion="2")),
        "not complete any more": lambda folder: edit(folder, lambda d: d.update(Complete=False), sealed=True),
        "another run in its place": lambda folder: edit(folder, lambda d: d.update(RunId="other"), sealed=True),
        "a link": lambda folder: (folder.rename(folder.with_name(".away")), folder.symlink_to(".away")),
    }


@pytest.mark.parametrize("what", tampering())
def test_a_rollback_to_a_run_that_was_changed_is_refused_and_changes_nothing(tmp_path: Path, what: str) -> None:
    found = promoted(tmp_path, "one", "two", "three")
    before = file_of(tmp_path).read_bytes()
    tampering()[what](tmp_path / "results/evaluation/runs/Triage/two")
    with pytest.raises(StorageError, match="2 steps go back further"):
        found.rollback("accuracy")
    assert file_of(tmp_path).read_bytes() == before
    assert found.rollback("accuracy", steps=2).run_id == "one"


@pytest.mark.parametrize("what", tampering())
def test_an_active_run_that_was_changed_is_no_baseline(tmp_path: Path, what: str) -> None:
    promoted(tmp_path, "base")
    kept(tmp_path, "new")
    tampering()[what](tmp_path / "results/evaluation/runs/Triage/base")
    with pytest.raises(StorageError) as refused:
        call("gate", "--run", "new", "--baseline", "active", "--rule", "delta(accuracy) >= -1", "--root", tmp_path)
    assert refused.value.exit_code == 5


@pytest.mark.parametrize("other", [("base-2", "acme"), ("base", "rival"), ("base", None)])
@pytest.mark.parametrize("how", ["removed", "cut"])
def test_a_pointer_never_leads_to_another_run(tmp_path: Path, other: tuple[str, str | None], how: str) -> None:
    found = Pointers(Scope(tmp_path, tenant="acme"))
    folders = [kept(tmp_path, run_id, tenant="acme") for run_id in ("base", "new")]
    found.promote(Opened.at(folders[0]), "accuracy")
    kept(tmp_path, other[0], "Other", tenant=other[1])
    tampering()[how](folders[0])
    arguments = ("--baseline", "active", "--rule", "delta(accuracy) >= -1", "--root", tmp_path)
    with pytest.raises(StorageError):
        call("gate", "--run", folders[1], "--tenant", "acme", *arguments)
    found.promote(Opened.at(folders[1]), "accuracy")
    with pytest.raises(StorageError):
        found.rollback("accuracy")
    assert found.get("accuracy").run_id == "new"


def test_promotion_of_a_damaged_run_promotes_no_other(tmp_path: Path) -> None:
    folder = kept(tmp_path, "base")
    kept(tmp_path, "base-2")
    (folder / "run.json").write_text("{")
    for command in (
        ("runs", "promote", "base", "--metric", "accuracy"),
        ("gate", "--run", "base", "--rule", "accuracy >= 0"),
    ):
        with pytest.raises(StorageError, match="run base: "):
            call(*command, "--root", tmp_path)
    assert not list((tmp_path / ACTIVE).glob("*/*.json"))


@pytest.mark.parametrize("tenant", ["acme", "Acme Corp, Ltd.", "../up"])
def test_a_run_that_names_another_tenant_is_named_or_active_where_it_was_promoted(tmp_path: Path, tenant: str) -> None:
    foreign(tmp_path, {**FOREIGN, "Tenant": tenant})
    kept(tmp_path, "good")
    at = ("--root", tmp_path)
    document = printed("runs", "list", *at)
    if document["problems"]:
        assert [run["run_id"] for run in document["runs"]] == ["good"]
        assert "Tenant" in document["problems"][0]["problem"]
        call("runs", "promote", "good", *at)
        assert printed("runs", "active", *at)["run_id"] == "good"
    else:
        assert printed("runs", "promote", "b7c1", "--metric", "ndcg@3", *at)["run_id"] == "b7c1"
        assert printed("runs", "active", "--metric", "ndcg@3", *at)["run_id"] == "b7c1"


# -- racing and failing writers ----------------------------------------------------------------------------------------


def test_racing_promotions_make_one_line(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for number in range(4):
        kept(root, f"run{number}a")
        kept(root, f"run{number}b")
    code = """
folders = [root / f"results/evaluation/runs/Triage/run{number}{part}" for part in "ab"]
opened = [Opened.at(folder) for folder in folders]
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


def test_racing_promotions_and_rollbacks_make_one_line(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for number in range(4):
        kept(root, f"run{number}")
    code = """
opened = Opened.at(root / f"results/evaluation/runs/Triage/run{number}")
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
    return Pointers(Scope(root)).promote(Opened.at(next(f for f in folders if f.name != active)), "accuracy")


def rollback(root: Path) -> Any:
    return Pointers(Scope(root)).rollback("accuracy")


def attempt(root: Path) -> Any:
    return counted(Scope(root), baseline="one", run="two", data="d", rules=["accuracy >= 0"], verdict="pass")


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
        lambda: Pointers(Scope(root)).promote(Opened.at(root / "results/evaluation/runs/Triage/three"), "accuracy"),
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


def test_processes_killed_in_the_middle_of_promotions_leave_a_line(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for name in ("one", "two"):
        kept(root, name)
    code = """
opened = [Opened.at(root / "results/evaluation/runs/Triage" / name) for name in ("one", "two")]
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
    found.promote(Opened.at(kept(tmp_path, "two")), ANY)
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


# -- how often was it tried? -------------------------------------------------------------------------------------------


def test_attempts_are_counted_for_the_same_baseline_and_data(tmp_path: Path) -> None:
    def tries(baseline: str = "b", run: str = "r", data: str = "d", tenant: str | None = None) -> int:
        scope = Scope(tmp_path, tenant=tenant)
        return len(counted(scope, baseline=baseline, run=run, data=data, rules=["accuracy >= 0"], verdict="fail"))

    assert [tries(), tries(), tries(run="another")] == [1, 2, 3]
    assert tries(baseline="other") == 1
    assert tries(data="other") == 1
    assert tries(tenant="acme") == 1
    assert tries() == 4
    document = json.loads((tmp_path / "results/evaluation/gates/attempts.json").read_text())
    assert len(document["Attempts"]) == 6
    assert set(document["Attempts"][0]) == {"AtUtc", "Baseline", "RunId", "Data", "Rules", "Verdict"}


def test_racing_attempts_are_all_counted(tmp_path: Path) -> None:
    root = tmp_path / "store"
    code = """
meet()
print(json.dumps([
    len(counted(Scope(root), baseline="b", run=f"r{number}", data="d", rules=[], verdict="fail")) for _ in range(10)
]))
"""
    assert sorted(n for numbers in race(root, 3, code) for n in numbers) == list(range(1, 31))


def test_a_gate_says_which_attempt_it_is(tmp_path: Path) -> None:
    promoted(tmp_path, "base")
    kept(tmp_path, "first", no_every=4)
    kept(tmp_path, "second", no_every=5)
    seen = []
    for run_id in ("first", "first", "second"):
        arguments = ("--baseline", "active", "--rule", "delta(accuracy) >= -1", "--root", tmp_path)
        seen.append(printed("gate", "--run", run_id, *arguments))
    assert [document["attempt"] for document in seen] == [1, 2, 3]
    assert {document["verdict"] for document in seen} == {"pass"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "5",
        '{"SchemaVersion": "1"}',
        '{"SchemaVersion": "1", "Attempts": 5}',
        '{"SchemaVersion": "1", "Attempts": ["abc"]}',
        '{"SchemaVersion": "1", "Attempts": [{}]}',
        '{"SchemaVersion": "1", "Attempts": [{"Baseline": "b", "Data": "d", "Value": NaN}]}',
        '{"SchemaVersion": "2", "Attempts": []}',
        "[" * 100_000,
    ],
    ids=lambda content: content[:60],
)
def test_a_list_of_attempts_that_is_none_is_refused_and_left_as_it_is(tmp_path: Path, content: str) -> None:
    path = tmp_path / "results/evaluation/gates/attempts.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(StorageError, match=r"attempts\.json"):
        attempt(tmp_path)
    assert path.read_text() == content
