"""Two views of one table, between which a metric is compared: altered questions, and the originals they were made from.

A view shows rows of the table, under the same clusters, perhaps with other columns. What needs a partner row gets it as
`reference.*` columns, joined before any split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.ground.arrays import Mask
from steelyard.records.table import Records
from steelyard.registry import Registry

if TYPE_CHECKING:
    from steelyard.metrics.collector import Collector


@dataclass(frozen=True, kw_only=True)
class Views:
    """Two views of a table: how each is made, what they read beyond the metric, and which rows neither can show."""

    first: Callable[[Collector], Collector]
    second: Callable[[Collector], Collector]
    reads: Callable[[Sequence[str]], Sequence[str]]  # the columns that are read besides those of the metric
    lost: Callable[[Records], dict[str, int]]  # rows left out, by reason
    perturbed_only: bool = False


views: Registry[Views] = Registry("pair of views")


def partnerless(records: Records) -> dict[str, Mask]:
    """Why a row has no pair to compare, each row under its first reason."""
    partner = records.labels("reference.outcome")
    failed = records.array("failed") == 1
    alone = partner.missing & ~failed
    return {"failed": failed, "no unperturbed partner": alone, "partner failed": (partner == "failed") & ~failed}


def _altered(collector: Collector) -> Collector:
    return collector.within(_with_partner(collector.records))


def _original(collector: Collector) -> Collector:
    inside = _altered(collector)
    return inside.on(inside.records.as_reference())


def _with_partner(records: Records) -> Mask:
    if "reference.outcome" not in records:
        return np.zeros(len(records), bool)
    return ~np.logical_or.reduce(list(partnerless(records).values()))


def _lost(records: Records) -> dict[str, int]:
    if "reference.outcome" not in records:
        return {"no unperturbed partner": len(records)}
    return {reason: int(rows.sum()) for reason, rows in partnerless(records).items() if rows.any()}


views.add(
    "reference",
    Views(
        first=_original,
        second=_altered,
        reads=lambda columns: [f"reference.{name}" for name in (*columns, "outcome", "prediction")],
        lost=_lost,
        perturbed_only=True,
    ),
)
