"""One server, asked over HTTP: so many requests at once, so many attempts, so much time, and no more.

    async with Server("https://host/v1", headers=bearer(key), limits=Limits(in_flight=16)) as server:
        answer = await server.post("/chat/completions", body)

* 408, 409, 429, 5xx and broken connections are asked again, with growing waits or as long as Retry-After says. A 429
  halves the number of requests in flight, a run of answers lets it grow again by one.
* 401 and 403 break the circuit: whatever waits, and whatever comes later, ends at once. So does a server that none of
  the first requests could reach, after all their attempts.
* Everything else that is not 200 fails alone and at once. Redirects are not followed, so that no key goes elsewhere.
* The deadline counts from the first attempt, over all attempts and the waits between them, byte by byte; waiting for
  a turn does not count.

A failure says the status and a reason of our own: never what was sent, the key, or what the server wrote, which may
echo both; the beginning of that is in `said`, for whoever knows what was sent and can take it out. A key that comes
back in an answer is struck out before anybody reads it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from math import ceil, inf
from types import TracebackType
from typing import TYPE_CHECKING, Self

from steelyard.errors import BackendError, UsageError, counted, printable
from steelyard.ground.turns import Turns

if TYPE_CHECKING:
    import ssl

    import httpx

AGAIN = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS)
FORBIDDEN = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
KEY_HEADERS = ("authorization", "x-api-key")
NO_CONNECTION = "cannot be reached, or the connection broke off"
CONNECTING = 10.0  # seconds
DEAD = 8  # requests, at least, of which none reached the server
_STRUCK = b"[key]"
_MOST_SAID = 4096  # bytes of what a server writes with an error
_LISTENING = 2.0  # seconds for them
_SHORTEST_KEY = 8  # characters; a shorter one would be found in ordinary words
_SHARD = 8  # connections; a pool looks through all of them for every request
_FIRST_WAIT = 0.5  # seconds, doubled from one attempt to the next
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # a few bytes may unpack to more than there is memory
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a server may cost: `deadline` seconds per request over all attempts, `attempt` seconds for each of them."""

    in_flight: int = 8
    retries: int = 5
    deadline: float = 120.0
    attempt: float = inf
    longest_wait: float = 60.0  # seconds before a further attempt, whatever Retry-After says
    largest_answer: int = 32 * 2**20  # bytes

    def __post_init__(self) -> None:
        for name, value, least in (("in_flight", self.in_flight, 1), ("retries", self.retries, 0)):
            if value < least:
                raise UsageError(f"{name} must be at least {least}")
        if not (self.deadline > 0 and self.attempt > 0 and self.longest_wait >= 0):
            raise UsageError("deadline and attempt must be above 0 seconds, and longest_wait not below")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The body of a 200; `latency_ms` is that of the last attempt alone, `retries` how many there were before it."""

    body: bytes
    latency_ms: float
    retries: int


class FailedRequestError(BackendError):
    """One request got no answer; the next may. `status` is None where the server said nothing.

    `said` is the beginning of what it wrote with an error: it may hold what was sent.
    """

    def __init__(self, server: str, refusal: _Refusal, *, retries: int) -> None:
        attempts = f"; gave up after {counted(retries + 1, 'attempt')}" if refusal.again else ""
        super().__init__(f"{server}: {refusal.reason}{attempts}")
        self.reason, self.status, self.said, self.retries = refusal.reason, refusal.status, refusal.said, retries


class _Refusal(Exception):  # noqa: N818 - why an attempt failed, not an error yet
    """The server may do better next time if `again`; `wait` says when it wants to be asked."""

    def __init__(self, reason: str, status: int | None = None, *, again: bool, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.status, self.again, self.wait = reason, status, again, wait
        self.said = b""


class Server:
    """A server to which a bounded number of requests is sent at once. `kind` is what errors call it."""

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        kind: str = "server",
    ) -> None:
        self._url, address = _address(base_url, kind)
        self.name = f"the {kind} {address}"
        self.limits = limits or Limits()
        self._headers = {**_HEADERS, **(headers or {})}
        self._keys = _keys_in(headers or {})
        self._turns = Turns(self.limits.in_flight)
        self._shards: list[_Shard] = []
        self._urls: dict[str, httpx.URL] = {}
        self._broken: BackendError | None = None

    def __repr__(self) -> str:
        return f"<{self.name}>"

    async def __aenter__(self) -> Self:
        self._shards = [_Shard() for _ in range(ceil(self.limits.in_flight / _SHARD))]
        self._stopping, self._broken = asyncio.Event(), None
        self._reached, self._unreached = False, 0
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for shard in self._shards:
            await shard.transport.aclose()

    @property
    def concurrency(self) -> int:
        """How many requests may be in flight now, after what 429s took and answers gave back."""
        return self._turns.limit

    async def post(self, path: str, body: bytes) -> Answer:
        """The answer to a JSON document; FailedRequestError if this request failed, BackendError if all will."""
        return await self._asked("POST", path, body)

    async def get(self, path: str) -> Answer:
        return await self._asked("GET", path, b"")

    async def _asked(self, method: str, path: str, body: bytes) -> Answer:
        """An answer, after as many attempts as it takes and the limits allow."""
        left, retries = self.limits.deadline, 0
        while True:
            if self._broken is not None:
                raise self._stopped()
            era = await self._turns.take(first=retries > 0)
            started = time.monotonic()
            try:
                if self._broken is not None:  # while the turn was on its way
                    raise self._stopped()
                answer = await self._attempt(method, path, body, left, retries)
                self._reached = True
                self._turns.answered()
                return answer
            except _Refusal as problem:
                refusal = problem
                if problem.status == HTTPStatus.TOO_MANY_REQUESTS:
                    self._turns.refused(era)
            finally:
                self._turns.give()
            left -= time.monotonic() - started
            if refusal.status in FORBIDDEN:
                raise self._break(f"{refusal.reason}; check the API key")
            wait = self._wait(refusal, retries, left)
            if wait is None:
                self._count_unreached(refusal)
                raise FailedRequestError(self.name, refusal, retries=retries)
            left -= wait
            retries += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._stopping.wait()

    def _wait(self, refusal: _Refusal, retries: int, left: float) -> float | None:
        """The seconds until the next attempt, None where there is none: in vain, or past the deadline."""
        if not refusal.again or retries >= self.limits.retries:
            return None
        longest = self.limits.longest_wait
        own = min(longest, _FIRST_WAIT * 2**retries) * random.uniform(0.5, 1)
        # waits that servers ask for differ a little, lest all come back at once
        stated = None if refusal.wait is None else min(longest, refusal.wait * random.uniform(1, 1.1))
        wait = own if stated is None or stated >= left else max(stated, own)
        return wait if wait < left else None

    def _count_unreached(self, refusal: _Refusal) -> None:
        """Give up on a server that nothing has reached: every further request would take all its attempts in vain."""
        if refusal.status is not None:
            self._reached = True
        if self._reached or refusal.reason != NO_CONNECTION:
            return
        self._unreached += 1
        if self._unreached >= max(DEAD, self.limits.in_flight):
            raise self._break(f"cannot be reached, by none of {counted(self._unreached, 'request')}; is it running?")

    def _break(self, why: str) -> BackendError:
        """Let nothing more be sent: it would be in vain, and asking again with a wrong key may lock it."""
        if self._broken is None:
            self._broken = BackendError(f"{self.name}: {why}. Nothing more is sent to this server")
            self._stopping.set()
            self._turns.end(self._stopped)
        return self._stopped()

    def _stopped(self) -> BackendError:
        return BackendError(str(self._broken))

    async def _attempt(self, method: str, path: str, body: bytes, left: float, retries: int) -> Answer:
        import httpx

        within = min(left, self.limits.attempt)
        request = httpx.Request(
            method,
            self._urls.get(path) or self._place(path),
            headers=self._headers,
            content=body or None,
            extensions={"timeout": {"connect": min(CONNECTING, within)}},
        )
        shard = min(self._shards, key=_Shard.load)
        shard.busy += 1
        started = time.perf_counter()
        try:
            async with asyncio.timeout(within):
                data = await self._body(await shard.transport.handle_async_request(request))
        except (TimeoutError, httpx.TimeoutException):
            seconds = min(self.limits.attempt, self.limits.deadline)
            raise _Refusal(f"no answer within {seconds:g} s", again=True) from None
        except httpx.TransportError:
            raise _Refusal(NO_CONNECTION, again=True) from None
        finally:
            shard.busy -= 1
        return Answer(body=data, latency_ms=1000 * (time.perf_counter() - started), retries=retries)

    def _place(self, path: str) -> httpx.URL:
        """The address of a path; parsing it takes as long as sending to it."""
        import httpx

        self._urls[path] = httpx.URL(self._url + path)
        return self._urls[path]

    async def _body(self, response: httpx.Response) -> bytes:
        """The bytes of a 200."""
        try:
            await self._accept(response)
            most, parts, size = self.limits.largest_answer, [], 0
            async for part in response.stream:  # type: ignore[union-attr]  # an asynchronous transport's is one
                parts.append(part)
                size += len(part)
                if size > most:
                    raise _Refusal(f"the answer is larger than {most / 2**20:g} MB", again=False)
            return self._struck(b"".join(parts))
        finally:
            await response.stream.aclose()  # type: ignore[union-attr]

    async def _accept(self, response: httpx.Response) -> None:
        """Raise why an answer is none, if so, with the beginning of what the server wrote."""
        import httpx

        refusal = _refusal(response.status_code, response.headers)
        if refusal is None:
            return
        with suppress(TimeoutError, httpx.TransportError):
            if refusal.status is None:
                raise refusal
            async with asyncio.timeout(_LISTENING):
                async for part in response.stream:  # type: ignore[union-attr]  # an asynchronous transport's is one
                    refusal.said += part
                    if len(refusal.said) >= _MOST_SAID:
                        break
        refusal.said = self._struck(refusal.said)[:_MOST_SAID]
        raise refusal

    def _struck(self, body: bytes) -> bytes:
        for key in self._keys:
            body = body.replace(key, _STRUCK)
        return body


class _Shard:
    """A few connections, with a pool of their own."""

    def __init__(self) -> None:
        import httpx

        limits = httpx.Limits(max_connections=_SHARD, max_keepalive_connections=_SHARD)
        self.transport = httpx.AsyncHTTPTransport(verify=_trusted(), limits=limits, trust_env=False)
        self.busy = 0

    def load(self) -> int:
        return self.busy


def asked_to_wait(header: str | None) -> float | None:
    """The seconds that a Retry-After header asks for, as a number or as a date; None where it does not."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
        return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _refusal(status: int, headers: Mapping[str, str]) -> _Refusal | None:
    """Why an answer is none, if so."""
    if status == HTTPStatus.OK:
        if headers.get("Content-Encoding", "identity").lower() != "identity":
            return _Refusal("the answer is compressed, which was not asked for", again=False)
        return None
    known = status in HTTPStatus.__members__.values()
    reason = f"status {status}" + (f" ({HTTPStatus(status).phrase})" if known else "")
    if 300 <= status < 400:
        reason += ": redirects are not followed; give the final address as base_url"
    wait = asked_to_wait(headers.get("Retry-After"))
    return _Refusal(reason, status, again=status in AGAIN or status >= 500, wait=wait)


def _keys_in(headers: Mapping[str, str]) -> tuple[bytes, ...]:
    """The keys that headers carry."""
    stated = (value.removeprefix("Bearer ") for name, value in headers.items() if name.lower() in KEY_HEADERS)
    return tuple(key.encode() for key in stated if len(key) >= _SHORTEST_KEY)


def _address(base_url: str, kind: str) -> tuple[str, str]:
    """Where to ask, and how to call it in errors."""
    import httpx

    try:
        url = httpx.URL(base_url.rstrip("/"))
    except (httpx.InvalidURL, ValueError):
        raise UsageError(f"the {kind}'s address is not a URL; http://host:port/v1 is expected") from None
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise UsageError(f"the {kind}'s address must be like http://host:port/v1 or https://host/v1")
    if url.userinfo:
        raise UsageError(f"the {kind}'s address holds a password; give it as the API key instead")
    return str(url).rstrip("/"), printable(f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}")


@cache
def _trusted() -> ssl.SSLContext:
    """Whose certificates are trusted; reading them takes longer than a request to this machine."""
    import httpx

    return httpx.create_ssl_context()
