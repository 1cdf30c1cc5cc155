"""Embeddings from a server that speaks OpenAI's protocol: OpenAI itself, or Ollama, vLLM, llama.cpp and others.

    embedder("openai:text-embedding-3-small", api_key=key, cache="vectors")
    embedder("openai:nomic-embed-text", base_url="http://localhost:11434/v1")

Answers that may be better next time (429, 5xx, no answer, no connection) are asked for again, with growing waits. An
error says the status and a reason of our own: never the texts, the key, or what the server wrote, which may echo both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from os import PathLike
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from steelyard.errors import BackendError, InputError, UsageError, printable
from steelyard.retrieval.embedders.cache import Cached
from steelyard.retrieval.embedders.contract import Embedder, Progress, embedders
from steelyard.retrieval.vectors import Matrix, checked

if TYPE_CHECKING:
    import ssl

    import httpx

ADDRESS = "https://api.openai.com/v1"
BATCH = 64
TIMEOUT = 30.0
RETRIES = 5
LONGEST_WAIT = 60.0
LARGEST_ANSWER = 256 * 2**20  # bytes
_HINTS = {
    400: "; the model may not take texts this long: cut them with a chunk size",
    401: "; check the API key",
    403: "; check the API key",
    404: "; check the address and the model's name",
    413: "; cut long texts with a chunk size, or send fewer at once",
}


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Item]


class _Again(Exception):  # noqa: N818 - a reason to ask again, not an error yet
    """The server may do better next time; `wait` says when it wants to be asked."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.wait = reason, wait


class _Connection:
    """A client that is replaced by a new one where it had to be given up."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._client: httpx.Client | None = None

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *problem: object) -> None:
        self._close()

    @contextmanager
    def answer(self, url: str, body: bytes, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """The answer once its head is there; a server that drips its head is not waited for."""
        import httpx

        if self._client is None:
            self._client = httpx.Client(timeout=self._timeout, follow_redirects=False, verify=_trusted())
        request = self._client.build_request("POST", url, content=body, headers=headers)
        with ThreadPoolExecutor(1) as sender:
            sending = sender.submit(self._client.send, request, stream=True)
            try:
                response = sending.result(self._timeout + 1)  # the client's own limit is for a single read
            except FutureTimeout:
                self._close()  # its thread fails at the next byte
                raise
        try:
            yield response
        finally:
            response.close()

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None


class OpenAI:
    """Asks a server for the vectors of a batch of texts at a time."""

    provider = "openai"

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None,
        batch: int,
        timeout: float,
        dimensions: int | None,
        retries: int,
        longest_wait: float,
    ) -> None:
        self.model = model
        self._url, self._server = _address(base_url)
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # a few bytes may unpack to more than there is memory
        }
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {_key(api_key)}"
        self._batch, self._timeout, self._dimensions = batch, timeout, dimensions
        self._retries, self._longest_wait = retries, longest_wait

    def __repr__(self) -> str:
        return f"<OpenAI {printable(self.model)} at {self._server}>"

    def embed(self, ids: Sequence[str], texts: Sequence[str], *, what: str, progress: Progress | None = None) -> Matrix:
        parts: list[Matrix] = []
        for part in self.batches(ids, texts, what=what):
            parts.append(part)
            if progress is not None:
                progress(sum(map(len, parts)) / len(texts))
        joined: Matrix = np.concatenate(parts, dtype=np.float64)
        return joined

    def batches(self, ids: Sequence[str], texts: Sequence[str], *, what: str) -> Iterator[Matrix]:
        """The same vectors, one matrix per answer of the server."""
        size = None
        with _Connection(self._timeout) as client:
            for start in range(0, len(texts), self._batch):
                part = list(texts[start : start + self._batch])
                vectors = self._vectors(self._asked(client, part), len(part), f"{what} '{printable(ids[start])}'")
                size = size or vectors.shape[1]
                if vectors.shape[1] != size:
                    raise self._error("vectors differ in size from one answer to the next")
                yield vectors

    def _asked(self, client: _Connection, texts: list[str]) -> bytes:
        """The server's answer, after as many attempts as it takes and the settings allow."""
        import stamina

        request: dict[str, object] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self._dimensions is not None:
            request["dimensions"] = self._dimensions
        body = msgspec.json.encode(request)
        attempts = stamina.retry_context(
            on=self._wait,
            attempts=self._retries + 1,
            timeout=None,
            wait_initial=min(0.5, self._longest_wait),
            wait_jitter=min(1.0, self._longest_wait),
            wait_max=self._longest_wait,
        )
        try:
            for attempt in attempts:
                with attempt:
                    return self._answer(client, body)
        except _Again as problem:
            raise self._error(f"{problem.reason}; gave up after {self._retries + 1} attempts") from None
        raise AssertionError

    def _wait(self, problem: Exception) -> bool | float:
        """True to ask again, or after how many seconds; False to give up."""
        if not isinstance(problem, _Again):
            return False
        return True if problem.wait is None else min(problem.wait, self._longest_wait)

    def _answer(self, client: _Connection, body: bytes) -> bytes:
        import httpx

        try:
            end = time.monotonic() + self._timeout
            with client.answer(self._url, body, self._headers) as response:
                self._accept(response.status_code, response.headers)
                if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                    raise self._error("the answer is compressed, which was not asked for")
                parts, size = [], 0
                for part in response.iter_raw():
                    parts.append(part)
                    size += len(part)
                    if size > LARGEST_ANSWER:
                        raise self._error(f"the answer is larger than {LARGEST_ANSWER // 2**20} MB")
                    if time.monotonic() > end:  # a server that drips never runs into the client's own limit
                        raise _Again(self._too_slow())
                return b"".join(parts)
        except (httpx.TimeoutException, FutureTimeout):
            raise _Again(self._too_slow()) from None
        except httpx.TransportError:
            raise _Again("cannot be reached, or the connection broke off") from None
        except httpx.HTTPError:
            raise self._error("the answer cannot be decoded") from None

    def _too_slow(self) -> str:
        return f"no answer within {self._timeout:g} s"

    def _accept(self, status: int, headers: Mapping[str, str]) -> None:
        if status == HTTPStatus.OK:
            return
        known = status in HTTPStatus.__members__.values()
        reason = f"status {status}" + (f" ({HTTPStatus(status).phrase})" if known else "")
        if status == HTTPStatus.TOO_MANY_REQUESTS or status >= 500:
            raise _Again(reason, asked_to_wait(headers.get("Retry-After")))
        if 300 <= status < 400:
            raise self._error(f"{reason}: redirects are not followed; give the final address as base_url")
        raise self._error(reason + _HINTS.get(status, ""))

    def _vectors(self, answer: bytes, rows: int, first: str) -> Matrix:
        """The vectors of an answer in the order of the texts."""
        try:
            items = sorted(msgspec.json.decode(answer, type=_Answer).data, key=lambda item: item.index)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # validation problems among them
            raise self._error("the answer is not the JSON of embeddings that was asked for") from None
        if [item.index for item in items] != list(range(rows)):
            raise self._error(f"the answer has not one vector for each of {rows} texts; an index is missing or twice")
        sizes = {len(item.embedding) for item in items}
        if len(sizes) > 1 or (self._dimensions is not None and sizes != {self._dimensions}):
            expected = "one size" if self._dimensions is None else f"the {self._dimensions} numbers asked for"
            raise self._error(f"the vectors have {', '.join(map(str, sorted(sizes)))} numbers, not {expected}")
        try:
            return checked([item.embedding for item in items], f"the answer for {first} and the texts after it")
        except InputError as problem:
            raise self._error(problem.problem) from None

    def _error(self, problem: str) -> BackendError:
        return BackendError(f"the embedding server {self._server}: {problem}")


@cache
def _trusted() -> ssl.SSLContext:
    """Whose certificates are trusted; reading them takes longer than a request to this machine."""
    import httpx

    return httpx.create_ssl_context()


def asked_to_wait(header: str | None) -> float | None:
    """The seconds that a Retry-After header asks for, as a number or as a date; None where it does not."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _address(base_url: str) -> tuple[str, str]:
    """Where to ask, and how to call it in errors."""
    import httpx

    try:
        url = httpx.URL(base_url.rstrip("/") + "/embeddings")
    except (httpx.InvalidURL, ValueError):
        raise UsageError("the embedding server's address is not a URL; http://host:port/v1 is expected") from None
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise UsageError("the embedding server's address must be like http://host:port/v1 or https://host/v1")
    if url.userinfo:
        raise UsageError("the embedding server's address holds a password; give it as the API key instead")
    return str(url), printable(f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}")


def _key(api_key: str) -> str:
    """A key that a header can carry; the library's own error would show it."""
    stripped = api_key.strip()
    if not stripped or not stripped.isascii() or not stripped.isprintable():
        raise UsageError("the API key is empty or has characters that no header can carry; copy it again")
    return stripped


def factory(
    argument: str,
    *,
    base_url: str = ADDRESS,
    api_key: str | None = None,
    batch: int = BATCH,
    timeout: float = TIMEOUT,
    dimensions: int | None = None,
    retries: int = RETRIES,
    longest_wait: float = LONGEST_WAIT,
    cache: str | PathLike[str] | None = None,
) -> Embedder:
    """`longest_wait` bounds the seconds before each further attempt; `cache` is a folder that keeps the vectors."""
    if not argument.strip():
        raise UsageError("openai: names a model, as in openai:text-embedding-3-small")
    for name, value, least in (("batch", batch, 1), ("dimensions", dimensions, 1), ("retries", retries, 0)):
        if value is not None and value < least:
            raise UsageError(f"{name} must be at least {least}")
    if not timeout > 0 or not longest_wait >= 0:
        raise UsageError("timeout must be above 0 seconds, and longest_wait not below")
    embedder = OpenAI(
        argument,
        base_url=base_url,
        api_key=api_key,
        batch=batch,
        timeout=timeout,
        dimensions=dimensions,
        retries=retries,
        longest_wait=longest_wait,
    )
    if cache is None:
        return embedder
    identity = ("openai", base_url.rstrip("/"), argument, str(dimensions or ""))
    return Cached(embedder, cache, identity=identity)


embedders.add("openai", factory)
