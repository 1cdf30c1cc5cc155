"""Tasks of suites: the cases that a benchmark measures, asked of models one by one.

`task: clinical/chest_pain_diagnosis` names a task of a suite that comes with the program, `wards/suite.yaml/triage` one
of a suite file. Answers are free texts, each with a rationale; what metrics read besides them (the reference's
rationale, the note, what must not be given) goes into the records and never into a prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.errors import InputError, UsageError, printable
from steelyard.records.labels import value_name
from steelyard.records.schema import is_group
from steelyard.records.table import Records
from steelyard.registry import closest
from steelyard.runner.tasks.contract import AnswerKind, DataSpec, Item, Items, Label, sampled
from steelyard.runner.tasks.prompts import shipped
from steelyard.runner.tasks.rows import ids_of, values_of
from steelyard.study.answers import item_column
from steelyard.study.suite import Suite, SuiteTask, load_suite, shipped_suites

_ITEM = ("item", "target")


@dataclass(frozen=True)
class CaseTask:
    """A task of a suite."""

    suite: Suite
    task: SuiteTask

    labels: tuple[Label, ...] | None = None
    may_decline: bool = False
    range: tuple[float, float] | None = None
    direction: str | None = None
    answers: AnswerKind = "text"

    @property
    def name(self) -> str:
        return f"{self.suite.name}/{self.task.name}"

    @property
    def about(self) -> str:
        return self.task.spec.description or f"cases of the suite {printable(self.suite.name)}"

    @property
    def spellings(self) -> Mapping[str, Label]:
        return {}

    def items(self, data: DataSpec | None, *, size: int | None, seed: int) -> Items:
        """The cases as items: of the suite's own file, or of another with the same fields."""
        given = data or DataSpec(path=str(self.task.data))
        records = given.read()
        items = sampled(list(self._rows(records)), size, seed)
        few = size is not None and len(items) < size
        there = "there is 1 item" if len(items) == 1 else f"there are {len(items):,} items"
        said = (f"{there}, fewer than the {size:,} asked for",) if few else ()
        return Items(items=items, warnings=(*records.warnings, *said), sources=tuple(records.sources))

    def background(self) -> str:
        return shipped(__package__, "case_background").text({})

    def question(self, item: Item) -> str:
        return shipped(__package__, "case").text({**item.fields, "description": self.task.spec.description})

    def shown(self, item: Item) -> Mapping[str, Any]:
        return dict(item.fields)

    def _rows(self, records: Records) -> Iterator[Item]:
        columns, roles = self.task.columns, self.task.spec.fields
        ids = ids_of(records, columns.get("item", "") or item_column(records))
        asked = {
            role: values_of(records, roles[role]) if role in roles else [None] * len(ids)
            for role in ("question", "note", "labels")
        }
        targets = values_of(records, columns.get("target", "target"))
        more = {c: values_of(records, name) for c, name in columns.items() if c not in _ITEM and not is_group(c)}
        groups = {c: values_of(records, name) for c, name in columns.items() if is_group(c)}
        for row, id_ in enumerate(ids):
            if asked["question"][row] is None and asked["note"][row] is None:
                file, line = records.where(row)
                raise InputError("a case has neither a question nor a note", file=file, line=line)
            choices = sorted(
                map(value_name, asked["labels"][row] or ()), key=str.casefold
            )  # never in the order of data
            yield Item(
                id=id_,
                fields={"question": asked["question"][row], "note": asked["note"][row], "choices": choices},
                target=targets[row],
                groups={name.partition(".")[2]: values[row] for name, values in groups.items()},
                more={name: values[row] for name, values in more.items()},
            )


def task_of_suite(name: str, folder: Path) -> CaseTask:
    """The task of a suite: `suite/task`, where the suite is shipped, a folder or a file."""
    source, _, task = name.rpartition("/")
    named = source in shipped_suites() or (not (folder / source).exists() and "/" not in source and "." not in source)
    suite = load_suite(source if named else folder / source)
    known = {each.name: each for each in suite.tasks}
    if task not in known:
        near = closest(task, list(known))
        hint = f"did you mean '{near}'?" if near else f"there are: {', '.join(known)}"
        raise UsageError(f"the suite {printable(suite.name)} has no task '{printable(task)}'; {hint}")
    return CaseTask(suite, known[task])


def tasks_of_suites() -> list[CaseTask]:
    """Every task of the suites that come with the program."""
    suites = map(load_suite, shipped_suites())
    return [CaseTask(suite, task) for suite in suites for task in suite.tasks]
