"""Quantiles of a weighted sample, as numpy's default computes them on the repeated sample."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def quantile(keys: Floats, counts: Floats, q: float) -> Floats:
    """The q-quantile under every row of integer `counts` of the sorted `keys`: linear between order statistics.

    >>> quantile(np.array([1.0, 2.0, 3.0]), np.array([[1.0, 2.0, 1.0]]), 0.5)
    array([2.])
    """
    up_to = np.cumsum(counts, -1)
    n = up_to[..., -1:]
    place = (n - 1) * q
    lower, part = np.floor(place), place - np.floor(place)
    if not len(keys):
        return np.full(counts.shape[:-1], np.nan)
    low = keys[np.argmax(up_to > lower, -1)]
    high = keys[np.argmax(up_to > np.minimum(lower + 1, n - 1), -1)]
    value = low + (high - low) * part[..., 0]
    return np.where(n[..., 0] > 0, value, np.nan)
