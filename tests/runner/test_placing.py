"""From a reply's text to the tokens that spell its answer, and to signals; on a real server too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.confidence.token_text import bytes_of_text, text_of_bytes, token_text
from steelyard.runner.parsing import parse
from steelyard.runner.placing import signals_of, value_tokens
from steelyard.runner.tasks import tasks
from tests.support.known_model import DECLINED, EVIDENCE, LABELS, label_confidences, label_probabilities
from tests.support.llama_server import LlamaServer

SIGNALS = {"token_msp", "token_pe", "token_energy", "label_outside", "label_confidence"}


@dataclass(frozen=True, kw_only=True)
class Token:
    text: str
    logprob: float = -0.1
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Reply:
    text: str | None
    tokens: tuple[Token, ...] | None
    reasoning: str | None = None


@dataclass(frozen=True, kw_only=True)
class Parsed:
    prediction: str | int | None
    value_at: tuple[int, int] | None


def spelled(*texts: str) -> tuple[Token, ...]:
    return tuple(Token(text=text, top=((text, -0.1),)) for text in texts)


def said(*places: dict[str, float]) -> tuple[Token, ...]:
    """Tokens by the probabilities at their places; the first of each is what was said."""
    return tuple(
        Token(
            text=next(iter(place)),
            logprob=math.log(next(iter(place.values()))),
            top=tuple((text, math.log(p)) for text, p in place.items()),
        )
        for place in places
    )


def at(text: str, value: str) -> tuple[int, int]:
    return text.rindex(value), text.rindex(value) + len(value)


def texts(tokens: Any) -> list[str]:
    return [token.text for token in tokens]


# -- where the value is ------------------------------------------------------------------------------------------------

words = st.text('ab é€😀\n"{}:*', max_size=12)


@given(words, st.text("abé€😀", min_size=1, max_size=6), words, st.text(" \n", max_size=3), st.booleans(), st.data())
def test_the_tokens_spell_the_value_however_the_reply_is_cut_into_them(
    before: str, value: str, after: str, blanks: str, thinking: bool, data: st.DataObject
) -> None:
    whole = blanks + before + value + after
    text = whole.strip() if data.draw(st.booleans()) else whole
    thoughts = data.draw(words) + "</think>" if thinking else ""
    first = whole.index(value, len(blanks + before)) - (len(whole) - len(whole.lstrip()) if text != whole else 0)
    written = whole.encode()
    cuts = sorted(data.draw(st.sets(st.integers(1, len(written) - 1)))) if len(written) > 1 else []
    pieces = [written[a:b] for a, b in zip([0, *cuts], [*cuts, len(written)], strict=True)]
    tokens = spelled(*([thoughts] if thoughts else []), *map(text_of_bytes, pieces), "", "<|end|>")
    found = value_tokens(text, tokens, (first, first + len(value)), after_reasoning=thinking)
    assert found is not None
    spelling, following = found
    shown = b"".join(bytes_of_text(token.text) for token in spelling)
    assert shown.startswith(value.encode())
    assert len(shown) - len(bytes_of_text(spelling[-1].text)) < len(value.encode())
    rest = shown + b"".join(bytes_of_text(token.text) for token in following)
    assert rest.startswith((value + after).encode())


@pytest.mark.parametrize(
    ("text", "tokens", "value", "found"),
    [
        ("Critical", ["Critical", "</s>"], "Critical", ["Critical"]),
        ("Answer: Critical", ["Answer", ":", " Crit", "ical", ""], "Critical", ["Crit", "ical"]),
        ('{"answer": "Critical"}', ['{"', "answer", '":', ' "', "Critical", '"}'], "Critical", ["Critical"]),
        ('{"answer": "Critical"}', ['{"answer":', ' "Crit', 'ical"}'], "Critical", ["Crit", 'ical"}']),
        ('{"answer": "Critical"}', ['{"', "answer", '":', ' "', "Critical", '"}'], '"Critical"', ["Critical", '"}']),
        ('{"answer":3}', ['{"answer', '":', "3", "}"], "3", ["3"]),
        ("**Critical**", ["**", "Critical", "**"], "Critical", ["Critical"]),
        ("(A)", ["(A", ")"], "A", ["A"]),
        ("–€ A", ["<0xE2>", "<0x80>", "<0x93>", "€ ", "A"], "A", ["A"]),
        ("Critical", ["\n\n", " Critical", "\n"], "Critical", ["Critical"]),
        ("\n Critical", ["\n Crit", "ical"], "Critical", ["Crit", "ical"]),
        ("A \n", ["A", " "], "A \n", ["A"]),
    ],
)
def test_places(text: str, tokens: list[str], value: str, found: list[str]) -> None:
    placed = value_tokens(text, spelled(*tokens), at(text, value))
    assert placed is not None
    assert texts(placed[0]) == found
    assert texts(placed[1]) == tokens[len(tokens) - len(placed[1]) :]


def test_after_reasoning_the_last_place_is_the_answer() -> None:
    tokens = spelled("Critical", "?", " No", ".", "</think>", "\n", "Critical", "<|end|>")
    placed = value_tokens("Critical", tokens, (0, 8), after_reasoning=True)
    assert placed is not None
    assert texts(placed[1]) == ["<|end|>"]


def test_a_reply_that_was_cut_at_a_stop_word_is_at_the_beginning() -> None:
    placed = value_tokens("A", spelled("A", "\n\n", "A"), (0, 1))
    assert placed is not None
    assert texts(placed[1]) == ["\n\n", "A"]


def test_a_text_is_not_found_in_the_middle_of_a_token() -> None:
    assert value_tokens("s", spelled("x", "</s>"), (0, 1)) is None


@pytest.mark.parametrize(
    ("text", "tokens", "value_at"),
    [
        ("Critical", ["Minor"], (0, 8)),
        ("Critical", ["Crit"], (0, 8)),
        ("", [""], (0, 0)),
        ("  ", [" ", " "], (0, 1)),
        ("A", ["A"], (0, 0)),
        ('"" A', ['""', " A"], (0, 2)),
    ],
)
def test_what_cannot_be_placed_is_nowhere(text: str, tokens: list[str], value_at: tuple[int, int]) -> None:
    assert value_tokens(text, spelled(*tokens), value_at) is None


# -- what is taken from there ------------------------------------------------------------------------------------------

ANSWER = said(
    {"Answer": 0.9, "The": 0.1}, {":": 1.0}, {" Ma": 0.6, " Minor": 0.3, " I": 0.1}, {"jor": 0.5, "ny": 0.5}, {"": 1.0}
)
REPLY = Reply(text="Answer: Major", tokens=ANSWER)
PARSED = Parsed(prediction="Major", value_at=(8, 13))


def test_signals_are_those_of_the_value() -> None:
    found = signals_of(REPLY, PARSED, ["Major", "Minor"])
    assert found.missing == ""
    assert found.values["token_msp"] == pytest.approx((0.6 + 0.5) / 2)
    entropies = [-sum(p * math.log(p) for p in place) for place in ((0.6, 0.3, 0.1), (0.5, 0.5))]
    assert found.values["token_pe"] == pytest.approx(sum(entropies) / 2)
    assert found.values["token_energy"] == pytest.approx(0)
    assert found.confidence == found.values["label_confidence"] == found.values["label.Major"]
    assert found.confidence == pytest.approx(2 / 3)
    assert found.values["label_outside"] == pytest.approx(0.1)
    assert found.values.keys() == SIGNALS | {"label.Major", "label.Minor"}


def test_tokens_that_are_named_for_labels_come_first() -> None:
    found = signals_of(REPLY, PARSED, ["Major", "Minor"], label_tokens={"Major": ["ma", "I"], "Minor": ["Minor"]})
    assert found.confidence == pytest.approx(0.7)
    assert found.values["label_outside"] == pytest.approx(0, abs=1e-12)


def test_numbers_have_signals_of_tokens_only() -> None:
    reply = Reply(
        text="-12.5", tokens=said({"-": 0.9, "1": 0.1}, {"12": 0.5, "13": 0.5}, {".": 1.0}, {"5": 0.8, "0": 0.2})
    )
    found = signals_of(reply, Parsed(prediction=-12, value_at=(0, 5)), None)
    assert found.missing == ""
    assert found.values.keys() == {"token_msp", "token_pe", "token_energy"}
    assert found.values["token_msp"] == pytest.approx((0.9 + 0.5 + 1 + 0.8) / 4)
    assert found.confidence is None


def test_labels_that_are_numbers() -> None:
    text = '{"answer": 10, "abstain": false}'
    reply = Reply(
        text=text,
        tokens=said(
            {'{"answer":': 1.0}, {" ": 1.0}, {"1": 0.8, "2": 0.2}, {"0": 0.5, ",": 0.5}, {', "abstain": false}': 1.0}
        ),
    )
    found = signals_of(reply, Parsed(prediction=10, value_at=at(text, "10")), [1, 2, 10])
    assert {label: found.values[f"label.{label}"] for label in (1, 2, 10)} == pytest.approx({1: 0.4, 2: 0.2, 10: 0.4})
    assert found.confidence == pytest.approx(0.4)


def test_a_declined_answer_has_no_confidence_and_the_mass_outside_says_why() -> None:
    reply = Reply(text="abstain", tokens=said({"abstain": 0.7, "yes": 0.2, "no": 0.1}))
    found = signals_of(reply, Parsed(prediction=None, value_at=(0, 7)), ["yes", "no"])
    assert found.confidence is None
    assert found.missing == ""
    assert found.values["label_outside"] == pytest.approx(0.7)


def test_labels_that_are_not_listed_are_bounded() -> None:
    found = signals_of(
        Reply(text="yes", tokens=said({"yes": 0.7, "ja": 0.1})),
        Parsed(prediction="yes", value_at=(0, 3)),
        ["yes", "no"],
    )
    assert found.values["label_at_most.no"] == pytest.approx(0.2)
    assert found.values["label.no"] == 0


SPELLED = [
    ("ckd_staging", "Answer: Stage 3", ["Answer:", " Stage", " 3"], 3),
    ("ckd_staging", "Answer: G3a", ["Answer", ":", " G", "3", "a"], 3),
    ("ckd_staging", '{"answer": "G3b"}', ['{"answer":', ' "', "G", "3b", '"}'], 3),
    ("ckd_staging", "stage iv", ["stage", " iv"], 4),
    ("ckd_detection", '{"answer": "non-ckd"}', ['{"answer": "', "non", "-ckd", '"}'], "notckd"),
    ("ckd_detection", "Answer: Not CKD", ["Answer: ", "Not", " CKD"], "notckd"),
]


@pytest.mark.parametrize(("name", "text", "tokens", "label"), SPELLED)
def test_an_answer_in_a_spelling_of_the_task_is_as_sure_as_its_tokens(
    name: str, text: str, tokens: list[str], label: str | int
) -> None:
    task = tasks[name]
    parsed = parse(text, task)
    assert parsed.prediction == label
    places = said(*({token: 0.9, "ckd" if name == "ckd_detection" else "1": 0.1} for token in tokens))
    found = signals_of(Reply(text=text, tokens=places), parsed, task.labels, task.spellings)
    assert found.missing == ""
    assert found.confidence is not None
    assert found.confidence > 0.75


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ('{"answer": "\\u0063kd"}', [{'{"answer": "': 1.0}, {"\\": 0.6, "notckd": 0.4}, {'u0063kd"}': 1.0}]),
        ('{"answer": "\\u0063kd"}', [{'{"answer": "': 1.0}, {"\\": 0.6, "ckd": 0.4}, {'u0063kd"}': 1.0}]),
    ],
)
def test_a_label_that_no_token_spells_has_no_confidence_and_a_reason(text: str, tokens: list[dict[str, float]]) -> None:
    task = tasks["ckd_detection"]
    parsed = parse(text, task)
    assert parsed.prediction == "ckd"
    found = signals_of(Reply(text=text, tokens=said(*tokens)), parsed, task.labels, task.spellings)
    assert found.confidence is None
    assert found.missing == "the tokens do not spell the label"


@pytest.mark.parametrize(
    ("reply", "value_at", "missing", "kept"),
    [
        (Reply(text="yes", tokens=None), (0, 3), "the server gave no logprobs", set()),
        (Reply(text="yes", tokens=()), (0, 3), "the server gave no logprobs", set()),
        (Reply(text="yes", tokens=spelled("yes")), None, "there is no answer", set()),
        (Reply(text=None, tokens=spelled("yes")), (0, 3), "there is no answer", set()),
        (Reply(text="yes", tokens=spelled("ja")), (0, 3), "the answer was not found among the tokens", set()),
        (Reply(text="yes", tokens=(Token(text="yes"),)), (0, 3), "the server listed no alternatives", {"token_msp"}),
        (
            Reply(text="ja", tokens=spelled("ja")),
            (0, 2),
            "no label is among the alternatives",
            {"token_msp", "token_pe", "token_energy", "label_outside", "label_at_most.yes", "label_at_most.no"},
        ),
    ],
)
def test_what_is_missing_has_a_reason(reply: Reply, value_at: Any, missing: str, kept: set[str]) -> None:
    found = signals_of(reply, Parsed(prediction="yes", value_at=value_at), ["yes", "no"])
    assert found.missing == missing
    assert found.values.keys() == kept
    assert found.confidence is None


# -- a real server -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("report", [*EVIDENCE, "crash and typo", "slow, slow, data loss", "illegible crash", "fine"])
def test_a_real_reply_has_the_designed_confidences(known_server: LlamaServer, report: str) -> None:
    body = {
        "messages": [{"role": "user", "content": f"{report}: Critical, Major, Minor or Trivial? Answer: …"}],
        "logprobs": True,
        "top_logprobs": 12,
        "temperature": 0,
        "max_tokens": 8,
    }
    wire = httpx.post(
        f"{known_server.url}/chat/completions", json=body, headers=known_server.headers, trust_env=False, timeout=60
    ).json()
    choice = wire["choices"][0]
    tokens = tuple(
        Token(
            text=token_text(entry) or "",
            logprob=entry["logprob"],
            top=tuple((token_text(other) or "", other["logprob"]) for other in entry["top_logprobs"]),
        )
        for entry in choice["logprobs"]["content"]
    )
    text = choice["message"]["content"]
    label = text.removeprefix("Answer: ")
    prompt = body["messages"][0]["content"]
    found = signals_of(
        Reply(text=text, tokens=tokens),
        Parsed(prediction=None if label == DECLINED else label, value_at=at(text, label)),
        LABELS,
    )
    assert found.missing == ""
    designed = label_confidences(prompt)
    assert {name: found.values[f"label.{name}"] for name in LABELS} == pytest.approx(designed, abs=1e-6)
    assert found.values["label_outside"] == pytest.approx(label_probabilities(prompt)[DECLINED], abs=1e-6)
    assert found.confidence == (None if label == DECLINED else pytest.approx(designed[label], abs=1e-6))
