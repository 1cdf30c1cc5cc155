"""Chat servers: what is sent, what is read, and that no bad answer is ever an exception, an answer or an abstention."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import BackendError, UsageError
from steelyard.ground.http import Limits
from steelyard.runner.backends import Inference, Message, Options, Reply, Request, Token, backends
from steelyard.runner.backends.openai import ASKED_WITHOUT_SCHEMA, NO_CHOICES, NO_TEXT, NOT_A_CHAT, read
from tests.support.model_server import ModelServer, model_server, text_of

SECRET, KEY = "SECRET-PATIENT", "sk-SECRET-KEY"
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}
QUICK = Limits(longest_wait=0.0, deadline=300.0)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    with model_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def request(orders: str = "mode=echo", *, schema: Any = None, repeat: int = 1, **inference: Any) -> Request:
    return Request(
        model="known",
        messages=(
            Message(role="system", content="Be brief."),
            Message(role="user", content=f"[[{orders}]] {SECRET}"),
        ),
        inference=Inference(**inference),
        schema=schema,
        repeat=repeat,
    )


def options(base_url: str, **more: Any) -> Options:
    given: dict[str, Any] = {"limits": QUICK, "api_key_env": "K", "environment": {"K": KEY}, **more}
    return Options(base_url=base_url, **given)


def replies(base_url: str, *requests: Request, **more: Any) -> list[Reply]:
    async def all_of_them() -> list[Reply]:
        async with backends["openai"].open(options(base_url, **more)) as backend:
            return [await backend.ask(each) for each in requests]

    return asyncio.run(all_of_them())


def calls(running: ModelServer, id: str) -> list[dict[str, Any]]:
    return [call for call in running.calls if call["id"] == id]


class Listener:
    """A server that keeps what it is sent."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.headers.append(dict(self.headers.items()))
                outer.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                answer = json.dumps({"choices": [{"message": {"content": "yes"}}]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def listener() -> Iterator[Listener]:
    server = Listener()
    yield server
    server.close()


# -- what is sent --------------------------------------------------------------------------------------------------


def test_only_what_the_spec_says_is_sent(listener: Listener) -> None:
    replies(listener.url, request())
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"[[mode=echo]] {SECRET}"}]
    assert listener.bodies == [{"model": "known", "messages": messages}]
    assert listener.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_every_setting_is_sent(listener: Listener) -> None:
    stated: dict[str, Any] = {
        "temperature": 0.0,
        "seed": 7,
        "max_tokens": 50,
        "top_p": 0.5,
        "min_p": 0.0,
        "top_k": 0,
        "logprobs": True,
        "top_logprobs": 5,
    }
    replies(listener.url, request(schema=SCHEMA, **stated), options={"reasoning_effort": "low"})
    (body,) = listener.bodies
    assert {name: body[name] for name in stated} == stated
    assert body["reasoning_effort"] == "low"
    assert body["response_format"] == {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}


def test_the_format(listener: Listener) -> None:
    replies(listener.url, request(format="json"), request(format="text", schema=SCHEMA), request(top_logprobs=3))
    assert [body.get("response_format") for body in listener.bodies] == [{"type": "json_object"}, None, None]
    assert "top_logprobs" not in listener.bodies[2]


def test_no_key_is_sent_where_none_is_named(listener: Listener) -> None:
    replies(listener.url, request(), api_key_env=None)
    assert "Authorization" not in listener.headers[0]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"environment": {}}, "the environment variable K is not set"),
        ({"api_key_env": KEY}, "does not look like a name"),
        ({"environment": {"K": f"{KEY}\n\x00"}}, "no header can carry"),
        ({"environment": {"K": f"{KEY} é"}}, "no header can carry"),
        ({"environment": {"K": ""}}, "empty"),
        ({"options": {"temperature": 1}}, "inference"),
        ({"options": {"stream": True}}, "inference"),
        ({"options": {"x": object()}}, "sent as JSON"),
        ({"base_url": "nonsense"}, "address"),
        ({"base_url": f"http://u:{KEY}@h/v1"}, "password"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_asked(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        backends["openai"].open(options(**{"base_url": "http://127.0.0.1:9/v1", **more}))
    assert KEY not in str(caught.value)


def test_the_key_is_shown_nowhere() -> None:
    given = options("http://127.0.0.1:9/v1")
    backend = backends["openai"].open(given)
    assert KEY not in repr(given) + repr(backend) + repr(backend.identity())


# -- what is read --------------------------------------------------------------------------------------------------


def test_an_answer_with_all_that_is_in_it(running: ModelServer) -> None:
    (reply,) = replies(running.base_url, request(logprobs=True, top_logprobs=2))
    assert reply.failure == ""
    assert reply.text == text_of(f"Be brief.\n[[mode=echo]] {SECRET}")
    assert 200 <= len(reply.text) <= 2_000
    assert reply.tokens is not None
    assert "".join(token.text for token in reply.tokens) == reply.text
    assert reply.tokens[0].logprob == -0.5
    assert reply.tokens[0].top == (("t0", -0.5), ("t1", -1.5))
    assert (reply.finish, reply.model, reply.retries, reply.cached) == ("stop", "known", 0, False)
    assert reply.input_tokens == 4
    assert reply.output_tokens == len(reply.text.split())
    assert reply.latency_ms is not None
    assert reply.latency_ms > 0


def test_reasoning_is_kept_apart(running: ModelServer) -> None:
    (reply,) = replies(running.base_url, request("mode=thinking"))
    assert reply.reasoning == "Let me think."
    assert reply.text is not None
    assert "think" not in reply.text


def test_a_reply_cut_by_length_is_a_reply(running: ModelServer) -> None:
    (reply,) = replies(running.base_url, request("mode=cut"))
    assert (reply.failure, reply.text, reply.finish) == ("", "It may be th", "length")


@pytest.mark.parametrize(
    ("mode", "failure"),
    [
        ("html", NOT_A_CHAT), ("truncated", NOT_A_CHAT), ("no_choices", NO_CHOICES), ("null", NO_TEXT),
        ("numbers", NOT_A_CHAT), ("status status=400", "status 400 (Bad Request)"),
        ("status status=404", "status 404 (Not Found)"),
        ("flaky times=99", "status 500 (Internal Server Error)"),
    ],
)  # fmt: skip
def test_what_is_no_answer_fails_for_itself_alone(running: ModelServer, mode: str, failure: str) -> None:
    bad, good = replies(running.base_url, request(f"mode={mode}"), request())
    assert bad.failure == failure
    assert bad.text is None
    assert SECRET not in bad.failure
    assert good.failure == ""


COMPLETION: dict[str, Any] = {
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Answer: yes"}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}


def changed(**choice: Any) -> dict[str, Any]:
    return {**COMPLETION, "choices": [{**COMPLETION["choices"][0], **choice}]}


@pytest.mark.parametrize(
    ("document", "failure"),
    [
        ({}, NO_CHOICES),
        ([], NOT_A_CHAT),
        (None, NOT_A_CHAT),
        ("yes", NOT_A_CHAT),
        ({"choices": None}, NO_CHOICES),
        ({"choices": {}}, NOT_A_CHAT),
        ({"choices": [None]}, NOT_A_CHAT),
        ({"choices": [{}]}, NOT_A_CHAT),
        ({"choices": [{"message": None}]}, NOT_A_CHAT),
        ({"choices": [{"message": {"content": ["yes"]}}]}, NOT_A_CHAT),
        ({"choices": [{"message": {}}]}, NO_TEXT),
        ({"error": {"message": SECRET}}, "the server sent an error in place of an answer"),
        (changed(finish_reason=7), NOT_A_CHAT),
        (changed(message={"content": None, "tool_calls": [{}]}), NO_TEXT),
    ],
)
def test_documents_that_are_no_answer(document: Any, failure: str) -> None:
    reply = read(json.dumps(document).encode())
    assert (reply.failure, reply.text) == (failure, None)


def test_bytes_that_are_no_document() -> None:
    for body in (
        b"",
        b"\xff",
        b"null",
        b"[" * 100_000,
        b'{"choices": [',
        b'{"choices": [{"message": {"content": "\xff',
    ):
        assert read(body).failure == NOT_A_CHAT


def test_an_answer_survives_what_stands_around_it() -> None:
    """Numbers and logprobs that cannot be read are not there; what was answered still is."""
    for usage in (None, [], "x", {"prompt_tokens": "3", "completion_tokens": True}, {"prompt_tokens": -1}):
        reply = read(json.dumps({**COMPLETION, "usage": usage}).encode())
        assert (reply.text, reply.input_tokens, reply.output_tokens) == ("Answer: yes", None, None)
    for token in ({"token": 1, "logprob": 0}, {}, {"token": "a", "logprob": None}, {"token": "a", "logprob": 3}):
        reply = read(json.dumps(changed(logprobs={"content": [token]})).encode())
        assert (reply.text, reply.tokens) == ("Answer: yes", None)
    for logprobs in (None, [], {"content": None}):
        reply = read(json.dumps(changed(logprobs=logprobs)).encode())
        assert (reply.text, reply.tokens) == ("Answer: yes", None)
    reply = read(json.dumps(changed(logprobs={"content": [{"token": "a", "logprob": -1}]})).encode())
    assert reply.tokens == (Token(text="a", logprob=-1.0),)


def test_cut_while_thinking_is_a_reply_without_an_answer() -> None:
    said = {"content": None, "reasoning_content": "Well"}
    reply = read(json.dumps(changed(finish_reason="length", message=said)).encode())
    assert (reply.failure, reply.text, reply.reasoning) == ("", "", "Well")


def test_half_a_character_in_a_reply_is_its_escape() -> None:
    logprobs = {"content": [{"token": "a\ud800", "logprob": -1}]}
    reply = read(json.dumps(changed(message={"content": "a\ud800"}, logprobs=logprobs)).encode())
    assert (reply.text, reply.tokens) == ("a\\ud800", (Token(text="a\\ud800", logprob=-1.0),))


def test_a_number_that_is_not_finite_beside_the_reply_is_no_fault() -> None:
    assert read(json.dumps({**changed(message={"content": "a\ud800"}), "load": math.nan}).encode()).text == "a\\ud800"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["choices", "message", "content", "logprobs", "usage", "token", "model"]), inner,
                      max_size=4), max_leaves=20))  # fmt: skip
def test_no_document_is_too_strange(document: Any) -> None:
    reply = read(json.dumps(document).encode())
    assert (reply.text is None) == bool(reply.failure)


# -- structured answers --------------------------------------------------------------------------------------------


def test_a_server_that_refuses_structure_is_asked_without(running: ModelServer) -> None:
    async def three() -> tuple[list[Reply], Any]:
        async with backends["openai"].open(options(running.at("format_refused"))) as backend:
            asked = [await backend.ask(request(f"id=f{place}", schema=SCHEMA)) for place in range(3)]
            return asked, backend.counts()

    asked, counts = asyncio.run(three())
    assert [reply.failure for reply in asked] == [""] * 3
    assert [["response_format" in call["keys"] for call in calls(running, f"f{place}")] for place in range(3)] == [
        [True, False],
        [False],
        [False],
    ]
    assert counts == {ASKED_WITHOUT_SCHEMA: 3}


def test_a_request_that_is_refused_either_way_changes_nothing_for_the_next(running: ModelServer) -> None:
    bad = request("mode=status status=400 id=either", schema=SCHEMA)
    good = request("mode=echo id=good", schema=SCHEMA)
    assert [reply.failure for reply in replies(running.base_url, bad, good, bad)] == [
        "status 400 (Bad Request)",
        "",
        "status 400 (Bad Request)",
    ]
    assert ["response_format" in call["keys"] for call in calls(running, "either")] == [True, False, True]
    assert "response_format" in calls(running, "good")[0]["keys"]


# -- many ----------------------------------------------------------------------------------------------------------


def test_a_refused_key_stops_the_run(running: ModelServer) -> None:
    async def run() -> None:
        async with backends["openai"].open(options(running.at("unauthorized"))) as backend:
            for _ in range(3):
                with pytest.raises(BackendError, match=r"status 401 .*check the API key") as caught:
                    await backend.ask(request("id=stop"))
                assert KEY not in str(caught.value)

    asyncio.run(run())
    assert len(calls(running, "stop")) == 1


def test_sixteen_workers_no_swapped_answers(running: ModelServer) -> None:
    numbers = iter(range(600))
    got: dict[int, Reply] = {}

    async def work(backend: Any) -> None:
        for number in numbers:
            got[number] = await backend.ask(request(f"id=w{number}", logprobs=True))

    async def run() -> None:
        given = options(running.at("mixed"), limits=Limits(in_flight=16, longest_wait=0.0, deadline=300.0))
        async with backends["openai"].open(given) as backend:
            await asyncio.gather(*(work(backend) for _ in range(16)))

    asyncio.run(run())
    assert {number: reply.text for number, reply in got.items()} == {
        number: text_of(f"Be brief.\n[[id=w{number}]] {SECRET}") for number in range(600)
    }
    assert any(reply.retries for reply in got.values())


def test_three_repeats_are_three_calls(running: ModelServer) -> None:
    replies(running.base_url, *(request("id=three", repeat=repeat, temperature=0) for repeat in (1, 2, 3)))
    assert len(calls(running, "three")) == 3


# -- before the first question -------------------------------------------------------------------------------------


def found(base_url: str, model: str = "known", **more: Any) -> list[tuple[str, str]]:
    async def check() -> list[tuple[str, str]]:
        async with backends["openai"].open(options(base_url, **more)) as backend:
            findings = await backend.check(model)
            assert all(KEY not in finding.text for finding in findings)
            return [(finding.about, finding.level) for finding in findings]

    return asyncio.run(check())


def test_a_look_at_a_server(running: ModelServer) -> None:
    assert found(running.base_url) == [("model", "ok"), ("server", "ok"), ("logprobs", "ok")]
    assert found(running.base_url, "other")[0] == ("model", "warning")
    assert found(running.at("no_models")) == [("server", "ok"), ("logprobs", "ok")]
    assert found(running.at("thinking"))[-1] == ("logprobs", "warning")
    assert found(running.at("unauthorized"))[-1] == ("key", "problem")
    assert found(running.at("html"))[-1] == ("server", "problem")
    nobody = Limits(retries=0, longest_wait=0)
    assert found("http://127.0.0.1:9/v1", limits=nobody) == [("server", "problem")]


def test_the_log_of_the_test_server_has_no_texts(running: ModelServer, tmp_path: Path) -> None:
    replies(running.base_url, request())
    assert SECRET not in running.log.read_text()
    assert KEY not in running.log.read_text()
