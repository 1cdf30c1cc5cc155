"""A model server of its own process on this machine that answers as it is told, and logs every call.

    python -m tests.support.model_server LOG [--labels yes,no] [--delay 0.02]

It prints its address once it listens, and ends when its standard input is closed. What it does with a request stands in
the prompt, `[[mode=flaky id=17 times=2]]`, or in the path, `http://host:port/flaky/v1`; `MODES` lists what there is. A
reply has 200 to 2,000 characters, is made from the prompt alone, begins with the prompt's digest and ends with an
`Answer:` line. A line of the log is a call: `{"path", "mode", "id", "status", "keys"}`, without texts.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

from tests.support.places import ROOT

REASONS = {200: "OK", 302: "Found", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}
DIRECTIVE = re.compile(r"\[\[(.*?)\]\]")


@dataclass(frozen=True)
class Call:
    """A request, what its prompt asks the server to do, and how often its like came before."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    orders: dict[str, str]
    before: int
    writer: asyncio.StreamWriter
    delay: float
    labels: tuple[str, ...]

    @property
    def prompt(self) -> str:
        return "\n".join(str(message["content"]) for message in self.body.get("messages", ()))


Answer = tuple[int, dict[str, str], bytes]
Mode = Callable[[Call], "Answer | Awaitable[Answer | None]"]
MODES: dict[str, Mode] = {}


def mode(function: Mode) -> Mode:
    MODES[function.__name__.removesuffix("_")] = function  # type: ignore[attr-defined]
    return function


def text_of(prompt: str, labels: tuple[str, ...] = ("yes", "no")) -> str:
    """What the model says to a prompt: always the same to the same, and never the same to another."""
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    stated = DIRECTIVE.search(prompt)
    orders = _orders(stated.group(1)) if stated else {}
    label = orders.get("answer", labels[int(digest[:8], 16) % len(labels)])
    size = 200 + int(digest[8:16], 16) % 1_800
    ending = f"\nAnswer: {label}"
    filling = (f"{digest} " + "because the values say so, " * 80)[: size - len(ending)]
    return filling + ending


def chat(call: Call, **changes: Any) -> bytes:
    """The document of an answer."""
    text = text_of(call.prompt, call.labels)
    message = {"role": "assistant", "content": text}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "stop"}
    if call.body.get("logprobs"):
        most = int(call.body.get("top_logprobs") or 0)
        top = [{"token": f"t{rank}", "logprob": -0.5 - rank} for rank in range(most)]
        choice["logprobs"] = {
            "content": [{"token": part, "logprob": -0.5, "top_logprobs": top} for part in re.findall(r"\s*\S+", text)]
        }
    document = {
        "object": "chat.completion",
        "model": call.body.get("model"),
        "choices": [choice],
        "usage": {"prompt_tokens": len(call.prompt.split()), "completion_tokens": len(text.split())},
    }
    return json.dumps({**document, **changes}).encode()


def told(call: Call, **message: Any) -> Answer:
    """An answer with another message."""
    return 200, {}, chat(call, choices=[{"index": 0, "finish_reason": "stop", "message": message}])


def problem(status: int, call: Call, **headers: str) -> Answer:
    """An error that echoes what was sent, as servers do."""
    echo = {"error": {"message": f"bad: {call.prompt} {call.headers.get('authorization')}"}}
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(echo).encode()


def until_last(call: Call, answer: Answer) -> Answer:
    """That answer as many times as ordered, once if nothing is said, then a good one."""
    return answer if call.before < int(call.orders.get("times", 1)) else echo(call)  # type: ignore[return-value]


@mode
def echo(call: Call) -> Answer:
    return 200, {}, chat(call)


@mode
def no_models(call: Call) -> Answer:
    """An answer, from a server that does not list its models."""
    return echo(call)  # type: ignore[return-value]


@mode
def flaky(call: Call) -> Answer:
    return until_last(call, problem(int(call.orders.get("status", 500)), call))


@mode
def busy(call: Call) -> Answer:
    """429 with a Retry-After as ordered: seconds, `past`, `future` or `absurd` dates, or nonsense."""
    stated = call.orders.get("after", "0")
    dates = {"past": -3600.0, "future": 1.0, "absurd": 1e9}
    after = formatdate(time.time() + dates[stated], usegmt=True) if stated in dates else stated
    return until_last(call, problem(429, call, Retry_After=after))


@mode
def status(call: Call) -> Answer:
    return problem(int(call.orders["status"]), call)


@mode
def unauthorized(call: Call) -> Answer:
    return problem(401, call)


@mode
def html(call: Call) -> Answer:
    return 200, {"Content-Type": "text/html"}, f"<html><body>{call.prompt}</body></html>".encode()


@mode
def truncated(call: Call) -> Answer:
    whole = chat(call)
    return 200, {}, whole[: len(whole) // 2]


@mode
def no_choices(call: Call) -> Answer:
    return 200, {}, chat(call, choices=[])


@mode
def null(call: Call) -> Answer:
    return told(call, content=None, role="assistant")


@mode
def numbers(call: Call) -> Answer:
    return told(call, content=7, role="assistant")


@mode
def cut(call: Call) -> Answer:
    message = {"role": "assistant", "content": "It may be th"}
    return 200, {}, chat(call, choices=[{"index": 0, "finish_reason": "length", "message": message}])


@mode
def thinking(call: Call) -> Answer:
    return told(call, content=text_of(call.prompt), reasoning_content="Let me think.", role="assistant")


@mode
def other_model(call: Call) -> Answer:
    """An answer of another model than was asked, or as the orders name it."""
    return 200, {}, chat(call, model=call.orders.get("named", "cheaper"))


@mode
def counted(call: Call) -> Answer:
    """An answer with these counts of tokens, as they are written: `-3`, `NaN`, `400digits`."""
    stated = call.orders.get("count") or call.path.split("/")[2]
    whole = chat(call, usage={"prompt_tokens": 7, "completion_tokens": "STATED"}).decode()
    return 200, {}, whole.replace('"STATED"', "9" * 400 if stated == "400digits" else stated).encode()


@mode
def twice(call: Call) -> Answer:
    """An answer that says the same key twice."""
    return 200, {}, b'{"model": "first", ' + chat(call)[1:]


@mode
def format_refused(call: Call) -> Answer:
    return problem(400, call) if "response_format" in call.body else echo(call)  # type: ignore[return-value]


@mode
def elsewhere(call: Call) -> Answer:
    return problem(307, call, Location=call.orders["to"].replace("~", "://") + call.path)


@mode
async def drip(call: Call) -> None:
    """A byte now and then, for ever."""
    call.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        call.writer.write(b" ")
        await call.writer.drain()
        await asyncio.sleep(0.01)


@mode
async def drip_head(call: Call) -> None:
    call.writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(1_000_000):
        call.writer.write(b"X-%d: y\r\n" % number)
        await call.writer.drain()
        await asyncio.sleep(0.01)


@mode
async def silent(call: Call) -> None:
    await asyncio.Event().wait()


@mode
async def oversized(call: Call) -> None:
    """A body that does not say how long it is, and is long."""
    call.writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(int(call.orders.get("times", 1_000))):
        call.writer.write(b"10000\r\n%s\r\n" % (b" " * 65_536))
        await call.writer.drain()
    call.writer.write(b"0\r\n\r\n")


@mode
async def reset(call: Call) -> Answer | None:
    """The connection breaks off as many times as ordered."""
    if call.before < int(call.orders.get("times", 1)):
        call.writer.transport.abort()
        return None
    return 200, {}, chat(call)


@mode
async def random_(call: Call) -> Answer:
    await asyncio.sleep(random.uniform(0, call.delay or 0.02))
    return 200, {}, chat(call)


@mode
async def mixed(call: Call) -> Answer | None:
    """Whatever a bad day brings, decided by the prompt: busy, down, cut off, late, or an answer at once."""
    kind = int(hashlib.sha256(call.prompt.encode()).hexdigest()[-4:], 16) % 8
    if kind == 0:
        return busy(call)  # type: ignore[return-value]
    if kind == 1:
        return flaky(call)  # type: ignore[return-value]
    if kind == 2:
        return await reset(call)  # type: ignore[misc]
    return await random_(call)  # type: ignore[misc]


# -- HTTP ---------------------------------------------------------------------------------------------------------


def _orders(text: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in text.split())


@dataclass
class Serving:
    log: Path
    delay: float
    labels: tuple[str, ...]
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").rstrip().split("\r\n")
                method, path, _ = first.split(" ")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                raw = await reader.readexactly(int(headers.get("content-length", 0)))
                if not await self._reply(method, path, headers, json.loads(raw) if raw else {}, writer):
                    break
                await writer.drain()
        with suppress(ConnectionError):
            writer.close()

    async def _reply(
        self, method: str, path: str, headers: dict[str, str], body: dict[str, Any], writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; whether the connection can take another."""
        prompt = "\n".join(str(message["content"]) for message in body.get("messages", ()))
        stated = DIRECTIVE.search(prompt)
        orders = _orders(stated.group(1)) if stated else {}
        in_path = path.split("/")[1]
        name = orders.get("mode") or (in_path if in_path in MODES else "echo")
        like = hashlib.sha256((name + prompt).encode()).hexdigest()
        call = Call(method, path, headers, body, orders, self.seen[like], writer, self.delay, self.labels)
        self.seen[like] += 1
        if path.endswith("/models"):
            answer: Answer | None = (200, {}, json.dumps({"data": [{"id": "known"}]}).encode())
            answer = (404, {}, b"{}") if name == "no_models" else answer
        elif not path.endswith("/chat/completions") or name not in MODES:
            answer = problem(404, call)
        else:
            made = MODES[name](call)
            self._write_down(call, name, made[0] if isinstance(made, tuple) else 0)
            answer = made if isinstance(made, tuple) else await made
        if answer is None:
            return False
        code, added, data = answer
        lines = {"Content-Type": "application/json", "Content-Length": str(len(data)), **added}
        head = f"HTTP/1.1 {code} {REASONS.get(code, 'Status')}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
        writer.write(head.encode() + b"\r\n" + data)
        return True

    def _write_down(self, call: Call, name: str, code: int) -> None:
        entry = {
            "path": call.path,
            "mode": name,
            "id": call.orders.get("id"),
            "prompt": hashlib.sha256(call.prompt.encode()).hexdigest(),
            "status": code,
            "authorized": "authorization" in call.headers,
            "keys": sorted(call.body),
        }
        os.write(self._log, json.dumps(entry).encode() + b"\n")


async def _serve(serving: Serving) -> None:
    server = await asyncio.start_server(serving.connected, "127.0.0.1", 0, limit=2**24, backlog=1_024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # some modes never end


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--labels", default="yes,no")
    parser.add_argument("--delay", type=float, default=0.0)
    given = parser.parse_args()
    asyncio.run(_serve(Serving(given.log, given.delay, tuple(given.labels.split(",")))))


# -- for tests ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelServer:
    """A running server: where it is, and what was asked of it."""

    address: str
    log: Path

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    def at(self, name: str) -> str:
        """The base URL under which every request is answered in this mode."""
        return f"{self.address}/{name}/v1"

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


@contextmanager
def model_server(folder: Path, *options: str) -> Iterator[ModelServer]:
    """A server as a process of its own, with its log in a folder."""
    log = folder / "calls.jsonl"
    command = [sys.executable, "-m", "tests.support.model_server", str(log), *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield ModelServer(process.stdout.readline().strip(), log)
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    main()
