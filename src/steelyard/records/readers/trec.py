"""Rankings and judgements as trec_eval reads them: a table with one row a query.

    qrels   topic  iteration  document  grade
    run     topic  Q0  document  rank  score  tag

Columns are separated by any white space; lines that start with # and empty lines are skipped. The order of a ranking is
that of its scores as 32-bit floats, downwards, equal ones by document id downwards; the rank column is ignored.
Both may be JSON instead: `{"topic": {"document": grade or score}}`, or `{"topic": ["document", …]}` for the
relevant documents, and for a ranking in the order that it already has.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import InputError, UsageError, printable
from steelyard.records.ranked import first_twice, gains_of
from steelyard.records.readers.contract import Block, Input, joined
from steelyard.records.readers.opening import opened
from steelyard.records.readers.strict_json import NotJsonError, first_flaw, parse_document
from steelyard.records.table import Records, Source
from steelyard.records.task import Task

Codes = npt.NDArray[np.int64]
TIES = "score as a 32-bit float, downwards; equal scores by document id, downwards"
_WHITE = bytes.maketrans(b"\t\r\v\f", b"    ")
_LARGEST_JSON = 2**30


@dataclass(frozen=True)
class _Columns:
    """The lines of a file as flat columns. `number` is a grade or a score; None where the order is the file's."""

    source: Source
    topic: pa.Array
    document: pa.Array
    number: pa.Array | None
    tag: str | None
    line: Codes


def read_rankings(
    qrels: str | os.PathLike[str], runs: Sequence[str | os.PathLike[str]], *, complete: bool = False
) -> list[Records]:
    """A table for every run: one row a query, with the grades of its ranking and all judged grades.

    Topics that are judged but not in a run are left out and counted in a warning; with `complete` they score 0. The
    column `model` names the run: its tag, or its file where tags repeat.
    """
    if not runs:
        raise UsageError("a run is needed beside the judgements")
    judged = _read(qrels, ("topic", "iteration", "document", "grade"))
    _check_grades(judged)
    found = [_read(run, ("topic", "Q0", "document", "rank", "score", "tag")) for run in runs]
    names = _names(runs, found)
    topics, documents = _shared_codes([judged, *found])
    tables = []
    for run, name, topic, document in zip(found, names, topics[1:], documents[1:], strict=True):
        columns, lines, said = _ranked(run, topic, document, judged, topics[0], documents[0], complete=complete)
        rows = len(lines)
        sources = [Source(run.source.name, run.source.sha256, rows, lines)]
        sources += [Source(judged.source.name, judged.source.sha256, 0)]
        columns["model"] = pa.array([name] * rows, pa.string())
        warnings = [f"{printable(run.source.name)}: {text}" for text in said]
        tables.append(Records.checked(columns, cluster=None, task=Task(), sources=sources, warnings=warnings))
    return tables


def _names(runs: Sequence[str | os.PathLike[str]], found: Sequence[_Columns]) -> list[str]:
    """What tells runs apart: their tags, else their files' names, else the paths."""
    candidates = ([run.tag or "" for run in found], [Path(run).name for run in runs], [os.fspath(run) for run in runs])
    for names in candidates:
        if len(set(names)) == len(names) and all(names):
            return names
    raise UsageError("two runs are the same file; name two different ones")


# -- one file ----------------------------------------------------------------------------------------------------------


def _read(path: str | os.PathLike[str], columns: tuple[str, ...]) -> _Columns:
    with opened(os.fspath(path)) as (name, stream):
        source = Input(name, stream)
        blocks = source.blocks()
        first = next(blocks, None)
        if first is None or not first.data.strip():
            raise source.error("the file is empty")
        is_json = first.data.lstrip()[:1] in (b"{", b"[")
        table = _json(source, first, blocks) if is_json else _lines(source, first, blocks, columns)
        about = Source(source.name, source.sha256, len(table[0]))
    topic, document, number, tag, line = table
    twice = first_twice(_pairs(topic, document))
    if twice is not None:
        at = int(line[twice]) if len(line) else None
        raise InputError("the document stands twice under its topic", file=about.name, line=at, field="document")
    return _Columns(about, topic, document, number, tag, line)


def _pairs(topic: pa.Array, document: pa.Array) -> Codes:
    """One number for every topic and document."""
    codes = [_codes(column.dictionary_encode()) for column in (topic, document)]
    return codes[0] * (int(codes[1].max(initial=0)) + 1) + codes[1]


def _codes(encoded: pa.DictionaryArray) -> Codes:
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


_Table = tuple[pa.Array, pa.Array, pa.Array | None, str | None, Codes]


def _lines(source: Input, first: Block, rest: Iterator[Block], columns: tuple[str, ...]) -> _Table:
    """Topic, document, number, tag and line of every row of a text file."""
    numbers = {"grade": pa.int64(), "score": pa.float64()}
    kept = [name for name in columns if name in ("topic", "document", "grade", "score")]
    parts: list[list[pa.Array]] = [[] for _ in kept]
    lines: list[Codes] = []
    tag: str | None = None
    line = 1
    for block in (b for group in ([first], rest) for b in group):
        text = block.data.replace(b"\r\n", b"\n").translate(_WHITE)
        count = text.count(b"\n") + (not text.endswith(b"\n"))
        table = _quick(text, columns, numbers) if _is_regular(text) else None
        if table is None or table.num_rows != count:
            table, at = _careful(source, text, line, columns, numbers)
        else:
            at = np.arange(line, line + count)
        for part, name in zip(parts, kept, strict=True):
            part.append(table[name].combine_chunks())
        if tag is None and "tag" in columns and table.num_rows:
            tag = str(table["tag"][0].as_py())
        lines.append(at)
        line += count
    arrays = [joined(part) for part in parts]
    if not len(arrays[0]):
        raise source.error("there are no lines but comments")
    return arrays[0], arrays[1], arrays[2], tag, np.concatenate(lines)


def _is_regular(text: bytes) -> bool:
    """Whether single spaces separate the columns and no line is a comment."""
    odd = (b"  ", b" \n", b"\n ", b"\n#", b"\n\n")
    return not text.startswith((b" ", b"#", b"\n")) and not any(mark in text for mark in odd)


def _quick(text: bytes, columns: tuple[str, ...], numbers: dict[str, Any]) -> pa.Table | None:
    """The columns by a fast parser; None where anything is unusual, so that it is read with care."""
    from pyarrow import csv

    types = {name: numbers.get(name, pa.string()) for name in columns}
    try:
        table = csv.read_csv(
            pa.BufferReader(text),
            read_options=csv.ReadOptions(column_names=list(columns), use_threads=False, block_size=len(text) + 1),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, escape_char=False),
            convert_options=csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    score = table["score"] if "score" in columns else None
    unusual = score is not None and not pc.all(pc.is_finite(score)).as_py()
    return None if unusual else table


def _careful(
    source: Input, text: bytes, start: int, columns: tuple[str, ...], numbers: dict[str, Any]
) -> tuple[pa.Table, Codes]:
    """The columns line by line: comments skipped, and every problem with its place."""
    rows: list[tuple[Any, ...]] = []
    lines: list[int] = []
    for line, raw in enumerate(text.split(b"\n"), start):
        fields = raw.split()
        if not fields or fields[0].startswith(b"#"):
            continue
        if len(fields) != len(columns):
            raise source.error(
                f"{len(columns)} columns are expected ({', '.join(columns)}), this line has {len(fields)}", line=line
            )
        rows.append(tuple(_value(source, name, raw_, line) for name, raw_ in zip(columns, fields, strict=True)))
        lines.append(line)
    types = [(name, numbers.get(name, pa.string())) for name in columns]
    made = {name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(types)}
    return pa.table(made), np.array(lines, np.int64)


def _value(source: Input, name: str, raw: bytes, line: int) -> Any:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise source.error("not UTF-8 text; convert the file to UTF-8", line=line, field=name) from None
    if name not in ("grade", "score"):
        return text
    problem = "a whole number is expected" if name == "grade" else "a finite number is expected"
    try:
        number = int(text) if name == "grade" else float(text)
    except ValueError:
        raise source.error(problem, line=line, field=name) from None
    if not np.isfinite(number) or abs(number) > (2**31 if name == "grade" else np.inf) or "_" in text:
        raise source.error(problem, line=line, field=name)
    return number


def _json(source: Input, first: Block, rest: Iterator[Block]) -> _Table:
    """The same from JSON: an object by topic, of objects by document or of lists of documents."""
    parts, size = [], 0
    for block in (b for group in ([first], rest) for b in group):
        parts.append(block.data)
        size += len(block.data)
        if size > _LARGEST_JSON:
            raise source.error("more than a gigabyte of JSON; write it as lines of text instead")
    try:
        document = parse_document(b"".join(parts))
    except NotJsonError as problem:
        raise source.error(problem.problem, line=problem.line) from None
    flaw = first_flaw(document)
    if flaw is not None:
        raise source.error(flaw[1].problem, field=".".join(map(str, flaw[0])))
    if not isinstance(document, dict) or not document:
        raise source.error('an object by topic is expected: {"topic": {"document": 1}}')
    kinds = {type(entry) for entry in document.values()}
    if kinds == {list}:
        topics, documents, numbers = _from_lists(source, document)
    elif kinds == {dict}:
        topics, documents, numbers = _from_objects(source, document)
    else:
        raise source.error("every topic holds an object by document, or every topic holds a list of documents")
    kind = pa.int64() if numbers and all(isinstance(n, int) for n in numbers) else pa.float64()
    number = None if numbers is None else pa.array(numbers, kind)
    return pa.array(topics, pa.string()), pa.array(documents, pa.string()), number, None, np.zeros(0, np.int64)


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
                raise source.error("a number is expected for every document", field=f"{topic}.{name}")
            topics.append(topic)
            documents.append(name)
            numbers.append(number)
    return topics, documents, numbers


# -- files together ----------------------------------------------------------------------------------------------------


def _check_grades(judged: _Columns) -> None:
    if judged.number is not None and not pa.types.is_int64(judged.number.type):
        whole = pc.equal(judged.number, pc.round(judged.number))
        if not pc.all(whole).as_py():
            raise InputError("grades are whole numbers", file=judged.source.name, field="grade")


def _shared_codes(files: Sequence[_Columns]) -> tuple[list[Codes], list[Codes]]:
    """Topics and documents of all files as numbers that sort like their ids, byte by byte."""
    found = []
    for name in ("topic", "document"):
        encoded = pa.chunked_array([getattr(file, name) for file in files]).dictionary_encode().unify_dictionaries()
        dictionary = encoded.chunk(0).dictionary
        order = pc.sort_indices(dictionary.cast(pa.binary())).to_numpy()
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        found.append([place[_codes(chunk)] for chunk in encoded.chunks])
    return found[0], found[1]


def _ranked(
    run: _Columns,
    topic: Codes,
    document: Codes,
    judged: _Columns,
    judged_topic: Codes,
    judged_document: Codes,
    *,
    complete: bool,
) -> tuple[dict[str, Any], Codes, list[str]]:
    """The columns of one run, the line of each query, and what to say of topics that are not on both sides."""
    grades = np.ones(len(judged_topic), np.int32) if judged.number is None else _grades(judged.number)
    size = int(max(document.max(initial=0), judged_document.max(initial=0))) + 1
    order = _order(run, topic, document)
    topic, document = topic[order], document[order]
    gains = gains_of(topic * size + document, judged_topic * size + judged_document, grades)
    known, asked = np.unique(judged_topic), np.unique(topic)
    rows = known if complete else np.intersect1d(known, asked)
    if not len(rows):
        raise InputError("no topic of this run was judged; do both files use the same ids?", file=run.source.name)
    said = _said(run, known, asked, judged_topic[grades >= 1], rows, complete=complete)
    names = _topic_names([(run.topic, topic, order), (judged.topic, judged_topic, None)], rows)
    by_topic = np.argsort(judged_topic, kind="stable")
    first = np.searchsorted(topic, rows)
    lines = run.line[order] if len(run.line) else np.ones(len(order), np.int64)
    columns = {
        "item": names,
        "gains": _lists(topic, gains, rows),
        "judged": _lists(judged_topic[by_topic], pa.array(grades[by_topic]), rows),
    }
    return columns, lines[np.minimum(first, len(lines) - 1)], said


def _grades(number: pa.Array) -> npt.NDArray[np.int32]:
    return number.to_numpy(zero_copy_only=False).astype(np.int32)


def _order(run: _Columns, topic: Codes, document: Codes) -> Codes:
    """Topics upwards; within them scores downwards as 32-bit floats, equal ones by document downwards."""
    if run.number is None:
        return np.argsort(topic, kind="stable")
    score = run.number.to_numpy(zero_copy_only=False).astype(np.float32) + np.float32(0)  # −0.0 is 0.0
    bits = score.view(np.uint32)
    upwards = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))  # whole numbers in the order of the floats
    key = (topic.astype(np.uint64) << np.uint64(32)) | (~upwards).astype(np.uint64)
    sorted_already = bool((key[1:] >= key[:-1]).all())
    order = np.arange(len(key)) if sorted_already else np.argsort(key, kind="stable")
    ordered = key if sorted_already else key[order]
    same = ordered[1:] == ordered[:-1]
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        order[tied] = order[tied][np.lexsort((-document[order[tied]], ordered[tied]))]
    return order


def _lists(owner: Codes, values: pa.Array, rows: Codes) -> pa.Array:
    """The values of each row's topic as one list; values stand in the order of their topics."""
    starts, ends = np.searchsorted(owner, rows), np.searchsorted(owner, rows, side="right")
    lengths = ends - starts
    if int(lengths.sum()) != len(owner):
        inside = np.isin(owner, rows)
        values = values.filter(pa.array(inside))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    kind = pa.int32() if len(values) < 2**31 else pa.int64()
    make = pa.ListArray if kind == pa.int32() else pa.LargeListArray
    return make.from_arrays(pa.array(offsets, kind), values)


def _topic_names(files: Sequence[tuple[pa.Array, Codes, Codes | None]], rows: Codes) -> pa.Array:
    """The ids of the topics with these codes."""
    names: dict[int, str] = {}
    for column, codes, order in files:
        _, first = np.unique(codes, return_index=True)
        at = first if order is None else order[first]
        names |= dict(zip(codes[first].tolist(), column.take(pa.array(at)).to_pylist(), strict=True))
    return pa.array([names[code] for code in rows.tolist()], pa.string())


def _said(run: _Columns, known: Codes, asked: Codes, relevant: Codes, rows: Codes, *, complete: bool) -> list[str]:
    """What is left out of the averages, or counted as 0 in them."""
    found = []
    missing, extra = len(np.setdiff1d(known, asked)), len(np.setdiff1d(asked, known))
    if missing and complete:
        found.append(f"{missing} judged topics are not in the run and score 0")
    elif missing:
        found.append(f"{missing} judged topics are not in the run and left out; --complete counts them as 0")
    if extra:
        found.append(f"{extra} topics of the run were not judged and are left out")
    barren = len(np.setdiff1d(rows, relevant))
    if barren:
        found.append(f"{barren} topics have no relevant document and score 0, as in trec_eval")
    return found
