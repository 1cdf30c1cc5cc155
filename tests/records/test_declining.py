"""Replies that mean declining, and those that only sound like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import UsageError
from steelyard.records.declining import DEFAULT, AbstainWhen, declines

DECLINED = [
    "I don't know",
    "I don\u2019t know.",
    "  i do not know the answer to this question. ",
    "IDK",
    "Sorry, but I can't answer that question.",
    "I am not sure.",
    "I'm unsure about the answer",
    "Cannot be determined",
    "The answer cannot be determined.",
    "I'm unable to determine the answer.",
    "I decline to answer.",
    "Abstain",
    "ABSTAIN.",
    "ANSWER: I don't know",
    "Answer: cannot answer",
    "The stem is cut off.\nI can reason no further.\nI don't know.",
    "Insufficient information to answer.",
    "I would prefer not to answer",
    "**I don't know**",
    "No answer",
]
ANSWERED = [
    "",
    "A",
    "I don't know, maybe B",
    "I don't know about the others, but B is right",
    "I will not abstain",
    "I cannot abstain",
    "I do know: B",
    "Not A",
    "The patient says: I don't know what hurts",
    "Pass the patient on to cardiology",
    "The patient declined treatment",
    "I don't know.\nANSWER: B",
    "unknown origin",
    "decline in renal function",
    "not sure whether it is A; ANSWER: B",
    "ANSWER: B",
    "no answers are wrong",
    "sorry",
]


@pytest.mark.parametrize("text", DECLINED)
def test_a_phrase_of_declining(text: str) -> None:
    assert declines(text)


@pytest.mark.parametrize("text", ANSWERED)
def test_what_only_sounds_like_it(text: str) -> None:
    assert not declines(text)


@given(st.text(max_size=300))
def test_any_text_is_judged_without_fail(text: str) -> None:
    assert declines(text) in (True, False)
    assert not declines(f"{text} therefore B or C, see the chart of 12 May")


def test_long_texts_take_no_long_time() -> None:
    assert not declines("i don't know the " * 20_000)
    assert not declines("(" * 100_000)


def test_rules_as_they_are_asked_for() -> None:
    assert AbstainWhen.of(()).rules == AbstainWhen.of(None).rules == DEFAULT
    assert AbstainWhen.of("noanswer, empty").rules == ("noanswer", "empty")
    assert AbstainWhen.of(["phrases", "/no (idea|clue), sorry/"]).rules == ("phrases", "/no (idea|clue), sorry/")
    assert AbstainWhen.of("/no idea/").why("Well, No Idea.") == "the reply matches a pattern of `abstain_when=`"
    assert AbstainWhen.of("never").why("I don't know", no_answer=True) is None
    assert AbstainWhen.of("noanswer").why("I don't know") is None
    assert AbstainWhen.of("noanswer").why("", no_answer=True) == "the tool marked it as no answer"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("phrase", "did you mean 'phrases'?"),
        ("often", "there are: noanswer, phrases, empty, never, /PATTERN/"),
        ("never,empty", "stands alone"),
        ("/(/", "no regular expression"),
    ],
)
def test_rules_that_do_not_exist(asked: str, said: str) -> None:
    with pytest.raises(UsageError, match="abstain_when") as caught:
        AbstainWhen.of(asked)
    assert said in str(caught.value)
