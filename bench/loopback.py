"""How many requests per second a chat server on this machine is asked, against a bare loop on 8 × 8 connections.

The server is a process of its own and answers at once with 200 to 2,000 characters. One client of httpx for all 64
connections would be several times slower than the peer here: it looks through all of them for every request.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import msgspec

from bench import asking
from steelyard.ground.http import Limits, Server
from steelyard.ground.journal import Journal
from steelyard.runner.backends import Inference, Message, Options, Request, backends
from tests.support.model_server import model_server

REQUESTS = 2_000
CLIENTS, CONNECTIONS = 8, 8
ROUNDS = 3
_IN_FLIGHT = CLIENTS * CONNECTIONS
_QUESTION = "Which of these is it? " + "A value of the patient, as it was measured. " * 20
_REQUEST = Request(model="m", messages=(Message(role="user", content=_QUESTION),), inference=Inference(temperature=0))
_BODY = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": _QUESTION}], "temperature": 0})


def rows() -> list[tuple[str, float, float]]:
    """(job, seconds of ours, seconds of the bare loop), taking turns in this process."""
    jobs: dict[str, Callable[[str, Path], Coroutine[Any, Any, float] | float]] = {
        f"{REQUESTS:,} requests to a server that answers at once, 64 in flight": _ours,
        "the same as replies, each in the journal": _journaled,
        "the same as a run: prompts, cache, journal, replies read": _run,
    }
    with tempfile.TemporaryDirectory() as folder, model_server(Path(folder)) as server:
        least = dict.fromkeys([*jobs, ""], float("inf"))
        for _ in range(ROUNDS):
            for job, work in {**jobs, "": _bare}.items():
                seconds = work(server.base_url, Path(folder))
                least[job] = min(least[job], asyncio.run(seconds) if isinstance(seconds, Coroutine) else seconds)
    return [(job, least[job], least[""]) for job in jobs]


async def _bare(url: str, _: Path) -> float:
    trusted = httpx.create_ssl_context()
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    async with AsyncExitStack() as stack:
        clients = [httpx.AsyncClient(verify=trusted, limits=limits, trust_env=False) for _ in range(CLIENTS)]
        for client in clients:
            await stack.enter_async_context(client)
        turn = iter(clients * CONNECTIONS)

        async def one(client: httpx.AsyncClient) -> None:
            headers = {"Content-Type": "application/json"}
            answer = await client.post(f"{url}/chat/completions", content=_BODY, headers=headers)
            msgspec.json.decode(answer.content)

        return await _seconds(lambda: _repeated(one, next(turn)))


async def _ours(url: str, _: Path) -> float:
    async with Server(url, limits=Limits(in_flight=_IN_FLIGHT)) as server:

        async def one(_: object) -> None:
            msgspec.json.decode((await server.post("/chat/completions", _BODY)).body)

        return await _seconds(lambda: _repeated(one, None))


async def _journaled(url: str, folder: Path) -> float:
    options = Options(base_url=url, limits=Limits(in_flight=_IN_FLIGHT))
    with Journal(folder / "journal") as journal:
        async with backends["openai"].open(options) as backend:

            async def one(_: object) -> None:
                reply = await backend.ask(_REQUEST)
                assert not reply.failure
                journal.append({"item": "q", "reply": reply.document()})

            return await _seconds(lambda: _repeated(one, None))


def _run(url: str, folder: Path) -> float:
    return asking.seconds(asking.spec_of(folder, {"name": "m", "base_url": url}, items=REQUESTS), folder)


async def _repeated(one: Callable[[Any], Awaitable[None]], given: Any) -> None:
    for _ in range(REQUESTS // _IN_FLIGHT):
        await one(given)


async def _seconds(worker: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(_IN_FLIGHT)))
    return time.perf_counter() - started


def main() -> None:
    for job, ours, bare in rows():
        print(f"{job}: {REQUESTS / ours:,.0f} a second, {bare / ours:.2f}x the bare loop's {REQUESTS / bare:,.0f}")


if __name__ == "__main__":
    main()
