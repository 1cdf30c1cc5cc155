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
from typing import Any, Self

import msgspec

from steelyard.errors import BackendError, counted, printable
from steelyard.ground.http import FailedRequestError, Server
from steelyard.ground.keys import bearer
from steelyard.halves import mended
from steelyard.runner.backends.chat import (
    AN_ERROR,
    NO_TEXT,
    NOT_A_CHAT,
    ChatServer,
    asked_without,
    decoded,
    further,
    said,
    stated,
    tried,
)
from steelyard.runner.backends.contract import Finding, Options, Reply, Request, backends, declined_by, tokens_of

ADDRESS = "https://api.openai.com/v1"
ASKED_WITHOUT_SCHEMA = asked_without("response_format")
NO_CHOICES = "the answer has no choices"
_SAMPLING = ("temperature", "seed", "max_tokens", "top_p", "min_p", "top_k")
_OWN = ("model", "messages", "logprobs", "top_logprobs", "response_format", "stream", "n", *_SAMPLING)


class _Said(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Said
    finish_reason: str | None = None
    logprobs: Any = None


class _Completion(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    model: str | None = None
    error: Any = None


class OpenAI(ChatServer):
    """One server, and the models on it."""

    structures_as = "response_format"

    @classmethod
    def open(cls, options: Options) -> Self:
        added = further(options, "openai", _OWN)
        key = options.api_key()
        base_url = (options.base_url or ADDRESS).rstrip("/")
        headers = {} if key is None else bearer(key)
        server = Server(base_url, headers=headers, limits=options.limits, kind="model server")
        return cls(server, base_url=base_url, added=added)

    def identity(self) -> Mapping[str, Any]:
        return {"backend": "openai", "base_url": self._base_url, "options": self._added}

    def _body(self, request: Request) -> dict[str, Any]:
        inference = request.inference
        sampling = stated(request, {name: name for name in _SAMPLING})
        body = {**self._added, "model": request.model, "messages": said(request), **sampling}
        if inference.logprobs:
            body |= {"logprobs": True, **stated(request, {"top_logprobs": "top_logprobs"})}
        return body

    def _structured(self, request: Request) -> dict[str, Any] | None:
        if request.inference.format == "text":
            return None
        if request.schema is not None:
            return {"type": "json_schema", "json_schema": {"name": "answer", "schema": request.schema}}
        return {"type": "json_object"} if request.inference.format == "json" else None

    async def _posted(self, body: Mapping[str, Any]) -> Reply:
        return await self._read("/chat/completions", body, read)

    async def check(self, model: str) -> tuple[Finding, ...]:
        try:
            listed = await self._listed(model)
            reached = all(finding.level != "problem" for finding in listed)
            return (*listed, *await tried(self, self._server.name, model)) if reached else listed
        except BackendError as problem:
            return (Finding(about="key", level="problem", text=str(problem)),)

    async def _listed(self, model: str) -> tuple[Finding, ...]:
        """Whether the server lists the model; many do not list any."""
        try:
            answer = await self._server.get("/models")
            names = {entry["id"] for entry in json.loads(mended(answer.body))["data"]}
        except FailedRequestError as problem:
            return () if problem.status else (Finding(about="server", level="problem", text=str(problem)),)
        except (ValueError, KeyError, TypeError):
            return ()
        if model in names:
            return (Finding(about="model", level="ok", text=f"the server lists {printable(model)}"),)
        text = f"the server does not list {printable(model)} among its {counted(len(names), 'model')}"
        return (Finding(about="model", level="warning", text=text),)


def read(body: bytes) -> Reply:
    """The reply in the body of an answer, whatever is in it."""
    completion = decoded(body, _Completion)
    if completion is None:
        return Reply(failure=NOT_A_CHAT)
    if not completion.choices:
        return Reply(failure=AN_ERROR if completion.error else NO_CHOICES)
    choice = completion.choices[0]
    text, message = choice.message.content, choice.message
    declined = declined_by(refusal=bool(message.refusal), finish=choice.finish_reason)
    if text is None and (choice.finish_reason == "length" or declined):
        text = message.refusal or ""  # cut while the model was still thinking, or declined: a reply without an answer
    usage = completion.usage if isinstance(completion.usage, dict) else {}
    return Reply(
        text=text,
        reasoning=message.reasoning_content or message.reasoning,
        tokens=tokens_of(choice.logprobs.get("content")) if isinstance(choice.logprobs, dict) else None,
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        finish=choice.finish_reason,
        model=completion.model,
        failure=NO_TEXT if text is None else "",
        declined=declined,
    )


backends.add("openai", OpenAI)
