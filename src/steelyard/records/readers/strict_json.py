"""JSON as it was meant, a line or a whole document: what the usual parsers let pass silently is found here.

A key that stands twice, NaN and Infinity, numbers too large to be kept: each is left in place as a `Flaw`, so that
whoever walks the object can say in which field it stands. Nothing here repeats a value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import isinf
from typing import Any

import msgspec

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
    """The object on a line; lone surrogates and control characters in its strings are kept as they are."""
    try:
        found = _parsed(raw)
    except json.JSONDecodeError as problem:
        if problem.msg.startswith("Extra data"):
            raise NotJsonError("one object per line is expected, more follows the first") from None
        torn = not raw.strip(b" \t\r\x00").endswith(b"}") or _truncated(raw)
        raise NotJsonError(
            f"one object per line is expected, this is not valid JSON (column {problem.pos + 1})", torn=torn
        ) from None
    if not isinstance(found, dict | Flaw):
        what = "an array" if isinstance(found, list) else "a single value"
        raise NotJsonError(f"one object per line is expected, this is {what}")
    return found


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


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(
            raw.decode(),
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
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    for key, _ in pairs:
        if key not in found:
            return Flaw("the key stands twice in one object", key)
        del found[key]
    raise AssertionError


def _float(text: str) -> float | Flaw:
    value = float(text)
    return Flaw("a finite number is expected, this one is too large") if isinf(value) else value


def _int(text: str) -> int | Flaw:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        return Flaw(TOO_LARGE)
    return int(text)


def _truncated(raw: bytes) -> bool:
    """Whether the parser was content up to the end and wanted more."""
    try:
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        return "truncated" in str(problem)
    return False
