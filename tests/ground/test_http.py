"""One server over HTTP: what is asked again, what is not, for how long, how much at once, and what is never said."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import selectors
import time
from collections.abc import Awaitable, Callable, Iterator
from email.utils import formatdate
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import BackendError, UsageError
from steelyard.ground import http
from steelyard.ground import turns as turn_taking
from steelyard.ground.http import FailedRequestError, Limits, Server, asked_to_wait
from steelyard.ground.keys import bearer
from tests.support.model_server import ModelServer, model_server, text_of

T = TypeVar("T")
SECRET, KEY = "SECRET-PATIENT", "sk-SECRET-KEY"
QUICK = Limits(longest_wait=0.0, deadline=300.0)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    with model_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def body(orders: str, **more: Any) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": f"[[{orders}]] {SECRET}"}], **more}).encode()


def text(answer: http.Answer) -> str:
    return str(json.loads(answer.body)["choices"][0]["message"]["content"])


def asked(base_url: str, work: Callable[[Server], Awaitable[T]], limits: Limits = QUICK) -> T:
    async def all_of_it() -> T:
        async with Server(base_url, headers=bearer(KEY), limits=limits, kind="model server") as server:
            return await work(server)

    return asyncio.run(all_of_it())


def one(running: ModelServer, orders: str, limits: Limits = QUICK) -> http.Answer:
    return asked(running.base_url, lambda server: server.post("/chat/completions", body(orders)), limits)


def refused(running: ModelServer, orders: str, limits: Limits = QUICK) -> FailedRequestError:
    with pytest.raises(FailedRequestError) as caught:
        one(running, orders, limits)
    assert SECRET not in str(caught.value)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


def calls(running: ModelServer, id: str) -> list[dict[str, Any]]:
    return [call for call in running.calls if call["id"] == id]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between attempts, none of which is waited for."""
    seen: list[float] = []
    real = Server._wait

    def noted(self: Server, *arguments: Any) -> float | None:
        wait = real(self, *arguments)
        if wait is not None:
            seen.append(wait)
        return None if wait is None else 0.0

    monkeypatch.setattr(Server, "_wait", noted)
    return seen


def test_a_key_that_comes_back_is_struck_out(running: ModelServer) -> None:
    def ask(server: Server) -> Awaitable[http.Answer]:
        return server.post("/chat/completions", body("mode=echo id=key", model=KEY))  # it says which model it is

    answer = asked(running.base_url, ask)
    assert KEY.encode() not in answer.body
    assert b"[key]" in answer.body


# -- asked again, or not -------------------------------------------------------------------------------------------


def test_an_answer_says_how_long_it_took(running: ModelServer) -> None:
    answer = one(running, "mode=echo id=plain")
    assert text(answer) == text_of(f"[[mode=echo id=plain]] {SECRET}")
    assert answer.latency_ms > 0
    assert answer.retries == 0


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_what_may_be_better_next_time_is_asked_again(running: ModelServer, status: int) -> None:
    answer = one(running, f"mode=flaky status={status} times=3 id=again{status}")
    assert answer.retries == 3
    assert len(calls(running, f"again{status}")) == 4


@pytest.mark.parametrize("status", [201, 204, 400, 402, 404, 405, 413, 418, 422])
def test_what_cannot_be_better_fails_alone_and_at_once(running: ModelServer, status: int) -> None:
    problem = refused(running, f"mode=status status={status} id=alone{status}")
    assert problem.status == status
    assert problem.reason.startswith(f"status {status}")
    assert "attempts" not in str(problem)
    assert len(calls(running, f"alone{status}")) == 1


def test_a_broken_connection_is_asked_again(running: ModelServer) -> None:
    assert one(running, "mode=reset times=2 id=reset").retries == 2
    problem = refused(running, "mode=reset times=99 id=resets", Limits(retries=2, longest_wait=0))
    assert problem.reason == http.NO_CONNECTION
    assert len(calls(running, "resets")) == 3


def test_it_gives_up_in_the_end(running: ModelServer, waits: list[float]) -> None:
    problem = refused(running, "mode=flaky times=99 id=never", Limits(retries=4))
    assert str(problem).endswith("status 500 (Internal Server Error); gave up after 5 attempts")
    assert (problem.status, problem.retries) == (500, 4)
    assert len(calls(running, "never")) == 5
    assert all(0.25 * 2**place <= wait <= 0.5 * 2**place for place, wait in enumerate(waits))


def test_nobody_there() -> None:
    with pytest.raises(FailedRequestError, match="cannot be reached"):
        asked("http://127.0.0.1:9", lambda server: server.get("/models"), Limits(retries=1, longest_wait=0))


def test_redirects_are_not_followed(running: ModelServer, tmp_path: Path) -> None:
    with model_server(tmp_path) as other:
        for to in (other.address, running.address):
            problem = refused(running, f"mode=elsewhere to={to.replace('://', '~')} id=moved")
            assert "redirects are not followed" in problem.reason
        assert other.calls == []
    assert len(calls(running, "moved")) == 2


# -- Retry-After ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "low", "high"),
    [
        ("7", 7, 7.7), ("0", 0.25, 0.5), ("past", 0.25, 0.5), ("99999999", 60, 60), ("absurd", 60, 60),
        ("9" * 400, 60, 60), ("soon", 0.25, 0.5), ("-3", 0.25, 0.5), ("future", 0, 1.2),
    ],
)  # fmt: skip
def test_the_wait_is_as_long_as_the_server_says_within_reason(
    running: ModelServer, waits: list[float], after: str, low: float, high: float
) -> None:
    assert one(running, f"mode=busy after={after} id=busy{after[:9]}", Limits()).retries == 1
    assert low <= waits[0] <= high


class Skipping(selectors.DefaultSelector):
    """Time that passes in a moment: whatever a loop would wait for, its clock is that much later."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found and timeout is not None:
            self.now += max(timeout, 0.0)
        return found


@pytest.mark.parametrize(
    ("stated", "waits"),
    [((None, None, None), ((0.25, 0.5), (0.5, 1), (1, 2))), ((7.0, 60.0, 0.0), ((7, 7.7), (60, 60), (1, 2)))],
)
def test_between_two_attempts_the_wait_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, stated: tuple[float | None, ...], waits: tuple[tuple[float, float], ...]
) -> None:
    clock, times = Skipping(), list[float]()

    async def attempt(self: Server, *_: Any) -> http.Answer:
        times.append(clock.now)
        if len(times) <= len(stated):
            raise http._Refusal("busy", 503, again=True, wait=stated[len(times) - 1])
        return http.Answer(body=b"", latency_ms=0.0, retries=len(stated))

    async def work() -> None:
        async with Server("http://x", limits=Limits(deadline=300.0)) as server:
            await server.get("/")

    monkeypatch.setattr(Server, "_attempt", attempt)
    loop = asyncio.SelectorEventLoop(clock)
    monkeypatch.setattr(loop, "time", lambda: clock.now)
    with contextlib.closing(loop):
        loop.run_until_complete(work())
    taken = [after - before for before, after in itertools.pairwise(times)]
    assert len(taken) == len(waits)
    for seconds, (least, most) in zip(taken, waits, strict=True):
        assert least - 1e-6 <= seconds <= most + 0.01  # a clock adds up, and rounds


def test_a_wait_that_ends_after_the_deadline_is_not_waited_for(running: ModelServer, waits: list[float]) -> None:
    """The server's wish cannot be met, but an earlier attempt may be lucky."""
    assert one(running, "mode=busy after=50 id=late", Limits(deadline=30)).retries == 1
    assert waits[0] <= 0.5


def test_there_is_no_further_attempt_past_the_deadline() -> None:
    server, again = Server("http://x"), http._Refusal("", again=True)
    assert server._wait(again, 4, 2.0) is None
    assert server._wait(again, 0, 2.0) is not None
    assert server._wait(again, 5, 2e9) is None
    assert server._wait(http._Refusal("", again=False), 0, 2e9) is None


def test_reading_the_header() -> None:
    assert asked_to_wait(None) is None
    assert asked_to_wait(" 7 ") == 7.0
    assert asked_to_wait("9" * 400) == inf
    assert asked_to_wait("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert 3590 < (asked_to_wait(formatdate(time.time() + 3600, usegmt=True)) or 0) <= 3600


@given(st.text(st.characters(max_codepoint=255)))
def test_no_header_is_too_strange(header: str) -> None:
    wait = asked_to_wait(header)
    assert wait is None or wait >= 0


# -- time and size -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["drip", "drip_head", "silent"])
def test_a_server_that_drips_meets_the_deadline(running: ModelServer, mode: str) -> None:
    problem = refused(running, f"mode={mode} id={mode}", Limits(deadline=0.3, longest_wait=0))
    assert problem.reason == "no answer within 0.3 s"
    assert len(calls(running, mode)) <= 1


def test_an_attempt_may_have_a_limit_of_its_own(running: ModelServer) -> None:
    problem = refused(running, "mode=drip id=tries", Limits(attempt=0.2, retries=2, longest_wait=0, deadline=inf))
    assert str(problem).endswith("no answer within 0.2 s; gave up after 3 attempts")


def test_the_deadline_is_for_all_attempts_together(running: ModelServer) -> None:
    problem = refused(running, "mode=flaky times=999999 id=all", Limits(deadline=0.5, retries=999_999, longest_wait=0))
    assert problem.status in (500, None)
    assert problem.retries < 999_999


def test_waiting_for_a_turn_does_not_count(running: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []
    real = Server._attempt

    async def watched(self: Server, *arguments: Any) -> Any:
        left.append(arguments[3])
        return await real(self, *arguments)

    monkeypatch.setattr(Server, "_attempt", watched)

    async def many(server: Server) -> None:
        await asyncio.gather(*(server.post("/chat/completions", body(f"mode=random id=t{n}")) for n in range(20)))

    asked(running.base_url, many, Limits(in_flight=1, deadline=300.0))
    assert left == [300.0] * 20


@pytest.mark.parametrize("times", [40, 100_000])
def test_an_answer_without_end(running: ModelServer, times: int) -> None:
    problem = refused(running, f"mode=oversized times={times}", Limits(largest_answer=2**20))
    assert problem.reason == "the answer is larger than 1 MB"


# -- the circuit ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_refused_ends_everything(running: ModelServer, status: int) -> None:
    async def many(server: Server) -> list[BaseException]:
        orders = [f"mode=status status={status} id=key{status}"] * 400
        tasks = [asyncio.create_task(server.post("/chat/completions", body(order))) for order in orders]
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(BackendError, match="Nothing more is sent"):
            await server.post("/chat/completions", body("mode=echo id=later"))
        return [problem for problem in ended if isinstance(problem, BaseException)]

    problems = asked(running.base_url, many)
    assert len(problems) == 400
    assert all(isinstance(p, BackendError) and not isinstance(p, FailedRequestError) for p in problems)
    assert all("check the API key" in str(p) and SECRET not in str(p) and KEY not in str(p) for p in problems)
    assert 1 <= len(calls(running, f"key{status}")) <= QUICK.in_flight
    assert calls(running, "later") == []


def test_whoever_waits_for_another_attempt_is_ended_too(running: ModelServer) -> None:
    async def two(server: Server) -> list[Any]:
        waiting = asyncio.create_task(server.post("/chat/completions", body("mode=busy after=3000 times=99 id=w")))
        while not calls(running, "w"):
            await asyncio.sleep(0.01)
        refused = asyncio.create_task(server.post("/chat/completions", body("mode=unauthorized")))
        return await asyncio.gather(waiting, refused, return_exceptions=True)

    for problem in asked(running.base_url, two, Limits(longest_wait=3000, deadline=9000)):
        assert "check the API key" in str(problem)


# -- at once -------------------------------------------------------------------------------------------------------


def test_sixteen_workers_get_their_own_answers(running: ModelServer) -> None:
    questions = iter(range(800))
    got: dict[int, str] = {}

    async def work(server: Server) -> None:
        for number in questions:
            answer = await server.post("/chat/completions", body(f"mode=mixed id=own{number}"))
            got[number] = text(answer)

    asked(running.base_url, lambda server: asyncio.gather(*(work(server) for _ in range(16))), Limits(longest_wait=0))
    assert got == {number: text_of(f"[[mode=mixed id=own{number}]] {SECRET}") for number in range(800)}


def test_no_more_in_flight_than_allowed(monkeypatch: pytest.MonkeyPatch, running: ModelServer) -> None:
    now = most = 0
    real = Server._attempt

    async def watched(self: Server, *arguments: Any) -> Any:
        nonlocal now, most
        now += 1
        most = max(most, now)
        assert now <= self.concurrency <= 11
        assert all(shard.busy <= http._SHARD for shard in self._shards)
        try:
            return await real(self, *arguments)
        finally:
            now -= 1

    monkeypatch.setattr(Server, "_attempt", watched)

    async def many(server: Server) -> None:
        await asyncio.gather(*(server.post("/chat/completions", body(f"mode=random id=n{n}")) for n in range(200)))
        assert len(server._shards) == 2

    asked(running.base_url, many, Limits(in_flight=11))
    assert most == 11


class Turns:
    """The turns of a server, taken and given by hand."""

    def __init__(self, most: int) -> None:
        self.turns = turn_taking.Turns(most)

    async def take(self, count: int) -> list[int]:
        return [await self.turns.take(first=False) for _ in range(count)]

    def end(self, eras: list[int], *, refused: bool) -> None:
        for era in eras:
            self.turns.refused(era) if refused else self.turns.answered()
            self.turns.give()


def test_too_many_requests_halve_what_is_in_flight_and_answers_give_it_back() -> None:
    async def story() -> None:
        hand = Turns(16)
        hand.end(await hand.take(16), refused=True)
        assert hand.turns.limit == 8  # sixteen refusals of one moment are one
        for limit in (4, 2, 1, 1):
            hand.end(await hand.take(1), refused=True)
            assert hand.turns.limit == limit
        for limit in range(2, 17):
            for _ in range(limit - 1):
                assert hand.turns.limit == limit - 1
                hand.end(await hand.take(1), refused=False)
            assert hand.turns.limit == limit
        for _ in range(100):
            hand.end(await hand.take(1), refused=False)
        assert hand.turns.limit == 16

    asyncio.run(story())


def test_a_server_that_is_busy_is_asked_less_at_once(running: ModelServer) -> None:
    async def many(server: Server) -> list[int]:
        seen = []
        for number in range(40):
            await server.post("/chat/completions", body(f"mode=busy after=0 times={int(number < 4)} id=less{number}"))
            seen.append(server.concurrency)
        return seen

    seen = asked(running.base_url, many, Limits(in_flight=16))
    assert seen[:4] == [8, 4, 2, 2]  # once at one, a single answer is a run
    assert seen[4:] == sorted(seen[4:])
    assert seen[-1] > 2


def test_a_turn_of_somebody_who_left_goes_to_the_next() -> None:
    async def story() -> None:
        turns = turn_taking.Turns(1)
        await turns.take(first=False)
        tasks = [asyncio.create_task(turns.take(first=False)) for _ in range(4)]
        await asyncio.sleep(0)
        tasks[0].cancel()  # while it waits
        turns.give()
        tasks[1].cancel()  # together with its turn
        await asyncio.gather(*tasks[:2], return_exceptions=True)
        await tasks[2]
        turns.give()
        await tasks[3]
        turns.give()
        assert await asyncio.wait_for(turns.take(first=False), 300) == 0

    asyncio.run(story())


# -- addresses and keys --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address", ["ftp://x", "nonsense", "http://", "http://a\n", "http://x:port", "http://x/v1?a=b", "http://x/#a", ""]
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(UsageError, match="the model server's address"):
        Server(address, kind="model server")


def test_a_password_in_an_address_is_not_shown() -> None:
    with pytest.raises(UsageError, match="password") as caught:
        Server(f"http://user:{KEY}@host/v1")
    assert KEY not in str(caught.value)


def test_the_key_is_in_no_repr() -> None:
    assert repr(Server("http://h:1/v1", headers=bearer(KEY))) == "<the server http://h:1>"


@pytest.mark.parametrize(
    "wrong", [{"in_flight": 0}, {"retries": -1}, {"deadline": 0}, {"deadline": float("nan")}, {"longest_wait": -1}]
)
def test_limits_that_are_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Limits(**wrong)


def test_nothing_is_logged_of_what_was_sent(running: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    one(running, "mode=flaky times=1 id=logged")
    assert SECRET not in caplog.text
    assert KEY not in caplog.text
