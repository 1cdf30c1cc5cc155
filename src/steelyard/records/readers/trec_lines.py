"""One file of judgements or rankings, as TREC lines or as JSON, read into flat columns.

Judgements may also be lines as BEIR has them, under the header `query-id corpus-id score`. What follows the tag on a
line of a ranking is ignored, as trec_eval does.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import InputError
from steelyard.ground.files import opened
from steelyard.ground.json import NotJsonError, first_flaw, parse_document
from steelyard.records.rankings import first_twice
from steelyard.records.readers.inputs import LONGEST_LINE, Block, Input
from steelyard.records.readers.packed import look_inside
from steelyard.records.schema import text_array
from steelyard.records.table import Source

Codes = npt.NDArray[np.int64]
_PLAIN = {"topic": pa.string(), "document": pa.string(), "grade": pa.int64(), "score": pa.float64()}
_TYPES = {**_PLAIN, "topic": pa.dictionary(pa.int32(), pa.string())}  # a topic stands in many lines
_LINE_FEED, _SPACE, _COMMENT = b"\n #"
_WHITE = bytes.maketrans(b"\t\r\v\f", b"    ")
_LARGEST_JSON = 2**30
LARGEST_GRADE = 2**31 - 1
WHOLE = "a whole number is expected, of less than 2**31"
_SPACES = re.compile(rb" {2,}")
_ENDS = re.compile(rb" ?\n ?")
_BEYOND_TAG = re.compile(rb"^((?:[^ \n]+ ){5}[^ \n]+) [^\n]*", re.MULTILINE)
_BEIR = re.compile(r"query[-_]id\s+corpus[-_]id\s+score\s*(?:\n|\Z)", re.IGNORECASE)
_BEIR_COLUMNS = ("topic", "document", "grade")


@dataclass(frozen=True)
class Ids:
    """A column of ids: those that occur, and which of them stands in each row."""

    values: pa.Array
    codes: Codes

    @classmethod
    def of(cls, chunks: Sequence[pa.Array]) -> Ids:
        """From pieces of one column, as text or as dictionaries of text."""
        whole = pa.chunked_array(chunks)
        encoded = whole.unify_dictionaries() if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
        codes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
        values = encoded.chunk(0).dictionary if codes else text_array([])
        return cls(values, np.concatenate(codes, dtype=np.int64) if codes else np.zeros(0, np.int64))


@dataclass(frozen=True)
class Places:
    """The line of each row: rows that follow each other on lines that do have one entry, for the first of them."""

    rows: Codes
    lines: Codes

    @classmethod
    def of(cls, blocks: Sequence[tuple[int, Codes]]) -> Places:
        """From blocks: how many rows came before each, and the line of its first row, or of all."""
        rows = [np.arange(before, before + len(lines)) for before, lines in blocks]
        return cls(np.concatenate(rows), np.concatenate([lines for _, lines in blocks]))

    def line(self, row: Any) -> Any:
        at = np.searchsorted(self.rows, row, side="right") - 1
        return self.lines[at] + row - self.rows[at]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The lines of a file as flat columns. `number` is a grade or a score; None where the order is the file's.

    `empty` are the topics that hold nothing, as only JSON can say; JSON has no `places`.
    """

    source: Source
    topic: Ids
    document: Ids
    number: npt.NDArray[Any] | None
    tag: str | None
    places: Places | None
    empty: Ids

    def place(self, row: int, field: str) -> dict[str, Any]:
        """Where a row is: its line and field; in JSON, which has no lines here, its topic."""
        if self.places is not None:
            return {"file": self.source.name, "line": int(self.places.line(row)), "field": field}
        return {"file": self.source.name, "field": self.topic.values[self.topic.codes[row]].as_py()}


def read_columns(path: str | os.PathLike[str], columns: tuple[str, ...]) -> Columns:
    """The columns of a file, compressed or not, whose lines have these."""
    with opened(os.fspath(path)) as (name, stream):
        head, stream, packed = look_inside(os.fspath(path), name, stream)
        source = Input(name, stream, packed=packed)
        if head.json:
            table = _json(source)
        elif "grade" in columns and _BEIR.match(head.text or ""):
            table = _lines(source, _BEIR_COLUMNS, header=True)
        else:
            table = _lines(source, columns)
    duplicate = first_twice(table.topic.codes * len(table.document.values) + table.document.codes)
    if duplicate is not None:
        raise InputError("the document appears twice under its topic", **table.place(duplicate, "document"))
    return table


def _lines(source: Input, columns: tuple[str, ...], *, header: bool = False) -> Columns:
    """Topic, document, number, tag and place of every row of a text file, behind its header."""
    kept = [name for name in columns if name in _TYPES]
    topics, documents, numbers = list[pa.Array](), list[pa.Array](), list[npt.NDArray[Any]]()
    places: list[tuple[int, Codes]] = []
    tag: str | None = None
    line, rows, blank = 1, 0, True
    for block in source.blocks():
        if _is_overlong(block):
            raise source.error(f"the line is longer than {LONGEST_LINE // 2**20} MiB", line=line)
        data = block.data.partition(b"\n")[2] if header else block.data
        line, header = line + header, False
        if not data or data.isspace():
            line += data.count(b"\n")
            continue
        blank, regular = False, _is_regular(data, columns)
        text = data if regular else _tidied(data)
        count = text.count(b"\n") + (not text.endswith(b"\n"))
        table = _quick(text, columns, kept) if regular or _is_regular(text, columns) else None
        if table is None and "tag" in columns:
            text = _BEYOND_TAG.sub(rb"\1", _tidied(text))
            table = _quick(text, columns, kept) if _is_regular(text, columns) else None
        at = np.array([line])
        if table is None or table.num_rows != count:
            table, at = _careful(source, text, line, columns, kept)
        topics += table["topic"].chunks
        documents += table["document"].chunks
        numbers.append(_number(table))
        if tag is None and "tag" in columns and len(at):
            tag = text.split(b"\n", int(at[0]) - line + 1)[int(at[0]) - line].split()[5].decode(errors="replace")
        places.append((rows, at))
        line += count
        rows += table.num_rows
    if not rows:
        raise source.error("the file is empty" if blank else "there are no lines but comments")
    return Columns(
        source=Source(source.name, source.sha256, rows),
        topic=Ids.of(topics),
        document=Ids.of(documents),
        number=np.concatenate(numbers),
        tag=tag,
        places=Places.of(places),
        empty=Ids.of([text_array([])]),
    )


def _number(table: pa.Table) -> npt.NDArray[Any]:
    if "grade" in table.column_names:
        return table["grade"].to_numpy()
    return as_floats(table["score"].to_numpy())


def as_floats(scores: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Scores as trec_eval keeps them: −0.0 is 0.0, and what is too large for a 32-bit float is infinite."""
    with np.errstate(over="ignore"):
        return scores.astype(np.float32) + np.float32(0)


def _is_overlong(block: Block) -> bool:
    """True if reading stopped inside this block's first line, which does not end."""
    return len(block.data) > LONGEST_LINE and block.data.find(b"\n", 0, LONGEST_LINE + 1) < 0


def _is_regular(text: bytes, columns: tuple[str, ...]) -> bool:
    """True if single spaces separate the columns, lines end in a line feed, and none is empty or a comment."""
    codes = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(codes == _LINE_FEED)
    gaps = codes <= _SPACE
    starts = ends[:-1] + 1 if text.endswith(b"\n") else ends + 1
    if gaps[:1].any() or (gaps[1:] & gaps[:-1]).any() or np.count_nonzero(codes < _SPACE) > len(ends):
        return False
    hex_ = "grade" in columns and (b" 0x" in text or b" 0X" in text)  # which the fast parser takes for a number
    skipped = text.startswith((b"#", codecs.BOM_UTF8))  # the fast parser drops a mark wherever a block starts
    return not (skipped or (codes[starts] == _COMMENT).any() or hex_)


def _tidied(text: bytes) -> bytes:
    """The same lines with single spaces between their columns, and none around them."""
    text = text.replace(b"\r\n", b"\n").translate(_WHITE)
    return _ENDS.sub(b"\n", _SPACES.sub(b" ", text)).removeprefix(b" ")


def _quick(text: bytes, columns: tuple[str, ...], kept: list[str]) -> pa.Table | None:
    """The columns by a fast parser; None where anything is unusual, so that it is read with care."""
    from pyarrow import csv

    try:
        table = csv.read_csv(
            pa.BufferReader(text),
            read_options=csv.ReadOptions(column_names=list(columns), use_threads=False, block_size=len(text) + 1),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, escape_char=False),
            convert_options=csv.ConvertOptions(
                column_types=_TYPES, null_values=[], strings_can_be_null=False, include_columns=kept
            ),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    score = table["score"] if "score" in columns else None
    unusual = score is not None and not pc.all(pc.is_finite(score)).as_py()
    return None if unusual else table


def _careful(
    source: Input, text: bytes, start: int, columns: tuple[str, ...], kept: list[str]
) -> tuple[pa.Table, Codes]:
    """The columns line by line: comments skipped, and every problem with its place."""
    rows: list[tuple[Any, ...]] = []
    lines: list[int] = []
    places = [(columns.index(name), name) for name in kept]
    for line, raw in enumerate(text.split(b"\n"), start):
        fields = raw.split()
        if not fields or fields[0].startswith(b"#"):
            continue
        if len(fields) != len(columns):
            raise source.error(
                f"{len(columns)} columns are expected ({', '.join(columns)}), this line has {len(fields)}", line=line
            )
        rows.append(tuple(_value(source, name, fields[place], line) for place, name in places))
        lines.append(line)
    arrays = {name: pa.array([row[i] for row in rows], _PLAIN[name]) for i, name in enumerate(kept)}
    arrays["topic"] = arrays["topic"].dictionary_encode()
    return pa.table(arrays), np.array(lines, np.int64)


def _value(source: Input, name: str, raw: bytes, line: int) -> Any:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise source.error("not UTF-8 text; convert the file to UTF-8", line=line, field=name) from None
    if name not in ("grade", "score"):
        return text
    problem = WHOLE if name == "grade" else "a finite number is expected"
    try:
        number = int(text) if name == "grade" else float(text)
    except ValueError:
        raise source.error(problem, line=line, field=name) from None
    allowed = abs(number) <= LARGEST_GRADE if name == "grade" else np.isfinite(number)
    if not allowed or "_" in text or not text.isascii():  # Python reads 1_000 and the digits of every script
        raise source.error(problem, line=line, field=name)
    return number


def _json(source: Input) -> Columns:
    """The same from JSON: an object by topic, of objects by document or of lists of documents."""
    raw = source.whole()
    if raw.size > _LARGEST_JSON:
        raise source.error("more than a gigabyte of JSON; write it as lines of text instead")
    try:
        document = parse_document(raw.to_pybytes().removeprefix(codecs.BOM_UTF8))
    except NotJsonError as problem:
        raise source.error(problem.problem, line=problem.line) from None
    flaw = first_flaw(document)
    if flaw is not None:
        raise source.error(flaw[1].problem, field=".".join(map(str, flaw[0][:1])))  # the topic: a document is data
    if not isinstance(document, dict) or not document:
        raise source.error('an object by topic is expected: {"topic": {"document": 1}}')
    kinds = {type(entry) for entry in document.values()}
    if kinds == {list}:
        topics, documents, numbers = _from_lists(source, document)
    elif kinds == {dict}:
        topics, documents, numbers = _from_objects(source, document)
    else:
        raise source.error("every topic holds an object by document, or every topic holds a list of documents")
    empty = [topic for topic, entries in document.items() if not entries]
    return Columns(
        source=Source(source.name, source.sha256, len(topics)),
        topic=Ids.of([text_array(topics)]),
        document=Ids.of([text_array(documents)]),
        number=None if numbers is None else np.array(numbers, np.float64),
        tag=None,
        places=None,
        empty=Ids.of([text_array(empty)]),
    )


def _from_lists(source: Input, document: dict[str, list[Any]]) -> tuple[list[str], list[str], None]:
    pairs = [(topic, name) for topic, names in document.items() for name in names]
    for topic, name in pairs:
        if not isinstance(name, str):
            raise source.error("a list of document ids is expected", field=topic)
    return [topic for topic, _ in pairs], [name for _, name in pairs], None


def _from_objects(source: Input, document: dict[str, dict[str, Any]]) -> tuple[list[str], list[str], list[Any]]:
    topics, documents, numbers = [], [], []
    for topic, entries in document.items():
        for name, number in entries.items():
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise source.error("a number is expected for every document", field=topic)
            topics.append(topic)
            documents.append(name)
            numbers.append(number)
    return topics, documents, numbers
