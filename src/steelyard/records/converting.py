"""From one file to another: what is read is written, column by column as it is.

Text formats are read twice, so that files may be larger than memory: once to learn which kind every column has, and
once to write it, some rows at a time. Anything else is read whole.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

from steelyard.ground.arrays import Progress
from steelyard.ground.files import STANDARD_INPUT
from steelyard.records.answers import LabelRules
from steelyard.records.readers import demand_as_is, read_as_is, unmet
from steelyard.records.readers.choosing import entered
from steelyard.records.readers.contract import Learned, Parts, Table
from steelyard.records.reading import ReadingAsIs
from steelyard.records.renaming import check_renamed
from steelyard.records.table import Records
from steelyard.records.writers import write_parts, write_records, writer_of


@dataclass(frozen=True, kw_only=True)
class Converted:
    """What was written."""

    format: str
    rows: int
    columns: tuple[str, ...]
    warnings: tuple[str, ...]


def convert(
    source: str,
    target: Path,
    *,
    verbatim: bool = False,
    progress: Progress | None = None,
    **reading: Unpack[ReadingAsIs],
) -> Converted:
    """Write what is in a file to another, whose suffix says the format; the options are those of `read_as_is`."""
    writer = writer_of(target)
    if not (reading.get("where") or writer.whole or source == STANDARD_INPUT or os.path.isdir(source)):
        streamed = _Stream(source, target, reading)
        if streamed.is_possible():
            return streamed.written(writer.name, verbatim=verbatim, progress=progress)
    records = read_as_is(source, progress=progress, **reading)
    said = write_records(records, target, verbatim=verbatim)
    excerpts = [each for each in records.sources if each.excerpt]
    if excerpts and writer.name != "inspect":  # whose logs say so themselves
        said.append("the file that was written does not say any more that it is an excerpt: a gate would not know")
    columns = (*records.stated, *records.extras)
    return Converted(format=writer.name, rows=len(records), columns=columns, warnings=(*records.warnings, *said))


class _AgainError(Exception):
    """Something new was learned while writing: what was written is not as it should be."""


@dataclass
class _Pass:
    """What one reading of the file met."""

    learned: Learned | None = None
    rows: int = 0
    columns: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)


class _Stream:
    """A file that is read as often as it takes, and never held."""

    def __init__(self, source: str, target: Path, reading: ReadingAsIs) -> None:
        self._source, self._target, self._format = source, target, reading.get("format")
        self._names = dict(reading.get("map") or {})
        self._wanted = demand_as_is(reading, self._names)
        self._options: dict[str, Any] = {
            "rename": self._names,
            "salvage": reading.get("salvage", False),
            "demand": self._wanted,
            "labels": LabelRules(labels="exact"),
        }

    def is_possible(self) -> bool:
        """True if the format can be read in parts."""
        with entered(self._source, self._format, **self._options) as (reader, _):
            return reader.parts is not None

    def written(self, format: str, *, verbatim: bool, progress: Progress | None) -> Converted:
        """Learn the kinds of the columns, then write the rows."""
        first = _Pass()
        for _ in self._rows(first, None, _half(progress, 0)):
            pass
        known = first.learned
        while True:
            one = _Pass()
            try:
                said = write_parts(self._checked(one, known, _half(progress, 1)), self._target, verbatim=verbatim)
            except _AgainError:
                known = one.learned
                continue
            warnings = (*one.warnings, *unmet(self._wanted, one.columns, one.skipped), *said)
            return Converted(format=format, rows=one.rows, columns=one.columns, warnings=warnings)

    def _checked(self, one: _Pass, known: Learned | None, progress: Progress | None) -> Iterator[Records]:
        """The rows; what is found wrong at their end takes back what was written."""
        yield from self._rows(one, known, progress)
        if known is None or one.learned is None or one.learned.shape != known.shape:
            raise _AgainError

    def _rows(self, one: _Pass, known: Learned | None, progress: Progress | None) -> Iterator[Records]:
        with entered(self._source, self._format, progress=progress, **self._options) as (reader, opened):
            assert reader.parts is not None
            for table in _noted(reader.parts, opened, known, one):
                one.rows += table.rows
                one.columns, one.skipped = (*table.columns, *table.extras), table.skipped
                yield Records(table.columns, extras=table.extras)
            one.warnings = list(opened.warnings)
            if known is not None:
                check_renamed(self._names, opened.renamed, (*one.columns, *one.skipped))
                unmet(self._wanted, one.columns, one.skipped)


def _noted(parts: Parts, opened: Any, known: Learned | None, one: _Pass) -> Generator[Table, None, None]:
    """The parts, and what was learned from them."""
    one.learned = yield from parts(opened, known)


def _half(progress: Progress | None, place: int) -> Progress | None:
    return None if progress is None else lambda share: progress((place + share) / 2)
