"""Half a character: a lone surrogate, which Python's strings and JSON can hold and UTF-8 cannot.

Where text enters, half a character becomes the six characters of its escape, as they stand in a JSON file anyway. So no
string has one behind the doors, and whatever is written is UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, overload

_SUSPECT = re.compile(rb"\\u[dD][89a-fA-F]")
_HEX = rb"[0-9a-fA-F]{2}"
# an escaped backslash and a whole character match too, so that no half is seen in them
_ESCAPE = re.compile(
    rb"\\(?:\\|u[dD][89abAB]" + _HEX + rb"\\u[dD][c-fC-F]" + _HEX + rb"|(u[dD][89a-fA-F]" + _HEX + rb"))"
)


def whole_text(text: str) -> str:
    r"""The text, half a character in it as its escape; two halves that stand together are one character.

    >>> print(whole_text("a\ud800"), whole_text("\ud83e\udd94"))
    a\ud800 🦔
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return joined.encode("utf-8", "backslashreplace").decode()
    return text


def whole(value: Any) -> Any:
    """Plain data with whole texts, keys too."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, Mapping):
        return {whole(key): whole(part) for key, part in value.items()}
    return [whole(part) for part in value] if isinstance(value, list | tuple) else value


@overload
def mended(raw: bytes) -> bytes: ...


@overload
def mended(raw: bytearray) -> bytes | bytearray: ...


def mended(raw: bytes | bytearray) -> bytes | bytearray:
    r"""JSON text whose strings are whole: what `whole` makes of the value that it holds.

    >>> print(mended(rb'["\ud800", "\ud83d\ude00", "\\ud800"]').decode())
    ["\\ud800", "\ud83d\ude00", "\\ud800"]
    """
    return _ESCAPE.sub(_doubled, raw) if _SUSPECT.search(raw) else raw


def _doubled(match: re.Match[bytes]) -> bytes:
    return match[0] if match[1] is None else b"\\" + match[0].lower()
