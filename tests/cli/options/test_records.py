"""Options about files of answers, as they are typed: conditions, names and lists with commas in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.cli.options.records import names, pairs, versus_of
from steelyard.errors import UsageError
from tests.support.answers import lines
from tests.support.commands import command

FEW = ("-m", "accuracy", "--resamples", 100, "--format", "json")


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    rows = [
        {
            "item": f"q{i}",
            "model": model,
            "perturbation": perturbation,
            "age": None if i == 5 else 60 + i,
            "race": "ABC"[i % 3],
            "band, new": "[0,50)" if i % 2 else "[50,100)",
            "target": "yes",
            "prediction": "yes" if i % 4 else "no",
        }
        for model in ("birch-2", "alder,1")
        for perturbation in ("none", "typo")
        for i in range(12)
    ]
    path = tmp_path / "answers.jsonl"
    path.write_text(lines(rows))
    return path


def rows(path: Path, *options: Any) -> int:
    done = command("evaluate", path, *FEW, "--pool", "model", "--pool", "perturbation", *options, root=path.parent)
    assert done.code == 0, done.err
    return int(done.json["population"]["rows"])


def test_the_condition_of_the_readme_means_what_it_always_meant(answers: Path) -> None:
    assert rows(answers, "--where", "model=birch-2,perturbation=none") == 12
    assert rows(answers, "--where", "model=birch-2", "--where", "perturbation=none") == 12


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["age>=65"], 24),
        (["age>=65", "race=A,B"], 16),
        (["age>=65,race=A,B,perturbation=none"], 8),
        (["race=A,B,age>=65,perturbation=none"], 8),
        (["race!=A"], 32),
        (["age!=none,age<62"], 8),
        (['model="alder,1"'], 24),
        (["model='alder,1',birch-2"], 48),
        (['"band, new"=[0,50)'], 24),
        (['"band, new"=[0,50),[50,100)', "model=birch-2"], 24),
    ],
)
def test_conditions_as_they_are_typed(answers: Path, options: list[str], expected: int) -> None:
    assert rows(answers, *(part for text in options for part in ("--where", text))) == expected


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("race", "--where takes conditions such as model=a,b or age>=65, not 'race'"),
        ("race>=1", "race>=1 compares numbers, and the column 'race' holds text"),
        ("age>=old", ">= compares with one number"),
        ("model=birch-2,model=x", "--where names 'model' twice"),
        ("race=Z", "no row has race=Z; the column has 3 other values"),
        ("age>=200", "no row has age>=200"),
    ],
)
def test_conditions_that_are_refused(answers: Path, where: str, problem: str) -> None:
    done = command("evaluate", answers, *FEW, "--where", where)
    assert (done.code, done.out) == (2, "")
    assert problem in done.err


def test_what_leaves_out_nothing_is_said_with_the_numbers(answers: Path) -> None:
    done = command("evaluate", answers, *FEW, "--where", "race!=Z", "--where", "model=birch-2,perturbation=none")
    assert done.code == 0, done.err
    assert "race!=Z: no row has race=Z; the column has 3 other values" in done.json["warnings"]


def test_compare_and_gate_take_the_same_conditions(answers: Path) -> None:
    where = ("--where", "age>=65,race=A,B", "--where", "perturbation=none", "--versus", 'model="alder,1",birch-2')
    done = command("compare", answers, "-m", "accuracy", "--resamples", 100, "--format", "json", *where)
    assert done.code == 0, done.err
    assert done.json["population"]["paired"] == 4
    done = command("gate", "--run", answers, "--rule", "accuracy >= 0", "--format", "json", *where)
    assert done.code == 0, done.err


def test_names_and_values_with_commas(answers: Path) -> None:
    renamed = command("evaluate", answers, *FEW, "--map", 'group.band="band, new"', "--by", "group.band")
    assert renamed.code == 0, renamed.err
    assert {"[0,50)", "[50,100)"} <= {e["slice"].get("group.band") for e in renamed.json["estimates"]}
    label = ("--save", "--label", 'note="a, b",x=(1,2)')
    kept = command("evaluate", answers, *FEW, "--where", "model=birch-2,perturbation=none", *label, root=answers.parent)
    assert kept.code == 0, kept.err
    listed = command("runs", "list", "--format", "json", root=answers.parent)
    assert '"a, b"' in listed.out
    assert '"(1,2)"' in listed.out


def test_lists_and_pairs() -> None:
    assert pairs(["a=b,c=d", "e=f"], "map") == {"a": "b", "c": "d", "e": "f"}
    assert pairs(['"a,b"=c', "d=[1,2]"], "map") == {"a,b": "c", "d": "[1,2]"}
    assert names(["llm, token_msp", '"odd, column"', "f(a,b)"]) == ["llm", "token_msp", "odd, column", "f(a,b)"]
    assert versus_of("model=old,new") == ("model", "old", "new")
    assert versus_of(' "my model" = "a,b" , c ') == ("my model", "a,b", "c")
    assert versus_of("band=[0,50),[50,100)") == ("band", "[0,50)", "[50,100)")
    for text in ("model", "model=a", "model=a,a", "model=a,b,c", "model=a,", "=a,b", "model=,b"):
        with pytest.raises(UsageError, match="--versus takes a column and two values"):
            versus_of(text)
    for text in ("a", "a=b,c", "a=b,", "=b"):
        with pytest.raises(UsageError, match="--map takes name=value"):
            pairs([text], "map")
    with pytest.raises(UsageError, match="--map names 'a' twice"):
        pairs(["a=b", '"a"=c'], "map")
