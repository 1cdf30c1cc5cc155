"""Who and when and whether: the context of each entity in a text.

Cues such as "denies", "history of", "mother", "if" or "possible" stand before or after the entities that they are
about. A cue's scope ends at the end of the statement, at "but" and its kin, at a section head, and where nothing
follows within its reach; a list goes on as long as its members follow each other closely. Phrases that look like a
cue and are none ("no change", "gram negative", "mother reports") are phrases of their own, and the longest wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, get_args

Context = Literal["asserted", "negated", "family", "hypothetical", "historical", "uncertain"]
Side = Literal["before", "after", "either"]
_STRONGEST: tuple[Context, ...] = ("family", "negated", "hypothetical", "historical", "uncertain")
_RESULT = "negated result"  # a test with a negative result was done: only what is no test is denied
_BITS: dict[str, int] = {context: 1 << i for i, context in enumerate(_STRONGEST)}
_STRONGEST_OF: tuple[Context, ...] = tuple(
    next((context for context in _STRONGEST if bits & _BITS[context]), "asserted") for bits in range(1 << len(_BITS))
)
# which scopes end at a cue that is no context itself
_ENDS: dict[str, tuple[str, ...]] = {
    "end": _STRONGEST,
    "family told": _STRONGEST,
    "self": ("negated", "family", "historical", "uncertain"),
    "affirm": ("negated", "historical", "uncertain"),
    "anew": ("negated", "historical", "uncertain"),
}
_TESTS = ("labs", "treatments")
_ARTICLES = (["a"], ["an"], ["the"], ["any"])
_STATEMENT = frozenset(".;:!?\n")
_LINKS = frozenset({",", "and", "or", "vs", "versus", "(", "the", "a", "an", "any"})
_MEANS = frozenset({"on", "by", "via", "per"})
_NOT = frozenset({"not", "never", "nor", "no", "without", "dont", "didnt", "doesnt", "wasnt", "cannot"})
_RAISED = frozenset({"elevated", "raised", "increased", "high"})
_OR = frozenset({",", "or", "nor", "vs", "versus", "a", "an"})
_COPULAS = frozenset(
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
        "now",
        "also",
        "currently",
        "therefore",
        "then",
        "to",
        "should",
        "must",
        "can",
        "will",
        "not",
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
    several = {"{person}": rows.pop()[3].split("|"), "{year}": [str(year) for year in _YEARS]}
    pairs = []
    for says, side, reach, phrases in rows:
        cue = Cue(says, _side(side), int(reach))
        for phrase in phrases.split("|"):
            mark = next((mark for mark in several if mark in phrase), "")
            meant = [phrase.replace(mark, word) for word in several[mark]] if mark else [phrase]
            pairs += [(tuple(each.split()), cue) for each in meant]
    return tuple(pairs)


def _side(text: str) -> Side:
    return next(side for side in get_args(Side) if side == text)


@cache
def heads() -> dict[tuple[str, ...], str]:
    """What the section below each known head is about; "" where it is about the patient now."""
    return {words: cue.says.partition(" ")[2] for words, cue in cues() if cue.says.split()[0] == "section"}


class _Scope:
    """How far a cue still reaches."""

    __slots__ = ("bit", "closely", "last", "reach", "result")

    def __init__(self, cue: Cue, end: int) -> None:
        self.bit, self.reach, self.result = _BITS[_kind(cue)], end + cue.reach, cue.says == _RESULT
        self.closely = cue.says == "uncertain" or (cue.says == "historical" and cue.reach < _LOOSELY)
        self.last = -1  # where the last entity that was meant ended

    def covers(self, start: int, tokens: Sequence[str]) -> bool:
        """True if an entity that starts here is meant: within reach, or next in a list."""
        if self.last < 0:
            return start <= self.reach
        if tokens[start - 1] in _MEANS or tokens[start] in _RAISED:  # "no embolism on CT", "no fever, elevated CRP"
            return False
        between = tokens[self.last : start]
        return all(t in _OR for t in between) if self.closely else start <= self.reach or len(between) <= _LIST_GAP


class _Reader:
    """Goes through the events of a text and notes what is said of each entity, as bits."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.found: list[
            list[int]
        ] = []  # of each entity: where it begins and ends, what is said of it, if it is a test
        self._open: dict[str, _Scope] = {}
        self._section = 0
        self._stops = [i for i, token in enumerate(tokens) if token in _STATEMENT]
        self._stop, self._line, self._previous, self._section_line = 0, 0, -1, 0

    def read(self, start: int, end: int, what: object, following: Event | None) -> None:
        if self._stop < len(self._stops) and self._stops[self._stop] < start:
            self._pass_stops(start)
        self._previous = end
        if isinstance(what, Cue):
            self._cue(what, start, end, following)
        else:
            is_test = getattr(what, "category", "") in _TESTS
            self.found.append([start, end, self._said(start, end, is_test), is_test])

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

    def _said(self, start: int, end: int, is_test: bool) -> int:
        """What the open scopes and the section say of an entity; a scope that does not reach it ends."""
        said, tokens = self._section, self.tokens
        if self._open:
            for says, scope in list(self._open.items()):
                if scope.covers(start, tokens):
                    said |= 0 if scope.result and is_test else scope.bit
                    scope.last = end
                else:
                    del self._open[says]
        if (start and tokens[start - 1] == "?") or (end < len(tokens) and tokens[end] == "?"):
            said |= _BITS["uncertain"]
        return said

    def _cue(self, cue: Cue, start: int, end: int, following: Event | None) -> None:
        """Let a cue end scopes, open one, or say something of the entities before it."""
        if cue.says == "affirm" and start and self.tokens[start - 1] in _NOT:
            return  # "did not receive": the verb is denied too
        if cue.says in _ENDS:
            for says in _ENDS[cue.says]:
                self._open.pop(says, None)
            if self._line > self._section_line and cue.says in ("self", "anew"):
                self._section = 0  # "PMH: gout. Presents with fever"
        elif _kind(cue) in _BITS:
            if cue.side == "before" or (cue.side == "either" and self._follows(start, end, following)):
                self._look_back(cue, start)
            else:
                self._open[_kind(cue)] = _Scope(cue, end)

    def _follows(self, start: int, end: int, following: Event | None) -> bool:
        """True if a cue that may stand on either side stands after its entity."""
        if not self.found:
            return False
        between = self.tokens[self.found[-1][1] : start]
        if any(t not in _COPULAS for t in between) or self.tokens[end : end + 1] in _ARTICLES:
            return False
        next_to_it = following is not None and following[0] == end and not isinstance(following[2], Cue)
        return bool(between) or not next_to_it

    def _look_back(self, cue: Cue, start: int) -> None:
        """Say it of the entity before the cue, and of those joined to it: "A, B and C were ruled out"."""
        after, joined, listed = start, False, False
        for entity in reversed(self.found):
            between = self.tokens[entity[1] : after]
            linked = bool({"and", "or", "nor"} & {*between})
            if not joined and (len(between) > cue.reach or any(t in _STATEMENT or t == "but" for t in between)):
                return
            if joined and not (all(t in _LINKS for t in between) and (linked or (listed and "," in between))):
                return
            entity[2] |= 0 if cue.says == _RESULT and entity[3] else _BITS[_kind(cue)]
            after, joined, listed = entity[0], True, listed or linked


def contexts(tokens: Sequence[str], events: Sequence[Event]) -> list[Context]:
    """The context of every entity among the events, in their order."""
    reader = _Reader(tokens)
    for (start, end, what), following in zip(events, [*events[1:], None], strict=True):
        reader.read(start, end, what, following)
    return [_STRONGEST_OF[said] for _, _, said, _ in reader.found]


def _kind(cue: Cue) -> str:
    return "negated" if cue.says == _RESULT else cue.says
