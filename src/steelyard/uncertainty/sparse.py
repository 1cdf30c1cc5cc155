"""Bounded means of which hardly any cluster differs from the rest: how far could those reach that were not seen?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from steelyard.ground.arrays import Floats, Mask
from steelyard.uncertainty.intervals import Interval, Rule, cluster_se, containing, quantile_t, student

FEW_DIFFERENT = 5  # clusters off the common value, below which the rest cannot be judged from them
_DIGITS = 12  # cluster means that agree so far are one value


@dataclass(frozen=True, kw_only=True)
class Sparse:
    """Bounded cluster means, of which most may be one value: how far the rest could reach unseen.

    A side of the most frequent value with fewer than five clusters is given the room that as many, or one more, could
    have in the population (Clopper and Pearson), all the way to the bound.
    """

    value: float
    means: Floats
    rows: Floats
    low: float
    high: float

    @classmethod
    def of(cls, totals: Floats, rows: Floats, low: float, high: float) -> Sparse:
        inside = rows > 0
        means = np.round(totals[inside] / rows[inside], _DIGITS) + 0.0
        value = float(totals.sum() / rows.sum())
        return cls(value=value, means=means, rows=rows[inside].astype(np.float64), low=low, high=high)

    def widened(self, interval: Interval, level: float) -> Interval:
        """The interval with the room that rare clusters need, cut to the bounds and stretched to the value."""
        low, high = interval
        for usual in self._usual():
            t = quantile_t(level, len(self.means))
            below, above = self.means < usual, self.means > usual
            off = int(below.sum() + above.sum())
            farthest = float(np.abs(self.means - usual).max()) if off >= FEW_DIFFERENT else math.inf
            under = t * cluster_se(np.where(below, usual - self.means, 0.0) * self.rows, self.rows)
            over = t * cluster_se(np.where(above, self.means - usual, 0.0) * self.rows, self.rows)
            if below.sum() < FEW_DIFFERENT:
                room = max(under, self._unseen(below, level) * min(usual - self.low, farthest))
                low = min(low, self.value - math.hypot(over, room))
            if above.sum() < FEW_DIFFERENT:
                room = max(over, self._unseen(above, level) * min(self.high - usual, farthest))
                high = max(high, self.value + math.hypot(under, room))
        return containing((max(self.low, low), min(self.high, high)), self.value)

    def _usual(self) -> list[float]:
        """The most frequent cluster mean, if two clusters have it; of equally frequent ones that nearest 0.

        Two that are as near, one on each side, both count: runs that change places must change the sign alone.
        """
        values, counts = np.unique(self.means, return_counts=True)
        often = values[counts == counts.max()]
        near = np.abs(often).min(initial=math.inf)
        return often[np.abs(often) == near].tolist() if counts.max(initial=0) >= 2 else []

    def _unseen(self, side: Mask, level: float) -> float:
        share = rare_share(int(side.sum()), self.rows, self.rows[side], level)
        return share - float(self.rows[side].sum() / self.rows.sum())


def rare_share(clusters: int, rows: Floats, theirs: Floats, level: float) -> float:
    """The share of rows that lie in clusters of which `clusters` of all were seen, at the far end of its interval.

    Clusters that are larger than usual weigh more; before one was seen, the largest may be meant.
    """
    size = float(rows.mean())
    heavy = float((rows**2).sum() / (size * rows.sum())) if clusters == 0 else max(1.0, float(theirs.mean()) / size)
    return min(1.0, rare_clusters(clusters, len(rows), level) * heavy)


def rare_clusters(seen: int, clusters: int, level: float) -> float:
    """The upper end of Clopper and Pearson's interval for a share of clusters of which so many were seen."""
    if seen >= clusters:
        return 1.0
    return float(betaincinv(seen + 1, clusters - seen, 0.5 + level / 2))


def sparse_delta(totals: Floats, rows: Floats, reach: float) -> Rule:
    """A bounded row mean's delta: t on the data and two pseudo-clusters, widened where hardly any cluster differs.

    The pseudo-clusters differ by the usual size of a difference, one up, one down.
    """
    inside = rows > 0
    totals, rows = totals[inside], rows[inside].astype(np.float64)
    sparse = Sparse.of(totals, rows, -reach, reach)
    moved = sparse.means[sparse.means != 0]
    usual = math.sqrt(float((moved**2).mean())) if len(moved) else 0.0
    size = float(rows.mean())
    padded = np.append(totals, [usual * size, -usual * size]), np.append(rows, [size, size])
    centre, se = float(padded[0].sum() / padded[1].sum()), cluster_se(*padded)
    return Rule("t", lambda level: sparse.widened(student(centre, se, len(rows), level), level))
