"""Turns at a server: so many at once, and fewer once it says that these are too many."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress


class Turns:
    """Who may send a request: at most `limit` at once, in the order in which they came.

    Requests that were in flight together hear of too many requests together: they halve the limit once.
    """

    def __init__(self, most: int) -> None:
        self.limit = self._most = most
        self._taken = self._run = self._era = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self, *, first: bool) -> int:
        """Wait for a turn; which era of the limit it belongs to."""
        if self._taken < self.limit and not self._waiting:
            self._taken += 1
            return self._era
        turn = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if first else self._waiting.append)(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):
                    self._waiting.remove(turn)
            elif turn.exception() is None:  # the turn came together with the cancellation
                self.give()
            raise
        return self._era

    def give(self) -> None:
        self._taken -= 1
        self._next()

    def answered(self) -> None:
        self._run += 1
        if self._run >= self.limit < self._most:
            self.limit += 1
            self._run = 0
            self._next()

    def refused(self, era: int) -> None:
        self._run = 0
        if era == self._era:
            self.limit = max(1, self.limit // 2)
            self._era += 1

    def end(self, problem: Callable[[], BaseException]) -> None:
        """Everybody who waits gets an error."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(problem())

    def _next(self) -> None:
        while self._waiting and self._taken < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._taken += 1
                turn.set_result(None)
