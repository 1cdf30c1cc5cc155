"""Specs: YAML files that people write, read strictly into a Struct.

What is wrong is said with the file, the line and the field, and an unknown key with what may have been meant. The same
mapping may be given in Python; then there is no line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from steelyard.errors import UsageError, printable
from steelyard.ground.yaml import load_yaml, places
from steelyard.registry import closest

T = TypeVar("T", bound=msgspec.Struct)
Place = tuple[str | int, ...]

_AT = re.compile(r" - at `(?:key in )?\$(?P<path>[^`]*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>.*)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<key>[^`]*)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[(\.\.\.)\]")


def read_spec(path: Path, kind: type[T]) -> T:
    """The spec in a YAML file."""
    return spec_of(load_yaml(path), kind, source=str(path), lines=places(path))


def spec_of(raw: Any, kind: type[T], *, source: str, lines: Mapping[Place, int] | None = None) -> T:
    """A mapping as a spec of this kind; `lines` says where in the source each part stands."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as problem:
        raise UsageError(_said(str(problem), kind, source, lines or {})) from None


def at(source: str, lines: Mapping[Place, int], place: Place, problem: str) -> UsageError:
    """A problem at a place of a spec."""
    return UsageError(f"{_where(source, lines, place)}{_field(place)}{problem}")


def _said(problem: str, kind: type[msgspec.Struct], source: str, lines: Mapping[Place, int]) -> str:
    found = _AT.search(problem)
    place = _steps(found["path"]) if found else ()
    plain = _AT.sub("", problem)
    unknown, missing = _UNKNOWN.search(plain), _MISSING.search(plain)
    if unknown is not None:
        key = unknown["key"]
        known = _fields(kind, place)
        near = closest(key, known)
        hint = f"did you mean '{near}'?" if near else f"there are: {', '.join(known)}"
        return f"{_where(source, lines, (*place, key))}{_field(place)}unknown key '{printable(key)}'; {hint}"
    if missing is not None:
        return f"{_where(source, lines, place)}{_field(place)}'{missing['key']}' is needed"
    return f"{_where(source, lines, place)}{_field(place)}{printable(_in_words(plain, kind, place))}"


_KINDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "object": "a mapping",
    "array": "a list", "null": "nothing",
}  # fmt: skip
_OTHER = re.compile(r"Expected `(?P<one>[^`]*)`, got `(?P<two>[^`]*)`")
_BOUND = re.compile(r"Expected `(?P<kind>[^`]*)` (?P<sign>[<>]=?) (?P<bound>\S+)")
_LENGTH = re.compile(r"Expected `(?P<kind>[^`]*)` of length (?P<sign>[<>]=?) (?P<bound>\d+)")
_SIGNS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


def _in_words(problem: str, kind: type[msgspec.Struct], place: Place) -> str:
    """A problem as msgspec says it, in plain words."""
    if problem.startswith("Invalid enum value"):
        return f"one of {', '.join(_choices(kind, place))} is expected"
    if (match := _OTHER.search(problem)) is not None:
        return f"{_kind(match['one'])} is expected, this is {_kind(match['two'])}"
    if (match := _LENGTH.search(problem)) is not None:
        what = "entries" if match["kind"] == "array" else "characters"
        return f"{_SIGNS[match['sign']]} {match['bound']} {what} are expected"
    if (match := _BOUND.search(problem)) is not None:
        return f"{_kind(match['kind'])} is expected, {_SIGNS[match['sign']]} {float(match['bound']):g}"
    return problem


def _kind(text: str) -> str:
    return " or ".join(_KINDS.get(each.strip(), each.strip()) for each in text.split("|"))


def _choices(kind: type[msgspec.Struct], place: Place) -> list[str]:
    here: Any = msgspec.inspect.type_info(kind)
    for step in place:
        here = _inside(here, step)
    literals = [each for each in _alternatives(here) if isinstance(each, msgspec.inspect.LiteralType)]
    return [str(value) for each in literals for value in each.values]


def _steps(path: str) -> Place:
    return tuple(int(number) if number else name or some for name, number, some in _STEP.findall(path))


def _where(source: str, lines: Mapping[Place, int], place: Place) -> str:
    line = next((lines[place[:size]] for size in range(len(place), 0, -1) if place[:size] in lines), None)
    return f"{printable(source)}:{line}: " if line else f"{printable(source)}: "


def _field(place: Place) -> str:
    shown = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
    return f"{printable(shown)}: " if shown else ""


def _fields(kind: Any, place: Place) -> list[str]:
    """The keys that are known at a place of a spec."""
    here: Any = msgspec.inspect.type_info(kind)
    for step in place:
        here = _inside(here, step)
    structs = [each for each in _alternatives(here) if isinstance(each, msgspec.inspect.StructType)]
    return [field.encode_name for each in structs for field in each.fields]


def _inside(here: Any, step: str | int) -> Any:
    for each in _alternatives(here):
        if isinstance(each, msgspec.inspect.StructType) and isinstance(step, str):
            for field in each.fields:
                if field.encode_name == step:
                    return field.type
        if isinstance(each, msgspec.inspect.ListType) and isinstance(step, int):
            return each.item_type
        if isinstance(each, msgspec.inspect.DictType):
            return each.value_type
    return None


def _alternatives(here: Any) -> tuple[Any, ...]:
    return tuple(here.types) if isinstance(here, msgspec.inspect.UnionType) else (here,)
