"""A document's tables as CSV for programs and spreadsheets: numbers at full precision, nothing cut, nothing run.

An interval is two columns, low and high; a unit is a column of its own; notes are given in words. Control characters
are made visible.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence

from steelyard.errors import printable
from steelyard.report.document import (
    Cell,
    Count,
    Document,
    Marks,
    Measured,
    MetricName,
    Remarks,
    Row,
    Span,
    Table,
    Value,
    text_of,
)
from steelyard.report.formats.contract import report_format

_NUMBER = re.compile(r"[+-]?[0-9][0-9,]*(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_FORMULA = re.compile(r" *[=+\-@＝＋－＠]")  # wide forms count too: some spreadsheets read them as the narrow ones


@report_format("csv", suffix=".csv")
def render(document: Document) -> str:
    """Every table, one after the other, with a blank line between them."""
    blocks = []
    for part, after in zip(document, [*document[1:], None], strict=True):
        if isinstance(part, Table):
            notes = after.texts if isinstance(after, Remarks) else ()
            buffer = io.StringIO()
            writer = csv.writer(buffer, lineterminator="\n")
            writer.writerows([safe(text) for text in row] for row in zip(*_columns(part, notes), strict=True))
            blocks.append(buffer.getvalue())
    return "\n".join(blocks)


def _columns(table: Table, notes: Sequence[str]) -> list[list[str]]:
    """The columns, each after its name; one of intervals becomes two."""
    spans = sum(_holds(table.rows, i, Span) for i in range(len(table.columns)))
    columns: list[list[str]] = []
    for i, name in enumerate(table.columns):
        cells = [row[i] for row in table.rows]
        if _holds(table.rows, i, Measured):
            columns.append([name, *(_plain(c.value) if isinstance(c, Measured) else _text(c, notes) for c in cells)])
            ends = [c.ends if isinstance(c, Measured) else None for c in cells]
            columns += _ends(f"{name} ", ends)
            marks = [_text(c.marks, notes) if isinstance(c, Measured) else "" for c in cells]
            columns += [[f"{name} notes", *marks]] if any(marks) else []
        elif _holds(table.rows, i, Span):
            about = f"{table.columns[i - 1]} " if spans > 1 else ""
            columns += _ends(about, [c.ends if isinstance(c, Span) else None for c in cells])
        else:
            columns.append([name, *(_text(cell, notes) for cell in cells)])
            units = [cell.unit if isinstance(cell, Value) else "" for cell in cells]
            columns += [["unit", *units]] if any(units) else []
    return columns


def _holds(rows: Sequence[Row], i: int, kind: type[Span] | type[Measured]) -> bool:
    return any(isinstance(row[i], kind) for row in rows)


def _ends(about: str, ends: Sequence[tuple[float, float] | None]) -> list[list[str]]:
    low, high = ([_plain(None if pair is None else pair[side]) for pair in ends] for side in (0, 1))
    return [[f"{about}low", *low], [f"{about}high", *high]]


def _text(cell: Cell, notes: Sequence[str]) -> str:
    if isinstance(cell, Value):
        return _plain(cell.value)
    if isinstance(cell, Count):
        return str(cell.n)
    if isinstance(cell, MetricName):
        return cell.shown
    if isinstance(cell, Marks):
        return "; ".join(notes[mark - 1] for mark in cell.numbers) if notes else cell.text
    return text_of(cell)


def _plain(value: float | None) -> str:
    """A number as Python writes it, so that reading gives the same double; nothing where there is none."""
    if value is None or not math.isfinite(value):
        return ""
    return repr(int(value) if isinstance(value, int) else float(value))


def safe(cell: str) -> str:
    """The cell on one line, with an apostrophe before what a spreadsheet would take for a formula.

    >>> safe("=1+1"), safe("-0.5"), safe("two\\nlines")
    ("'=1+1", '-0.5', 'two\\\\nlines')
    """
    shown = printable(cell, limit=None)
    return f"'{shown}" if _FORMULA.match(shown) and not _NUMBER.fullmatch(shown) else shown
