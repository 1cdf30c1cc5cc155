"""Trainings as they are kept: found again, sealed, listed, and chosen by what held-out queries say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from steelyard.errors import InputError, SteelyardError, StorageError, UsageError
from steelyard.ground.json import dumps
from steelyard.retrieval.shifts.kept import (
    NAME,
    EmbedderResult,
    HeldOutResult,
    ShiftTrainingResult,
    StoredTraining,
    best_training,
    find_training,
    new_id,
    read_training,
    save_training,
    training_document,
    trainings,
)
from steelyard.retrieval.shifts.named import named_shift
from steelyard.runs.layout import Scope

HASH = EmbedderResult(provider="hash", model="", dimension=2)


def result(
    score: float | None,
    *,
    helps: bool = True,
    cancelled: bool = False,
    day: int = 1,
    workflow: str = "w",
    embedder: EmbedderResult | None = HASH,
) -> ShiftTrainingResult:
    held_out = HeldOutResult(
        score=score,
        interval=None,
        level=0.95,
        p_value=None,
        helps=helps,
        queries=10,
        clusters=10,
        seed=42,
        folds=[],
        gains=[],
    )
    return ShiftTrainingResult(
        workflow_name=workflow,
        created_utc=f"2026-01-{day:02d}T00:00:00.000000Z",
        is_cancelled=cancelled,
        cancel_reason="Delta norm 0.000000 below epsilon 0.001000" if cancelled else None,
        delta_vector=[1.0, 0.25],
        delta_norm=float(np.hypot(1.0, 0.25)),
        schema_version="1",
        held_out=held_out,
        embedder=embedder,
    )


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    return Scope(tmp_path)


def kept(scope: Scope, id: str, made: ShiftTrainingResult) -> Path:
    return save_training(scope, id, made, {}) / NAME


def foreign(scope: Scope, id: str, document: Any, workflow: str = "w") -> Path:
    """A file that something else wrote."""
    path = scope.folder / "shifts" / workflow / id / NAME
    path.parent.mkdir(parents=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def chosen(scope: Scope, **options: Any) -> str | None:
    best, _ = best_training(trainings(scope)[0], **options)
    return None if best is None else best.id


# -- which is best -----------------------------------------------------------------------------------------------------


def test_the_highest_held_out_score_wins_and_ties_go_to_the_newest(scope: Scope) -> None:
    for id, score, day in (("a", 0.2, 1), ("b", 0.3, 2), ("c", 0.3, 4), ("d", 0.3, 3), ("e", 0.1, 5)):
        kept(scope, id, result(score, day=day))
    assert [stored.id for stored in trainings(scope)[0]] == ["e", "c", "d", "b", "a"]
    assert chosen(scope) == "c"
    kept(scope, "z", result(0.3, day=4))
    assert chosen(scope) == "z", "of two made at the same moment the later id"
    named = named_shift("best", scope=scope, embedder=HASH)
    assert named.name == "z"
    assert named.notes == ()
    assert named.shift.applied(np.zeros((1, 2))).tolist() == [[1.0, 0.25]]


def test_what_is_cancelled_or_does_not_help_is_skipped(scope: Scope) -> None:
    kept(scope, "cancelled", result(0.9, cancelled=True, day=5))
    kept(scope, "unsure", result(0.8, helps=False, day=6))
    kept(scope, "undefined", result(None, helps=False, day=7))
    kept(scope, "good", result(0.1, day=1))
    assert chosen(scope) == "good"
    _, rejected = best_training(trainings(scope)[0])
    assert {stored.id: reason for stored, reason in rejected} == {
        "cancelled": "cancelled",
        "unsure": "not shown to help on held-out queries",
        "undefined": "never judged on held-out queries",
    }


def test_best_says_why_there_is_none(scope: Scope) -> None:
    with pytest.raises(UsageError, match="no training yet"):
        named_shift("best", scope=scope)
    kept(scope, "a", result(0.9, cancelled=True))
    kept(scope, "b", result(0.9, cancelled=True))
    kept(scope, "c", result(0.9, helps=False))
    with pytest.raises(UsageError) as refused:
        named_shift("best", scope=scope)
    assert "2 cancelled" in str(refused.value)
    assert "1 not shown to help" in str(refused.value)
    with pytest.raises(UsageError, match="best"):
        named_shift("best")


def test_another_embedder_is_skipped(scope: Scope) -> None:
    other = EmbedderResult(provider="openai", model="large", dimension=2)
    longer = EmbedderResult(provider="hash", model="", dimension=3)
    kept(scope, "mine", result(0.1))
    kept(scope, "other", result(0.9, embedder=other))
    kept(scope, "longer", result(0.8, embedder=longer))
    assert chosen(scope) == "other"
    assert chosen(scope, embedder=HASH) == "mine"
    _, rejected = best_training(trainings(scope)[0], embedder=HASH)
    assert {reason for _, reason in rejected} == {"learned from vectors of another embedder"}
    missing = EmbedderResult(provider="none", model="", dimension=2)
    assert chosen(scope, embedder=missing) is None
    with pytest.raises(UsageError, match="3 learned from vectors of another embedder"):
        named_shift("best", scope=scope, embedder=missing)


def test_workflows_and_tenants_are_apart(tmp_path: Path) -> None:
    scope, acme, other = Scope(tmp_path), Scope(tmp_path, tenant="acme"), Scope(tmp_path, domain="insurance")
    kept(scope, "a", result(0.1, workflow="one"))
    kept(scope, "b", result(0.2, workflow="two"))
    kept(acme, "c", result(0.9, workflow="one"))
    kept(other, "d", result(0.8, workflow="one"))
    assert [[stored.id for stored in trainings(each)[0]] for each in (scope, acme, other)] == [["b", "a"], ["c"], ["d"]]
    assert [stored.id for stored in trainings(scope, "one")[0]] == ["a"]
    assert trainings(scope, "three") == ([], [])
    assert named_shift("best:one", scope=scope).name == "a"
    assert named_shift("best", scope=scope).name == "b"
    assert named_shift("best", scope=acme).name == "c"
    with pytest.raises(UsageError, match="there is no training"):
        find_training(acme, "a")
    with pytest.raises(UsageError):
        named_shift("best:three", scope=scope)


@pytest.mark.parametrize("name", ["../x", "..", ".", "", "/tmp/x", "a/b", "a\\b", ".hidden", "a..b", "x" * 101, "a\nb"])
def test_hostile_workflow_names_are_refused(name: str, scope: Scope) -> None:
    with pytest.raises(UsageError):
        save_training(scope, "id", result(0.1, workflow=name), {})
    with pytest.raises(UsageError):
        trainings(scope, name)
    if name:
        with pytest.raises(UsageError):
            named_shift(f"best:{name}", scope=scope)
    assert not list(scope.root.rglob("*.json"))


@pytest.mark.parametrize("name", ["..", "acme/../other", "", "x/y"])
def test_hostile_tenants_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        Scope(tmp_path, tenant=name)


# -- found by name -----------------------------------------------------------------------------------------------------


def test_by_id_or_its_beginning(scope: Scope) -> None:
    for id in ("20260101_a", "20260101_ab", "20260102_c"):
        kept(scope, id, result(0.1))
    assert find_training(scope, "20260101_a").id == "20260101_a", "an id that is the beginning of another"
    assert find_training(scope, "20260102").id == "20260102_c"
    for text in ("20260101", "2026", "nothing", "_c"):
        with pytest.raises(UsageError):
            find_training(scope, text)


def test_an_empty_name_means_no_training(scope: Scope) -> None:
    """`--shift "$SHIFT"` with an unset variable must not pick the only training that there is."""
    kept(scope, "20260101_a", result(0.1))
    with pytest.raises(UsageError):
        named_shift("", scope=scope)


def test_a_cancelled_one_is_refused_unless_asked_for(scope: Scope) -> None:
    path = kept(scope, "20260101_a", result(0.9, cancelled=True))
    for text in ("20260101_a", str(path)):
        with pytest.raises(UsageError, match="`allow_cancelled=True`"):
            named_shift(text, scope=scope)
        named = named_shift(text, scope=scope, allow_cancelled=True)
        assert any("cancelled" in note for note in named.notes)
    with pytest.raises(UsageError):
        named_shift("best", scope=scope, allow_cancelled=True)


def test_one_that_does_not_help_is_applied_with_a_note(scope: Scope) -> None:
    kept(scope, "20260101_a", result(0.9, helps=False))
    named = named_shift("20260101_a", scope=scope, scale=2.0)
    assert any("not shown to help" in note for note in named.notes)
    assert named.shift.applied(np.zeros((1, 2))).tolist() == [[2.0, 0.5]]


# -- files -------------------------------------------------------------------------------------------------------------


def test_what_is_written_is_read_again(scope: Scope) -> None:
    made = msgspec.structs.replace(result(0.25), training_id="a")
    path = kept(scope, "a", made)
    found = read_training(path)
    assert msgspec.structs.replace(found, digest=None) == made
    assert path.read_text() == dumps(training_document(made))
    assert training_document(found) == training_document(made)


@pytest.mark.parametrize(
    "document",
    [
        [1.0, 2.0],
        {"vector": [1.0, 2.0]},
        {"Kind": "additive", "Value": [1.0, 2.0]},
        {"kind": "additive", "delta": [1.0, 2.0], "SCALE": 1},
        {"DeltaVector": [1.0, 2.0], "DeltaNorm": 2.236},
    ],
)
def test_a_vector_by_any_of_its_names(document: Any, tmp_path: Path) -> None:
    (tmp_path / "shift.json").write_text(json.dumps(document))
    found = named_shift(str(tmp_path / "shift.json"))
    assert found.shift.applied(np.zeros((1, 2))).tolist() == [[1.0, 2.0]]


def test_a_copy_under_another_name_is_no_training(scope: Scope) -> None:
    """A sealed training belongs where it was kept: elsewhere it would be the best of a workflow that it is not of."""
    path = kept(scope, "a", result(0.25))
    for workflow, id in (("w", "b"), ("other", "a")):
        copy = scope.folder / "shifts" / workflow / id / NAME
        copy.parent.mkdir(parents=True)
        copy.write_bytes(path.read_bytes())
    found, said = trainings(scope)
    assert [stored.id for stored in found] == ["a"]
    assert len(said) == 2
    assert all("kept under another name" in text for text in said)


def test_every_changed_byte_is_noticed(scope: Scope) -> None:
    """Whatever single character is changed: the file is refused, or says the same as before."""
    path = kept(scope, "a", result(0.25))
    text, before = path.read_text(), read_training(path)
    noticed = 0
    for at in range(0, len(text), 7):
        for other in "17":
            path.write_text(text[:at] + other + text[at + 1 :])
            try:
                assert read_training(path) == before, text[at - 20 : at + 20]
            except InputError:
                noticed += 1
    assert noticed > len(text) // 7


@pytest.mark.parametrize(
    "change",
    [
        {"DeltaVector": [1.0, 0.26]},
        {"IsCancelled": True},
        {"WorkflowName": "other"},
        {"Digest": None},
        {"Digest": "0" * 64},
        {"SchemaVersion": None},
        {"SchemaVersion": "2"},
        {"Added": 1},
    ],
)
def test_a_changed_field_is_noticed(change: dict[str, Any], scope: Scope) -> None:
    path = kept(scope, "a", result(0.25))
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError):
        read_training(path)
    found, said = trainings(scope)
    assert found == []
    assert len(said) == 1


def test_a_training_that_is_left_out_is_named(tmp_path: Path) -> None:
    """However long the way to it is: people must know which one."""
    scope, (id, _) = Scope(tmp_path / "a-rather-long-name-of-a-folder" / "and-another-one"), new_id()
    foreign(scope, id, "{")
    assert id in trainings(scope)[1][0]


@pytest.mark.parametrize("gone", [("Digest",), ("SchemaVersion",), ("Digest", "SchemaVersion")])
def test_a_seal_that_was_taken_off_is_noticed(gone: tuple[str, ...], scope: Scope) -> None:
    """A held-out score without its digest is not one that was written here: as with run.json, it is never trusted."""
    path = kept(scope, "a", result(0.1, helps=False))
    document = json.loads(path.read_text())
    document["HeldOut"] |= {"Score": 0.99, "Helps": True}
    path.write_text(json.dumps({key: value for key, value in document.items() if key not in gone}))
    assert chosen(scope) is None


FOREIGN = {
    "WorkflowName": "w",
    "CreatedUtc": "2026-01-26T10:00:00Z",
    "BaseDirectory": "C:\\results",
    "ComparisonRuns": 0,
    "TrainingMode": "posneg-uniform",
    "CancelOutEpsilon": 0.001,
    "IsCancelled": False,
    "CancelReason": None,
    "DeltaVector": [0.5, -0.5],
    "DeltaNorm": 0.70710678,
    "ImprovementFirst": 0,
    "ImprovementFirstPlusDelta": 0,
    "DeltaImprovement": 0,
}


@pytest.mark.parametrize("change", [str, str.lower, str.upper, lambda key: key[0].lower() + key[1:]])
def test_files_of_other_tools_are_listed_and_never_chosen(change: Any, scope: Scope) -> None:
    path = foreign(scope, "theirs", {change(key): value for key, value in FOREIGN.items()})
    (stored,), said = trainings(scope)
    assert said == []
    assert stored.result.delta_vector == [0.5, -0.5]
    assert stored.result.why_not == "never judged on held-out queries"
    assert chosen(scope) is None
    kept(scope, "ours", result(0.001, day=1))
    assert chosen(scope) == "ours"
    named = named_shift(str(path))
    assert any("never judged" in note for note in named.notes)
    assert named.shift.applied(np.zeros((1, 2))).tolist() == [[0.5, -0.5]]


def test_a_large_improvement_of_another_tool_does_not_count(scope: Scope) -> None:
    """`Best` of the document went by improvement fields; only held-out scores count here."""
    foreign(scope, "theirs", {**FOREIGN, "ImprovementFirstPlusDelta": 9.0, "DeltaImprovement": 9.0})
    assert chosen(scope) is None


@pytest.mark.parametrize(
    "document",
    [
        "",
        "{",
        "[]",
        "null",
        "NaN",
        "[" * 50_000,
        {},
        {**FOREIGN, "DeltaVector": []},
        {**FOREIGN, "DeltaVector": None},
        {**FOREIGN, "DeltaVector": ["1"]},
        {**FOREIGN, "DeltaVector": [True]},
        {**FOREIGN, "deltavector": [1.0]},
        {**FOREIGN, "CreatedUtc": 5},
        {**FOREIGN, "HeldOut": {"Score": 0.9, "Helps": True}},
        {**FOREIGN, "SchemaVersion": "7"},
        json.dumps(FOREIGN).replace("-0.5", "NaN"),
        json.dumps(FOREIGN).replace("-0.5", "1e999"),
        json.dumps(FOREIGN).replace("-0.5", "9" * 400),
    ],
    ids=lambda document: str(document)[:24],
)
def test_damaged_files_are_said_and_never_chosen(document: Any, scope: Scope) -> None:
    foreign(scope, "broken", document)
    kept(scope, "good", result(0.1))
    found, said = trainings(scope)
    assert chosen(scope) == "good"
    assert [stored.id for stored in found] == ["good"]
    assert len(said) == 1, "nothing is lost without a word"


def test_folders_that_hold_no_training(scope: Scope, tmp_path: Path) -> None:
    kept(scope, "good", result(0.1))
    base = scope.folder / "shifts" / "w"
    (base / "empty").mkdir()
    (base / "folder" / NAME).mkdir(parents=True)
    (base / "file").write_text("")
    (base / ".hidden").mkdir()
    outside = Path(str(tmp_path) + "-outside")
    outside.mkdir()
    (outside / NAME).write_text(dumps(training_document(result(0.99))))
    (base / "link").symlink_to(outside)
    found, said = trainings(scope)
    assert [stored.id for stored in found] == ["good"]
    assert len(said) == 2


def test_a_file_that_leads_out_of_the_store_is_not_chosen(scope: Scope, tmp_path: Path) -> None:
    """Runs are kept in plain files only, and so are trainings: a link could show another tenant's."""
    acme = Scope(scope.root, tenant="acme")
    theirs = kept(acme, "theirs", result(0.9))
    link = scope.folder / "shifts" / "w" / "mine" / NAME
    link.parent.mkdir(parents=True)
    link.symlink_to(theirs)
    assert chosen(scope) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_no_training_and_nobody_waits_for_it(scope: Scope) -> None:
    path = scope.folder / "shifts" / "w" / "pipe" / NAME
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    code = "import sys; from pathlib import Path; from steelyard.runs.layout import Scope\n"
    code += "from steelyard.retrieval.shifts.kept import trainings; print(len(trainings(Scope(Path(sys.argv[1])))[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(scope.root)], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "1", done.stderr


def test_a_training_is_never_overwritten(scope: Scope) -> None:
    kept(scope, "a", result(0.1))
    with pytest.raises(SteelyardError):
        kept(scope, "a", result(0.2))
    assert trainings(scope)[0][0].result.held_out.score == 0.1  # type: ignore[union-attr]


def test_a_link_on_the_way_is_refused(tmp_path: Path) -> None:
    scope, outside = Scope(tmp_path / "root"), tmp_path / "outside"
    outside.mkdir()
    (scope.folder).mkdir(parents=True)
    (scope.folder / "shifts").symlink_to(outside)
    with pytest.raises(StorageError):
        kept(scope, "a", result(0.1))
    assert trainings(scope) == ([], [])
    assert not list(outside.iterdir())


def test_new_ids_sort_by_time_and_are_plain_names() -> None:
    made = [new_id() for _ in range(50)]
    assert len({id for id, _ in made}) == 50
    stamps = [stamp for _, stamp in made]
    assert stamps == sorted(stamps)
    assert [id[:19] for id, _ in made] == sorted(id[:19] for id, _ in made)


def test_a_helping_training_without_a_score_is_not_chosen() -> None:
    """It says that it helps and cannot say how much: it must not break the choice among the others."""
    odd = StoredTraining("odd", Path("x"), result(None, helps=True))
    good = StoredTraining("good", Path("x"), result(0.1))
    best, _ = best_training([odd, good])
    assert best is good
