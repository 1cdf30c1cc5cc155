"""How JSON Lines become columns: one object a line, at the speed of msgspec, with honest errors.

    {"item": "q1", "target": "A", "prediction": "B", "confidence": 0.8, "group": {"site": "x"}, "words": 25}

Nested objects flatten to dotted columns (`group.site`), lists of plain values of one kind stay lists, blank
lines are skipped. The reader learns the fields and their kinds from the lines and has msgspec decode into exactly
those. A line that msgspec refuses is read again by `strict_json`, and either teaches the reader something new (a
field, a fraction where whole numbers stood) or is refused with the reason.

msgspec lets the last of two equal keys win. A text has at least as many colons as keys, so where the lines have
exactly as many colons as the rows have fields, no key stands twice. Otherwise suspicious lines are read again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import repeat
from operator import attrgetter, is_
from typing import Annotated, Any, NoReturn, Union

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType

from steelyard.records.readers.contract import (
    LONGEST_LINE,
    MOST_COLUMNS,
    Block,
    Column,
    Input,
    Reader,
    Table,
    joined,
    readers,
)
from steelyard.records.readers.strict_json import TOO_LARGE, Flaw, NotJsonError, parse_line
from steelyard.records.schema import FIELDS, LARGEST_INT, SHOWN, expected, field_of, text_array

_DEEPEST = 8
_INT = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: dict[str, Any] = {"text": str, "int": _INT, "float": float, "bool": bool, "null": None}
_ARROW: dict[str, Any] = {
    "text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "null": pa.null()
}  # fmt: skip
_KINDS = {str: "text", bool: "bool", int: "int", float: "float", list: "list", type(None): "null"}
_UNSAYABLE = re.compile(r'[\x00-\x1f"\\\ud800-\udfff]')  # msgspec takes no such character in a field's name
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def load(source: Input) -> Table:
    """The columns of a JSON Lines input."""
    lines = _Lines(source)
    for block in source.blocks():
        lines.read(block)
    return lines.table()


readers.add("jsonl", Reader("jsonl", (".jsonl", ".ndjson"), load))


class _Leaf:
    """A field that is a column: its name, the rule for it, and the kind of its values so far.

    `decoded` is the Arrow type of the kind that the present Struct decodes, before anything new was learned.
    """

    def __init__(self, column: str) -> None:
        self.column = column
        self.rule = field_of(column)
        self.kind, self.element = "null", "null"
        self.decoded: Any = pa.null()

    @property
    def type(self) -> Any:
        if self.kind != "list":
            return _TYPES[self.kind]
        return list.__class_getitem__(Union[_TYPES[self.element], None])  # noqa: UP007 - made at run time

    @property
    def arrow(self) -> Any:
        return pa.list_(_ARROW[self.element]) if self.kind == "list" else _ARROW[self.kind]


class _Node:
    """An object: its fields, and the Struct that msgspec decodes it into (`built`: its fields in that order)."""

    def __init__(self) -> None:
        self.fields: dict[str, _Leaf | _Node] = {}
        self.built: list[_Leaf | _Node] = []
        self.size = 0  # how many fields the Struct has, those of nested ones included
        self.struct: type[msgspec.Struct] = msgspec.Struct
        self.empty: Any = None

    def build(self) -> bool:
        """Make the Struct; False if msgspec cannot be told a field's name, so that every line must go slow."""
        sayable = not any(map(_UNSAYABLE.search, self.fields))
        self.built = list(self.fields.values())
        types: list[Any] = []
        for place, child in enumerate(self.built):
            if isinstance(child, _Node):
                sayable &= child.build()
                kind: Any = child.struct
            else:
                child.decoded = child.arrow
                kind = child.type
            types.append((f"f{place}", Union[kind, None, UnsetType], UNSET))  # noqa: UP007 - made at run time
        names = {f"f{place}": key for place, key in enumerate(self.fields)} if sayable else None
        self.struct = msgspec.defstruct("Row", types, rename=names, gc=False, forbid_unknown_fields=True)
        self.empty = self.struct()
        self.size = sum(1 + child.size if isinstance(child, _Node) else 1 for child in self.built)
        return sayable

    def instance(self, values: dict[str, Any]) -> msgspec.Struct:
        """The Struct of an object that `strict_json` has read."""
        given = {}
        for place, (key, child) in enumerate(self.fields.items()):
            if key in values:
                value = values[key]
                nested = isinstance(child, _Node) and value is not None
                given[f"f{place}"] = child.instance(value) if nested else value  # type: ignore[union-attr]
        return self.struct(**given)

    def leaves(self) -> Iterator[_Leaf]:
        """The fields that are columns, in the order in which they were met."""
        for child in self.fields.values():
            if isinstance(child, _Node):
                yield from child.leaves()
            else:
                yield child


class _Refusing:
    """Stands for msgspec where it cannot help: before the first line, and beside names that it does not take."""

    def decode(self, _: bytes) -> NoReturn:
        raise msgspec.DecodeError

    decode_lines = decode


class _Lines:
    """The state of reading one input: the fields learned so far, and batches of columns made of its lines."""

    def __init__(self, source: Input) -> None:
        self._source = source
        self._root = _Node()
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
        rows = self._at_once(block.data)
        if rows is not None:
            self._close(rows, block.data, self._next)
            self._next += len(rows)
            return
        lines = block.data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        number, self._next = self._next, self._next + len(lines)
        if len(lines[0]) > LONGEST_LINE:
            raise self._source.error(f"the line is longer than {LONGEST_LINE // 2**20} MiB", line=number)
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
            except NotJsonError as problem:
                last = block.last and not any(map(bytes.strip, pending))
                if not (problem.torn and last):
                    start = block.offset + sum(map(len, lines[:at])) + at
                    raise self._not_json(problem, number + at, start) from None
                self._torn(number + at, self._rows + len(rows) + len(objects))
                del lines[at:]
                break
            if self._learn(self._root, values, (), number + at) and not objects:
                self._close(rows, b"\n".join(lines[first:at]), number + first)
                rows, first, blank = [], at, 0
                self._decoder, self._stale, self._patience = _Refusing(), True, 2 * self._patience
            objects.append((number + at, values))
            if not self._stale or len(objects) >= self._patience:
                rows += self._structs(objects)
                objects = []
        rows += self._structs(objects)
        self._close(rows, b"\n".join(lines[first:]), number + first)

    def table(self) -> Table:
        """All batches as one table."""
        if not self._rows:
            raise self._source.error("there are no records: the file is empty or blank")
        lines = None
        if self._blank:
            lines = np.setdiff1d(np.arange(1, self._next), self._blank)[: self._rows]
        columns = {leaf.column: self._joined(leaf, lines) for leaf in self._root.leaves()}
        return Table(columns, self._rows, lines, warnings=tuple(self._warnings))

    # -- lines -------------------------------------------------------------------------------------------------

    def _at_once(self, text: bytes) -> list[Any] | None:
        """The rows of a whole block in one go, if it is certain that each line is one object.

        After a closing brace only a new object may open without a comma. So where every line ends with one brace
        and begins with the other, no object spans lines, and with as many objects as lines none shares its line.
        """
        try:
            rows: list[Any] = self._decoder.decode_lines(text)
        except _REFUSED:
            return None
        letters = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(letters == ord("\n"))
        if len(ends) != len(rows) or letters[-1] != ord("\n") or letters[0] != ord("{"):
            return None
        closed, opened = letters[ends - 1] == ord("}"), letters[ends[:-1] + 1] == ord("{")
        return rows if closed.all() and opened.all() else None

    def _object(self, line: bytes, number: int) -> dict[str, Any]:
        found = parse_line(line)
        if isinstance(found, Flaw):
            raise self._source.error(found.problem, line=number, field=found.key)
        return found

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

    def _learn(self, node: _Node, values: dict[str, Any], path: tuple[str, ...], number: int) -> bool:
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
                if len(path) + 1 >= _DEEPEST:
                    refuse(f"objects nest deeper than {_DEEPEST} levels")
                if child is None or (isinstance(child, _Leaf) and child.kind == "null"):
                    self._columns.pop(column, None)
                    node.fields[key] = child = _Node()
                    changed = True
                if isinstance(child, _Leaf):
                    refuse(f"{SHOWN[child.kind]} is expected as in the rows before, this is an object")
                changed |= self._learn(child, value, (*path, key), number)
                continue
            if child is None:
                node.fields[key] = child = self._leaf(name, number)
                changed = True
            if isinstance(child, _Leaf):
                changed |= _fit(child, value, refuse)
            elif value is not None:
                refuse(f"an object is expected as in the rows before, this is {SHOWN[_KINDS[type(value)]]}")
        return changed

    def _leaf(self, name: str, number: int) -> _Leaf:
        column = self._source.column(name)
        if column in self._columns:
            if {column} != {name, self._columns[column]}:
                raise self._source.taken(column)
            raise self._source.error("stands twice: as a dotted name and as an object", line=number, field=name)
        if len(self._columns) >= MOST_COLUMNS:
            raise self._source.error(f"more than {MOST_COLUMNS:,} different fields", line=number, field=name)
        self._columns[column] = name
        return _Leaf(column)

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
        """Turn decoded rows into columns, once it is certain that no key stood twice and no number was rounded."""
        if not rows:
            return
        arrays: dict[str, Column] = {}
        keys = np.full(len(rows), self._root.size)
        _extract(self._root.built, rows, arrays, keys)
        colons, total = np.count_nonzero(np.frombuffer(text, np.uint8) == ord(":")), int(keys.sum())
        rounded = any(_inexact(array) is not None for array in arrays.values() if "double" in str(array.type))
        if rounded or (colons != total and _most_keys(text) != total):
            lines = [(number + at, line) for at, line in enumerate(text.split(b"\n")) if line.strip()]
            for (at, line), known in zip(lines, keys.tolist(), strict=True):
                if rounded or _most_keys(line) != known:
                    self._learn(self._root, self._object(line, at), (), at)
        self._batches.append((len(rows), arrays))
        self._rows += len(rows)

    def _joined(self, leaf: _Leaf, lines: npt.NDArray[np.int64] | None) -> Column:
        """One array of the column's final kind from all batches."""
        chunks: list[Column] = []
        for rows, arrays in self._batches:
            chunk = arrays.pop(leaf.column, None)  # so that a column is not held twice for long
            if chunk is None or pa.types.is_null(chunk.type):
                chunk = pa.nulls(rows, leaf.arrow)
            elif chunk.type != leaf.arrow:
                if (place := _inexact(chunk)) is not None:
                    row = sum(map(len, chunks)) + place
                    line = row + 1 if lines is None else int(lines[row])
                    raise self._source.error(TOO_LARGE, line=line, field=leaf.column)
                chunk = chunk.cast(leaf.arrow)
            chunks.append(chunk)
        return joined(chunks)


def _fit(leaf: _Leaf, value: Any, refuse: Callable[[str], NoReturn]) -> bool:
    """Check a value against its column and widen the column's kind if needed; True if that changed."""
    kind, before = _KINDS[type(value)], (leaf.kind, leaf.element)
    if kind == "null":
        return False
    if leaf.rule is not None and kind not in leaf.rule.kinds:
        refuse(f"{expected(leaf.rule)} is expected, this is {SHOWN[kind]}{_unquoted(value)}")
    if leaf.rule is not None and leaf.rule.kinds == ("int", "float"):
        kind = "float"
    leaf.kind = _wider(leaf.kind, kind) or refuse(
        f"{SHOWN[leaf.kind]} is expected as in the rows before, this is {SHOWN[kind]}{_unquoted(value)}"
    )
    parts = value if isinstance(value, list) else [value]
    if kind == "list":
        for part in parts:
            if isinstance(part, list | dict | Flaw):
                refuse(part.problem if isinstance(part, Flaw) else "a list holds plain values, not lists or objects")
            leaf.element = _wider(leaf.element, _KINDS[type(part)]) or refuse(
                "the values in the lists of one column are of one kind"
            )
    if "float" in (leaf.kind, leaf.element) and any(type(p) is int and abs(p) > LARGEST_INT for p in parts):
        refuse(TOO_LARGE)
    return (leaf.kind, leaf.element) != before


def _wider(one: str, other: str) -> str | None:
    """The kind that holds both, None if there is none."""
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    return "float" if {one, other} == {"int", "float"} else None


def _unquoted(value: Any) -> str:
    try:
        float(value)
    except (TypeError, ValueError):
        return ""
    return "; write the number without quotes" if isinstance(value, str) else ""


def _most_keys(text: bytes) -> int:
    """At least as many as the keys in `text`, and exactly that in ordinary texts.

    A key ends with a quote and a colon, with or without blanks between. A backslash before the quote says that it
    stands inside a string, unless the backslash itself was escaped.
    """
    found = text.count(b'":') + text.count(b" :") + text.count(b"\t:") + text.count(b"\r:")
    return found if b'\\\\"' in text else found - text.count(b'\\":')


def _extract(
    fields: Sequence[_Leaf | _Node], rows: list[Any], arrays: dict[str, Column], keys: npt.NDArray[np.int_]
) -> None:
    """The columns of decoded objects; `keys`, the number of keys on each line, loses those that are absent."""
    for place, field in enumerate(fields):
        get = attrgetter(f"f{place}")
        if isinstance(field, _Leaf):
            arrays[field.column] = _array(field, rows, get, keys)
            continue
        values = list(map(get, rows))
        if set(map(type, values)) != {field.struct}:
            keys -= _absent(values)
            values = [value if type(value) is field.struct else field.empty for value in values]
        _extract(field.built, values, arrays, keys)


def _array(leaf: _Leaf, rows: list[Any], get: Callable[[Any], Any], keys: npt.NDArray[np.int_]) -> Column:
    kind = leaf.decoded
    if kind == pa.float64():
        with suppress(TypeError):  # a field that is absent
            numbers = np.fromiter(map(get, rows), float, len(rows))
            if not np.isnan(numbers).any():  # what NumPy makes of null
                return pa.array(numbers)
    values = list(map(get, rows))
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, UnicodeEncodeError):  # Arrow takes neither UNSET nor lone surrogates
        keys -= _absent(values)
        values = [None if value is UNSET else value for value in values]
    if kind == pa.string():
        return text_array(values)
    if kind == pa.list_(pa.string()):
        flat = text_array([part for value in values for part in value or ()])
        ends = np.cumsum([0, *(len(value or ()) for value in values)])
        missing = pa.array([value is None for value in values])
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), flat, mask=missing)
    return pa.array(values, kind)


def _absent(values: list[Any]) -> npt.NDArray[np.bool_]:
    return np.fromiter(map(is_, values, repeat(UNSET)), bool, len(values))


def _inexact(array: Column) -> int | None:
    """The first row with a number so large that a whole one may be rounded as a float."""
    listed = pa.types.is_list(array.type)
    values = array.flatten() if listed else array
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        return None
    limit = LARGEST_INT if pa.types.is_integer(values.type) else LARGEST_INT - 1  # the next one rounds down to it
    ends: Any = pc.min_max(values).as_py()
    if ends["min"] is None or (ends["max"] <= limit and ends["min"] >= -limit):
        return None
    bound: Any = pa.scalar(limit, values.type)
    beyond = pc.or_(pc.greater(values, bound), pc.less(values, pc.negate(bound)))
    place = pc.index(beyond, True).as_py()
    return int(pc.list_parent_indices(array)[place].as_py()) if listed else int(place)
