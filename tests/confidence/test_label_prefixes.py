"""Labels by what tokens spell: against models whose every word is known, and the rules one by one."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.confidence.label_prefixes import label_masses_by_prefix
from steelyard.confidence.token_text import bytes_of_text, text_of_bytes, token_text
from steelyard.errors import UsageError

END = ""


def token(said: str, **top: float) -> dict[str, Any]:
    return listed(said, top)


def listed(said: str, top: dict[str, float]) -> dict[str, Any]:
    entries = [{"token": text, "logprob": math.log(p)} for text, p in top.items()]
    return {"token": said, "logprob": math.log(top[said]), "top_logprobs": entries}


def rounded(masses: Any) -> dict[str, float]:
    return {label: round(mass, 9) for label, mass in masses.items()}


@given(
    st.dictionaries(st.text("abäâ€", min_size=1, max_size=4), st.floats(0.01, 1), min_size=2, max_size=6),
    st.booleans(),
    st.data(),
)
def test_the_masses_are_those_of_a_model_that_spells(
    weights: dict[str, float], in_bytes: bool, data: st.DataObject
) -> None:
    """The model says one of the labels, letter by letter or byte by byte; all that could follow is listed."""
    truth = {label: weight / math.fsum(weights.values()) for label, weight in weights.items()}
    said = data.draw(st.sampled_from(sorted(truth)))
    spelling = {
        label: [*([text_of_bytes(bytes([byte])) for byte in label.encode()] if in_bytes else label), END]
        for label in truth
    }
    tokens = []
    for place, letter in enumerate(spelling[said]):
        possible = {label: p for label, p in truth.items() if spelling[label][:place] == spelling[said][:place]}
        top = dict.fromkeys((spelling[label][place] for label in possible), 0.0)
        for label, p in possible.items():
            top[spelling[label][place]] += p / math.fsum(possible.values())
        tokens.append(listed(letter, top))
    found = label_masses_by_prefix(tokens, list(truth))
    assert found.masses[said] == pytest.approx(truth[said], abs=1e-9)
    assert math.fsum(found.masses.values()) == pytest.approx(1, abs=1e-9)
    for label, p in truth.items():
        if label in found.at_most:
            assert p <= found.at_most[label] + 1e-9
        else:
            assert found.masses[label] == pytest.approx(p, abs=1e-9)


@given(
    st.dictionaries(
        st.text("abg ", min_size=1, max_size=4).map(lambda text: " ".join(text.split())).filter(bool),
        st.floats(0.01, 1),
        min_size=3,
    ),
    st.integers(0, 3),
    st.data(),
)
def test_the_masses_of_labels_with_several_spellings_are_bounded_by_what_is_said_of_them(
    weights: dict[str, float], hidden: int, data: st.DataObject
) -> None:
    """The model says one of the spellings, letter by letter; of what could follow, some letters are not listed."""
    truth = {spelling: weight / math.fsum(weights.values()) for spelling, weight in weights.items()}
    labels = data.draw(st.lists(st.sampled_from(sorted(truth)), min_size=2, max_size=3, unique=True))
    label_of = {each: each if each in labels else data.draw(st.sampled_from(labels)) for each in truth}
    said = data.draw(st.sampled_from(sorted(truth)))
    tokens = []
    for place in range(len(said) + data.draw(st.integers(0, 1))):
        possible = {each: p for each, p in truth.items() if each[:place] == said[:place]}
        top: dict[str, float] = {}
        for each, p in possible.items():
            letter = each[place : place + 1]
            top[letter] = top.get(letter, 0.0) + p / math.fsum(possible.values())
        kept = sorted(top, key=lambda letter: (letter != said[place : place + 1], -top[letter]))[: 4 - hidden]
        tokens.append(listed(said[place : place + 1], {letter: top[letter] for letter in kept}))
    found = label_masses_by_prefix(tokens, labels, {each: label for each, label in label_of.items() if each != label})
    assert found.said == label_of[said]
    assert found.masses[label_of[said]] > 0
    for label, most in found.at_most.items():
        assert math.fsum(p for each, p in truth.items() if label_of[each] == label) <= most + 1e-9


def test_the_probability_of_a_label_is_that_of_all_its_spellings() -> None:
    first = listed("Stage", {"Stage": 0.6, "3": 0.2, "G": 0.1, "4": 0.1})
    second = listed(" 3", {" 3": 0.9, " 4": 0.1})
    found = label_masses_by_prefix([first, second], ["3", "4"], {"stage 3": "3", "stage 4": "4", "g3": "3", "g4": "4"})
    assert found.masses == pytest.approx({"3": 0.54 + 0.2 + 0.05, "4": 0.06 + 0.1 + 0.05})
    assert found.said == "3"


def test_a_label_is_not_the_spelling_of_another() -> None:
    found = label_masses_by_prefix([listed("yes", {"yes": 1.0})], ["yes", "no"], {"YES": "no", '"': "no"})
    assert rounded(found.masses) == {"yes": 1.0, "no": 0.0}


def test_what_could_have_gone_on_at_the_end_of_a_reply_is_bounded() -> None:
    found = label_masses_by_prefix([listed("1", {"1": 0.9, "2": 0.1})], ["1", "2", "10"])
    assert found.at_most == pytest.approx({"10": 0.9})


@pytest.mark.parametrize(("texts", "said"), [(["Ma", "jor"], "Major"), (["Ma"], None), (["Ma", "ybe"], None)])
def test_which_label_the_tokens_lead_to(texts: list[str], said: str | None) -> None:
    found = label_masses_by_prefix([listed(text, {text: 0.9, "Minor": 0.1}) for text in texts], ["Major", "Ma is"])
    assert found.said == said


def test_a_token_that_begins_one_label_counts_for_it() -> None:
    said = listed("Crit", {"Crit": 0.6, " crit": 0.1, "M": 0.1, "Mi": 0.05, "Tri": 0.05, "I": 0.1})
    found = label_masses_by_prefix([said], ["Critical", "Minor", "Trivial"])
    assert rounded(found.masses) == {"Critical": 0.7, "Minor": 0.15, "Trivial": 0.05}
    assert found.outside == pytest.approx(0.1)


def test_a_beginning_of_several_labels_is_followed_if_it_was_said() -> None:
    first = listed("Ma", {"Ma": 0.8, "Tri": 0.2})
    second = listed("jor", {"jor": 0.5, "ximal": 0.25, "y": 0.25})
    found = label_masses_by_prefix([first, second], ["Major", "Maximal", "Trivial"])
    assert rounded(found.masses) == {"Major": 0.4, "Maximal": 0.2, "Trivial": 0.2}
    assert found.outside == pytest.approx(0.2)
    assert found.at_most == {}


def test_a_beginning_of_several_labels_is_shared_if_it_was_not_said() -> None:
    found = label_masses_by_prefix([listed("Fine", {"Fine": 0.6, "Very": 0.4})], ["Very bad", "Very good", "Fine"])
    assert rounded(found.masses) == {"Very bad": 0.2, "Very good": 0.2, "Fine": 0.6}
    assert found.confidences["Fine"] == pytest.approx(0.6)
    assert found.at_most == pytest.approx({"Very bad": 0.4, "Very good": 0.4})


@pytest.mark.parametrize("lead", [" ", '"', ' "', "**", "\n\n", "▁", "'"])
def test_blanks_quotes_and_asterisks_before_a_label_decide_nothing(lead: str) -> None:
    alone = [listed(lead, {lead: 0.9, "no": 0.1}), listed("yes", {"yes": 0.5, "No": 0.5})]
    assert rounded(label_masses_by_prefix(alone, ["yes", "no"]).masses) == {"yes": 0.45, "no": 0.55}
    joined = [listed(f"{lead}yes", {f"{lead}yes": 0.7, "No": 0.3})]
    assert rounded(label_masses_by_prefix(joined, ["yes", "no"]).masses) == {"yes": 0.7, "no": 0.3}


@pytest.mark.parametrize(
    ("following", "label"),
    [
        ("0", "10"),
        (END, "1"),
        ("\n", "1"),
        ('"', "1"),
        (", as", "1"),
        (".", "1"),
        (".5", None),
        ("5", None),
        ("x", None),
    ],
)
def test_what_follows_a_digit_says_which_number_it_is(following: str, label: str | None) -> None:
    tokens = [listed("1", {"1": 0.9, "2": 0.1}), listed(following, {following: 1.0})]
    found = label_masses_by_prefix(tokens, ["1", "2", "10"])
    expected = {"1": 0.0, "2": 0.1, "10": 0.0} | ({label: 0.9} if label else {})
    assert rounded(found.masses) == expected


def test_a_label_at_the_very_end_of_a_reply_is_whole() -> None:
    found = label_masses_by_prefix([listed("1", {"1": 0.9, "2": 0.1})], ["1", "2", "10"])
    assert rounded(found.masses) == {"1": 0.9, "2": 0.1, "10": 0}


def test_a_reply_that_could_have_ended_at_once_is_outside() -> None:
    found = label_masses_by_prefix([listed("yes", {"yes": 0.9, END: 0.1})], ["yes", "no"])
    assert found.outside == pytest.approx(0.1)


def test_what_is_not_listed_bounds_the_labels_that_are_not() -> None:
    found = label_masses_by_prefix([listed("yes", {"yes": 0.7, "well": 0.1})], ["yes", "no"])
    assert found.at_most == pytest.approx({"no": 0.2})  # of tokens nobody named, any number may be a label's


def test_what_is_not_listed_later_is_a_part_of_what_was_said_before() -> None:
    tokens = [listed("Very", {"Very": 0.5, "Fine": 0.5}), listed(" bad", {" bad": 0.8})]
    found = label_masses_by_prefix(tokens, ["Very bad", "Very good", "Fine", "Mixed"])
    assert found.at_most == pytest.approx({"Very good": 0.1, "Mixed": 0})


@pytest.mark.parametrize(
    ("said", "label"), [("Very bad,", "Very bad"), ("Very, very", "Very"), ("very  BAD", "Very bad")]
)
def test_the_longest_label_that_ends_there_is_meant(said: str, label: str) -> None:
    found = label_masses_by_prefix([listed(said, {said: 1.0})], ["Very", "Very bad"])
    assert found.masses == pytest.approx({"Very": 0, "Very bad": 0} | {label: 1})


def test_characters_in_parts_are_put_together() -> None:
    first, second, third = (text_of_bytes(bytes([byte])) for byte in "€".encode())
    tokens = [
        listed(first, {first: 0.8, "$": 0.2}),
        listed(second, {second: 1.0}),
        listed(third, {third: 0.5, "x": 0.5}),
    ]
    found = label_masses_by_prefix(tokens, ["€", "$", "™"])  # the first byte is that of two labels
    assert rounded(found.masses) == {"€": 0.8, "$": 0.2, "™": 0.0}


@pytest.mark.parametrize("labels", [["Yes", "yes"], ["a b", "a  B"], ["", "x"], ["x", '"']])
def test_labels_that_cannot_be_told_apart_are_refused(labels: list[str]) -> None:
    with pytest.raises(UsageError, match="same as another"):
        label_masses_by_prefix([token("x", x=1.0)], labels)


@given(st.binary(min_size=1, max_size=6))
def test_the_text_of_a_token_says_its_bytes(given_bytes: bytes) -> None:
    text = token_text({"token": given_bytes.decode(errors="ignore"), "bytes": list(given_bytes)})
    assert text is not None
    assert bytes_of_text(text) == given_bytes
    text.encode()  # can be written to a file


@pytest.mark.parametrize(
    "entry", [{"token": "a", "bytes": None}, {"token": "a", "bytes": []}, {"token": "a", "bytes": [300]}]
)
def test_without_bytes_a_token_is_its_text(entry: dict[str, Any]) -> None:
    assert token_text(entry) == "a"
