"""Metrics that no edition has built in, for the kinds of evidence that only such metrics need.

A metric that asks for `weight` is not a function of sums: its whole columns are kept. One here reads numbers, the other
labels, because the two are written differently. A third keeps its evidence in a kind of its own, `Held`. Runs in the
stores of the editions name them `tests.golden.plugin:...`, so neither the module nor the functions nor the kind may be
renamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.metrics.contract import metric
from steelyard.metrics.evidence.clusters import added
from steelyard.metrics.evidence.codec import kind
from steelyard.metrics.evidence.sums import Sums, Terms
from steelyard.records.labels import Labels

Floats = npt.NDArray[np.float64]


@metric(better="lower", bounds=(0, None), rows="answered")
def typical_error(target: Floats, prediction: Floats, *, weight: Floats) -> float:
    """The weighted median of the absolute error: the first at which half of the weight is reached."""
    error = np.abs(prediction - target)
    order = np.argsort(error, kind="stable")
    reached = np.cumsum(weight[order])
    return float(error[order][np.searchsorted(reached, reached[-1] / 2)]) if len(error) else float("nan")


@metric(better="higher", bounds=(0, 1), rows="answered")
def agreement(target: Labels, prediction: Labels, *, weight: Floats) -> float:
    """The weighted share of answered rows that are right."""
    return float(np.average(target == prediction, weights=weight)) if len(weight) else float("nan")


@kind("Held", "sums excluded")
@dataclass(frozen=True)
class Held:
    """Sums of a kind of their own: what a plug-in registers is kept under its own name."""

    sums: Sums
    excluded: Mapping[str, int]

    @property
    def ids(self) -> Any:
        return self.sums.ids

    @property
    def rows(self) -> Any:
        return self.sums.rows

    @property
    def width(self) -> int:
        return self.sums.width

    def under(self, draw: Any) -> Any:
        return self.sums.under(draw)

    def on(self, ids: Any, place: Any) -> Held:
        return Held(self.sums.on(ids, place), self.excluded)

    def among(self, clusters: Any) -> Held:
        return Held(self.sums.among(clusters), self.excluded)

    def merge(self, other: Held, merger: Any) -> Held:
        return Held(self.sums.merge(other.sums, merger), added(self.excluded, other.excluded))

    def stacked(self, other: Held) -> Held:
        return Held(self.sums.stacked(other.sums), {})

    def differs(self, other: Held) -> Any:
        return self.sums.differs(other.sums)


class HeldTerms(Terms):
    """Terms that are collected as `Held`."""

    def collect(self, ids: Any, cluster: Any) -> tuple[Any, Any]:
        found, counted = super().collect(ids, cluster)
        return Held(found, {}), counted


@metric(better="higher", bounds=(0, 1), rows="answered")
def agreement_held(target: Labels, prediction: Labels) -> HeldTerms:
    """The share of answered rows that are right, from evidence of a kind of its own."""
    return HeldTerms(values={"right": np.asarray(target == prediction, float), "n": 1})


@agreement_held.finish
def _(s: Any) -> Floats:
    return np.asarray(s.right / s.n)
