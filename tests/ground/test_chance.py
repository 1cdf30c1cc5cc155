"""Chance by name: the same for the same names, whatever else is drawn, and evenly spread."""

from __future__ import annotations

import doctest
from collections import Counter

import numpy as np

from steelyard.ground import chance
from steelyard.ground.chance import Chance, lot


def test_names_and_seeds_tell_draws_apart() -> None:
    first = [Chance(0, "a", n).share() for n in range(50)]
    assert first == [Chance(0, "a", n).share() for n in reversed(range(50))][::-1]
    assert (
        len({*first, *(Chance(1, "a", n).share() for n in range(50)), *(Chance(0, "b", n).share() for n in range(50))})
        == 150
    )
    assert lot(0, 1) != lot(0, "1")


def test_draws_are_even() -> None:
    counts = Counter(Chance(0, n).below(6) for n in range(6000))
    assert set(counts) == set(range(6))
    assert max(abs(count - 1000) for count in counts.values()) < 150
    assert abs(np.mean([Chance(3, n).share() for n in range(4000)]) - 0.5) < 0.02
    orders = Counter(tuple(Chance(0, "order", n).shuffled("abc")) for n in range(6000))
    assert len(orders) == 6
    assert max(abs(count - 1000) for count in orders.values()) < 150


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(chance).failed == 0
