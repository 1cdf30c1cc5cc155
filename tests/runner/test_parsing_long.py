"""Long replies that repeat themselves: reading one takes a time in proportion to its length."""

from __future__ import annotations

import pytest

from steelyard.runner import reading
from steelyard.runner.parsing import parse
from steelyard.runner.tasks import tasks
from tests.support.tasks import TextTask

CKD = tasks["ckd_detection"]
STAGE = tasks["ckd_staging"]
NUMBER = TextTask(labels=None)

HOSTILE = (
    *("ckd. ", "ckd\n", "Answer: ckd\n", "Answer:\n", "{ ", '{"a": 1} ', '{"a": {"b": 1}} ', "<think>", "</think>"),
    *(
        "3 ",
        "3",
        ".3",
        "3.",
        "not ckd ",
        "the my ",
        "the\n",
        "final\n\n",
        "my \n",
        "- ",
        "-",
        "*",
        "_ ",
        " ",
        "\n",
        "\t",
    ),
    *(
        "(",
        ",",
        ";",
        "{[(",
        "abstain",
        "abstain: ",
        "abstain:\n",
        "Abstain: true\n",
        "Abstain: no\n",
        "answer",
        "answer=",
    ),
    *(
        "stage ",
        "stage\n",
        "very ",
        "no t",
        "rule ",
        "half of ",
        "and a ",
        "one ",
        "n",
        "'",
        ": ",
        "=",
        "~",
        "( - ",
        "\r",
        "?",
    ),
    *("i don't know ", "sorry, but ", "the answer ", "confidence: 1\n", "\u2028", "½", "İ", "`", "e1", "1e", "\\"),
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_reply_that_repeats_itself_is_read_to_its_end(piece: str) -> None:
    text = piece * (40_000 // len(piece))
    for task in (CKD, STAGE, NUMBER):
        for whole in (text, f"Answer: 3{text}", f"5 {text}!"):
            parse(whole, task)


@pytest.mark.parametrize("piece", ["the\n", "final \n", "- ", "(", "abstain: ", "5 -"])
def test_a_megabyte_is_read(piece: str) -> None:
    """What takes the square of it would never end."""
    parse(piece * (1_000_000 // len(piece)) + "5", NUMBER)


def test_no_beginning_of_a_line_reaches_into_the_next() -> None:
    pattern = reading._LINE
    assert pattern.match("the\nanswer: 5") is None
    for what in ("\\s*", "\\s+"):
        assert what not in pattern.pattern
