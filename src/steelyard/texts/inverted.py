"""Names in another order: "fracture of the hip" is a hip fracture, "diabetes mellitus, type 2" type 2 diabetes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.texts.lexicon import Entry, Lexicon
from steelyard.texts.normalise import MARKS
from steelyard.texts.plain_words import modifiers

Hit = tuple[int, int, Any]
_LONGEST = 3  # words of a place or a kind
# what a place is called as an adjective
_ADJECTIVES = {
    "aorta": "aortic",
    "lung": "pulmonary",
    "lungs": "pulmonary",
    "liver": "hepatic",
    "kidney": "renal",
    "kidneys": "renal",
    "testis": "testicular",
    "testicle": "testicular",
    "ovary": "ovarian",
    "esophagus": "esophageal",
    "stomach": "gastric",
    "pancreas": "pancreatic",
    "cervix": "cervical",
    "brain": "cerebral",
    "bowel": "intestinal",
    "spleen": "splenic",
    "prostate": "prostatic",
}


def inverted(hits: list[Hit], tokens: Sequence[str], lexicon: Lexicon) -> list[Hit]:
    """The hits, with names in another order as one hit each."""
    names, heads = lexicon.by_phrase, lexicon.heads
    places = [i for i, token in enumerate(tokens) if token == "of" and i and tokens[i - 1] in heads]
    found = [hit for place in places if (hit := _of(place, tokens, names)) is not None]
    for start, end, what in hits:
        if end < len(tokens) and tokens[end] in (",", "(") and getattr(what, "category", "") == "diagnoses":
            hit = _apposed(start, end, tokens, names)
            if hit is not None:
                found.append(hit)
    if not found:
        return hits
    taken = {i for start, end, _ in found for i in range(start, end)}
    rest = [hit for hit in hits if taken.isdisjoint(range(hit[0], hit[1]))]
    return sorted((*rest, *found), key=lambda hit: hit[0])


def _of(place: int, tokens: Sequence[str], names: Mapping[tuple[str, ...], Entry]) -> Hit | None:
    """The name that "X of the Y" stands for, if there is one."""
    head, begin = tokens[place - 1], place + 1
    while begin < len(tokens) and tokens[begin] in modifiers():
        begin += 1
    for size in range(min(_LONGEST, len(tokens) - begin), 0, -1):
        part = tuple(tokens[begin : begin + size])
        for words in (part, (*part[:-1], _ADJECTIVES.get(part[-1], ""))):
            entry = names.get((*words, head))
            if entry is not None:
                return place - 1, begin + size, entry
    return None


def _apposed(start: int, end: int, tokens: Sequence[str], names: Mapping[tuple[str, ...], Entry]) -> Hit | None:
    """The name that "X, Y" or "X (Y)" stands for, if there is one."""
    run = []
    for token in tokens[end + 1 : end + 2 + _LONGEST]:
        if token in MARKS:
            break
        run.append(token)
    if not 0 < len(run) <= _LONGEST:
        return None
    entry = names.get((*run, *tokens[start:end]))
    return None if entry is None else (start, end + 1 + len(run), entry)
