"""Leave-one-out values: the evidence with one cluster missing at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.ground.arrays import Floats
from steelyard.metrics.evidence.sums import Draw, Sums

EXACT_JACKKNIFE = 2_000  # clusters; above, evidence that is costly to reweigh leaves out blocks of clusters


def leave_one_out(
    evidence: Any, finishes: Sequence[Callable[[Any], Floats]], present: npt.NDArray[np.int64] | None = None
) -> list[Floats]:
    """The values of each finish with each cluster that has rows left out in turn.

    Where there are very many clusters, blocks of them are left out instead.
    """
    if present is None:
        present = np.flatnonzero(evidence.rows > 0)
    cheap = isinstance(evidence, Sums) and evidence.width * len(present) <= 50_000_000
    count = len(present) if cheap else min(len(present), EXACT_JACKKNIFE)
    blocks = np.full(len(evidence.rows), -1, np.int64)
    blocks[present] = np.arange(len(present)) * count // max(len(present), 1)
    step = max(1, min(count, 4_000_000 // max(evidence.width, len(evidence.rows) if not cheap else 1)))
    finished = []
    for first in range(0, count, step):
        last = min(count, first + step)
        if isinstance(evidence, Sums):
            reading: Any = evidence.without(blocks, first, last)
        else:
            weights = np.ones((last - first, len(blocks)), np.uint8)
            inside = np.flatnonzero((blocks >= first) & (blocks < last))
            weights[blocks[inside] - first, inside] = 0
            reading = Draw(weights).read(evidence)
        finished.append([finish(reading) for finish in finishes])
    return [np.concatenate(values) for values in zip(*finished, strict=True)]
