"""Words of plain and of clinical prose that name no entity: they are never read as misspelt clinical terms."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def plain_words() -> frozenset[str]:
    """The words of `lexicons/plain_words.txt`."""
    return _listed("plain_words")


@cache
def stop_words() -> frozenset[str]:
    """The words of `lexicons/stop_words.txt`: they say nothing by themselves."""
    return _listed("stop_words")


@cache
def modifiers() -> frozenset[str]:
    """The words of `lexicons/modifiers.txt`: how bad, how long, on which side; they make no other disease of a name."""
    return _listed("modifiers")


@cache
def word_list(name: str) -> frozenset[str]:
    """The words of one list of `lexicons/word_lists.tsv`."""
    table = resources.files("steelyard.texts.lexicons").joinpath("word_lists.tsv").read_text(encoding="utf-8")
    rows = dict(line.split("\t") for line in table.splitlines() if not line.startswith("#"))
    return frozenset(rows[name].split())


def _listed(name: str) -> frozenset[str]:
    text = resources.files("steelyard.texts.lexicons").joinpath(f"{name}.txt").read_text(encoding="utf-8")
    return frozenset(text.split())
