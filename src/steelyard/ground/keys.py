"""API keys: found in a variable of the environment, carried in a header, shown nowhere."""

from __future__ import annotations

import re
from collections.abc import Mapping

from steelyard.errors import UsageError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_KEY = re.compile(  # a vendor's prefix, many hexadecimal digits, or many characters of all kinds
    r"(sk|pk|hf|gh[a-z]|github_pat|xox[a-z])_(?=.*[0-9]).*|[0-9a-fA-F]{32,}"
    r"|(?=.*[0-9])([A-Za-z0-9]{20,}|(?=.*[a-z])(?=.*[A-Z]).{20,})"
)


def is_variable(text: str, environment: Mapping[str, str]) -> bool:
    """False for what may be a key itself, which must not be shown; a variable that is set is surely a name."""
    return _NAME.fullmatch(text) is not None and (text in environment or not _KEY.fullmatch(text))


_WORD = re.compile(r"[\w.*-]*\w{8,}[\w.*-]*|(?:sk|pk|hf|xox[a-z])-[\w.*-]+")
_PARTLY = re.compile(r"(?:sk|pk|hf|gh[a-z]|xox[a-z])[-_].*|.*\*{3,}.*")  # with a vendor's prefix, or with stars in it


def without_keys(text: str) -> str:
    """A text with what may be a key, or a part of one, struck out.

    >>> without_keys("Incorrect API key provided: sk-abcd****wxyz.")
    'Incorrect API key provided: [key].'
    """

    def struck(match: re.Match[str]) -> str:
        word = match[0].rstrip(".")
        is_key = _PARTLY.fullmatch(word) or any(_KEY.fullmatch(part) for part in re.split(r"[-.]", word))
        return f"[key]{match[0][len(word) :]}" if is_key else match[0]

    return _WORD.sub(struck, text)


def carried(api_key: str) -> str:
    """A key that a header can carry; the library's own error would show it."""
    key = api_key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError("the API key is empty or has characters that no header can carry; copy it again")
    return key


def bearer(api_key: str) -> dict[str, str]:
    """The header with a key."""
    return {"Authorization": f"Bearer {carried(api_key)}"}
