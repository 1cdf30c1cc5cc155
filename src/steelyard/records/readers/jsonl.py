"""How JSON Lines become columns: one object per line, at the speed of msgspec, with honest errors.

    {"item": "q1", "target": "A", "prediction": "B", "confidence": 0.8, "group": {"site": "x"}, "words": 25}

Nested objects flatten to dotted columns (`group.site`), lists of plain values of one kind stay lists, blank
lines are skipped. The reader learns the fields and their kinds from the lines and has msgspec decode into exactly
those. A line that msgspec refuses is read again by `strict_json`, and either teaches the reader something new (a
field, a fraction where whole numbers were) or is refused with the reason.

msgspec lets the last of two equal keys win. A text has at least as many colons as keys, so where the lines have
exactly as many colons as the rows have fields, no key is a duplicate. Otherwise suspicious lines are read again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from steelyard.errors import InputError
from steelyard.ground.json import TOO_LARGE, Flaw, NotJsonError, parse_line
from steelyard.records.readers.contract import (
    DEEPEST,
    LONGEST_LINE,
    MOST_COLUMNS,
    Block,
    Certainty,
    Column,
    Input,
    Table,
    joined,
    reader,
)
from steelyard.records.readers.head import Head
from steelyard.records.readers.json_fields import KINDS, Leaf, Node, extract, fit, inexact
from steelyard.records.schema import FIELDS, SHOWN, expected

_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def sniff(head: Head) -> Certainty:
    """Two lines that are objects are JSON Lines; one alone may be a document of another format."""
    if head.container:
        return "no"
    return "likely" if len(head.objects) > 1 else "maybe"


@reader("jsonl", about="one JSON object per line", suffixes=(".jsonl", ".ndjson"), sniff=sniff)
def load(source: Input) -> Table:
    """The columns of a JSON Lines input."""
    lines = Lines(source)
    for block in source.blocks():
        lines.read(block)
    return lines.table()


class _Refusing:
    """Takes the place of msgspec where it cannot help: before the first line, and with names that it does not take."""

    def decode(self, _: bytes) -> NoReturn:
        raise msgspec.DecodeError

    decode_lines = decode


class Lines:
    """The state of reading one input: the fields learned so far, and batches of columns made of its lines.

    `parse` reads a line that msgspec refuses.
    """

    def __init__(self, source: Input, parse: Callable[[bytes], dict[str, Any] | Flaw] = parse_line) -> None:
        self._source, self._parse = source, parse
        self._root = Node()
        self._decoder: Any = _Refusing()
        self._stale = True  # whether something was learned since the Structs were made
        self._patience = 1  # how many lines teach before a Struct is made; doubles, as making one is slow
        self._columns: dict[str, str] = {}  # column -> the field it comes from
        self._batches: list[tuple[int, dict[str, Column]]] = []
        self._rows = 0
        self._next = 1  # the number of the first line of the next block
        self._blank: list[int] = []
        self._warnings: list[str] = []

    def read(self, block: Block) -> None:
        """Read the lines of a block into batches; a new field or kind closes a batch."""
        if len(block.data) > LONGEST_LINE and block.data.find(b"\n", 0, LONGEST_LINE + 1) < 0:
            raise self._source.error(f"the line is longer than {LONGEST_LINE // 2**20} MiB", line=self._next)
        rows = self._at_once(block.data)
        if rows is not None:
            self._close(rows, block.data, self._next)
            self._next += len(rows)
            return
        lines = block.data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        number, self._next = self._next, self._next + len(lines)
        pending = iter(lines)
        rows = []
        objects: list[tuple[int, dict[str, Any]]] = []  # the next rows, waiting for a Struct to be made for them
        first = blank = 0  # the batch's first line, and how many of its lines were blank
        while True:
            try:
                rows.extend(map(self._decoder.decode, pending))  # keeps what it has when a line is refused
                break
            except _REFUSED:
                at = first + len(rows) + len(objects) + blank
            if not lines[at].strip():
                blank += 1
                self._blank.append(number + at)
                continue
            try:
                values = self._object(lines[at], number + at)
                learned = self._learn(self._root, values, (), number + at)
            except NotJsonError as problem:
                last = block.last and not any(map(bytes.strip, pending))
                if not (problem.torn and last):
                    self._close(rows, b"\n".join(lines[first:at]), number + first)  # has it an earlier problem?
                    start = block.offset + sum(map(len, lines[:at])) + at
                    raise self._not_json(problem, number + at, start) from None
                self._torn(number + at, self._rows + len(rows) + len(objects))
                del lines[at:]
                break
            except InputError:
                self._close(rows, b"\n".join(lines[first:at]), number + first)
                raise
            if learned and not objects:
                self._close(rows, b"\n".join(lines[first:at]), number + first)
                rows, first, blank = [], at, 0
                self._decoder, self._stale, self._patience = _Refusing(), True, 2 * self._patience
            objects.append((number + at, values))
            if not self._stale or len(objects) >= self._patience:
                rows += self._structs(objects)
                objects = []
        rows += self._structs(objects)
        self._close(rows, b"\n".join(lines[first:]), number + first)

    def objects(self, rows: list[tuple[int, dict[str, Any]]]) -> None:
        """Read objects that are parsed already, each with its line, as lines are read."""
        learned = [self._learn(self._root, values, (), number) for number, values in rows]
        self._stale |= any(learned)
        self._batch(self._structs(rows))

    def table(self) -> Table:
        """All batches as one table."""
        if not self._rows:
            raise self._source.error("there are no records: the file is empty or blank")
        lines = None
        if self._blank:
            lines = np.setdiff1d(np.arange(1, self._next), self._blank)[: self._rows]
        columns = {leaf.column: self._joined(leaf, lines) for leaf in self._root.leaves()}
        return Table(columns, self._rows, lines=lines, warnings=tuple(self._warnings))

    # -- lines -------------------------------------------------------------------------------------------------

    def _at_once(self, text: bytes) -> list[Any] | None:
        """The rows of a whole block in one go, if it is certain that each line is one object.

        After a closing brace only a new object may open without a comma. So where every line ends with one brace
        and begins with the other, no object spans lines, and with as many objects as lines none shares its line.
        """
        letters = np.frombuffer(text, np.uint8)
        if letters[-1] != ord("\n") or letters[0] != ord("{"):
            return None
        ends = np.flatnonzero(letters == ord("\n"))
        closed, opened = letters[ends - 1] == ord("}"), letters[ends[:-1] + 1] == ord("{")
        if not (closed.all() and opened.all()):
            return None
        try:
            rows: list[Any] = self._decoder.decode_lines(text)
        except _REFUSED:
            return None
        return rows if len(rows) == len(ends) else None

    def _object(self, line: bytes, number: int) -> dict[str, Any]:
        row = self._parse(line)
        if isinstance(row, Flaw):
            raise self._source.error(row.problem, line=number, field=row.key)
        return row

    def _not_json(self, problem: NotJsonError, number: int, start: int) -> Exception:
        if problem.byte is not None:
            return self._source.not_utf8(start + problem.byte, line=number)
        return self._source.error(problem.problem, line=number)

    def _torn(self, number: int, whole: int) -> None:
        """The last line ends early: an error, or with `salvage` a warning."""
        if not self._source.salvage:
            raise self._source.torn(number, whole)
        self._warnings.append(self._source.salvaged(number, whole))

    # -- learning fields and kinds -----------------------------------------------------------------------------

    def _learn(self, node: Node, values: dict[str, Any], path: tuple[str, ...], number: int) -> bool:
        """Check an object against the fields known so far and add what is new; True if anything was."""
        changed = False
        for key, value in values.items():
            name = ".".join((*path, key))

            def refuse(problem: str, field: str = name) -> NoReturn:
                raise self._source.error(problem, line=number, field=self._source.known_as(field))

            child = node.fields.get(key)
            if isinstance(value, Flaw):
                refuse(value.problem, name if value.key is None else f"{name}.{value.key}")
            if isinstance(value, dict):
                column = self._source.known_as(name)
                if (rule := FIELDS.get(column)) is not None:
                    refuse(f"{expected(rule)} is expected, this is an object")
                if len(path) + 1 >= DEEPEST:
                    refuse(f"objects nest deeper than {DEEPEST} levels")
                if child is None or (isinstance(child, Leaf) and child.kind == "null"):
                    self._columns.pop(column, None)
                    node.fields[key] = child = Node()
                    changed = True
                if isinstance(child, Leaf):
                    refuse(f"{SHOWN[child.kind]} is expected as in the rows before, this is an object")
                changed |= self._learn(child, value, (*path, key), number)
                continue
            if child is None:
                node.fields[key] = child = self._leaf(name, number)
                changed = True
            if isinstance(child, Leaf):
                changed |= fit(child, value, refuse)
            elif value is not None:
                refuse(f"an object is expected as in the rows before, this is {SHOWN[KINDS[type(value)]]}")
        return changed

    def _leaf(self, name: str, number: int) -> Leaf:
        column = self._source.column(name)
        if column in self._columns:
            if {column} != {name, self._columns[column]}:
                raise self._source.taken(column)
            raise self._source.error("appears twice: as a dotted name and as an object", line=number, field=name)
        if len(self._columns) >= MOST_COLUMNS:
            raise self._source.error(f"more than {MOST_COLUMNS:,} different fields", line=number, field=name)
        self._columns[column] = name
        return Leaf(column)

    def _structs(self, objects: list[tuple[int, dict[str, Any]]]) -> list[msgspec.Struct]:
        """Objects, with their lines, as Structs; if something was learned from them, make these first."""
        if objects and self._stale:
            for number, values in objects:  # a later one may have taught what an earlier one breaks
                self._learn(self._root, values, (), number)
            if self._root.build():
                self._decoder = msgspec.json.Decoder(self._root.struct)
            self._stale = False
        return [self._root.instance(values) for _, values in objects]

    # -- columns -----------------------------------------------------------------------------------------------

    def _close(self, rows: list[Any], text: bytes, number: int) -> None:
        """Turn decoded rows into columns, once it is certain that no key was a duplicate and no number was rounded."""
        if not rows:
            return
        arrays, keys = self._batch(rows)
        colons, total = np.count_nonzero(np.frombuffer(text, np.uint8) == ord(":")), int(keys.sum())
        rounded = any(inexact(array) is not None for array in arrays.values() if "double" in str(array.type))
        if rounded or (colons != total and _most_keys(text) != total):
            lines = [(number + at, line) for at, line in enumerate(text.split(b"\n")) if line.strip()]
            for (at, line), known in zip(lines, keys.tolist(), strict=True):
                if rounded or _most_keys(line) != known:
                    self._learn(self._root, self._object(line, at), (), at)

    def _batch(self, rows: list[Any]) -> tuple[dict[str, Column], npt.NDArray[np.int_]]:
        """Add rows to the batches; returns their columns, and how many keys each had."""
        arrays: dict[str, Column] = {}
        keys = np.full(len(rows), self._root.size)
        extract(self._root.built, rows, arrays, keys)
        self._batches.append((len(rows), arrays))
        self._rows += len(rows)
        return arrays, keys

    def _joined(self, leaf: Leaf, lines: npt.NDArray[np.int64] | None) -> Column:
        """One array of the column's final kind from all batches."""
        chunks: list[Column] = []
        for rows, arrays in self._batches:
            chunk = arrays.pop(leaf.column, None)  # so that a column is not held twice for long
            if chunk is None or pa.types.is_null(chunk.type):
                chunk = pa.nulls(rows, leaf.arrow)
            elif chunk.type != leaf.arrow:
                if (place := inexact(chunk)) is not None:
                    row = sum(map(len, chunks)) + place
                    line = row + 1 if lines is None else int(lines[row])
                    raise self._source.error(TOO_LARGE, line=line, field=leaf.column)
                chunk = chunk.cast(leaf.arrow)
            chunks.append(chunk)
        return joined(chunks)


def _most_keys(text: bytes) -> int:
    """At least as many as the keys in `text`, and exactly that in ordinary texts.

    A key ends with a quote and a colon, with or without blanks between. A backslash before the quote says that it
    is inside a string, unless the backslash itself was escaped.
    """
    keys = text.count(b'":') + text.count(b" :") + text.count(b"\t:") + text.count(b"\r:")
    return keys if b'\\\\"' in text else keys - text.count(b'\\":')
