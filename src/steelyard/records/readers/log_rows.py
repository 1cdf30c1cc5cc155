"""The rows of a log one at a time, decoded: the lines of a file, or the elements of an array in a document.

    shape = Shape(source, Row, tool="promptfoo")          # Row: a Struct that names the fields that are read
    for number, row in lines(source, shape): ...
    for number, row in elements(source, document, shape): ...

What only all rows tell comes at the end: `retold` gives the values of a column other names, `blanked` takes some away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.ground.arrays import Mask
from steelyard.ground.json import Flaw, NotJsonError, parse_line
from steelyard.halves import mended
from steelyard.records.readers.contract import Column, Table
from steelyard.records.readers.inputs import LONGEST_LINE, Input
from steelyard.records.readers.json_elements import BrokenError, Elements
from steelyard.records.schema import text_array

Row = TypeVar("Row")
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_PLACE = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`\Z")


class Shape(Generic[Row]):
    """Objects of a log as Structs of one type; what is not so is an error with the field, never with the value."""

    def __init__(self, source: Input, kind: type[Row], *, tool: str) -> None:
        self._source, self._kind, self._tool = source, kind, tool
        self._decoder = msgspec.json.Decoder(kind)

    def of(self, raw: bytes, number: int | None = None) -> Row:
        """The Struct of an object's text; NotJsonError where it is none. Numbers that are not finite become null."""
        try:
            return self._decoder.decode(mended(raw))
        except _REFUSED:
            values = parse_line(raw)
        try:
            return msgspec.convert(self._cleaned(values, number), self._kind)
        except (msgspec.ValidationError, RecursionError) as problem:
            place = _PLACE.search(str(problem))
            expected = re.match(r"Expected `([^`]*)`", str(problem))
            what = f": {expected[1]} is expected" if expected else ""
            raise self._source.error(
                f"not as {self._tool} writes it{what}", line=number, field=place[1] if place else None
            ) from None

    def _cleaned(self, value: Any, number: int | None) -> Any:
        if isinstance(value, Flaw):
            if value.key is not None:
                raise self._source.error(value.problem, line=number, field=value.key)
            return None
        if isinstance(value, dict):
            return {key: self._cleaned(part, number) for key, part in value.items()}
        return [self._cleaned(part, number) for part in value] if isinstance(value, list) else value


def lines(source: Input, shape: Shape[Row], *, begun: Iterator[bytes] | None = None) -> Iterator[tuple[int, Row]]:
    """The objects on the lines of a log, each with the number of its line.

    `begun` are the `chunks` of the log where they were looked at before.
    """
    number = whole = 0
    for block in source.blocks(begun=begun):
        if len(block.data) > LONGEST_LINE and block.data.find(b"\n", 0, LONGEST_LINE + 1) < 0:
            raise source.error(f"the line is longer than {LONGEST_LINE // 2**20} MiB", line=number + 1)
        waiting = block.data.split(b"\n")
        start = block.offset
        for place, line in enumerate(waiting):
            if place == len(waiting) - 1 and not line:
                break
            number += 1
            if line.strip():
                try:
                    row = shape.of(line, number)
                except NotJsonError as problem:
                    if problem.torn and block.last and not any(map(bytes.strip, waiting[place + 1 :])):
                        _torn(source, number, whole)
                        return
                    if problem.byte is not None:
                        raise source.not_utf8(start + problem.byte, line=number) from None
                    raise source.error(problem.problem, line=number) from None
                whole += 1
                yield number, row
            start += len(line) + 1


def elements(source: Input, document: Elements, shape: Shape[Row]) -> Iterator[tuple[int, Row]]:
    """The objects in an array of a document, each with its number in the array."""
    number = 0
    try:
        for raw in document:
            number += 1
            yield number, shape.of(raw, number)
    except NotJsonError as problem:
        if problem.byte is not None:
            raise source.error("not UTF-8 text; convert the file to UTF-8", line=number) from None
        raise source.error("not valid JSON", line=number) from None
    except BrokenError as problem:
        if not problem.torn:
            raise source.error(problem.problem) from None
        _torn(source, number + 1, number)


def _torn(source: Input, number: int, whole: int) -> None:
    """The log ends inside a row: an error, or with `salvage` a warning."""
    if not source.salvage or not whole:
        raise source.torn(number, whole)
    source.warnings.append(source.salvaged(number, whole))


def around(source: Input, document: Elements, shape: Shape[Row], *, rows: int) -> Row | None:
    """What is around the array of a document, once its elements were read; None where it is cut and that is fine."""
    try:
        return shape.of(document.rest)
    except NotJsonError as problem:
        if not problem.torn:
            raise source.error("not valid JSON around its rows") from None
        if not source.leaves_out:
            _torn(source, rows + 1, rows)
        return None


def retold(source: Input, table: Table, name: str, names: Mapping[str, str]) -> Table:
    """The table with other values in a column of texts that the reader made itself."""
    known, column = _own(source, table, name)
    if column is None:
        return table
    codes = column.dictionary_encode()
    values = text_array([names.get(value, value) for value in codes.dictionary.to_pylist()])
    return replace(table, columns={**table.columns, known: values.take(codes.indices)})


def blanked(source: Input, table: Table, name: str, rows: Mask) -> Table:
    """The table with nulls in some rows of a column that the reader made itself."""
    known, column = _own(source, table, name)
    if column is None or not rows.any():
        return table
    blank = pa.nulls(len(column)) if rows.all() else pc.if_else(pa.array(rows), pa.scalar(None, column.type), column)
    return replace(table, columns={**table.columns, known: blank})


def _own(source: Input, table: Table, name: str) -> tuple[str, Column | None]:
    """A column that the reader made, under the name that it has now; none where the user put another in its place."""
    known = source.known_as(name)
    return known, None if name in source.mapped else table.columns.get(known)
