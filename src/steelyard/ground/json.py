"""JSON, strictly: the only place that parses documents, and the only one that writes them.

Reading: a duplicate key, NaN and Infinity, numbers too large to be kept, which the usual parsers let pass silently, are
each left in place as a `Flaw`, so that whoever walks the object can say in which field it is. Half a character in a
text becomes its escape. Nothing here repeats a value in a message.

Writing: JSON's own types only, null for what is not finite, and a head that says what the document is. Equal documents
give equal bytes.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite, isinf
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import steelyard
from steelyard.errors import InputError
from steelyard.ground.files import opened, read_plain
from steelyard.halves import mended

SCHEMA_VERSION = "1"
SUPPORTED = ("1",)  # versions of documents that are read
DIALECT = "https://json-schema.org/draft/2020-12/schema"
LARGEST = 2**30  # bytes of a document
TOO_LARGE = "a whole number this large cannot be kept exactly"


@dataclass(frozen=True)
class Flaw:
    """Stands for a value, or for an object with a key of that name, that must not pass."""

    problem: str
    key: str | None = None


class NotJsonError(ValueError):
    """The text is no JSON. `torn`: it just ends early. `byte`: where it stops being UTF-8. `line`: of a document."""

    def __init__(self, problem: str, *, torn: bool = False, byte: int | None = None, line: int | None = None) -> None:
        super().__init__(problem)
        self.problem, self.torn, self.byte, self.line = problem, torn, byte, line


def parse_line(raw: bytes) -> dict[str, Any] | Flaw:
    """The object on a line; control characters in its strings are kept as they are."""
    try:
        value = _parsed(raw)
    except json.JSONDecodeError as problem:
        if problem.msg.startswith("Extra data"):
            raise NotJsonError("one object per line is expected, more follows the first") from None
        torn = not raw.strip(b" \t\r\x00").endswith(b"}") or _truncated(raw)
        raise NotJsonError(
            f"one object per line is expected, this is not valid JSON (column {problem.pos + 1})", torn=torn
        ) from None
    if not isinstance(value, dict | Flaw):
        what = "an array" if isinstance(value, list) else "a single value"
        raise NotJsonError(f"one object per line is expected, this is {what}")
    return value


def parse_document(raw: bytes) -> Any:
    """The value that a whole text holds; whatever must not pass stands in it as a `Flaw`."""
    try:
        return _parsed(raw)
    except json.JSONDecodeError as problem:
        torn = _truncated(raw)
        what = "the text ends early" if torn else f"not valid JSON (column {problem.colno})"
        raise NotJsonError(what, torn=torn, line=problem.lineno) from None


def flaws(document: Any) -> Iterator[tuple[tuple[str | int, ...], Flaw]]:
    """Everything in a document that must not pass, with the path to it."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, Flaw):
            yield (*path, value.key) if value.key is not None else path, value
            continue
        parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        waiting += reversed([((*path, key), part) for key, part in parts if isinstance(part, dict | list | Flaw)])


def first_flaw(document: Any) -> tuple[tuple[str | int, ...], Flaw] | None:
    """The first of them, None where there is none."""
    return next(flaws(document), None)


def without_flaws(value: Any) -> Any:
    """The value with null in the place of everything that must not pass."""
    if isinstance(value, Flaw):
        return None
    if isinstance(value, dict):
        return {key: without_flaws(part) for key, part in value.items()}
    return [without_flaws(part) for part in value] if isinstance(value, list) else value


def _parsed(raw: bytes) -> Any:
    try:
        raw.decode()  # the places of bad bytes are those of what was given
        return json.loads(
            mended(raw).decode(),
            object_pairs_hook=_object,
            parse_constant=lambda _: Flaw("a finite number is expected (null where a value is missing)"),
            parse_float=_float,
            parse_int=_int,
        )
    except UnicodeDecodeError as problem:
        torn = problem.end == len(raw) and problem.reason == "unexpected end of data"
        raise NotJsonError("not UTF-8 text", torn=torn, byte=problem.start) from None
    except RecursionError:
        raise NotJsonError("the objects or lists are nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Flaw:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    for key, _ in pairs:
        if key not in members:
            return Flaw("the key appears twice in one object", key)
        del members[key]
    raise AssertionError


def _float(text: str) -> float | Flaw:
    value = float(text)
    return Flaw("a finite number is expected, this one is too large") if isinf(value) else value


def _int(text: str) -> int | Flaw:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        return Flaw(TOO_LARGE)
    return int(text)


def _truncated(raw: bytes) -> bool:
    """True if the parser was content up to the end and wanted more."""
    try:
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        return "truncated" in str(problem)
    return False


# -- files -------------------------------------------------------------------------------------------------------------


def read_strict(path: str | Path) -> tuple[Any, bytes]:
    """The JSON in a file, and its bytes; what is not strict JSON is an error with its place."""
    with opened(str(path)) as (name, stream):
        raw = stream.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise InputError("more than a gigabyte; this is no document of this kind", file=name)
    return strict(raw, name), raw


def strict(raw: bytes, name: str) -> Any:
    """The JSON in some bytes, strictly."""
    try:
        document = parse_document(raw.removeprefix(codecs.BOM_UTF8))
    except NotJsonError as problem:
        raise InputError(problem.problem, file=name, line=problem.line) from None
    flaw = first_flaw(document)
    if flaw is not None:
        raise InputError(flaw[1].problem, file=name, field=".".join(map(str, flaw[0])))
    return document


def read_json(path: Path) -> Any:
    """The document in a plain file of ours; a ValueError where it is not strict JSON."""
    document = parse_document(read_plain(path))
    if first_flaw(document) is not None:
        raise ValueError("not strict JSON")
    return document


# -- documents ---------------------------------------------------------------------------------------------------------


def head(kind: str) -> dict[str, Any]:
    """How a document begins."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "tool": {"name": "steelyard", "version": steelyard.__version__},
    }


def plain(value: Any) -> Any:
    """The value in JSON's own types; non-finite numbers are null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value


def dumps(document: Any) -> str:
    """The document as text: strict JSON, indented, ending in a newline."""
    compact = mended(json.dumps(document, allow_nan=False, ensure_ascii=True).encode())  # a path may be no UTF-8
    text = msgspec.json.format(compact, indent=2).decode()  # json indents in Python, this does not
    return text.replace("\x7f", "\\u007f") + "\n"  # the one control character that JSON lets stand


def refusal(document: Any) -> str:
    """Why a document cannot be read: its version, where it states one that this program does not know; else nothing."""
    if not isinstance(document, Mapping):
        return ""
    stated = [value for key, value in document.items() if key.lower().replace("_", "") == "schemaversion"]
    unknown = [value for value in stated if value is not None and not _is_supported(value)]
    if not unknown:
        return ""
    plain = re.fullmatch(r"\d{1,3}(\.\d{1,3})?", str(unknown[0]))
    named = f"version {unknown[0]}" if plain else "a version that is not known"
    return f"{named}; this program reads {', '.join(SUPPORTED)}"


def _is_supported(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, str | int) and str(value) in SUPPORTED
