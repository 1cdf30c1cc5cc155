"""Short forms and words with several meanings: the words around one decide which is meant.

`lexicons/ambiguous.tsv` lists the meanings of each form: an entry and the words that speak for it. The one with most of
its words nearby wins; where none is near, the first one that is meant by itself (`*`). A meaning that is no entry
takes the form out of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from steelyard.texts.lexicon import CATEGORIES, Category, Entry, Lexicon
from steelyard.texts.normalise import words

NEAR = 10  # tokens of the same statement on either side that may speak for a meaning
_STOPS = frozenset(".;\n")
_NOTHING = "-"  # instead of an entry: no entry is meant


@dataclass(frozen=True)
class Meaning:
    """One meaning of a form: an entry or nothing, and the words that speak for it; `*` where it needs none."""

    entry: Entry | None
    speaks: frozenset[str]
    by_itself: bool


@dataclass(frozen=True)
class Ambiguous:
    """A form with several meanings; with `capitals` only where it is written in capital letters."""

    form: str
    meanings: tuple[Meaning, ...]
    capitals: bool = False

    def meant(self, tokens: Sequence[str], start: int, end: int) -> Entry | None:
        """The entry that is meant at this place, if any."""
        near = {*_until_stop(tokens[max(0, start - NEAR) : start][::-1]), *_until_stop(tokens[end : end + NEAR])}
        spoken = [len(meaning.speaks & near) for meaning in self.meanings]
        best = max(spoken)
        if best:
            return self.meanings[spoken.index(best)].entry
        return next((meaning.entry for meaning in self.meanings if meaning.by_itself), None)


def _until_stop(tokens: Sequence[str]) -> Sequence[str]:
    """The tokens of the same statement."""
    stop = next((i for i, token in enumerate(tokens) if token in _STOPS), len(tokens))
    return tokens[:stop]


def ambiguous(lexicon: Lexicon) -> dict[tuple[str, ...], Ambiguous]:
    """Every ambiguous form as words, with its meanings in this lexicon."""
    forms: dict[str, list[Meaning]] = {}
    capitals = set()
    for form, name, category, speaks, flag in _table():
        if flag == "capitals":
            capitals.add(form)
        entry = None if name == _NOTHING else lexicon.of(category, name)
        spoken = frozenset(word for word in speaks if word != "*")
        forms.setdefault(form, []).append(Meaning(entry, spoken, "*" in speaks))
    return {tuple(words(form)): Ambiguous(form, tuple(m), form in capitals) for form, m in forms.items()}


@cache
def _table() -> tuple[tuple[str, str, Category, tuple[str, ...], str], ...]:
    text = resources.files("steelyard.texts.lexicons").joinpath("ambiguous.tsv").read_text(encoding="utf-8")
    rows = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            form, name, category, speaks, *flag = line.split("\t")
            kind = next((c for c in CATEGORIES if c == category), CATEGORIES[0])
            rows.append((form, name, kind, tuple(speaks.split("|")), flag[0] if flag else ""))
    return tuple(rows)
