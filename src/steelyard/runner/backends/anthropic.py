"""Models behind Anthropic's messages protocol.

    models:
      - {name: claude-sonnet-4-5, backend: anthropic, api_key_env: ANTHROPIC_API_KEY}

`options` are further fields of the request as the server documents them. The protocol knows neither seeds nor `min_p`,
and gives no log-probabilities: where a spec has other models too that do, these are asked without, and that is counted;
a confidence that comes from log-probabilities is refused before the first question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote

import msgspec

from steelyard.errors import BackendError, UsageError, printable
from steelyard.ground.http import FailedRequestError, Server
from steelyard.ground.keys import carried
from steelyard.runner.backends.chat import (
    AN_ERROR,
    NO_TEXT,
    NOT_A_CHAT,
    ChatServer,
    decoded,
    further,
    said,
    stated,
    tried,
)
from steelyard.runner.backends.contract import Finding, Options, Reply, Request, backends, count_of, declined_by

ADDRESS = "https://api.anthropic.com/v1"
VERSION = "2023-06-01"
_SAMPLING = ("max_tokens", "temperature", "top_p", "top_k")
_UNKNOWN = ("seed", "min_p", "logprobs")
_OWN = ("model", "messages", "system", "stream", *_SAMPLING, *_UNKNOWN)
_READ = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "tool_use": "tool_calls",
}


class _Block(msgspec.Struct):
    type: str
    text: str | None = None
    thinking: str | None = None


class _Message(msgspec.Struct):
    type: str | None = None
    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: Any = None
    model: str | None = None
    error: Any = None


class Anthropic(ChatServer):
    """One server, and the models on it."""

    structures_as = "output_config"

    @classmethod
    def open(cls, options: Options) -> Self:
        added = further(options, "anthropic", _OWN)
        inference = options.inference
        if not isinstance(added.get("output_config", {}), Mapping):
            raise UsageError("the option output_config of the backend 'anthropic' is a mapping")
        if options.needs_logprobs:
            raise UsageError(
                "the backend 'anthropic' gives no log-probabilities, from which the spec wants its confidence; "
                "`confidence: reported` or `confidence: verbalized` can be had of every model"
            )
        if inference.max_tokens is None:
            raise UsageError("the backend 'anthropic' must be told how much to write at most: inference.max_tokens")
        if inference.temperature is not None and inference.temperature > 1:
            raise UsageError("the backend 'anthropic' takes a temperature from 0 to 1")
        key = options.api_key()
        base_url = (options.base_url or ADDRESS).rstrip("/")
        headers = {"anthropic-version": VERSION, **({} if key is None else {"x-api-key": carried(key)})}
        server = Server(base_url, headers=headers, limits=options.limits, kind="model server")
        return cls(server, base_url=base_url, added=added)

    def __init__(self, server: Server, *, base_url: str, added: Mapping[str, Any]) -> None:
        super().__init__(server, base_url=base_url, added=added)
        self._unsaid: Counter[str] = Counter()

    def identity(self) -> Mapping[str, Any]:
        return {"backend": "anthropic", "base_url": self._base_url, "options": self._added}

    def counts(self) -> Mapping[str, int]:
        unsaid = {f"asked without {name}, which the protocol does not have": n for name, n in self._unsaid.items()}
        return {**super().counts(), **unsaid}

    async def _answered(self, request: Request) -> Reply:
        self._unsaid.update(name for name in _UNKNOWN if getattr(request.inference, name) not in (None, False))
        return await super()._answered(request)

    def _body(self, request: Request) -> dict[str, Any]:
        system = "\n\n".join(message.content for message in request.messages if message.role == "system")
        turns = [turn for turn in said(request) if turn["role"] != "system"]
        sampling = stated(request, {name: name for name in _SAMPLING})
        body = {**self._added, "model": request.model, "messages": turns, **sampling}
        return {**body, "system": system} if system else body

    def _structured(self, request: Request) -> dict[str, Any] | None:
        if request.inference.format == "text" or request.schema is None:
            return None
        return {**self._added.get("output_config", {}), "format": {"type": "json_schema", "schema": request.schema}}

    async def _posted(self, body: Mapping[str, Any]) -> Reply:
        return await self._read("/messages", body, read)

    async def check(self, model: str) -> tuple[Finding, ...]:
        try:
            listed = await self._listed(model)
            reached = all(finding.level != "problem" for finding in listed)
            return (*listed, *await tried(self, self._server.name, model, logprobs=False)) if reached else listed
        except BackendError as problem:
            return (Finding(about="key", level="problem", text=str(problem)),)

    async def _listed(self, model: str) -> tuple[Finding, ...]:
        """Whether the server knows the model; others that speak the protocol may have no list."""
        try:
            await self._server.get(f"/models/{quote(model, safe='')}")
        except FailedRequestError as problem:
            if problem.status is None:
                return (Finding(about="server", level="problem", text=str(problem)),)
            text = f"the server does not list {printable(model)}"
            return (Finding(about="model", level="warning", text=text),)
        return (Finding(about="model", level="ok", text=f"the server lists {printable(model)}"),)


def read(body: bytes) -> Reply:
    """The reply in the body of an answer, whatever is in it."""
    message = decoded(body, _Message)
    if message is None:
        return Reply(failure=NOT_A_CHAT)
    if message.error or message.type == "error" or message.content is None:
        return Reply(failure=AN_ERROR if message.error or message.type == "error" else NOT_A_CHAT)
    texts = [block.text for block in message.content if block.type == "text" and block.text is not None]
    thoughts = [block.thinking for block in message.content if block.type == "thinking" and block.thinking]
    finish = _FINISH.get(message.stop_reason or "", message.stop_reason)
    # cut while the model was still thinking, or not willing to answer: a reply, in which there is no answer
    is_reply = bool(texts) or finish in ("length", "content_filter")
    usage = message.usage if isinstance(message.usage, dict) else {}
    counts = [usage.get(name) for name in _READ]
    return Reply(
        text="".join(texts) if is_reply else None,
        reasoning="\n\n".join(thoughts) or None,
        input_tokens=None if counts[0] is None else _total(counts),
        output_tokens=usage.get("output_tokens"),
        finish=finish,
        model=message.model,
        failure="" if is_reply else NO_TEXT,
        declined=declined_by(refusal=message.stop_reason == "refusal", finish=None),
    )


def _total(counts: Sequence[Any]) -> Any:
    """The sum of the counts that are there; one that is none, where there is one."""
    there = [count for count in counts if count is not None]
    wrong = [count for count in there if count_of(count) is None]
    return wrong[0] if wrong else sum(there)


backends.add("anthropic", Anthropic)
