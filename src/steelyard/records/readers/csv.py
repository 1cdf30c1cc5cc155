"""How CSV and TSV become columns: strictly, and with kinds that hold for a whole column.

A header is required, every row has its cells, quotes are closed; anything else is an error with the line. Only the
empty cell is null: `NA` and `None` are data. A column whose cells are all whole numbers holds whole numbers, all
numbers: numbers, all true or false: booleans, else text. `007` has a meaning that a number would lose, so it is
text. Known columns hold what the vocabulary says; ids are text unless all are whole numbers. `target` and
`prediction` are decided together, so that the label 1 of one is the label 1 of the other.

White space around a value is removed where labels are stripped, counted and said, in every column that is read. In
others it is kept; where the same value occurs without it, nobody can read the column: "A" and "A<tab>" would silently
be two classes. Characters within a value, control characters included, are kept as they are.
"""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import InputError
from steelyard.ground.json import TOO_LARGE
from steelyard.records.answers import BLANK, removed, stripped
from steelyard.records.extras import Extra
from steelyard.records.readers.contract import (
    LONGEST_LINE,
    MOST_COLUMNS,
    Certainty,
    Column,
    Input,
    Table,
    give_back,
    joined,
    reader,
    readers,
)
from steelyard.records.readers.head import Head
from steelyard.records.schema import Field, expected, field_of

_BATCH = 2_000  # rows; small enough to stay in the cache
_BATCHES = 64  # that are put together before there are many
_INT = r"0|-?[1-9][0-9]{0,17}"
_EXACT = r"0|-?[1-9][0-9]{0,14}"  # a whole number that a float holds exactly
_FRACTION = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)|-?\.[0-9]+(?:[eE][+-]?[0-9]+)?"
_PATTERNS = {"int": _INT, "float": f"-0|{_EXACT}|{_FRACTION}", "bool": "(?i:true|false)"}
_NOT_FINITE = r"[+-]?(?i:nan|inf|infinity)"
_LABELS = ("target", "prediction")
_FINITE = "a finite number is expected (leave the cell empty where a value is missing)"


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


def table_of_cells(source: Input, cells: dict[str, Column], lines: npt.NDArray[np.int64], warnings: list[str]) -> Table:
    """The table of columns that are text so far, each in the kind that all its cells have; `cells` is used up."""
    first, count = int(lines[0]), len(lines)
    typed = _typed(source, cells, lines)
    return replace(
        typed,
        lines=None if int(lines[-1]) == first + count - 1 else lines,
        first_line=first,
        warnings=(*warnings, *typed.warnings),
    )


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


# -- kinds -----------------------------------------------------------------------------------------------------


def _typed(source: Input, cells: dict[str, Column], lines: npt.NDArray[np.int64]) -> Table:
    """The columns in their kinds; those of which something is wrong are no columns of the table."""
    texts, warnings = {}, []
    rules = source.labels
    while cells:
        give_back()
        name, column = cells.popitem()
        if rules.labels != "exact" and (field_of(name) is not None or name in source.demand.asked):
            column, count = stripped(column)
            warnings += [removed(name, count)] if count else []
        texts[name] = _without_empty(column)
    texts = dict(reversed(texts.items()))
    no_answers = rules.no_answers(texts["prediction"]) if "prediction" in texts else {}
    for mask in no_answers.values():
        texts["prediction"] = pc.if_else(pa.array(mask), pa.scalar(None, pa.string()), texts["prediction"])
    labels = [texts[name] for name in ("target", "prediction") if name in texts]
    columns: dict[str, Column] = {}
    problems: list[InputError] = []
    extras: dict[str, Extra] = {}
    for name in list(texts):
        column = texts.pop(name)
        try:
            judged = labels if name in ("target", "prediction") else [column]
            columns[name] = _column(column, field_of(name), judged, exact=rules.labels == "exact")
        except _CellError as wrong:
            line = int(lines[wrong.row])
            problem = source.error(wrong.problem, line=line, field=name, rows=wrong.rows)
            if source.demand.of(name, scored=source.scored) == "read":
                problems.append(problem)
            else:
                extras[name] = Extra(column, problem)
    return Table(
        columns,
        len(lines),
        warnings=tuple(reversed(warnings)),
        problems=tuple(problems),
        extras=extras,
        no_answers=no_answers,
    )


class _CellError(Exception):
    """What is wrong with the cells that `bad` is true for."""

    def __init__(self, problem: str, bad: Column) -> None:
        self.problem, self.row = problem, int(pc.index(bad, pa.scalar(True)).as_py())
        self.rows = int(pc.sum(bad).as_py())


def _column(column: Column, field: Field | None, judged: Sequence[Column], *, exact: bool) -> Column:
    """A column of text in the kind of all the `judged` ones."""
    kinds = _kinds_of(field)
    if all(len(each) == each.null_count for each in judged):
        return pa.nulls(len(column))
    patterns = _patterns(field)
    kind = next((k for k in patterns if k in kinds and all(_all_match(c, patterns[k]) for c in judged)), "text")
    if kind == "text":
        if field is not None and "text" not in kinds:
            raise _unlike(column, kinds[0], field)
        if field is None and not exact:
            _check_edges(column)
        if "float" in kinds:
            _check_not_finite(column)
        return column
    numbers = _cast(column, kind)
    if kind == "float" and pc.any(pc.is_inf(numbers)).as_py():
        raise _CellError("a finite number is expected, this one is too large", pc.is_inf(numbers))
    return numbers


def _kinds_of(field: Field | None) -> tuple[str, ...]:
    """The kinds that a column may have."""
    kinds = field.kinds if field else ("int", "float", "bool", "text")
    return ("float",) if kinds == ("int", "float") else kinds


def _patterns(field: Field | None) -> dict[str, str]:
    return _PATTERNS if field is None or "float" not in _kinds_of(field) else {**_PATTERNS, "int": _EXACT}


def _cast(column: Column, kind: str) -> Column:
    if kind == "bool":
        return pc.equal(pc.utf8_lower(column), pa.scalar("true", column.type))
    return column.cast(pa.int64() if kind == "int" else pa.float64())


class CellKinds:
    """The kinds that the cells of every column may have, as far as they were read; kept as they are, none is wrong."""

    def __init__(self) -> None:
        self._kinds: dict[str, list[str]] = {}
        self._stated: set[str] = set()  # columns with a cell that is not empty

    def learn(self, cells: Mapping[str, Column]) -> None:
        """Learn from some cells; `target` and `prediction` have one kind."""
        for name, column in cells.items():
            before = self._kinds.get(name, [*_PATTERNS])
            given = _without_empty(column)
            self._kinds[name] = [kind for kind in before if _may_be(given, kind, field_of(name))]
            if given.null_count < len(given):
                self._stated.add(name)

    @property
    def shape(self) -> tuple[tuple[str, ...], ...]:
        return tuple((name, self._kind(name)) for name in self._kinds)

    def column(self, name: str, cells: Column) -> Column:
        """Cells of a column in its kind."""
        kind, given = self._kind(name), _without_empty(cells)
        return given if kind == "text" else pa.nulls(len(cells)) if kind == "null" else _cast(given, kind)

    def _kind(self, name: str) -> str:
        judged = [each for each in _LABELS if each in self._kinds] if name in _LABELS else [name]
        if not any(each in self._stated for each in judged):
            return "null"
        field = field_of(name)
        possible = _kinds_of(field)
        return next((k for k in _PATTERNS if k in possible and all(k in self._kinds[j] for j in judged)), "text")


def _without_empty(column: Column) -> Column:
    empty = pc.equal(column, pa.scalar("", column.type))
    return pc.if_else(empty, pa.scalar(None, column.type), column) if pc.any(empty).as_py() else column


def _may_be(column: Column, kind: str, field: Field | None) -> bool:
    if not _all_match(column, _patterns(field)[kind]):
        return False
    return kind != "float" or not pc.any(pc.is_inf(column.cast(pa.float64())), min_count=0).as_py()


def _unlike(column: Column, kind: str, field: Field) -> _CellError:
    """Say what a cell holds instead of its known kind."""
    bad: Column = pc.invert(_match(column, _PATTERNS[kind]))
    cell = column.filter(bad)[0].as_py()
    problem = f"{expected(field)} is expected"
    if kind != "bool" and re.fullmatch(r"-?[0-9]+,[0-9]+", cell):
        problem += "; write a decimal point, not a decimal comma"
    elif kind != "bool" and re.fullmatch(_NOT_FINITE, cell):
        problem = _FINITE
    elif kind != "bool" and re.fullmatch(r"-?[1-9][0-9]*", cell):
        problem = TOO_LARGE
    elif cell.strip() != cell:
        problem += "; white space surrounds the value"
    return _CellError(problem, bad)


def _check_edges(column: Column) -> None:
    """Refuse a column in which a value occurs with white space around it and without."""
    edged: Column = pc.match_substring_regex(column, f"^{BLANK}|{BLANK}$")
    if not pc.any(edged).as_py():
        return
    trimmed = partial(pc.replace_substring_regex, pattern=f"^{BLANK}+|{BLANK}+$", replacement="")
    counts: Column = pc.value_counts(trimmed(pc.unique(column)))
    merged = counts.filter(pc.greater(counts.field("counts"), pa.scalar(1))).field("values")
    merged = merged.filter(pc.not_equal(merged, pa.scalar("", merged.type)))  # blanks of two kinds surround nothing
    edged = pc.and_(edged, pc.is_in(trimmed(column), merged))
    if pc.any(edged).as_py():
        raise _CellError("white space (a blank, tab or line end) surrounds the value; remove it", edged)


def _check_not_finite(column: Column) -> None:
    """A column of numbers and NaN is not a column of text."""
    numbers = _match(column, _PATTERNS["float"])
    others = _match(column, _NOT_FINITE)
    if pc.any(others).as_py() and pc.any(numbers).as_py() and pc.all(pc.or_(numbers, others)).as_py():
        raise _CellError(_FINITE, others)


def _match(column: Column, pattern: str) -> Column:
    return pc.match_substring_regex(column, f"^(?:{pattern})$")


def _all_match(column: Column, pattern: str) -> bool:
    """True if all cells that are not empty match; most columns that do not are known by their first cells."""
    return all(pc.all(_match(part, pattern), min_count=0).as_py() for part in (column[:1000], column))
