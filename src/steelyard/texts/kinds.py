"""Which kind of a disease a text names: the words around a name that the lexicon has no longer name for.

Hard words make another disease, said on one side only too: unknown ones before the name or after "of" ("fungal
meningitis", "carcinoma of the vulva"), adjectives after a comma or in brackets ("stroke, hemorrhagic"), a type, a
number or a word with digits ("type 1", "HSV-2", "C5 fracture"), a germ after "caused by". Opposites count only where
both sides say one ("acute", "chronic"). How bad, on which side and at which stage do not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from steelyard.texts.context import cues
from steelyard.texts.entities import TRUE, Findings
from steelyard.texts.lexicon import Entry
from steelyard.texts.normalise import MARKS
from steelyard.texts.plain_words import modifiers, plain_words, stop_words, word_list

_CAUSE = "cause"  # what is said after "due to", where both sides say it
# plain words that say where a disease is
_PLACES = word_list("places")
_BY_LIMB = ("fracture", "dislocation", "sprain", "sarcoma", "cancer", "tumor", "neuropathy", "pain")  # the limb counts
_CAUSED = (("caused", "by"), ("due", "to"), ("secondary", "to"), ("from",), ("because", "of"))
_GERM = re.compile(r".*(?:coccus|cocci|ella|bacter|bacterium|monas|virus|plasma|spora|phila|ridium|mycosis|candida)$")
_GERMS = word_list("germs")
_ADJECTIVE = re.compile(r".{3,}(?:ic|al|ar|ous|ive|ary|ory|oid|ent|ant|itic)$")
_NO_KIND = word_list("no kind")
_ROMAN = {"i": "1", "ii": "2", "iii": "3", "iv": "4", "v": "5", "vi": "6"}
_STAGES = frozenset({"stage", "grade", "class", "nyha", "stages"})
_MIXED = re.compile(r"(?=.*[a-z])(?=.*\d)[a-z\d]+$")
_MEASURE = re.compile(r"q?\d+(?:h|d|w|mg|ml|g|kg|mcg|cm|mm|hr|hrs|min|pm|am|th|st|nd|rd|y|yo|x)$|x\d+$|q\d+.*$")
# a word that no table knows and that names a disease
_DISEASE = re.compile(r".{2,}(?:itis|opathy|osis|iasis|oma|bulbia|aneurysm)$")
_NAMED = word_list("named")
_NO_DISEASE = word_list("no disease")
_DENIED = word_list("denied")
_DISMISSED = word_list("dismissed")
_ASIDE = word_list("aside")
_NEAR = 6  # words in which an unknown disease is denied
_RUN = 3  # words of a kind after a name


@dataclass
class Kind:
    """The words that narrow a disease down, and what is said of it in opposites."""

    hard: set[str] = field(default_factory=set)
    opposites: dict[str, set[str]] = field(default_factory=dict)

    def agrees(self, other: Kind) -> bool:
        """True if both are of one kind."""
        if self.hard != other.hard:
            return False
        shared = self.opposites.keys() & other.opposites.keys()
        return all(self.opposites[about] & other.opposites[about] for about in shared)

    def oppose(self, about: str, value: str) -> None:
        self.opposites.setdefault(about, set()).add(value)


def narrowed(findings: Findings) -> dict[Entry, Kind]:
    """The kind of each diagnosis that a text asserts."""
    reader = _Around(findings)
    kinds: dict[Entry, Kind] = {}
    for mention, (start, end) in zip(findings.mentions, findings.spans, strict=True):
        if mention.entry.category == "diagnoses" and mention.context in TRUE:
            kind = kinds.setdefault(mention.entry, Kind())
            by_limb = any(word in mention.entry.name for word in _BY_LIMB)
            reader.inside(kind, start, end, mention.entry)
            reader.before(kind, start, by_limb=by_limb)
            reader.after(kind, end, by_limb=by_limb)
    return kinds


def strangers(findings: Findings) -> frozenset[str]:
    """The diseases that a text asserts and no table knows, by the form of their names: cerebritis, Ogilvie syndrome."""
    tokens = findings.tokens
    taken = {i for start, end in findings.spans for i in range(start, end)}
    found = set()
    for i, token in enumerate(tokens):
        if i in taken or token in _NO_DISEASE or _is_gloss(tokens, i, taken):
            continue
        named = token in _NAMED and i > 0 and i - 1 not in taken and _is_strange(tokens[i - 1])
        if (named or (_DISEASE.match(token) and token not in _plain())) and not _is_denied(tokens, i):
            found.add(f"{tokens[i - 1]} {token}" if named else token)
    return frozenset(found)


def diagnosed(findings: Findings) -> frozenset[Entry]:
    """The diagnoses that a text asserts: without those of its differential, if it says which one it is."""
    made, aside = set[Entry](), set[Entry]()
    for mention, (start, _) in zip(findings.mentions, findings.spans, strict=True):
        if mention.entry.category == "diagnoses" and mention.context in TRUE:
            also = mention.context == "uncertain" and _is_aside(findings.tokens, start)
            (aside if also else made).add(mention.entry)
    return frozenset(made or aside)


def _is_aside(tokens: Sequence[str], start: int) -> bool:
    """True in a differential, which ends with its statement or goes on in lines."""
    for token in reversed(tokens[:start]):
        if token in ".;":
            return False
        if token in _ASIDE:
            return True
    return False


def _is_gloss(tokens: Sequence[str], place: int, taken: AbstractSet[int]) -> bool:
    """True for another name of a known disease: "motor neuron disease (ALS)", "ALS (motor neuron disease)"."""
    if tokens[place + 1 : place + 2] == ["("]:
        return place + 2 in taken
    opened = next((i for i in range(place, -1, -1) if tokens[i] in "().;"), -1)
    return opened > 0 and tokens[opened] == "(" and opened - 1 in taken


def _is_denied(tokens: Sequence[str], place: int) -> bool:
    for token in reversed(tokens[max(0, place - _NEAR) : place]):
        if token in ".;:":
            break
        if token in _DENIED:
            return True
    stop = next((i for i in range(place + 1, len(tokens)) if tokens[i] in ".;\n"), len(tokens))
    return not _DISMISSED.isdisjoint(tokens[place + 1 : stop])


class _Around:
    """Reads the words around the mentions of a text."""

    def __init__(self, findings: Findings) -> None:
        self.tokens = findings.tokens
        self._taken = {i for start, end in findings.spans for i in range(start, end)}
        self._drugs = {
            end: mention.entry.name
            for mention, (_, end) in zip(findings.mentions, findings.spans, strict=True)
            if mention.entry.category == "medications"
        }

    def inside(self, kind: Kind, start: int, end: int, entry: Entry) -> None:
        """What a synonym says that the name does not: acute pericarditis."""
        own = entry.name.split()
        for token in self.tokens[start:end]:
            if token in _opposites() and token not in own:
                kind.oppose(_opposites()[token], token)

    def before(self, kind: Kind, start: int, *, by_limb: bool) -> None:
        """What stands right before a name; a drug there tells the kind, too: steroid psychosis."""
        if start in self._drugs:
            kind.hard.add(self._drugs[start])
        self._collect(kind, range(start - 1, -1, -1), by_limb=by_limb)

    def after(self, kind: Kind, end: int, *, by_limb: bool) -> None:
        """What stands after a name: a type or number, "of ...", an adjective after a comma or in brackets, a cause."""
        tokens = self.tokens
        if end == len(tokens):
            return
        number = _type_at(tokens, end) or _number_at(tokens, end)
        if number:
            kind.hard.add(f"type {number}")
        if tokens[end] == "of":
            self._collect(kind, range(end + 1, len(tokens)), by_limb=by_limb)
        elif tokens[end] in (",", "("):
            self._apposed(kind, end + 1)
        for words in _CAUSED:
            if tuple(tokens[end : end + len(words)]) == words:
                self._caused(kind, end + len(words))

    def _collect(self, kind: Kind, places: range, *, by_limb: bool) -> None:
        """Note the words at these places, up to the first one that ends what is said of the name."""
        tokens, skip = self.tokens, -1
        forward = places.step > 0
        for i in places:
            token = tokens[i]
            if token in MARKS:
                return
            if i == skip:
                continue
            pair = f"{token} {tokens[i + 1]}" if forward and i + 1 < len(tokens) else f"{tokens[i - 1]} {token}"
            about = _opposites().get(pair) if i and i not in self._taken else None
            if about:
                kind.oppose(about, pair)
                skip = i + places.step
                continue
            about = _opposites().get(token) if i not in self._taken else None
            if about and not (by_limb and about == "limb"):
                kind.oppose(about, token)
                continue
            if token in modifiers():
                continue
            if i in self._taken:
                return
            if i and tokens[i - 1] in _STAGES and len(token) <= 2:
                skip = i + places.step
                continue
            number = _type_at(tokens, i - 1) if i else ""
            if number:
                kind.hard.add(f"type {number}")
                skip = i + places.step
                continue
            if _MIXED.match(token) and not _MEASURE.match(token):
                kind.hard.add(token)
                continue
            if not token.isalpha() or token in _plain():
                return
            kind.hard.add(token)

    def _apposed(self, kind: Kind, place: int) -> None:
        """Note a type, opposites and adjectives that stand alone between marks: "stroke, hemorrhagic"."""
        run = []
        for token in self.tokens[place:]:
            if token in MARKS:
                break
            run.append(token)
            if len(run) > _RUN:
                return
        number = _type_at(self.tokens, place)
        if number and len(run) == 2:
            kind.hard.add(f"type {number}")
            return
        if not self._taken.isdisjoint(range(place, place + len(run))):
            return
        said = [word for word in run if word not in modifiers() or word in _opposites()]
        if all(word in _opposites() or _is_kind(word) for word in said):
            for word in said:
                if word in _opposites():
                    kind.oppose(_opposites()[word], word)
                else:
                    kind.hard.add(word)

    def _caused(self, kind: Kind, place: int) -> None:
        """Note what caused it: a germ makes another disease, anything else counts where both sides say it."""
        for i, token in enumerate(self.tokens[place : place + _RUN + 1], start=place):
            if token in ("a", "an", "the"):
                continue
            if i in self._taken or token in MARKS or token in stop_words():
                return
            if token in _GERMS or _GERM.match(token):
                kind.hard.add(token)
            elif token.isalpha():
                kind.oppose(_CAUSE, token)


def _is_kind(word: str) -> bool:
    return word not in _NO_KIND and word not in stop_words() and _ADJECTIVE.match(word) is not None


def _type_at(tokens: Sequence[str], place: int) -> str:
    """The type that is said here: "type 1", "type II", "type A"."""
    if place + 1 >= len(tokens) or tokens[place] != "type":
        return ""
    value = _ROMAN.get(tokens[place + 1], tokens[place + 1])
    return value if len(value) == 1 or (value.isdigit() and len(value) <= 2) else ""


def _number_at(tokens: Sequence[str], place: int) -> str:
    """A number that belongs to the name before it: "HSV-1"; none that counts or measures: "2 days"."""
    value = tokens[place]
    after = tokens[place + 1] if place + 1 < len(tokens) else "."
    alone = after in MARKS or after in ("infection", "disease", "virus", "encephalitis", "and", "or")
    return value if value.isdigit() and len(value) == 1 and alone else ""


def _is_strange(word: str) -> bool:
    return word.isalpha() and len(word) > 2 and word not in _plain() and word not in modifiers()


@cache
def _opposites() -> dict[str, str]:
    """What each word of `lexicons/opposites.tsv` is about."""
    table = resources.files("steelyard.texts.lexicons").joinpath("opposites.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in table.splitlines() if line and not line.startswith("#")]
    return {word: about for about, words in rows for word in words.split("|")}


@cache
def _plain() -> frozenset[str]:
    """The words that make no other disease of a name: plain ones and those of cues."""
    return (plain_words() | stop_words() | {word for phrase, _ in cues() for word in phrase}) - _PLACES
