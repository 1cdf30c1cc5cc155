"""Confidence in labels by the first token: by the definition, in every shape that people have, and its limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.confidence.first_token import class_confidence_from_logprobs, folded, label_masses
from steelyard.errors import InputError, UsageError

YES_NO = {"yes": ["Yes", " yes"], "no": ["No"]}
TEXTS = ("Yes", " Yes", "yes", "YES", "▁yes", "No", "\nno", "NO", "Maybe", " ", "", "Nope", "ye")

listings = st.lists(
    st.tuples(st.sampled_from(TEXTS), st.floats(-800, 0)), min_size=1, max_size=8, unique_by=lambda entry: entry[0]
)


@dataclass(frozen=True, kw_only=True)
class Token:
    """The runner's own shape."""

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """The shape of client libraries: objects all the way down."""

    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: Sequence[Candidate] | None = None


def token(*top: tuple[str, float], said: tuple[str, float] | None = None) -> dict[str, Any]:
    text, logprob = said or top[0]
    return {
        "token": text,
        "logprob": logprob,
        "top_logprobs": [{"token": other, "logprob": value} for other, value in top],
    }


def p(*probabilities: float) -> list[float]:
    return [math.log(probability) for probability in probabilities]


@given(listings)
def test_by_the_four_steps_in_plain_loops(top: list[tuple[str, float]]) -> None:
    found = class_confidence_from_logprobs([token(*top)], YES_NO)
    largest = max(logprob for _, logprob in top)
    weights = [(text.lstrip(" \n▁").casefold(), math.exp(logprob - largest)) for text, logprob in top]
    total = sum(weight for _, weight in weights)
    summed = {label: sum(weight / total for text, weight in weights if text == label) for label in YES_NO}
    if sum(summed.values()) > 1e-200:
        assert found == pytest.approx({label: part / sum(summed.values()) for label, part in summed.items()}, abs=1e-9)
    if any(text in YES_NO for text, _ in weights):
        assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    else:
        assert all(math.isnan(confidence) for confidence in found.values())


@given(listings)
def test_labels_and_what_is_outside_make_up_everything(top: list[tuple[str, float]]) -> None:
    found = label_masses([token(*top)], YES_NO)
    assert sum(found.masses.values()) + found.outside == pytest.approx(1, abs=1e-9)
    assert 0 <= found.outside <= 1
    assert set(found.at_most) == {label for label in YES_NO if not any(folded(text) == label for text, _ in top)}
    assert all(0 <= most <= found.outside + 1e-12 for most in found.at_most.values())


@given(st.lists(st.floats(0.001, 1), min_size=3, max_size=12), st.data())
def test_the_bounds_hold_whatever_the_list_leaves_out(weights: list[float], data: st.DataObject) -> None:
    """A model with one token per label, of which a server shows the likeliest ones."""
    truth = {f"label {i}": weight / math.fsum(weights) for i, weight in enumerate(weights)}
    ranked = sorted(truth, key=truth.__getitem__, reverse=True)
    shown = ranked[: data.draw(st.integers(1, len(ranked)))]
    said = data.draw(st.sampled_from(ranked))  # sampled: it need not be among the likeliest
    entries = [(name, math.log(truth[name])) for name in shown]
    found = label_masses([token(*entries, said=(said, math.log(truth[said])))], {name: [name] for name in truth})
    assert set(found.at_most) == set(ranked) - set(shown) - {said}
    for name in truth:
        if name in found.at_most:
            assert found.masses[name] == 0
            assert truth[name] <= found.at_most[name] + 1e-12
        else:
            assert found.masses[name] == pytest.approx(truth[name], abs=1e-12)


def test_the_mass_outside_is_that_of_the_model_and_not_of_the_list() -> None:
    found = label_masses([token(*zip(["Yes", "Maybe", "No"], p(0.5, 0.2, 0.1), strict=True))], YES_NO)
    assert found.masses == pytest.approx({"yes": 0.5, "no": 0.1})
    assert found.confidences == pytest.approx({"yes": 5 / 6, "no": 1 / 6})
    assert found.outside == pytest.approx(0.4)
    assert found.at_most == {}


def test_a_label_that_is_not_listed_is_bounded_by_the_least_listed_token_and_by_what_is_left() -> None:
    entries = list(zip(["Yes", "Maybe"], p(0.6, 0.1), strict=True))
    assert label_masses([token(*entries)], YES_NO).at_most == pytest.approx({"no": 0.1})
    two_tokens = {"yes": ["Yes"], "no": ["No", "Not"]}
    assert label_masses([token(*entries)], two_tokens).at_most == pytest.approx({"no": 0.2})
    entries = list(zip(["Yes", "Maybe"], p(0.6, 0.35), strict=True))
    assert label_masses([token(*entries)], YES_NO).at_most == pytest.approx({"no": 0.05})
    said = ("Sure", math.log(0.01))  # below the list: it says nothing of what else is not on it
    entries = list(zip(["Yes", "Maybe"], p(0.6, 0.1), strict=True))
    assert label_masses([token(*entries, said=said)], YES_NO).at_most == pytest.approx({"no": 0.1})


def test_what_was_said_counts_once_whether_it_is_listed_or_not() -> None:
    listed = token(("Yes", math.log(0.6)), ("No", math.log(0.3)))
    assert class_confidence_from_logprobs([listed], YES_NO) == pytest.approx({"yes": 2 / 3, "no": 1 / 3})
    sampled = token(("Yes", math.log(0.6)), ("Maybe", math.log(0.3)), said=("No", math.log(0.06)))
    assert class_confidence_from_logprobs([sampled], YES_NO) == pytest.approx({"yes": 10 / 11, "no": 1 / 11})


def test_only_the_first_token_is_read() -> None:
    first, second = token(("Yes", -0.1), ("No", -3.0)), token(("No", -0.1), ("Yes", -3.0))
    found = class_confidence_from_logprobs([first, second], YES_NO)
    assert found == class_confidence_from_logprobs([first], YES_NO)
    assert found["yes"] > 0.9


def test_every_shape_gives_the_same() -> None:
    top = [(" Yes", -0.3), ("no", -1.7), ("Maybe", -3.0)]
    expected = class_confidence_from_logprobs([token(*top)], YES_NO)
    objects = Candidate(
        token=" Yes", logprob=-0.3, top_logprobs=[Candidate(token=text, logprob=logprob) for text, logprob in top]
    )
    with_bytes = token(*top) | {"bytes": [32, 89, 101, 115]}
    mixed = {"token": " Yes", "logprob": -0.3, "top_logprobs": [Candidate(token=t, logprob=x) for t, x in top]}
    for shape in (objects, with_bytes, mixed, Token(text=" Yes", logprob=-0.3, top=tuple(top))):
        assert class_confidence_from_logprobs([shape], YES_NO) == expected
        assert class_confidence_from_logprobs((shape,), YES_NO) == expected


@pytest.mark.parametrize("far", [-800.0, -9999.0, -1e12])
def test_labels_far_below_what_was_said_still_have_their_shares(far: float) -> None:
    found = label_masses([token(("Hm", 0.0), ("Yes", far), ("No", far))], YES_NO)
    assert found.confidences == pytest.approx({"yes": 0.5, "no": 0.5})
    assert found.masses == {"yes": 0, "no": 0}
    assert found.outside == 1


def test_logits_in_place_of_log_probabilities_give_the_softmax() -> None:
    found = label_masses([token(("Yes", 1002.0), ("No", 1000.0), ("Hm", 1001.0))], YES_NO)
    weights = [math.exp(x) for x in (2, 0, 1)]
    assert found.masses == pytest.approx({"yes": weights[0] / sum(weights), "no": weights[1] / sum(weights)})
    assert found.outside == pytest.approx(weights[2] / sum(weights))


@pytest.mark.parametrize("zero", [-math.inf, -3.4028234663852886e38])
def test_an_alternative_of_probability_zero_adds_nothing(zero: float) -> None:
    found = label_masses([token(("Yes", math.log(0.7)), ("No", zero))], YES_NO)
    assert found.confidences == {"yes": 1, "no": 0}
    assert found.at_most == {"no": 0}  # what the list leaves out is not likelier than its last


@pytest.mark.parametrize(
    ("label_tokens", "message"),
    [
        ({"yes": ["Yes", "Y"], "no": ["No", " y"]}, "labels 'yes' and 'no' have a token in common"),
        ({"a": ["▁Straße"], "b": ["STRASSE"]}, "in common"),
        ({}, "at least one label"),
        ({"yes": []}, "for label 'yes'"),
        ({"yes": "Yes"}, "a list with at least one token is expected for label 'yes'"),
        ({"yes": [" "]}, "nothing but space"),
    ],
)
def test_label_tokens_that_cannot_tell_labels_apart_are_refused(label_tokens: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        class_confidence_from_logprobs([token(("Yes", -0.1))], label_tokens)


def test_variants_of_one_label_may_be_the_same_token() -> None:
    found = class_confidence_from_logprobs([token(("Yes", -0.5), ("no", -0.9))], {"yes": ["Yes", "yes"], "no": ["No"]})
    assert found["yes"] == pytest.approx(1 / (1 + math.exp(-0.4)))


@pytest.mark.parametrize(
    ("logprobs", "field"),
    [
        ([], "logprobs"),
        ({"content": []}, "logprobs"),
        ("Yes", "logprobs"),
        ([{"token": "Yes", "logprob": -0.1}], r"logprobs\[0\].top_logprobs"),
        ([{"token": "Yes", "logprob": -0.1, "top_logprobs": []}], "ask the server for `top_logprobs=`"),
        ([token(("Yes", -0.1)) | {"token": None}], r"logprobs\[0\].token"),
        ([token(("Yes", math.nan))], r"logprobs\[0\].top_logprobs\[0\].logprob"),
        ([token(("Yes", math.inf))], r"top_logprobs\[0\].logprob"),
        ([{"token": "Yes", "logprob": True, "top_logprobs": [("Yes", -0.1)]}], r"logprobs\[0\].logprob"),
        ([token(("Yes", -math.inf))], "probability above 0"),
    ],
)
def test_what_is_no_list_of_tokens_is_refused_with_its_place(logprobs: Any, field: str) -> None:
    with pytest.raises(InputError, match=field) as caught:
        class_confidence_from_logprobs(logprobs, YES_NO)
    assert "Yes" not in str(caught.value)


def test_it_is_public() -> None:
    assert sy.class_confidence_from_logprobs is class_confidence_from_logprobs
