"""The variants of a spec as commands: what is asked of a column arrives as it was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.cli.runs.matrix import command_line
from steelyard.errors import UsageError
from steelyard.runner.matrix import load
from tests.support.answers import lines
from tests.support.commands import command


def plan(tmp_path: Path, **evaluate: Any) -> Any:
    path = tmp_path / "m.yaml"
    variant = {"name": "one", "evaluate": {"files": ["a.jsonl"], **evaluate}, "labels": {"model": "m", "note": "a, b"}}
    path.write_text(json.dumps({"variants": [variant]}))
    return load(path, command_line)


def given(made: Any, option: str) -> list[str]:
    words = made.arguments(made.spec.variants[0])
    return [words[at + 1] for at, word in enumerate(words) if word == option]


@pytest.mark.parametrize(
    ("where", "typed"),
    [
        ({"model": "birch-2", "perturbation": "none"}, ["model=birch-2", "perturbation=none"]),
        ({"model": "a=b (old)", "group.site": "x"}, ["model=a=b (old)", "group.site=x"]),
        ({"race": "A,B"}, ['"race"="A,B"']),
        ({"race": ["A", "B"]}, ["race=A,B"]),
        (["age>=65", "race=A,B"], ["age>=65", "race=A,B"]),
        ("age>=65,race=A,B", ["age>=65", "race=A,B"]),
        ({}, []),
    ],
)
def test_conditions_of_a_variant(tmp_path: Path, where: Any, typed: list[str]) -> None:
    made = plan(tmp_path, where=where)
    assert given(made, "--where") == typed
    assert made.document["variants"][0]["evaluate"]["where"] == where


def test_names_and_labels_of_a_variant(tmp_path: Path) -> None:
    made = plan(tmp_path, map={"item": "question_id", "target": "gold, final"})
    words = made.arguments(made.spec.variants[0])
    assert [words[at + 1] for at, w in enumerate(words) if w == "--map"] == [
        "item=question_id",
        '"target"="gold, final"',
    ]
    assert [words[at + 1] for at, w in enumerate(words) if w == "--label"] == ["model=m", '"note"="a, b"']


def test_a_condition_that_cannot_be_read_is_refused_with_the_spec(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"m\.yaml: the variant 'one': `where=` takes conditions"):
        plan(tmp_path, where="model")


def test_a_variant_reads_the_rows_that_are_meant(tmp_path: Path) -> None:
    races = ["A", "A,B", "C"]
    answers = [{"item": i, "race": race, "target": "y", "prediction": "y"} for i, race in enumerate(races)]
    (tmp_path / "a.jsonl").write_text(lines(answers))
    made = plan(tmp_path, where={"race": "A,B"}, metrics=["accuracy"], resamples=100)
    _, *words = made.arguments(made.spec.variants[0])
    done = command(*words, "--format", "json", cwd=tmp_path, root=tmp_path)
    assert done.code == 0, done.err
    assert done.json["population"]["rows"] == 1
    assert '"a, b"' in command("runs", "list", "--format", "json", root=tmp_path).out


def test_how_labels_are_read_is_passed_on(tmp_path: Path) -> None:
    made = plan(tmp_path, labels="fold", abstain=["I don't know", "pass"], drop=["messages"])
    asked = {option: given(made, option) for option in ("--labels", "--abstain", "--drop")}
    assert asked == {"--labels": ["fold"], "--abstain": ["I don't know", "pass"], "--drop": ["messages"]}
