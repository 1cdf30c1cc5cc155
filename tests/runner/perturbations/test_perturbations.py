"""Every perturbation: by chance of the item's own, on what is shown alone, and never what was meant."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.ground.chance import Chance
from steelyard.runner.perturbations import perturbations, perturbed
from steelyard.runner.perturbations.contract import Shown
from steelyard.runner.perturbations.numbers import number_format
from steelyard.runner.perturbations.people import GENDERS, NAMES
from steelyard.runner.perturbations.register import informal
from steelyard.runner.perturbations.spelling import typos
from steelyard.runner.perturbations.words import FILLERS, noise_words, truncation
from steelyard.runner.strategies import strategy_named
from steelyard.runner.tasks import Item, Task, task_named
from tests.support.tasks import TemplateTask

REPORT = "Saving does not work because 3 users of 1500 see the error 0.5 seconds too late."


@pytest.fixture
def task() -> Task:
    return TemplateTask(labels=("Critical", "Major", "Minor", "Trivial"))


def item(text: str = REPORT, number: int = 1, **more: Any) -> Item:
    return Item(id=number, fields={"question": text, "sex": "female", "age": 65}, target="Major", **more)


@pytest.mark.parametrize("name", perturbations)
def test_it_changes_what_is_asked_and_never_the_label(name: str, task: Task) -> None:
    other = perturbed(name, task, item(), 0)
    assert other is not None
    assert (other.id, other.target, other.cluster, other.groups) == (1, "Major", None, {})
    assert other.fields["sex"] == "female"
    strategy = strategy_named("zero-shot")
    assert strategy.messages(task, other) != strategy.messages(task, item())


@pytest.mark.parametrize("name", perturbations)
def test_it_depends_on_the_seed_and_the_item_alone(name: str, task: Task) -> None:
    first = [perturbed(name, task, item(number=number), 0) for number in range(20)]
    backwards = [perturbed(name, task, item(number=number), 0) for number in reversed(range(20))]
    assert first == backwards[::-1]
    assert perturbed(name, task, replace(item(), target="Minor", cluster=3), 0).fields == first[1].fields  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["typos", "noise_words", "name_prefix", "gender_prefix", "reordered_options"])
def test_items_and_seeds_meet_different_chances(name: str, task: Task) -> None:
    def altered(seed: int) -> list[Any]:
        others = [perturbed(name, task, item(number=number), seed) for number in range(12)]
        return [(other.fields["question"], other.options) for other in others if other is not None]

    assert len({json.dumps(each) for each in altered(0)}) > 1
    assert altered(0) != altered(1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("typos", "Is it so? 12 34"), ("upper", "ALL LOUD 3"), ("lower", "all quiet 3"), ("truncation", "Not so long"),
        ("informal", "it works"), ("number_format", "Build 42 of v1.2 on 2019-01-02, 50% done, at 10:30 in 2019"),
    ],
)  # fmt: skip
def test_what_changes_nothing_is_none(name: str, text: str, task: Task) -> None:
    assert perturbed(name, task, replace(item(text), fields={"question": text}), 0) is None


def test_what_a_template_hides_is_no_change(task: Task) -> None:
    shouting = TemplateTask(labels=("a", "b"), template="{{ question | upper }}")
    assert perturbed("upper", shouting, item(), 0) is None
    assert perturbed("typos", shouting, item(), 0) is not None


def test_numbers_have_no_options_to_reorder() -> None:
    assert perturbed("reordered_options", TemplateTask(labels=None), item(), 0) is None


@pytest.mark.parametrize("labels", [("a", "b"), (1, 2, 3, 4, 5)])
def test_reordered_options_are_the_same_ones_in_another_order(labels: tuple[Any, ...]) -> None:
    task = TemplateTask(labels=labels)
    for number in range(40):
        other = perturbed("reordered_options", task, item(number=number), 0)
        assert other is not None
        assert other.options is not None
        assert other.options != labels
        assert sorted(other.options) == sorted(labels)
        message = strategy_named("zero-shot").messages(task, other)[-1].content
        assert f"one of {', '.join(json.dumps(label) for label in other.options)}" in message
        enum = strategy_named("zero-shot").schema(task, other.options)["properties"]["answer"]["enum"]
        assert enum[: len(labels)] == list(other.options)


words = st.lists(st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=9), max_size=30).map(" ".join)


@given(words, st.integers(0, 1000))
def test_typos_keep_words_their_beginnings_and_everything_else(text: str, seed: int) -> None:
    other = typos(text, Chance(seed))
    assert re.split(r"[^\W\d_]{3,}", other) == re.split(r"[^\W\d_]{3,}", text) or len(other.split()) == len(
        text.split()
    )
    assert [word[0] for word in other.split()] == [word[0] for word in text.split()]
    assert abs(len(other) - len(text)) <= len(text.split()) * 9
    long = re.findall(r"[^\W\d_]{4,}", text)
    if any(len(set(word[1:])) > 1 for word in long) and len(long) == 1:
        assert other != text


@given(words, st.integers(0, 1000))
def test_noise_is_all_that_is_added(text: str, seed: int) -> None:
    other = noise_words(text, Chance(seed)).split()
    assert not text.split() or len(other) > len(text.split())
    remaining = iter(other)
    assert all(any(word == each for each in remaining) for word in text.split())


@given(words)
def test_a_cut_text_is_the_beginning_of_the_whole(text: str) -> None:
    other = truncation(text, Chance(0))
    assert text.startswith(other)
    assert len(other.split()) == (-(-3 * len(text.split()) // 5) if len(text.split()) >= 4 else len(text.split()))


def test_informal_says_the_same() -> None:
    said = informal("It is broken. We cannot save, and people do not like it. Please help.", Chance(0))
    assert said == "it's broken. we can't save, and folks don't like it. pls help"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3 users of 1500 wait 0.5 s.", "three users of 1,500 wait 0.50 s."),
        ("It has 12, 13 or 1200000 rows", "It has twelve, 13 or 1,200,000 rows"),
        ("v2 of ISSUE-3 #4 1.2.3 5% -3 10:30", "v2 of ISSUE-3 #4 1.2.3 5% -3 10:30"),
        ("in 1999 and 2100", "in 1999 and 2,100"),
        ("10 000 ms, $5, x=5, −5 °C, Версия2, 3é", "10 000 ms, $5, x=5, −5 °C, Версия2, 3é"),
    ],
)
def test_numbers_keep_their_value(text: str, expected: str) -> None:
    assert number_format(Shown(fields={"question": text}, options=None), Chance(0)).fields["question"] == expected


def test_numbers_in_fields_stay_numbers_and_print_otherwise() -> None:
    task = task_named("ckd_progression")
    one = task.items(None, size=1, seed=3).items[0]
    other = perturbed("number_format", task, one, 0)
    assert other is not None
    assert other.fields["visits"] == one.fields["visits"]
    first = one.fields["visits"][0]
    assert f"serum creatinine {first['creatinine']}0 mg/dL" in task.question(other)
    assert "Month zero:" in task.question(other)
    assert json.dumps(other.fields["visits"]) == json.dumps(one.fields["visits"])


def test_codes_that_a_template_compares_with_stay() -> None:
    task = task_named("ckd_progression")
    for one in task.items(None, size=20, seed=0).items:
        assert all(perturbed(name, task, one, 0) is None for name in ("upper", "lower", "typos", "name_prefix"))


@pytest.mark.parametrize(("name", "known"), [("name_prefix", NAMES), ("gender_prefix", GENDERS)])
def test_who_writes_stands_before_the_question_and_in_a_column(name: str, known: Any, task: Task) -> None:
    seen = set()
    for number in range(200):
        other = perturbed(name, task, item(number=number), 0)
        assert other is not None
        who = other.more["perturbed_with"]
        seen.add(who)
        assert other.fields["question"] == f"{GENDERS.get(who, who)} writes: {REPORT}"
    assert seen == set(known)


def test_the_longest_text_is_the_one_that_is_written() -> None:
    shown = Shown(
        fields={"title": "Two words", "description": "A few words more", "code": "abcdefghijklmnopqrst"}, options=None
    )
    assert shown.main == "description"
    assert set(shown.texts) == {"title", "description"}
    assert Shown(fields={"code": "a"}, options=None).main is None


def test_fillers_are_words() -> None:
    assert all(re.fullmatch(r"[A-Za-z ]+", filler) for filler in FILLERS)
