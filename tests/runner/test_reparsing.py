"""Replies read again: with what is known today, as a new run that names the old, and never by asking."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.errors import StorageError, UsageError
from steelyard.ground.journal import Rows
from steelyard.runs.saved import SavedRun
from steelyard.uncertainty.settings import Settings
from tests.support.commands import command

FEW = Settings(resamples=100)
TASK = """
from dataclasses import dataclass
from steelyard.runner.tasks import Item, Items, tasks

@dataclass(frozen=True)
class Odd:
    name: str = "odd"
    about: str = "is a number odd"
    labels = ("yes", "no")
    spellings = {spellings}
    may_decline: bool = False
    range = None
    direction = None

    def items(self, data, *, size, seed):
        items = [Item(id=n, fields={{"n": n}}, target=("no", "yes")[n % 2]) for n in range({count})]
        return Items(items=tuple(items))

    def background(self):
        return ""

    def question(self, item):
        return f"Is {{item.fields['n']}} {word}?"

    def shown(self, item):
        return item.fields

tasks.add("odd", Odd())
"""
MODELS = """
def model(item, prompt):
    with open(__file__ + ".calls", "a") as calls:
        calls.write("x")
    if item["n"] == 3:
        raise ValueError
    word = ("no", "affirmative")[item["n"] % 2]
    return {"text": f"Answer: {word}", "input_tokens": 7, "output_tokens": 2}
"""


def write(folder: Path, *, spellings: dict[str, str] | None = None, count: int = 10, word: str = "odd") -> Path:
    (folder / "odd.py").write_text(TASK.format(spellings=json.dumps(spellings or {}), count=count, word=word))
    (folder / "models.py").write_text(MODELS)
    model = {"name": "m", "backend": "callable", "options": {"function": "models.py:model"}, "price": {"input": 1e6}}
    spec = {"id": "odd", "task": "odd.py", "models": [model], "metrics": ["accuracy", "parse_failure_rate"],
            "perturbations": ["reordered_options"], "save": {"workflow": "Odd"}}  # fmt: skip
    (folder / "spec.yaml").write_text(json.dumps(spec))
    return folder / "spec.yaml"


@pytest.fixture
def old(tmp_path: Path) -> sy.Run:
    return sy.run(write(tmp_path), root=tmp_path / "store", settings=FEW)


def reparse(folder: Path, run: sy.Run, **more: Any) -> sy.Run:
    return sy.reparse(run.run_id, root=folder / "store", settings=FEW, **more)


def test_what_was_not_understood_then_is_now(tmp_path: Path, old: sy.Run) -> None:
    key = "parse_failure_rate{perturbation=none}"
    assert old.evaluation[key].value == pytest.approx(4 / 9)
    calls = (tmp_path / "models.py.calls").read_text()
    before = old.journal.read_bytes()
    said: list[str] = []
    write(tmp_path, spellings={"affirmative": "yes"}, word="odd, or even")  # how it is asked is no matter any more
    new = reparse(tmp_path, old, say=said.append)
    assert new.evaluation[key].value == 0
    assert new.evaluation["accuracy{perturbation=none}"].value == 1
    assert said == [f"8 of 20 replies are read otherwise than in run {old.run_id}", "evaluating 20 answers"]
    assert (tmp_path / "models.py.calls").read_text() == calls
    assert old.journal.read_bytes() == before
    assert (new.reparsed_from, new.is_complete) == (old.run_id, True)
    assert new.run_id != old.run_id
    assert new.tallies["m"].cost == old.tallies["m"].cost == 18 * 7
    assert new.seconds == old.seconds
    same = ["item", "target", "latency_ms", "input_tokens", "cost"]
    assert new.records.to_arrow().select(same).equals(old.records.to_arrow().select(same))


def test_the_new_run_is_kept_and_names_the_old(tmp_path: Path, old: sy.Run) -> None:
    new = reparse(tmp_path, old)
    assert new.folder is not None
    saved = SavedRun.at(new.folder)
    saved.verify()
    assert saved.run.workflow == "Odd"
    assert saved.run.labels["reparsed_from"] == old.run_id
    manifest = json.loads((new.folder / "run_manifest.json").read_text())
    assert manifest["settings"]["reparsed_from"] == old.run_id
    shown = command("runs", "show", new.run_id, root=tmp_path / "store")
    assert f"reparsed_from={old.run_id}" in shown.out
    assert str(new.journal) in shown.out
    assert reparse(tmp_path, new).reparsed_from == new.run_id


def test_the_command_says_what_it_did(tmp_path: Path, old: sy.Run) -> None:
    write(tmp_path, spellings={"affirmative": "yes"})
    done = command("reparse", old.run_id, "--resamples", 100, "--format", "json", root=tmp_path / "store")
    assert done.code == 0, done.err
    assert done.json["reparsed_from"] == old.run_id
    assert "8 of 20 replies are read otherwise" in done.err


def test_without_texts_there_is_nothing_to_read(tmp_path: Path) -> None:
    run = sy.run(write(tmp_path), root=tmp_path / "store", settings=FEW, forget_replies=True)
    before = sorted((tmp_path / "store").rglob("*"))
    with pytest.raises(
        UsageError, match=r"kept no replies \(`forget_replies=True`\), so there is nothing to read again"
    ):
        reparse(tmp_path, run)
    done = command("reparse", run.run_id, root=tmp_path / "store")
    assert done.code == 2
    assert "kept no replies (--forget-replies)" in done.err
    assert sorted((tmp_path / "store").rglob("*")) == before


def test_deleted_replies_and_other_runs_have_none(tmp_path: Path, old: sy.Run) -> None:
    old.journal.unlink()
    with pytest.raises(UsageError, match="there are no replies of run"):
        reparse(tmp_path, old)
    with pytest.raises(UsageError, match="nothing"):
        sy.reparse("nothing", root=tmp_path / "store")


def test_other_items_are_refused(tmp_path: Path, old: sy.Run) -> None:
    write(tmp_path, count=11)
    with pytest.raises(UsageError, match="the items of odd are not those of run"):
        reparse(tmp_path, old)


def test_what_fails_leaves_nothing_to_be_taken_up_again(tmp_path: Path, old: sy.Run, monkeypatch: Any) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise StorageError("no room")

    running = old.journal.parents[1]
    before = sorted(running.iterdir())
    monkeypatch.setattr("steelyard.runner.reparsing.concluded", fails)
    with pytest.raises(StorageError, match="no room"):
        reparse(tmp_path, old)
    assert sorted(running.iterdir()) == before


def test_a_folder_that_does_not_say_what_was_asked_is_refused(tmp_path: Path, old: sy.Run) -> None:
    path = old.journal.parent / "spec.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in document.items() if key != "items"}))
    with pytest.raises(StorageError, match="an older version wrote it"):
        reparse(tmp_path, old)


def test_every_row_is_read_again_at_its_place(tmp_path: Path, old: sy.Run) -> None:
    new = reparse(tmp_path, old)
    assert [row["key"] for row in Rows(new.journal)] == [row["key"] for row in Rows(old.journal)]
    assert list(Rows(new.journal)) == list(Rows(old.journal))


def test_a_model_that_never_replied_is_still_a_problem(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "models.py").write_text("def model(item, prompt):\n    raise ValueError\n")
    silent = sy.run(path, root=tmp_path / "store", settings=FEW)
    assert silent.exit_code == 4
    again = reparse(tmp_path, silent)
    assert (again.exit_code, again.problems) == (4, silent.problems)


def test_replies_to_other_prompts_are_not_mixed_with_new_ones(tmp_path: Path, old: sy.Run) -> None:
    path = write(tmp_path, word="odd, or even")
    new = reparse(tmp_path, old)
    asked = json.loads((old.journal.parent / "spec.json").read_text())["plan"]
    assert json.loads((new.journal.parent / "spec.json").read_text())["plan"] == asked
    said: list[str] = []
    sy.run(path, root=tmp_path / "store", settings=FEW, retry_failed=True, say=said.append)
    assert not any("is kept already" in line for line in said)
