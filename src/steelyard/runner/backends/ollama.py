"""Models of an Ollama server, by its own protocol.

    models:
      - {name: "llama3.2:3b", backend: ollama}
      - {name: qwen3, backend: ollama, base_url: "http://host:11434", options: {num_ctx: 8192, think: false}}

Its own protocol says more than the one that it shares with others: how long the model was loaded and computed, which is
kept as signals. `options` are parameters of the model as Ollama documents them, and `think`, `keep_alive`, `truncate`
and `shift`. Ollama cuts a prompt that does not fit into `num_ctx`, and says nothing of it: state it where prompts are
long. Log-probabilities come from 0.12.11 on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import msgspec

from steelyard.confidence.token_text import field
from steelyard.errors import BackendError, UsageError, counted, printable
from steelyard.ground.http import FailedRequestError, Server
from steelyard.ground.keys import bearer
from steelyard.halves import mended
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
from steelyard.runner.backends.contract import Finding, Options, Reply, Request, backends, count_of, tokens_of

ADDRESS = "http://127.0.0.1:11434"
UNFINISHED = "the answer is a part of one"
WITH_LOGPROBS = (0, 12, 11)  # the first version that gives them
MOST_ALTERNATIVES = 20
_SAMPLING = {
    "temperature": "temperature",
    "seed": "seed",
    "max_tokens": "num_predict",
    "top_p": "top_p",
    "min_p": "min_p",
    "top_k": "top_k",
}
_BESIDE = ("think", "keep_alive", "truncate", "shift")  # options of the request, not of the model
_OWN = ("model", "messages", "stream", "format", "options", "logprobs", "top_logprobs", *_SAMPLING.values())
_NANOSECONDS = {"total_ms": "total_duration", "load_ms": "load_duration", "eval_ms": "eval_duration"}
_COUNTS = ("eval_count", "prompt_eval_count")


class _Said(msgspec.Struct):
    content: str | None = None
    thinking: str | None = None


class _Chat(msgspec.Struct):
    message: _Said | None = None
    done: bool | None = None
    done_reason: str | None = None
    model: str | None = None
    logprobs: Any = None
    error: Any = None
    total_duration: Any = None
    load_duration: Any = None
    eval_duration: Any = None
    eval_count: Any = None
    prompt_eval_count: Any = None


class Ollama(ChatServer):
    """One server, and the models on it."""

    structures_as = "format"
    signals: ClassVar[tuple[str, ...]] = (*_NANOSECONDS, *_COUNTS, "tokens_per_sec")

    @classmethod
    def open(cls, options: Options) -> Self:
        added = further(options, "ollama", _OWN)
        most = options.inference.top_logprobs
        if most is not None and most > MOST_ALTERNATIVES:
            raise UsageError(
                f"Ollama lists {MOST_ALTERNATIVES} alternatives to a token at most; top_logprobs is {most}"
            )
        base_url = (options.base_url or ADDRESS).rstrip("/")
        if base_url.endswith(("/v1", "/api")):
            raise UsageError("the backend 'ollama' wants the address alone, as in http://127.0.0.1:11434")
        key = options.api_key()
        headers = {} if key is None else bearer(key)
        return cls(Server(base_url, headers=headers, limits=options.limits, kind="Ollama server"), base_url, added)

    def __init__(self, server: Server, base_url: str, added: Mapping[str, Any]) -> None:
        super().__init__(server, base_url=base_url, added=added)
        self._beside = {name: value for name, value in added.items() if name in _BESIDE}
        self._parameters = {name: value for name, value in added.items() if name not in _BESIDE}

    def identity(self) -> Mapping[str, Any]:
        return {"backend": "ollama", "base_url": self._base_url, "options": self._added}

    def _body(self, request: Request) -> dict[str, Any]:
        parameters = {**self._parameters, **stated(request, _SAMPLING)}
        body = {**self._beside, "model": request.model, "messages": said(request), "stream": False}
        if parameters:
            body["options"] = parameters
        if request.inference.logprobs:
            body |= {"logprobs": True, **stated(request, {"top_logprobs": "top_logprobs"})}
        return body

    def _structured(self, request: Request) -> Any:
        if request.inference.format == "text":
            return None
        return request.schema if request.schema is not None else request.inference.format

    async def _posted(self, body: Mapping[str, Any]) -> Reply:
        return await self._read("/api/chat", body, read)

    async def check(self, model: str) -> tuple[Finding, ...]:
        try:
            found = (*await self._version(), *await self._listed(model))
            if any(finding.level == "problem" for finding in found):
                return found
            gives = all(finding.about != "logprobs" for finding in found)
            asked = await tried(self, self._server.name, model, logprobs=gives)
            return (*found, *(each for each in asked if gives or each.about != "logprobs"))
        except FailedRequestError as problem:
            return (Finding(about="server", level="problem", text=str(problem)),)
        except BackendError as problem:
            return (Finding(about="key", level="problem", text=str(problem)),)

    async def _version(self) -> tuple[Finding, ...]:
        """What the server is, and whether it is too old to give log-probabilities."""
        answer = await self._server.get("/api/version")
        try:
            version = str(json.loads(mended(answer.body))["version"])
        except (ValueError, KeyError, TypeError):
            text = f"{self._server.name} does not say its version; is it Ollama?"
            return (Finding(about="server", level="problem", text=text),)
        numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
        if not numbers or numbers >= WITH_LOGPROBS or numbers == (0, 0, 0):  # what is built from source says 0.0.0
            return ()
        needed = ".".join(map(str, WITH_LOGPROBS))
        text = f"Ollama {printable(version)} gives no log-probabilities; {needed} and later do"
        return (Finding(about="logprobs", level="warning", text=text),)

    async def _listed(self, model: str) -> tuple[Finding, ...]:
        """Whether the model is there; Ollama lists all that are."""
        answer = await self._server.get("/api/tags")
        try:
            names = {str(entry["name"]) for entry in json.loads(mended(answer.body))["models"]}
        except (ValueError, KeyError, TypeError):
            return ()
        whole = model if ":" in model.rpartition("/")[2] else f"{model}:latest"
        if whole in names:
            return (Finding(about="model", level="ok", text=f"Ollama has {printable(whole)}"),)
        there = counted(len(names), "model")
        text = f"Ollama has {there}, and no {printable(whole)}; `ollama pull {printable(model)}` gets it"
        return (Finding(about="model", level="problem", text=text),)


def read(body: bytes) -> Reply:
    """The reply in the body of an answer, whatever is in it."""
    chat = decoded(body, _Chat)
    if chat is None:
        return Reply(failure=NOT_A_CHAT)
    if chat.error or chat.message is None:
        return Reply(failure=AN_ERROR if chat.error else NOT_A_CHAT)
    if chat.done is False:
        return Reply(failure=UNFINISHED)
    text = chat.message.content
    timings = {name: value for name, value in parse_ollama_timings(chat).items() if value is not None}
    return Reply(
        text=text,
        reasoning=chat.message.thinking or None,
        tokens=tokens_of(chat.logprobs) if chat.logprobs else None,
        input_tokens=chat.prompt_eval_count,
        output_tokens=chat.eval_count,
        finish=chat.done_reason,
        model=chat.model,
        signals=timings or None,
        failure=NO_TEXT if text is None else "",
    )


def parse_ollama_timings(reply: object) -> dict[str, float | None]:
    """What Ollama says of the time that a reply took: the reply is a mapping, or an object of its own client.

    Durations are in milliseconds; what the reply does not say is None, and so are tokens per second of no time at all.

    >>> timings = parse_ollama_timings({"total_duration": 5e9, "eval_duration": 2e9, "eval_count": 50})
    >>> timings["total_ms"], timings["load_ms"], timings["tokens_per_sec"]
    (5000.0, None, 25.0)
    """
    found: dict[str, float | None] = {
        name: None if (given := _number(field(reply, theirs))) is None else given / 1e6
        for name, theirs in _NANOSECONDS.items()
    }
    found |= {name: count_of(field(reply, name)) for name in _COUNTS}
    written, took = found["eval_count"], _number(field(reply, "eval_duration"))
    found["tokens_per_sec"] = None if written is None or not took else written / (took / 1e9)
    return found


def _number(value: Any) -> float | None:
    """A duration, None where it is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**63 else None


backends.add("ollama", Ollama)
