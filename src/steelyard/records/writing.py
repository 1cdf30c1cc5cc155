"""Tables written to files: one function per format, by the suffix of the file. A text format may be compressed: `.gz`.

Columns keep their dotted names. What was nested or of several kinds, and is kept as JSON text, is written as JSON again
where the format knows it. Nothing is scored, and nothing is refused for what it holds.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import UsageError, printable
from steelyard.ground.files import replacing
from steelyard.ground.json import plain
from steelyard.records.schema import texts
from steelyard.records.table import Records
from steelyard.registry import Registry

_ROWS = 10_000  # at a time
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, kw_only=True)
class Writer:
    """A format that tables are written in."""

    name: str
    suffixes: tuple[str, ...]
    write: Callable[[Records, Path, bool], list[str]]  # the rows, the file, whether verbatim; what there is to say
    text: bool = False  # whether it may be compressed


writers: Registry[Writer] = Registry("format to write")


def writer_of(path: Path) -> Writer:
    """The format that a file's suffix stands for."""
    name = path.name.lower()
    inner = name.removesuffix(".gz")
    named = [
        writer for writer in writers.values() if inner.endswith(writer.suffixes) and (writer.text or inner == name)
    ]
    if not named:
        known = ", ".join(suffix for writer in writers.values() for suffix in writer.suffixes)
        raise UsageError(f"no format goes by the suffix of {printable(path)}; write one of: {known} (text also as .gz)")
    return named[0]


def write_records(records: Records, path: Path, *, verbatim: bool = False) -> list[str]:
    """Write a table to a file, whole or not at all; returns what there is to say about it.

    In CSV, a text that a spreadsheet would run as a formula gets an apostrophe before it, unless `verbatim`.
    """
    writer = writer_of(path)
    lost = _not_finite(records.to_arrow()) if writer.text else 0
    said = [f"{lost:,} numbers that are not finite are written as missing"] if lost else []
    with replacing(path) as temporary:
        return [*said, *writer.write(records, temporary, verbatim)]


def _added(name: str, *suffixes: str, text: bool = False) -> Callable[[Any], Any]:
    def add(write: Any) -> Any:
        writers.add(name, Writer(name=name, suffixes=suffixes, write=write, text=text))
        return write

    return add


@_added("parquet", ".parquet", ".pq")
def _parquet(records: Records, path: Path, _: bool) -> list[str]:
    import pyarrow.parquet as pq

    pq.write_table(records.to_arrow(), path)
    return []


@_added("arrow", ".arrow", ".feather", ".ipc")
def _arrow(records: Records, path: Path, _: bool) -> list[str]:
    table = records.to_arrow()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    return []


@_added("jsonl", ".jsonl", ".ndjson", text=True)
def _jsonl(records: Records, path: Path, _: bool) -> list[str]:
    encoder = msgspec.json.Encoder()
    with _opened(records, path) as file:
        for names, rows in _batches(records, msgspec.Raw):
            objects = [{n: v for n, v in zip(names, row, strict=True) if v is not None} for row in rows]
            try:
                file.write(encoder.encode_lines(objects))
            except UnicodeEncodeError:  # half a character, which only json writes
                lines = (json.dumps(plain(_loaded(each)), default=str, allow_nan=False) for each in objects)
                file.write("".join(f"{line}\n" for line in lines).encode())
    return []


@_added("csv", ".csv", text=True)
def _csv(records: Records, path: Path, verbatim: bool) -> list[str]:
    return _cells(records, path, ",", verbatim=verbatim)


@_added("tsv", ".tsv", text=True)
def _tsv(records: Records, path: Path, verbatim: bool) -> list[str]:
    return _cells(records, path, "\t", verbatim=verbatim)


def _cells(records: Records, path: Path, delimiter: str, *, verbatim: bool) -> list[str]:
    formulas = 0
    with _opened(records, path) as file:
        text = io.TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="")
        out = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        for place, (names, rows) in enumerate(_batches(records, str)):
            for row in rows if place else chain([names], rows):
                cells = [_cell(value) for value in row]
                if not verbatim:
                    unsafe = [isinstance(v, str) and _runs(v) for v in row]
                    formulas += sum(unsafe)
                    cells = [f"'{cell}" if bad else cell for cell, bad in zip(cells, unsafe, strict=True)]
                out.writerow(cells)
        text.flush()
        text.detach()
    said = "texts that a spreadsheet would run as formulas begin with an apostrophe now; `verbatim=True` leaves them"
    return [f"{formulas:,} {said}"] if formulas else []


def _runs(text: str) -> bool:
    """True if a spreadsheet would take a text for a formula."""
    return text.startswith(_FORMULA) and not _NUMBER.fullmatch(text)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)


def _batches(records: Records, raw: Callable[[str], Any]) -> Iterator[tuple[list[str], Iterator[tuple[Any, ...]]]]:
    """The rows, some at a time, with the names of their columns; `raw` is what JSON text becomes."""
    table = records.to_arrow()
    jsons = {name for name in records.extras if records.extra(name).is_json}
    for start in range(0, table.num_rows, _ROWS):
        part = table.slice(start, _ROWS)
        columns = []
        for name, column in zip(part.column_names, part.columns, strict=True):
            chunk = column.combine_chunks()
            values = _values(chunk)
            columns.append([None if v is None else raw(v) for v in values] if name in jsons else values)
        yield part.column_names, zip(*columns, strict=True)


def _values(chunk: Any) -> list[Any]:
    """The values of an array; half characters in its texts are kept."""
    if pa.types.is_string(chunk.type) or pa.types.is_large_string(chunk.type):
        return texts(chunk)
    if pa.types.is_list(chunk.type) and pa.types.is_string(chunk.type.value_type):
        parts, ends = texts(chunk.flatten()), np.cumsum(pc.fill_null(pc.list_value_length(chunk), 0).to_numpy())
        lists = [parts[start:end] for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]
        return [None if missing else each for each, missing in zip(lists, chunk.is_null().to_pylist(), strict=True)]
    return list(chunk.to_pylist())


def _not_finite(table: Any) -> int:
    """How many numbers a table holds that no file has a way to write."""
    floats = [column for column in table.columns if pa.types.is_floating(column.type)]
    return sum(int(pc.sum(pc.invert(pc.is_finite(column.drop_null()))).as_py() or 0) for column in floats)


def _loaded(row: dict[str, Any]) -> dict[str, Any]:
    return {n: json.loads(bytes(v)) if isinstance(v, msgspec.Raw) else v for n, v in row.items()}


@contextmanager
def _opened(records: Records, path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, compressed where its name says so; temporary names keep the suffix before their token."""
    if not len(records):
        raise UsageError("there are no rows to write")
    is_packed = path.name.rpartition(".")[0].lower().endswith(".gz")
    if not is_packed:
        with open(path, "wb") as plain:
            yield plain
        return
    with open(path, "wb") as plain, gzip.GzipFile(filename="", fileobj=plain, mode="wb", mtime=0) as packed:
        yield packed  # type: ignore[misc]
