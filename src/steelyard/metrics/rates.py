"""Rates: of some rows, the share that has something. A declaration says both; bounds and denominators are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from steelyard.metrics.contract import metric
from steelyard.metrics.definition import Definition
from steelyard.metrics.evidence.sums import Terms, row_score
from steelyard.metrics.facts import Function
from steelyard.metrics.vocabulary import UNIT


def rate(**facts: Any) -> Callable[[Function], Definition]:
    """Define a metric whose value is a share of rows, within [0, 1]: `metric` with these bounds."""
    return metric(bounds=UNIT, **facts)


def share(hits: Any, *, among: Any, otherwise: str, left_out: Mapping[str, Any] | None = None, **further: Any) -> Terms:
    """Of the rows `among`, the share that is a hit; the others are left out, for the reason `otherwise`.

    A row lacks a value where it is not known to be a hit, or to be among them: NaN in either.

    >>> terms = share([1.0, 0.0, 1.0], among=[1.0, 1.0, 0.0], otherwise="not asked")
    >>> terms.left_out["not asked"].tolist()
    [False, False, True]
    """
    inside = np.asarray(among, np.float64)
    score = np.where(np.isnan(inside), np.nan, hits)
    return row_score(score, left_out={otherwise: inside == 0, **(left_out or {})}, **further)
