"""Any server that speaks OpenAI's chat protocol: OpenAI, OpenRouter, vLLM, llama.cpp, LM Studio and others.

    models:
      - {name: gpt-4o-mini, backend: openai, api_key_env: OPENAI_API_KEY}
      - {name: qwen, backend: openai, base_url: "http://localhost:8080/v1", options: {reasoning_effort: low}}

`options` are further fields of the request as the server documents them. What the spec's `inference` does not say is
not sent. A server that refuses structured answers is asked without them, and that is counted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from steelyard.errors import BackendError, UsageError, printable
from steelyard.ground.http import FailedRequestError, Server
from steelyard.ground.keys import bearer
from steelyard.runner.backends.contract import (
    Finding,
    Inference,
    Message,
    Options,
    Reply,
    Request,
    backends,
    tokens_of,
)

ADDRESS = "https://api.openai.com/v1"
ASKED_WITHOUT_SCHEMA = "asked without response_format, which the server refused"
NOT_A_CHAT = "the answer is not the JSON of a chat completion"
NO_CHOICES = "the answer has no choices"
NO_TEXT = "the reply has no text"
AN_ERROR = "the server sent an error in place of an answer"
_SAMPLING = ("temperature", "seed", "max_tokens", "top_p", "min_p", "top_k")
_OWN = ("model", "messages", "logprobs", "top_logprobs", "response_format", "stream", "n", *_SAMPLING)
_REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


class _Said(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct):
    message: _Said
    finish_reason: str | None = None
    logprobs: Any = None


class _Completion(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    model: str | None = None
    error: Any = None


class OpenAI:
    """One server, and the models on it."""

    def __init__(self, server: Server, *, base_url: str, added: Mapping[str, Any]) -> None:
        self._server, self._base_url, self._added = server, base_url, added
        self._schemas: Literal["untried", "taken", "refused"] = "untried"
        self._without_schema = 0

    def __repr__(self) -> str:
        return f"<OpenAI at {self._server!r}>"

    @classmethod
    def open(cls, options: Options) -> Self:
        for name in options.options:
            if name in _OWN:
                raise UsageError(f"the option '{name}' of the backend 'openai' is for the spec's inference to say")
        try:
            msgspec.json.encode(options.options)
        except (TypeError, UnicodeEncodeError):
            raise UsageError("the options of the backend 'openai' are sent as JSON, which cannot hold them") from None
        key = options.api_key()
        base_url = (options.base_url or ADDRESS).rstrip("/")
        headers = {} if key is None else bearer(key)
        server = Server(base_url, headers=headers, limits=options.limits, kind="model server")
        return cls(server, base_url=base_url, added=dict(options.options))

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.__aexit__(kind, problem, trace)

    def identity(self) -> Mapping[str, Any]:
        return {"backend": "openai", "base_url": self._base_url, "options": self._added}

    def counts(self) -> Mapping[str, int]:
        return {ASKED_WITHOUT_SCHEMA: self._without_schema} if self._without_schema else {}

    async def ask(self, request: Request) -> Reply:
        try:
            return await self._answered(request)
        except FailedRequestError as problem:
            return Reply(failure=problem.reason, retries=problem.retries)

    async def _answered(self, request: Request) -> Reply:
        body = {**self._added, **_body(request)}
        structured = _response_format(request)
        if structured is None:
            return await self._posted(body)
        if self._schemas != "refused":
            try:
                reply = await self._posted({**body, "response_format": structured})
                self._schemas = "taken"
                return reply
            except FailedRequestError as problem:
                if self._schemas == "taken" or problem.status not in _REFUSED:
                    raise
        reply = await self._posted(body)
        self._schemas = "refused"
        self._without_schema += 1
        return reply

    async def _posted(self, body: Mapping[str, Any]) -> Reply:
        answer = await self._server.post("/chat/completions", _encoded(body))
        return replace(read(answer.body), latency_ms=answer.latency_ms, retries=answer.retries)

    async def check(self, model: str) -> tuple[Finding, ...]:
        try:
            listed = await self._listed(model)
            reached = all(finding.level != "problem" for finding in listed)
            return (*listed, *await self._tried(model)) if reached else listed
        except BackendError as problem:
            return (Finding(about="key", level="problem", text=str(problem)),)

    async def _listed(self, model: str) -> tuple[Finding, ...]:
        """Whether the server lists the model; many do not list any."""
        try:
            answer = await self._server.get("/models")
            names = {entry["id"] for entry in json.loads(answer.body)["data"]}
        except FailedRequestError as problem:
            return () if problem.status else (Finding(about="server", level="problem", text=str(problem)),)
        except (ValueError, KeyError, TypeError):
            return ()
        if model in names:
            return (Finding(about="model", level="ok", text=f"the server lists {printable(model)}"),)
        text = f"the server does not list {printable(model)} among its {len(names)} models"
        return (Finding(about="model", level="warning", text=text),)

    async def _tried(self, model: str) -> tuple[Finding, ...]:
        """One short question, with logprobs, and without them if need be."""
        message = Message(role="user", content="Answer with one word: yes")
        asked = Inference(max_tokens=16, logprobs=True, top_logprobs=2)
        reply = await self.ask(Request(model=model, messages=(message,), inference=asked))
        if reply.failure:
            reply = await self.ask(Request(model=model, messages=(message,), inference=Inference(max_tokens=16)))
        if reply.failure:
            return (Finding(about="server", level="problem", text=f"{self._server.name}: {reply.failure}"),)
        answers = Finding(about="server", level="ok", text=f"{self._server.name} answers")
        if reply.tokens and reply.tokens[0].top:
            return answers, Finding(about="logprobs", level="ok", text="the server gives log-probabilities")
        lacking = "alternatives to the tokens" if reply.tokens else "log-probabilities"
        return answers, Finding(about="logprobs", level="warning", text=f"the server gives no {lacking}")


def _body(request: Request) -> dict[str, Any]:
    inference = request.inference
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
    }
    for name in _SAMPLING:
        value = getattr(inference, name)
        if value is not None:
            body[name] = value
    if inference.logprobs:
        body["logprobs"] = True
        if inference.top_logprobs is not None:
            body["top_logprobs"] = inference.top_logprobs
    return body


def _response_format(request: Request) -> dict[str, Any] | None:
    """How the answer is asked to be structured, None where anything goes."""
    if request.inference.format == "text":
        return None
    if request.schema is not None:
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": request.schema}}
    return {"type": "json_object"} if request.inference.format == "json" else None


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # half a character in a text, which only json writes
        return json.dumps(body).encode()


def read(body: bytes) -> Reply:
    """The reply in the body of an answer, whatever is in it."""
    completion = _completion(body)
    if completion is None:
        return Reply(failure=NOT_A_CHAT)
    if not completion.choices:
        return Reply(failure=AN_ERROR if completion.error else NO_CHOICES)
    choice = completion.choices[0]
    text, said = choice.message.content, choice.message
    if text is None and choice.finish_reason == "length":
        text = ""  # cut while the model was still thinking: a reply, in which there is no answer
    usage = completion.usage if isinstance(completion.usage, dict) else {}
    return Reply(
        text=text,
        reasoning=said.reasoning_content or said.reasoning,
        tokens=tokens_of(choice.logprobs.get("content")) if isinstance(choice.logprobs, dict) else None,
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        finish=choice.finish_reason,
        model=completion.model,
        failure=NO_TEXT if text is None else "",
    )


def _completion(body: bytes) -> _Completion | None:
    try:
        return msgspec.json.decode(body, type=_Completion)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # half a character in a text, which only json reads
        with suppress(ValueError, RecursionError):
            return msgspec.convert(json.loads(body), _Completion)
        return None


backends.add("openai", OpenAI)
