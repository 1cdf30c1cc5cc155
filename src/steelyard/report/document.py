"""A document: headings, notes, tables of typed cells, and figures that hold their data.

What is said is decided here once; how it looks is a format's matter. A cell keeps its number, so that a format may
align, draw or mark it; its text is the same in every format. What came from data is escaped by the format.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from steelyard.errors import printable
from steelyard.report.figures.figure import Figure

if TYPE_CHECKING:
    from steelyard.metrics.definition import Better

Tone = Literal["", "good", "bad", "open"]  # what a word or a heading says of the thing judged


_ARROWS: dict[Better | None, str] = {"higher": "↑", "lower": "↓", None: ""}


# -- cells -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Value:
    """A number: four significant digits, or as `spec` says. `None` is a number that is not defined."""

    value: float | None
    signed: bool = False
    unit: str = ""
    spec: str = ""

    @property
    def text(self) -> str:
        if self.value is None:
            return number(None)
        counts = self.unit == "rows" and float(self.value).is_integer()
        spec = ",.0f" if counts else self.spec
        shown = format(self.value, spec) if spec else number(self.value, signed=self.signed)
        return f"{shown} {self.unit}" if self.unit else shown


@dataclass(frozen=True)
class Span:
    """An interval, together with the value that it is about."""

    ends: tuple[float, float] | None
    about: float | None = None
    signed: bool = False

    @property
    def text(self) -> str:
        return interval_text(self.ends, signed=self.signed)


@dataclass(frozen=True)
class Count:
    """A whole number: how many, or with `grouped=False` one that is read digit by digit, such as a step."""

    n: int
    grouped: bool = True

    @property
    def text(self) -> str:
        return f"{self.n:,}" if self.grouped else str(self.n)


@dataclass(frozen=True)
class Word:
    """A word of a closed vocabulary, such as a verdict."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Marks:
    """Numbers of the remarks below the table."""

    numbers: tuple[int, ...]

    @property
    def text(self) -> str:
        return " ".join(f"({mark})" for mark in self.numbers)


@dataclass(frozen=True)
class MetricName:
    """A metric by its name, or by its title for people; an arrow says which direction is better.

    A number that no metric is called by, such as an area up to the coverage that two runs share, brings its title.
    """

    name: str
    better: Better | None = None
    titled: bool = False
    title: str = ""

    @property
    def text(self) -> str:
        return f"{self.shown} {_ARROWS[self.better]}".strip()

    @property
    def shown(self) -> str:
        """The name or the title, without the arrow."""
        return (self.title or title_of(self.name)) if self.titled else self.name


@dataclass(frozen=True)
class Measured:
    """A value with its interval and the numbers of its notes in one cell, where there is one per column."""

    value: float | None
    ends: tuple[float, float] | None
    marks: Marks

    @property
    def text(self) -> str:
        return " ".join(filter(None, (number(self.value), interval_text(self.ends), self.marks.text)))


Cell = (
    str | Value | Span | Count | Word | Marks | MetricName | Measured
)  # a plain text is a cell as it is, and the empty one is ""
Row = tuple[Cell, ...]


def text_of(cell: Cell) -> str:
    """The cell as people read it."""
    return cell if isinstance(cell, str) else cell.text


def title_of(name: str) -> str:
    """The title of a metric, with the slice behind it if any; a name that is no metric's is its own title.

    >>> title_of("coverage"), title_of("ece(bins=5){group.site=north}"), title_of("MarginEvaluator")
    ('Answer Rate (Coverage)', 'Expected Calibration Error, 5 bins {group.site=north}', 'MarginEvaluator')
    """
    from steelyard.metrics.definition import known_metric

    metric = known_metric(name)
    if metric is not None:
        return metric.title
    whole, brace, slice_ = name.partition("{")
    return f"{title_of(whole)} {{{slice_}" if brace and whole else name


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


def interval_text(ends: tuple[float, float] | None, *, signed: bool = False) -> str:
    """An interval for people, empty where there is none; an end that is not finite is unknown."""
    if ends is None:
        return ""
    low, high = (number(end, signed=signed) if math.isfinite(end) else "unknown" for end in ends)
    return f"[{low}, {high}]"


# -- parts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Heading:
    """What the parts below are about."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Note:
    """A paragraph; a `literal` one names options of metrics, which are no parameters of a call."""

    text: str
    literal: bool = False


@dataclass(frozen=True)
class Remarks:
    """Notes to the table above, numbered from 1."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Verbatim:
    """A text as it is: every line, blank ones too, whole."""

    text: str

    def lines(self) -> list[str]:
        """The lines, fit for a terminal."""
        return [printable(line, limit=None) for line in self.text.split("\n")]


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns.

    A column of numbers is aligned to the right; `right` names the columns to align so where the cells cannot say it.
    `drops` names the columns that a narrow terminal does without, the first to go first, and `folds` those that it
    reads in the first column.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    right: frozenset[str] | None = None
    drops: tuple[str, ...] = ()
    folds: tuple[str, ...] = ()

    def trimmed(self) -> Table:
        """The table without its empty columns; the first one stays."""
        kept = [i for i in range(len(self.columns)) if i == 0 or any(text_of(row[i]) for row in self.rows)]
        return self._only(kept)

    def without(self, names: Sequence[str]) -> Table:
        """The table without these columns."""
        return self._only([i for i, name in enumerate(self.columns) if name not in names])

    def folded(self) -> Table:
        """The table with what `folds` names in the first column, each text after a comma."""
        inner = [i for i, name in enumerate(self.columns) if i and name in self.folds]
        rows = tuple((", ".join(filter(None, (text_of(row[i]) for i in (0, *inner)))), *row[1:]) for row in self.rows)
        columns = (", ".join(self.columns[i] for i in (0, *inner)), *self.columns[1:])
        return replace(self, columns=columns, rows=rows).without(self.folds) if inner else self

    def _only(self, kept: Sequence[int]) -> Table:
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[i] for i in kept), rows=rows)

    def texts(self) -> list[list[str]]:
        """The header and every row as texts."""
        return [list(self.columns), *([text_of(cell) for cell in row] for row in self.rows)]

    def aligned_right(self) -> list[bool]:
        """Per column, True if it is aligned to the right."""
        if self.right is not None:
            return [name in self.right for name in self.columns]
        return [_numeric([row[i] for row in self.rows]) for i in range(len(self.columns))]


def _numeric(cells: Sequence[Cell]) -> bool:
    filled = [cell for cell in cells if text_of(cell)]
    return bool(filled) and all(isinstance(cell, Value | Count) for cell in filled)


Document = list[Heading | Note | Verbatim | Table | Remarks | Figure]


def titled(document: Document) -> Document:
    """The document with the titles of metrics in place of their names."""
    return [
        replace(part, rows=tuple(tuple(map(_titled, row)) for row in part.rows)) if isinstance(part, Table) else part
        for part in document
    ]


def _titled(cell: Cell) -> Cell:
    return replace(cell, titled=True) if isinstance(cell, MetricName) else cell
