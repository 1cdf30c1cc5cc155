"""Asking: every request of a plan that has no row yet, many at once, one row per request that ended.

Models on one server share its bound of requests in flight; different servers are asked at the same time. A row is
written when a request ended: with a reply, or with a failure after all retries. What is stopped on the way has no row,
and is asked when the run is taken up again. So is what a server was spared that refused the key, and what would have
cost more than the limit. Only what is on disk in the journal goes into the cache: what a crash took from one is in
neither.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from steelyard.errors import BackendError
from steelyard.ground.http import Limits
from steelyard.ground.journal import Journal
from steelyard.runner.backends import Backend, Options, Reply, Request, backends
from steelyard.runner.cache import ReplyCache
from steelyard.runner.parsing import Parsed, parse
from steelyard.runner.placing import signals_of
from steelyard.runner.plan import Place, Plan
from steelyard.runner.spec import Model, variable_of
from steelyard.runner.tally import Tally, cost_of

WATCHED = 0.25  # seconds between two looks at the progress
BREATH = 0.05  # seconds after which others get a turn: replies from a cache or a function may never wait for anything
Tallies = Mapping[str, Tally]


def opened_backends(plan: Plan, environment: Mapping[str, str]) -> dict[str, Backend]:
    """A backend for every model, ready to be entered; models that are reached alike share one."""
    limits = plan.spec.limits
    known: dict[str, Backend] = {}
    found = {}
    for model in plan.spec.models:
        options = Options(
            base_url=model.base_url,
            api_key_env=variable_of(model),
            options=model.options,
            limits=Limits(in_flight=limits.concurrency, retries=limits.retries, deadline=limits.deadline_s),
            folder=plan.file.folder,
            environment=environment,
        )
        alike = repr((model.backend, model.base_url, model.api_key_env, sorted(model.options.items())))
        if alike not in known:
            known[alike] = backends[model.backend].open(options)
        found[model.name] = known[alike]
    return found


@dataclass(kw_only=True)
class Asking:
    """One time that a run is taken up: what is asked, and what became of it.

    `broken` says of models why nothing more can be asked of them; `spent` is true once the limit of cost is reached.
    """

    plan: Plan
    backends: Mapping[str, Backend]
    journal: Journal
    cache: ReplyCache | None
    is_done: bytearray  # by the number of the request
    tallies: Tallies
    session: int = 1
    keeps_texts: bool = True
    watch: Callable[[Tallies], None] | None = None
    broken: dict[str, str] = field(default_factory=dict)
    spent: bool = False

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._breathed, self._appended = self._began, 0
        self._unsynced: deque[tuple[int, Backend, Request, Reply]] = deque()
        self._spend()

    async def run(self) -> None:
        """Ask until nothing is left to ask."""
        async with AsyncExitStack() as entered:
            for backend in {id(each): each for each in self.backends.values()}.values():
                await entered.enter_async_context(backend)
            lines = [iter(self._waiting(models)) for models in self._servers()]
            work = [self._work(line) for line in lines for _ in range(self.plan.spec.limits.concurrency)]
            watching = asyncio.create_task(self._watched()) if self.watch else None
            try:
                await _all(work)
            finally:
                if watching is not None:
                    watching.cancel()
                    with suppress(asyncio.CancelledError):
                        await watching
        await asyncio.to_thread(self.journal.flush)
        self._keep_synced()

    def _servers(self) -> list[list[Model]]:
        """The models by the server that they are on."""
        found: dict[tuple[str, str | None], list[Model]] = {}
        for model in self.plan.spec.models:
            found.setdefault((model.backend, model.base_url), []).append(model)
        return list(found.values())

    def _waiting(self, models: Sequence[Model]) -> Iterator[Place]:
        """What is left to ask of some models, as long as it may be asked; several workers take from it."""
        for model in models:
            for number in self.plan.numbers(model):
                if self.spent:
                    return
                if model.name in self.broken:
                    break
                if not self.is_done[number]:
                    yield self.plan.place(number)

    async def _work(self, line: Iterator[Place]) -> None:
        for place in line:
            try:
                await self._ask(place)
            except BackendError as problem:
                self._break(self.backends[place.model.name], str(problem))
            if time.monotonic() - self._breathed > BREATH:
                self._breathed = time.monotonic()
                await asyncio.sleep(0)

    def _break(self, backend: Backend, why: str) -> None:
        """Ask nothing more of the models behind a backend."""
        for name, each in self.backends.items():
            if each is backend:
                self.broken.setdefault(name, why)

    async def _ask(self, place: Place) -> None:
        backend, request = self.backends[place.model.name], self.plan.request(place)
        reply = None if self.cache is None else self.cache.get(backend, request)
        if reply is None:
            reply = await backend.ask(request)
        row = self._row(place, reply)
        self.journal.append(row)
        self._appended += 1
        self.is_done[place.number] = 1
        self.tallies[place.model.name].add(row)
        self._spend()
        if self.cache is not None and self.keeps_texts and not reply.cached and not reply.failure:
            self._unsynced.append((self._appended, backend, request, reply))
        self._keep_synced()

    def _row(self, place: Place, reply: Reply) -> dict[str, Any]:
        """What the journal keeps of a request that ended."""
        task = self.plan.task
        parsed = None
        kept = reply.document()
        row: dict[str, Any] = {}
        if not reply.failure and reply.text is not None:
            parsed = parse(reply.text, task, verbalized=place.strategy.verbalized, finish=reply.finish)
            if self.plan.spec.inference.logprobs:
                signals = signals_of(reply, parsed, task.labels, task.spellings)
                row = {"signals": dict(signals.values), "missing": signals.missing}
        if not self.keeps_texts:
            kept = {name: value for name, value in kept.items() if name not in ("text", "reasoning", "tokens")}
        return {
            "key": place.number,
            "item": place.item.id,
            "model": place.model.name,
            "strategy": place.strategy.name,
            "perturbation": None,
            "repeat": place.repeat,
            "reply": kept,
            "parsed": None if parsed is None else _stated(parsed, reply),
            "cost": cost_of(place.model.price, kept),
            "session": self.session,
            "at": round(time.monotonic() - self._began, 3),
            **row,
        }

    def _spend(self) -> None:
        most = self.plan.spec.limits.max_cost
        self.spent = most is not None and sum(tally.cost or 0.0 for tally in self.tallies.values()) >= most

    def _keep_synced(self) -> None:
        """Hand to the cache what is on disk in the journal."""
        while self._unsynced and self._unsynced[0][0] <= self.journal.synced:
            _, backend, request, reply = self._unsynced.popleft()
            assert self.cache is not None
            self.cache.put(backend, request, reply)

    async def _watched(self) -> None:
        assert self.watch is not None
        while True:
            self.watch(self.tallies)
            await asyncio.sleep(WATCHED)


def _stated(parsed: Parsed, reply: Reply) -> dict[str, Any]:
    """What was read of a reply, without what is not there."""
    stated = {name: value for name, value in vars(parsed).items() if value is not None and value is not False}
    thought = parsed.reasoning_chars + len(reply.reasoning or "")
    return {**stated, "prediction": parsed.prediction, "reasoning_chars": thought}


async def _all(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Wait for all of it; the first that fails ends the others."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
