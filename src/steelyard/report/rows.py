"""A number as cells: the same in every table that shows one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from steelyard.records.labels import value_name
from steelyard.records.table import Source
from steelyard.report.document import (
    Cell,
    Count,
    Document,
    Heading,
    Marks,
    MetricName,
    Note,
    Remarks,
    Row,
    Span,
    Table,
    Tone,
    Value,
    Word,
    number,
)
from steelyard.study.primary import family_text
from steelyard.uncertainty.intervals import Interval
from steelyard.uncertainty.number import Delta, Estimate, Number
from steelyard.uncertainty.verdicts import taken_away

N = TypeVar("N", bound=Number)

_COMPANIONS = {
    "answered_by_both": "answered by both",
    "common_cmax": "up to coverage",
    "failed_as_wrong": "failed counted as wrong",
    "calibration_error2": "calibration_error2",
}
ESTIMATE_DROPS = ("method", "se", "left out", "clusters")  # what a narrow terminal does without, the first first
DELTA_DROPS = ("p", "clusters", "n", "p adjusted")
_TONES: Mapping[str, Tone] = {
    "better": "good",
    "worse": "bad",
    "inconclusive": "open",
    "pass": "good",
    "fail": "bad",
}


def level_name(level: float) -> str:
    """What a column of intervals is called."""
    return f"{100 * level:g}% interval"


def measured(value: float | None, interval: Interval | None, *, unit: str = "") -> Row:
    """A value and its interval."""
    return Value(value, unit=unit), Span(interval, value)


def difference(delta: float | None, interval: Interval | None) -> Row:
    """A difference and its interval, both with their sign."""
    return Value(delta, signed=True), Span(interval, delta, signed=True)


def paired(base: float | None, new: float | None, delta: float | None, interval: Interval | None) -> Row:
    """Two values, their difference and its interval."""
    return Value(base), Value(new), *difference(delta, interval)


def known(value: float | None, *, signed: bool = False) -> Cell:
    """A number, or nothing where there is none."""
    return "" if value is None else Value(value, signed=signed)


def counted(n: int | None) -> Cell:
    """How many, or nothing where that is not known."""
    return "" if n is None else Count(n)


def judged(verdict: str, shown: str | None = None) -> Word:
    """A verdict, shown in other words if any."""
    return Word(verdict if shown is None else shown, _TONES.get(verdict, ""))


def left_out(reasons: Mapping[str, int]) -> str:
    """How many rows were left out, and why."""
    return ", ".join(f"{n:,} {reason}" for reason, n in reasons.items())


def files(sources: Sequence[Source]) -> str:
    """The names of the files that records came from."""
    return " + ".join(source.name for source in sources) or "records"


def estimate_columns(level: float) -> tuple[str, ...]:
    """What the cells of an estimate's row are called."""
    return ("metric", "value", level_name(level), "which", "se", "method", "n", "clusters", "left out")


def estimate_row(e: Estimate) -> Row:
    """An estimate: its value, how sure it is, and what it is taken over."""
    return (
        MetricName(e.metric, e.better),
        *measured(e.value, e.interval, unit=e.unit),
        extremes(e),
        known(e.se),
        e.shown_method if e.interval is not None else "",
        Count(e.n),
        Count(e.clusters),
        left_out(e.excluded),
    )


def extremes(e: Estimate) -> str:
    """What the value is of, where the name does not say it: the worst group, the lowest and highest, the class."""
    if isinstance(e.detail, Mapping) and e.detail.get("positive") is not None and "positive=" not in e.metric:
        return f"positive: {e.detail['positive']}"
    groups = e.detail.get("per_group") if isinstance(e.detail, Mapping) else None
    values = {name: v for name, v in groups.items() if v is not None} if isinstance(groups, Mapping) else {}
    if not values:
        return ""
    if e.detail.get("group") is not None:
        return f"worst: {e.detail['group']}"
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    return f"{low} {number(values[low])} to {high} {number(values[high])}"


def delta_columns(level: float) -> tuple[str, ...]:
    """What the cells of a delta's row are called."""
    return ("metric", "base", "new", "delta", level_name(level), "p", "p adjusted", "verdict", "n", "clusters")


def delta_row(d: Delta) -> Row:
    """A delta: both values, their difference, how sure it is, and the verdict."""
    return (
        MetricName(d.metric, d.better),
        *paired(d.base, d.new, d.delta, d.interval),
        Value(d.p_value),
        Value(d.p_adjusted) if d.verdict_from == "delta" else "",
        judged(d.verdict),
        Count(min(d.n_base, d.n_new)),
        Count(d.clusters),
    )


def in_families(deltas: Sequence[Delta], tables: Callable[[Sequence[Delta]], Document]) -> Document:
    """What decides, what that means for its p-values, and under a heading of its own what explores."""
    deciding, exploring = ([d for d in deltas if d.role == role] for role in ("primary", "exploratory"))
    document = tables(deciding) if deciding or not exploring else []
    text = family_text(deltas)
    document += [Note(text)] if text else []
    return document + ([Heading("exploratory"), *tables(exploring)] if exploring else [])


def companion_rows(d: Delta) -> list[Row]:
    """Other forms of a delta, in the same columns: on the rows or the coverage that both runs share."""
    rows: list[Row] = []
    for name, title in _COMPANIONS.items():
        form = d.companions.get(name)
        if form is not None:
            title = f"{title} {number(form['c'])}" if "c" in form else title
            numbers = paired(form["base"], form["new"], form["delta"], form["interval"])
            adjusted = Value(d.p_adjusted) if d.verdict_from == name else ""
            rows.append((f"  ↳ {title}", *numbers, Value(form["p_value"]), adjusted, "", "", ""))
    return rows


def _of_verdict(each: object) -> list[str]:
    """What must be said of a verdict, where there is one."""
    said = taken_away(each) if isinstance(each, Delta) else ""
    return [said] if said else []


class Numbered:
    """Notes of a table, each once and numbered in the order in which rows point to them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def marks(self, notes: Iterable[str]) -> Marks:
        """The numbers of a row's notes."""
        return Marks(tuple(self._numbers.setdefault(note, len(self._numbers) + 1) for note in notes))

    def remarks(self) -> list[Remarks]:
        """The notes themselves, to stand below the table; nothing where there is none."""
        return [Remarks(tuple(self._numbers))] if self._numbers else []


def noted(
    columns: Sequence[str],
    numbers: Iterable[N],
    row: Callable[[N], Row],
    further: Callable[[N], list[Row]] = lambda _: [],
    *,
    drops: tuple[str, ...] = (),
    folds: tuple[str, ...] = (),
) -> Document:
    """A table with one row per number, further ones below it, and the notes that they point to."""
    notes = Numbered()
    rows: list[Row] = []
    for each in numbers:
        marks = notes.marks([*each.notes, *_of_verdict(each)])
        rows.append((*row(each), Marks(tuple(sorted(marks.numbers)))))
        rows += [(*cells, "") for cells in further(each)]
    return [Table((*columns, "notes"), tuple(rows), drops=drops, folds=folds), *notes.remarks()]


S = TypeVar("S", Estimate, Delta)


def sliced(
    columns: Sequence[str],
    numbers: Sequence[S],
    row: Callable[[S], Row],
    further: Callable[[S], list[Row]] = lambda _: [],
    *,
    drops: tuple[str, ...] = (),
) -> Document:
    """Numbers of several slices in one table: the metric, what tells the slices apart, and the cells of each number.

    Rows are sorted by metric, so that the slices of one metric stand below each other; both are in their own order.
    What is the same in every row is said once, above.
    """
    names = list(dict.fromkeys(name for each in numbers for name in each.slice))
    everywhere = [name for name in names if len({value_name(e.slice.get(name)) for e in numbers}) == 1]
    varying: list[str] = [name for name in names if name not in everywhere]
    metrics = {name: i for i, name in enumerate(dict.fromkeys(each.metric for each in numbers))}

    def placed(each: S) -> Row:
        where: Row = tuple(value_name(each.slice[name]) if name in each.slice else "" for name in varying)
        first, *cells = row(each)
        return (first, *where, *cells)

    def below(each: S) -> list[Row]:
        return [(first, *("" for _ in varying), *cells) for first, *cells in further(each)]

    document: Document = []
    if everywhere and numbers:
        said = ", ".join(f"{name} {value_name(numbers[0].slice[name])}" for name in everywhere)
        document.append(Note(f"all rows: {said}"))
    folds: tuple[str, ...] = tuple(_unlike(name, columns) for name in varying)
    return document + noted(
        (columns[0], *folds, *columns[1:]),
        sorted(numbers, key=lambda each: metrics[each.metric]),
        placed,
        below,
        drops=drops,
        folds=folds,
    )


def _unlike(name: str, columns: Sequence[str]) -> str:
    return f"{name} (column)" if name in columns else name
