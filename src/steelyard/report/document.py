"""A document: headings, paragraphs and tables. What is said is decided here once; how it looks is a renderer's matter.

Every cell is text already fit for people. Cells that came from data are escaped by the renderer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.records.labels import value_name
from steelyard.records.table import Source
from steelyard.study.comparison import Comparison
from steelyard.study.evaluation import Evaluation
from steelyard.study.ranked_lists import Ranked
from steelyard.uncertainty.number import Delta, Estimate


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Remarks:
    """Notes to the table above, numbered from 1."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """`right` names the columns that are numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Figure:
    """A picture in a file beside the document."""

    text: str
    path: str


Document = list[Heading | Note | Table | Remarks | Figure]

_BESIDE = {
    "answered_by_both": "answered by both",
    "common_cmax": "up to coverage",
    "failed_as_wrong": "failed counted as wrong",
    "calibration_error2": "calibration_error2",
}
_ARROWS = {"higher": "↑", "lower": "↓", None: ""}


def evaluation_report(evaluation: Evaluation) -> Document:
    """The table a user reads first: every value with its interval, its denominator and what was left out."""
    document: Document = [
        Note(
            f"{files(evaluation.sources)}: {_population(evaluation.population)}; "
            f"{_clusters(evaluation.clusters, evaluation.cluster)}"
        )
    ]
    level = f"{100 * evaluation.settings.level:g}% interval"
    for slice_, found in _by_slice(evaluation.estimates):
        if slice_:
            document.append(Heading(slice_))
        document += _with_notes(
            ("metric", "value", level, "se", "method", "n", "clusters", "left out"), found, _estimate_row
        )
    document += [Note(f"warning: {w}") for w in evaluation.warnings]
    return document


def comparison_report(comparison: Comparison) -> Document:
    """Paired deltas with their verdicts."""
    sides = comparison.population
    document: Document = [
        Note(f"base {files(comparison.sources['base'])}: {_population(sides['base'])}"),
        Note(f"new  {files(comparison.sources['new'])}: {_population(sides['new'])}"),
    ]
    lost = comparison.unmatched
    if lost["base_rows"] or lost["new_rows"] or lost["cells"]:
        alone = f"{lost['base_rows']} base rows, {lost['new_rows']} new rows"
        document.append(Note(f"left out: {alone} and {len(lost['cells'])} cells without partner"))
    level = f"{100 * comparison.settings.level:g}% interval"
    for slice_, found in _by_slice(comparison.deltas):
        if slice_:
            document.append(Heading(slice_))
        columns = ("metric", "base", "new", "delta", level, "p", "p adjusted", "verdict")
        document += _with_notes(columns, found, _delta_row)
    document += [Note(f"warning: {w}") for w in comparison.warnings]
    return document


def ranking_report(ranked: Ranked) -> Document:
    """The estimates of one ranking or two, then the deltas."""
    document = evaluation_report(ranked.evaluation)
    if ranked.comparison is not None:
        document += [Heading("paired, query by query"), *comparison_report(ranked.comparison)]
    return document


_RIGHT = frozenset({"value", "se", "base", "new", "delta", "n", "clusters", "p", "p adjusted"})


def number(value: float | None, *, signed: bool = False) -> str:
    """A number for people: four significant digits, `n/a` where undefined."""
    if value is None:
        return "n/a"
    if isinstance(value, int):
        return f"{value:,}"
    sign = "+" if signed and value > 0 else ""
    if abs(value) < 1e-12:
        return "0"
    if 1e-4 <= abs(value) < 1e5:
        digits = 4 if abs(value) < 1 else max(0, 4 - len(str(int(abs(value)))))
        return f"{sign}{value:.{digits}f}"
    return f"{sign}{value:.3g}"


def _estimate_row(e: Estimate) -> tuple[str, ...]:
    left_out = ", ".join(f"{n} {reason}" for reason, n in e.excluded.items())
    return (
        f"{e.metric} {_ARROWS[e.better]}".strip(),
        number(e.value) + (f" {e.unit}" if e.unit and e.value is not None else ""),
        interval_text(e.interval),
        "" if e.se is None else number(e.se),
        e.shown_method if e.interval is not None else "",
        f"{e.n:,}",
        f"{e.clusters:,}",
        left_out,
    )


def _delta_row(d: Delta) -> tuple[str, ...]:
    return (
        f"{d.metric} {_ARROWS[d.better]}".strip(),
        number(d.base),
        number(d.new),
        number(d.delta, signed=True),
        interval_text(d.interval, signed=True),
        number(d.p_value),
        number(d.p_adjusted) if d.verdict_from == "delta" else "",
        d.verdict,
    )


def _with_notes(columns: tuple[str, ...], found: Sequence[Any], row: Callable[[Any], tuple[str, ...]]) -> Document:
    """A table whose rows point to numbered notes below it."""
    notes: dict[str, int] = {}
    rows = []
    for e in found:
        marks = [notes.setdefault(note, len(notes) + 1) for note in e.note.split("; ") if note]
        rows.append((*row(e), " ".join(f"({mark})" for mark in sorted(marks))))
        rows += _companions(e)
    table = Table((*columns, "notes"), tuple(rows), _RIGHT)
    return [table, *([Remarks(tuple(notes))] if notes else [])]


def _companions(d: Any) -> list[tuple[str, ...]]:
    """What stands beside a delta: the same on the rows or coverage that both runs share."""
    found: list[tuple[str, ...]] = []
    for name, title in _BESIDE.items():
        beside = getattr(d, "companions", {}).get(name)
        if beside is not None:
            title = f"{title} {number(beside['c'])}" if "c" in beside else title
            values = (number(beside["base"]), number(beside["new"]), number(beside["delta"], signed=True))
            interval = interval_text(beside["interval"], signed=True)
            adjusted = number(d.p_adjusted) if d.verdict_from == name else ""
            found.append((f"  ↳ {title}", *values, interval, number(beside["p_value"]), adjusted, "", ""))
    return found


def interval_text(interval: tuple[float, float] | None, *, signed: bool = False) -> str:
    return "" if interval is None else f"[{_end(interval[0], signed=signed)}, {_end(interval[1], signed=signed)}]"


def _end(value: float, *, signed: bool) -> str:
    return number(value, signed=signed) if math.isfinite(value) else "unknown"


def _by_slice(found: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    groups: dict[str, list[Any]] = {}
    for e in found:
        groups.setdefault(_slice(e.slice), []).append(e)
    return list(groups.items())


def _slice(slice_: Mapping[str, Any]) -> str:
    return ", ".join(f"{column}={value_name(value)}" for column, value in slice_.items())


def files(sources: Sequence[Source]) -> str:
    return " + ".join(source.name for source in sources) or "records"


def _population(counts: Mapping[str, int]) -> str:
    outcomes = ", ".join(f"{n:,} {name}" for name, n in counts.items() if name not in ("rows", "clusters") and n)
    return f"{counts['rows']:,} rows ({outcomes})"


def _clusters(count: int, columns: Sequence[str]) -> str:
    return f"{count:,} clusters ({', '.join(columns)})"
