"""Documents with PascalCase keys, written exactly so and read whatever the case of their keys."""

from __future__ import annotations

import re
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
            raise InputError("the field stands twice, in different cases", file=name, field=_joined(place, standard))
        fields[standard] = value
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as problem:
        text = str(problem)
        at = _PLACE.search(text)
        field = _joined(place, at["path"].lstrip(".") if at else "")
        said = "one of the documented words is expected" if text.startswith("Invalid enum value") else text
        raise InputError(printable(_PLACE.sub("", said)), file=name, field=field or None) from None


def schema(kind: type[msgspec.Struct], title: str) -> dict[str, Any]:
    """The JSON Schema of documents of this kind."""
    (shape,), parts = schema_parts(kind)
    return {"$schema": DIALECT, "title": title, **shape, "$defs": parts}


def schema_parts(*kinds: type[msgspec.Struct]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """JSON Schemas of these kinds, and the parts that they refer to; the same with every version of msgspec."""
    shapes, parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    return [_null_last(shape) for shape in shapes], _null_last(parts)


def _null_last(schema: Any) -> Any:
    """The same schema with null after its alternatives, where msgspec puts it only since 0.22."""
    if isinstance(schema, list):
        return [_null_last(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    ordered = {key: _null_last(value) for key, value in schema.items()}
    if isinstance(ordered.get("anyOf"), list):
        ordered["anyOf"].sort(key=lambda each: each == {"type": "null"})
    return ordered


def _joined(place: str, field: str) -> str:
    return f"{place}.{field}" if place and field else place or field
