"""Runs for people: lists, rankings, pivots and pointers as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.errors import UsageError, printable
from steelyard.naming import parse
from steelyard.records.schema import CELL
from steelyard.report.details import details_report
from steelyard.report.document import Document, Heading, Note, Table, interval_text, number
from steelyard.runs.index import Listed, Problem
from steelyard.runs.keeping import SEEN, Opened
from steelyard.runs.pointers import Pointer
from steelyard.runs.ranking import Choice, Ranked

_RIGHT = frozenset({"value", "delta", "p", "p adjusted", "metrics", "n"})


def list_report(runs: Sequence[Listed], problems: Sequence[Problem]) -> Document:
    """The runs, newest first."""
    rows = tuple(
        (
            run.run_id,
            run.workflow,
            run.tenant or "",
            run.started_at[:19],
            "" if run.complete else "incomplete",
            str(len(run.metrics)),
            " ".join(f"{k}={v}" for k, v in run.labels.items()),
        )
        for run in runs
    )
    document: Document = [
        Table(("run", "workflow", "tenant", "started (UTC)", "state", "metrics", "labels"), rows, _RIGHT)
    ]
    return document + [Note(f"cannot be used: {p.problem}") for p in problems]


def run_report(opened: Opened) -> Document:
    """One run: what it is, its numbers, and what stands beside them."""
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
        *(("file", name) for name in run.files),
        *(("input", str(i.get("Path"))) for i in run.inputs),
    ]
    numbers = [
        (key, _number(value), interval_text(run.intervals.get(key)), f"{counts[key]:,}" if key in counts else "")
        for key, value in run.metrics.items()
    ]
    return [
        Table(("fact", "value"), tuple((k, v) for k, v in facts if v)),
        Heading("metrics"),
        Table(("metric", "value", "95% interval", "n"), tuple(numbers), frozenset({"value", "n"})),
        *_details(run.details or {}),
    ]


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else number(value)


def _details(found: Mapping[str, Any]) -> Document:
    """The details of every cell; those of further slices would bury them."""
    shown = {key: value for key, value in found.items() if _is_cell(key)}
    rest = len(found) - len(shown)
    more = [Note(f"{rest} details of further slices: --format json has them")] if rest else []
    return [*details_report(shown), *more]


def _is_cell(key: str) -> bool:
    try:
        return "{" not in key or {column for column, _ in parse(key).slice} <= set(CELL)
    except UsageError:  # the whole table's, of a metric whose name holds a bracket
        return True


def ranking_report(rows: Sequence[Ranked], metric: str, reference: str | None, better: str) -> Document:
    """Runs from best to worst by a metric."""
    table = tuple(
        (
            row.run.run_id,
            row.run.workflow,
            number(row.value),
            "" if row.judged is None else number(row.judged),
            interval_text(None if row.low is None or row.high is None else (row.low, row.high)),
            "" if row.delta is None else number(row.delta, signed=True),
            interval_text(
                None if row.delta_low is None or row.delta_high is None else (row.delta_low, row.delta_high),
                signed=True,
            ),
            "" if row.p_adjusted is None else number(row.p_adjusted),
            row.verdict,
            row.note,
        )
        for row in rows
    )
    columns = (
        "run",
        "workflow",
        "value",
        "up to common cmax",
        "95% interval",
        "delta",
        "its interval",
        "p adjusted",
        "verdict",
        "note",
    )
    document: Document = [Note(f"{metric}, {better} is better"), Table(columns, table, _RIGHT)]
    if reference:
        document.append(Note(f"deltas: run − {reference}, paired on the same questions"))
    if len([row for row in rows if row.value is not None]) > 1:
        count = len([row for row in rows if row.value is not None])
        document.append(Note(f"the best of {count} runs is optimistic: part of its lead is chance"))
    for row in rows:
        if SEEN in row.run.labels:
            seen = printable(row.run.labels[SEEN])
            document.append(Note(f"run {row.run.run_id}: its shift was learned from {seen} that it is judged on"))
    return document


def pointer_report(pointer: Pointer) -> Document:
    """The active run and how it came to be."""
    rows = tuple(
        (str(h["Seq"]), h["AtUtc"][:19], h["Action"], h["RunId"], number(h.get("Value")), h.get("Reason") or "")
        for h in pointer.history
    )
    active = pointer.run_id or "none"
    document: Document = [Note(f"active for {pointer.metric} ({pointer.profile}): {active}")]
    if rows:
        document.append(
            Table(("step", "at (UTC)", "action", "run", "value", "reason"), rows, frozenset({"step", "value"}))
        )
    return document


def choice_report(choice: Choice, metric: str) -> Document:
    """What to do about the best run."""
    active = "none" if choice.active_run_id is None else f"{choice.active_run_id} ({number(choice.active_value)})"
    rows = (
        ("decision", choice.action),
        ("candidate", f"{choice.candidate.run_id} ({number(choice.value)})"),
        ("active", active),
        ("delta", number(choice.delta, signed=True)),
        ("interval", interval_text(choice.interval, signed=True)),
        ("eps", f"{choice.eps:g}"),
        ("reason", choice.reason),
    )
    return [Note(metric), Table(("fact", "value"), tuple(row for row in rows if row[1]))]


def pivot_report(names: Sequence[str], rows: Sequence[tuple[str, Mapping[str, float]]]) -> Document:
    """Runs × metrics."""
    table = tuple((run, *(number(values.get(name)) for name in names)) for run, values in rows)
    return [Table(("run", *names), table, frozenset(names))]


def listed_document(runs: Sequence[Listed], problems: Sequence[Problem]) -> dict[str, Any]:
    """`runs list` as data."""
    return {
        "runs": [
            {
                "run_id": run.run_id,
                "workflow": run.workflow,
                "tenant": run.tenant,
                "domain": run.domain,
                "started_at": run.started_at,
                "completed_at": run.completed_at,
                "labels": dict(run.labels),
                "metrics": dict(run.metrics),
                "complete": run.complete,
            }
            for run in runs
        ],
        "problems": [{"run": p.folder.name, "problem": p.problem} for p in problems],
    }
