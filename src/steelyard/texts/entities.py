"""The clinical entities of a text: which entries of the lexicon it mentions, where, and in which context.

One pass over whole tokens finds names, synonyms and cues, the longest at each place. Then short forms are given their
meaning by their neighbours, and every mention its context.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

from steelyard.texts.abbreviations import Ambiguous, ambiguous
from steelyard.texts.context import contexts, cues, heads
from steelyard.texts.inverted import inverted
from steelyard.texts.lexicon import Entry, Lexicon
from steelyard.texts.lexicon import lexicon as lexicon_of
from steelyard.texts.misspellings import SHORTEST, Misspellings
from steelyard.texts.normalise import MARKS, tokens, words
from steelyard.texts.phrases import Phrases
from steelyard.texts.plain_words import plain_words
from steelyard.texts.scopes import Context, Cue

TRUE: frozenset[Context] = frozenset(("asserted", "historical", "uncertain"))  # said of the patient, as being so


class Mention(NamedTuple):
    """An entry at one place of a text; where it is misspelt, how it is written and what that was read as."""

    entry: Entry
    context: Context
    written: str = ""
    read_as: str = ""


@dataclass(frozen=True)
class Findings:
    """What a text mentions, and its words."""

    mentions: tuple[Mention, ...]
    tokens: Sequence[str] = ()
    spans: Sequence[tuple[int, int]] = ()  # where the mentions stand among the tokens

    @cached_property
    def words(self) -> tuple[str, ...]:
        """All words, misspelt ones as they were read."""
        return tuple(token for token in self.tokens if token not in MARKS)

    @cached_property
    def rest(self) -> tuple[str, ...]:
        """The words that belong to no mention."""
        inside = {i for start, end in self.spans for i in range(start, end)}
        return tuple(t for i, t in enumerate(self.tokens) if i not in inside and t not in MARKS)

    @cached_property
    def asserted(self) -> frozenset[Entry]:
        """The entries that are said to be so: now, in the past, or probably."""
        return frozenset(m.entry for m in self.mentions if m.context in TRUE)

    @cached_property
    def denied(self) -> frozenset[Entry]:
        """The entries that are said not to be so, and nowhere in the text to be so."""
        return frozenset(m.entry for m in self.mentions if m.context == "negated") - self.asserted

    @cached_property
    def misread(self) -> tuple[str, ...]:
        """The misspelt words and what they were read as."""
        return tuple(dict.fromkeys(f"'{m.written}' read as {m.read_as}" for m in self.mentions if m.read_as))


@dataclass(frozen=True)
class _Absent:
    """That an entry is not so, in one word: afebrile."""

    entry: Entry


class Extractor:
    """Finds the entities of texts with one lexicon."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._phrases: Phrases[Entry | _Absent | Ambiguous | Cue] = Phrases()
        for phrase, cue in cues():
            if not cue.says.startswith("section"):
                self._phrases.add(phrase, cue)
        for phrase, entry in lexicon.by_phrase.items():
            self._phrases.add(phrase, entry)
            for antonym in entry.antonyms:
                self._phrases.add(words(antonym), _Absent(entry))
        for phrase, form in ambiguous(lexicon).items():
            self._phrases.add(phrase, form)
        stated = {word for e in lexicon.entries for phrase in (*e.phrases, *e.antonyms) for word in words(phrase)}
        told = {word for phrase, _ in cues() for word in phrase} | plain_words()
        self._known = stated | {word for phrase in lexicon.by_phrase for word in phrase} | told
        self._misspellings = Misspellings(
            stated - told,
            frozenset(self._known),
            {p[0]: entry.name for p, entry in lexicon.by_phrase.items() if len(p) == 1},
        )

    def findings(self, text: str, also: Sequence[Entry] = ()) -> Findings:
        """Everything that the text mentions; `also` are entries that this lexicon does not have."""
        written = tokens(text)
        spelled = self._spelled(written)
        hits: list[tuple[int, int, Any]] = inverted(self._phrases.find(spelled), spelled, self.lexicon)
        if also:
            hits = _merged(hits, Phrases((words(entry.name), entry) for entry in also).find(spelled))
        events = [(start, end, _meant(what, text, spelled, start, end)) for start, end, what in hits]
        events = [event for event in events if event[2] is not None]
        entities = [event for event in events if not isinstance(event[2], Cue)]
        said = contexts(spelled, events) if entities else []
        mentions = []
        for (start, end, what), context in zip(entities, said, strict=True):
            if isinstance(what, _Absent):
                what, context = what.entry, "negated"
            if not isinstance(what, Entry):
                continue
            if written is spelled or written[start:end] == spelled[start:end]:
                mentions.append(Mention(what, context))
            else:
                mentions.append(Mention(what, context, " ".join(written[start:end]), " ".join(spelled[start:end])))
        return Findings(tuple(mentions), spelled, [event[:2] for event in entities])

    def _spelled(self, written: list[str]) -> list[str]:
        """The tokens with misspelt words as they should be."""
        known = self._known
        strange = {t for t in written if len(t) >= SHORTEST and t not in known}
        meant = {word: right for word in strange if (right := self._misspellings.meant(word)) is not None}
        return [meant.get(t, t) for t in written] if meant else written


def _merged(known: list[tuple[int, int, Any]], further: list[tuple[int, int, Any]]) -> list[tuple[int, int, Any]]:
    """Both in their order; where they overlap, the further ones."""
    taken = {i for start, end, _ in further for i in range(start, end)}
    rest = [hit for hit in known if taken.isdisjoint(range(hit[0], hit[1]))]
    return sorted((*rest, *further), key=lambda hit: hit[0])


def _meant(
    what: Entry | _Absent | Ambiguous | Cue, text: str, tokens: Sequence[str], start: int, end: int
) -> Entry | _Absent | Cue | None:
    """What a phrase stands for at its place; None where it is no entity there."""
    if not isinstance(what, Ambiguous):
        return what
    if (what.capitals and not _in_capitals(what.form, text)) or _is_head(tokens, start, end):
        return None
    return what.meant(tokens, start, end)


def _is_head(tokens: Sequence[str], start: int, end: int) -> bool:
    """True for a short form that is the head of a section: "PE: lungs clear"."""
    begins = start == 0 or tokens[start - 1] in ".\n;"
    return begins and end < len(tokens) and tokens[end] == ":" and tuple(tokens[start:end]) in heads()


def _in_capitals(form: str, text: str) -> bool:
    """True if a form that is also a plain word stands in capital letters, and not everything does."""
    capitals = form.upper()
    if capitals not in text or re.search(rf"\b{re.escape(capitals)}\b", text) is None:
        return False
    return not text.isupper() or text.strip() == capitals


def extractor(added: Sequence[str] = ()) -> Extractor:
    """The extractor with the project's lexicon and the tables at these paths."""
    return _made(lexicon_of(added))


@cache
def _made(lexicon: Lexicon) -> Extractor:
    return Extractor(lexicon)
