"""Lists and pairs as they are written in one text: at which commas it splits, and what quotes and brackets keep whole.

    a, b                       two parts
    "a, b", 'c'                two parts; the quotes go
    ece(bins=15), [0, 50)      two parts: no comma inside (), [] or {} splits, and an interval may be half open
    "odd, name"=value          a pair whose name holds a comma

A quote counts at the beginning of a name or a value, so that O'Brien stays as it is; double quotes enclose a JSON
string, single ones the text itself. A quote or bracket without its end is a character like any other.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate

from steelyard.errors import UsageError, printable
from steelyard.halves import whole_text

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"' + r"|'[^']*'", re.DOTALL)
_BEFORE = frozenset(",=<>!.:*([{")  # after these, or at the very beginning, a quote opens
_AFTER = re.compile(r"\s*(?:[,=<>!.:*)\]}]|\Z)")  # and it closes before these, or at the very end


def outside(text: str) -> list[bool]:
    """For every character, whether it stands outside quotes and brackets."""
    change = [0] * (len(text) + 1)  # how many more enclose a character than the one before it
    opened: list[int] = []
    at, before = 0, ","
    while at < len(text):
        quoted = _QUOTED.match(text, at) if before in _BEFORE else None
        if quoted is not None and _AFTER.match(text, quoted.end()):
            change[at] += 1
            change[quoted.end()] -= 1
            at, before = quoted.end(), text[at]
            continue
        mark = text[at]
        if mark in "([{":
            opened.append(at)
        elif mark in ")]}" and opened:
            change[opened.pop()] += 1
            change[at + 1] -= 1
        before = before if mark.isspace() else mark
        at += 1
    return [depth == 0 for depth in accumulate(change[:-1])]


def split_at(mark: str, text: str) -> list[str]:
    """The parts between the marks (each one character) that stand outside quotes and brackets, as they are."""
    shown = outside(text)
    places = [at for at, character in enumerate(text) if character == mark and shown[at]]
    starts, ends = [0, *(at + 1 for at in places)], [*places, len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def split_commas(text: str) -> list[str]:
    """The parts between commas, without the white space around them; quotes stay.

    >>> split_commas('a, "b,c" , (0,50]')
    ['a', '"b,c"', '(0,50]']
    """
    return [part.strip() for part in split_at(",", text)]


def unquoted(text: str) -> str:
    """A name or a value as it is meant: without the quotes around it, or around what follows one of its dots.

    >>> unquoted('"a, b"'), unquoted('group."ward 7"'), unquoted("O'Brien")
    ('a, b', 'group.ward 7', "O'Brien")
    """
    return ".".join(_plain(part) for part in split_at(".", text.strip()))


def listed(text: str) -> list[str]:
    """The names or values of a list, without quotes; nothing between two commas is nothing."""
    return [unquoted(part) for part in split_commas(text) if part]


def pair_of(text: str) -> tuple[str, str] | None:
    """The name and the value of `name=value`, without quotes; None where one of them is not there."""
    name, *rest = split_at("=", text)
    value = "=".join(rest)
    return (unquoted(name), unquoted(value)) if name.strip() and value.strip() else None


def quoted(text: str) -> str:
    """A text in quotes, so that it is one name or value whatever it holds."""
    return json.dumps(text, ensure_ascii=False)


def pair_text(name: str, value: str) -> str:
    """`name=value` as one part of a list: with quotes only where it would not be read back without them.

    >>> pair_text("item", "question_id"), pair_text("item", "id, old")
    ('item=question_id', '"item"="id, old"')
    """
    plain = f"{name}={value}"
    is_one = split_commas(plain) == [plain] and pair_of(plain) == (name, value)
    return plain if is_one else f"{quoted(name)}={quoted(value)}"


def _plain(text: str) -> str:
    part = text.strip()
    if _QUOTED.fullmatch(part) is None:
        return text
    if part.startswith("'"):
        return part[1:-1]
    try:
        return whole_text(str(json.loads(part, strict=False)))
    except ValueError:
        raise UsageError(f"{printable(part)} is not a valid quoted text; single quotes take it as it is") from None
