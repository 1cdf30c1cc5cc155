"""One definition of right on both sides: marks of whoever scored the answers, or labels that are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.errors import UsageError
from tests.support.answers import lines
from tests.support.commands import command

FEW = ("--resamples", 100)


def answers(*, marked: bool) -> list[dict[str, Any]]:
    rows = [{"item": i, "target": "yes", "prediction": "yes" if i % 4 else "no"} for i in range(40)]
    return [row | {"mark": int(row["item"] % 8 != 0)} for row in rows] if marked else rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, marked in (("marked", True), ("plain", False)):
        (tmp_path / f"{name}.jsonl").write_text(lines(answers(marked=marked)))
    return tmp_path


def test_two_judges_are_refused_and_named(folder: Path) -> None:
    said = "the base run is judged by the mark that whoever scored it left, the new one by comparing labels"
    files = ("marked.jsonl", "plain.jsonl")
    for words in (("compare", *files, "-m", "accuracy"), ("gate", *reversed(files), "--rule", "delta(accuracy) >= 0")):
        refused = command(*words, *FEW, cwd=folder)
        assert (refused.code, said in refused.err) == (2, True), refused.err
        assert "--correct mark or --correct labels" in refused.err
        assert command(*words, *FEW, "--correct", "labels", cwd=folder).code == 0
        lacking = command(*words, *FEW, "--correct", "mark", cwd=folder)
        assert (lacking.code, "plain.jsonl has no column mark" in lacking.err) == (2, True)
    assert command("compare", *files, "-m", "f1_macro", *FEW, cwd=folder).code == 0  # labels on both sides


def test_kept_runs_are_refused_too(folder: Path) -> None:
    for name in ("marked", "plain"):
        asked = ("-m", "accuracy", *FEW, "--save", "--run-id", name)
        assert command("evaluate", folder / f"{name}.jsonl", *asked, root=folder).code == 0
    refused = command("gate", "plain", "marked", "--rule", "delta(accuracy) >= 0", root=folder)
    assert (refused.code, "is judged by the mark" in refused.err) == (2, True), refused.out
    asked = ("-m", "accuracy", *FEW, "--save", "--run-id", "labels", "--correct", "labels")
    assert command("evaluate", folder / "marked.jsonl", *asked, root=folder).code == 0
    done = command("gate", "labels", "plain", "--rule", "delta(accuracy) >= 0", root=folder)
    assert "is judged by the mark" not in done.err


def test_labels_are_compared_where_that_is_asked() -> None:
    rows = answers(marked=True)
    assert sy.evaluate(rows, "accuracy", resamples=0)["accuracy"].value == 35 / 40
    assert sy.evaluate(rows, "accuracy", resamples=0, correct="labels")["accuracy"].value == 30 / 40
    assert sy.evaluate(rows, "accuracy", resamples=0, correct="mark")["accuracy"].value == 35 / 40
    assert sy.read(answers(marked=False), correct="labels").warnings == ()
    with pytest.raises(UsageError, match="`correct=` is mark or labels, not 'both'"):
        sy.read(rows, correct="both")
