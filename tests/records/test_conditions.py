"""Which rows to keep: one grammar for the command line, files and calls."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.errors import InputError, UsageError
from steelyard.records.conditions import Condition, conditions
from steelyard.records.table import Records

AGES = [64, 65, 66, None, 30]
RACES = ["A", "B", "C", None, "A"]


def table(**more: Any) -> Records:
    columns = {"item": list("abcde"), "age": AGES, "race": RACES, "group.band": ["[0,50)", "x,y", "x", "y", "[0,50)"]}
    return Records.from_columns({**columns, **more})


def items(where: Any, **more: Any) -> str:
    return "".join(table(**more).filter(where).column("item").to_pylist())


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("age>=65", "bc"),
        ("age>65", "c"),
        ("age<65", "ae"),
        ("age<=65", "abe"),
        (" age >= 64.5 ", "bc"),
        ("age=65", "b"),
        ("age=65.0", "b"),
        ("age!=65", "acde"),
        ("race=A,B", "abe"),
        ("race=A,none", "ade"),
        ("race!=A", "bcd"),
        ("race!=A,B", "cd"),
        ("race!=none", "abce"),
        ("race!=A,none", "bc"),
        ("age>=60,race=A,B", "ab"),
        ("race=A,B,age>=60", "ab"),
        ("age>=60,age<66", "ab"),
        (["age>=60", "race=A,B"], "ab"),
        ('"age">="65"', "bc"),
        ("group.band=[0,50)", "ae"),
        ("group.band=[0,50),x", "ace"),
        ('group.band="x,y"', "b"),
        ("group.band='x,y',x", "bc"),
        ('group."band"=x', "c"),
        ({"race": "A"}, "ae"),
        ({"race": ["A", "B"]}, "abe"),
        ({"race": ("A", None)}, "ade"),
        ({"race": None}, "d"),
        ({"race": "none"}, "d"),
        ({"age": 65}, "b"),
        ({"age": [65, 66.0]}, "bc"),
        ({"group.band": "x,y"}, "b"),
        ({"race": ["A", "B"], "age": 65}, "b"),
        ({}, "abcde"),
        ([], "abcde"),
    ],
)
def test_the_rows_that_meet_all_conditions(where: Any, kept: str) -> None:
    assert items(where) == kept


def test_odd_names_are_quoted() -> None:
    odd = {"body mass, index": [20, 31, 32, None, 40], "a=b": list("xxyyz"), "score(a,b)": [1, 2, 3, 4, 5]}
    assert items('"body mass, index">=31', **odd) == "bce"
    assert items('"a=b"=x,y', **odd) == "abcd"
    assert items("score(a,b)>3", **odd) == "de"
    assert items("'a=b'!=x", **odd) == "cde"


def test_truths_are_written_as_they_are_shown() -> None:
    truths = {"should_abstain": [True, False, None, True, False]}
    assert items("should_abstain=true", **truths) == "ad"
    assert items({"should_abstain": False}, **truths) == "be"


def test_rows_that_say_none_are_told_from_rows_without_a_value() -> None:
    said = {"note": ["none", None, "x", "x", "none"]}
    assert items("note=none", **said) == "ae"
    assert items("note=no value", **said) == "b"
    assert items({"note": None}, **said) == "b"


def test_unperturbed_rows_have_two_names() -> None:
    altered = {"perturbation": ["typo", "none", None, "original", "case"]}
    for name in ("none", "original"):
        assert items(f"perturbation={name}", **altered) == "bcd"
        assert items(f"perturbation!={name}", **altered) == "ae"
    assert items("perturbation=original,typo", **altered) == "abcd"


def test_the_outcome_is_the_derived_one() -> None:
    answers = {"prediction": ["x", None, "y", "z", None]}
    assert items("outcome=answered", **answers) == "acd"
    assert items("outcome!=answered", **answers) == "be"


def test_conditions_compare_the_rows_that_are_left() -> None:
    part = table().take(np.array([4, 2, 1]))
    assert part.filter("age>=30,race!=B").column("item").to_pylist() == ["e", "c"]


def test_large_whole_numbers_are_compared_exactly() -> None:
    large = {"visit": [2**53, 2**53 + 1, 2**53 + 2, None, -(2**53) - 1]}
    assert items(f"visit>{2**53}", **large) == "bc"
    assert items(f"visit<={2**53}", **large) == "ae"
    assert items("visit<99999999999999999999999999", **large) == "abce"
    assert items("visit>-1e30", **large) == "abce"


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("race>=A", ">= compares with one number, as in age>=65, not 'race>=A'"),
        ("race>=1", "race>=1 compares numbers, and the column 'race' holds text; = and != compare any values"),
        ("outcome<1", "the column 'outcome' holds text"),
        ("should_abstain<1", "holds true or false"),
        ("tags<1", "holds a list"),
        ("age>=65,70", ">= compares with one number"),
        ("age<nan", "< compares with one number"),
        ("age<1_000", "< compares with one number"),
        ("age<none", "< compares with one number"),
        ("ages>=65", "needs column 'ages'; the table has: item, age, race.*did you mean 'age'"),
        ("race=Z", "no row has race=Z; the column has 3 other values"),
        ("race=A,Z", "no row has race=Z"),
        ("group.band=z", r"no row has group.band=z; the column has \[0,50\), x, x,y, y"),
        ("race", "`where=` takes conditions such as model=a,b or age>=65, not 'race'"),
        ("race=", "takes conditions"),
        ("=A", "takes conditions"),
        ("race=A,", "takes conditions"),
        ("race=A,=B", "takes conditions"),
        (",race=A", "takes conditions"),
        ("", "takes conditions"),
        ("race==A", "the operators are = != < <= > >="),
        ("age=>65", "the operators are"),
        ("age<>65", "the operators are"),
        ("race=A,race=B", "`where=` names 'race' twice; several values are written as in model=a,b"),
        (["race=A", "race=B"], "names 'race' twice"),
        ({"race": []}, "names no value for 'race'"),
    ],
)
def test_what_cannot_be_read_or_compared_is_a_usage_error(where: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        items(where, should_abstain=[True] * 5, tags=[["x"]] * 5)


def test_an_error_shows_no_value_of_the_data() -> None:
    with pytest.raises(UsageError) as caught:
        items("diagnosis=flu", diagnosis=["secret"] * 5)
    assert "secret" not in str(caught.value)
    with pytest.raises(InputError, match="lists cannot be"):
        items("tags=a", tags=[["secret"]] * 5)


def test_leaving_out_what_is_not_there_is_said_and_does_no_harm() -> None:
    kept = table().filter("race!=Z,A")
    assert kept.column("item").to_pylist() == ["b", "c", "d"]
    assert kept.warnings == ("race!=Z,A: no row has race=Z; the column has 3 other values",)
    assert table().filter("race!=A").warnings == ()


def test_a_column_without_any_value_meets_no_comparison() -> None:
    assert items("empty<1", empty=[None] * 5) == ""
    assert items("empty=none", empty=[None] * 5) == "abcde"


def test_read_takes_every_form(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("item,age,race,model\n1,64,A,m\n2,65,B,m\n3,70,C,n\n4,,A,n\n")

    def kept(where: Any) -> list[int]:
        return list(sy.read(path, where=where).column("item").to_pylist())

    assert kept("age>=65") == kept(["age>=65"]) == kept(("age>=65",)) == [2, 3]
    assert kept(["age>=65", "race=A,B"]) == [2]
    assert kept({"model": "m"}) == kept("model=m") == [1, 2]
    assert kept({"race": ["A", "C"]}) == [1, 3, 4]
    assert kept(conditions("race=A,C")) == [1, 3, 4]
    assert kept(None) == kept({}) == kept([]) == [1, 2, 3, 4]
    with pytest.raises(UsageError, match="no row has age>=65 and race=A"):
        kept("age>=65,race=A")
    with pytest.raises(UsageError, match=r"takes conditions"):
        sy.read(tmp_path / "no such file", where="race")  # said before anything is read


# -- properties --------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from("ab1 ,=<>!.'\"\\()[]é"), max_size=8)


@given(TEXTS, st.sampled_from(["=", "!="]), st.lists(TEXTS, min_size=1, max_size=3).map(tuple))
@example("a", "=", ("b<c", "d"))
@example("f(", "=", (")",))
def test_a_condition_is_read_back_as_it_was_written(column: str, operator_: Any, values: tuple[str, ...]) -> None:
    condition = Condition(column, operator_, values)
    assert conditions(str(condition)) == (condition,)


@given(
    st.lists(st.none() | st.integers(-3, 3) | st.sampled_from([0.5, -1.5]), min_size=1, max_size=8),
    st.sampled_from(["<", "<=", ">", ">="]),
    st.integers(-4, 4) | st.sampled_from([0.5, -1.5, 0.25]),
)
def test_comparisons_are_those_of_python_and_nothing_is_no_number(values: list[Any], mark: str, bound: float) -> None:
    records = Records.from_columns({"item": list(range(len(values))), "x": values})
    meets = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[mark]
    expected = [i for i, v in enumerate(values) if v is not None and meets(v, bound)]
    assert records.filter(f"x{mark}{bound}").column("item").to_pylist() == expected


@given(
    st.lists(st.none() | st.sampled_from("abc"), min_size=1, max_size=8), st.sets(st.sampled_from("abc"), min_size=1)
)
def test_equal_and_unequal_share_out_the_rows(values: list[Any], wanted: set[str]) -> None:
    records = Records.from_columns({"item": list(range(len(values))), "x": values})
    if not wanted <= set(values):
        return
    listed = ",".join(sorted(wanted))
    equal, unequal = (records.filter(f"x{mark}{listed}").column("item").to_pylist() for mark in ("=", "!="))
    assert equal == [i for i, v in enumerate(values) if v in wanted]
    assert sorted(equal + unequal) == list(range(len(values)))
