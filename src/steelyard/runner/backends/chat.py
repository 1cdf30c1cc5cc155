"""What backends have in common that ask a chat server over HTTP: how bodies are written and read, and when to give up.

A server that refuses structured answers is asked without them, and that is counted. One that took one before is
believed when it refuses another: that request fails alone.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import msgspec

from steelyard.errors import UsageError
from steelyard.ground.http import FailedRequestError, Server
from steelyard.halves import mended
from steelyard.runner.backends.complaints import complaint, is_filtered
from steelyard.runner.backends.contract import (
    OTHER_MODEL,
    TWICE,
    Backend,
    Finding,
    Inference,
    Message,
    Options,
    Reply,
    Request,
)

NOT_A_CHAT = "the answer is not the JSON of a chat completion"
NO_TEXT = "the reply has no text"
PROMPT_FILTER = "a content filter refused the prompt (prompt_filter)"
AN_ERROR = "the server sent an error in place of an answer"
_REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
_LATEST = re.compile(r"[-:@]latest$")
_VERSION = re.compile(r"[-:@](?:latest|[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}|[0-9]{6}|[0-9]{4})$")
_Document = TypeVar("_Document")


class ChatServer(ABC):
    """A server of chat models: a backend says how its requests and replies look."""

    structures_as = ""  # the field of a request that says how the answer is structured
    asks_by_name = True  # a server that has one model may call it as it likes

    def __init__(self, server: Server, *, base_url: str, added: Mapping[str, Any]) -> None:
        self._server, self._base_url, self._added = server, base_url, added
        self._schemas: Literal["untried", "taken", "refused"] = "untried"
        self._without_schema = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self._server!r}>"

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.__aexit__(kind, problem, trace)

    def counts(self) -> Mapping[str, int]:
        without = asked_without(self.structures_as)
        return {without: self._without_schema} if self._without_schema else {}

    async def ask(self, request: Request) -> Reply:
        try:
            reply = await self._answered(request)
        except FailedRequestError as problem:
            refused = problem.status == HTTPStatus.BAD_REQUEST and is_filtered(problem.said)
            said_of_it = complaint(problem.said, request.prompt)
            reason = PROMPT_FILTER if refused else problem.reason
            return Reply(failure=reason, retries=problem.retries, said=said_of_it)
        if self.asks_by_name and is_another(request.model, reply.model):
            return replace(reply, remarks=(*reply.remarks, OTHER_MODEL))
        return reply

    async def _answered(self, request: Request) -> Reply:
        body = self._body(request)
        structured = self._structured(request)
        if structured is None:
            return await self._posted(body)
        if self._schemas != "refused":
            try:
                reply = await self._posted({**body, self.structures_as: structured})
                self._schemas = "taken"
                return reply
            except FailedRequestError as problem:
                if self._schemas == "taken" or problem.status not in _REFUSED or is_filtered(problem.said):
                    raise
        reply = await self._posted(body)
        self._schemas = "refused"
        self._without_schema += 1
        return reply

    @abstractmethod
    def _body(self, request: Request) -> dict[str, Any]:
        """What is sent, but for how the answer is structured."""

    @abstractmethod
    def _structured(self, request: Request) -> Any:
        """How the answer is asked to be structured, None where anything goes."""

    @abstractmethod
    async def _posted(self, body: Mapping[str, Any]) -> Reply:
        """The reply to a body."""

    async def _read(self, path: str, body: Mapping[str, Any], read: Callable[[bytes], Reply]) -> Reply:
        """What is read of the answer to a body."""
        answer = await self._server.post(path, encoded(body))
        reply = read(answer.body)
        twice = (TWICE,) if says_twice(answer.body) else ()
        return replace(reply, latency_ms=answer.latency_ms, retries=answer.retries, remarks=(*reply.remarks, *twice))


def asked_without(what: str) -> str:
    """What is counted of a server that refuses something."""
    return f"asked without {what}, which the server refused"


def further(options: Options, backend: str, own: Sequence[str]) -> dict[str, Any]:
    """Further fields of a request that the options hold; those that the spec itself decides are refused."""
    for name in options.options:
        if name in own:
            raise UsageError(f"the option '{name}' of the backend '{backend}' is for the spec's inference to say")
    try:
        msgspec.json.encode(options.options)
    except TypeError:
        raise UsageError(f"the options of the backend '{backend}' are sent as JSON, which cannot hold them") from None
    return dict(options.options)


def stated(request: Request, names: Mapping[str, str]) -> dict[str, Any]:
    """What the spec says of the inference, under the names that a server has for it."""
    found = {theirs: getattr(request.inference, ours) for ours, theirs in names.items()}
    return {name: value for name, value in found.items() if value is not None}


def said(request: Request) -> list[dict[str, str]]:
    """The messages, as servers want them."""
    return [{"role": message.role, "content": message.content} for message in request.messages]


def encoded(body: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(body)


def decoded(body: bytes, kind: type[_Document]) -> _Document | None:
    """The document in the body of an answer, None where it is not of this kind."""
    whole = mended(body)
    try:
        return msgspec.json.decode(whole, type=kind)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        with suppress(ValueError, RecursionError):  # a number that is not finite, which only json reads
            return msgspec.convert(json.loads(whole), kind)
        return None


def says_twice(body: bytes) -> bool:
    """True if an object in the body of an answer has a key twice, of which readers see one."""
    found = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({key for key, _ in pairs}) < len(pairs)

    with suppress(ValueError, RecursionError):
        json.loads(mended(body), object_pairs_hook=look)
    return found


def is_another(asked: str, named: str | None) -> bool:
    """True if a reply names another model than was asked for: neither it, nor a version of what was asked without one.

    >>> is_another("gpt-4o", "gpt-4o-2024-08-06"), is_another("gpt-4o", "gpt-4o-mini")
    (False, True)
    """
    if named is None:
        return False
    one, other = asked.casefold(), named.casefold()
    if ("/" in one) != ("/" in other):  # one of them says who offers it
        one, other = one.rpartition("/")[2], other.rpartition("/")[2]
    return one != other and _LATEST.sub("", one) not in (other, _VERSION.sub("", other))


async def tried(backend: Backend, server: str, model: str, *, logprobs: bool = True) -> tuple[Finding, ...]:
    """One short question, with logprobs if the server may have them, and without if need be."""
    message = Message(role="user", content="Answer with one word: yes")
    reply = Reply(failure=NO_TEXT)
    for asked in (
        *([Inference(max_tokens=16, logprobs=True, top_logprobs=2)] if logprobs else []),
        Inference(max_tokens=16),
    ):
        reply = await backend.ask(Request(model=model, messages=(message,), inference=asked))
        if not reply.failure:
            break
    if reply.failure:
        return (Finding(about="server", level="problem", text=f"{server}: {reply.failure}"),)
    answers = Finding(about="server", level="ok", text=f"{server} answers")
    if reply.tokens and reply.tokens[0].top:
        return answers, Finding(about="logprobs", level="ok", text="the server gives log-probabilities")
    lacking = "alternatives to the tokens" if reply.tokens else "log-probabilities"
    return answers, Finding(about="logprobs", level="warning", text=f"the server gives no {lacking}")
