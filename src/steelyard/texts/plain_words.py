"""Words of plain and of clinical prose that name no entity: they are never read as misspelt clinical terms."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def plain_words() -> frozenset[str]:
    """The words of `lexicons/plain_words.txt`."""
    text = resources.files("steelyard.texts.lexicons").joinpath("plain_words.txt").read_text(encoding="utf-8")
    return frozenset(text.split())
