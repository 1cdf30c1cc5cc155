"""From files to records: which reader takes a file, how several become one table, of which task they are.

    records = read("answers.jsonl", cluster="patient")
    records = read(["monday.csv", "tuesday.csv"], map={"item": "item_id"}, where="model=a")

One file per format; `contract` says how to add one, `choosing` how the format of a file is recognised.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, Unpack

from steelyard.errors import UsageError, printable
from steelyard.ground.arrays import Progress
from steelyard.ground.files import STANDARD_INPUT
from steelyard.records.admitting import admitted
from steelyard.records.answers import LabelRules, labelled
from steelyard.records.conditions import Condition, conditions
from steelyard.records.declared import disagreements
from steelyard.records.declining import AbstainWhen
from steelyard.records.demand import Demand
from steelyard.records.labels import value_name
from steelyard.records.readers.bundles import Bundle
from steelyard.records.readers.choosing import entered
from steelyard.records.readers.contract import Certainty, Reader, Table, reader, readers
from steelyard.records.readers.head import Head
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.joining import together
from steelyard.records.readers.packed import inner_name
from steelyard.records.reading import Reading, ReadingAsIs, described, options_of, stated
from steelyard.records.renaming import check_renamed, renames
from steelyard.records.schema import IDS, field_of
from steelyard.records.table import Records, Source
from steelyard.records.task import Task

__all__ = ["Bundle", "Certainty", "Head", "Input", "Readable", "Reader", "Table", "read", "reader", "readers"]

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):  # each format registers itself
    importlib.import_module(_module.name)

from steelyard.records.in_memory import ArrowStream, frame_table, is_frame  # noqa: E402 - after the formats it needs

# what `read` takes: a path or several, a list of dictionaries, a frame or an Arrow table. Paths and dictionaries share
# one `Iterable`, so that type checkers understand a list of texts and `Path`s
Readable: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Mapping[str, object]] | ArrowStream


def records_in(source: Records | Readable, columns: Sequence[str], reading: Reading) -> Records:
    """The records in what was given: itself, or what is read of it; `columns` are those that will be used."""
    if not isinstance(source, Records):
        return read(source, columns=columns, **reading)
    if reading:
        raise UsageError(f"`{next(iter(reading))}=` is for what is read: give a file or a frame, or say it to read()")
    return source


@described(Reading)
def read(
    source: Readable,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    **reading: Unpack[Reading],
) -> Records:
    """The records in a file, in several, on standard input ("-") or in memory, after every rule at the door.

    `source` is a path or several; or a pandas or polars frame, an Arrow table, anything with the Arrow stream
    interface, or a list of dictionaries, in which None, NaN, NaT and pd.NA are missing values. `map` and `where` may be
    dictionaries, and a task a `Task` or a mapping, too; without one, `<stem>.task.yaml` next to the data is read, else
    `.task.yaml` in its folder, else what the format itself says. Of columns outside the vocabulary only `columns` are
    held in memory, where they are given; without them all are kept, and what is wrong with one is said when it is used.
    `progress` is told the share of the bytes that were read.

    OPTIONS

    The rows of several files follow each other. A column that one of them lacks is null there; whole numbers in
    one and fractions in the other become fractions; other kinds do not meet. Every file's sha256 is in `sources`.

    >>> read([{"item": 1, "target": "a", "prediction": "a"}, {"item": 2, "target": "b", "prediction": None}])
    Records(2 rows: 1 answered, 1 abstained; columns: item, target, prediction)
    """
    asked = stated(reading, Reading)
    in_memory = is_frame(source)
    paths = [] if in_memory else [source] if isinstance(source, str | os.PathLike) else _paths(source)
    names, kept, cluster = renames(asked.get("map")), conditions(asked.get("where") or ()), asked.get("cluster")
    _check_request(paths, names, in_memory=in_memory)
    task = asked.get("task")
    known = task if isinstance(task, Task) else _task(task, paths)
    rules = _rules(asked, known)
    used = [*(columns or ()), *(each.column for each in kept), *names, *([cluster] if cluster else [])]
    judge = asked.get("correct")
    if judge not in (None, "mark", "labels"):
        raise UsageError(f"`correct=` is mark or labels, not '{printable(judge)}'")
    wanted = Demand(
        asked=frozenset(used),
        rest="keep" if columns is None else "skip if scored",
        only=frozenset(names_of(asked.get("only"))) or None,
        drop=frozenset((*names_of(asked.get("drop")), *(["mark"] if judge == "labels" else []))),
        units=not cluster,
    )
    table, sources = _loaded(source, paths, asked, names, wanted, rules, progress=progress)
    known = known or table.task or Task()
    lexicon = names_of(asked.get("lexicon"))
    records = records_of(
        table,
        rules,
        wanted,
        cluster=cluster or None,
        task=replace(known, lexicon=(*known.lexicon, *lexicon)) if lexicon else known,
        sources=sources,
    )
    if judge == "mark" and not records.is_marked:
        raise UsageError(f"`correct=mark`: {printable(records.name or 'the table')} has no column mark")
    records.reading = _told(asked, rules, records.task)
    return _kept(records, kept) if kept else records


def _told(asked: Reading, rules: LabelRules, task: Task) -> dict[str, Any]:
    """How the rows are read, where that was asked for, in plain data; `where` is told by the rows that it leaves."""
    plain: dict[str, Any] = {}
    for name, option in options_of(Reading).items():
        given: Any = asked.get(name)
        if option.told and given and name != "where" and given != LabelRules.labels:
            several = option.kind in ("texts", "columns")
            plain[name] = dict(given) if option.kind == "pairs" else list(names_of(given)) if several else given
    known: dict[str, Iterable[Any] | None] = {
        "abstain": rules.abstain,
        "unparsed": rules.unparsed,
        "task_labels": task.labels,
    }
    known["task_range"] = None if task.range is None else (task.range,)
    return plain | {name: list(values) for name, values in known.items() if values}


@described(ReadingAsIs)
def read_as_is(source: Readable, *, progress: Progress | None = None, **reading: Unpack[ReadingAsIs]) -> Records:
    """What is in a file or a frame, all its columns kept as they are: no rule is applied, and no column is required.

    OPTIONS
    """
    asked = stated(reading, ReadingAsIs)
    in_memory = is_frame(source)
    paths = [] if in_memory else [source] if isinstance(source, str | os.PathLike) else _paths(source)
    names, kept = asked.get("map") or {}, conditions(asked.get("where") or ())
    _check_request(paths, names, in_memory=in_memory)
    wanted = demand_as_is(asked, [*(each.column for each in kept), *names])
    table, sources = _loaded(source, paths, asked, names, wanted, LabelRules(labels="exact"), progress=progress)
    records = Records(table.columns, sources=sources, warnings=table.warnings, extras=table.extras)
    return _kept(records, kept) if kept else records


def demand_as_is(asked: ReadingAsIs, used: Iterable[str]) -> Demand:
    """Which columns are held where all are kept as they are."""
    only, drop = names_of(asked.get("only")), names_of(asked.get("drop"))
    return Demand(asked=frozenset(used), only=frozenset(only) or None, drop=frozenset(drop), as_is=True)


def _loaded(
    source: Any,
    paths: Sequence[str | os.PathLike[str]],
    asked: ReadingAsIs,
    names: Mapping[str, str],
    wanted: Demand,
    rules: LabelRules,
    *,
    progress: Progress | None,
) -> tuple[Table, list[Source]]:
    """One table of everything that was given, and where it came from; a frame where there are no paths."""
    tables, sources, neighbours, renamed = [], list[Source](), list[Source](), set[str]()
    shared: dict[str, Any] = {"rename": names, "demand": wanted, "labels": rules}
    logs: dict[str, Any] = {
        "scorers": names_of(asked.get("scorer")),
        "abstain_when": AbstainWhen.of(asked.get("abstain_when", ())),
        "sheet": asked.get("sheet"),
    }
    format, salvage = asked.get("format"), asked.get("salvage", False)
    if not paths:
        table, frame = frame_table(source, **shared)
        tables, renamed = [table], frame.renamed
    for place, each in enumerate(paths):
        told = None if progress is None else _part_of(progress, place, len(paths))
        path = os.fspath(each)
        with entered(path, format, salvage=salvage, progress=told, **logs, **shared) as (format_reader, opened):
            if opened.sheet is not None and not format_reader.sheets:
                raise UsageError(f"`sheet=` is for workbooks; {printable(path)} is read as {format_reader.name}")
            table = format_reader.table(opened)
            tables.append(table)
            sources.append(_source(opened, table))
            neighbours += [Source(other.name, other.sha256, 0) for other in opened.neighbours if other.is_read]
            renamed |= opened.renamed
    joint = together(tables, sources, wanted)
    present = (*joint.columns, *joint.extras, *(str(problem.field) for problem in joint.problems))
    check_renamed(names, renamed, (*present, *joint.skipped))
    said = unmet(wanted, present, joint.skipped)
    said += [remark for each in sources for remark in disagreements(each.name, each.declared)]
    return replace(joint, warnings=(*joint.warnings, *said)), [*sources, *neighbours]


def unmet(wanted: Demand, present: Sequence[str], skipped: Sequence[str]) -> list[str]:
    """What to say of columns that were asked for by name and are not there; an error where none is left."""
    if skipped and not present:
        raise UsageError(f"no column is left; there are: {', '.join(map(printable, skipped))}")
    named = [
        *(("only", name) for name in wanted.only or ()),
        *(("drop", name) for name in wanted.drop if name != "mark"),
    ]
    absent = sorted((option, name) for option, name in named if name not in (*present, *skipped))
    return [f"`{option}={printable(name)}`: there is no such column" for option, name in absent]


def _part_of(progress: Progress, place: int, count: int) -> Progress:
    """The progress of one of several files, as that of all."""
    return lambda share: progress((place + share) / count)


def records_of(
    table: Table, rules: LabelRules, wanted: Demand, *, cluster: str | None, task: Task, sources: Sequence[Source]
) -> Records:
    """The records of a table, after labels were written alike and every rule at the door."""
    stated = table.columns
    read_here = [name for name in stated if field_of(name) is not None or name in wanted.asked]
    names = [name for name in read_here if name not in IDS]
    labelled_columns, said = labelled(stated, rules, names, table.no_answers)
    known = {*stated, *table.extras, *(problem.field for problem in table.problems)}
    if (rules.abstain or rules.unparsed) and "prediction" not in known:
        raise UsageError("`abstain=` and `unparsed=` are about predictions; there is no column 'prediction'")
    return admitted(
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


def _rules(asked: Reading, task: Task | None) -> LabelRules:
    """How labels are written: as asked for, and as the task says."""
    said = task or Task()
    return LabelRules(
        labels=asked.get("labels", "strip"),
        abstain=tuple(dict.fromkeys((*names_of(asked.get("abstain")), *said.abstain))),
        unparsed=tuple(dict.fromkeys((*names_of(asked.get("unparsed")), *said.unparsed))),
        spelling=tuple(label for label in said.labels or () if isinstance(label, str)),
    )


def names_of(asked: Sequence[Any] | str | None) -> tuple[str, ...]:
    """One name or several, as several; a number as it is written."""
    if asked is None:
        return ()
    return (asked,) if isinstance(asked, str) else tuple(value_name(each) for each in asked)


def _paths(source: Any) -> list[str | os.PathLike[str]]:
    """Several paths; anything else is an error that says what there may be."""
    try:
        paths = list(source)
    except TypeError:
        paths = [None]
    if not all(isinstance(path, str | os.PathLike) for path in paths):
        raise UsageError(
            f"{printable(type(source).__name__)} is nothing that can be read; give a path, several, a pandas or polars "
            "frame, an Arrow table or a list of dictionaries"
        )
    return paths


def _check_request(paths: Sequence[str | os.PathLike[str]], rename: Mapping[str, str], *, in_memory: bool) -> None:
    if not paths and not in_memory:
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
        excerpt=table.excerpt,
        declared=table.declared,
        noted=source.all_cautions,
    )


def _task(
    task: Mapping[str, object] | str | os.PathLike[str] | None, paths: Sequence[str | os.PathLike[str]]
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
    stem = Path(inner_name(data.name)).stem
    for candidate in (data.parent / f"{stem}.task.yaml", data.parent / ".task.yaml"):
        if os.path.isfile(candidate):
            return candidate
    return None


def _kept(records: Records, wanted: Sequence[Condition]) -> Records:
    kept = records.filter(wanted)
    if not len(kept):
        raise UsageError(f"no row has {' and '.join(map(printable, wanted))}")
    return kept
