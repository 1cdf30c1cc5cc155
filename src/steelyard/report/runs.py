"""Runs for people: lists, rankings, pivots and pointers as documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from steelyard.errors import UsageError, printable
from steelyard.naming import parse
from steelyard.records.reading import reading_text
from steelyard.records.schema import CELL, SPLIT
from steelyard.report.details import details_report
from steelyard.report.document import (
    Cell,
    Count,
    Document,
    Heading,
    MetricName,
    Note,
    Row,
    Table,
    Value,
    number,
    text_of,
)
from steelyard.report.rows import counted, difference, judged, known, measured
from steelyard.runs.deciding import Choice
from steelyard.runs.documented import is_documented
from steelyard.runs.elsewhere import OtherFolder
from steelyard.runs.index import METRIC_COLUMNS, Problem, RunEntry
from steelyard.runs.index import Cell as RunCell
from steelyard.runs.metric_keys import split_key
from steelyard.runs.pointers import PINNED, Pointer
from steelyard.runs.saved import SEEN, SavedRun
from steelyard.runs.standing import Standing

_MAIN = 3  # numbers of a run in a list


def list_report(
    runs: Sequence[RunEntry],
    problems: Sequence[Problem],
    active: Mapping[str, Sequence[str]],
    others: Sequence[OtherFolder] = (),
) -> Document:
    """The runs, newest first, with the first numbers of each and what it is active for; and what others left there."""
    read = any(run.reading for run in runs)
    rows = tuple(
        (
            run.run_id,
            run.workflow,
            run.tenant or "",
            run.started_at[:19],
            "" if run.complete else "incomplete",
            ", ".join(active.get(run.path, ())),
            _main(run),
            Count(len(run.metrics), grouped=False),
            " ".join(f"{k}={v}" for k, v in run.labels.items()),
            *([read_as(run.reading)] if read else []),
        )
        for run in runs
    )
    columns = (
        "run",
        "workflow",
        "tenant",
        "started (UTC)",
        "state",
        "active for",
        "main metrics",
        "metrics",
        "labels",
        *(["rows"] if read else []),
    )
    return [
        Table(
            columns, rows, drops=("rows", "labels", "metrics", "tenant") if read else ("labels", "metrics", "tenant")
        ),
        *(Note(f"cannot be used: {p.problem}") for p in problems),
        *(Note(f"made elsewhere: {other.name}") for other in others),
    ]


def _main(run: RunEntry) -> str:
    """The first few numbers of a run, those asked for first; of several cells, from the least to the largest."""
    own = (item for item in run.metrics.items() if "{" not in item[0] and not is_documented(item[0]))
    whole = [f"{key} {number(value)}" for key, value in islice(own, _MAIN)]
    if whole:
        return ", ".join(whole)
    cells: dict[str, list[float]] = {}
    for key, value in run.metrics.items():
        name, cell = split_key(key)
        if cell and not is_documented(name):
            cells.setdefault(name, []).append(value)
    return ", ".join(f"{name} {number(min(v))} to {number(max(v))}" for name, v in islice(cells.items(), _MAIN))


def run_report(opened: SavedRun) -> Document:
    """One run: what it is, its numbers, and their details."""
    run = opened.run
    counts = run.counts
    facts = [
        ("run", run.run_id),
        ("workflow", run.workflow),
        ("tenant", run.tenant or ""),
        ("started", run.started_at),
        ("completed", run.completed_at or ""),
        ("complete", "yes" if run.complete else "no"),
        *(("label", f"{key}={value}") for key, value in run.labels.items()),
        ("rows", read_as(run.reading)),
        *(("file", name) for name in run.files),
        *(("input", str(i.get("Path"))) for i in run.inputs),
        *((name, str(path)) for name, path in opened.replies.items()),
    ]
    numbers = [
        (MetricName(key), *measured(value, run.intervals.get(key)), counted(counts.get(key)))
        for key, value in run.metrics.items()
    ]
    return [
        Table(("fact", "value"), tuple((k, v) for k, v in facts if v)),
        Heading("metrics"),
        Table(("metric", "value", "95% interval", "n"), tuple(numbers)),
        *_details(run.details or {}),
        *(Note(f"warning: {warning}") for warning in run.warnings),
    ]


def read_as(reading: Mapping[str, Any]) -> str:
    """How the rows of a run were chosen and read, in a line; nothing where nobody asked for anything."""
    told = {name: value for name, value in reading.items() if name != "rows"}
    return reading_text(told, int(reading.get("rows", 0))) if told else ""


def _details(details: Mapping[str, Any]) -> Document:
    """The details of every cell; those of further slices would bury them."""
    shown = {key: value for key, value in details.items() if _is_cell(key)}
    rest = len(details) - len(shown)
    more = [Note(f"{rest} details of further slices, which the JSON form has")] if rest else []
    return [*details_report(shown), *more]


def _is_cell(key: str) -> bool:
    try:
        return "{" not in key or {column for column, _ in parse(key).slice} <= set(CELL)
    except UsageError:  # the whole table's, of a metric whose name holds a bracket
        return True


def ranking_report(rows: Sequence[Standing], metric: str, reference: RunEntry | None, better: str) -> Document:
    """Runs from best to worst by a metric, cell by cell where they have several."""
    cell = _cell_columns(row.cell for row in rows)
    columns = (
        "run",
        "workflow",
        "variant",
        *cell,
        "value",
        "95% interval",
        "up to common cmax",
        "delta",
        "its interval",
        "p adjusted",
        "verdict",
        "note",
    )
    table = Table(
        columns,
        tuple(_standing(row, cell) for row in rows),
        frozenset({"value", "delta", "p adjusted"}),
        drops=("p adjusted", "workflow", "variant"),
        folds=cell,
    )
    document: Document = [Note(f"{metric}, {better} is better"), table]
    if reference:
        alike = len({row.run.path for row in rows if row.run.run_id == reference.run_id}) > 1
        named = reference.name if alike else reference.run_id
        document.append(Note(f"deltas: run − {named}, paired on the same questions"))
    count = len([row for row in rows if row.value is not None])
    if count > 1:
        what = "cells" if any(row.cell for row in rows) else "runs"
        document.append(Note(f"the best of {count} {what} is optimistic: part of its lead is chance"))
    seen = {row.run.run_id: row.run.labels[SEEN] for row in rows if SEEN in row.run.labels}
    for run_id, label in seen.items():
        document.append(Note(f"run {run_id}: its shift was learned from {printable(label)} that it is judged on"))
    said = dict.fromkeys(warning for row in rows for warning in row.warnings)
    return document + [Note(f"warning: {warning}") for warning in said]


def _standing(row: Standing, cell: Sequence[str]) -> Row:
    """A run in order: its value, and its delta against the reference."""
    value, interval = measured(row.value, row.number.interval)
    delta, ends = (
        ("", "") if row.delta is None or row.delta.value is None else difference(row.delta.value, row.delta.interval)
    )
    return (
        row.run.run_id,
        row.run.workflow,
        row.run.labels.get("variant", ""),
        *(row.cell.get(column, "") for column in cell),
        value,
        interval,
        known(row.judged),
        delta,
        ends,
        known(row.p_adjusted),
        judged(row.verdict),
        row.note,
    )


def pointer_report(pointer: Pointer) -> Document:
    """The active run and how it came to be."""
    rows = tuple(
        (
            Count(h["Seq"], grouped=False),
            h["AtUtc"][:19],
            h["Action"],
            h["RunId"],
            Value(h.get("Value")),
            h.get("Reason") or "",
        )
        for h in pointer.history
    )
    active = pointer.run_id or "none"
    pinned = f"pinned as {pointer.metric}: {active}"
    said = pinned if pointer.profile == PINNED else f"active for {pointer.metric} ({pointer.profile}): {active}"
    document: Document = [Note(said)]
    if rows:
        document.append(Table(("step", "at (UTC)", "action", "run", "value", "reason"), rows))
    return document


def choice_report(choice: Choice, metric: str, *, applied: bool = False) -> Document:
    """What to do about the best run, and whether it was done."""
    active = "none" if choice.active_run_id is None else f"{choice.active_run_id} ({number(choice.active_value)})"
    delta, interval = difference(choice.lead.value, choice.lead.interval)
    rows: tuple[Row, ...] = (
        ("decision", f"{choice.action}, done: {choice.candidate.run_id} is active now" if applied else choice.action),
        ("candidate", f"{choice.candidate.run_id} ({number(choice.value)})"),
        ("active", active),
        ("delta", delta),
        ("interval", interval),
        ("eps", Value(choice.eps, spec="g")),
        ("reason", choice.reason),
    )
    facts = Table(("fact", "value"), tuple(row for row in rows if text_of(row[1])))
    return [Note(metric), facts, *(Note(f"warning: {warning}") for warning in choice.warnings)]


def best_report(best: Standing, metric: str, of: int, note: str) -> Document:
    """The best run by a metric, of how many."""
    row = (
        best.run.run_id,
        best.run.workflow,
        MetricName(metric),
        Value(best.value),
        known(best.judged),
        Count(of, grouped=False),
    )
    columns = ("run", "workflow", "metric", "value", "up to common cmax", "of runs")
    return [Table(columns, (row,), frozenset({"value", "of runs"})), *([Note(note)] if note else [])]


def removal_report(run_id: str, workflow: str, removed: Sequence[str]) -> Document:
    """What was removed of a run."""
    table = Table(("run", "workflow", "removed"), ((run_id, workflow, ", ".join(removed)),))
    return [table] if removed else [table, Note("the run kept no rows")]


def leftovers_report(removed: Sequence[Path]) -> Document:
    """What was removed of what killed processes left."""
    if not removed:
        return [Note("nothing was left half-made or half removed")]
    return [Table(("folder", "workflow"), tuple((folder.name, folder.parent.name) for folder in removed))]


def index_report(runs: Sequence[RunEntry], problems: Sequence[Problem]) -> Document:
    """How many runs there are, and what cannot be used."""
    counts = Count(len(runs)), Count(len(problems))
    return [
        Table(("runs", "cannot be used"), (counts,), frozenset({"runs"})),
        *(Note(p.problem) for p in problems),
    ]


def metrics_report(rows: Iterable[Sequence[Any]]) -> Document:
    """The table of metrics, one row per number; `rows` are as the index gives them."""
    return [Table(METRIC_COLUMNS, tuple(tuple(map(_cell, row)) for row in rows))]


def _cell(value: Any) -> Cell:
    if value is None:
        return ""
    if isinstance(value, int):
        return Count(value, grouped=False)
    return Value(value) if isinstance(value, float) else str(value)


def pivot_report(names: Sequence[str], cells: Sequence[RunCell]) -> Document:
    """Runs and their cells × metrics."""
    cell = _cell_columns(c.cell for c in cells)
    table = tuple(
        (
            c.run_id,
            c.workflow,
            *(c.cell.get(column, "") for column in cell),
            *(known(c.values.get(name)) for name in names),
        )
        for c in cells
    )
    return [Table(("run", "workflow", *cell, *names), table)]


def _cell_columns(cells: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """The columns that tell cells apart; splits are among them where there are some."""
    named = {column for cell in cells for column in cell}
    return tuple(column for column in CELL if column != SPLIT or column in named)


def pointers_report(pointers: Sequence[Pointer]) -> Document:
    """Every pointer, one after the other."""
    return [part for pointer in pointers for part in pointer_report(pointer)]
