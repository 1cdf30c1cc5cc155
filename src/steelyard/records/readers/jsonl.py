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

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import msgspec
import numpy as np
import pyarrow as pa

from steelyard.errors import InputError
from steelyard.ground.arrays import Codes, Mask
from steelyard.ground.json import Flaw, NotJsonError, parse_line
from steelyard.halves import mended
from steelyard.records.extras import Extra, json_texts
from steelyard.records.readers.contract import Certainty, Column, Table, give_back, joined, reader
from steelyard.records.readers.head import Head
from steelyard.records.readers.inputs import LONGEST_LINE, Block, Input
from steelyard.records.readers.json_fields import Batch, Leaf, extract, inexact, merged
from steelyard.records.readers.json_learning import Fields

_BATCHES = 64  # that are put together before there are many
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def sniff(head: Head) -> Certainty:
    """Two lines that are objects are JSON Lines; one alone may be a document of another format."""
    if head.container:
        return "no"
    return "likely" if len(head.objects) > 1 else "maybe"


def parts(source: Input, known: Fields | None) -> Generator[Table, None, Fields]:
    """The columns of a JSON Lines input, some rows at a time."""
    lines = Lines(source, known=known)
    with lines.all_problems():
        for block in source.blocks():
            lines.read(block)
            yield from lines.part()
        yield from lines.part(last=True)
    lines.say()
    return lines.fields


@reader("jsonl", about="one JSON object per line", suffixes=(".jsonl", ".ndjson"), sniff=sniff, parts=parts)
def load(source: Input) -> Table:
    """The columns of a JSON Lines input."""
    lines = Lines(source)
    with lines.all_problems():
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

    def __init__(
        self,
        source: Input,
        parse: Callable[[bytes], dict[str, Any] | Flaw] = parse_line,
        known: Fields | None = None,
    ) -> None:
        self._source, self._parse = source, parse
        self.fields = Fields(source, known)
        self._root = self.fields.root
        self._is_first = known is None
        self._decoder: Any = _Refusing()
        self._stale = True  # whether something was learned since the Structs were made
        self._patience = 1  # how many lines teach before a Struct is made; doubles, as making one is slow
        self._batches: list[Batch] = []
        self._merged = 0  # how many of them are put together already
        self._rows = 0
        self._next = 1  # the number of the first line of the next block
        self._blank: list[int] = []
        self._warnings: list[str] = []

    @contextmanager
    def all_problems(self) -> Iterator[None]:
        """Raise what ends the reading together with the problems that were met before."""
        try:
            yield
        except InputError as last:
            raise InputError.together([*self.fields.problems, last]) from None

    def read(self, block: Block) -> None:
        """Read the lines of a block into batches; a new field or kind closes a batch."""
        if len(block.data) > LONGEST_LINE and block.data.find(b"\n", 0, LONGEST_LINE + 1) < 0:
            raise self._source.error(f"the line is longer than {LONGEST_LINE // 2**20} MiB", line=self._next)
        first_line = self._next
        try:
            self._read(block)
        except NotJsonError as problem:  # in a value that was not decoded at first
            self._check_encoding(block, first_line)
            raise self._source.error(problem.problem) from None
        self._check_encoding(block, first_line)

    def _check_encoding(self, block: Block, first_line: int) -> None:
        """Refuse bytes that are not UTF-8 in values that nobody decoded."""
        if not any(leaf.kind == "json" for leaf in self._root.leaves()):
            return
        try:
            block.data.decode()
        except UnicodeDecodeError as problem:
            if block.last and problem.reason == "unexpected end of data":
                return  # a torn line, which was left out
            line = first_line + block.data.count(b"\n", 0, problem.start)
            raise self._source.not_utf8(block.offset + problem.start, line=line) from None

    def _read(self, block: Block) -> None:
        text = mended(block.data)
        rows = self._at_once(text)
        if rows is not None:
            self._close(rows, block.data, self._next)
            self._next += len(rows)
            return
        lines = block.data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        number, self._next = self._next, self._next + len(lines)
        pending = iter(text.split(b"\n")[: len(lines)])
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
                learned = self.fields.learn(values, number + at)
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
        learned = [self.fields.learn(values, number) for number, values in rows]
        self._stale |= any(learned)
        self._add(self._batch(self._structs(rows)))

    def part(self, *, last: bool = False) -> Iterator[Table]:
        """What was read since the last part, once that is much: nothing, where the kinds of the columns are not known.

        At the end, all that is left.
        """
        if last and not self._rows:
            raise self._no_records()
        if len(self._batches) < _BATCHES and not last:
            return
        if self._batches and not self._is_first:
            yield self._table(None)
        self._batches, self._merged = [], 0

    def say(self) -> None:
        """Let the input say what there is to say of rows that came in parts."""
        self._source.warnings += [*self._warnings, *self.fields.remarks]

    def table(self) -> Table:
        """All batches as one table."""
        if not self._rows:
            raise self._no_records()
        lines = None
        if self._blank:
            lines = np.setdiff1d(np.arange(1, self._next), self._blank)[: self._rows]
        return self._table(lines)

    def _no_records(self) -> InputError:
        return self._source.error("there are no records: the file is empty or blank")

    def _table(self, lines: Codes | None) -> Table:
        rows = sum(batch.rows for batch in self._batches)
        columns: dict[str, Column] = {}
        extras: dict[str, Extra] = {}
        for leaf in self._root.leaves():
            if leaf.want == "skip":
                continue
            give_back()
            chunks = self._chunks(leaf)
            if (row := _inexact(chunks, leaf)) is not None:
                self.fields.too_large(leaf, row + 1 if lines is None else int(lines[row]))
                chunks = chunks if leaf.want == "read" else [json_texts(chunk) for chunk in chunks]
            if leaf.kind == "json":
                problem, line = leaf.problem or ("holds values of several kinds", 1)
                error = self._source.error(problem, line=line, field=leaf.column)
                extras[leaf.column] = Extra(joined(chunks), error, is_json=True)
            else:
                columns[leaf.column] = joined(
                    [chunk if chunk.type == leaf.arrow else chunk.cast(leaf.arrow, safe=False) for chunk in chunks]
                )
        return Table(
            columns,
            rows,
            lines=lines,
            warnings=(*self._warnings, *self.fields.remarks),
            problems=tuple(self.fields.problems),
            extras=extras,
            no_answers=self._no_answers(lines),
            skipped=tuple(leaf.column for leaf in self._root.leaves() if leaf.want == "skip"),
        )

    def _no_answers(self, lines: Codes | None) -> dict[str, Mask]:
        """The rows whose prediction was said to stand for an outcome."""
        masks: dict[str, Mask] = {}
        for line, outcome in self.fields.no_answers.items():
            row = line - 1 if lines is None else int(np.searchsorted(lines, line))
            masks.setdefault(outcome, np.zeros(self._rows, bool))[row] = True
        return masks

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

    def _structs(self, objects: list[tuple[int, dict[str, Any]]]) -> list[msgspec.Struct]:
        """Objects, with their lines, as Structs; if something was learned from them, make these first."""
        if objects and self._stale:
            for number, values in objects:  # a later one may have taught what an earlier one breaks
                self.fields.learn(values, number)
            if self._root.build():
                self._decoder = msgspec.json.Decoder(self._root.struct)
            self._stale = False
        return [self._root.instance(values) for _, values in objects]

    # -- columns -----------------------------------------------------------------------------------------------

    def _close(self, rows: list[Any], text: bytes, number: int) -> None:
        """Turn decoded rows into columns, once it is certain that no key was a duplicate and no number was rounded."""
        if not rows:
            return
        batch = self._batch(rows)
        inner = [_most_keys(b"\n".join(raw)) for raw in batch.raw.values()]
        colons, total = np.count_nonzero(np.frombuffer(text, np.uint8) == ord(":")), int(batch.keys.sum()) + sum(inner)
        rounded = any(inexact(array) is not None for array in batch.arrays.values() if "double" in str(array.type))
        repeated = any(_may_repeat_keys(raw) for raw in batch.raw.values())
        if rounded or repeated or (colons != total and _most_keys(text) != total):
            lines = [(number + at, line) for at, line in enumerate(text.split(b"\n")) if line.strip()]
            inside = [sum(map(_most_keys, raws)) for raws in zip(*batch.raw.values(), strict=True)] or [0] * len(rows)
            for (at, line), known, below in zip(lines, batch.keys.tolist(), inside, strict=True):
                if rounded or repeated or _most_keys(line) != known + below:
                    self.fields.learn(self._object(line, at), at)
        self._add(batch)

    def _batch(self, rows: list[Any]) -> Batch:
        """The columns of decoded rows."""
        batch = Batch(len(rows), self._root.size)
        extract(self._root.built, rows, batch)
        return batch

    def _add(self, batch: Batch) -> None:
        batch.settle()
        self._batches.append(batch)
        self._rows += batch.rows
        if len(self._batches) - self._merged == _BATCHES:
            self._batches[self._merged :] = merged(self._batches[self._merged :])
            self._merged = len(self._batches)

    def _chunks(self, leaf: Leaf) -> list[Column]:
        """The pieces of a column, of all batches."""
        chunks = []
        for batch in self._batches:
            chunk = batch.column(leaf)
            chunks.append(pa.nulls(batch.rows, leaf.arrow) if chunk is None or pa.types.is_null(chunk.type) else chunk)
        return chunks


def _inexact(chunks: list[Column], leaf: Leaf) -> int | None:
    """The first row with a whole number that would be rounded where the column came to hold fractions."""
    before = 0
    for chunk in chunks:
        if chunk.type != leaf.arrow and leaf.kind != "json" and (place := inexact(chunk)) is not None:
            return before + place
        before += len(chunk)
    return None


def _may_repeat_keys(raw: list[bytes]) -> bool:
    """True unless no object in these texts has a duplicate key: decoding loses those, and writing again shows it."""
    nested = [text for text in raw if b"{" in text]
    if not nested:
        return False
    text = b"\n".join(nested)
    try:
        written = msgspec.json.Encoder().encode_lines(msgspec.json.Decoder().decode_lines(text))
    except _REFUSED:
        return True
    return _most_keys(written) != _most_keys(text)


def _most_keys(text: bytes) -> int:
    """At least as many as the keys in `text`, and exactly that in ordinary texts.

    A key ends with a quote and a colon, with or without blanks between. A backslash before the quote says that it
    is inside a string, unless the backslash itself was escaped.
    """
    keys = text.count(b'":') + text.count(b" :") + text.count(b"\t:") + text.count(b"\r:")
    return keys if b'\\\\"' in text else keys - text.count(b'\\":')
