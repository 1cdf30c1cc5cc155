"""How CSV and TSV become columns: strictly, and with kinds that hold for a whole column.

A header is required, every row has its cells, quotes are closed; anything else is an error with the line. `cell_kinds`
says which kind a column has.

White space around a value is removed where labels are stripped, counted and said, in every column that is read. In
others it is kept; where the same value occurs without it, nobody can read the column: "A" and "A<tab>" would silently
be two classes. Characters within a value, control characters included, are kept as they are.
"""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from steelyard.errors import InputError
from steelyard.records.readers.cell_kinds import CellKinds, table_of_cells
from steelyard.records.readers.contract import (
    MOST_COLUMNS,
    Certainty,
    Column,
    Table,
    give_back,
    joined,
    reader,
    readers,
)
from steelyard.records.readers.head import Head
from steelyard.records.readers.inputs import LONGEST_LINE, Input

_BATCH = 2_000  # rows; small enough to stay in the cache
_BATCHES = 64  # that are put together before there are many


def sniff(separator: str, head: Head) -> Certainty:
    """Any text may be a table, unless its first line is a JSON object; where no format goes by the suffix, one whose
    lines have equally many cells is."""
    if head.container or head.objects:
        return "no"
    named = any(each.has_suffix(head.name) for each in readers.values())
    return "likely" if head.separator == separator and not named else "maybe"


def parts(delimiter: str, source: Input, known: CellKinds | None) -> Generator[Table, None, CellKinds]:
    """The columns of an input as they are, some rows at a time: every column in the kind that all its cells have."""
    limit = csv.field_size_limit(LONGEST_LINE)
    kinds = CellKinds()
    try:
        rows = _Rows(source, delimiter)
        for piece in rows.pieces():
            cells = dict(zip(rows.wanted_names, piece, strict=True))
            kinds.learn(cells)
            if known is not None:
                columns = {name: known.column(name, column) for name, column in cells.items()}
                yield Table(columns, len(piece[0]) if piece else 0, skipped=tuple(rows.skipped))
            give_back()
        source.warnings += rows.warnings
    finally:
        csv.field_size_limit(limit)
    return kinds


@reader(
    "csv",
    about="comma-separated cells under a header",
    suffixes=(".csv",),
    sniff=partial(sniff, ","),
    parts=partial(parts, ","),
)
def load(source: Input) -> Table:
    """The columns of a CSV input."""
    return _load(source, ",")


@reader(
    "tsv",
    about="tab-separated cells under a header",
    suffixes=(".tsv", ".tab"),
    sniff=partial(sniff, "\t"),
    parts=partial(parts, "\t"),
)
def load_tabs(source: Input) -> Table:
    """The columns of a TSV input."""
    return _load(source, "\t")


def _load(source: Input, delimiter: str) -> Table:
    limit = csv.field_size_limit(LONGEST_LINE)
    try:
        rows = _Rows(source, delimiter)
        cells = _cells(rows)
    finally:
        csv.field_size_limit(limit)
    lines = np.frombuffer(rows.lines, np.int64)
    return replace(table_of_cells(source, cells, lines, rows.warnings), skipped=tuple(rows.skipped))


# -- rows ------------------------------------------------------------------------------------------------------


class _Rows:
    """The rows of an input, in pieces: of each the wanted columns as text. `lines` has the line of every row."""

    def __init__(self, source: Input, delimiter: str) -> None:
        self._source, self._delimiter = source, delimiter
        self.wanted_names: list[str] = []
        self.skipped: list[str] = []
        self.lines = array("q")
        self.warnings: list[str] = []

    def pieces(self) -> Iterator[list[Column]]:
        """Some thousands of rows at a time."""
        source, delimiter, lines = self._source, self._delimiter, self.lines
        reader = csv.reader(_lines(source), delimiter=delimiter, strict=True)
        batches: list[list[Column]] = []
        rows: list[list[str]] = []
        line = 1
        try:
            header = next(reader, [])
            _check_separator(source, header, delimiter)
            header = header_names(source, header)
            names = named(source, header)
            wanted = [place for place, name in enumerate(header) if source.want(name) != "skip"]
            self.wanted_names = [names[place] for place in wanted]
            self.skipped = [name for place, name in enumerate(names) if place not in set(wanted)]
            width, line = len(names), reader.line_num + 1
            for row in reader:
                if len(row) == width:
                    rows.append(row)
                    lines.append(line)
                elif row:
                    last = len(row) < width and not any(reader)
                    if not (source.salvage and last):
                        raise _ragged(source, line, width, len(row), delimiter)
                    self.warnings.append(source.salvaged(line, len(lines)))
                    break
                line = reader.line_num + 1
                if len(rows) == _BATCH:
                    batches.append(_batch(rows, wanted))
                    rows = []
                    if len(batches) == _BATCHES:
                        yield _merged(batches)
                        batches = []
        except csv.Error as problem:
            torn = "unexpected end of data" in str(problem) and reader.line_num == line  # else whole rows may be in it
            if not (torn and source.salvage and lines):
                raise _misquoted(source, line, str(problem)) from None
            self.warnings.append(source.salvaged(line, len(lines)))
        if not lines:
            raise source.error("there are no records: the file has a header and no rows")
        if rows:
            batches.append(_batch(rows, wanted))
        if batches:
            yield _merged(batches)


def _cells(rows: _Rows) -> dict[str, Column]:
    """The wanted columns as text."""
    pieces = list(rows.pieces())
    columns = {}
    for name in rows.wanted_names:
        give_back()
        columns[name] = joined([piece.pop(0) for piece in pieces])  # so that a column is not held twice for long
    return columns


def _lines(source: Input) -> Iterator[str]:
    number = 1
    for block in source.blocks():
        try:
            text = block.data.decode()
        except UnicodeDecodeError as problem:
            line = number + block.data.count(b"\n", 0, problem.start)
            raise source.not_utf8(block.offset + problem.start, line=line) from None
        for line_text in io.StringIO(text, newline=""):  # ends lines as the csv module does, not at U+2028
            if len(line_text) > LONGEST_LINE:
                raise source.error(f"the line is longer than {LONGEST_LINE // 2**20} MiB", line=number)
            yield line_text
            number += 1


def _check_separator(source: Input, header: Sequence[str], delimiter: str) -> None:
    if len(header) == 1 and (other := next((d for d in ";\t," if d != delimiter and d in header[0]), None)):
        shown = {";": "semicolons", "\t": "tabs", ",": "commas"}
        raise source.error(f"the columns are separated by {shown[other]}, {shown[delimiter]} are expected", line=1)


def header_names(source: Input, header: Sequence[str], line: int = 1) -> list[str]:
    """The names in the header; a column without one is called by its place."""
    if not any(name.strip() for name in header):
        raise source.error("there are no records: the file is empty, or its first line is blank", line=line)
    if len(header) > MOST_COLUMNS:
        raise source.error(f"more than {MOST_COLUMNS:,} columns", line=line)
    names = [name.strip() or f"column {place}" for place, name in enumerate(header, 1)]
    for name in names:
        if names.count(name) > 1:
            raise source.error("the column appears twice in the header", line=line, field=name)
    source.begins_with(names)
    return names


def named(source: Input, header: Sequence[str]) -> list[str]:
    """The names of the columns, as the table is to call them."""
    names = [source.column(name) for name in header]
    for name in names:
        if names.count(name) > 1:
            raise source.taken(name)
    return names


def _merged(batches: list[list[Column]]) -> list[Column]:
    """Many small arrays as one per column: they take less room."""
    return [joined(list(chunks)) for chunks in zip(*batches, strict=True)]


def _batch(rows: list[list[str]], wanted: Sequence[int]) -> list[Column]:
    columns = list(zip(*rows, strict=True))
    return [pa.array(columns[place], pa.string()) for place in wanted]


def _ragged(source: Input, line: int, width: int, cells: int, delimiter: str) -> InputError:
    hint = "; a cell that holds a comma needs quotes, a decimal comma too" if cells > width and delimiter == "," else ""
    return source.error(f"{width} cells are expected as in the header, this row has {cells}{hint}", line=line)


def _misquoted(source: Input, line: int, problem: str) -> InputError:
    if "field larger than" in problem:
        return source.error("a cell is longer than 4 MiB; a quote may be missing", line=line)
    if "unexpected end of data" in problem:
        return source.error("a quoted cell is not closed before the file ends", line=line)
    return source.error("a quoted cell is not closed, or text follows its closing quote", line=line)
