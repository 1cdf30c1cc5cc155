"""How far a cue reaches: which of the entities after "no", "avoid" or "history of" are meant.

A scope goes on through a list. It ends where something else begins: a denied drug does not deny the disease or the drug
after "with", "in" or "for", and a comma after "instead of X" or "despite no X" brings what is so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from steelyard.texts.plain_words import word_list

Context = Literal["asserted", "negated", "family", "hypothetical", "historical", "uncertain"]
Side = Literal["before", "after", "either", "next"]  # "next": right before the cue, or nowhere
STRONGEST: tuple[Context, ...] = ("family", "negated", "hypothetical", "historical", "uncertain")
RESULT = "negated result"  # a test with a negative result was done: only what is no test is denied
REPLACED = "replaced"  # "replace A with B": A is denied, up to the word that brings B
PURPOSE = "purpose"  # "to prevent stroke": hypothetical, until something is ordered for it
NOT_EXCLUDED = "not excluded"  # "does not exclude": uncertain, whatever was denied before
ENDED = "ended"  # "stopped by": a drug is denied, a bleeding is over
CAUSED = "caused"  # "ibuprofen caused the bleed": a drug was taken
LESS = "less preferred"  # "prefer A over B"
KINDS = {
    RESULT: "negated",
    REPLACED: "negated",
    PURPOSE: "hypothetical",
    NOT_EXCLUDED: "uncertain",
    ENDED: "historical",
    CAUSED: "historical",
    LESS: "negated",
}
BITS: dict[str, int] = {context: 1 << i for i, context in enumerate(STRONGEST)}
TESTS = ("labs", "treatments")
GIVEN = ("medications", "treatments")
STATEMENT = frozenset(".;:!?\n—")
BY = frozenset({"to", "with", "by", "for"})
NOT = frozenset(
    {"not", "never", "nor", "no", "without", "dont", "didnt", "doesnt", "wasnt", "cannot", "neednt", "shouldnt"}
)
_MEANS = frozenset({"on", "by", "via", "per"})
_RAISED = frozenset({"elevated", "raised", "increased", "high"})
_OR = frozenset({",", "or", "nor", "vs", "versus", "a", "an"})
_EITHER = frozenset({"or", "nor"})
# what ties a drug that is denied to what the patient has, takes or needs
_TIES = word_list("ties")
_REASONS = frozenset({"from", "after", "for"})
_VERBS = frozenset({"is", "are", "was", "were"})
_CONCEDED = frozenset({"despite", "although", "though", "while", "whose"})
_SET_AGAINST = frozenset({"not", "instead", "rather", "in", "without", "with", "given"})
_PLAIN_FACT = frozenset({"the", "present", "likely", "probable", "suspected", "our", "my", "most", "diagnosed"})
_LOOSELY = 4  # words from which a cue of the past is about a list, as "history of" is and "prior" is not
_LIST_GAP = 6  # words between two members of a list


@dataclass(frozen=True)
class Cue:
    """What a phrase says of the entities near it."""

    says: str
    side: Side = "after"
    reach: int = 0
    kind: str = field(init=False, default="", compare=False)  # the context that it gives, if it gives one

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", KINDS.get(self.says, self.says))


class Scope:
    """How far a cue still reaches."""

    __slots__ = ("begins", "bit", "category", "closely", "first", "last", "once", "reach", "says")

    def __init__(self, cue: Cue, end: int, *, once: bool = False, begins: int = 0) -> None:
        self.bit, self.first, self.reach, self.says = BITS[cue.kind], end, (begins or end) + cue.reach, cue.says
        self.closely = cue.says == "uncertain" or (cue.says == "historical" and cue.reach < _LOOSELY)
        self.once, self.begins = once, begins
        self.last, self.category = -1, ""  # where the last entity that was meant ended, and what it was

    def covers(self, start: int, end: int, category: str, tokens: Sequence[str]) -> bool:
        """True if an entity that stands here is meant: within reach, or next in a list."""
        if self.says == REPLACED and (category not in GIVEN or not BY.isdisjoint(tokens[self.first : start])):
            return False
        if self.last < 0:
            return start <= self.reach
        if tokens[start - 1] in _MEANS or tokens[start] in _RAISED:  # "no embolism on CT", "no fever, elevated CRP"
            return False
        between = tokens[self.last : start]
        if between == [","] and self._is_anew(end, category, tokens):
            return False
        if self.once and "," in between and _EITHER.isdisjoint(between) and not is_or_ahead(tokens, end):
            return False
        if self.bit == BITS["negated"] and self._is_over(between, end, category, tokens):
            return False
        return all(t in _OR for t in between) if self.closely else start <= self.reach or len(between) <= _LIST_GAP

    def _is_anew(self, end: int, category: str, tokens: Sequence[str]) -> bool:
        """True if what comes after a comma is no member: "stop A, B 50 mg", "given the history of gout, ibuprofen"."""
        if category != "medications":
            return False
        if self.bit == BITS["historical"]:
            return self.category != category
        return self.bit == BITS["negated"] and is_number(tokens, end) and not is_number(tokens, self.last)

    def _is_over(self, between: Sequence[str], end: int, category: str, tokens: Sequence[str]) -> bool:
        """True if a denial ended: "avoid X in asthma", "no fever, the diagnosis is X", "no rash and X is the cause"."""
        if _EITHER.isdisjoint(between):
            if self.category in GIVEN and is_tied(between):
                return True
            if len(between) > 1 and between[0] == "," and between[1] in _REASONS:  # "not dementia, from retention"
                return True
            turn = next((i for i, t in enumerate(between) if t in (",", "and")), len(between))
            if not _VERBS.isdisjoint(between[turn:]):
                return True
        fact = category == "diagnoses" and tokens[end : end + 1] == ["is"] and end + 1 < len(tokens)
        return fact and between in (["and"], [","], [",", "and"]) and tokens[end + 1] in _PLAIN_FACT


def is_tied(between: Sequence[str]) -> bool:
    """True if words tie a drug to what the patient has, takes or needs."""
    return not _TIES.isdisjoint(between)


def is_or_ahead(tokens: Sequence[str], place: int) -> bool:
    """True if a list goes on to its "or" in this statement."""
    for token in tokens[place:]:
        if token in STATEMENT:
            return False
        if token in _EITHER:
            return True
    return False


def is_set_against(tokens: Sequence[str], start: int) -> bool:
    """True if a denial only sets the scene for what comes after a comma: "despite no fever, X", "instead of X, Y"."""
    before = tokens[start - 1] if start else "."
    if before in _CONCEDED or tokens[start] in _CONCEDED:
        return True
    if before in ("with", "given"):
        start -= 1
        before = tokens[start - 1] if start else "."
    return before in STATEMENT and tokens[start] in _SET_AGAINST


def is_number(tokens: Sequence[str], place: int) -> bool:
    return place < len(tokens) and tokens[place][0].isdigit()
