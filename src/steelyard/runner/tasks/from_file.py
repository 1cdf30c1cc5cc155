"""A user's own task, in a file next to the data: described in YAML, or programmed in Python.

    name: triage                        # my.task.yaml
    data: messages.csv                  # any format that can be read, relative to this file
    id: message_id                      # the names of columns
    question: text
    target: urgency
    labels: [low, medium, high]         # without labels, answers are numbers, or with `answers: text` free texts
    prompt: |                           # optional: a Jinja template; the question alone without one
      A {{ age }}-year-old patient writes: {{ question }}
      How urgent is it?
    context: Urgency is …                # optional, and so are the next: what the strategy contextual begins with
    cluster: patient
    groups: [site]
    rationale: why                      # a column that says why the target is right; models see it in examples alone
    should_abstain: unclear             # a column of true and false; models are then told that they may decline
    decline: true                       # whether they are told so, if that does not follow from should_abstain
    spellings: {high: [red, "1"]}       # what models may also call a label
    abstain: [to be reviewed, /defer to/]  # replies that decline: texts, and /patterns/ of which a part is enough
    range: [0, 10]                      # of numbers
    direction: higher

A template names columns, with an underscore for every character that no name has, and `question`. Columns that it does
not name never reach a prompt; the target, should_abstain and rationale cannot be named. The shape is published as a
JSON Schema.

A Python file adds one task to `steelyard.runner.tasks.tasks`. To load it is to run it: as with any program, it should
come from somebody who is trusted.
"""

from __future__ import annotations

import re
import runpy
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from steelyard.errors import InputError, SteelyardError, UsageError, printable
from steelyard.ground.specs import Place, at, spec_of
from steelyard.ground.structs import schema
from steelyard.ground.yaml import load_yaml, places
from steelyard.records.declining import declines
from steelyard.records.patterns import told_patterns
from steelyard.records.schema import SHOWN, kind_of
from steelyard.records.table import Records
from steelyard.registry import closest
from steelyard.runner.tasks.contract import (
    AnswerKind,
    DataSpec,
    Item,
    Items,
    Label,
    Target,
    Task,
    answers_are,
    sampled,
    tasks,
    too_few,
)
from steelyard.runner.tasks.prompts import Prompt
from steelyard.runner.tasks.rows import ids_of, names_of_rows, values_of

Column = Annotated[str, Meta(min_length=1, max_length=200)]
Spellings = dict[str, list[Annotated[str, Meta(min_length=1, max_length=200)]]]  # by label
Phrases = list[Annotated[str, Meta(min_length=1, max_length=500)]]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NO_NAME = re.compile(r"\W|^(?=\d)", re.ASCII)
_QUESTION = "question"
_IDS = ("text", "int")  # kinds of columns that may say what a cluster is


class TaskFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A task: which columns of a data file hold what."""

    name: Column
    data: Annotated[str, Meta(min_length=1)]
    id: Column
    question: Column
    target: Column
    labels: list[str | int] | None = None
    answers: AnswerKind | None = None
    prompt: Annotated[str, Meta(min_length=1)] | None = None
    context: Annotated[str, Meta(min_length=1)] | None = None
    cluster: Column | None = None
    groups: list[Column] = []
    rationale: Column | None = None
    should_abstain: Column | None = None
    decline: bool | None = None
    spellings: Spellings = {}
    abstain: Phrases = []
    range: Annotated[list[float], Meta(min_length=2, max_length=2)] | float | None = None
    direction: Literal["higher", "lower"] | None = None


def task_schema() -> dict[str, Any]:
    """The JSON Schema of a task file."""
    return schema(TaskFile, "Task")


def described(path: Path) -> FileTask:
    """The task that a YAML file describes; what is wrong with it is said with the line and the field."""
    raw = load_yaml(path)
    lines = places(path)
    task = FileTask(file=spec_of(raw, TaskFile, source=str(path), lines=lines), path=path, lines=lines)
    _check(task)
    return task


def programmed(path: Path) -> Task:
    """The one task that a Python file adds; the file is run."""
    before = set(tasks)
    try:
        runpy.run_path(str(path))
    except SteelyardError:
        _forget(before)
        raise
    except OSError as problem:
        _forget(before)
        raise UsageError(f"{printable(path)}: cannot be read ({problem.strerror})") from None
    except (Exception, SystemExit) as problem:
        _forget(before)
        raise UsageError(
            f"{printable(path)}{_line_in(path, problem)}: {type(problem).__name__} when it was run"
        ) from None
    added = _forget(before)
    if len(added) != 1:
        raise UsageError(f"{printable(path)}: adds {len(added)} tasks; one is expected: tasks.add(name, task)")
    return added[0]


def _forget(before: set[str]) -> list[Task]:
    """Take out again what a file added: it is the task of a spec, not of every spec."""
    names = [name for name in tasks if name not in before]
    added = [tasks[name] for name in names]
    for name in names:
        tasks.remove(name)
    return added


def _line_in(path: Path, problem: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == str(path)]
    line = frames[-1].lineno if frames else getattr(problem, "lineno", None)
    return f":{line}" if line else ""


@dataclass(frozen=True)
class FileTask:
    """A task that a YAML file describes."""

    file: TaskFile
    path: Path
    lines: Mapping[Place, int]

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def about(self) -> str:
        return f"described by {printable(self.path.name)}"

    @property
    def labels(self) -> tuple[Label, ...] | None:
        return None if self.file.labels is None else tuple(self.file.labels)

    @property
    def answers(self) -> AnswerKind:
        return self.file.answers or ("numbers" if self.file.labels is None else "labels")

    @property
    def spellings(self) -> Mapping[str, Label]:
        return spelt(self.file.spellings, self.labels)

    @property
    def abstain(self) -> tuple[str, ...]:
        return tuple(self.file.abstain)

    @property
    def may_decline(self) -> bool:
        return self.file.should_abstain is not None if self.file.decline is None else self.file.decline

    @property
    def range(self) -> tuple[float, float] | None:
        stated = self.file.range
        return None if stated is None else (0.0, stated) if isinstance(stated, int | float) else (stated[0], stated[1])

    @property
    def direction(self) -> str | None:
        return self.file.direction

    @cached_property
    def prompt(self) -> Prompt:
        line = self.lines.get(("prompt",))
        source = f"{self.path}:{line}: prompt" if line else f"{self.path}: prompt"
        return Prompt(self.file.prompt or f"{{{{ {_QUESTION} }}}}", source=source)

    def items(self, data: DataSpec | None, *, size: int | None, seed: int) -> Items:
        """The rows of the data as items: of the task's own file, or of another with the same columns."""
        given = data or DataSpec(path=str(self.path.parent / self.file.data))
        records = given.read()
        left_out: Counter[str] = Counter()
        items = sampled(list(_rows(self, records, left_out)), size, seed)
        if not items:
            raise InputError("no row has both a question and a target", file=records.name)
        return Items(
            items=items,
            left_out=dict(left_out),
            warnings=(*records.warnings, *too_few(items, size, "items")),
            sources=tuple(records.sources),
        )

    def background(self) -> str:
        return ""

    def context(self) -> str:
        return (self.file.context or "").strip()

    def question(self, item: Item) -> str:
        return self.prompt.text(item.fields)

    def shown(self, item: Item) -> Mapping[str, Any]:
        return self.prompt.shown(item.fields)

    def checked(self, key: str, make: Callable[[], object]) -> None:
        """Make something of what the file says under a key, and say its line where that cannot be."""
        try:
            make()
        except UsageError as problem:
            raise self.problem((key,), str(problem)) from None

    def problem(self, place: Place, said: str) -> UsageError:
        return at(str(self.path), self.lines, place, said)


# -- what a file must keep to ----------------------------------------------------------------------------------------


def _check(task: FileTask) -> None:
    file = task.file
    if not _NAME.fullmatch(file.name):
        raise task.problem(("name",), "a name has letters, digits, and . _ - after the first character, at most 64")
    if file.labels is not None:
        _check_labels(task, file.labels)
        if file.range is not None:
            raise task.problem(("range",), "is of numbers, and the answers are labels")
    if (task.answers == "labels") != (file.labels is not None):
        raise task.problem(("answers",), "answers are labels where there are labels, and else numbers or text")
    if task.answers == "text" and file.range is not None:
        raise task.problem(("range",), "is of numbers, and the answers are texts")
    ends = task.range
    if ends is not None and not ends[0] < ends[1]:
        raise task.problem(("range",), "[low, high] or a positive width is expected")
    task.checked("spellings", lambda: task.spellings)
    task.checked("abstain", lambda: told_patterns(file.abstain))
    hidden = (("target", file.target), ("should_abstain", file.should_abstain), ("rationale", file.rationale))
    for key, column in hidden:
        if column is not None and column == file.question:
            raise task.problem((key,), "is the question's column, which models are shown")
        if column is not None and variable(column) in task.prompt.names - {_QUESTION}:
            raise task.problem(("prompt",), f"shows the column of {key}, which models must not see")


def _check_labels(task: FileTask, labels: list[str | int]) -> None:
    if len(labels) < 2 or len({type(label) for label in labels}) != 1:
        raise task.problem(("labels",), "at least two labels are expected, all texts or all whole numbers")
    if any(not str(label).strip() for label in labels):
        raise task.problem(("labels",), "a label is empty")
    if len({" ".join(str(label).casefold().split()) for label in labels}) != len(labels):
        raise task.problem(("labels",), "two labels differ by case or white space only, and replies are read without")
    if task.may_decline and any(declines(str(label), whole=True) for label in labels):
        raise task.problem(
            ("labels",),
            "a label is a phrase of declining, and models may decline: a reply could mean either. Leave the label out, "
            "or set decline to false",
        )


def spelt(stated: Mapping[str, Sequence[str]], labels: Sequence[Label] | None) -> dict[str, Label]:
    """By spelling, the label that it stands for; one of another label is refused."""
    known = {str(label): label for label in labels or ()}
    found: dict[str, Label] = {}
    for name, spellings in stated.items():
        if name not in known:
            near = closest(name, list(known))
            hint = f"did you mean '{printable(near)}'?" if near else f"there are: {', '.join(map(printable, known))}"
            raise UsageError(f"'{printable(name)}' is no label; {hint if known else 'the answers are no labels'}")
        for spelling in spellings:
            folded = " ".join(spelling.casefold().split())
            others = {" ".join(each.casefold().split()): label for each, label in {**known, **found}.items()}
            if not folded or others.get(folded, known[name]) != known[name]:
                raise UsageError(f"'{printable(spelling)}' stands for two labels, or for nothing")
            found[spelling] = known[name]
    return found


def variable(column: str) -> str:
    """What a column is called in a template."""
    return _NO_NAME.sub("_", column)


# -- from rows to items ------------------------------------------------------------------------------------------------


def _rows(task: FileTask, records: Records, left_out: Counter[str]) -> Iterator[Item]:
    file = task.file
    questions = values_of(records, _there(task, records, file.question, "question"))
    shown = _shown_columns(task, records)
    fields = {name: values_of(records, column) for name, column in shown.items()}
    groups = {
        name.removeprefix("group."): values_of(records, _there(task, records, name, "groups")) for name in file.groups
    }
    targets = _targets(task, records)
    ids = ids_of(records, _there(task, records, file.id, "id"))
    clusters = (
        None
        if file.cluster is None
        else names_of_rows(records, _there(task, records, file.cluster, "cluster"), "cluster")
    )
    declining = None if file.should_abstain is None else _truths(task, records, file.should_abstain)
    reasons = None if file.rationale is None else values_of(records, _there(task, records, file.rationale, "rationale"))
    names = {name: values_of(records, name) for name in records.stated if kind_of(records.column(name)) in _IDS}
    for row in range(len(records)):
        if questions[row] is None or targets[row] is None:
            left_out["no question" if questions[row] is None else "no target"] += 1
            continue
        yield Item(
            id=ids[row],
            fields={name: values[row] for name, values in fields.items()},
            target=targets[row],
            cluster=None if clusters is None else clusters[row],
            groups={name: values[row] for name, values in groups.items()},
            should_abstain=None if declining is None else declining[row],
            reason=None if reasons is None or reasons[row] is None else str(reasons[row]),
            columns={name: values[row] for name, values in names.items()},
            more={"target_rationale": reasons[row]} if reasons is not None and answers_are(task) == "text" else {},
        )


def _shown_columns(task: FileTask, records: Records) -> dict[str, str]:
    """The column for every name in the template."""
    columns: dict[str, str] = {}
    for column in (*records.stated, *records.extras):
        columns.setdefault(variable(column), column)
    columns[_QUESTION] = task.file.question
    for name in sorted(task.prompt.names - set(columns)):
        near = closest(name, list(columns))
        hint = f"did you mean '{printable(near)}'?" if near else f"there are: {', '.join(map(printable, columns))}"
        raise task.problem(("prompt",), f"there is no column for '{printable(name)}'; {hint}")
    hidden = {task.file.target, task.file.should_abstain, task.file.rationale}
    for name in sorted(task.prompt.names):
        if columns[name] in hidden:
            raise task.problem(("prompt",), f"'{printable(name)}' is a column that models must not see")
    return {name: columns[name] for name in sorted(task.prompt.names)}


def _there(task: FileTask, records: Records, column: str, key: str) -> str:
    if column not in records:
        raise task.problem((key,), records.lacks(column, key))
    return column


def _targets(task: FileTask, records: Records) -> list[Target | None]:
    """The targets, which are labels of the task, or numbers."""
    file, column = task.file, _there(task, records, task.file.target, "target")
    kind, values = kind_of(records.column(column)), values_of(records, column)
    numbers = task.answers == "numbers" or (file.labels is not None and isinstance(file.labels[0], int))
    wanted = ("int", "float") if numbers else ("text",)
    if kind not in (*wanted, "null"):
        expected = "labels are needed, or numbers" if file.labels is None else f"labels are {SHOWN[wanted[0]]}"
        expected = "answers are texts" if task.answers == "text" else expected
        raise task.problem(("target",), f"{expected}; the column '{printable(column)}' holds {SHOWN[kind]}")
    if file.labels is None:
        return values
    known = {label.strip() if isinstance(label, str) else label: label for label in file.labels}
    targets: list[Target | None] = []
    for row, value in enumerate(values):
        stripped = value.strip() if isinstance(value, str) else value
        if stripped is not None and stripped not in known:
            where, line = records.where(row)
            raise InputError("is not among the task's labels", file=where, line=line, field=column)
        targets.append(None if stripped is None else known[stripped])
    return targets


def _truths(task: FileTask, records: Records, column: str) -> list[bool | None]:
    _there(task, records, column, "should_abstain")
    kind = kind_of(records.column(column))
    if kind not in ("bool", "null"):
        raise task.problem(("should_abstain",), f"true and false are expected; the column holds {SHOWN[kind]}")
    return list(records.column(column).to_pylist())
