"""Replies whose answer is a free text: what is the answer, what the reason, and what neither."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from steelyard.errors import UsageError
from steelyard.runner.answers import Answers
from steelyard.runner.parsing import parse
from steelyard.runner.strategies import strategy_named
from steelyard.runner.strategies.contract import answer_schema
from steelyard.runner.tasks import task_named
from steelyard.runner.tasks.contract import answers_are


def task(**more: Any) -> Any:
    usual = {"labels": None, "spellings": {}, "may_decline": False, "range": None, "answers": "text"}
    return SimpleNamespace(**{**usual, **more})


@pytest.mark.parametrize(
    ("reply", "answer", "reason"),
    [
        ('{"answer": "aortic dissection"}', "aortic dissection", None),
        ('{"rationale": " Tearing pain. ", "answer": " aortic dissection\\n"}', "aortic dissection", "Tearing pain."),
        ('{"reasoning": "step by step", "answer": "sepsis"}', "sepsis", "step by step"),
        ('{"reasoning": "long", "rationale": "short", "answer": "sepsis"}', "sepsis", "short"),
        ('Here:\n```json\n{"answer": "sepsis", "confidence": 0.7}\n```', "sepsis", None),
        ('{"answer": 40}', "40", None),
        ("Rationale: fever and\nlow pressure.\nAnswer: Septic shock; give fluids.", "Septic shock; give fluids.",
         "fever and\nlow pressure."),
        ("**Answer:** Septic shock\nand norepinephrine\n**Confidence:** 0.8", "Septic shock\nand norepinephrine", None),
        ("Answer: first\nAnswer: second", "second", None),
        ("Most likely pneumonia; no effusion.", "Most likely pneumonia; no effusion.", None),
        ("Pneumonia.\nRationale: crackles.", "Pneumonia.", "crackles."),
        ("<think>is it A?</think>Pneumonia", "Pneumonia", None),
    ],
)  # fmt: skip
def test_the_answer_and_its_reason(reply: str, answer: str, reason: str | None) -> None:
    parsed = parse(reply, task())
    assert (parsed.outcome, parsed.prediction, parsed.rationale) == ("answered", answer, reason)


@pytest.mark.parametrize(
    "reply",
    ["", "  \n", '{"answer": ""}', '{"answer": null}', '{"answer": ["a"]}', '{"answer": "cut off',
     "Rationale: only a reason", "<think>without an end", '{"answer": "a"} {"answer": "b"}'],
)  # fmt: skip
def test_what_is_no_answer_is_unparsed(reply: str) -> None:
    assert parse(reply, task()).outcome == "unparsed"


@pytest.mark.parametrize("reply", ['{"answer": null, "abstain": true}', "I don't know.", "Answer: abstain"])
def test_declining_is_told_whether_it_was_offered_or_not(reply: str) -> None:
    assert {parse(reply, task(may_decline=offered)).outcome for offered in (True, False)} == {"abstained"}


def test_confidence_is_read_too() -> None:
    assert parse('{"answer": "sepsis", "confidence": 0.7}', task()).confidence == 0.7
    assert parse("Answer: sepsis\nConfidence: 0.7", task()).confidence == 0.7
    assert parse("Answer: sepsis\nConfidence: 4", task(), verbalized=True).verbalized == 4
    assert parse("Answer: sepsis\nConfidence: high", task()).confidence_refused


@pytest.mark.parametrize("reply", ['{"answer": "aortic dissection"}', "Answer:  aortic dissection \nConfidence: 1"])
def test_where_the_answer_stands(reply: str) -> None:
    parsed = parse(reply, task())
    assert parsed.value_at is not None
    assert reply[slice(*parsed.value_at)] == "aortic dissection"


def test_the_kinds_of_answers() -> None:
    assert answers_are(task()) == "text"
    assert answers_are(task(answers="numbers")) == "numbers"
    assert answers_are(task(labels=("a", "b"))) == "labels"
    plain = task()
    del plain.answers  # tasks that say nothing of it: numbers, as ever
    assert answers_are(plain) == "numbers"
    assert Answers.of(plain).numbers
    assert not Answers.of(task()).numbers


def test_models_are_asked_for_an_answer_and_a_reason() -> None:
    shape = answer_schema(task(), None, verbalized=False, reasoning=False)
    assert list(shape["properties"]) == ["rationale", "answer", "confidence"]
    assert shape["properties"]["answer"] == {"type": "string"}
    asked = task(background=lambda: "", question=lambda item: "Q?")
    for format_, words in (("json", '"rationale": why'), ("text", "Rationale: why")):
        (message,) = strategy_named("zero-shot").messages(asked, SimpleNamespace(options=None), format=format_)  # type: ignore[arg-type]
        assert words in message.content
        assert "a number" not in message.content
    assert json.dumps(shape)


def test_a_task_file_may_ask_for_free_texts(tmp_path: Path) -> None:
    rows = [{"id": i, "text": f"Q{i}", "answer": "SECRET gout", "why": "SECRET reason"} for i in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    described = {"name": "t", "data": "rows.jsonl", "id": "id", "question": "text", "target": "answer"}
    path = tmp_path / "t.task.yaml"
    path.write_text(json.dumps({**described, "answers": "text", "rationale": "why"}))
    asked = task_named("t.task.yaml", tmp_path)
    assert answers_are(asked) == "text"
    items = asked.items(None, size=None, seed=0).items
    assert [item.more for item in items] == [{"target_rationale": "SECRET reason"}] * 3
    assert "SECRET" not in asked.question(items[0])
    for wrong, said in (
        ({"answers": "text", "labels": ["a", "b"]}, "answers are labels where there are labels"),
        ({"answers": "labels"}, "answers are labels where there are labels"),
        ({"answers": "text", "range": [0, 1]}, "is of numbers"),
        ({"answers": "text", "prompt": "{{ why }}", "rationale": "why"}, "must not see"),
    ):
        path.write_text(json.dumps({**described, **wrong}))
        with pytest.raises(UsageError, match=said):
            task_named("t.task.yaml", tmp_path)
    path.write_text(json.dumps({**described, "answers": "text", "target": "id", "id": "text", "question": "why"}))
    with pytest.raises(UsageError, match="answers are texts"):
        task_named("t.task.yaml", tmp_path).items(None, size=None, seed=0)
