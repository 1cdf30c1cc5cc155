"""Chance by name: what is drawn depends on a seed and on names alone, never on order or on what else is drawn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def lot(seed: int, *names: str | int | None) -> bytes:
    """What orders things at random: depends on the seed and on what is ordered, not on where it stands."""
    return hashlib.sha256(json.dumps([seed, *names]).encode()).digest()


class Chance:
    """Draws for one thing that has a name.

    >>> Chance(7, "item", 3).pick("abcdef") == Chance(7, "item", 3).pick("abcdef")
    True
    """

    def __init__(self, seed: int, *names: str | int | None) -> None:
        # of Python's generator only random() is promised to stay the same, so everything is made of it
        self._next = Random(int.from_bytes(lot(seed, *names), "big")).random

    def share(self) -> float:
        """A number from 0 up to 1."""
        return self._next()

    def below(self, count: int) -> int:
        """A whole number from 0 up to `count`, which is not reached."""
        return int(self._next() * count)

    def pick(self, things: Sequence[T]) -> T:
        """One of these."""
        return things[self.below(len(things))]

    def shuffled(self, things: Sequence[T]) -> list[T]:
        """All of these in another order, or by chance in the same."""
        order = list(things)
        for last in range(len(order) - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order
