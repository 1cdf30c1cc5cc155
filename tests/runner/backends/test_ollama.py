"""Ollama's own protocol, as documented: read as its official client reads it, from a server that speaks it here.

No Ollama runs in these tests. What is sent is compared with what the official client sends, and what is read with what
its types make of the same bytes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ollama
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.errors import UsageError
from steelyard.ground.http import Limits
from steelyard.runner.backends import Finding, Inference, Message, Options, Reply, Request, Token, backends
from steelyard.runner.backends.ollama import Ollama, read
from tests.support.oracles import oracle
from tests.support.wire_server import Call, WireServer, wire_server

SECRET, KEY = "SECRET-PATIENT", "sk-SECRET-KEY"
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}
TIMINGS = oracle("runmetrics")["ollama_timings"]
CHAT: dict[str, Any] = {
    "model": "llama3.2:3b",
    "created_at": "2026-11-02T09:00:00.123456789Z",
    "message": {"role": "assistant", "content": "Answer: yes", "thinking": "Let me see."},
    "done": True,
    "done_reason": "stop",
    "total_duration": 5_000_000_000,
    "load_duration": 1_000_000_000,
    "prompt_eval_count": 160,
    "prompt_eval_duration": 130_000_000,
    "eval_count": 50,
    "eval_duration": 2_000_000_000,
    "logprobs": [
        {
            "token": "Answer",
            "logprob": -0.01,
            "bytes": [65, 110, 115, 119, 101, 114],
            "top_logprobs": [{"token": "Answer", "logprob": -0.01}],
        },
        {"token": ":", "logprob": -0.02},
        {
            "token": " yes",
            "logprob": -0.25,
            "bytes": [32, 121, 101, 115],
            "top_logprobs": [{"token": " yes", "logprob": -0.25}, {"token": " no", "logprob": -1.5}],
        },
    ],
}


def speaking(call: Call) -> tuple[int, Any]:
    """An Ollama server, as far as it is documented: the prompt's first word may say what goes wrong."""
    if call.path == "/api/version":
        return 200, {"version": "0.12.11"}
    if call.path == "/api/tags":
        return 200, {"models": [{"name": "llama3.2:3b", "model": "llama3.2:3b"}, {"name": "small:latest"}]}
    if call.path != "/api/chat":
        return 404, {"error": "not found"}
    words = call.body["messages"][-1]["content"].split()
    if call.body["model"] == "missing":
        return 404, {"error": f"model not found {SECRET}"}
    if words[0] == "old" and isinstance(call.body.get("format"), dict):
        return 400, {"error": f"json: cannot unmarshal object {SECRET}"}
    answer = {name: value for name, value in CHAT.items() if name != "logprobs" or call.body.get("logprobs")}
    return 200, {**answer, "model": call.body["model"]}


@pytest.fixture(scope="module")
def serving() -> Iterator[WireServer]:
    with wire_server(speaking) as server:
        yield server


@pytest.fixture
def server(serving: WireServer) -> WireServer:
    serving.calls.clear()
    return serving


def request(text: str = SECRET, *, model: str = "llama3.2:3b", schema: Any = None, **inference: Any) -> Request:
    messages = (Message(role="system", content="Be brief."), Message(role="user", content=text))
    return Request(model=model, messages=messages, inference=Inference(**inference), schema=schema)


def options(base_url: str, **more: Any) -> Options:
    return Options(**{"base_url": base_url, "limits": Limits(longest_wait=0.0, retries=1), **more})


def replies(base_url: str, *requests: Request, **more: Any) -> tuple[list[Reply], dict[str, int]]:
    async def all_of_them() -> tuple[list[Reply], dict[str, int]]:
        async with backends["ollama"].open(options(base_url, **more)) as backend:
            return [await backend.ask(each) for each in requests], dict(backend.counts())

    return asyncio.run(all_of_them())


# -- what is sent --------------------------------------------------------------------------------------------------


def test_what_is_sent_is_what_the_official_client_sends(server: WireServer) -> None:
    stated = {"temperature": 0.0, "seed": 7, "max_tokens": 50, "top_p": 0.5, "min_p": 0.1, "top_k": 40}
    asked = request(schema=SCHEMA, logprobs=True, top_logprobs=5, **stated)
    replies(server.url, asked, options={"num_ctx": 8192, "think": True, "keep_alive": "5m"})
    parameters = {name if name != "max_tokens" else "num_predict": value for name, value in stated.items()}
    ollama.Client(server.url, trust_env=False).chat(
        model=asked.model,
        messages=[{"role": message.role, "content": message.content} for message in asked.messages],
        options={"num_ctx": 8192, **parameters},
        format=SCHEMA,
        think=True,
        keep_alive="5m",
        logprobs=True,
        top_logprobs=5,
    )
    ours, theirs = server.posted
    assert {name: value for name, value in theirs.items() if value != []} == ours
    assert ours["options"] == {"num_ctx": 8192, **parameters}


def test_only_what_the_spec_says_is_sent(server: WireServer) -> None:
    replies(server.url, request())
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": SECRET}]
    assert server.posted == [{"model": "llama3.2:3b", "messages": messages, "stream": False}]
    assert "authorization" not in server.calls[0].headers


def test_the_format_and_the_key(server: WireServer) -> None:
    asked = (request(format="json"), request(format="text", schema=SCHEMA))
    replies(server.url, *asked, api_key_env="K", environment={"K": KEY})
    assert [body.get("format") for body in server.posted] == ["json", None]
    assert server.calls[0].headers["authorization"] == f"Bearer {KEY}"


def test_an_old_server_is_asked_without_a_schema(server: WireServer) -> None:
    found, counts = replies(server.url, request("old 1", schema=SCHEMA), request("old 2", schema=SCHEMA))
    assert [reply.failure for reply in found] == ["", ""]
    assert ["format" in body for body in server.posted] == [True, False, False]
    assert counts == {"asked without format, which the server refused": 2}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"options": {"temperature": 1}}, "inference"),
        ({"options": {"num_predict": 1}}, "inference"),
        ({"base_url": "http://127.0.0.1:11434/v1"}, "address alone"),
        ({"inference": Inference(logprobs=True, top_logprobs=21)}, "20 alternatives"),
        ({"api_key_env": "K", "environment": {}}, "K is not set"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_asked(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Ollama.open(options(**{"base_url": "http://127.0.0.1:9", **more}))


# -- what is read --------------------------------------------------------------------------------------------------


def test_an_answer_is_read_as_the_official_client_reads_it(server: WireServer) -> None:
    (reply,), _ = replies(server.url, request(logprobs=True, top_logprobs=2))
    theirs = ollama.ChatResponse.model_validate(CHAT)
    assert reply.text == theirs.message.content == "Answer: yes"
    assert reply.reasoning == theirs.message.thinking
    assert (reply.input_tokens, reply.output_tokens) == (theirs.prompt_eval_count, theirs.eval_count)
    assert (reply.finish, reply.model) == (theirs.done_reason, theirs.model)
    assert theirs.logprobs is not None
    assert reply.tokens == tuple(
        Token(text=each.token, logprob=each.logprob, top=tuple((t.token, t.logprob) for t in each.top_logprobs or ()))
        for each in theirs.logprobs
    )
    assert reply.signals == sy.parse_ollama_timings(theirs)
    assert reply.latency_ms is not None


@pytest.mark.parametrize("case", TIMINGS, ids=range(len(TIMINGS)))
def test_timings(case: dict[str, Any]) -> None:
    assert sy.parse_ollama_timings(case["raw"]) == pytest.approx(case["out"])
    theirs = ollama.ChatResponse.model_validate({**CHAT, **case["raw"]})
    assert sy.parse_ollama_timings(theirs) == pytest.approx(case["out"])
    assert read(json.dumps({**CHAT, **case["raw"]}).encode()).signals == pytest.approx(case["out"])


@pytest.mark.parametrize("nothing", [None, "5", True, -1, float("nan")])
def test_what_is_no_time_is_none(nothing: Any) -> None:
    raw = {"total_duration": nothing, "eval_duration": nothing, "eval_count": nothing, "load_duration": nothing}
    assert set(sy.parse_ollama_timings(raw).values()) == {None}
    assert sy.parse_ollama_timings({"eval_count": 5, "eval_duration": 0})["tokens_per_sec"] is None
    assert sy.parse_ollama_timings({})["total_ms"] is None


@pytest.mark.parametrize(
    ("document", "failure"),
    [
        ({}, "the answer is not the JSON of a chat completion"),
        ([], "the answer is not the JSON of a chat completion"),
        ({"error": SECRET}, "the server sent an error in place of an answer"),
        ({"message": {"role": "assistant"}, "done": True}, "the reply has no text"),
        ({**CHAT, "done": False}, "the answer is a part of one"),
        ({**CHAT, "message": {"content": 7}}, "the answer is not the JSON of a chat completion"),
    ],
)
def test_documents_that_are_no_answer(document: Any, failure: str) -> None:
    reply = read(json.dumps(document).encode())
    assert (reply.failure, reply.text) == (failure, None)


def test_a_stream_is_no_answer() -> None:
    parts = b"".join(json.dumps({**CHAT, "done": done}).encode() + b"\n" for done in (False, True))
    assert read(parts).failure == "the answer is not the JSON of a chat completion"


def test_cut_while_thinking_is_a_reply_without_an_answer() -> None:
    cut = {**CHAT, "done_reason": "length", "message": {"role": "assistant", "content": "", "thinking": "Well"}}
    reply = read(json.dumps(cut).encode())
    assert (reply.failure, reply.text, reply.reasoning, reply.finish) == ("", "", "Well", "length")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["message", "content", "logprobs", "done", "token", "eval_count"]), inner,
                      max_size=4), max_leaves=20))  # fmt: skip
def test_no_document_is_too_strange(document: Any) -> None:
    reply = read(json.dumps(document).encode())
    assert (reply.text is None) == bool(reply.failure)


def test_a_model_that_is_not_there_fails_alone(server: WireServer) -> None:
    (bad, good), _ = replies(server.url, request(model="missing"), request())
    assert bad.failure == "status 404 (Not Found)"
    assert good.failure == ""


# -- before the first question -------------------------------------------------------------------------------------


def look(base_url: str, model: str) -> tuple[Finding, ...]:
    async def checked() -> tuple[Finding, ...]:
        async with backends["ollama"].open(options(base_url)) as backend:
            return await backend.check(model)

    return asyncio.run(checked())


def test_a_look_at_a_server(server: WireServer) -> None:
    levels = [(finding.about, finding.level) for finding in look(server.url, "small")]
    assert levels == [("model", "ok"), ("server", "ok"), ("logprobs", "ok")]
    (missing,) = look(server.url, "llama3.2")
    assert (missing.about, missing.level) == ("model", "problem")
    assert "ollama pull llama3.2" in missing.text


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.12.10", ["warning"]), ("0.9.6", ["warning"]), ("0.12.11-rc1", ["ok"]), ("1.0.0", ["ok"]), ("0.0.0", ["ok"])],
)
def test_a_version_that_is_too_old_for_logprobs(version: str, expected: list[str]) -> None:
    def older(call: Call) -> tuple[int, Any]:
        return (200, {"version": version}) if call.path == "/api/version" else speaking(call)

    with wire_server(older) as server:
        found = look(server.url, "small")
    assert [finding.level for finding in found if finding.about == "logprobs"] == expected


def test_what_is_no_ollama() -> None:
    with wire_server(lambda call: (200, b"<html>")) as server:
        (finding,) = look(server.url, "small")
    assert (finding.about, finding.level) == ("server", "problem")
    with wire_server(lambda call: (401, {})) as server:
        (finding,) = look(server.url, "small")
    assert (finding.about, finding.level) == ("key", "problem")
    (finding,) = look("http://127.0.0.1:9", "small")
    assert (finding.about, finding.level) == ("server", "problem")


# -- a whole run ---------------------------------------------------------------------------------------------------


def test_timings_are_signals_of_a_run(server: WireServer, tmp_path: Path) -> None:
    """What Ollama says of its time is in the records, and can be asked for; a reply from the cache took none."""
    spec = {
        "id": "timed",
        "task": "ckd_detection",
        "sample_size": 15,
        "models": [{"name": "llama3.2:3b", "backend": "ollama", "base_url": server.url}],
        "metrics": ["mean(signal.total_ms)", "mean(signal.tokens_per_sec)", "input_tokens"],
    }
    run = sy.run(spec, root=tmp_path, environment={})
    frame = run.records.to_pandas()
    for name, value in sy.parse_ollama_timings(CHAT).items():
        assert set(frame[f"signal.{name}"]) == {value}
    assert run.evaluation["mean(signal.total_ms)"].value == 5000
    assert run.evaluation["mean(signal.tokens_per_sec)"].value == 25
    assert run.evaluation["input_tokens"].value == 160
    again = sy.run({**spec, "metrics": ["parse_failure_rate"]}, root=tmp_path, environment={}).records
    assert "signal.total_ms" not in again.stated
    assert again.to_pandas().cached.all()
