"""Texts and /patterns/ by which a user says which replies decline, matched in time proportional to the reply.

A text matches a reply that is this text, whatever its case and the white space in it; a pattern, written between
slashes, matches where any part of the reply does. Patterns are RE2's: what would need to look back is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from steelyard.errors import UsageError, printable

_AROUND = " \t\r\n\"'`*_()[]{}.,;:!“”‘’"


def is_pattern(text: str) -> bool:
    """True for a text between slashes."""
    return len(text) > 2 and text.startswith("/") and text.endswith("/")


def told_patterns(stated: Sequence[str]) -> tuple[str, ...]:
    """The patterns among texts; one that is no regular expression is refused."""
    if any(not is_pattern(text) and not _folded(text) for text in stated):
        raise UsageError("a text of signs alone would be any empty reply")
    found = tuple(text[1:-1] for text in stated if is_pattern(text))
    for pattern in found:
        try:
            _found(pattern, "")
        except ValueError:
            raise UsageError(
                f"/{printable(pattern)}/ is no regular expression (of RE2, which looks neither ahead nor back)"
            ) from None
    return found


@lru_cache(maxsize=256)
def _texts(stated: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_folded(text) for text in stated if not is_pattern(text))


def matches(stated: Sequence[str], text: str) -> bool:
    """True if a reply is one of the texts, or has a part that one of the patterns matches.

    >>> matches(["To be reviewed", "/defer to/"], "to be  reviewed."), matches(["/defer to/"], "I Defer to you")
    (True, True)
    """
    known = tuple(stated)
    if not known:
        return False
    return _folded(text) in _texts(known) or any(_found(text_[1:-1], text) for text_ in known if is_pattern(text_))


def _found(pattern: str, text: str) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    return bool(pc.match_substring_regex(pa.array([text]), pattern, ignore_case=True)[0].as_py())


def _folded(text: str) -> str:
    return " ".join(text.strip(_AROUND).casefold().split())
