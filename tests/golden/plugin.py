"""Metrics that no edition has built in, for the one kind of evidence that only such metrics need.

A metric that asks for `weight` is not a function of sums: its whole columns are kept. One here reads numbers, the other
labels, because the two are written differently. Runs in `first_edition` name them `tests.golden.plugin:...`, so neither
the module nor the functions may be renamed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from steelyard.metrics.contract import metric
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
