"""What all backends share: requests that are told apart, replies that come back, options that are refused."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import UsageError
from steelyard.runner.backends import Backend, Inference, Message, Options, Reply, Request, Token, backends
from steelyard.runner.backends.contract import fingerprint, tokens_of

finite = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters())
tokens = st.builds(
    Token, text=texts, logprob=finite, top=st.lists(st.tuples(texts, finite), max_size=3).map(tuple)
)  # fmt: skip
replies = st.builds(
    Reply,
    text=st.none() | texts,
    reasoning=st.none() | texts,
    tokens=st.none() | st.lists(tokens, max_size=3).map(tuple),
    input_tokens=st.none() | st.integers(0, 9),
    output_tokens=st.none() | st.integers(0, 9),
    latency_ms=st.none() | finite,
    finish=st.none() | st.sampled_from(["stop", "length"]),
    model=st.none() | texts,
    failure=st.sampled_from(["", "no text"]),
    retries=st.integers(0, 3),
    cached=st.booleans(),
)


@given(replies)
def test_a_reply_comes_back_from_its_document(reply: Reply) -> None:
    assert Reply.of(json.loads(json.dumps(reply.document()))) == reply


@pytest.mark.parametrize("document", [{"txt": "a"}, {"tokens": [1]}, {"tokens": [["a"]]}, {"tokens": 3}])
def test_documents_that_are_no_reply(document: Any) -> None:
    with pytest.raises(ValueError, match=r"not a reply|unpack"):
        Reply.of(document)


BASE = Request(model="m", messages=(Message(role="user", content="q"),), inference=Inference(temperature=0))


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, model="n"),
        replace(BASE, messages=(Message(role="system", content="q"),)),
        replace(BASE, messages=(Message(role="user", content="q "),)),
        replace(BASE, messages=(*BASE.messages, *BASE.messages)),
        replace(BASE, schema={}),
        replace(BASE, item={"a": 1}),
        replace(BASE, item={"a": "1"}),
        *(
            replace(BASE, inference=replace(BASE.inference, **{field.name: value}))
            for field in fields(Inference)
            for value in [{"logprobs": True, "format": "json", "temperature": 0.5}.get(field.name, 1)]
        ),
    ],
)
def test_whatever_changes_an_answer_changes_the_identity(other: Request) -> None:
    assert fingerprint(other.identity()) != fingerprint(BASE.identity())


def test_what_changes_no_answer_does_not() -> None:
    same = replace(BASE, repeat=2, item_id="x", strategy="s", perturbation="p")
    assert fingerprint(same.identity()) == fingerprint(BASE.identity())
    assert fingerprint({"a": 1, "b": object}) == fingerprint({"b": object, "a": 1})


def test_only_temperature_zero_is_deterministic() -> None:
    assert Inference(temperature=0).is_deterministic
    assert not Inference(temperature=0.1).is_deterministic
    assert not Inference(seed=1).is_deterministic


def test_the_prompt_is_all_that_is_said() -> None:
    said = (Message(role="system", content="a"), Message(role="user", content="b"))
    assert replace(BASE, messages=said).prompt == "a\n\nb"


def test_tokens_as_servers_list_them() -> None:
    assert tokens_of([]) == ()
    assert tokens_of([{"token": "a", "logprob": 0, "top_logprobs": None}]) == (Token(text="a", logprob=0.0),)
    for wrong in (None, "ab", 3, {}, [3], [{"token": "a"}], [{"token": "a", "logprob": True}],
                  [{"token": "a", "logprob": float("-inf")}], [{"token": "a", "logprob": float("nan")}],
                  [{"token": "a", "logprob": -1, "top_logprobs": 3}],
                  [{"token": "a", "logprob": -1, "top_logprobs": [{"token": "b", "logprob": None}]}]):  # fmt: skip
        assert tokens_of(wrong) is None or wrong == {}


def test_every_backend_is_known_and_refuses_what_it_has_no_use_for() -> None:
    assert {"openai", "callable", "replay"} <= set(backends)
    with pytest.raises(UsageError, match="did you mean 'openai'"):
        backends["opnai"]
    for name in ("callable", "replay"):
        for wrong in ({"base_url": "http://x"}, {"api_key_env": "K"}):
            with pytest.raises(UsageError, match="has no use for"):
                backends[name].open(Options(**wrong))


def test_backends_have_what_the_contract_asks_for() -> None:
    asked = [name for name in vars(Backend) if not name.startswith("_") or name in ("__aenter__", "__aexit__")]
    for backend in backends.values():
        assert all(callable(getattr(backend, name)) for name in asked)


def test_the_environment_is_never_shown() -> None:
    given = Options(environment={"K": "sk-SECRET"}, api_key_env="K")
    assert given.api_key() == "sk-SECRET"
    assert "SECRET" not in repr(given)
