"""Tasks of suites are asked of models: cases as items, references in the records and never in a prompt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steelyard.errors import InputError, UsageError
from steelyard.runner.run import run
from steelyard.runner.strategies import strategy_named
from steelyard.runner.tasks import known_tasks, task_named
from tests.support.suites import lines

SUITE = """
name: ward
tasks:
  - name: pain
    type: diagnostic_reasoning
    description: Name the diagnosis.
    data: pain.jsonl
    fields: {id: id, question: question, target: target, rationale: rationale, specialty: specialty, labels: labels}
    metrics: [accuracy]
  - name: letters
    type: summarization
    data: letters.jsonl
    fields: {id: id, note: note, target: target}
    metrics: [accuracy]
"""
PAIN = [
    {"id": f"c{i}", "question": f"QUESTION {i}?", "target": "SECRET gout", "rationale": "SECRET why",
     "specialty": "joints", "labels": ["SECRET gout", "sprain", "Arthritis"]}
    for i in range(8)
]  # fmt: skip
MODELS = """
import json

def right(item, prompt):
    return json.dumps({"rationale": "First, it hurts.", "answer": "SECRET gout", "confidence": 0.9})

def prose(item, prompt):
    return "A sprain."
"""


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "pain.jsonl").write_text(lines(PAIN))
    (tmp_path / "letters.jsonl").write_text(lines([{"id": "l1", "note": "NOTE", "target": "short"}]))
    return tmp_path


@pytest.mark.parametrize("name", ["suite.yaml/pain", "./pain"])
def test_a_task_of_a_suite_file_is_named_by_both(ward: Path, name: str) -> None:
    task = task_named(name, ward)
    assert (task.name, task.about) == ("ward/pain", "Name the diagnosis.")
    items = task.items(None, size=None, seed=0)
    assert [item.id for item in items.items] == [f"c{i}" for i in range(8)]
    assert len(task.items(None, size=3, seed=1).items) == 3


def test_the_prompt_shows_the_case_and_never_what_it_is_measured_by(ward: Path) -> None:
    task = task_named("suite.yaml/pain", ward)
    item = task.items(None, size=None, seed=0).items[0]
    text = "\n".join(message.content for message in strategy_named("zero-shot").messages(task, item))
    assert "QUESTION 0?" in text
    assert "SECRET why" not in text
    assert "It is one of: Arthritis; SECRET gout; sprain" in text  # sorted: data name the right one first
    assert item.more == {"target_rationale": "SECRET why"}
    assert item.groups == {"specialty": "joints"}
    note = task_named("suite.yaml/letters", ward)
    assert "NOTE" in note.question(note.items(None, size=None, seed=0).items[0])


def test_a_run_keeps_answers_and_reasons(ward: Path) -> None:
    (ward / "models.py").write_text(MODELS)
    models = [
        {"name": name, "backend": "callable", "options": {"function": f"models.py:{name}"}}
        for name in ("right", "prose")
    ]
    spec = {"id": "s", "task": "suite.yaml/pain", "models": models, "metrics": ["accuracy"]}
    (ward / "spec.yaml").write_text(json.dumps(spec))
    done = run(ward / "spec.yaml", root=ward / "store")
    rows = done.records.to_arrow().to_pylist()
    assert {row["prediction"] for row in rows if row["model"] == "right"} == {"SECRET gout"}
    assert {row["rationale"] for row in rows if row["model"] == "right"} == {"First, it hurts."}
    assert {row["prediction"] for row in rows if row["model"] == "prose"} == {"A sprain."}
    assert {row["target_rationale"] for row in rows} == {"SECRET why"}
    assert {row["group.specialty"] for row in rows} == {"joints"}
    assert done.evaluation["accuracy{model=right}"].value == 1
    assert done.evaluation["accuracy{model=prose}"].value == 0


def test_names_that_are_none_are_refused(ward: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'pain'"):
        task_named("suite.yaml/pian", ward)
    with pytest.raises(UsageError, match="cannot be read"):
        task_named("other.yaml/pain", ward)
    with pytest.raises(UsageError, match="neither a suite file"):
        task_named("nothing/pain", ward)
    with pytest.raises(UsageError, match="did you mean 'clinical'"):
        task_named("clincal/pain", ward)


def test_a_case_without_a_question_is_refused(ward: Path) -> None:
    (ward / "pain.jsonl").write_text(lines([*PAIN, {**PAIN[0], "id": "last", "question": " "}]))
    with pytest.raises(InputError, match=r"pain.jsonl:9: a case has neither a question nor a note"):
        task_named("suite.yaml/pain", ward).items(None, size=None, seed=0)


def test_the_tasks_of_the_shipped_suite_are_listed_and_can_be_asked() -> None:
    named = {task.name: task for task in known_tasks() if task.name.startswith("clinical/")}
    assert len(named) >= 12
    for name, task in named.items():
        items = task_named(name).items(None, size=None, seed=0).items
        assert len(items) >= 20
        for item in items:
            text = task.question(item)
            assert text
            assert str(item.more["target_rationale"]) not in text
