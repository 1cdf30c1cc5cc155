"""Sums whose clusters may change sign: what a norm of gaps would be if only noise made them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.ground.arrays import Codes, Floats, Mask
from steelyard.ground.randomness import sign_blocks
from steelyard.metrics.evidence.clusters import Merger, left_out
from steelyard.metrics.evidence.codec import kind
from steelyard.metrics.evidence.sums import Draw, Sums, Terms
from steelyard.records.clusters import Clusters


@dataclass(frozen=True)
class SignedReading:
    """ECE as observed, and under random cluster signs: (resamples,) and (resamples, signs)."""

    observed: Floats
    chance: Floats


@kind("Signed", "gaps excluded")
@dataclass(frozen=True)
class Signed:
    """Sums whose clusters may change sign: the evidence for what ECE would be if only noise made it."""

    gaps: Sums
    excluded: Mapping[str, int]

    @property
    def ids(self) -> Clusters:
        return self.gaps.ids

    @property
    def rows(self) -> Codes:
        return self.gaps.rows

    @property
    def width(self) -> int:
        return self.gaps.width * 16

    def on(self, ids: Clusters, place: Codes) -> Signed:
        return Signed(self.gaps.on(ids, place), self.excluded)

    def among(self, clusters: Codes) -> Signed:
        return Signed(self.gaps.among(clusters), self.excluded)

    def differs(self, other: Signed) -> Mask:
        return self.gaps.differs(other.gaps)

    def stacked(self, other: Signed) -> Signed:
        return Signed(self.gaps.stacked(other.gaps), {})

    def merge(self, other: Signed, merger: Merger) -> Signed:
        return Signed(merger.merged(self.gaps, other.gaps), left_out(self.excluded, other.excluded))

    def under(self, draw: Draw) -> SignedReading:
        observed, chance = [], []
        for weights in draw.floats:
            cells = self.gaps.under(Draw(weights[None]))
            n = float(cells.n.sum()) or math.nan
            observed.append(np.abs(cells.gap).sum(-1)[0] / n)
            blocks = [self.gaps.under(Draw(signs * weights)).gap for signs in sign_blocks(len(self.ids))]
            chance.append(np.concatenate([np.abs(gap).sum(-1) for gap in blocks]) / n)
        return SignedReading(np.array(observed), np.array(chance))


class SignedTerms(Terms):
    """Terms whose clusters may change sign."""

    def collect(self, ids: Clusters, cluster: Codes) -> tuple[Any, Mask]:
        gaps, kept = Sums.collect(self, ids, cluster)
        return Signed(gaps, {}), kept
