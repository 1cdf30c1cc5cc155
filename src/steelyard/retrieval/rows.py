"""Objects of a JSON file, or of its lines, each with the line that it begins on; names are read in any case.

`Row` asks for fields and refuses what they must not hold, without ever repeating it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError, UsageError, printable
from steelyard.ground.json import Flaw, NotJsonError, first_flaw, parse_document, parse_line
from steelyard.ground.json_places import element_lines
from steelyard.halves import mended
from steelyard.records.readers.inputs import LONGEST_LINE, Input
from steelyard.texts.vectors import Matrix, first_repeat, opened

LARGEST = 256 * 2**20  # bytes of one JSON document; JSON lines may be longer
Names = Mapping[str, tuple[str, ...]]  # a field, and how it may be called


class Row:
    """One object of a file and the line on which it begins; asks for fields and refuses what they must not hold."""

    def __init__(self, file: str, line: int, values: Mapping[str, Any], names: Names) -> None:
        self._file, self.line = file, line
        self._fields: dict[str, tuple[str, Any]] = {}
        known = {name.lower(): field for field, spellings in names.items() for name in spellings}
        for name, value in values.items():
            field = known.get(name.lower())
            if field is None or value is None:
                continue
            if field in self._fields:
                other = printable(self._fields[field][0])
                raise InputError(f"says the same as '{other}'; keep one of the two", file=file, line=line, field=name)
            self._fields[field] = name, value
        self._names = {field: spellings[0] for field, spellings in names.items()}

    def error(self, problem: str, field: str | None = None) -> InputError:
        """A problem of this object, or of one of its fields under the name that it has in the file."""
        name = None if field is None else self._fields.get(field, (self._names[field], None))[0]
        return InputError(problem, file=self._file, line=self.line, field=name)

    def value(self, field: str) -> Any:
        return self._fields.get(field, ("", None))[1]

    def text(self, field: str) -> str | None:
        """A text with something in it, None where the field is absent or null."""
        value = self.value(field)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.error("text is expected", field)
        if not value.strip():
            raise self.error("the text is empty", field)
        return value

    def label(self, field: str, value: Any = None) -> str | None:
        """A name or a number, as text; None where there is none or it is blank."""
        value = self.value(field) if value is None else value
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.error("text or a number is expected", field)
        return str(value)

    def vector(self, field: str) -> Matrix | None:
        """A list of numbers that has a direction."""
        value = self.value(field)
        if value is None:
            return None
        if not isinstance(value, list) or not value or not set(map(type, value)) <= {int, float}:
            raise self.error("a list of numbers is expected", field)
        try:
            vector: npt.NDArray[np.float64] = np.array(value, np.float64)
        except OverflowError:
            raise self.error("a finite number is expected, one of these is too large", field) from None
        if not vector.any():
            raise self.error("zero vector: it has no direction", field)
        return vector


def unique_ids(rows: Sequence[Row]) -> tuple[str, ...]:
    """The id of each row, if every row has one and no two are the same, capital letters aside."""
    ids = []
    for row in rows:
        id = row.label("id")
        if id is None:
            raise row.error("is missing: every object needs an id", "id")
        ids.append(id)
    if repeat := first_repeat(ids):
        first, second = rows[repeat[0]], rows[repeat[1]]
        raise second.error(
            f"the id '{printable(ids[repeat[1]])}' stands on lines {first.line} and {second.line}; ids are unique, and "
            "capital letters make no difference",
            "id",
        )
    return tuple(ids)


def same_for_all(rows: Sequence[Row], field: str, read: Callable[[Row, str], Any]) -> tuple[Any, ...] | None:
    """The field of each row, None where no row has it; that only some have it is an error."""
    values = tuple(read(row, field) for row in rows)
    lacking = [row for row, value in zip(rows, values, strict=True) if value is None]
    if lacking and len(lacking) < len(rows):
        raise lacking[0].error("is missing here, while other objects have it; all of them or none", field)
    return None if lacking else values


def read_rows(name: str, names: Names, *, what: str, inside: str | None = None) -> tuple[list[Row], str]:
    """The objects of a JSON file and its sha256. `inside`: the list may stand in an object, under that name."""
    suffix = Path(name).suffix.lower()
    if suffix not in (".jsonl", ".ndjson", ".json"):
        raise UsageError(f"{printable(name)}: {what} are not read from files of this suffix; write .jsonl or .json")
    with opened(name) as stream:
        source = Input(name, stream)
        objects = _elements(source, inside) if suffix == ".json" else _lines(source)
        rows = [Row(name, line, values, names) for line, values in objects]
    if not rows:
        raise InputError(f"there are no {what}: the file is empty or blank", file=name)
    return rows, source.sha256


def _lines(source: Input) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    for block in source.blocks():
        for raw in block.data.removesuffix(b"\n").split(b"\n"):
            number += 1
            if len(raw) > LONGEST_LINE:
                raise source.error(f"the line is longer than {LONGEST_LINE // 2**20} MiB", line=number)
            if not raw.strip():
                continue
            try:
                row = _quickly(raw) or parse_line(raw)
            except NotJsonError as wrong:
                raise source.error(wrong.problem, line=number) from None
            yield number, _object(source, row, number)


def _quickly(raw: bytes) -> dict[str, Any] | None:
    """The object on a line as msgspec reads it, where it cannot be wrong about it: vectors are long."""
    try:
        row = msgspec.json.decode(mended(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(row, dict) or raw.count(b":") != len(row):  # a key could be a duplicate
        return None
    large = any(isinstance(value, int) and abs(value) >= 2**63 for value in row.values())
    return None if large else row


def _elements(source: Input, inside: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    raw = source.text(LARGEST)
    try:
        document = parse_document(raw)
    except NotJsonError as wrong:
        raise source.error(wrong.problem, line=wrong.line) from None
    key = None
    if inside is not None and isinstance(document, dict):
        key = next((key for key in document if key.lower() == inside), None)
    lines = element_lines(raw.decode(), (None,) if key is None else (key, None))
    if flaw := first_flaw(document):
        at = flaw[0][0 if key is None else 1 :][:1]
        raise _refused(source, flaw, lines.get(tuple(part for part in at if isinstance(part, int))))
    elements = document if key is None else document[key]
    if not isinstance(elements, list):
        where = f", or an object with a list `{inside}`" if inside else ""
        raise source.error(f"a list of objects is expected{where}")
    for place, element in enumerate(elements):
        line = lines.get((place,), 1)
        yield line, _object(source, element, line)


def _object(source: Input, value: Any, line: int) -> dict[str, Any]:
    if flaw := first_flaw(value):
        raise _refused(source, flaw, line)
    if not isinstance(value, dict):
        raise source.error("an object is expected", line=line)
    return value


def _refused(source: Input, flaw: tuple[tuple[str | int, ...], Flaw], line: int | None) -> InputError:
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in flaw[0]).removeprefix(".")
    return source.error(flaw[1].problem, line=line, field=field or None)
