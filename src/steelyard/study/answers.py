"""A model's answers to a suite: one file per task, or one with a column `task`, joined to the cases by their ids.

A case without an answer is a row that failed: it is counted and said, and never lost. An answer to a case that the task
does not have is an error. What is asked and what is right is the suite's alone: columns of answers that state it are
never used, and that is said.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.errors import InputError, UsageError, counted, printable
from steelyard.halves import whole_text
from steelyard.records.conditions import Conditions
from steelyard.records.labels import value_name
from steelyard.records.plan import Plan
from steelyard.records.readers import read_as_is
from steelyard.records.readers.packed import inner_name
from steelyard.records.schema import FIELDS, ITEM_NAMES
from steelyard.records.sources import Source
from steelyard.records.table import Records
from steelyard.records.task import Task
from steelyard.registry import closest
from steelyard.study.kept import describes_question
from steelyard.study.suite import Suite, SuiteTask

_Reader = Callable[[Path], Records]

_KEYS = ("task", "item", "model")
_OF_THE_SUITE = ("target", "mark", "cluster")  # besides what describes the question
_TEXTS = ("rationale",)  # that metrics read besides the columns of the vocabulary
_FEW = 5  # columns that are named in one warning


@dataclass
class Answers:
    """What a model answered: the records of all tasks, whose they are, and what must be said of them."""

    records: Records
    model: str
    missing: dict[str, int]  # cases without an answer, by task; only tasks that lack some
    warnings: tuple[str, ...] = ()


@dataclass
class _Rows:
    """Rows as they are gathered: columns of equal length, in the order in which they were met."""

    size: int = 0
    columns: dict[str, list[Any]] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        for name in row:
            self.columns.setdefault(name, [None] * self.size)
        for name, values in self.columns.items():
            values.append(row.get(name))
        self.size += 1

    def came_from(self, table: Records, rows: Sequence[int]) -> None:
        """Say that the rows that were just added are these rows of a table."""
        lines = np.array([table.where(row)[1] for row in rows], np.int64)
        own = [replace(each, rows=0, lines=lines[:0]) for each in table.sources]
        self.sources += [replace(own[0], rows=len(rows), lines=lines), *own[1:]]


@dataclass(frozen=True)
class _Given:
    """The answers to one task: a table as it was read, and the rows of it that are this task's."""

    table: Records
    rows: tuple[int, ...]


def joined_answers(
    suite: Suite,
    source: str | os.PathLike[str],
    plan: Plan,
    *,
    model_id: str | None = None,
    lexicon: Sequence[str] = (),
    map: Mapping[str, str] | None = None,
    where: Conditions | None = None,
) -> Answers:
    """The answers in a folder or a file, joined to the cases of a suite; `map` and `where` are of the answers."""
    given, warnings = _given(suite, Path(source), partial(read_as_is, map=map, where=where))
    model = _model([each.table for each in given.values()], model_id, Path(source))
    rows, missing = _Rows(), dict[str, int]()
    for task in suite.tasks:
        lacking, said = _add_task(rows, task, read_as_is(task.data), given.get(task.name))
        warnings += said
        if lacking:
            missing[task.name] = lacking
            have = "has" if lacking == 1 else "have"
            some = f"{counted(lacking, 'case')} {have} no answer"
            where = some if task.name in given else "there are no answers"
            warnings.append(f"task {task.name}: {where}: {counted(lacking, 'row')} counted as failed")
    records = Records.from_columns(
        {**rows.columns, "model": [model] * rows.size},
        cluster=suite.spec.cluster,
        task=Task(benchmark=plan, lexicon=(*suite.lexicon, *lexicon)),
        sources=rows.sources,
    )
    return Answers(records, model, missing, tuple(warnings))


# -- where answers are -------------------------------------------------------------------------------------------------


def _given(suite: Suite, source: Path, read: _Reader) -> tuple[dict[str, _Given], list[str]]:
    """The answers to each task, and what must be said of files that are no task's."""
    if not source.exists():
        raise UsageError(f"there are no answers at {printable(source)}: no such file or folder")
    if not source.is_dir():
        return _of_one_file(suite, read(source), source), []
    names = [task.name for task in suite.tasks]
    by_task: dict[str, Path] = {}
    warnings = []
    for path in sorted(source.iterdir()):
        if path.name.startswith(".") or not path.is_file() or path.name.endswith(".task.yaml"):
            continue
        stem = Path(inner_name(path.name)).stem
        if stem in suite.all_tasks and stem not in names:
            continue
        if stem not in names:
            near = closest(stem, names)
            hint = f"; did you mean {near}?" if near else ""
            warnings.append(f"{printable(path.name)} is no task of the suite, and was not read{hint}")
        elif stem in by_task:
            raise UsageError(f"{printable(by_task[stem])} and {printable(path)} are both of the task {stem}; keep one")
        else:
            by_task[stem] = path
    if not by_task:
        raise UsageError(
            f"{printable(source)} holds no answers to a task of the suite; a file is named after its task, such as "
            f"{names[0]}.jsonl"
        )
    return {task: _whole(read(path)) for task, path in by_task.items()}, warnings


def _whole(table: Records) -> _Given:
    return _Given(table, tuple(range(len(table))))


def _of_one_file(suite: Suite, table: Records, path: Path) -> dict[str, _Given]:
    """The answers in one file: its column `task` says to which task; a suite of one task needs none."""
    names = [task.name for task in suite.tasks]
    if "task" not in table:
        if len(names) > 1:
            raise UsageError(
                f"{printable(path)} has no column 'task'; say which task each row answers, or give a folder with one "
                "file per task"
            )
        return {names[0]: _whole(table)}
    by_task: dict[str, list[int]] = {}
    for row, task in enumerate(map(value_name, stated_values(table, "task"))):
        if task not in suite.all_tasks:
            near = closest(task, names)
            hint = f"; did you mean {near}?" if near else ""
            raise _at(table, row, f"is no task of the suite{hint}", "task")
        if task in names:
            by_task.setdefault(task, []).append(row)
    return {task: _Given(table, tuple(rows)) for task, rows in by_task.items()}


def _model(tables: Sequence[Records], stated: str | None, source: Path) -> str:
    """Whose answers these are: as stated, else as the files say, else after the folder or file."""
    named = {
        value_name(model)
        for table in tables
        if "model" in table
        for model in stated_values(table, "model")
        if model is not None
    }
    if len(named) > 1:
        raise UsageError(
            f"the answers are of {len(named)} models; a benchmark is of one: choose it with `where=model=NAME`"
        )
    return stated or next(iter(named), None) or whole_text(Path(inner_name(source.resolve().name)).stem)


# -- cases and answers joined ------------------------------------------------------------------------------------------


def _add_task(rows: _Rows, task: SuiteTask, cases: Records, given: _Given | None) -> tuple[int, list[str]]:
    """Add a task's rows: one per answer, and one per case without; how many of the latter, and what must be said."""
    known = _cases(task, cases)
    answered: dict[tuple[str, Any], int] = {}
    warnings: list[str] = []
    if given is not None:
        item = item_column(given.table)
        columns = _columns(given.table, item)
        declared = {name for case in known.values() for name in case} - {"item"}
        unused = _Unused({name for name in columns if name in declared or _is_the_suites(name)})
        for row in given.rows:
            answer = {name: values[row] for name, values in columns.items()}
            case = value_name(answer.pop("item"))
            if case not in known:
                raise _at(given.table, row, f"is no case of the task {task.name}", item)
            key = case, answer.get("repeat")
            if key in answered:
                first = given.table.where(answered[key])[1]
                raise _at(given.table, row, f"answers a case again that line {first} answers", item)
            answered[key] = row
            rows.add({"task": task.name, **known[case], **unused.without(answer, known[case])})
        rows.came_from(given.table, given.rows)
        warnings += unused.said(task, len(given.rows))
    met = {case for case, _ in answered}
    lacking = [(row, case) for row, case in enumerate(known) if case not in met]
    for _, case in lacking:
        rows.add({"task": task.name, **known[case], "prediction": None, "outcome": "failed"})
    rows.came_from(cases, [row for row, _ in lacking])
    return len(lacking), warnings


def _is_the_suites(column: str) -> bool:
    """True for columns that say what was asked or what is right, whether the suite states them or not."""
    return column in _OF_THE_SUITE or describes_question(column)


@dataclass
class _Unused:
    """Columns of answers that only a suite may state, and in how many rows they say something else than it does."""

    names: set[str]
    different: dict[str, int] = field(default_factory=dict)

    def without(self, answer: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
        """The answer without these columns."""
        for name in self.names:
            stated = answer[name]
            self.different[name] = self.different.get(name, 0) + (stated is not None and stated != case.get(name))
        return {name: value for name, value in answer.items() if name not in self.names}

    def said(self, task: SuiteTask, rows: int) -> list[str]:
        """One warning, if there are such columns."""
        if not self.names:
            return []
        named = sorted(self.names)
        shown = [f"'{printable(name)}' (differs in {self.different.get(name, 0):,})" for name in named[:_FEW]]
        more = f" and {len(named) - _FEW} more" if len(named) > _FEW else ""
        columns = counted(len(named), "column")
        return [
            f"task {task.name}: {columns} of the answers not used in {counted(rows, 'row')}: "
            f"{', '.join(shown)}{more}; the suite says what is asked and what is right: leave such columns out"
        ]


def _cases(task: SuiteTask, cases: Records) -> dict[str, dict[str, Any]]:
    """The cases of a task by their id: the columns that its fields name."""
    fields = task.columns
    fields.setdefault("item", item_column(cases))
    if "target" in cases:
        fields.setdefault("target", "target")
    for column, name in fields.items():
        if name not in cases:
            raise UsageError(f"task {task.name}: fields: {column}: {cases.lacks(name, 'it')}")
    columns = {column: stated_values(cases, name) for column, name in fields.items()}
    known: dict[str, dict[str, Any]] = {}
    for row, id_ in enumerate(columns["item"]):
        if id_ is None:
            raise _at(cases, row, "a case has no id", fields["item"])
        if value_name(id_) in known:
            raise _at(cases, row, "another case has this id", fields["item"])
        known[value_name(id_)] = {column: values[row] for column, values in columns.items()}
    return known


def stated_values(table: Records, name: str) -> list[Any]:
    """A column's values as they were stated."""
    return list(table.column(name).to_pylist())


def item_column(table: Records) -> str:
    """The column that names the items: `item`, or what people call it."""
    name = next((name for name in ("item", *ITEM_NAMES) if name in table), None)
    if name is None:
        raise InputError("needs a column 'item' (or 'id') that says which case each row is", file=table.name)
    return name


def _columns(table: Records, item: str) -> dict[str, list[Any]]:
    """The columns of answers as lists; whose they are and to which task is known already.

    A column that is measured and cannot be read is an error with its line.
    """
    measured = [name for name in table.extras if (name in FIELDS or name in _TEXTS) and not _is_the_suites(name)]
    own = [name for name in (*table.stated, *measured) if name not in (*_KEYS, item)]
    columns = {"item": stated_values(table, item), **{name: stated_values(table, name) for name in own}}
    if "prediction" not in columns:
        raise InputError("needs a column 'prediction'", file=table.name)
    return columns


def _at(table: Records, row: int, problem: str, column: str) -> InputError:
    file, line = table.where(row)
    return InputError(problem, file=file, line=line, field=column)
