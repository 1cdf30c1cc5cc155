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
from typing import get_args

from steelyard.texts.normalise import MARKS
from steelyard.texts.plain_words import word_list
from steelyard.texts.scopes import (
    BITS,
    BY,
    CAUSED,
    ENDED,
    GIVEN,
    LESS,
    NOT,
    NOT_EXCLUDED,
    PURPOSE,
    REPLACED,
    RESULT,
    STATEMENT,
    STRONGEST,
    TESTS,
    Context,
    Cue,
    Scope,
    Side,
    is_number,
    is_set_against,
    is_tied,
)

_STRONGEST_OF: tuple[Context, ...] = tuple(
    next((context for context in STRONGEST if bits & BITS[context]), "asserted") for bits in range(1 << len(BITS))
)
# which scopes end at a cue
_ENDS: dict[str, tuple[str, ...]] = {
    "end": (*STRONGEST, PURPOSE),
    "family told": (*STRONGEST, PURPOSE),
    "self": ("negated", "family", "historical", "uncertain"),
    "affirm": ("negated", "historical", "uncertain"),
    "anew": ("negated", "historical", "uncertain"),
    "order": ("negated", "family", "historical", "uncertain", PURPOSE),
    NOT_EXCLUDED: ("negated",),
    ENDED: ("negated",),
}
_LEAD_ORDER = "lead order"  # "use" is an order after "and", and none after "tobacco"
_ORDERS = ("order", _LEAD_ORDER)
_MAY_BE_DENIED = ("order", "affirm", "historical")
_LEADS = word_list("leads")
_PREFERS = frozenset({"prefer", "preferring", "favor", "favoring", "choose", "preferred"})
_SWAPS = frozenset({"swap", "swapping", "swapped", "exchange", "trade"})
_SUBSTITUTES = frozenset({"substitute", "substituting", "substituted"})
_REPLETED = frozenset({"potassium", "magnesium", "calcium", "phosphate", "iron", "volume", "fluids", "electrolytes"})
_AHEAD = 8  # words after "replace" in which the other thing comes
_SHOWS = word_list("shows")
_SAID_LATER = frozenset({"present", "absent", "positive", "negative"})
_ARTICLES = (["a"], ["an"], ["the"], ["any"])
_LINKS = frozenset({",", "and", "or", "vs", "versus", "(", "the", "a", "an", "any"})
_ANSWERED = ([":"], ["("], ["—"], ["?"])  # "fever: no", "metoprolol (avoid)", "metoprolol? no"
_COPULAS = word_list("copulas")
_YEARS = range(1930, 2050)
_HEAD = 5  # words that a section head has at most
# what a word right after a name makes of it: "tetanus shot", "aspirin allergy", "metoprolol overdose"
_ABOUT = word_list("about")
_REACTION = word_list("reaction")
_TAKEN = word_list("taken")
_TELLING = _ABOUT | _REACTION | _TAKEN | {"?"}


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


@dataclass
class _Found:
    """An entity, and what is said of it so far."""

    start: int
    end: int
    said: int
    category: str
    ordered: bool = False  # right after "give", "restart"

    def hear(self, cue: Cue) -> None:
        """Note what a cue says, if it can be said of such a thing."""
        is_test = cue.says == RESULT and self.category in TESTS
        is_means = cue.says == PURPOSE and self.category == "medications"  # "heparin prophylaxis" is given
        if cue.says == ENDED and self.category == "medications":
            self.said |= BITS["negated"]
        elif not (is_test or is_means or (cue.says == CAUSED and self.category != "medications")):
            self.said |= BITS[cue.kind]


class _Reader:
    """Goes through the events of a text and notes what is said of each entity, as bits."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.found: list[_Found] = []
        self._open: dict[str, Scope] = {}
        self._section = 0
        self._stops = [i for i, token in enumerate(tokens) if token in STATEMENT]
        self._stop, self._line, self._previous, self._section_line = 0, 0, -1, 0
        self._cued: tuple[int, Cue] | None = None  # the cue right before: where it ended
        self._prefers = False

    def read(self, start: int, end: int, what: object, following: Event | None) -> None:
        if self._stop < len(self._stops) and self._stops[self._stop] < start:
            self._pass_stops(start)
        self._previous = end
        if isinstance(what, Cue):
            self._cue(what, start, end, following)
            self._cued = (end, what)
        else:
            category, cued = getattr(what, "category", ""), self._cued
            ordered = cued is not None and cued[0] >= start - 1 and cued[1].says in _ORDERS
            said = self._said(start, end, category) if self._open or self._section else 0
            if (end < len(self.tokens) and self.tokens[end] in _TELLING) or (start and self.tokens[start - 1] == "?"):
                said = self._with_next(said, start, end, category)
            self.found.append(_Found(start, end, said, category, ordered))
            self._cued = None

    def _pass_stops(self, start: int) -> None:
        """End what the statements before this place had open; a section head opens or ends a section."""
        tokens = self.tokens
        while self._stop < len(self._stops) and self._stops[self._stop] < start:
            stop = self._stops[self._stop]
            self._stop += 1
            head = tuple(tokens[self._line : stop]) if stop - self._line <= _HEAD else ()
            if tokens[stop] in ":\n" and head in heads():
                self._section, self._section_line = BITS.get(heads()[head], 0), self._line
            elif tokens[stop] == ":" and stop == self._previous and self._goes_on(stop):
                continue  # "denies: fever"
            elif tokens[stop] == ":" and head:
                self._section = 0
            self._open.clear()
            self._prefers = False
            if tokens[stop] == "\n" and self._section == BITS["negated"] and head not in heads():
                self._section = 0  # a list of allergies ends with its line
            if tokens[stop] in ".\n;":
                self._line = stop + 1

    def _said(self, start: int, end: int, category: str) -> int:
        """What the open scopes and the section say of an entity; a scope that does not reach it ends."""
        said, tokens = self._section, self.tokens
        if said == BITS["negated"] and self.found and self.found[-1].category in GIVEN:
            said = 0 if is_tied(tokens[self.found[-1].end : start]) else said  # "contraindicated: X in heart failure"
        for says, scope in list(self._open.items()):
            if start < scope.begins:
                continue
            if scope.covers(start, end, category, tokens):
                said |= 0 if scope.says == RESULT and category in TESTS else scope.bit
                scope.last, scope.category = end, category
            else:
                del self._open[says]
        return said

    def _with_next(self, said: int, start: int, end: int, category: str) -> int:
        """What is said of an entity, with what the marks and words right next to it make of it."""
        tokens = self.tokens
        if start and tokens[start - 1] == "?":
            said |= BITS["uncertain"]
        if end == len(tokens):
            return said
        after = tokens[end]
        if after == "?":
            said |= BITS["uncertain"]
        elif after in _ABOUT and category == "diagnoses":
            said |= 0 if "positive" in tokens[end : end + 4] else BITS["hypothetical"]
        elif category == "medications" and (after in _REACTION or after in _TAKEN):
            if said & BITS["negated"]:  # "no aspirin allergy" neither denies nor gives it
                return (said & ~BITS["negated"]) | BITS["hypothetical"]
            said |= BITS["negated" if after in _REACTION else "historical"]
        return said

    def _goes_on(self, stop: int) -> bool:
        """True if a colon brings what a cue is about: "denies: fever", "avoid nsaids: ibuprofen, naproxen"."""
        if self._cued is not None and self._cued[0] == stop:
            return bool(self._open)
        scope = self._open.get("negated")
        return scope is not None and scope.category in GIVEN and not scope.once

    def _cue(self, cue: Cue, start: int, end: int, following: Event | None) -> None:
        """Let a cue end scopes, open one, or say something of the entities before it."""
        if cue.says == "nothing":
            return
        says = "order" if cue.says == _LEAD_ORDER else cue.says
        if says in _MAY_BE_DENIED and self._is_no_order(cue, start, following):
            return
        if cue.kind == "negated" and self._answers(start, end, cue):
            return
        if says == "order" and self.tokens[start] in _PREFERS:
            self._prefers = True
        if says == "again" and self.found:
            self.found[-1].said &= ~(BITS["historical"] | BITS["negated"])
        if says == LESS and not self._prefers:
            return
        if cue.kind == "negated" and self.tokens[start] == "without" and self._is_condition(start):
            cue = Cue("hypothetical", "after", cue.reach)
        if says in _ENDS:
            self._end(says, start)
        if cue.says == REPLACED and self.tokens[start] in _SUBSTITUTES and "for" in self.tokens[end : end + _AHEAD]:
            begins = self.tokens.index("for", end) + 1  # "substitute A for B"
            self._open["negated"] = Scope(Cue("negated", "after", 3), end, begins=begins)
            return
        if cue.kind not in BITS or (cue.says == REPLACED and not self._brings_another(start, end)):
            return
        if cue.side == "before" or (cue.side != "after" and self._follows(cue, start, end, following)):
            self._look_back(cue, start)
        elif cue.side != "next" and not (cue.side == "either" and self.tokens[end : end + 1] == [","]):
            once = cue.kind in ("negated", "family") and is_set_against(self.tokens, start)
            self._open[PURPOSE if cue.says == PURPOSE else cue.kind] = Scope(cue, end, once=once)

    def _is_condition(self, start: int) -> bool:
        """True for what must come first: "no isotretinoin without contraception"."""
        last = self.found[-1] if self.found else None
        return last is not None and last.end == start and last.category in GIVEN and bool(last.said & BITS["negated"])

    def _end(self, says: str, start: int) -> None:
        """End the scopes that this cue ends."""
        for scope in _ENDS[says]:
            self._open.pop(scope, None)
        if self._line > self._section_line and says in ("self", "anew"):
            self._section = 0  # "PMH: gout. Presents with fever"
        last = self.found[-1] if self.found else None
        if last and last.end == start and last.category in TESTS and self.tokens[start] in _SHOWS:
            last.said &= ~BITS["negated"]  # "no DVT and CT showed PE"

    def _is_no_order(self, cue: Cue, start: int, following: Event | None) -> bool:
        """True for a verb that is denied itself, or a noun: "did not receive", "refused to start", "tobacco use"."""
        before = self.tokens[start - 1] if start else "."
        said = self._cued if self._cued and self._cued[0] >= start - (before == "to") else None
        if cue.says == "historical":
            return said is not None and said[1].says in ("order", _LEAD_ORDER)  # "resume previous ibuprofen"
        if cue.says == "affirm" and self.tokens[start] not in NOT:
            return before in NOT
        if cue.says == _LEAD_ORDER and before not in _LEADS and before not in STATEMENT:
            return not self._turns_to(start, following)
        return cue.says in _ORDERS and (before in NOT or (said is not None and said[1].kind == "negated"))

    def _turns_to(self, start: int, following: Event | None) -> bool:
        """True if another drug is ordered right after a denied one: "instead of A use B"."""
        last = self.found[-1] if self.found else None
        if last is None or last.end != start or last.category not in GIVEN or not last.said & BITS["negated"]:
            return False
        return following is not None and getattr(following[2], "category", "") in GIVEN and following[0] <= start + 3

    def _answers(self, start: int, end: int, cue: Cue) -> bool:
        """Deny the entity that a cue alone after a colon is the answer to: "fever: no"."""
        if end < len(self.tokens) and self.tokens[end] not in MARKS:
            return False
        last = self.found[-1] if self.found else None
        if last is None or self.tokens[last.end : start] not in _ANSWERED:
            return False
        last.hear(cue)
        return True

    def _brings_another(self, start: int, end: int) -> bool:
        """True if "replace" is followed by what comes instead, and by no dose: "change it to 20 mg"."""
        ahead = self.tokens[end : end + _AHEAD]
        words = BY if self.tokens[start] in _SWAPS else BY - {"for"}
        by = next((i for i, t in enumerate(ahead) if t in words or t in STATEMENT), len(ahead))
        if not by or by == len(ahead) or ahead[0] in _REPLETED:
            return False
        return ahead[by] in words and not is_number(self.tokens, end + by + 1)

    def _follows(self, cue: Cue, start: int, end: int, following: Event | None) -> bool:
        """True if a cue that may stand on either side stands after its entity."""
        if not self.found:
            return False
        between = self.tokens[self.found[-1].end : start]
        if any(t not in _COPULAS and not t[0].isdigit() for t in between):
            return False
        if cue.side == "next":
            return True
        if self.tokens[end : end + 1] in _ARTICLES:
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
            if not joined and (len(between) > cue.reach or any(t in STATEMENT or t == "but" for t in between)):
                return
            if joined and not (all(t in _LINKS for t in between) and (linked or (listed and "," in between))):
                return
            if not (entity.ordered and self.tokens[start - 1] in ("that", "which")):  # "restart the X that was stopped"
                entity.hear(cue)
            after, joined, listed = entity.start, True, listed or linked


def contexts(tokens: Sequence[str], events: Sequence[Event]) -> list[Context]:
    """The context of every entity among the events, in their order."""
    reader = _Reader(tokens)
    for (start, end, what), following in zip(events, [*events[1:], None], strict=True):
        reader.read(start, end, what, following)
    return [_STRONGEST_OF[found.said] for found in reader.found]
