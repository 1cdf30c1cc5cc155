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
_STRONGEST: tuple[Context, ...] = ("negated", "family", "hypothetical", "historical", "uncertain")
_STATEMENT = frozenset(".;:!?\n")
_LINKS = frozenset({",", "and", "or", "vs", "versus", "(", "the", "a", "an", "any"})
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
_LIST_GAP = 6  # words between two members of a list
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
    pairs = []
    for line in table.splitlines():
        if line and not line.startswith("#"):
            says, side, reach, phrases = line.split("\t")
            pairs += [(tuple(phrase.split()), Cue(says, _side(side), int(reach))) for phrase in phrases.split("|")]
    return tuple(pairs)


def _side(text: str) -> Side:
    return next(side for side in get_args(Side) if side == text)


@cache
def heads() -> dict[tuple[str, ...], str]:
    """What the section below each known head is about; "" where it is about the patient now."""
    return {words: cue.says.partition(" ")[2] for words, cue in cues() if cue.says.split()[0] == "section"}


class _Scope:
    """How far a cue still reaches."""

    __slots__ = ("closely", "reach")

    def __init__(self, cue: Cue, end: int) -> None:
        self.reach = end + cue.reach
        self.closely = cue.says == "uncertain" or (cue.says == "historical" and cue.reach < 4)

    def covers(self, start: int, tokens: Sequence[str], last: int | None) -> bool:
        """True if an entity that starts here is meant; `last` is where the one before it ended, if it was meant."""
        if start <= self.reach and (last is None or not self.closely):
            return True
        if last is None:
            return False
        between = tokens[last:start]
        return all(t in _OR for t in between) if self.closely else len(between) <= _LIST_GAP


def contexts(tokens: Sequence[str], events: Sequence[Event]) -> list[Context]:
    """The context of every entity among the events, in their order."""
    found: list[tuple[int, int, set[str]]] = []
    active: dict[str, tuple[_Scope, int | None]] = {}
    section = ""
    stops = [i for i, token in enumerate(tokens) if token in _STATEMENT]
    at, line, previous = 0, 0, -1  # the next stop, where the line began, where the event before ended
    for number, (start, end, what) in enumerate(events):
        while at < len(stops) and stops[at] < start:
            stop = stops[at]
            at += 1
            head = tuple(tokens[line:stop]) if stop - line <= _HEAD else ()
            if tokens[stop] in ":\n" and head in heads():
                section = heads()[head]
            elif tokens[stop] == ":" and stop == previous and active:
                continue  # "denies: fever"
            elif tokens[stop] == ":" and head:
                section = ""
            active.clear()
            if tokens[stop] in ".\n;":
                line = stop + 1
        previous = end
        if not isinstance(what, Cue):
            found.append((start, end, _meant(active, start, end, tokens, section)))
            continue
        _apply(what, start, end, tokens, events[number + 1 :][:1], found, active)
    return [_strongest(said) for _, _, said in found]


def _meant(
    active: dict[str, tuple[_Scope, int | None]], start: int, end: int, tokens: Sequence[str], section: str
) -> set[str]:
    """What the open scopes and the section say of an entity; a scope that does not reach it ends."""
    said = {section} if section else set()
    for says, (scope, last) in list(active.items()):
        if scope.covers(start, tokens, last):
            said.add(says)
            active[says] = (scope, end)
        else:
            del active[says]
    if (start and tokens[start - 1] == "?") or (end < len(tokens) and tokens[end] == "?"):
        said.add("uncertain")
    return said


def _apply(
    cue: Cue,
    start: int,
    end: int,
    tokens: Sequence[str],
    following: Sequence[Event],
    found: list[tuple[int, int, set[str]]],
    active: dict[str, tuple[_Scope, int | None]],
) -> None:
    """Let a cue end scopes, open one, or say something of the entities before it."""
    if cue.says in ("end", "family told"):
        active.clear()
    elif cue.says == "self":
        for says in ("negated", "family", "historical", "uncertain"):
            active.pop(says, None)
    elif cue.says == "affirm":
        for says in ("negated", "historical", "uncertain"):
            active.pop(says, None)
    elif cue.says in _STRONGEST:
        if cue.side == "before" or (cue.side == "either" and _follows(start, end, tokens, following, found)):
            _look_back(cue, start, tokens, found)
        else:
            if cue.says == "negated":
                active.pop("uncertain", None)
            active[cue.says] = (_Scope(cue, end), None)


def _follows(
    start: int,
    end: int,
    tokens: Sequence[str],
    following: Sequence[Event],
    found: list[tuple[int, int, set[str]]],
) -> bool:
    """True if a cue that may stand on either side stands after its entity."""
    if not found:
        return False
    between = tokens[found[-1][1] : start]
    if any(t not in _COPULAS for t in between):
        return False
    next_to_it = bool(following) and following[0][0] == end and not isinstance(following[0][2], Cue)
    return bool(between) or not next_to_it


def _look_back(cue: Cue, start: int, tokens: Sequence[str], found: list[tuple[int, int, set[str]]]) -> None:
    """Say it of the entity before the cue, and of those joined to it: "A, B and C were ruled out"."""
    after, joined, listed = start, False, False
    for first, last, said in reversed(found):
        between = tokens[last:after]
        linked = bool({"and", "or", "nor"} & {*between})
        if not joined and (len(between) > cue.reach or any(t in _STATEMENT or t == "but" for t in between)):
            return
        if joined and not (all(t in _LINKS for t in between) and (linked or (listed and "," in between))):
            return
        said.add(cue.says)
        after, joined, listed = first, True, listed or linked


def _strongest(said: set[str]) -> Context:
    return next((context for context in _STRONGEST if context in said), "asserted")
