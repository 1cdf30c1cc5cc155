"""Tables and paragraphs within a width: what is dropped, wrapped or stacked, in this order, so that no line is longer.

A column that a table can do without is dropped first, in the order that the table states. Then columns that say where
a number was taken move into the first one, and texts are wrapped in their cells, at blanks where there are any. Where
even that does not fit, every row becomes a block of lines, one per cell, and nothing is dropped.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from steelyard.errors import printable
from steelyard.report.document import Cell, Count, Heading, Marks, MetricName, Span, Table, Tone, Value, Word

_GAP = "  "
_EASY, _NARROW = 24, 12  # characters that a column of texts keeps: while columns can be dropped, and at the least
_BREAKS = "_/.,(=-:{"
_WIDE = ("W", "F")
_CODES: dict[Tone, str] = {"": "", "good": "32", "bad": "31", "open": "33"}


@dataclass(frozen=True)
class Style:
    """What a terminal can show besides text."""

    bold: bool = False
    colour: bool = False

    def shown(self, text: str, *, tone: Tone = "", strong: bool = False) -> str:
        """The text between the codes for it."""
        codes = [code for code in ("1" if strong and self.bold else "", _CODES[tone] if self.colour else "") if code]
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes and text else text

    def heading(self, heading: Heading, text: str) -> str:
        """A heading, in the colour of what it says."""
        return self.shown(text, tone=heading.tone, strong=True)

    def cell(self, cell: Cell, text: str) -> str:
        """A cell: verdicts in colour, metrics in bold."""
        if isinstance(cell, Word):
            return self.shown(text, tone=cell.tone, strong=bool(cell.tone))
        return self.shown(text, strong=True) if isinstance(cell, MetricName) else text


PLAIN = Style()


def line(text: str) -> str:
    """A text on one line, fit for a terminal."""
    return printable(text, limit=2000)


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes.

    >>> columns_of("né"), columns_of("ne\u0301"), columns_of("日本")
    (2, 2, 4)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in _WIDE else 1 for c in text)


def wrapped(text: str, width: int | None, *, indent: int = 0) -> list[str]:
    """The text in lines of at most this width, broken at blanks; a longer word is broken where it must be.

    Lines after the first are indented.

    >>> wrapped("one two three", 8, indent=2)
    ['one two', '  three']
    """
    if width is None or columns_of(text) <= width:
        return [text]
    lines: list[str] = []
    current = text[: len(text) - len(text.lstrip(" "))]
    begun = False
    for word in text.split():
        joined = f"{current} {word}" if begun else f"{current}{word}"
        if columns_of(joined) <= width:
            current, begun = joined, True
            continue
        if begun:
            lines.append(current)
            current = " " * indent
        for piece in _pieces(word, max(1, width - max(columns_of(current), indent))):
            if columns_of(current) + columns_of(piece) > width:
                lines.append(current)
                current = " " * indent
            current += piece
        begun = True
    return [*lines, current]


def _pieces(word: str, width: int) -> Iterator[str]:
    """A long word in pieces, broken after a mark between its parts where there is one."""
    while columns_of(word) > width:
        fits = max(1, next((n for n in range(len(word), 0, -1) if columns_of(word[:n]) <= width), 1))
        end = max(word.rfind(mark, 0, fits) for mark in _BREAKS) + 1
        end = end if end > fits // 3 else fits
        yield word[:end]
        word = word[end:]
    yield word


def table_lines(table: Table, width: int | None, style: Style = PLAIN) -> tuple[list[str], tuple[str, ...]]:
    """The lines of a table, and the names of the columns that were dropped so that it fits."""
    table = table.trimmed()
    if width is None:
        return list(_grid(table, _natural(table), style)), ()
    dropped: list[str] = []
    narrower = table
    for name in ("", *(name for name in table.drops if name in table.columns)):
        dropped += [name] if name else []
        narrower = table.without(dropped)
        widths = _fitting(narrower, width, _EASY)
        if widths is not None:
            return list(_grid(narrower, widths, style)), tuple(dropped)
    for shape, least in ((narrower.folded(), _EASY), (narrower, _NARROW), (narrower.folded(), _NARROW)):
        widths = _fitting(shape, width, least)
        if widths is not None:
            return list(_grid(shape, widths, style)), tuple(dropped)
    return list(_stacked(table, width, style)), ()


def _texts(table: Table) -> list[list[str]]:
    return [[line(text) for text in row] for row in table.texts()]


def _natural(table: Table) -> list[int]:
    return [max(map(columns_of, column)) for column in zip(*_texts(table), strict=True)]


def _fitting(table: Table, width: int, least: int) -> list[int] | None:
    """The widths of the columns so that a line fits; None where they cannot."""
    header, *rows = _texts(table)
    widths = _natural(table)
    narrowest = []
    for i, (name, natural) in enumerate(zip(header, widths, strict=True)):
        of_name = max(map(columns_of, name.split()), default=0)
        whole = any(isinstance(row[i], Value | Span | Count | Word) for row in table.rows)
        marks = any(isinstance(row[i], Marks) for row in table.rows)
        of_cells = max(
            (columns_of(text) for row in rows for text in (row[i].split() if marks else [row[i]])), default=0
        )
        named = any(isinstance(row[i], MetricName) for row in table.rows)
        kept = max(least, of_cells // 2 + 2) if named else least  # a metric's name has two lines, not five
        narrowest.append(max(of_name, of_cells if whole else min(kept, of_cells)))
        widths[i] = max(natural, narrowest[i])
    room = width - len(_GAP) * (len(widths) - 1)
    if sum(narrowest) > room:
        return None
    while sum(widths) > room:
        widest = max((i for i in range(len(widths)) if widths[i] > narrowest[i]), key=lambda i: widths[i])
        widths[widest] -= 1
    return widths


def _grid(table: Table, widths: Sequence[int], style: Style) -> Iterator[str]:
    header, *rows = _texts(table)
    right = table.aligned_right()
    strong = [Word(name) for name in header]
    yield from _row(header, strong, widths, right, Style(bold=style.bold), head=True)
    yield _GAP.join("-" * width for width in widths)
    for texts, cells in zip(rows, table.rows, strict=True):
        yield from _row(texts, cells, widths, right, style)


def _row(
    texts: Sequence[str],
    cells: Sequence[Cell],
    widths: Sequence[int],
    right: Sequence[bool],
    style: Style,
    *,
    head: bool = False,
) -> Iterator[str]:
    """A row in as many lines as its longest cell takes; what a cell goes on with is indented."""
    blocks = [wrapped(text, width, indent=0 if head else 2) for text, width in zip(texts, widths, strict=True)]
    for k in range(max(map(len, blocks))):
        parts = [
            (cell, block[k] if k < len(block) else "", width, numbers)
            for cell, block, width, numbers in zip(cells, blocks, widths, right, strict=True)
        ]
        while len(parts) > 1 and not parts[-1][1]:
            parts.pop()
        yield _GAP.join(
            _padded(style.shown(text, strong=True) if head else style.cell(cell, text), text, width, numbers,
                    last=place == len(parts) - 1)
            for place, (cell, text, width, numbers) in enumerate(parts)
        )  # fmt: skip


def _padded(shown: str, text: str, width: int, right: bool, *, last: bool) -> str:
    blanks = " " * (width - columns_of(text))
    if right:
        return blanks + shown
    return shown if last else shown + blanks


def _stacked(table: Table, width: int, style: Style) -> Iterator[str]:
    """Every row as a block: a line per cell that is not empty, after the name of its column."""
    header, *rows = _texts(table)
    names = min(max(map(columns_of, header)), max(_NARROW, width // 3))
    for place, (texts, cells) in enumerate(zip(rows, table.rows, strict=True)):
        if place:
            yield ""
        for name, text, cell in zip(header, texts, cells, strict=True):
            if not text:
                continue
            labels = wrapped(name, names)
            values = wrapped(text.strip(), width - names - len(_GAP))
            for k in range(max(len(labels), len(values))):
                label = labels[k] if k < len(labels) else ""
                value = values[k] if k < len(values) else ""
                yield f"{label}{' ' * (names - columns_of(label))}{_GAP}{style.cell(cell, value)}".rstrip()


def paragraphs(texts: Iterable[str], width: int | None, *, indent: int = 0) -> list[str]:
    """Texts as lines within a width."""
    return [part for text in texts for part in wrapped(line(text), width, indent=indent)]
