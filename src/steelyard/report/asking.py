"""What can be asked, for people: tasks and their prompts, and whether a run-spec has all it needs."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.errors import counted
from steelyard.records.labels import value_name
from steelyard.report.document import Count, Document, Heading, Note, Table, Tone, Word
from steelyard.report.plan import message_part
from steelyard.runner.doctor import Diagnosis
from steelyard.runner.strategies import Strategy
from steelyard.runner.tasks import Item, Task, answers_are

_TONES: dict[str, Tone] = {"ok": "good", "warning": "open", "problem": "bad"}


def diagnosis_report(found: Sequence[Diagnosis]) -> Document:
    """Everything that was looked at, problems included."""
    rows = tuple((each.about, each.model, Word(each.level, _TONES[each.level]), each.text) for each in found)
    wrong = sum(each.level == "problem" for each in found)
    doubts = sum(each.level == "warning" for each in found)
    said = "everything is there" if not doubts else f"nothing is missing; {counted(doubts, 'warning')}"
    if wrong:
        said = counted(wrong, "problem")
    return [Table(("what", "model", "state", "finding"), rows).trimmed(), Note(said)]


def tasks_report(tasks: Sequence[Task]) -> Document:
    """Every task that ships."""
    rows = tuple((task.name, _answers(task), "yes" if task.may_decline else "no", task.about) for task in tasks)
    return [
        Table(("task", "answers", "may decline", "what is asked"), rows),
        Note("`steelyard tasks NAME` shows a prompt; a file *.task.yaml describes a task of your own."),
    ]


def task_report(task: Task, item: Item, strategy: Strategy, items: int) -> Document:
    """One task, with the messages about its first item."""
    facts = (("answers", _answers(task)), ("may decline", "yes" if task.may_decline else "no"), ("items", Count(items)))
    return [
        Heading(task.name),
        Note(task.about),
        Table(("fact", "value"), facts, frozenset()),
        Heading(f"{strategy.name}, item {value_name(item.id)}"),
        *map(message_part, strategy.messages(task, item)),
    ]


def _answers(task: Task) -> str:
    if task.labels is not None:
        return ", ".join(value_name(label) for label in task.labels)
    if answers_are(task) == "text":
        return "free text, with a rationale"
    return "numbers" if task.range is None else f"numbers from {task.range[0]:g} to {task.range[1]:g}"
