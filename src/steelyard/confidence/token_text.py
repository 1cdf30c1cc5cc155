"""The text of a token, of which a part of a character may be all that there is.

A tokenizer may split a character into its bytes. Such a token has no text of its own; here it is written `<0xE2>`, one
for each byte, so that the texts of an answer's tokens are always all of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.halves import whole_text

_FRAGMENT = re.compile(r"(?:<0x[0-9A-F]{2}>)+")


def token_text(token: Any) -> str | None:
    """The text of a token as a server gives it, a mapping or an object with `token` and perhaps `bytes`.

    Servers cut `token` to whole characters, and some write the space of their tokenizer in it, so `bytes` come first.

    >>> token_text({"token": "", "bytes": [0xE2, 0x80]}), token_text({"token": " yes"})
    ('<0xE2><0x80>', ' yes')
    """
    given = field(token, "bytes")
    if isinstance(given, Sequence) and given and all(type(byte) is int and 0 <= byte < 256 for byte in given):
        return text_of_bytes(bytes(given))
    text = field(token, "token", "text")
    return whole_text(text) if isinstance(text, str) else None


def text_of_bytes(given: bytes) -> str:
    """Bytes as text, or as `<0xE2>` where they are not whole characters."""
    try:
        return given.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in given)


def bytes_of_text(text: str) -> bytes:
    """The bytes that a token's text stands for.

    >>> bytes_of_text("<0xE2><0x80>"), bytes_of_text("é")
    (b'\\xe2\\x80', b'\\xc3\\xa9')
    """
    if _FRAGMENT.fullmatch(text):
        return bytes(int(text[at + 3 : at + 5], 16) for at in range(0, len(text), 6))
    return text.encode()


def field(token: Any, *names: str) -> Any:
    """The first of these fields that a mapping or an object has, and that is not null."""
    for name in names:
        value = token.get(name) if isinstance(token, Mapping) else getattr(token, name, None)
        if value is not None:
            return value
    return None
