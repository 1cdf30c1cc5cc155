"""A model in a GGUF file, run by llama.cpp in a process of its own: there is no server to install or to start.

    models:
      - {name: qwen3-4b, backend: llama_cpp, options: {gguf: models/qwen3-4b.gguf, n_ctx: 8192}}

`gguf` is a file, relative to the spec; `n_ctx` how many tokens a question and its answer may have together (4,096);
`threads` how many threads compute (as many as llama.cpp thinks right); `gpu_layers` how many layers go to a graphics
card, where the installed build has one (0). Needs the extra `local`. The process listens on the loopback, wants a key
that is made for it, keeps no prompt from one question to the next, and ends with whoever started it, however that ends.
All models of a spec are in memory at the same time.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from steelyard.errors import BackendError, InputError, UsageError, printable
from steelyard.ground.digests import file_digest
from steelyard.ground.files import reason
from steelyard.ground.http import Limits, Server
from steelyard.ground.keys import bearer
from steelyard.runner import llama_process
from steelyard.runner.backends.chat import tried
from steelyard.runner.backends.contract import Finding, Options, Reply, Request, backends
from steelyard.runner.backends.openai import OpenAI

CONTEXT = 4_096  # tokens
MOST_SLOTS = 4  # questions at once; each has a context of its own in memory
LOADING = 1_800.0  # seconds until a model that is not there yet is given up
ENDING = 5.0  # seconds
_MAGIC = b"GGUF"
_LEAST = {"n_ctx": 64, "threads": 1, "gpu_layers": 0}


@dataclass(frozen=True, kw_only=True)
class _Setting:
    """How a model is run."""

    gguf: Path
    context: int
    threads: int | None
    gpu_layers: int

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        """All that may change an answer: the file by what is in it, wherever it is."""
        stated = {"context": self.context, "threads": self.threads, "gpu_layers": self.gpu_layers}
        return {"gguf": file_digest(self.gguf), "xllamacpp": version("xllamacpp"), **stated}


class LlamaCpp:
    """One model in a process of its own."""

    computes_here: ClassVar = True

    def __init__(self, setting: _Setting, limits: Limits) -> None:
        self._setting = setting
        # more questions than it takes at once wait here, where waiting does not count against the deadline
        self._limits = replace(limits, in_flight=min(limits.in_flight, MOST_SLOTS))
        self._child: subprocess.Popen[str] | None = None
        self._chat: OpenAI | None = None

    def __repr__(self) -> str:
        return f"<llama.cpp with {printable(self._setting.gguf.name)}>"

    @classmethod
    def open(cls, options: Options) -> Self:
        options.refuse("llama_cpp", "base_url", "api_key_env")
        given = options.known("llama_cpp", "gguf", *_LEAST)
        name = given.get("gguf")
        if not isinstance(name, str) or not name:
            raise UsageError("the backend 'llama_cpp' needs the option gguf, the path of a GGUF file")
        for option, least in _LEAST.items():
            value = given.get(option, least)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UsageError(f"the option {option} of the backend 'llama_cpp' is a whole number, at least {least}")
        if find_spec("xllamacpp") is None:
            raise UsageError(
                "the backend 'llama_cpp' needs llama.cpp for Python, which is not installed: "
                'pip install "steelyard[local]"'
            )
        setting = _Setting(
            gguf=_looked_at(options.folder / name),
            context=given.get("n_ctx", CONTEXT),
            threads=given.get("threads"),
            gpu_layers=given.get("gpu_layers", 0),
        )
        return cls(setting, options.limits)

    async def __aenter__(self) -> Self:
        key = secrets.token_urlsafe()
        self._child = subprocess.Popen(
            [sys.executable, "-P", llama_process.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C is for whoever asks; this ends when nobody asks any more
        )
        try:
            address = await self._loaded(self._child, key)
            server = Server(f"{address}/v1", headers=bearer(key), limits=self._limits, kind="process of llama.cpp")
            self._chat = OpenAI(server, base_url="", added={"cache_prompt": False})
            self._chat.asks_by_name = False
            await self._chat.__aenter__()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._chat is not None:
            await self._chat.__aexit__(kind, problem, trace)
        await self._end()

    async def _loaded(self, child: subprocess.Popen[str], key: str) -> str:
        """Where the model can be asked, once it is in memory."""
        setting = self._setting
        asked = {
            "gguf": str(setting.gguf),
            "key": key,
            "context": setting.context,
            "slots": self._limits.in_flight,
            "threads": setting.threads,
            "gpu_layers": setting.gpu_layers,
        }
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(BrokenPipeError):
            child.stdin.write(json.dumps(asked) + "\n")
            child.stdin.flush()
        name = printable(setting.gguf.name)
        try:
            async with asyncio.timeout(LOADING):
                line = await asyncio.to_thread(child.stdout.readline)
        except TimeoutError:
            raise BackendError(f"llama.cpp did not load {name} within {LOADING / 60:g} minutes") from None
        answer = json.loads(line) if line else {}
        if "address" not in answer:
            raise BackendError(
                f"llama.cpp cannot load {name}: it is damaged, of a kind that this llama.cpp does not know, or larger "
                "than the memory that is left. Try a smaller n_ctx, or the file with another program"
            )
        return str(answer["address"])

    async def _end(self) -> None:
        """End the process, and wait until it has ended."""
        child = self._child
        if child is None:
            return
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(BrokenPipeError):
            child.stdin.close()
        try:
            await asyncio.to_thread(child.wait, ENDING)
        except subprocess.TimeoutExpired:
            child.kill()
            await asyncio.to_thread(child.wait)
        child.stdout.close()

    def identity(self) -> Mapping[str, Any]:
        return {"backend": "llama_cpp", **self._setting.identity}

    def counts(self) -> Mapping[str, int]:
        return {} if self._chat is None else self._chat.counts()

    async def ask(self, request: Request) -> Reply:
        assert self._chat is not None
        reply = await self._chat.ask(request)
        if reply.failure and self._child is not None and self._child.poll() is not None:
            raise BackendError(
                f"the process of llama.cpp with {printable(self._setting.gguf.name)} has ended by itself; "
                "perhaps there was no memory left. Try a smaller n_ctx or fewer questions at once"
            )
        return reply

    async def check(self, model: str) -> tuple[Finding, ...]:
        loaded = f"llama.cpp has loaded {printable(self._setting.gguf.name)}"
        asked = await tried(self, f"llama.cpp with {printable(self._setting.gguf.name)}", model)
        return (Finding(about="model", level="ok", text=loaded), *asked)


def _looked_at(path: Path) -> Path:
    """The whole path of a file, if it begins as a GGUF does."""
    try:
        with path.open("rb") as file:
            begins = file.read(len(_MAGIC))
    except OSError as problem:
        why = f"cannot read it ({reason(problem)}); gguf is the path of a model, relative to the spec"
        raise InputError(why, file=str(path)) from None
    if begins != _MAGIC:
        raise InputError("it is not a GGUF file, the form in which llama.cpp reads models", file=str(path))
    return path.resolve()


backends.add("llama_cpp", LlamaCpp)
