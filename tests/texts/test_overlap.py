"""Agreement of words and characters: known values, and the edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.texts.normalise import normalised, words
from steelyard.texts.overlap import chrf, exact_match, longest_common, rouge_l, token_f1
from steelyard.texts.reasoning import markers
from tests.support.naive import texts as naive


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("  Acute\tOtitis-Media. ", "acute otitis media"),
        ("7.5 mg is not 75 mg", "7.5 mg is not 75 mg"),
        ("1,200 units", "1200 units"),
        ("aspirin b.i.d., then q.d. after", "aspirin bid then qd after"),
        ("Sjögren's and Guillain–Barré", "sjogrens and guillain barre"),
        ("SpO₂ ↓, β-blocker, µg", "spo2 beta blocker ug"),
        ("fever/chills w/o cough", "fever chills without cough"),
        ("Haemoglobin, Oedema & DIARRHOEA", "hemoglobin edema and diarrhea"),
        ("C. difficile; E. coli. Next", "c difficile e coli next"),
        ("well.Next", "well next"),
        ("!?", ""),
    ],
)
def test_normalised(text: str, wanted: str) -> None:
    assert normalised(text) == wanted


@given(st.text(max_size=100))
def test_what_is_normalised_stays_so(text: str) -> None:
    assert words(normalised(text)) == words(text)


@pytest.mark.parametrize("score", [exact_match, token_f1, rouge_l, chrf])
def test_the_edges(score) -> None:  # type: ignore[no-untyped-def]
    assert score("", "").score == 1.0
    assert score("fever", "").score == 0.0
    assert score("", "fever").score == 0.0
    assert score("fever", "fever").score == 1.0
    assert score("fever", "quiz").score == 0.0


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_the_longest_common_subsequence(one: list[str], two: list[str]) -> None:
    common = longest_common(one, two)
    wanted = naive.rouge_l(" ".join(one), " ".join(two))
    assert common == longest_common(two, one)
    if one or two:
        assert 2 * common / (len(one) + len(two)) == pytest.approx(wanted)


@given(st.text("ab c", max_size=15), st.text("ab c", max_size=15))
def test_chrf_is_its_definition(one: str, two: str) -> None:
    assert chrf(one, two).score == pytest.approx(naive.chrf(one, two))


def test_chrf_counts_case_and_punctuation() -> None:
    assert (chrf("Fever.", "fever").score or 0) < 1.0


@pytest.mark.parametrize(
    ("kind", "text", "count"),
    [
        ("structure", "First, fever. Second: cough. Therefore pneumonia.", 3),
        ("structure", "1. fever 2. cough 3) rash", 3),
        ("structure", "a dose of 1.5 mg", 0),
        ("structure", "firstborn thusly", 0),
        ("evidence", "consistent with pneumonia, supported by fever", 2),
        ("fallacy", "Obviously, everyone knows it is 100% viral", 3),
        ("fallacy", "a 70 year old with pneumonia", 0),
    ],
)
def test_markers_are_whole_tokens(kind: str, text: str, count: int) -> None:
    assert len(markers(kind, text)) == count
