"""A real llama.cpp server and a model whose probabilities are known: what comes back is what was designed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import steelyard as sy
from steelyard.confidence.first_token import label_masses
from tests.support.known_model import (
    DECLINED,
    EVIDENCE,
    FIRST_TOKENS,
    LABELS,
    answer_of,
    answer_probabilities,
    label_confidences,
    label_probabilities,
    prompt_of,
    tokens_of,
)
from tests.support.llama_server import LlamaServer

pytestmark = pytest.mark.slow

LABEL_TOKENS = {
    label: [token.replace("▁", " ") for token, (meaning, _) in FIRST_TOKENS.items() if meaning == label]
    for label in LABELS
}
INSTRUCTION = "How bad is it? Say Critical, Major, Minor or Trivial, or abstain: Answer: <label>"
REPORTS = (
    *(f"There is a {word} in it." for word in EVIDENCE),
    "crash and typo",
    "slow, slow, slow, but no data loss",
    "The layout is slow: a typo, an error and a crash",
    "a crash, but the report is illegible",
    "Überall ein crash – 壊れた 🙂\n\n\twith <0xE2> and </s> in it",
    "x" * 1500 + " typo",
)
BALANCED = ("", "Everything is fine.", "Critical Major Minor Trivial", "y" * 1500)


@pytest.fixture(scope="module")
def client(known_server: LlamaServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=known_server.url, headers=known_server.headers, trust_env=False, timeout=60) as found:
        yield found


def asked(client: httpx.Client, report: str, **options: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": report}]
    body = {"messages": messages, "max_tokens": 8, "temperature": 0, "logprobs": True, "top_logprobs": 12} | options
    reply = client.post("/chat/completions", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def tokens_said(reply: dict[str, Any]) -> list[dict[str, Any]]:
    return reply["choices"][0]["logprobs"]["content"]


@pytest.mark.parametrize("report", REPORTS)
def test_the_answer_is_the_designed_one(client: httpx.Client, report: str) -> None:
    reply = asked(client, report)
    assert reply["choices"][0]["message"]["content"] == answer_of(INSTRUCTION, report)
    assert reply["usage"]["prompt_tokens"] == len(tokens_of(prompt_of([INSTRUCTION, report])))


@pytest.mark.parametrize("report", [*REPORTS, *BALANCED])
def test_confidences_are_the_designed_ones(client: httpx.Client, report: str) -> None:
    tokens = tokens_said(asked(client, report))
    assert tokens[0]["token"] == "Answer:"
    found = sy.class_confidence_from_logprobs(tokens[1:], LABEL_TOKENS)
    assert found == pytest.approx(label_confidences(INSTRUCTION, report), abs=1e-6)
    masses = label_masses(tokens[1:], LABEL_TOKENS)
    assert masses.outside == pytest.approx(label_probabilities(INSTRUCTION, report)[DECLINED], abs=1e-6)
    listed = {entry["token"]: math.exp(entry["logprob"]) for entry in tokens[1]["top_logprobs"]}
    designed = answer_probabilities(INSTRUCTION, report)
    assert {token: listed[token.replace("▁", " ")] for token in designed} == pytest.approx(designed, abs=1e-6)


@pytest.mark.parametrize("report", BALANCED)
def test_without_evidence_all_labels_are_equally_likely(client: httpx.Client, report: str) -> None:
    found = sy.class_confidence_from_logprobs(tokens_said(asked(client, report))[1:], LABEL_TOKENS)
    assert found == pytest.approx(dict.fromkeys(LABELS, 0.25), abs=1e-6)


@pytest.mark.parametrize("word", [word for word, (meaning, _) in EVIDENCE.items() if meaning != DECLINED])
def test_one_word_of_evidence_has_the_share_that_was_given_to_it(client: httpx.Client, word: str) -> None:
    label, share = EVIDENCE[word]
    found = sy.class_confidence_from_logprobs(tokens_said(asked(client, f"{word} here"))[1:], LABEL_TOKENS)
    assert found == pytest.approx(dict.fromkeys(LABELS, (1 - share) / 3) | {label: share}, abs=1e-6)


@pytest.mark.parametrize("listed", [1, 2, 3])
def test_a_short_list_bounds_the_labels_that_are_not_on_it(client: httpx.Client, listed: int) -> None:
    tokens = tokens_said(asked(client, "a crash", top_logprobs=listed))
    found = label_masses(tokens[1:], LABEL_TOKENS)
    designed = label_probabilities(INSTRUCTION, "a crash")
    assert found.at_most
    assert all(designed[label] <= most + 1e-6 for label, most in found.at_most.items())


def test_a_sampled_token_outside_the_list_is_counted_too(client: httpx.Client) -> None:
    designed = answer_probabilities(INSTRUCTION, "an error")
    everything = {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0}
    said = set()
    for seed in range(40):
        _, first, *_ = tokens_said(asked(client, "an error", seed=seed, top_logprobs=1, **everything))
        token = first["token"].replace(" ", "▁")
        meaning, _ = FIRST_TOKENS[token]
        found = label_masses([first], LABEL_TOKENS | {DECLINED: [DECLINED]})
        assert found.masses[meaning] == pytest.approx(designed[token], abs=1e-6)
        said.add(meaning)
    assert len(said) > 1


def test_the_server_is_closed_to_others(known_server: LlamaServer) -> None:
    assert known_server.url.startswith("http://127.0.0.1:")
    assert httpx.post(f"{known_server.url}/chat/completions", json={}, trust_env=False).status_code == 401
