"""Is a paired difference more than chance? Whole clusters swapped between the runs, and Holm's correction.

If the two runs were exchangeable, giving a cluster's answers of one run to the other would change nothing: the
difference that was observed is one of all that such swaps can give. Swapping rows instead of clusters would give 16%
false alarms on clustered data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.ground.arrays import Codes, Floats
from steelyard.ground.randomness import sign_block
from steelyard.metrics.definition import Metric
from steelyard.metrics.evidence.sums import Draw
from steelyard.metrics.options import Constants

ALL_SWAPS = 14  # clusters up to which every swap is enumerated
ENOUGH = 100  # swaps that reach the observed difference: then the p-value is known well enough
_FIRST_BLOCK = 256
_BLOCK_NUMBERS = 4_000_000
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12  # differences that differ by rounding only are ties


@dataclass(kw_only=True)
class Swapped:
    """One observed difference, and how many swaps reached it."""

    metric: Metric
    constants: Constants  # of both runs together
    delta: float
    size: float  # |base| + |new|
    common: bool = False  # areas up to the coverage that both sides of each swap reach
    reached: int = 0
    p: float = math.nan

    @property
    def least(self) -> float:
        """What a swap must reach."""
        return abs(self.delta) - (_RELATIVE * abs(self.delta) + _ABSOLUTE * self.size)

    def values(self, one: Any, two: Any) -> Floats:
        """The difference under each swap."""
        if not self.common:
            return self.metric.finished(one, self.constants) - self.metric.finished(two, self.constants)
        reached = np.minimum(one.cmax, two.cmax)
        shared = np.where(reached > 0, np.minimum(reached, 1.0), 1.0)
        differences = self.metric.up_to(one, shared) - self.metric.up_to(two, shared)
        return np.where(reached > 0, differences, np.nan)


def swap_p(pooled: Any, asked: Sequence[Swapped], present: Codes, *, resamples: int, seed: int) -> None:
    """The p-value of every difference that is read from the same pooled evidence; `present` clusters hold rows.

    `pooled` holds the clusters of the base run, then those of the new one. Up to fourteen clusters every swap is tried,
    the first cluster held fixed; else draws of the counter stream, until a hundred reached the difference.
    """
    size = len(pooled.ids) // 2
    if len(present) <= ALL_SWAPS:
        count = 2 ** (len(present) - 1)
        for signs in _every_swap(present, size, max(1, _BLOCK_NUMBERS // max(pooled.width, 2 * size, 1))):
            one, two = _readings(pooled, signs)
            for each in asked:
                each.reached += int(np.count_nonzero(_reaches(each, one, two)))
        for each in asked:
            each.p = each.reached / count
        return
    waiting, first = list(asked), 0
    most = max(16, _BLOCK_NUMBERS // max(pooled.width, 2 * size, 1) // 16 * 16)
    step = min(_FIRST_BLOCK, most)
    while waiting and first < resamples:
        last = min(resamples, first + step)
        one, two = _readings(pooled, sign_block(seed, first, last, size) > 0)
        for each in list(waiting):
            _count(each, _reaches(each, one, two), first, resamples)
            if not math.isnan(each.p):
                waiting.remove(each)
        first, step = last, min(2 * step, most)


def flip_p(differences: Floats, asked: Swapped, clusters: int, *, resamples: int, seed: int) -> None:
    """The p-value of a row mean whose two sides count the same rows: a swap flips the sign of a cluster's difference.

    `differences` is what each cluster adds to the delta, of which `clusters` hold rows.
    """
    moved = np.flatnonzero(differences)  # what does not differ changes nothing
    if clusters <= ALL_SWAPS:
        free = moved[1:]
        signs = 1.0 - 2.0 * ((np.arange(2 ** len(free))[:, None] >> np.arange(len(free))) & 1)
        deltas = differences[moved[:1]].sum() + signs @ differences[free]
        asked.p = float(np.mean(np.abs(deltas) >= asked.least))
        return
    most = max(16, _BLOCK_NUMBERS // max(len(differences), 1))
    first, step = 0, min(_FIRST_BLOCK, most)
    while math.isnan(asked.p):
        last = min(resamples, first + step)
        deltas = sign_block(seed, first, last, len(differences)) @ differences
        _count(asked, np.abs(deltas) >= asked.least, first, resamples)
        first, step = last, min(2 * step, most)


def _count(each: Swapped, reaches: npt.NDArray[np.bool_], first: int, resamples: int) -> None:
    """Add a block's swaps; at the hundredth that reaches the difference, or at the end, the p-value is known."""
    before = each.reached
    each.reached += int(np.count_nonzero(reaches))
    if each.reached >= ENOUGH:
        place = int(np.flatnonzero(reaches)[ENOUGH - before - 1])
        each.p = ENOUGH / (first + place + 1)
    elif first + len(reaches) >= resamples:
        each.p = (1 + each.reached) / (1 + resamples)


def _reaches(each: Swapped, one: Any, two: Any) -> npt.NDArray[np.bool_]:
    deltas = each.values(one, two)
    return np.asarray(np.isnan(deltas) | (np.abs(deltas) >= each.least))


def _readings(pooled: Any, swapped: npt.NDArray[np.bool_]) -> tuple[Any, Any]:
    """Both sides after the swaps: one row per swap, true where a cluster changes sides."""
    kept = np.uint8(1) - swapped.astype(np.uint8)
    moved = swapped.astype(np.uint8)
    return (
        Draw(np.concatenate([kept, moved], 1)).read(pooled),
        Draw(np.concatenate([moved, kept], 1)).read(pooled),
    )


def _every_swap(present: Codes, size: int, step: int) -> Any:
    """Every assignment of the present clusters to sides, the first one held fixed, in blocks."""
    free = present[1:]
    for first in range(0, 2 ** len(free), step):
        codes = np.arange(first, min(2 ** len(free), first + step))
        swapped = np.zeros((len(codes), size), bool)
        swapped[:, free] = (codes[:, None] >> np.arange(len(free))) & 1
        yield swapped


def holm_within(p_values: Sequence[float], families: Sequence[str]) -> list[float]:
    """Holm's adjusted p-values, each over those of its own family.

    >>> holm_within([0.01, 0.02, 0.03], ["primary", "other", "other"])
    [0.01, 0.04, 0.04]
    """
    adjusted = [math.nan] * len(p_values)
    for family in dict.fromkeys(families):
        members = [i for i, own in enumerate(families) if own == family]
        for i, p in zip(members, holm([p_values[i] for i in members]), strict=True):
            adjusted[i] = p
    return adjusted


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values; undefined ones stay undefined and do not count."""
    p = np.asarray(p_values, float)
    defined = np.flatnonzero(~np.isnan(p))
    order = defined[np.argsort(p[defined], kind="stable")]
    adjusted = np.full(len(p), np.nan)
    running = 0.0
    for rank, place in enumerate(order):
        running = max(running, min(1.0, float(p[place]) * (len(order) - rank)))
        adjusted[place] = running
    return adjusted.tolist()
