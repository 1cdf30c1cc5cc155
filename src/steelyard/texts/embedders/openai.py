"""Embeddings from a server that speaks OpenAI's protocol: OpenAI itself, or Ollama, vLLM, llama.cpp and others.

    embedder("openai:text-embedding-3-small", api_key=key, cache="vectors")
    embedder("openai:nomic-embed-text", base_url="http://localhost:11434/v1")

Answers that may be better next time (429, 5xx, no answer, no connection) are asked for again, with growing waits. An
error says the status and a reason of our own: never the texts, the key, or what the server wrote, which may echo both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from os import PathLike

import msgspec
import numpy as np

from steelyard.errors import BackendError, InputError, UsageError, counted, printable
from steelyard.ground.http import FailedRequestError, Limits, Server
from steelyard.ground.keys import bearer
from steelyard.ground.loops import Loop
from steelyard.texts.embedders.cache import Cached
from steelyard.texts.embedders.contract import Embedder, Progress, embedders
from steelyard.texts.vectors import Matrix, checked

ADDRESS = "https://api.openai.com/v1"
BATCH = 64
TIMEOUT = 30.0
RETRIES = 5
LONGEST_WAIT = 60.0
LARGEST_ANSWER = 256 * 2**20  # bytes
_HINTS = {
    400: "; the model may not take texts this long: cut them with a chunk size",
    404: "; check the address and the model's name",
    413: "; cut long texts with a chunk size, or send fewer at once",
}


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Item]


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
        limits = Limits(
            in_flight=1,
            retries=retries,
            deadline=inf,
            attempt=timeout,
            longest_wait=longest_wait,
            largest_answer=LARGEST_ANSWER,
        )
        headers = {} if api_key is None else bearer(api_key)
        self._server = Server(base_url, headers=headers, limits=limits, kind="embedding server")
        self._batch, self._dimensions = batch, dimensions

    def __repr__(self) -> str:
        return f"<OpenAI {printable(self.model)} at {self._server.name}>"

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
        with Loop() as loop:
            loop.run(self._server.__aenter__())
            try:
                for start in range(0, len(texts), self._batch):
                    part = list(texts[start : start + self._batch])
                    answer = loop.run(self._asked(part))
                    vectors = self._vectors(answer, len(part), f"{what} '{printable(ids[start])}'")
                    size = size or vectors.shape[1]
                    if vectors.shape[1] != size:
                        raise self._error("vectors differ in size from one answer to the next")
                    yield vectors
            finally:
                loop.run(self._server.__aexit__(None, None, None))

    async def _asked(self, texts: list[str]) -> bytes:
        request: dict[str, object] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self._dimensions is not None:
            request["dimensions"] = self._dimensions
        try:
            return (await self._server.post("/embeddings", msgspec.json.encode(request))).body
        except FailedRequestError as problem:
            raise BackendError(str(problem) + _HINTS.get(problem.status or 0, "")) from None

    def _vectors(self, answer: bytes, rows: int, first: str) -> Matrix:
        """The vectors of an answer in the order of the texts."""
        try:
            items = sorted(msgspec.json.decode(answer, type=_Answer).data, key=lambda item: item.index)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # validation problems among them
            raise self._error("the answer is not the JSON of embeddings that was asked for") from None
        if [item.index for item in items] != list(range(rows)):
            raise self._error(
                f"the answer has not one vector for each of {counted(rows, 'text')}; an index is missing or twice"
            )
        sizes = {len(item.embedding) for item in items}
        if len(sizes) > 1 or (self._dimensions is not None and sizes != {self._dimensions}):
            expected = "one size" if self._dimensions is None else f"the {self._dimensions} numbers asked for"
            raise self._error(f"the vectors have {', '.join(map(str, sorted(sizes)))} numbers, not {expected}")
        try:
            return checked([item.embedding for item in items], f"the answer for {first} and the texts after it")
        except InputError as problem:
            raise self._error(problem.problem) from None

    def _error(self, problem: str) -> BackendError:
        return BackendError(f"{self._server.name}: {problem}")


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
