"""A gate read naively: plain numbers in, a word out."""

from __future__ import annotations

from collections.abc import Sequence


def step_down(p_values: Sequence[float]) -> list[float]:
    """Holm: the smallest times m, the next times m − 1, never below the one before."""
    found = [0.0] * len(p_values)
    before = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        before = found[place] = max(before, min(1.0, p_values[place] * (len(p_values) - rank)))
    return found
