"""Replies as models write them, and as nobody should: what is read is what was said, or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.runner.parsing import parse, rendered, without_reasoning
from steelyard.runner.tasks import Task, tasks
from tests.support.tasks import TextTask

CKD = tasks["ckd_detection"]
STAGE = tasks["ckd_staging"]
COURSE = tasks["ckd_progression"]
RISK = TextTask(labels=("low", "high", "very high"), may_decline=False)
CHOICE = TextTask(labels=("A", "B", "C", "D"))
NUMBER = TextTask(labels=None)
UNKNOWN = TextTask(labels=("yes", "no", "I don't know"))

ALLOWED = (
    *("5 points", "5 mg", "5 mg/dL", "$5", "5 (five)", "approximately 5", "5 m", "5.", "**5**", "5!", "(5)", "+5"),
    *(
        "5 points, no more.",
        "The score is 5.",
        "Score: 5",
        "The right one: 5",
        "Maximum: 5",
        "It is not easy. 5 points.",
        "around 5 mL per minute",
    ),
)

ANSWERED = [
    # an object, alone, in a fence, among prose
    (CKD, '{"answer": "ckd", "abstain": false, "confidence": 0.9}', "ckd", "json"),
    (CKD, '```json\n{"answer": "ckd"}\n```', "ckd", "json"),
    (CKD, 'The eGFR is low, so not normal.\n\n{"answer": "ckd"}\nI hope this helps.', "ckd", "json"),
    (CKD, '{"reasoning": "notckd? No: {it is} \\"ckd\\"", "answer": "ckd"}', "ckd", "json"),
    (CKD, '{"ANSWER": " CKD ", "Abstain": "false"}', "ckd", "json"),
    (CKD, '{"answer": "Not  CKD"}', "notckd", "json"),
    (CKD, '{"answer": "ckd", "abstain": null}', "ckd", "json"),
    (CKD, '{"answer": "ckd"} {"answer": "CKD"}', "ckd", "json"),
    (CKD, '[{"answer": "ckd"}]', "ckd", "json"),
    (CKD, '{"note": "notckd"} {"answer": "ckd"}', "ckd", "json"),
    (CKD, '{"answer": "ckd\u00a0"}', "ckd", "json"),
    (CKD, '{"answer": "\\u0063kd"}', "ckd", "json"),
    (CKD, '{"answer": "ckd",\n "why": "line\nbreak"}', "ckd", "json"),
    (STAGE, '{"answer": 3}', 3, "json"),
    (STAGE, '{"answer": 3.0}', 3, "json"),
    (STAGE, '{"answer": "3"}', 3, "json"),
    (STAGE, '{"answer": "G3a"}', 3, "json"),
    (STAGE, '{"answer": "Stage 4"}', 4, "json"),
    (NUMBER, '{"answer": -3.50}', -3.5, "json"),
    (NUMBER, '{"answer": "-3.50"}', -3.5, "json"),
    (NUMBER, '{"answer": 0}', 0.0, "json"),
    (TextTask(labels=("true", "false")), '{"answer": true}', "true", "json"),
    # a line
    (CKD, "Answer: ckd", "ckd", "line"),
    (CKD, "**Final Answer:** notCKD.", "notckd", "line"),
    (CKD, "answer : 'ckd'\nConfidence: 0.7", "ckd", "line"),
    (CKD, "Answer: ckd\nAs I said:\nFinal answer: CKD.", "ckd", "line"),
    (CKD, "## Answer:\n\nAnswer: ckd", "ckd", "line"),
    (CKD, "Answer: ckd\nAbstain: false\nConfidence: 0.8", "ckd", "line"),
    (CKD, "**Abstain:** No, the case is clear.\r\n**Answer:** ckd\r\n", "ckd", "line"),
    (CKD, "I could set abstain: true, but the case is clear.\nAnswer: ckd", "ckd", "line"),
    (CKD, "The set {x | x > 3} is large.\nAnswer: ckd", "ckd", "line"),
    (CKD, "ckd\nAbstain: false\nConfidence: 0.8", "ckd", "label"),
    (CKD, '{"answer": "ckd"}\nAbstain: false', "ckd", "json"),
    (CKD, '{"answer": "ckd", "why": {"egfr": [41, {"unit": "mL"}]}}', "ckd", "json"),
    (CKD, "It could be ckd or notckd.\nANSWER = ckd", "ckd", "line"),
    (CKD, "Answer:\n\nckd\n", "ckd", "line"),
    (CKD, "The answer is: ckd", "ckd", "line"),
    (CKD, "Answer: ckd, because eGFR is 41.", "ckd", "line"),
    (CKD, "Answer: The patient has ckd", "ckd", "line"),
    (CKD, "Answer: ckd. This is not a hard case.", "ckd", "line"),
    (STAGE, "eGFR is 42.3, in 5 visits.\nAnswer: 3 (G3b)", 3, "line"),
    (STAGE, "Answer: stage 3", 3, "line"),
    (STAGE, "Answer: Stage IV", 4, "line"),
    (CHOICE, "Answer: B", "B", "line"),
    (CHOICE, "Answer: (b).", "B", "line"),
    (CHOICE, "Answer: B. This is a common finding.", "B", "line"),
    (CHOICE, "Answer: C) liver", "C", "line"),
    (RISK, "Answer: very  HIGH", "very high", "line"),
    (NUMBER, "Answer: -3.50", -3.5, "line"),
    (NUMBER, "Answer: −2", -2.0, "line"),
    (NUMBER, "Answer: about 8 points.", 8.0, "line"),
    *((NUMBER, f"Answer: {text}", 5.0, "line") for text in ALLOWED),
    (NUMBER, "Answer: 1e3", 1000.0, "line"),
    (NUMBER, "Answer: **.5**", 0.5, "line"),
    # a label
    (CKD, "ckd", "ckd", "label"),
    (CKD, "  **CKD.**\n", "ckd", "label"),
    (CKD, "not ckd", "notckd", "label"),
    (CKD, "The findings are those of ckd. There is ckd.", "ckd", "label"),
    (CKD, "I will not abstain. The patient has ckd.", "ckd", "label"),
    (CKD, "There is no doubt.\nIt is ckd!", "ckd", "label"),
    (CKD, "Given the history of hypertension and an eGFR of 41, the patient has ckd.", "ckd", "label"),
    (STAGE, "3", 3, "label"),
    (STAGE, "The patient is in stage 3.", 3, "label"),
    (STAGE, "An eGFR of 45.2 is G3a, that is stage 3.", 3, "label"),
    (CHOICE, "(B)", "B", "label"),
    (RISK, "The risk is very high.", "very high", "label"),
    (NUMBER, "-3.50", -3.5, "label"),
    (UNKNOWN, "I don't know.", "I don't know", "label"),
    # reasoning is passed over
    (CKD, '<think>{"answer": "notckd"} Answer: notckd</think>{"answer": "ckd"}', "ckd", "json"),
    (CKD, "notckd, or rather not\n</think>\nAnswer: ckd", "ckd", "line"),
    (CKD, "<THINKING>notckd</THINKING> ckd", "ckd", "label"),
]

ABSTAINED = [
    (CKD, '{"answer": null, "abstain": true, "confidence": 0.2}', "json"),
    (CKD, '{"abstain": true}', "json"),
    (CKD, '{"answer": "ckd", "abstain": true}', "json"),  # declining wins over an answer
    (CKD, '{"answer": "", "abstain": "True"}', "json"),
    (CKD, '{"answer": "abstain"}', "json"),
    (CKD, '{"answer": "I don\'t know", "abstain": false}', "json"),
    (CKD, "Answer: abstain", "line"),
    (CKD, "Answer: ckd\nConfidence: 0.8\nAbstain: true", "line"),
    (CKD, "abstain: true\nAnswer: ckd", "line"),
    (CKD, "{abstain: true, answer: ckd}", "line"),
    (CKD, "Answer: ckd\r**Abstain**: Yes.\rConfidence: 0.2", "line"),
    (CKD, "Abstain = true, because the values contradict each other", "line"),
    (CKD, "The findings are those of ckd, or of notckd.\nAnswer: cannot be determined", "line"),
    (CKD, "I abstain.", "phrase"),
    (CKD, "I don't know", "phrase"),
    (CKD, "The values contradict each other.\nI cannot answer this question.", "phrase"),
    (NUMBER, "I do not know.", "phrase"),
    # where declining is offered, an answer that is left open
    (CKD, '{"answer": null}', "json"),
    (CKD, '{"answer": "unknown"}', "json"),
    # and where it is not, whoever declines does so all the same
    (RISK, '{"answer": null, "abstain": true}', "json"),
    (RISK, "I don't know", "phrase"),
    (RISK, "Answer: abstain", "line"),
    (RISK, "Answer: high\nAbstain: true", "line"),
    (RISK, "I'm sorry, but I cannot give medical advice.", "phrase"),
    (RISK, "Answer: I cannot decide, the labs are missing", "line"),
]

SCALED = (
    *("5 million", "5 thousand", "5 dozen", "5 hundred", "5 K", "5 M", "5 bn", "5 percent", "5 per cent", "5 pct"),
    *("1½", "5²", "5 ½", "5 and a half", "5 squared", "√5", "twenty 5", "twenty-5", "half of 5", "twice 5"),
    *("not 5", "It is not 5", "5 is wrong", "isn't 5", "less than 5", "more than 5", "at least 5", "at most 5"),
    *(
        "5 or more",
        "5+",
        "up to 5",
        "5?",
        "5 ?",
        "over 5",
        "between 5 and six",
        "5/six",
        "Is it 5 points?",
        "±5",
        "5 or six",
    ),
)
DENIED = (
    *("negative for ckd", "absence of ckd", "free of ckd", "CKD is absent", "ckd: false", "I doubt ckd", "CKD: 0"),
    *("lack of ckd", "CKD negative", "ckd ❌", "ckd (-)", "CKD was excluded", "ruling ckd out", "ckd is wrong"),
    *(
        "anything but ckd",
        "far from ckd",
        "a family history of ckd",
        "ckd would be a mistake",
        "kein ckd",
        "pas de ckd",
    ),
    *(
        "~~ckd~~",
        "hardly ckd",
        "I disagree with ckd",
        "the opposite of ckd",
        "screening for ckd",
        "≠ ckd",
        "non ckd like",
    ),
    "What speaks for the one is little, what speaks for the other is much, and all of it considered this is ckd indeed",
)

UNPARSED = [
    (CKD, ""),
    (CKD, "  \n"),
    (CKD, "I will not abstain"),
    (CKD, "I do not decline."),
    (CKD, "I would not say that I abstain from anything here"),
    # two different labels
    (CKD, "ckd or notckd"),
    (CKD, "Answer: ckd or notckd"),
    (CKD, "Answer: ckd. notckd."),
    (CKD, '{"answer": "ckd, notckd"}'),
    (CKD, '{"answer": "ckd"} {"answer": "notckd"}'),
    (CKD, '{"answer": "ckd"} {"answer": null, "abstain": true}'),
    (CHOICE, "Answer: A, B"),
    (CHOICE, "Answer: A or B"),
    (CHOICE, "Answer: A. B."),
    (STAGE, "Answer: 3 or 4"),
    (STAGE, "Answer: 3-4"),
    (STAGE, "Answer: 3.5"),
    (STAGE, "Answer: -3"),
    (RISK, "The risk is high, or very high."),
    (CKD, "Answer: notckd\nOn second thought:\nAnswer: ckd"),
    (CKD, "Answer: ckd\nAnswer: abstain"),
    (NUMBER, "Answer: 5\nAnswer: 5 million"),
    # an abstention that keeps to no form
    (CKD, '{"result":{"answer":"ckd","abstain":true}}'),
    (CKD, '{\n  "result": {\n    "answer": "ckd",\n    "abstain": true\n  }\n}'),
    (CKD, '{"results": [{"Answer": "ckd"}]}'),
    (CKD, '{"answer": "ckd", "details": {"abstain": true}}'),
    (CKD, '{"result": "{\\"answer\\": \\"ckd\\", \\"abstain\\": true}"}'),
    (CKD, "{answer: ckd, abstain: true}"),
    (CKD, "{answer: ckd, abstain: false}"),
    (CKD, "answer=ckd; abstain=True"),
    (CKD, "Answer: ckd (abstain: true)"),
    (CKD, "Answer: ckd abstain: true"),
    (CKD, '{"answer": "ckd"}\nAbstain: true'),
    (CKD, "Answer: ckd\nAbstain: perhaps"),
    (CKD, "Answer: ckd\nAbstain: true\nAbstain: false"),
    # cut off, or no JSON
    (CKD, '{"answer": "ckd'),
    (CKD, '{"answer": "ckd", "confid'),
    (CKD, '{"answer": "ckd"'),
    (CKD, '{\n  "answer": "ckd",\n  "confidence": 0.'),
    (CKD, '```json\n{"reasoning": "the patient has ckd'),
    (CKD, "{'answer': 'ckd'}"),
    (CKD, '{"answer": "ckd", confidence: 1}'),
    (CKD, '{"answer": "ckd", "answer": "notckd"}'),
    (CKD, '{"answer": "ckd", "Answer": "notckd"}'),
    (CKD, '{"answer": "ckd", "confidence": NaN}'),
    (NUMBER, '{"answer": 1e999}'),
    (NUMBER, '{"answer": ' + "9" * 5000 + "}"),
    (CKD, '{"answer": "ckd", "x": ' + "[" * 100_000),
    # no answer
    (CKD, '{"answer": null, "abstain": false}'),
    (CKD, '{"abstain": false}'),
    (CKD, '{"answer": ["ckd"]}'),
    (CKD, '{"answer": {"answer": "ckd"}}'),
    (CKD, '{"answer": "perhaps"}'),
    (CKD, '{"answer": "ckd", "abstain": "perhaps"}'),
    (CKD, '{"answer": "ckd", "abstain": 1}'),
    (CKD, '{"answer": true}'),
    (STAGE, '{"answer": 6}'),
    (STAGE, '{"answer": 3.5}'),
    (STAGE, '{"answer": true}'),
    (NUMBER, '{"answer": true}'),
    (NUMBER, "Answer:\nConfidence: 0.9"),
    (CKD, "Answer:"),
    # denied, doubted, asked
    *((CKD, text) for text in DENIED),
    *((CKD, f"Answer: {text}") for text in DENIED),
    *((CKD, json.dumps({"answer": text})) for text in DENIED),
    (CKD, "The patient does not have ckd."),
    (CKD, "This is no typical ckd"),
    (CKD, "There isn't any ckd"),
    (CKD, "ckd is unlikely"),
    (CKD, "ckd?"),
    (CKD, "Is it ckd? I wonder."),
    (CKD, "It is unclear whether this is ckd."),
    (CKD, "non-ckd-like"),
    (CKD, "Probably ckd.\nI don't know."),
    (CKD, "Let us see. Some would say ckd. The kidneys work well."),
    (STAGE, "There were 3 visits."),
    (CHOICE, "A patient came in."),
    # numbers that may mean two things
    (NUMBER, "Answer: 1,234"),
    (NUMBER, "Answer: 1 234"),
    (NUMBER, "Answer: 3-5"),
    (NUMBER, "Answer: 85%"),
    (NUMBER, "Answer: 85 %"),
    (NUMBER, "Answer: - 3"),
    (NUMBER, "Answer: minus 3"),
    (NUMBER, "Answer: <5"),
    (NUMBER, "Answer: 1/2"),
    (NUMBER, "Answer: 1.234.567"),
    (NUMBER, "Answer: ١٢"),
    *((NUMBER, f"Answer: {text}") for text in SCALED),
    *((NUMBER, json.dumps({"answer": text})) for text in SCALED),
    (NUMBER, "The patient is 62 years old."),
    (NUMBER, "Answer: five"),
    (NUMBER, "nan"),
    (NUMBER, "Answer: inf"),
    # an answer that is left open, where declining is not offered
    (RISK, '{"answer": null}'),
    (RISK, '{"answer": "unknown"}'),
    # reasoning without an end
    (CKD, "<think>It is ckd"),
    (CKD, '{"answer": "ckd"} <think>'),
    (CKD, "<think>notckd</think>"),
]


@pytest.mark.parametrize(("task", "text", "answer", "how"), ANSWERED)
def test_answers(task: Task, text: str, answer: Any, how: str) -> None:
    parsed = parse(text, task)
    assert (parsed.outcome, parsed.prediction, parsed.how) == ("answered", answer, how)
    assert type(parsed.prediction) is type(answer)
    assert parsed.value_at is not None
    first, last = parsed.value_at
    assert 0 <= first < last <= len(text)


@pytest.mark.parametrize(("task", "text", "how"), ABSTAINED)
def test_abstentions(task: Task, text: str, how: str) -> None:
    parsed = parse(text, task)
    assert (parsed.outcome, parsed.prediction, parsed.how, parsed.value_at) == ("abstained", None, how, None)


@pytest.mark.parametrize(("task", "text"), UNPARSED, ids=range(len(UNPARSED)))
def test_what_cannot_be_read_is_never_an_abstention_and_never_a_guess(task: Task, text: str) -> None:
    parsed = parse(text, task)
    assert (parsed.outcome, parsed.prediction, parsed.how, parsed.value_at) == ("unparsed", None, "", None)
    assert (parsed.confidence, parsed.verbalized) == (None, None)


@pytest.mark.parametrize(
    ("task", "text", "value"),
    [
        (CKD, '{"reasoning": "ckd", "answer": "ckd"}', ("ckd", 32)),
        (CKD, '{"answer": " CKD "}', ("CKD", 13)),
        (CKD, "<think>ckd</think>\nAnswer: **ckd**.", ("ckd", 29)),
        (CKD, "ckd it is: ckd", ("ckd", 11)),  # the last of several
        (STAGE, '{"answer": 3, "confidence": 1}', ("3", 11)),
        (STAGE, "Answer: 3 (G3b)", ("3", 8)),
        (NUMBER, "Answer: about -3.50 points", ("-3.50", 14)),
        (NUMBER, '{"answer": -3.50}', ("-3.50", 11)),
        (CKD, '{"answer": "\\u0063kd"}', ("\\u0063kd", 12)),
        (CKD, "Answer:\n  ckd", ("ckd", 10)),
    ],
)
def test_where_the_value_stands_in_the_reply_as_it_was_given(task: Task, text: str, value: tuple[str, int]) -> None:
    parsed = parse(text, task)
    assert parsed.value_at is not None
    first, last = parsed.value_at
    assert (text[first:last], first) == value


# -- cut off -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finish", ["length", "max_tokens"])
@pytest.mark.parametrize(
    ("task", "text"),
    [
        (NUMBER, "Answer: 1"),
        (NUMBER, "Answer: 1."),
        (NUMBER, "Answer: 5 mil"),
        (NUMBER, "Answer:\n1"),
        (NUMBER, "1"),
        (CKD, "Answer: ckd"),
        (CKD, "Answer: **ckd**"),
        (CKD, "Answer: ckd, which is"),
        (CKD, "Answer: abstain"),
        (CKD, "ckd"),
        (CKD, "The patient has ckd. Or rather"),
        (CKD, "I don't know"),
        (CKD, "Answer: ckd\nAbstain: no"),
        (STAGE, "Reasoning.\n\nAnswer: 3"),
    ],
)
def test_a_value_that_may_have_gone_on_is_not_read(task: Task, text: str, finish: str) -> None:
    assert parse(text, task, finish="stop").outcome != "unparsed" or text.endswith(("mil", "rather", "is"))
    assert parse(text, task, finish=finish).outcome == "unparsed"


@pytest.mark.parametrize(
    ("task", "text", "answer"),
    [
        (NUMBER, "Answer: 15\n", 15.0),
        (NUMBER, "Answer: 15\nConf", 15.0),
        (CKD, "Answer: ckd. The eGFR is", "ckd"),
        (CKD, '{"answer": "ckd"}', "ckd"),
        (CKD, '{"answer": "ckd", "confidence": 0.7}\n\nThe reason', "ckd"),
    ],
)
def test_what_has_ended_before_a_reply_was_cut_is_read(task: Task, text: str, answer: Any) -> None:
    assert parse(text, task, finish="length").prediction == answer


def test_a_confidence_that_may_have_gone_on_is_none() -> None:
    parsed = parse("Answer: ckd\nConfidence: 0.8", CKD, finish="length")
    assert (parsed.prediction, parsed.confidence, parsed.confidence_refused) == ("ckd", None, True)
    assert parse("Answer: ckd\nConfidence: 0.8\n", CKD, finish="length").confidence == 0.8


# -- confidence --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "confidence"),
    [
        *(("0", 0.0), ("1", 1.0), ("0.85", 0.85), ('"0.85"', 0.85), ("1e-3", 0.001), ("null", None)),
        # what can mean one thing only on a scale from 0 to 1
        *(
            ("85", 0.85),
            ('"85%"', 0.85),
            ('"85 percent"', 0.85),
            ('"0.9/1"', 0.9),
            ('"17 out of 20"', 0.85),
            ('"4/5"', 0.8),
        ),
    ],
)
def test_confidence(stated: str, confidence: float | None) -> None:
    parsed = parse(f'{{"answer": "ckd", "confidence": {stated}}}', CKD)
    assert (parsed.confidence, parsed.verbalized, parsed.confidence_refused) == (confidence, None, False)


@pytest.mark.parametrize(
    "stated", ["5", "10", '"3/0"', '"105%"', "101", '"-5%"', "-0.1", "1.01", "true", '"high"', "[0.5]", "{}", '""']
)
def test_what_is_no_confidence_is_none_and_said(stated: str) -> None:
    for verbalized in (False, *([True] if stated != "5" else [])):
        parsed = parse(f'{{"answer": "ckd", "confidence": {stated}}}', CKD, verbalized=verbalized)
        assert (parsed.outcome, parsed.prediction) == ("answered", "ckd")
        assert (parsed.confidence, parsed.verbalized, parsed.confidence_refused) == (None, None, True)


@pytest.mark.parametrize(("stated", "whole"), [("1", 1), ("5", 5), ("4.0", 4), ('"3"', 3), ('"4/5"', 4)])
def test_verbalized_confidence(stated: str, whole: int) -> None:
    parsed = parse(f'{{"answer": "ckd", "confidence": {stated}}}', CKD, verbalized=True)
    assert (parsed.confidence, parsed.verbalized, parsed.confidence_refused) == (None, whole, False)


@pytest.mark.parametrize("stated", ["0", "6", "3.5", "0.8", '"4/10"', '"80%"'])
def test_what_is_no_verbalized_confidence(stated: str) -> None:
    parsed = parse(f'{{"answer": "ckd", "confidence": {stated}}}', CKD, verbalized=True)
    assert (parsed.verbalized, parsed.confidence_refused) == (None, True)


def test_confidence_on_a_line_and_of_an_abstention() -> None:
    assert parse("Answer: ckd\n**Confidence:** 0.7", CKD).confidence == 0.7
    assert parse("Answer: ckd\nConfidence: 4", CKD, verbalized=True).verbalized == 4
    assert parse("Answer: ckd\nConfidence: 70%", CKD).confidence == 0.7
    assert parse("Answer: ckd\nConfidence: rather high", CKD).confidence_refused
    assert parse('{"abstain": true, "confidence": 0.2}', CKD).confidence == 0.2


# -- reasoning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "visible", "counted"),
    [
        ("none", "none", 0),
        ("<think>abc</think>x", " " * 18 + "x", 3),
        ("x<think>abc</think>y<think>de</think>", "x" + " " * 18 + "y" + " " * 17, 5),
        ("abc</think>x", " " * 11 + "x", 3),
        ("<think>a<think>b</think>c</think>x", " " * 33 + "x", 18),
        ("<think>abc", None, 3),
        ("x<think>", None, 0),
    ],
)
def test_reasoning_is_counted_and_leaves_everything_in_its_place(text: str, visible: str | None, counted: int) -> None:
    assert without_reasoning(text) == (visible, counted)
    assert parse(text, CKD).reasoning_chars == counted


# -- any text ----------------------------------------------------------------------------------------------------------

PIECES = (
    *(
        "ckd",
        "notckd",
        "not",
        " ",
        "\n",
        '"',
        "'",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "answer",
        "Answer:",
        "abstain",
        "true",
    ),
    *(
        '{"answer": "',
        '"}',
        "null",
        "<think>",
        "</think>",
        "```",
        "3",
        "-3.50",
        "85%",
        "\\",
        "\ud800",
        "\x00",
        "İ",
        "ß",
    ),
    *("I don't know", ".", "?", "confidence", '"abstain": true', "1e999", "NaN", "\u2028", "(B)"),
)
EVERY = [CKD, STAGE, COURSE, RISK, CHOICE, NUMBER, UNKNOWN]


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.sampled_from(EVERY), st.booleans())
def test_any_text_is_read_and_what_is_said_of_it_is_consistent(text: str, task: Task, verbalized: bool) -> None:
    parsed = parse(text, task, verbalized=verbalized)
    assert (parsed.prediction is not None) == (parsed.outcome == "answered") == (parsed.value_at is not None)
    assert parsed.how or parsed.outcome == "unparsed"
    if parsed.outcome == "answered" and task.labels is not None:
        assert parsed.prediction in task.labels
    if parsed.outcome == "abstained":
        assert task.may_decline
    assert parsed.confidence is None or 0 <= parsed.confidence <= 1
    assert parsed.verbalized in (None, 1, 2, 3, 4, 5)
    if parsed.value_at is not None:
        assert 0 <= parsed.value_at[0] < parsed.value_at[1] <= len(text)


@pytest.mark.parametrize("name", list(tasks))
@pytest.mark.parametrize("confidence", [None, 0.25])
def test_every_label_of_every_task_comes_back(name: str, confidence: float | None) -> None:
    task = tasks[name]
    for label in task.labels or ():
        for text in (rendered(label, abstain=False, confidence=confidence), f"Answer: {label}", f" {label}\n"):
            parsed = parse(text, task)
            assert (parsed.outcome, parsed.prediction) == ("answered", label)
        assert parse(rendered(label, confidence=confidence), task).confidence == confidence
    declined = parse(rendered(None, abstain=True), task).outcome
    assert declined == "abstained"
    for spelling, label in task.spellings.items():
        assert parse(rendered(spelling), task).prediction == label


labels = st.lists(
    st.text(min_size=1).filter(str.strip), min_size=2, max_size=5, unique_by=lambda x: x.casefold().strip()
)


@given(labels)
def test_any_label_comes_back_in_an_object(given_labels: list[str]) -> None:
    folded = {" ".join(label.casefold().split()) for label in given_labels}
    task = TextTask(labels=tuple(given_labels))
    if len(folded) == len(given_labels):
        for label in given_labels:
            assert parse(rendered(label, abstain=False), task).prediction == label


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_comes_back(number: float) -> None:
    for text in (rendered(number), json.dumps({"answer": str(number)}), f"Answer: {number}", f"{number}."):
        assert parse(text, NUMBER).prediction == number
