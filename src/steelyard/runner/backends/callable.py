"""A function of yours as a model: for rules, for libraries without a server, for tests.

    models:
      - {name: cautious, backend: callable, options: {function: "models.py:rules", margin: 3}}

    def rules(item, prompt, *, margin):        # or async def
        return "Answer: no" if item["egfr"] > 60 + margin else "I cannot tell"

`function` is `module:function`, or `file.py:function` next to the spec. It gets the fields of the item that the prompt
uses, the prompt as one text, and the other options by name; one that takes a `seed` is given the seed that a server
would be sent, which every repeat and every sample has of its own where the spec states one. It returns a text, or a
mapping with `text` and any of `reasoning logprobs input_tokens output_tokens finish model`; `logprobs` is a list as
chat servers give it. Functions run in threads, as many at once as the spec allows; one that does not return keeps
nobody from ending. One that raises has failed for that item, and only the exception's kind is kept: its words may hold
what was asked.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, ClassVar, Self

from steelyard.errors import UsageError, printable
from steelyard.ground.http import Limits
from steelyard.registry import findable
from steelyard.runner.backends.contract import Finding, Options, Reply, Request, backends, tokens_of

Function = Callable[..., Any]
NO_TEXT = "the function returned no text"
NOT_A_REPLY = "the function returned neither text nor a mapping with a text"
_FIELDS = {"reasoning": str, "input_tokens": int, "output_tokens": int, "finish": str, "model": str}


class FunctionBackend:
    """A function, called for one item at a time, for several at once."""

    computes_here: ClassVar = True

    def __init__(self, name: str, function: Function, limits: Limits, *, takes_seed: bool = False) -> None:
        self._name, self._function, self._limits, self._takes_seed = name, function, limits, takes_seed

    def __repr__(self) -> str:
        return f"<function {printable(self._name)}>"

    @classmethod
    def open(cls, options: Options) -> Self:
        options.refuse("callable", "base_url", "api_key_env")
        name = options.options.get("function")
        if not isinstance(name, str) or not all(name.partition(":")[::2]):
            raise UsageError("the backend 'callable' needs the option function, as in module:function")
        settings = {key: value for key, value in options.options.items() if key != "function"}
        function = loaded(name, options.folder)
        seeded: dict[str, Any] = {}
        try:
            with suppress(ValueError):  # some functions in C do not say what they take
                signature = inspect.signature(function)
                seeded = {"seed": None} if "seed" in signature.parameters and "seed" not in settings else {}
                signature.bind({}, "", **settings, **seeded)
        except TypeError:
            given = ", ".join(map(printable, ("item", "prompt", *settings)))
            raise UsageError(f"{printable(name)} cannot be called with {given}") from None
        return cls(name, partial(function, **settings), options.limits, takes_seed=bool(seeded))

    async def __aenter__(self) -> Self:
        self._threads = _Threads()
        self._turns = asyncio.Semaphore(self._limits.in_flight)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.end()

    def identity(self) -> None:
        return None  # what a function does changes with its code

    def counts(self) -> Mapping[str, int]:
        return {}

    async def ask(self, request: Request) -> Reply:
        item, prompt = dict(request.item), request.prompt
        seeded = {"seed": request.inference.seed} if self._takes_seed else {}
        async with self._turns:
            try:
                async with asyncio.timeout(self._limits.deadline):
                    if _is_async(self._function):
                        return await self._awaited(item, prompt, **seeded)
                    called = partial(self._called, item, prompt, **seeded)
                    return await asyncio.wrap_future(self._threads.call(called))
            except TimeoutError:
                return Reply(failure=f"no answer within {self._limits.deadline:g} s")

    async def _awaited(self, item: dict[str, Any], prompt: str, **seeded: int | None) -> Reply:
        started = time.perf_counter()
        try:
            return _reply(await self._function(item, prompt, **seeded), started)
        except (Exception, SystemExit) as problem:
            return _raised(problem)

    def _called(self, item: dict[str, Any], prompt: str, **seeded: int | None) -> Reply:
        started = time.perf_counter()
        try:
            return _reply(self._function(item, prompt, **seeded), started)
        except BaseException as problem:  # a thread has nobody else to tell
            return _raised(problem)

    async def check(self, model: str) -> tuple[Finding, ...]:  # noqa: ARG002 - a function is whatever it is called
        return (Finding(about="function", level="ok", text=f"{printable(self._name)} can be called"),)


class _Threads:
    """Threads that end with the program, whatever they are at; a pool's own would be waited for."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Reply], Callable[[], Reply]] | None] = queue.SimpleQueue()
        self._idle, self._count, self._lock = 0, 0, threading.Lock()

    def call(self, function: Callable[[], Reply]) -> Future[Reply]:
        """Call a function in a thread that has nothing to do, or a new one."""
        future: Future[Reply] = Future()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._count += 1
                threading.Thread(target=self._serve, daemon=True, name=f"callable-{self._count}").start()
        self._work.put((future, function))
        return future

    def end(self) -> None:
        for _ in range(self._count):
            self._work.put(None)

    def _serve(self) -> None:
        while (waiting := self._work.get()) is not None:
            future, function = waiting
            result = function() if future.set_running_or_notify_cancel() else None
            with self._lock:  # before anybody hears of the result: who then calls again needs no other thread
                self._idle += 1
            if result is not None:
                future.set_result(result)


def loaded(name: str, folder: Path) -> Function:
    """The function of that name, from a module or from a file in the folder."""
    place, _, attribute = name.partition(":")
    try:
        with findable(place):
            module = _from_file(folder / place) if place.endswith(".py") else importlib.import_module(place)
    except ModuleNotFoundError as problem:
        missing = printable(problem.name or "")
        raise UsageError(f"cannot load {printable(name)}: there is no module '{missing}'") from None
    except FileNotFoundError:
        raise UsageError(f"cannot load {printable(name)}: there is no such file") from None
    except Exception as problem:
        raise UsageError(f"cannot load {printable(name)}: importing it raised {type(problem).__name__}") from None
    function = getattr(module, attribute, None)
    if not callable(function):
        raise UsageError(f"cannot load {printable(name)}: '{printable(attribute)}' is not a function of it")
    found: Function = function
    return found


def _from_file(path: Path) -> ModuleType:
    """The module in a file, under a name that no other has."""
    real = path.resolve()
    name = f"{real.stem}_{sha256(str(real).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, real)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _is_async(function: Function) -> bool:
    plain = function.func if isinstance(function, partial) else function
    return inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(type(plain).__call__)


def _raised(problem: BaseException) -> Reply:
    return Reply(failure=f"the function raised {type(problem).__name__}")


def _reply(returned: Any, started: float) -> Reply:
    """What a function that was called at that time returned, as a reply."""
    latency_ms = 1000 * (time.perf_counter() - started)
    if isinstance(returned, str):
        return Reply(text=returned, latency_ms=latency_ms)
    if returned is None:
        return Reply(failure=NO_TEXT)
    if not isinstance(returned, Mapping) or not {*returned} <= {"text", "logprobs", *_FIELDS}:
        return Reply(failure=NOT_A_REPLY)
    fields = {name: returned[name] for name in _FIELDS if returned.get(name) is not None}
    wrong = any(isinstance(value, bool) or not isinstance(value, _FIELDS[name]) for name, value in fields.items())
    if wrong or not isinstance(returned.get("text"), str):
        return Reply(failure=NOT_A_REPLY)
    tokens = tokens_of(returned["logprobs"]) if returned.get("logprobs") is not None else None
    return Reply(text=returned["text"], tokens=tokens, latency_ms=latency_ms, **fields)


backends.add("callable", FunctionBackend)
