"""Names here and names in the file: `map=`, and pairs that are the wrong way round."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.errors import UsageError
from steelyard.pytest_plugin import check
from tests.support.commands import command


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    path = tmp_path / "answers.csv"
    path.write_text("question_id,gold,answer\n1,A,A\n2,B,A\n3,A,A\n")
    return path


def test_a_pair_the_wrong_way_round_is_explained(answers: Path) -> None:
    with pytest.raises(UsageError) as caught:
        sy.read(answers, map={"question_id": "item"})
    said = str(caught.value)
    assert said.startswith("cannot rename 'item': there is no such column; columns: question_id, gold, answer")
    assert said.endswith('the name in the file: `map={"item": "question_id"}`')
    right = {"item": "question_id"}
    assert sy.read(answers, map=right).stated == ("item", "gold", "answer")


def test_only_the_pairs_that_are_wrong_are_turned(answers: Path) -> None:
    with pytest.raises(UsageError) as caught:
        sy.read(answers, map={"target": "gold", "question_id": "item", "answer": "prediction"})
    assert '`map={"target": "gold", "item": "question_id", "prediction": "answer"}`' in str(caught.value)


@pytest.mark.parametrize(
    "names", [{"item": "nothing"}, {"note": "nothing"}, {"note": "item"}, {"question_id": "gold2"}]
)
def test_other_mistakes_are_not_taken_for_it(answers: Path, names: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        sy.read(answers, map=names)
    assert "cannot rename" in str(caught.value)
    assert "map=" not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "option", "shown"),
    [
        ("question_id", "question_id=item", "--map item=question_id"),
        ("question id", "question id=item", "--map 'item=question id'"),
        ('"id, old"', '"id, old"=item', '--map \'"item"="id, old"\''),
        ("id`s", "id`s=item", "--map 'item=id`s'"),
    ],
)
def test_the_command_shows_what_to_type(tmp_path: Path, header: str, option: str, shown: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{header},target,prediction\n1,A,A\n2,B,A\n")
    done = command("evaluate", path, "-m", "accuracy", "--map", option)
    assert done.code == 2
    assert done.err.endswith(f"the name in the file: {shown}\n")
    _, typed = shlex.split(shown)
    done = command("evaluate", path, "-m", "accuracy", "--map", typed, "--resamples", 100)
    assert done.code == 0, done.err


def test_the_earlier_name_is_an_unknown_argument(answers: Path) -> None:
    given: dict[str, Any] = {"rename": {"item": "question_id"}}
    for reads in (sy.read, partial(sy.evaluate, metrics=["accuracy"]), partial(check, rules="accuracy >= 0")):
        with pytest.raises((UsageError, pytest.fail.Exception), match="`rename=` is no option of reading"):
            reads(answers, **given)
