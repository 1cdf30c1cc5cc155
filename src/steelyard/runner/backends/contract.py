"""What a backend is: something that is given messages and gives a reply, one request at a time, many at once.

A new one is a file with a class that has what `Backend` has, and ends with

    backends.add("mine", Mine)

`Mine.open(options)` makes one, and refuses what it does not understand before anything is asked. A reply that is no use
is a `Reply` with a `failure`, in words of our own: never an exception, and never what the model or the server said. An
exception means that no further request can succeed either.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from steelyard.confidence.token_text import token_text
from steelyard.errors import UsageError, printable
from steelyard.ground.http import Limits
from steelyard.ground.keys import is_variable
from steelyard.halves import whole_text
from steelyard.registry import Registry, closest

Role = Literal["system", "user", "assistant"]
NO_COUNT = "a count of tokens is stated that is none; it is left out"
OTHER_MODEL = "the server names another model than was asked"
TWICE = "a key stands twice in the answer; the last counts"
OF_SERVERS = (NO_COUNT, OTHER_MODEL, TWICE)  # what is remarked of replies, model by model
_MOST_TOKENS = 10**12
_ROUNDING = 1e-3  # by which a log-probability may be above 0


@dataclass(frozen=True, kw_only=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, kw_only=True)
class Inference:
    """How a model is asked to answer; None where nothing is said, and then nothing is sent."""

    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    top_k: int | None = None
    format: Literal["json", "text"] | None = None

    @property
    def is_deterministic(self) -> bool:
        """True if the same question is meant to get the same answer."""
        return self.temperature == 0


@dataclass(frozen=True, kw_only=True)
class Request:
    """A question to a model, and which question of the run it is.

    `schema` is the JSON Schema of a structured answer, sent where the server supports it. `item` holds the fields of
    the item that the prompt uses. The names from `item_id` on say where the reply belongs; they change no answer.
    """

    model: str
    messages: tuple[Message, ...]
    inference: Inference = field(default_factory=Inference)
    schema: Mapping[str, Any] | None = None
    item: Mapping[str, Any] = field(default_factory=dict)
    repeat: int = 1
    sample: int = 1
    item_id: str | int | None = None
    strategy: str | None = None
    perturbation: str | None = None

    @property
    def prompt(self) -> str:
        """All that is said to the model, as one text."""
        return "\n\n".join(message.content for message in self.messages)

    def identity(self) -> Mapping[str, Any]:
        """Everything that changes an answer."""
        return {
            "model": self.model,
            "messages": [{"role": message.role, "content": message.content} for message in self.messages],
            "inference": vars(self.inference),
            "schema": self.schema,
            "item": self.item,
        }

    @cached_property
    def digest(self) -> str:
        """The digest of everything that changes an answer."""
        return fingerprint(self.identity()).hex()


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token of a reply, and the likeliest ones in its place."""

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came back. `failure` says why there is no usable reply, "" if there is one.

    `latency_ms` is that of the last attempt alone. `signals` are further numbers that a server gives with a reply, such
    as how long it computed. A reply from the cache has neither. Counts of tokens that are none, below 0 or beyond what
    a table can hold, are not there. `remarks` are what else a reader of the results should know of it, of `OF_SERVERS`.
    """

    text: str | None = None
    reasoning: str | None = None
    tokens: tuple[Token, ...] | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_ms: float | None = None
    finish: str | None = None
    model: str | None = None
    signals: Mapping[str, float] | None = None
    failure: str = ""
    said: str = ""  # what the server wrote with a failure, without what it was sent
    declined: Literal["", "field", "filter"] = ""  # the model refused in a field of its own, or a filter cut it short
    retries: int = 0
    cached: bool = False
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("text", "reasoning", "finish", "model"):
            if isinstance(text := getattr(self, name), str):
                object.__setattr__(self, name, whole_text(text))
        for name in ("input_tokens", "output_tokens"):
            count = getattr(self, name)
            if count is not None and count_of(count) is None:
                object.__setattr__(self, name, None)
                object.__setattr__(self, "remarks", tuple(dict.fromkeys((*self.remarks, NO_COUNT))))

    def document(self) -> dict[str, Any]:
        """The reply as JSON's own types, without what is not there."""
        kept = {name: value for name, value in vars(self).items() if value != getattr(Reply, name)}
        if self.tokens is not None:
            kept["tokens"] = [[token.text, token.logprob, [list(pair) for pair in token.top]] for token in self.tokens]
        return kept

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Reply:
        """The reply that a document describes; a ValueError where it is none."""
        try:
            given = {**document, "remarks": tuple(document.get("remarks", ()))}
            if given.get("tokens") is not None:
                given["tokens"] = tuple(
                    Token(text=text, logprob=float(logprob), top=tuple((other, float(of)) for other, of in top))
                    for text, logprob, top in given["tokens"]
                )
            return cls(**given)
        except (TypeError, KeyError) as problem:
            raise ValueError(f"not a reply ({type(problem).__name__})") from None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a look at a backend found, before anything is paid for."""

    about: Literal["server", "key", "model", "logprobs", "function", "answers"]
    level: Literal["ok", "warning", "problem"]
    text: str


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a spec says of a model's backend. `options` are the backend's own; `folder` is where the spec is.

    `inference` is how models will be asked; `needs_logprobs` is true if their confidence is to come from
    log-probabilities. `environment` is where keys are, and is never shown.
    """

    base_url: str | None = None
    api_key_env: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    folder: Path = Path()
    inference: Inference = field(default_factory=Inference)
    needs_logprobs: bool = False
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def api_key(self) -> str | None:
        """The key in the variable that the spec names, None where it names none."""
        if self.api_key_env is None:
            return None
        if not is_variable(self.api_key_env, self.environment):
            raise UsageError(
                "api_key_env is the name of an environment variable that holds the key, such as OPENAI_API_KEY; "
                "what is there does not look like a name"
            )
        key = self.environment.get(self.api_key_env)
        if key is None:
            raise UsageError(
                f"the environment variable {printable(self.api_key_env)} is not set; "
                "set it to the API key, or leave out api_key_env for a server that needs none"
            )
        return key

    def refuse(self, backend: str, *names: Literal["base_url", "api_key_env"]) -> None:
        """Raise if something is said that this backend has no use for."""
        for name in names:
            if getattr(self, name) is not None:
                raise UsageError(f"the backend '{backend}' has no use for {name}; leave it out")

    def known(self, backend: str, *names: str) -> Mapping[str, Any]:
        """The backend's own options, if all of them are among these names."""
        for name in self.options:
            if name not in names:
                near = closest(name, list(names))
                hint = f"did you mean '{near}'?" if near else f"it takes: {', '.join(names) or 'none'}"
                raise UsageError(f"the backend '{backend}' has no option '{printable(name)}'; {hint}")
        return self.options


class Backend(Protocol):
    """A way of asking models.

    One that gives `signals` with its replies lists them in an attribute of that name; where models compute in this
    process or in one that it starts, `computes_here` is true.
    """

    @classmethod
    def open(cls, options: Options) -> Self:
        """One that is ready to be entered; UsageError where the options cannot be used."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def identity(self) -> Mapping[str, Any] | None:
        """What changes its answers besides the request, never a key; None if its answers must not be cached."""
        ...

    def counts(self) -> Mapping[str, int]:
        """What happened that a reader of the results should know, and how often."""
        ...

    async def ask(self, request: Request) -> Reply:
        """The reply to a request; BackendError only if every other request would fail as well."""
        ...

    async def check(self, model: str) -> tuple[Finding, ...]:
        """What can be said of a model before the first question."""
        ...


backends: Registry[type[Backend]] = Registry("backend")


def fingerprint(identity: Mapping[str, Any]) -> bytes:
    """A digest that differs where anything in an identity does."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), default=_named)
    return sha256(text.encode()).digest()


def _named(value: object) -> list[str]:
    """A value that JSON does not know, with its kind."""
    return [type(value).__name__, str(value)]


def declined_by(*, refusal: bool, finish: str | None) -> Literal["", "field", "filter"]:
    """How a server says that a question was declined: it marks a refusal as one, or a filter ended the reply."""
    return "field" if refusal else "filter" if finish == "content_filter" else ""


def count_of(value: Any) -> int | None:
    """A number of tokens, None where it is none."""
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def tokens_of(content: Any) -> tuple[Token, ...] | None:
    """Tokens as chat servers list them, None where the list is not as it must be.

    >>> tokens_of([{"token": "A", "logprob": -0.5, "top_logprobs": [{"token": "A", "logprob": -0.5}]}])
    (Token(text='A', logprob=-0.5, top=(('A', -0.5),)),)
    """
    if not isinstance(content, Sequence) or isinstance(content, str):
        return None
    try:
        return tuple(
            Token(
                text=_text(token),
                logprob=_logprob(token["logprob"]),
                top=tuple((_text(t), _logprob(t["logprob"])) for t in token.get("top_logprobs") or ()),
            )
            for token in content
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        return None


def _text(token: Any) -> str:
    text = token_text(token)
    if text is None:
        raise ValueError("a token is text")
    return text


def _logprob(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -math.inf < value < _ROUNDING:
        raise ValueError("a log-probability is at most 0")
    return float(value)
