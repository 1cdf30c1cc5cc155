"""How JSON documents become columns: an array of objects, or columns under their names.

    [{"item": "q1", "target": "A"}, {"item": "q2", "target": "B"}]
    {"item": ["q1", "q2"], "target": ["A", "B"]}
    {"item": {"0": "q1", "1": "q2"}, "target": {"0": "A", "1": "B"}}       as pandas writes a frame
    {"columns": ["item", "target"], "data": [["q1", "A"], ["q2", "B"]]}    as pandas writes it with orient="split"

An array is read as it comes, in bounded memory, by the rules of JSON Lines; in errors, the line is the one on which the
row's object begins. Columns are read whole, so there is a limit; they have no lines: the line is the number of the row.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError, counted, printable
from steelyard.ground.json import Flaw, NotJsonError, parse_document
from steelyard.records.readers.contract import Certainty, Learned, Table, reader
from steelyard.records.readers.head import Head
from steelyard.records.readers.inputs import LONGEST_LINE, Block, Input
from steelyard.records.readers.json_learning import Fields
from steelyard.records.readers.jsonl import Lines
from steelyard.records.schema import FIELDS

LARGEST = 256 * 2**20  # bytes of a document of columns, which is held in memory
_ROWS = 5_000  # rows of columns that are read together
_SPACES = b" \t\r\n"
_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*\[[ \t\r\n]*([{\]]|\Z)")
_SPLIT = frozenset(("columns", "index", "data"))
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_IS_SPACE = np.zeros(256, np.bool_)
_IS_SPACE[list(_SPACES)] = True
_LINE_FEED, _COMMA, _QUOTE, _BRACE, _BRACKET, _BLANK = b'\n,"{] '
_EXPECTED = "an array of objects is expected, this element is something else"
_TOO_LONG = f"the object is longer than {LONGEST_LINE // 2**20} MiB"


def sniff(head: Head) -> Certainty:
    """An array of objects, or an object in which every value in sight is a list, or every one an object.

    Documents of special formats may look like columns too: it is likely where a column is called as one of ours is.
    """
    if head.container or len(head.objects) > 1:
        return "no"
    if head.json == "array":
        return "likely" if _ARRAY.match(head.data) else "no"
    if len(set(head.openings) - {""}) != 1 or head.openings[0] not in "[{":
        return "no"
    split = {"columns", "data"} <= set(head.keys) <= _SPLIT
    ours = any(key in FIELDS and "list" not in FIELDS[key].kinds for key in head.keys)
    return "likely" if split or ours else "maybe"


def parts(source: Input, known: Fields | None) -> Generator[Table, None, Learned]:
    """The columns of a JSON document, some rows of an array at a time; columns are one part."""
    is_array, chunks = _begun(source)
    if is_array:
        return (yield from _Array(source, known).parts(chunks))
    whole = _columns(source, source.text(LARGEST, begun=chunks))
    if known is not None:
        yield whole
    return _Columns(tuple(whole.columns))


@reader(
    "json",
    about="an array of objects, or an object of columns: lists of equal length",
    suffixes=(".json",),
    sniff=sniff,
    parts=parts,
)
def load(source: Input) -> Table:
    """The columns of a JSON document."""
    is_array, chunks = _begun(source)
    if is_array:
        return _Array(source).table(chunks)
    return _columns(source, source.text(LARGEST, begun=chunks))


def _begun(source: Input) -> tuple[bool, Iterator[bytes]]:
    """Whether the document is an array, and its text."""
    chunks = source.chunks()
    first = b""
    for chunk in chunks:
        first += chunk
        if first.strip(_SPACES):
            break
    return first.lstrip(_SPACES).startswith(b"["), chain([first], chunks)


@dataclass(frozen=True)
class _Columns:
    """What is known of a document of columns, which is read whole."""

    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[tuple[str, ...], ...]:
        return (self.names,)


# -- arrays ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Scan:
    """Where the elements in a piece of an array start and end, and what else there is between them.

    `close` is where the array ends, if it does here; `breaks` are line ends within strings, which JSON does not allow.
    The piece ends `inside` a string, or not, and at a `depth` of objects and lists.
    """

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    between: npt.NDArray[np.int64]
    breaks: npt.NDArray[np.int64]
    close: int | None
    inside: bool
    depth: int

    @classmethod
    def of(cls, text: bytes, *, inside: bool = False, depth: int = 0) -> Scan:
        """Scan a text that begins within an array: outside of its elements, or where another piece ended.

        A piece must not end between a backslash and what it escapes.
        """
        plain = text.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")  # so that every quote left opens or closes
        letters = np.frombuffer(plain, np.uint8)
        within_text = np.bitwise_xor.accumulate((letters == _QUOTE).view(np.uint8)).view(np.bool_) ^ inside
        steps = _STEPS[letters]
        steps[within_text] = 0
        depths = np.cumsum(steps, dtype=np.int32) + np.int32(depth)
        closed = np.flatnonzero(depths < 0)
        close = int(closed[0]) if len(closed) else None
        last = (bool(within_text[-1]), int(depths[-1])) if len(letters) else (inside, depth)
        within, depths, steps = slice(close), depths[:close], steps[:close]
        outside = (depths == 0) & (steps == 0) & ~_IS_SPACE[letters[within]]
        return cls(
            starts=np.flatnonzero((steps == 1) & (depths == 1)),
            ends=np.flatnonzero((steps == -1) & (depths == 0)) + 1,
            between=np.flatnonzero(outside),
            breaks=np.flatnonzero(within_text[within] & (letters[within] == _LINE_FEED)),
            close=close,
            inside=last[0],
            depth=last[1],
        )


class _Array:
    """The state of reading an array: what is not read yet, where it is in the text, and the lines of the rows."""

    def __init__(self, source: Input, known: Fields | None = None) -> None:
        self._source = source
        self._rows = Lines(source, _element, known)
        self._lines = array("q")
        source.row_lines = self._lines
        self._rest = b""
        self._line, self._offset = 1, 0  # of what is not read yet
        self._closed = False

    def table(self, chunks: Iterator[bytes]) -> Table:
        """All rows of the array."""
        with self._rows.all_problems():
            for _ in self._pieces(chunks):
                pass
            table = self._rows.table()
            return replace(table, lines=np.array(self._lines[: table.rows], np.int64))

    def parts(self, chunks: Iterator[bytes]) -> Generator[Table, None, Fields]:
        """The same, some rows at a time."""
        with self._rows.all_problems():
            for _ in self._pieces(chunks):
                yield from self._rows.part()
            yield from self._rows.part(last=True)
        self._rows.say()
        return self._rows.fields

    def _pieces(self, chunks: Iterator[bytes]) -> Iterator[None]:
        """Read the text, a piece at a time."""
        self._open(next(chunks))
        for chunk in chain([b""], chunks):
            self._rest += chunk
            if self._rest and not self._closed:
                self._read()
            if self._closed:
                self._check_rest()
            yield
        if not self._closed:
            self._torn()
        if not self._lines:
            raise self._source.error("there are no records: the array is empty")

    def _check_rest(self) -> None:
        more = self._rest.lstrip(_SPACES)
        if more:
            raise self._error("not valid JSON, more follows the array", len(self._rest) - len(more))
        self._leave(len(self._rest))

    def _open(self, first: bytes) -> None:
        self._offset = self._source.mark
        self._rest = first
        self._leave(first.index(b"[") + 1)

    def _read(self) -> None:
        """Read the elements that are whole, up to the first thing that no array of objects holds."""
        scan = Scan.of(self._rest)
        wrong = min(self._wrong(scan), default=None)
        ends = scan.ends if wrong is None else scan.ends[scan.ends <= wrong[0]]
        error = None if wrong is None else self._error(wrong[1], wrong[0])
        end = int(ends[-1]) if len(ends) else 0
        if end:
            breaks = np.flatnonzero(np.frombuffer(self._rest, np.uint8, end) == _LINE_FEED)
            lines = np.searchsorted(breaks, scan.starts[: len(ends)]) + self._line
            block = Block(self._as_lines(scan.between[scan.between < end], end), self._offset, last=False)
            self._lines.frombytes(lines.astype(np.int64).tobytes())
            self._rows.read(block)
            self._leave(end)
        if error is not None:
            raise error
        if scan.close is not None:
            self._closed = True
            self._leave(scan.close + 1 - end)
        elif len(self._rest) > LONGEST_LINE:
            start = max(self._rest.find(b"{"), 0)
            raise self._malformed(start) or self._error(_TOO_LONG, start)

    def _as_lines(self, commas: npt.NDArray[np.int64], end: int) -> bytes:
        """The elements as one line each: every byte stays where it is, so that places in errors are right."""
        letters = np.frombuffer(self._rest, np.uint8, end).copy()
        letters[letters == _LINE_FEED] = _BLANK
        letters[commas[bool(self._lines) :]] = _LINE_FEED
        letters[commas[: bool(self._lines)]] = _BLANK  # it follows what was read before
        return letters.tobytes()

    def _wrong(self, scan: Scan) -> Iterator[tuple[int, str]]:
        """Places that no array of objects has, and what is wrong there: the first of each sort."""
        letters = np.frombuffer(self._rest, np.uint8)
        for at in scan.between[letters[scan.between] != _COMMA][:1]:
            yield int(at), _EXPECTED
        for at in scan.starts[letters[scan.starts] != _BRACE][:1]:
            yield int(at), _EXPECTED
        for at in scan.breaks[:1]:
            yield int(at), "not valid JSON, a line ends inside a text"
        due = np.arange(len(scan.starts)) + bool(self._lines)  # commas before each element
        for at in scan.starts[np.searchsorted(scan.between, scan.starts) != due][:1]:
            yield int(at), "not valid JSON, one comma is expected between two objects"
        starts = scan.starts[: len(scan.ends)]
        for at in starts[scan.ends[: len(starts)] - starts > LONGEST_LINE][:1]:
            yield int(at), _TOO_LONG
        if scan.close is not None and letters[scan.close] != _BRACKET:
            yield scan.close, "not valid JSON, the array is not closed"
        elif scan.close is not None and len(scan.between) > max(len(scan.starts) + bool(self._lines) - 1, 0):
            yield scan.close, "not valid JSON, an object is expected behind the comma"

    def _leave(self, end: int) -> None:
        """Go on behind what was read."""
        self._line += self._rest.count(b"\n", 0, end)
        self._offset += end
        self._rest = self._rest[end:]

    def _torn(self) -> None:
        """The text ends inside the array: an error, or with `salvage` a warning."""
        start = self._rest.find(b"{")
        if start >= 0 and (error := self._malformed(start)):
            raise error
        if self._source.is_cut:  # which the input says
            return
        whole = len(self._lines)
        self._lines.append(self._line + self._rest.count(b"\n", 0, max(start, 0)))
        if not self._source.salvage:
            raise self._source.torn(whole + 1, whole)
        self._source.warnings.append(self._source.salvaged(whole + 1, whole))
        self._lines.pop()

    def _malformed(self, start: int) -> InputError | None:
        """What is wrong with an object that does not end, unless it is only cut off."""
        try:
            parse_document(self._rest[start:])
        except NotJsonError as problem:
            return None if problem.torn else self._error(problem.problem, start, (problem.line or 1) - 1)
        return None

    def _error(self, problem: str, place: int, lines: int = 0) -> InputError:
        line = self._line + self._rest.count(b"\n", 0, place) + lines
        return InputError(problem, file=self._source.name, line=line)


def _element(raw: bytes) -> dict[str, Any] | Flaw:
    """The object that msgspec refused, for its reason."""
    try:
        value: dict[str, Any] | Flaw = parse_document(raw)
    except NotJsonError as problem:
        what = problem.problem if problem.line is None else "not valid JSON in this object"
        raise NotJsonError(what, byte=problem.byte) from None
    return value


# -- columns -----------------------------------------------------------------------------------------------------------


def _columns(source: Input, text: bytes) -> Table:
    """The rows of a document that holds columns."""
    try:
        document = parse_document(text)
    except NotJsonError as problem:
        if problem.byte is not None and not problem.torn:
            raise source.not_utf8(problem.byte + source.mark) from None
        raise source.error(problem.problem, line=problem.line) from None
    if isinstance(document, Flaw):
        raise source.error(document.problem, field=document.key)
    if not isinstance(document, dict) or not document:
        raise source.error("an array of objects is expected, or an object of columns")
    split = {"columns", "data"} <= set(document) <= _SPLIT
    columns = _of_split(source, document) if split else _of_columns(source, document)
    rows = len(next(iter(columns.values())))
    lines = Lines(source)
    for start in range(0, rows, _ROWS):
        batch = zip(*(values[start : start + _ROWS] for values in columns.values()), strict=True)
        lines.objects([(row, dict(zip(columns, each, strict=True))) for row, each in enumerate(batch, start + 1)])
    if not rows:
        raise source.error("there are no records: the columns are empty")
    return lines.table()


def _of_columns(source: Input, document: dict[str, Any]) -> dict[str, list[Any]]:
    """Columns that are lists of one length, or objects by row with the same keys."""
    first = next(iter(document))
    shape: Any = document[first]
    for name, values in document.items():
        field = source.known_as(name)
        if isinstance(values, Flaw):
            raise source.error(values.problem, field=field)
        if not isinstance(values, list | dict):
            raise source.error("a column is expected: a list of values, one per row", field=field)
        if isinstance(values, list) is not isinstance(shape, list):
            raise source.error(f"'{printable(first)}' is a list and this is not, or the reverse", field=field)
        if len(values) != len(shape):
            raise source.error(
                f"this column has {counted(len(values), 'row')} and '{printable(first)}' {len(shape):,}; "
                "all have one length",
                field=field,
            )
        if isinstance(values, dict) and set(values) != set(shape):
            raise source.error(f"the rows of this column are not those of '{printable(first)}'", field=field)
    if isinstance(shape, list):
        return document
    if not any(source.known_as(name) in FIELDS for name in document) and any(name in FIELDS for name in shape):
        raise source.error("the rows are under their own names here; write an array of objects instead (records)")
    return {name: [values[row] for row in shape] for name, values in document.items()}


def _of_split(source: Input, document: dict[str, Any]) -> dict[str, list[Any]]:
    """Columns from a list of names and a list of rows."""
    names, rows = document["columns"], document["data"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise source.error("a list of names is expected", field="columns")
    if len(set(names)) != len(names):
        raise source.error("a name appears twice", field="columns")
    if not isinstance(rows, list):
        raise source.error("a list of rows is expected", field="data")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, list) or len(row) != len(names):
            raise source.error(
                f"a list of {counted(len(names), 'value')} is expected, as there are names", line=number, field="data"
            )
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}
