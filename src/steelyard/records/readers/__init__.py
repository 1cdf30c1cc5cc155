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

import pyarrow as pa

from steelyard.errors import InputError, UsageError, printable
from steelyard.ground.files import STANDARD_INPUT
from steelyard.ground.json import TOO_LARGE
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
from steelyard.records.readers.packed import inner_name
from steelyard.records.schema import SHOWN, kind_of
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
) -> Records:
    """The records in a file, in several, or on standard input ("-"), after every rule at the door.

    format   a reader's name; by default the one that recognises the content, with the suffix as a hint. What is
             compressed with gzip or zstd is read as what is inside. Some readers take folders and zip archives
    cluster  the column whose values are resampled together, such as patient
    task     what is known of the task: a `Task`, a mapping or a file. By default `<stem>.task.yaml` next to
             the data, else `.task.yaml` in its folder, where there is one, else what the format itself says
    rename   {name here: name in the file}, as in {"item": "item_id"}
    where    {column: value}: the rows to keep, compared as text, after all rows have been checked
    salvage  leave out an incomplete last record, with a warning, instead of refusing the file

    The rows of several files follow each other. A column that one of them lacks is null there; whole numbers in
    one and fractions in the other become fractions; other kinds do not meet. Every file's sha256 is in `sources`.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    _check_request(paths, rename or {})
    stated = task if isinstance(task, Task) else _task(task, paths)
    tables, sources, neighbours, renamed = [], [], list[Source](), set[str]()
    for each in paths:
        with entered(os.fspath(each), format, rename=rename, salvage=salvage) as (format_reader, source):
            table = format_reader.table(source)
            tables.append(table)
            sources.append(_source(source, table))
            neighbours += [Source(other.name, other.sha256, 0) for other in source.neighbours if other.is_read]
            renamed |= source.renamed
    columns = _together(tables, sources)
    for original in (rename or {}).values():
        if original not in renamed:
            raise UsageError(
                f"cannot rename '{printable(original)}': there is no such column; "
                f"columns: {', '.join(map(printable, columns))}"
            )
    warnings = [warning for table in tables for warning in table.warnings]
    known = stated or next((table.task for table in tables if table.task), None) or Task()
    records = Records.checked(columns, cluster=cluster, task=known, sources=[*sources, *neighbours], warnings=warnings)
    return _kept(records, where) if where else records


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
        raise UsageError(f"the files belong to different tasks ({files}); name the one that holds with task=")
    return tasks[0] if tasks else None


def _task_file(data: Path) -> Path | None:
    stem = Path(inner_name(data.name)).stem
    for candidate in (data.parent / f"{stem}.task.yaml", data.parent / ".task.yaml"):
        if os.path.isfile(candidate):
            return candidate
    return None


def _together(tables: Sequence[Table], sources: Sequence[Source]) -> dict[str, Column]:
    """One array per column from all tables, null where a table lacks the column."""
    if len(tables) == 1:
        return dict(tables[0].columns)
    columns: dict[str, Column] = {}
    for name in dict.fromkeys(name for table in tables for name in table.columns):
        arrays = [table.columns.get(name, pa.nulls(table.rows)) for table in tables]
        kind = widened(arrays)
        if kind is None:
            raise _clash(name, arrays, sources)
        try:
            columns[name] = joined([array.cast(kind) for array in arrays])
        except pa.ArrowInvalid:
            file = next(s.name for a, s in zip(arrays, sources, strict=True) if kind_of(a) == "int")
            raise InputError(f"{TOO_LARGE} together with fractions", file=file, field=name) from None
    return columns


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
