"""What is known of the fields of JSON objects: their names, their kinds, and the Structs that msgspec fills.

A `Node` is an object, a `Leaf` a field that becomes a column. Both learn as lines come in: `fit` checks a value and
widens its column's kind, `Node.build` makes the Struct for what is known, `extract` turns filled ones into columns.

A leaf of the kind "json" holds whatever stands there as JSON text: values of several kinds, lists of objects, objects
that nobody wants taken apart. One that nobody wants at all is such a leaf too, and makes no column.
"""

from __future__ import annotations

import json
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

from steelyard.ground.json import TOO_LARGE, Flaw
from steelyard.records.demand import Want
from steelyard.records.extras import json_texts
from steelyard.records.readers.contract import Column, joined
from steelyard.records.schema import LARGEST_INT, SHOWN, expected, field_of, text_array

_INT = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: dict[str, Any] = {"text": str, "int": _INT, "float": float, "bool": bool, "null": None}
_ARROW: dict[str, Any] = {
    "text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "null": pa.null(),
    "json": pa.string(),
}  # fmt: skip
KINDS = {str: "text", bool: "bool", int: "int", float: "float", list: "list", dict: "object", type(None): "null"}
_UNSAYABLE = re.compile(r'[\x00-\x1f"\\]')  # msgspec takes no such character in a field's name


class MisfitError(ValueError):
    """A value is of another kind than its column."""


class Leaf:
    """A field that is a column: its name, the rule for it, and the kind of its values so far.

    `decoded` is the Arrow type of the kind that the present Struct decodes, before anything new was learned; `raw` says
    whether that is JSON. `problem` is why the column cannot be read, with the line, and `former` what it was before.
    """

    def __init__(self, column: str, want: Want = "read") -> None:
        self.column, self.want = column, want
        self.rule = field_of(column)
        self.kind, self.element = "null" if want != "skip" else "json", "null"
        self.decoded: Any = pa.null()
        self.raw = False
        self.problem: tuple[str, int] | None = None
        self.former: Node | None = None

    def demote(self, problem: str, line: int) -> None:
        """Hold whatever there is as JSON from here on."""
        self.kind, self.problem = "json", self.problem or (problem, line)

    @property
    def type(self) -> Any:
        if self.kind != "list":
            return _TYPES[self.kind]
        return list.__class_getitem__(Union[_TYPES[self.element], None])  # noqa: UP007 - made at run time

    @property
    def arrow(self) -> Any:
        return pa.list_(_ARROW[self.element]) if self.kind == "list" else _ARROW[self.kind]


class Node:
    """An object: its fields, and the Struct that msgspec decodes it into (`built`: its fields in that order)."""

    def __init__(self) -> None:
        self.fields: dict[str, Leaf | Node] = {}
        self.built: list[Leaf | Node] = []
        self.size = 0  # how many fields the Struct has, those of nested ones included
        self.struct: type[msgspec.Struct] = msgspec.Struct
        self.empty: Any = None

    def build(self) -> bool:
        """Make the Struct; False if msgspec cannot be told a field's name, so that every line must go slow."""
        sayable = not any(map(_UNSAYABLE.search, self.fields))
        self.built = list(self.fields.values())
        types: list[Any] = []
        for place, child in enumerate(self.built):
            if isinstance(child, Node):
                sayable &= child.build()
                kind: Any = child.struct
            else:
                child.decoded, child.raw = child.arrow, child.kind == "json"
                if child.raw:
                    types.append((f"f{place}", msgspec.Raw, UNSET))
                    continue
                kind = child.type
            types.append((f"f{place}", Union[kind, None, UnsetType], UNSET))  # noqa: UP007 - made at run time
        names = {f"f{place}": key for place, key in enumerate(self.fields)} if sayable else None
        self.struct = msgspec.defstruct("Row", types, rename=names, gc=False, forbid_unknown_fields=True)
        self.empty = self.struct()
        self.size = sum(1 + child.size if isinstance(child, Node) else 1 for child in self.built)
        return sayable

    def instance(self, values: dict[str, Any]) -> msgspec.Struct:
        """The Struct of an object that `strict_json` has read."""
        given: dict[str, Any] = {}
        for place, (key, child) in enumerate(self.fields.items()):
            if key in values:
                value = values[key]
                if isinstance(child, Node):
                    given[f"f{place}"] = None if value is None else child.instance(value)
                else:
                    given[f"f{place}"] = msgspec.Raw(json.dumps(value).encode()) if child.raw else value
        return self.struct(**given)

    def leaves(self) -> Iterator[Leaf]:
        """The fields that are columns, in the order in which they were met."""
        for child in self.fields.values():
            if isinstance(child, Node):
                yield from child.leaves()
            else:
                yield child


def refuse(problem: str) -> NoReturn:
    """Say that a value does not fit."""
    raise MisfitError(problem)


def fit(leaf: Leaf, value: Any) -> bool:
    """Check a value against its column and widen the column's kind if needed; True if that changed."""
    if isinstance(value, Flaw):
        refuse(value.problem)
    kind, before = KINDS[type(value)], (leaf.kind, leaf.element)
    if kind == "null":
        return False
    if kind == "object":
        known = leaf.rule is None and leaf.kind != "null"
        rule = f"{SHOWN[leaf.kind]} is expected as in the rows before" if known else "a single value is expected"
        refuse(f"{expected(leaf.rule)} is expected, this is an object" if leaf.rule else f"{rule}, this is an object")
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
            leaf.element = _wider(leaf.element, KINDS[type(part)]) or refuse(
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


class Batch:
    """The columns of some rows, which of them hold JSON, and, until they are checked, the texts that nobody read."""

    def __init__(self, rows: int, keys: int) -> None:
        self.rows = rows
        self.arrays: dict[str, Column] = {}
        self.json: set[str] = set()
        self.raw: dict[Leaf, list[bytes]] = {}  # one text per row; empty where the field is absent
        self.keys = np.full(rows, keys)  # on each line, those inside raw texts apart

    def settle(self) -> None:
        """Make columns of the texts that are wanted, and forget the others."""
        for leaf, raw in self.raw.items():
            if leaf.want != "skip":
                self.arrays[leaf.column] = text_array([None if t in (b"", b"null") else t.decode() for t in raw])
                self.json.add(leaf.column)
        self.raw.clear()

    def column(self, leaf: Leaf) -> Column:
        """A column in its final form, None where these rows lack it; JSON where its leaf became that later."""
        chunk = self.arrays.pop(leaf.column, None)  # so that a column is not held twice for long
        if leaf.kind != "json" or leaf.column in self.json:
            return chunk
        if chunk is None and leaf.former is not None:
            objects = _objects(leaf.former, self)
            return text_array([None if each is None else json.dumps(each) for each in objects])
        return None if chunk is None else json_texts(chunk)


def merged(batches: list[Batch]) -> list[Batch]:
    """Many batches as one, which takes less room, where all have the same columns; else they stay as they are."""
    first = batches[0]
    shape = {name: array.type for name, array in first.arrays.items()}
    if any({n: a.type for n, a in b.arrays.items()} != shape or b.json != first.json for b in batches[1:]):
        return batches
    whole = Batch(sum(batch.rows for batch in batches), 0)
    whole.json = first.json
    whole.arrays = {name: joined([batch.arrays[name] for batch in batches]) for name in shape}
    return [whole]


def _objects(node: Node, batch: Batch) -> list[dict[str, Any] | None]:
    """The objects that columns were made of, without keys that have no value."""
    parts: dict[str, list[Any]] = {}
    for key, child in node.fields.items():
        if isinstance(child, Node):
            parts[key] = _objects(child, batch)
        elif child.column in batch.arrays:
            chunk = batch.arrays.pop(child.column)
            values = chunk.to_pylist()
            is_json = child.column in batch.json
            parts[key] = [None if v is None else json.loads(v) for v in values] if is_json else values
    rows = ({key: values[row] for key, values in parts.items() if values[row] is not None} for row in range(batch.rows))
    return [row or None for row in rows]


def extract(fields: Sequence[Leaf | Node], rows: list[Any], batch: Batch) -> None:
    """The columns of decoded objects; `batch.keys` loses those that are absent."""
    keys = batch.keys
    for place, field in enumerate(fields):
        get = attrgetter(f"f{place}")
        if isinstance(field, Leaf):
            if field.raw:
                values = list(map(get, rows))
                keys -= _absent(values)
                batch.raw[field] = [b"" if value is UNSET else bytes(value) for value in values]
            else:
                batch.arrays[field.column] = _array(field, rows, get, keys)
            continue
        values = list(map(get, rows))
        if set(map(type, values)) != {field.struct}:
            keys -= _absent(values)
            values = [value if type(value) is field.struct else field.empty for value in values]
        extract(field.built, values, batch)


def _array(leaf: Leaf, rows: list[Any], get: Callable[[Any], Any], keys: npt.NDArray[np.int_]) -> Column:
    kind = leaf.decoded
    if kind == pa.float64():
        with suppress(TypeError):  # a field that is absent
            numbers = np.fromiter(map(get, rows), float, len(rows))
            if not np.isnan(numbers).any():  # what NumPy makes of null
                return pa.array(numbers)
    values = list(map(get, rows))
    try:
        return pa.array(values, kind)
    except pa.ArrowException:  # Arrow does not take UNSET
        keys -= _absent(values)
        return pa.array([None if value is UNSET else value for value in values], kind)


def _absent(values: list[Any]) -> npt.NDArray[np.bool_]:
    return np.fromiter(map(is_, values, repeat(UNSET)), bool, len(values))


def inexact(array: Column) -> int | None:
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
