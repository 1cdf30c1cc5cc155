"""A name that a longer one contains is not the longer one: what narrows a diagnosis down must be the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.texts.entities import extractor
from steelyard.texts.plain_words import modifiers

HEADS = ("meningitis", "hepatitis", "abscess", "fracture", "neuropathy", "adenocarcinoma", "cancer", "pneumonia")
UNKNOWN = ("quartzy", "violety", "zebric", "umbral")  # no lexicon has them


def same(one: str, other: str) -> float | None:
    return sy.explain("diagnostic_accuracy", one, other).score


@given(st.sampled_from(HEADS), st.sampled_from(UNKNOWN), st.sampled_from(("", *UNKNOWN)), st.booleans())
def test_an_unknown_word_makes_another_diagnosis(head: str, word: str, other: str, after: bool) -> None:
    def named(kind: str) -> str:
        return head if not kind else f"{head} of the {kind}" if after else f"{kind} {head}"

    expected = float(word == other)
    assert same(named(word), named(other)) == expected
    assert same(named(other), named(word)) == expected


@given(st.sampled_from(("pneumothorax", "cellulitis", "appendicitis")), st.sampled_from(sorted(modifiers())))
def test_how_bad_how_long_and_on_which_side_make_no_other_one(head: str, modifier: str) -> None:
    text = f"{modifier} {head}"
    if [mention.entry.name for mention in extractor().findings(text).mentions] == [head]:
        assert same(head, text) == same(text, head) == 1


def test_a_plain_sentence_narrows_nothing_down() -> None:
    assert same("appendicitis", "The examination demonstrated appendicitis.") == 1
    assert same("fungemic cellulitis", "Cellulitis. The fungemic cellulitis is severe.") == 1
