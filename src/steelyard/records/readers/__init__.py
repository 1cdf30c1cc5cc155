"""From files to records: which reader takes a file, how several become one table, of which task they are.

    records = read("answers.jsonl", cluster="patient")
    records = read(["monday.csv", "tuesday.csv"], rename={"item": "item_id"}, where={"model": "a"})

One file per format; `contract` says how to add one, `choosing` how the format of a file is recognised.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from steelyard.errors import InputError, UsageError, printable
from steelyard.ground.arrays import Mask
from steelyard.ground.files import STANDARD_INPUT
from steelyard.ground.json import TOO_LARGE
from steelyard.records.answers import Labelling, LabelRules, counted, labelled, with_outcomes
from steelyard.records.demand import Demand, demand
from steelyard.records.extras import Extra, json_texts
from steelyard.records.readers.bundles import Bundle
from steelyard.records.readers.choosing import entered
from steelyard.records.readers.contract import (
    Certainty,
    Column,
    Input,
    Reader,
    Table,
    joined,
    reader,
    readers,
    widened,
)
from steelyard.records.readers.head import Head
from steelyard.records.schema import FIELDS, SHOWN, field_of, kind_of
from steelyard.records.table import Records, Source
from steelyard.records.task import Task

__all__ = ["Bundle", "Certainty", "Head", "Input", "Reader", "Table", "read", "reader", "readers"]

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):  # each format registers itself
    importlib.import_module(_module.name)


def read(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    format: str | None = None,
    cluster: str | None = None,
    task: Task | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    rename: Mapping[str, str] | None = None,
    where: Mapping[str, str] | None = None,
    salvage: bool = False,
    labels: Labelling = "strip",
    abstain: Sequence[str] | str = (),
    unparsed: Sequence[str] | str = (),
    only: Sequence[str] | str = (),
    drop: Sequence[str] | str = (),
    columns: Sequence[str] | None = None,
) -> Records:
    """The records in a file, in several, or on standard input ("-"), after every rule at the door.

    format   a reader's name; by default the one that recognises the content, with the suffix as a hint, and jsonl for
             standard input. Some readers take folders and zip archives
    cluster  the column whose values are resampled together, such as patient
    task     what is known of the task: a `Task`, a mapping or a file. By default `<stem>.task.yaml` next to
             the data, else `.task.yaml` in its folder, where there is one, else what the format itself says
    rename   {name here: name in the file}, as in {"item": "item_id"}
    where    {column: value}: the rows to keep, compared as text, after all rows have been checked
    salvage  leave out an incomplete last record, with a warning, instead of refusing the file
    labels   exact: texts are what was written; strip: without white space around them; fold: capital letters and a
             final full stop make no difference either
    abstain  predictions that mean that the model declined, such as "I don't know"
    unparsed predictions that mean that its reply could not be read
    only     the columns to hold in memory, `drop` those not to
    columns  the columns outside the vocabulary that will be used; the others are not held in memory. By default all are
             kept, and what is wrong with one is said when it is used

    The rows of several files follow each other. A column that one of them lacks is null there; whole numbers in
    one and fractions in the other become fractions; other kinds do not meet. Every file's sha256 is in `sources`.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    _check_request(paths, rename or {})
    stated = task if isinstance(task, Task) else _task(task, paths)
    rules = _rules(labels, abstain, unparsed, stated)
    used = [*(columns or ()), *(where or {}), *(rename or {}), *([cluster] if cluster else [])]
    wanted = demand(
        used, rest="keep" if columns is None else "skip if scored", only=names_of(only), drop=names_of(drop)
    )
    tables, sources, neighbours, renamed = [], [], list[Source](), set[str]()
    for each in paths:
        asked = {"rename": rename, "salvage": salvage, "demand": wanted, "labels": rules}
        with entered(os.fspath(each), format, **asked) as (format_reader, source):
            table = format_reader.load(source)
            tables.append(table)
            sources.append(_source(source, table))
            neighbours += [Source(other.name, other.sha256, 0) for other in source.neighbours if other.is_read]
            renamed |= source.renamed
    joint = together(tables, sources)
    for original in (rename or {}).values():
        if original not in renamed:
            raise UsageError(
                f"cannot rename '{printable(original)}': there is no such column; "
                f"columns: {', '.join(map(printable, (*joint.columns, *joint.extras, *joint.skipped)))}"
            )
    known = stated or next((table.task for table in tables if table.task), None) or Task()
    records = records_of(joint, rules, wanted, cluster=cluster, task=known, sources=[*sources, *neighbours])
    return _kept(records, where) if where else records


def records_of(
    table: Table, rules: LabelRules, wanted: Demand, *, cluster: str | None, task: Task, sources: Sequence[Source]
) -> Records:
    """The records of a table, after labels were written alike and every rule at the door."""
    stated = {**table.columns, **with_outcomes(table.columns, table.no_answers)}
    names = [name for name in stated if field_of(name) is not None or name in wanted.asked]
    labelled_columns, said = labelled(stated, rules, names)
    said += [counted(outcome, int(mask.sum())) for outcome, mask in table.no_answers.items()]
    missing = [text for text in (*rules.abstain, *rules.unparsed) if "prediction" not in stated]
    if missing:
        raise UsageError("`abstain=` and `unparsed=` are about predictions; there is no column 'prediction'")
    return Records.checked(
        labelled_columns,
        cluster=cluster,
        task=task,
        sources=sources,
        warnings=(*table.warnings, *said),
        problems=table.problems,
        extras=table.extras,
        skipped=table.skipped,
        asked=wanted.asked,
    )


def _rules(
    labels: Labelling, abstain: Sequence[str] | str, unparsed: Sequence[str] | str, task: Task | None
) -> LabelRules:
    """How labels are written: as asked for, and as the task says."""
    said = task or Task()
    return LabelRules(
        labels=labels,
        abstain=tuple(dict.fromkeys((*names_of(abstain), *said.abstain))),
        unparsed=tuple(dict.fromkeys((*names_of(unparsed), *said.unparsed))),
    )


def names_of(asked: Sequence[str] | str) -> tuple[str, ...]:
    """One name or several, as several."""
    return (asked,) if isinstance(asked, str) else tuple(asked)


def _check_request(paths: Sequence[str | os.PathLike[str]], rename: Mapping[str, str]) -> None:
    if not paths:
        raise UsageError("no file to read was given")
    if sum(os.fspath(path) == STANDARD_INPUT for path in paths) > 1:
        raise UsageError("standard input can be read only once")
    originals = list(rename.values())
    for original in originals:
        if originals.count(original) > 1:
            raise UsageError(f"the column '{printable(original)}' is renamed twice")


def _source(source: Input, table: Table) -> Source:
    return Source(
        source.name,
        source.sha256,
        table.rows,
        lines=table.lines,
        first_line=table.first_line,
        about=table.about,
        torn=source.leaves_out,
    )


def _task(
    task: Mapping[str, Any] | str | os.PathLike[str] | None, paths: Sequence[str | os.PathLike[str]]
) -> Task | None:
    """The task as stated: in the call, or in a file next to the data."""
    if isinstance(task, str | os.PathLike):
        return Task.load(os.fspath(task))
    if task is not None:
        return Task.of(task)
    by_file: dict[Path, Task] = {}
    for path in paths:
        file = _task_file(Path(path)) if os.fspath(path) != STANDARD_INPUT else None
        if file is not None and file not in by_file:
            by_file[file] = Task.load(file)
    tasks = list(by_file.values())
    if any(other != tasks[0] for other in tasks[1:]):
        files = ", ".join(map(printable, by_file))
        raise UsageError(f"the files belong to different tasks ({files}); name the one that holds with `task=`")
    return tasks[0] if tasks else None


def _task_file(data: Path) -> Path | None:
    for candidate in (data.parent / f"{data.stem}.task.yaml", data.parent / ".task.yaml"):
        if os.path.isfile(candidate):
            return candidate
    return None


def together(tables: Sequence[Table], sources: Sequence[Source]) -> Table:
    """One table from all: null where one lacks a column, and an extra where a column is read nowhere."""
    if len(tables) == 1:
        return tables[0]
    columns: dict[str, Column] = {}
    problems = [problem for table in tables for problem in table.problems]
    extras: dict[str, Extra] = {}
    for name in dict.fromkeys(name for table in tables for name in (*table.columns, *table.extras)):
        unread = [table.extras[name] for table in tables if name in table.extras]
        arrays = [
            table.extras[name].column if name in table.extras else table.columns.get(name, pa.nulls(table.rows))
            for table in tables
        ]
        if unread:
            extras[name] = _any_kind([*arrays], unread[0].problem)
            continue
        try:
            columns[name] = _one_kind(name, arrays, sources)
        except InputError as problem:
            if name in FIELDS:
                problems.append(problem)
            else:
                extras[name] = _any_kind(arrays, problem)
    present = {*columns, *extras}
    return Table(
        columns,
        sum(table.rows for table in tables),
        warnings=tuple(warning for table in tables for warning in table.warnings),
        problems=tuple(problems),
        extras=extras,
        skipped=tuple(dict.fromkeys(n for table in tables for n in table.skipped if n not in present)),
        no_answers=_masks(tables),
    )


def _one_kind(name: str, arrays: Sequence[Column], sources: Sequence[Source]) -> Column:
    """The column that arrays of one kind make."""
    kind = widened(list(arrays))
    if kind is None:
        raise _clash(name, arrays, sources)
    try:
        return joined([array.cast(kind) for array in arrays])
    except pa.ArrowInvalid:
        file = next(s.name for a, s in zip(arrays, sources, strict=True) if kind_of(a) == "int")
        raise InputError(f"{TOO_LARGE} together with fractions", file=file, field=name) from None


def _any_kind(arrays: Sequence[Column], problem: InputError) -> Extra:
    """A column that nobody can read, of arrays of any kind."""
    types = {array.type for array in arrays if not pa.types.is_null(array.type)}
    if len(types) == 1:
        (kind,) = types
        return Extra(joined([array.cast(kind) for array in arrays]), problem)
    return Extra(joined([json_texts(array) for array in arrays]), problem, is_json=True)


def _masks(tables: Sequence[Table]) -> dict[str, Mask]:
    """The rows whose prediction stands for an outcome, in all tables."""
    outcomes = dict.fromkeys(outcome for table in tables for outcome in table.no_answers)
    return {o: np.concatenate([t.no_answers.get(o, np.zeros(t.rows, bool)) for t in tables]) for o in outcomes}


def _clash(name: str, arrays: Sequence[Column], sources: Sequence[Source]) -> InputError:
    stated = [(kind_of(array), source.name) for array, source in zip(arrays, sources, strict=True)]
    (kind, file), *others = [(kind, file) for kind, file in stated if kind != "null"]
    other, elsewhere = next(pair for pair in others if pair[0] == "list" or {pair[0], kind} - {"int", "float"})
    return InputError(
        f"holds {SHOWN[other]} here and {SHOWN[kind]} in {printable(file)}; write it the same way in both",
        file=elsewhere,
        field=name,
    )


def _kept(records: Records, where: Mapping[str, str]) -> Records:
    kept = records.filter(where)
    if not len(kept):
        raise UsageError(f"no row has {' and '.join(f'{printable(c)}={printable(v)}' for c, v in where.items())}")
    return kept
