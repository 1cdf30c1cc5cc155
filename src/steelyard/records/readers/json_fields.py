"""What is known of the fields of JSON objects: their names, their kinds, and the Structs that msgspec fills.

A `Node` is an object, a `Leaf` a field that becomes a column. Both learn as lines come in: `fit` checks a value and
widens its column's kind, `Node.build` makes the Struct for what is known, `extract` turns filled ones into columns.
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

from steelyard.ground.json import TOO_LARGE, Flaw
from steelyard.records.readers.contract import Column
from steelyard.records.schema import LARGEST_INT, SHOWN, expected, field_of, text_array

_INT = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: dict[str, Any] = {"text": str, "int": _INT, "float": float, "bool": bool, "null": None}
_ARROW: dict[str, Any] = {
    "text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "null": pa.null()
}  # fmt: skip
KINDS = {str: "text", bool: "bool", int: "int", float: "float", list: "list", type(None): "null"}
_UNSAYABLE = re.compile(r'[\x00-\x1f"\\\ud800-\udfff]')  # msgspec takes no such character in a field's name


class Leaf:
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
                child.decoded = child.arrow
                kind = child.type
            types.append((f"f{place}", Union[kind, None, UnsetType], UNSET))  # noqa: UP007 - made at run time
        names = {f"f{place}": key for place, key in enumerate(self.fields)} if sayable else None
        self.struct = msgspec.defstruct("Row", types, rename=names, gc=False, forbid_unknown_fields=True)
        self.empty = self.struct()
        self.size = sum(1 + child.size if isinstance(child, Node) else 1 for child in self.built)
        return sayable

    def instance(self, values: dict[str, Any]) -> msgspec.Struct:
        """The Struct of an object that `strict_json` has read."""
        given = {}
        for place, (key, child) in enumerate(self.fields.items()):
            if key in values:
                value = values[key]
                nested = isinstance(child, Node) and value is not None
                given[f"f{place}"] = child.instance(value) if nested else value  # type: ignore[union-attr]
        return self.struct(**given)

    def leaves(self) -> Iterator[Leaf]:
        """The fields that are columns, in the order in which they were met."""
        for child in self.fields.values():
            if isinstance(child, Node):
                yield from child.leaves()
            else:
                yield child


def fit(leaf: Leaf, value: Any, refuse: Callable[[str], NoReturn]) -> bool:
    """Check a value against its column and widen the column's kind if needed; True if that changed."""
    kind, before = KINDS[type(value)], (leaf.kind, leaf.element)
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


def extract(
    fields: Sequence[Leaf | Node], rows: list[Any], arrays: dict[str, Column], keys: npt.NDArray[np.int_]
) -> None:
    """The columns of decoded objects; `keys`, the number of keys on each line, loses those that are absent."""
    for place, field in enumerate(fields):
        get = attrgetter(f"f{place}")
        if isinstance(field, Leaf):
            arrays[field.column] = _array(field, rows, get, keys)
            continue
        values = list(map(get, rows))
        if set(map(type, values)) != {field.struct}:
            keys -= _absent(values)
            values = [value if type(value) is field.struct else field.empty for value in values]
        extract(field.built, values, arrays, keys)


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
