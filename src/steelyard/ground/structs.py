"""Documents with PascalCase keys, written exactly so and read whatever the case of their keys."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import Any, TypeVar

import msgspec

from steelyard.errors import InputError, printable
from steelyard.ground.json import DIALECT, refusal

T = TypeVar("T", bound=msgspec.Struct)
_PLACE = re.compile(r" - at `\$(?P<path>[^`]*)`")


def converted(document: Any, kind: type[T], name: str, place: str = "") -> T:
    """A document as a struct of this kind, keys in any case; unknown keys are left alone."""
    if not isinstance(document, dict):
        raise InputError("an object is expected", file=name, field=place or None)
    future = "" if place else refusal(document)
    if future:
        raise InputError(future, file=name, field="SchemaVersion")
    known = {field.encode_name.lower(): field.encode_name for field in msgspec.structs.fields(kind)}
    fields: dict[str, Any] = {}
    for key, value in document.items():
        standard = known.get(key.lower())
        if standard is None:
            continue
        if standard in fields:
            raise InputError("the field appears twice, in different cases", file=name, field=_joined(place, standard))
        fields[standard] = value
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as problem:
        raise refused(problem, name, place) from None


def refused(problem: msgspec.ValidationError, name: str, place: str = "") -> InputError:
    """What is wrong with a document, and in which field."""
    text = str(problem)
    at = _PLACE.search(text)
    field = _joined(place, at["path"].lstrip(".") if at else "")
    said = "one of the documented words is expected" if text.startswith("Invalid enum value") else text
    return InputError(printable(_PLACE.sub("", said)), file=name, field=field or None)


def schema(kind: type[msgspec.Struct], title: str) -> dict[str, Any]:
    """The JSON Schema of documents of this kind."""
    (shape,), parts = schema_parts(kind)
    return {"$schema": DIALECT, "title": title, **shape, "$defs": parts}


def schema_parts(*kinds: type[msgspec.Struct]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """JSON Schemas of these kinds, and the parts that they refer to; the same with every Python and msgspec."""
    shapes, parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    return [_settled(shape) for shape in shapes], _settled(parts)


def _settled(schema: Any) -> Any:
    """The same schema with null after its alternatives and descriptions that are not indented.

    msgspec puts null there only since 0.22, and Python takes the indentation out of docstrings only since 3.13.
    """
    if isinstance(schema, list):
        return [_settled(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    settled = {key: _settled(value) for key, value in schema.items()}
    if isinstance(settled.get("anyOf"), list):
        settled["anyOf"].sort(key=lambda each: each == {"type": "null"})
    if isinstance(settled.get("description"), str):
        settled["description"] = cleandoc(settled["description"])
    return settled


def _joined(place: str, field: str) -> str:
    return f"{place}.{field}" if place and field else place or field
