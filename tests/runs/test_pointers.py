"""Active runs: promotions, rollbacks step by step, and what is never promoted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import SteelyardError, StorageError, UsageError
from steelyard.runs.layout import Scope
from steelyard.runs.pointers import ANY, Pointer, Pointers
from steelyard.runs.saved import SavedRun
from tests.support.commands import steelyard
from tests.support.pointers import ACTIVE, file_of, in_line, promoted
from tests.support.stores import FOREIGN, call, edit, foreign, kept, printed

# -- promote and roll back ---------------------------------------------------------------------------------------------


def test_a_promotion_is_written_with_its_history(tmp_path: Path) -> None:
    found = Pointers(Scope(tmp_path))
    assert found.get("accuracy") == Pointer("accuracy", "default")
    found.promote(SavedRun.at(kept(tmp_path, "one")), "accuracy", reason="first")
    found.promote(SavedRun.at(kept(tmp_path, "two", no_every=5)), "accuracy", reason="better")
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
        SavedRun.at(tmp_path / entry["Folder"]).run.metrics["accuracy"] for entry in document["Stack"]
    ]


def test_promoting_the_active_run_again_changes_nothing(tmp_path: Path) -> None:
    found = promoted(tmp_path, "one", "two")
    before = file_of(tmp_path).read_bytes()
    found.promote(SavedRun.at(tmp_path / "results/evaluation/runs/Triage/two"), "accuracy")
    assert file_of(tmp_path).read_bytes() == before


def test_three_rollbacks_in_a_row_walk_back_step_by_step(tmp_path: Path) -> None:
    found = promoted(tmp_path, "one", "two", "three", "four")
    assert [found.rollback("accuracy").run_id for _ in range(3)] == ["three", "two", "one"]
    pointer = found.get("accuracy")
    in_line(pointer)
    assert [entry["Action"] for entry in pointer.history] == ["promote"] * 4 + ["rollback"] * 3
    before = file_of(tmp_path).read_bytes()
    with pytest.raises(UsageError, match="0 earlier runs to go back to, not 1"):
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
    [(4, UsageError), (5, UsageError), (10**9, UsageError), (0, UsageError), (-1, UsageError)],
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
    with pytest.raises(UsageError, match="0 earlier runs"):
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
    found.promote(SavedRun.at(kept(tmp_path, "three")), "accuracy", "nightly")
    found.promote(SavedRun.at(kept(tmp_path, "four")), ANY)
    other = Pointers(Scope(tmp_path, tenant="acme"))
    other.promote(SavedRun.at(kept(tmp_path, "five", tenant="acme")), "accuracy")
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
    with pytest.raises(UsageError, match="0 earlier runs to go back to"):
        call("runs", "rollback", *at)
    assert printed("runs", "promote", "four", *at)["run_id"] == "four"  # the only metric with a pointer
    history = printed("runs", "history", *at)["history"]
    assert [entry["Seq"] for entry in history] == [1, 2, 3, 4, 5, 6, 7]
    assert [entry["RunId"] for entry in history] == ["one", "two", "three", "four", "three", "one", "four"]
    assert [entry["Reason"] for entry in history][:2] == ["try one", "try two"]


def test_a_rollback_past_the_beginning_is_a_wrong_request(tmp_path: Path) -> None:
    promoted(tmp_path, "one")
    done = steelyard("runs", "rollback", "--root", tmp_path)
    assert done.returncode == 2
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
    found.promote(SavedRun.at(folders[0]), "accuracy")
    kept(tmp_path, other[0], "Other", tenant=other[1])
    tampering()[how](folders[0])
    arguments = ("--baseline", "active", "--rule", "delta(accuracy) >= -1", "--root", tmp_path)
    with pytest.raises(StorageError):
        call("gate", "--run", folders[1], "--tenant", "acme", *arguments)
    found.promote(SavedRun.at(folders[1]), "accuracy")
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
