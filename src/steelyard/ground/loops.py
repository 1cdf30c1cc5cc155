"""An event loop for code that has none of its own, or that runs inside another one, as in a notebook."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Loop:
    """A loop in a thread of its own; what is left to do when it is closed is cancelled.

    >>> with Loop() as loop:
    ...     loop.run(asyncio.sleep(0, "done"))
    'done'
    """

    def __enter__(self) -> Self:
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._until_closed(started)), daemon=True)
        self._thread.start()
        started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._closed.set)
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work returns; it ends with whoever waits for it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    async def _until_closed(self, started: threading.Event) -> None:
        self._loop, self._closed = asyncio.get_running_loop(), asyncio.Event()
        started.set()
        await self._closed.wait()
