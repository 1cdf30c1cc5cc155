"""Asking: every request of a plan that has no row yet, many at once, one row per request that ended.

Models on one server share its bound of requests in flight; different servers are asked at the same time. A row is
written when a request ended: with a reply, or with a failure after all retries. What is stopped on the way has no row,
and is asked when the run is taken up again. So is what a server was spared that refused the key, and what would have
cost more than the limit. Only what is on disk in the journal goes into the cache: what a crash took from one is in
neither.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import msgspec

from steelyard.errors import BackendError, UsageError
from steelyard.ground.http import Limits
from steelyard.ground.journal import Journal
from steelyard.runner.backends import Backend, Inference, Options, Reply, Request, backends
from steelyard.runner.cache import ReplyCache
from steelyard.runner.energy import Meter
from steelyard.runner.parsing import Parsed, parse
from steelyard.runner.placing import signals_of
from steelyard.runner.plan import Place, Plan
from steelyard.runner.spec import Model, variable_of
from steelyard.runner.strategies import Strategy
from steelyard.runner.tally import Tally, cost_of

WATCHED = 0.25  # seconds between two looks at the progress
COST_UNKNOWN = "replies come without counts of tokens, so that no limit of cost can be kept; leave out max_cost"
NOTED = 15.0  # seconds between two rows about energy
BREATH = 0.05  # seconds after which others get a turn: replies from a cache or a function may never wait for anything
Tallies = Mapping[str, Tally]
_TEXTS = ("text", "reasoning", "tokens", "model", "said")  # of a reply
_FINISH = re.compile(r"[a-z_]{1,32}")


def opened_backends(plan: Plan, environment: Mapping[str, str]) -> dict[str, Backend]:
    """A backend for every model, ready to be entered; models that are reached alike share one."""
    limits = plan.spec.limits
    known: dict[str, Backend] = {}
    found = {}
    for number, model in enumerate(plan.spec.models):
        options = Options(
            base_url=model.base_url,
            api_key_env=variable_of(model),
            options=model.options,
            limits=Limits(
                in_flight=limits.concurrency,
                retries=limits.retries,
                deadline=limits.deadline_s,
                attempt=limits.timeout_s,
            ),
            folder=plan.file.folder,
            inference=Inference(**msgspec.structs.asdict(plan.spec.inference)),
            needs_logprobs=plan.spec.confidence == "logprobs",
            environment=environment,
        )
        alike = repr((model.backend, _address(model), model.api_key_env, sorted(model.options.items())))
        if alike not in known:
            try:
                known[alike] = backends[model.backend].open(options)
            except UsageError as problem:
                raise plan.file.problem(("models", number), str(problem)) from None
        found[model.name] = known[alike]
    return found


def _address(model: Model) -> str | None:
    return None if model.base_url is None else model.base_url.rstrip("/")


def without_texts(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a journal without what the model or its server wrote."""
    reply = {name: value for name, value in row["reply"].items() if name not in _TEXTS}
    if not _FINISH.fullmatch(reply.get("finish", "")):
        reply.pop("finish", None)
    return {**row, "reply": reply}


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
    meter: Meter | None = None
    in_doubt: int = 0  # replies that may have been on their way, and paid, when earlier sessions were killed
    broken: dict[str, str] = field(default_factory=dict)
    spent: bool = False

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._breathed, self._appended = self._began, 0
        self._unsynced: deque[tuple[int, Backend, Request, Reply]] = deque()
        self._on_the_way: Counter[str] = Counter()  # requests, by model
        self._own: set[bytes] = set()  # what was asked now: an equal question is another one, not a reply from before
        self._spend()

    async def run(self) -> None:
        """Ask until nothing is left to ask."""
        try:
            await self._asked()
        finally:
            self._note_energy()
        await asyncio.to_thread(self.journal.flush)
        self._keep_synced()

    async def _asked(self) -> None:
        async with AsyncExitStack() as entered:
            for backend in {id(each): each for each in self.backends.values()}.values():
                await entered.enter_async_context(backend)
            if self.meter is not None:  # entered last: it ends while the processes that it looks at still run
                await entered.enter_async_context(self.meter)
            self._began = self._breathed = time.monotonic()
            lines = [iter(self._waiting(models)) for models in self._servers()]
            work = [self._work(line) for line in lines for _ in range(self.plan.spec.limits.concurrency)]
            beside = [
                asyncio.create_task(each)
                for each in (
                    *([self._watched()] if self.watch else []),
                    *([self._measured()] if self.meter is not None else []),
                )
            ]
            try:
                await _all(work)
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)

    def _servers(self) -> list[list[Model]]:
        """The models by the server that they are on."""
        found: dict[tuple[str, str | None], list[Model]] = {}
        for model in self.plan.spec.models:
            found.setdefault((model.backend, _address(model)), []).append(model)
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
                self._break(place.model, str(problem))
            if time.monotonic() - self._breathed > BREATH:
                self._breathed = time.monotonic()
                await asyncio.sleep(0)

    def _break(self, model: Model, why: str) -> None:
        """Ask nothing more of the models that are reached in the same way, with the same key."""
        for each in self.plan.spec.models:
            if self._is_reached_alike(each, model):
                self.broken.setdefault(each.name, why)

    def _is_reached_alike(self, one: Model, other: Model) -> bool:
        backend = self.backends[one.name]
        if backend is self.backends[other.name] or getattr(backend, "computes_here", False):
            return backend is self.backends[other.name]
        return (one.backend, _address(one), one.api_key_env) == (other.backend, _address(other), other.api_key_env)

    async def _ask(self, place: Place) -> None:
        backend, request = self.backends[place.model.name], self.plan.request(place)
        reply = self._from_before(backend, request)
        if reply is None:
            self._on_the_way[place.model.name] += 1
            self._spend()
            try:
                reply = await backend.ask(request)
            finally:
                self._on_the_way[place.model.name] -= 1
        row = self._row(place, reply)
        self.journal.append(row)
        self._appended += 1
        self.is_done[place.number] = 1
        self.tallies[place.model.name].add(row)
        self._spend()
        if self._hides_cost(place, row):
            self._break(place.model, COST_UNKNOWN)
        worth = not (reply.cached or reply.failure or reply.declined or reply.finish == "length")
        if self.cache is not None and self.keeps_texts and worth:
            self._unsynced.append((self._appended, backend, request, reply))
        self._keep_synced()

    def _from_before(self, backend: Backend, request: Request) -> Reply | None:
        """A reply from an earlier run, if there is one and it may be used."""
        if self.cache is None or request.repeat > 1 or not request.inference.is_deterministic:
            return None
        own = bytes.fromhex(request.digest)[:12] + id(backend).to_bytes(8)
        if own in self._own:
            return None
        self._own.add(own)
        return self.cache.get(backend, request)

    def _hides_cost(self, place: Place, row: Mapping[str, Any]) -> bool:
        """Whether a reply was paid for and nobody knows how much, where there is a limit."""
        reply, is_limited = row["reply"], self.plan.spec.limits.max_cost is not None
        unknown = row["cost"] is None and not reply.get("failure") and not reply.get("cached")
        return is_limited and place.model.price is not None and unknown

    def _row(self, place: Place, reply: Reply) -> dict[str, Any]:
        """What the journal keeps of a request that ended."""
        kept = reply.document()
        row = {
            "key": place.number,
            "item": place.item.id,
            "model": place.model.name,
            "strategy": place.strategy.name,
            "perturbation": place.perturbation,
            "repeat": place.repeat,
            "sample": place.sample,
            "reply": kept,
            **read(self.plan, place.strategy, reply),
            "cost": cost_of(place.model.price, kept),
            "session": self.session,
            "at": round(time.monotonic() - self._began, 3),
        }
        return row if self.keeps_texts else without_texts(row)

    def _spend(self) -> None:
        """See whether the limit of cost is reached, with what is on its way at the cost of the replies so far."""
        most = self.plan.spec.limits.max_cost
        if most is None:
            return
        usual = [tally.usual_cost for tally in self.tallies.values()]
        spent = sum(tally.cost or 0.0 for tally in self.tallies.values()) + self.in_doubt * sum(usual) / len(usual)
        waiting = sum(count * self.tallies[name].usual_cost for name, count in self._on_the_way.items())
        self.spent = self.spent or spent + waiting >= most

    def _keep_synced(self) -> None:
        """Hand to the cache what is on disk in the journal."""
        while self._unsynced and self._unsynced[0][0] <= self.journal.synced:
            _, backend, request, reply = self._unsynced.popleft()
            assert self.cache is not None
            self.cache.put(backend, request, reply)

    async def _measured(self) -> None:
        """Keep what was measured now and then: what is killed has no end."""
        while True:
            await asyncio.sleep(NOTED)
            self._note_energy()

    def _note_energy(self) -> None:
        used = None if self.meter is None else self.meter.used
        if used is not None:
            self.journal.append({"energy": dict(used), "session": self.session})
            self._appended += 1

    async def _watched(self) -> None:
        assert self.watch is not None
        while True:
            self.watch(self.tallies)
            await asyncio.sleep(WATCHED)


def read(plan: Plan, strategy: Strategy, reply: Reply) -> dict[str, Any]:
    """What a reply says, as the journal keeps it: the answer, and where they are wanted, the signals of its tokens."""
    row: dict[str, Any] = {"parsed": None}
    if reply.declined and not reply.failure:
        row["parsed"] = _stated(Parsed(outcome="abstained", how=reply.declined), reply)
    elif not reply.failure and reply.text is not None:
        parsed = parse(reply.text, plan.task, verbalized=strategy.verbalized, finish=reply.finish)
        row["parsed"] = _stated(parsed, reply)
        if plan.spec.inference.logprobs:
            signals = signals_of(reply, parsed, plan.task.labels, plan.task.spellings)
            row |= {"signals": dict(signals.values), "missing": signals.missing}
    if reply.signals:
        row["signals"] = {**row.get("signals", {}), **reply.signals}
    return row


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
