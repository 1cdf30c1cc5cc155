"""Who and when and whether: the context of each entity in a text.

Cues such as "denies", "history of", "mother", "if" or "possible" stand before or after the entities that they are
about. A cue's scope ends at the end of the statement, at "but" and its kin, at a section head, and where nothing
follows within its reach; a list goes on as long as its members follow each other closely. Phrases that look like a
cue and are none ("no change", "gram negative", "mother reports") are phrases of their own, and the longest wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import product
from typing import Literal, get_args

from steelyard.texts.normalise import MARKS

Context = Literal["asserted", "negated", "family", "hypothetical", "historical", "uncertain"]
Side = Literal["before", "after", "either", "next"]  # "next": right before the cue, or nowhere
_STRONGEST: tuple[Context, ...] = ("family", "negated", "hypothetical", "historical", "uncertain")
_RESULT = "negated result"  # a test with a negative result was done: only what is no test is denied
_REPLACED = "replaced"  # "replace A with B": A is denied, up to the word that brings B
_PURPOSE = "purpose"  # "to prevent stroke": hypothetical, until something is ordered for it
_NOT_EXCLUDED = "not excluded"  # "does not exclude": uncertain, whatever was denied before
_KINDS = {_RESULT: "negated", _REPLACED: "negated", _PURPOSE: "hypothetical", _NOT_EXCLUDED: "uncertain"}
_BITS: dict[str, int] = {context: 1 << i for i, context in enumerate(_STRONGEST)}
_STRONGEST_OF: tuple[Context, ...] = tuple(
    next((context for context in _STRONGEST if bits & _BITS[context]), "asserted") for bits in range(1 << len(_BITS))
)
# which scopes end at a cue
_ENDS: dict[str, tuple[str, ...]] = {
    "end": (*_STRONGEST, _PURPOSE),
    "family told": (*_STRONGEST, _PURPOSE),
    "self": ("negated", "family", "historical", "uncertain"),
    "affirm": ("negated", "historical", "uncertain"),
    "anew": ("negated", "historical", "uncertain"),
    "order": ("negated", "family", "historical", "uncertain", _PURPOSE),
    _NOT_EXCLUDED: ("negated",),
}
_LEAD_ORDER = "lead order"  # "use" is an order after "and", and none after "tobacco"
_LEADS = frozenset(
    {",", "and", "then", "so", "please", "should", "must", "will", "would", "we", "i", "instead", "may", "can"}
)
_BY = frozenset({"to", "with", "by"})
_REPLETED = frozenset({"potassium", "magnesium", "calcium", "phosphate", "iron", "volume", "fluids", "electrolytes"})
_AHEAD = 8  # words after "replace" in which the other thing comes
_SHOWS = frozenset(
    ["showed", "shows", "showing", "reveals", "revealed", "demonstrates", "demonstrated", "confirms", "confirmed"]
)
_SAID_LATER = frozenset({"present", "absent", "positive", "negative"})
_UNITS = frozenset(
    [
        "mg",
        "mcg",
        "g",
        "ug",
        "units",
        "unit",
        "ml",
        "iu",
        "meq",
        "daily",
        "bid",
        "tid",
        "qid",
        "po",
        "iv",
        "twice",
        "once",
    ]
)
_TESTS = ("labs", "treatments")
_GIVEN = ("medications", "treatments")
_ARTICLES = (["a"], ["an"], ["the"], ["any"])
_STATEMENT = frozenset(".;:!?\n")
_LINKS = frozenset({",", "and", "or", "vs", "versus", "(", "the", "a", "an", "any"})
_MEANS = frozenset({"on", "by", "via", "per"})
_NOT = frozenset({"not", "never", "nor", "no", "without", "dont", "didnt", "doesnt", "wasnt", "cannot"})
_RAISED = frozenset({"elevated", "raised", "increased", "high"})
_OR = frozenset({",", "or", "nor", "vs", "versus", "a", "an"})
_COPULAS = _UNITS | frozenset(
    [
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "being",
        "has",
        "have",
        "had",
        "should",
        "must",
        "can",
        "will",
        "not",
        "now",
        "also",
        "currently",
        "therefore",
        "then",
        "to",
        "here",
        "really",
        "clearly",
        "probably",
    ]
)
_LOOSELY = 4  # words from which a cue of the past is about a list, as "history of" is and "prior" is not
_LIST_GAP = 6  # words between two members of a list
_YEARS = range(1930, 2050)
_HEAD = 5  # words that a section head has at most


@dataclass(frozen=True)
class Cue:
    """What a phrase says of the entities near it."""

    says: str
    side: Side = "after"
    reach: int = 0


Event = tuple[int, int, object]  # first token, the one after the last, an entity or a Cue


@cache
def cues() -> tuple[tuple[tuple[str, ...], Cue], ...]:
    """Every cue and every section head as words, from `lexicons/cues.tsv`."""
    table = resources.files("steelyard.texts.lexicons").joinpath("cues.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in table.splitlines() if line and not line.startswith("#")]
    lists = {name: phrases.split("|") for says, name, _, phrases in rows if says == "list"}
    lists["year"] = [str(year) for year in _YEARS]
    pairs = []
    for says, side, reach, phrases in rows:
        if says != "list":
            cue = Cue(says, _side(side), int(reach))
            pairs += [(words, cue) for phrase in phrases.split("|") for words in _meant(phrase, lists)]
    return tuple(pairs)


def _meant(phrase: str, lists: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Every phrase that one with names of lists in braces stands for, as words."""
    parts = re.split(r"\{([^}]+)\}", phrase)
    for chosen in product(*(lists[part] if i % 2 else [part] for i, part in enumerate(parts))):
        yield tuple("".join(chosen).split())


def _side(text: str) -> Side:
    return next(side for side in get_args(Side) if side == text)


@cache
def heads() -> dict[tuple[str, ...], str]:
    """What the section below each known head is about; "" where it is about the patient now."""
    return {words: cue.says.partition(" ")[2] for words, cue in cues() if cue.says.split()[0] == "section"}


class _Scope:
    """How far a cue still reaches."""

    __slots__ = ("bit", "category", "closely", "first", "last", "reach", "says")

    def __init__(self, cue: Cue, end: int) -> None:
        self.bit, self.first, self.reach, self.says = _BITS[_kind(cue)], end, end + cue.reach, cue.says
        self.closely = cue.says == "uncertain" or (cue.says == "historical" and cue.reach < _LOOSELY)
        self.last, self.category = -1, ""  # where the last entity that was meant ended, and what it was

    def covers(self, start: int, end: int, category: str, tokens: Sequence[str]) -> bool:
        """True if an entity that stands here is meant: within reach, or next in a list."""
        if self.says == _REPLACED and (category not in _GIVEN or not _BY.isdisjoint(tokens[self.first : start])):
            return False
        if self.last < 0:
            return start <= self.reach
        if tokens[start - 1] in _MEANS or tokens[start] in _RAISED:  # "no embolism on CT", "no fever, elevated CRP"
            return False
        between = tokens[self.last : start]
        if between == [","] and self._is_anew(end, category, tokens):
            return False
        return all(t in _OR for t in between) if self.closely else start <= self.reach or len(between) <= _LIST_GAP

    def _is_anew(self, end: int, category: str, tokens: Sequence[str]) -> bool:
        """True if what comes after a comma is no member: "stop A, B 50 mg", "given the history of gout, ibuprofen"."""
        if category != "medications":
            return False
        if self.bit == _BITS["historical"]:
            return self.category != category
        return self.bit == _BITS["negated"] and _is_number(tokens, end) and not _is_number(tokens, self.last)


@dataclass
class _Found:
    """An entity, and what is said of it so far."""

    start: int
    end: int
    said: int
    category: str

    def hear(self, cue: Cue) -> None:
        """Note what a cue says, if it can be said of such a thing."""
        is_test = cue.says == _RESULT and self.category in _TESTS
        is_means = cue.says == _PURPOSE and self.category == "medications"  # "heparin prophylaxis" is given
        if not (is_test or is_means):
            self.said |= _BITS[_kind(cue)]


class _Reader:
    """Goes through the events of a text and notes what is said of each entity, as bits."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.found: list[_Found] = []
        self._open: dict[str, _Scope] = {}
        self._section = 0
        self._stops = [i for i, token in enumerate(tokens) if token in _STATEMENT]
        self._stop, self._line, self._previous, self._section_line = 0, 0, -1, 0
        self._cued: tuple[int, Cue] | None = None  # the cue right before: where it ended

    def read(self, start: int, end: int, what: object, following: Event | None) -> None:
        if self._stop < len(self._stops) and self._stops[self._stop] < start:
            self._pass_stops(start)
        self._previous = end
        if isinstance(what, Cue):
            self._cue(what, start, end, following)
            self._cued = (end, what)
        else:
            category = getattr(what, "category", "")
            self.found.append(_Found(start, end, self._said(start, end, category), category))
            self._cued = None

    def _pass_stops(self, start: int) -> None:
        """End what the statements before this place had open; a section head opens or ends a section."""
        tokens = self.tokens
        while self._stop < len(self._stops) and self._stops[self._stop] < start:
            stop = self._stops[self._stop]
            self._stop += 1
            head = tuple(tokens[self._line : stop]) if stop - self._line <= _HEAD else ()
            if tokens[stop] in ":\n" and head in heads():
                self._section, self._section_line = _BITS.get(heads()[head], 0), self._line
            elif tokens[stop] == ":" and stop == self._previous and self._open:
                continue  # "denies: fever"
            elif tokens[stop] == ":" and head:
                self._section = 0
            self._open.clear()
            if tokens[stop] == "\n" and self._section == _BITS["negated"] and head not in heads():
                self._section = 0  # a list of allergies ends with its line
            if tokens[stop] in ".\n;":
                self._line = stop + 1

    def _said(self, start: int, end: int, category: str) -> int:
        """What the open scopes and the section say of an entity; a scope that does not reach it ends."""
        said, tokens = self._section, self.tokens
        if self._open:
            for says, scope in list(self._open.items()):
                if scope.covers(start, end, category, tokens):
                    said |= 0 if scope.says == _RESULT and category in _TESTS else scope.bit
                    scope.last, scope.category = end, category
                else:
                    del self._open[says]
        if (start and tokens[start - 1] == "?") or (end < len(tokens) and tokens[end] == "?"):
            said |= _BITS["uncertain"]
        return said

    def _cue(self, cue: Cue, start: int, end: int, following: Event | None) -> None:
        """Let a cue end scopes, open one, or say something of the entities before it."""
        says = "order" if cue.says == _LEAD_ORDER else cue.says
        if self._is_no_order(cue, start) or self._answers(start, end, cue):
            return
        if says == "again" and self.found:
            self.found[-1].said &= ~_BITS["historical"]
        if says in _ENDS:
            self._end(says, start)
        if _kind(cue) not in _BITS or (cue.says == _REPLACED and not self._brings_another(end)):
            return
        if cue.side == "before" or (cue.side != "after" and self._follows(start, end, following)):
            self._look_back(cue, start)
        elif cue.side != "next":
            self._open[_PURPOSE if cue.says == _PURPOSE else _kind(cue)] = _Scope(cue, end)

    def _end(self, says: str, start: int) -> None:
        """End the scopes that this cue ends."""
        for scope in _ENDS[says]:
            self._open.pop(scope, None)
        if self._line > self._section_line and says in ("self", "anew"):
            self._section = 0  # "PMH: gout. Presents with fever"
        last = self.found[-1] if self.found else None
        if last and last.end == start and last.category in _TESTS and self.tokens[start] in _SHOWS:
            last.said &= ~_BITS["negated"]  # "no DVT and CT showed PE"

    def _is_no_order(self, cue: Cue, start: int) -> bool:
        """True for a verb that is denied itself, or a noun: "did not receive", "refused to start", "tobacco use"."""
        before = self.tokens[start - 1] if start else "."
        said = self._cued if self._cued and self._cued[0] >= start - (before == "to") else None
        if cue.says == "historical":
            return said is not None and said[1].says in ("order", _LEAD_ORDER)  # "resume previous ibuprofen"
        if cue.says == "affirm" and self.tokens[start] not in _NOT:
            return before in _NOT
        if cue.says == _LEAD_ORDER and before not in _LEADS and before not in _STATEMENT:
            return True
        return cue.says in ("order", _LEAD_ORDER) and (
            before in _NOT or (said is not None and _kind(said[1]) == "negated")
        )

    def _answers(self, start: int, end: int, cue: Cue) -> bool:
        """Deny the entity that a cue alone after a colon is the answer to: "fever: no"."""
        alone = end == len(self.tokens) or self.tokens[end] in MARKS
        last = self.found[-1] if self.found else None
        if not alone or _kind(cue) != "negated" or last is None or self.tokens[last.end : start] != [":"]:
            return False
        last.hear(cue)
        return True

    def _brings_another(self, end: int) -> bool:
        """True if "replace" is followed by what comes instead, and by no dose: "change it to 20 mg"."""
        ahead = self.tokens[end : end + _AHEAD]
        by = next((i for i, t in enumerate(ahead) if t in _BY or t in _STATEMENT), len(ahead))
        if not by or by == len(ahead) or ahead[0] in _REPLETED:
            return False
        return ahead[by] in _BY and not _is_number(self.tokens, end + by + 1)

    def _follows(self, start: int, end: int, following: Event | None) -> bool:
        """True if a cue that may stand on either side stands after its entity."""
        if not self.found:
            return False
        between = self.tokens[self.found[-1].end : start]
        if any(t not in _COPULAS and not t[0].isdigit() for t in between) or self.tokens[end : end + 1] in _ARTICLES:
            return False
        next_to_it = following is not None and following[0] == end and not isinstance(following[2], Cue)
        if next_to_it and following is not None and {*self.tokens[following[1] : following[1] + 1]} & _SAID_LATER:
            return True  # "fever absent, cough present" without the comma
        return bool(between) or not next_to_it

    def _look_back(self, cue: Cue, start: int) -> None:
        """Say it of the entity before the cue, and of those joined to it: "A, B and C were ruled out"."""
        after, joined, listed = start, False, False
        for entity in reversed(self.found):
            between = self.tokens[entity.end : after]
            linked = bool({"and", "or", "nor"} & {*between})
            if not joined and (len(between) > cue.reach or any(t in _STATEMENT or t == "but" for t in between)):
                return
            if joined and not (all(t in _LINKS for t in between) and (linked or (listed and "," in between))):
                return
            entity.hear(cue)
            after, joined, listed = entity.start, True, listed or linked


def contexts(tokens: Sequence[str], events: Sequence[Event]) -> list[Context]:
    """The context of every entity among the events, in their order."""
    reader = _Reader(tokens)
    for (start, end, what), following in zip(events, [*events[1:], None], strict=True):
        reader.read(start, end, what, following)
    return [_STRONGEST_OF[found.said] for found in reader.found]


def _kind(cue: Cue) -> str:
    return _KINDS.get(cue.says, cue.says)


def _is_number(tokens: Sequence[str], place: int) -> bool:
    return place < len(tokens) and tokens[place][0].isdigit()
