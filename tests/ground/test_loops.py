"""An event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from steelyard.ground.loops import Loop


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


def test_work_is_done_one_after_the_other_in_one_loop() -> None:
    async def where() -> tuple[asyncio.AbstractEventLoop, str]:
        return asyncio.get_running_loop(), threading.current_thread().name

    with Loop() as loop:
        assert loop.run(answer(1)) + loop.run(answer(2)) == 3
        assert loop.run(where()) == loop.run(where())
        assert loop.run(where())[1] != threading.current_thread().name


def test_it_works_inside_another_loop_as_in_a_notebook() -> None:
    async def notebook() -> int:
        with Loop() as loop:
            return loop.run(answer(5))

    assert asyncio.run(notebook()) == 5


def test_what_is_raised_comes_out_and_what_is_left_is_cancelled() -> None:
    ended = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def begins() -> asyncio.Task[None]:
        task = asyncio.create_task(forever())
        await asyncio.sleep(0)
        return task

    async def fails() -> None:
        raise ValueError("so")

    with Loop() as loop:
        with pytest.raises(ValueError, match="so"):
            loop.run(fails())
        loop.run(begins())
        assert not ended.is_set()
    assert ended.is_set()
