"""Anthropic's messages protocol, as documented: what is sent, what is read, what is refused beforehand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.errors import BackendError, UsageError
from steelyard.ground.http import Limits
from steelyard.runner.backends import Finding, Inference, Message, Options, Reply, Request, backends
from steelyard.runner.backends.anthropic import VERSION, read
from tests.support.wire_server import Call, WireServer, wire_server

SECRET, KEY = "SECRET-PATIENT", "sk-SECRET-KEY"
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}
MESSAGE: dict[str, Any] = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "model": "known",
    "content": [
        {"type": "thinking", "thinking": "Let me see.", "signature": "x"},
        {"type": "text", "text": "Answer: "},
        {"type": "text", "text": "yes", "citations": None},
    ],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 5},
}


def speaking(call: Call) -> tuple[int, Any]:
    """A server that speaks the protocol: the model's name may say what goes wrong."""
    if call.method == "GET":
        return (200, {"type": "model", "id": "known"}) if call.path == "/v1/models/known" else (404, {"type": "error"})
    if call.headers.get("x-api-key") == "wrong":
        return 401, {"type": "error", "error": {"type": "authentication_error", "message": SECRET}}
    model = call.body["model"]
    if model == "old" and "output_config" in call.body:
        return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": SECRET}}
    return 200, {**MESSAGE, "model": model}


@pytest.fixture(scope="module")
def serving() -> Iterator[WireServer]:
    with wire_server(speaking) as server:
        yield server


@pytest.fixture
def server(serving: WireServer) -> WireServer:
    serving.calls.clear()
    return serving


def request(model: str = "known", *, schema: Any = None, **inference: Any) -> Request:
    messages = (
        Message(role="system", content="Be brief."),
        Message(role="user", content="An example."),
        Message(role="assistant", content="Answer: no"),
        Message(role="user", content=SECRET),
    )
    return Request(
        model=model, messages=messages, inference=Inference(**{"max_tokens": 50, **inference}), schema=schema
    )


def options(base_url: str, **more: Any) -> Options:
    given = {"api_key_env": "K", "environment": {"K": KEY}, "inference": Inference(max_tokens=50), **more}
    return Options(base_url=base_url, limits=Limits(longest_wait=0.0), **given)


def replies(server: WireServer, *requests: Request, **more: Any) -> tuple[list[Reply], dict[str, int]]:
    async def all_of_them() -> tuple[list[Reply], dict[str, int]]:
        async with backends["anthropic"].open(options(f"{server.url}/v1", **more)) as backend:
            return [await backend.ask(each) for each in requests], dict(backend.counts())

    return asyncio.run(all_of_them())


# -- what is sent --------------------------------------------------------------------------------------------------


def test_the_system_message_stands_apart(server: WireServer) -> None:
    replies(server, request(temperature=0.5, top_p=0.9, top_k=40), options={"metadata": {"user_id": "u"}})
    (call,) = server.calls
    assert call.path == "/v1/messages"
    assert call.body == {
        "model": "known",
        "max_tokens": 50,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "An example."},
            {"role": "assistant", "content": "Answer: no"},
            {"role": "user", "content": SECRET},
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "metadata": {"user_id": "u"},
    }
    assert (call.headers["x-api-key"], call.headers["anthropic-version"]) == (KEY, VERSION)
    assert "authorization" not in call.headers


def test_structured_answers_are_asked_for_and_left_where_they_are_refused(server: WireServer) -> None:
    (_, _), counts = replies(server, request("old", schema=SCHEMA), request("old", schema=SCHEMA))
    assert ["output_config" in body for body in server.posted] == [True, False, False]
    assert counts == {"asked without output_config, which the server refused": 2}
    server.calls.clear()
    replies(server, request(schema=SCHEMA), request(schema=SCHEMA, format="text"), request(format="json"))
    structured = {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert [body.get("output_config") for body in server.posted] == [structured, None, None]


def test_what_the_protocol_does_not_have_is_not_sent_but_counted(server: WireServer) -> None:
    _, counts = replies(server, request(seed=1, min_p=0.1, logprobs=True), request(seed=2))
    assert not {"seed", "min_p", "logprobs"} & {name for body in server.posted for name in body}
    ending = "which the protocol does not have"
    assert counts == {f"asked without {name}, {ending}": n for name, n in (("seed", 2), ("min_p", 1), ("logprobs", 1))}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"needs_logprobs": True}, "no log-probabilities"),
        ({"inference": Inference()}, "max_tokens"),
        ({"inference": Inference(max_tokens=5, temperature=1.5)}, "from 0 to 1"),
        ({"options": {"max_tokens": 5}}, "inference"),
        ({"options": {"system": "x"}}, "inference"),
        ({"environment": {}}, "K is not set"),
        ({"environment": {"K": f"{KEY}\n\x00"}}, "no header can carry"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_asked(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        backends["anthropic"].open(options("http://127.0.0.1:9/v1", **more))
    assert KEY not in str(caught.value)


def test_a_confidence_from_logprobs_is_refused_before_the_first_question(server: WireServer, tmp_path: Path) -> None:
    model = {"name": "known", "backend": "anthropic", "base_url": f"{server.url}/v1"}
    spec = {
        "id": "x", "task": "ckd_detection", "sample_size": 3, "models": [model],
        "inference": {"logprobs": True}, "confidence": "logprobs",
    }  # fmt: skip
    with pytest.raises(UsageError, match="no log-probabilities"):
        sy.run(spec, root=tmp_path, environment={})
    assert server.calls == []
    run = sy.run({**spec, "confidence": "reported"}, root=tmp_path, environment={})
    assert len(server.posted) == len(run.records) == 3


# -- what is read --------------------------------------------------------------------------------------------------


def test_an_answer_with_all_that_is_in_it(server: WireServer) -> None:
    (reply,), _ = replies(server, request())
    assert (reply.text, reply.reasoning, reply.failure) == ("Answer: yes", "Let me see.", "")
    assert (reply.input_tokens, reply.output_tokens) == (15, 5)
    assert (reply.finish, reply.model, reply.tokens) == ("stop", "known", None)
    assert reply.latency_ms is not None


@pytest.mark.parametrize(
    ("stated", "finish"),
    [
        ("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("refusal", "content_filter"),
        ("tool_use", "tool_calls"), ("pause_turn", "pause_turn"), (None, None),
    ],
)  # fmt: skip
def test_why_it_ended(stated: str | None, finish: str | None) -> None:
    assert read(json.dumps({**MESSAGE, "stop_reason": stated}).encode()).finish == finish


@pytest.mark.parametrize(
    ("changes", "text", "failure"),
    [
        ({"content": [], "stop_reason": "max_tokens"}, "", ""),
        ({"content": [], "stop_reason": "refusal"}, "", ""),
        ({"content": []}, None, "the reply has no text"),
        ({"content": [{"type": "tool_use", "id": "t", "input": {}}]}, None, "the reply has no text"),
        ({"content": None}, None, "the answer is not the JSON of a chat completion"),
        ({"content": "yes"}, None, "the answer is not the JSON of a chat completion"),
        ({"content": [{"type": "text", "text": 7}]}, None, "the answer is not the JSON of a chat completion"),
        ({"type": "error", "content": None}, None, "the server sent an error in place of an answer"),
        ({"usage": None}, "Answer: yes", ""),
        ({"usage": {"input_tokens": "3"}}, "Answer: yes", ""),
    ],
)
def test_documents(changes: dict[str, Any], text: str | None, failure: str) -> None:
    reply = read(json.dumps({**MESSAGE, **changes}).encode())
    assert (reply.text, reply.failure) == (text, failure)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["content", "type", "text", "usage", "stop_reason", "error"]), inner,
                      max_size=4), max_leaves=20))  # fmt: skip
def test_no_document_is_too_strange(document: Any) -> None:
    reply = read(json.dumps(document).encode())
    assert (reply.text is None) == bool(reply.failure)


def test_an_overloaded_server_is_asked_again() -> None:
    def overloaded(call: Call) -> tuple[int, Any]:
        if len(seen.calls) < 3:
            return 529, {"type": "error", "error": {"type": "overloaded_error", "message": SECRET}}
        return speaking(call)

    with wire_server(overloaded) as seen:
        (reply,), _ = replies(seen, request())
    assert (reply.failure, reply.retries) == ("", 2)


def test_a_refused_key_stops_the_run(server: WireServer) -> None:
    with pytest.raises(BackendError, match="check the API key") as caught:
        replies(server, request(), request(), environment={"K": "wrong"})
    assert len(server.calls) == 1
    assert SECRET not in str(caught.value)


# -- before the first question -------------------------------------------------------------------------------------


def look(base_url: str, model: str, **more: Any) -> list[tuple[str, str]]:
    async def checked() -> tuple[Finding, ...]:
        async with backends["anthropic"].open(options(base_url, **more)) as backend:
            return await backend.check(model)

    return [(finding.about, finding.level) for finding in asyncio.run(checked())]


def test_a_look_at_a_server(server: WireServer) -> None:
    url = f"{server.url}/v1"
    assert look(url, "known") == [("model", "ok"), ("server", "ok"), ("logprobs", "warning")]
    assert look(url, "an/other") == [("model", "warning"), ("server", "ok"), ("logprobs", "warning")]
    assert server.calls[-2].path == "/v1/models/an%2Fother"
    assert look(url, "known", environment={"K": "wrong"})[-1] == ("key", "problem")


def test_an_option_that_the_spec_decides_is_refused_by_the_backends_name() -> None:
    with pytest.raises(UsageError, match="the option 'system' of the backend 'anthropic' is for the spec's inference"):
        backends["anthropic"].open(Options(options={"system": "you are"}))
