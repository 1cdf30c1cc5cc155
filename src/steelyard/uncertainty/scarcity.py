"""Does a number stand on enough clusters? A class, group or denominator may sit in a few of them only.

A macro average over classes is as sure as its rarest class lets it be, however many clusters the others fill. Parts in
fewer than six clusters that carry more than a tenth of the value leave no verdict; fewer than twenty, a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.uncertainty.sampling import Sample

FEWEST_CLUSTERS = 6  # with fewer, no swap of clusters reaches 0.05
FEW_CLUSTERS = 20
CARRIES = 0.1  # of a value's weight


@dataclass(frozen=True)
class Scarcity:
    """The fewest clusters that a part of the value has, and whether the scarce parts carry too much of it."""

    fewest: int
    scarce: bool = False
    few: bool = False


def scarcity(sides: Sequence[Sample]) -> Scarcity:
    """Of one run, or of two: there the scarcer side of every part counts."""
    by_side = [_clusters(s) for s in sides]
    if any(part is None for part in by_side):
        return Scarcity(min(s.clusters for s in sides))
    parts = [part for part in by_side if part is not None]
    fewest = min(
        int(clusters[weight > 0].min(initial=s.clusters)) for s, (clusters, weight) in zip(sides, parts, strict=True)
    )
    scarce, few = (
        any(float(weight[(clusters < limit) & (clusters > 0)].sum()) > CARRIES + 1e-12 for clusters, weight in parts)
        for limit in (FEWEST_CLUSTERS, FEW_CLUSTERS)
    )
    return Scarcity(fewest, scarce, few)


def _clusters(s: Sample) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]] | None:
    """How many clusters hold each part, and what it carries; None where the parts are groups."""
    parts: tuple[Any, Any] | None = s.metric.parts(s.evidence, s.constants)
    if parts is None:
        return None
    holds, weight = parts
    return np.asarray(holds).sum(0).astype(np.int64), np.asarray(weight, np.float64)
