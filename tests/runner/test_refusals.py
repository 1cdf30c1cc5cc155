"""Replies that decline, and replies that answer although they read alike: 1,090 of them, by form and language.

Each half and each set was written without a look at the rules. What the rules met blind is in docs/running.md; here is
what they must keep.
"""

from __future__ import annotations

import time

import pytest

from steelyard.records.refusals import LONGEST, refuses
from steelyard.runner.parsing import parse
from tests.support.refusals import FreeTask, replies, task_of
from tests.support.tasks import TextTask

SETS = ("open", "held", "fresh", "last")
ROWS = [row for name in SETS for row in replies(name)]


def test_there_are_as_many_as_is_said() -> None:
    assert len(ROWS) == 1090
    assert len({row["reply"] for row in ROWS}) > 1050


@pytest.mark.parametrize("language", ["en", "de", "es", "fr", "zh", None])
def test_declining_is_told_from_answering(language: str | None) -> None:
    rows = [row for row in ROWS if language in (None, row["language"])]
    found = [(row["declines"], parse(row["reply"], task_of(row)).outcome == "abstained") for row in rows]
    hits = sum(truth and said for truth, said in found)
    assert hits / sum(said for _, said in found) >= 0.98
    assert hits / sum(truth for truth, _ in found) >= 0.9


def test_an_answer_with_a_caveat_stays_an_answer() -> None:
    rows = [row for row in ROWS if row["kind"] in ("answer_caveat", "answer_label_like", "answer_plain")]
    declined = [row["id"] for row in rows if parse(row["reply"], task_of(row)).outcome == "abstained"]
    assert len(rows) == 375
    assert len(declined) <= 2


def test_no_reply_is_read_as_another_answer_than_it_gives() -> None:
    wrong = []
    for row in ROWS:
        if row["answer"] is None or row["form"] == "text":
            continue
        parsed = parse(row["reply"], task_of(row))
        if parsed.outcome == "answered" and str(parsed.prediction).removesuffix(".0") != str(row["answer"]):
            wrong.append(row["id"])
    assert not wrong


CLINICAL = (
    *("Call 911 now.", "Answer: I would not give aspirin.", '{"answer": "None"}', "Go to the emergency department."),
    *("Arrange an urgent ophthalmologist review.", "I do not recommend antibiotics.", "I would avoid NSAIDs."),
    *(
        "One cannot give live vaccines in pregnancy.",
        "We should not offer PSA screening above 70.",
        "Refer to nephrology.",
    ),
    *(
        "There is insufficient evidence to recommend routine screening.",
        "Not enough data: order troponin.",
        "Idiopathic",
    ),
    *("Cause remains unclear.", "She should see a cardiologist within two weeks.", "The patient cannot take warfarin."),
)


@pytest.mark.parametrize("reply", CLINICAL)
def test_advice_against_something_is_an_answer(reply: str) -> None:
    assert parse(reply, FreeTask(labels=None, may_decline=False)).outcome == "answered"


@pytest.mark.parametrize(
    "form", [" ", "a" + " " * 50, "I cannot say ", "a ", "so ", ", ", "no" * 40 + " ", "(((", '"a', "{", "\n", "不能"]
)
def test_a_long_reply_takes_time_in_proportion(form: str) -> None:
    def seconds(size: int) -> float:
        text = (form * size)[:size]
        started = time.process_time()
        refuses(text)
        return time.process_time() - started

    seconds(1000)  # patterns are compiled
    assert seconds(LONGEST) < 30
    assert not refuses((form * LONGEST)[: LONGEST + 1])


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("To be  reviewed.", "abstained"),
        ("Answer: low. Needs a human, though.", "abstained"),
        ("Answer: low", "answered"),
    ],
)
def test_a_task_may_say_which_replies_decline(reply: str, outcome: str) -> None:
    class Worded(TextTask):
        abstain = ("to be reviewed", "/needs? a human/")

    assert parse(reply, Worded(labels=("low", "high"))).outcome == outcome
