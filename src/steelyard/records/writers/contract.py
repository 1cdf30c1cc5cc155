"""What a writer is. To add one, write one file: a function that takes rows and a path, with its name and suffixes.

    from steelyard.records.writers.contract import opened, writer

    @writer("outline", ".outline", text=True)
    def outline(parts, path, verbatim):
        for records in parts:
            ...
        return ["what there is to say"]

The rows come in parts that have the same columns; one that needs all of them at once says `whole=True`. A file in this
folder is known at once. Columns keep their dotted names. What was nested or of several kinds, and is kept as JSON text,
is written as JSON again where the format knows it.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import UsageError, printable
from steelyard.ground.files import replacing
from steelyard.records.table import Records
from steelyard.registry import Registry

_ROWS = 10_000  # at a time

Write = Callable[[Iterable[Records], Path, bool], list[str]]  # rows, file, whether verbatim; what there is to say


@dataclass(frozen=True, kw_only=True)
class Writer:
    """A format that tables are written in."""

    name: str
    suffixes: tuple[str, ...]
    write: Write
    text: bool = False  # whether it has no way to write numbers that are not finite
    packs: bool = False  # whether it may be compressed
    whole: bool = False  # whether it needs all rows at once


writers: Registry[Writer] = Registry("format to write")


def writer_of(path: Path) -> Writer:
    """The format that a file's suffix stands for."""
    name = path.name.lower()
    inner = name.removesuffix(".gz")
    named = [each for each in writers.values() if inner.endswith(each.suffixes) and (each.packs or inner == name)]
    if not named:
        known = ", ".join(suffix for each in writers.values() for suffix in each.suffixes)
        packed = ", ".join(suffix for each in writers.values() if each.packs for suffix in each.suffixes)
        raise UsageError(
            f"no format goes by the suffix of {printable(path)}; write one of: {known} (as .gz too: {packed})"
        )
    return named[0]


def write_records(records: Records, path: Path, *, verbatim: bool = False) -> list[str]:
    """Write a table to a file, whole or not at all; returns what there is to say about it.

    In CSV, a text that a spreadsheet would run as a formula gets an apostrophe before it, unless `verbatim`.
    """
    return write_parts([records], path, verbatim=verbatim)


def write_parts(parts: Iterable[Records], path: Path, *, verbatim: bool = False) -> list[str]:
    """The same with rows that come in parts."""
    chosen, lost = writer_of(path), 0

    def counted() -> Iterator[Records]:
        nonlocal lost
        for records in parts:
            if len(records):
                lost += _not_finite(records.to_arrow()) if chosen.text else 0
                yield records

    with replacing(path) as temporary:
        said = chosen.write(counted(), temporary, verbatim)
    return [*([f"{lost:,} numbers that are not finite are written as missing"] if lost else []), *said]


def some(parts: Iterable[Records]) -> tuple[Records, Iterator[Records]]:
    """The first part, and all of them; an error where there are no rows."""
    rest = iter(parts)
    first = next(rest, None)
    if first is None:
        raise UsageError("there are no rows to write")
    return first, chain([first], rest)


def writer(
    name: str, *suffixes: str, text: bool = False, packs: bool = False, whole: bool = False
) -> Callable[[Write], Write]:
    """Register a function as the writer of a format."""

    def add(write: Write) -> Write:
        writers.add(name, Writer(name=name, suffixes=suffixes, write=write, text=text, packs=packs, whole=whole))
        return write

    return add


def batches(records: Records, raw: Callable[[str], Any]) -> Iterator[tuple[list[str], Iterator[tuple[Any, ...]]]]:
    """The rows, some at a time, with the names of their columns; `raw` is what JSON text becomes."""
    table = records.to_arrow()
    jsons = {name for name in records.extras if records.extra(name).is_json}
    for start in range(0, table.num_rows, _ROWS):
        part = table.slice(start, _ROWS)
        columns = []
        for name, column in zip(part.column_names, part.columns, strict=True):
            values = column.to_pylist()
            columns.append([None if v is None else raw(v) for v in values] if name in jsons else values)
        yield part.column_names, zip(*columns, strict=True)


def _not_finite(table: Any) -> int:
    """How many numbers a table holds that no file has a way to write."""
    floats = [column for column in table.columns if pa.types.is_floating(column.type)]
    return sum(int(pc.sum(pc.invert(pc.is_finite(column.drop_null()))).as_py() or 0) for column in floats)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, compressed where its name says so; temporary names keep the suffix before their token."""
    is_packed = path.name.rpartition(".")[0].lower().endswith(".gz")
    if not is_packed:
        with open(path, "wb") as plain:
            yield plain
        return
    with open(path, "wb") as plain, gzip.GzipFile(filename="", fileobj=plain, mode="wb", mtime=0) as packed:
        yield packed  # type: ignore[misc]
