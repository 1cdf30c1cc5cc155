"""The metrics: one file a question. Importing this package registers them all."""

from __future__ import annotations

from steelyard.metrics import calibration, correctness, deferral, efficiency, groups, regression, selective
from steelyard.metrics.contract import metrics

__all__ = [
    "calibration",
    "correctness",
    "deferral",
    "efficiency",
    "groups",
    "metrics",
    "regression",
    "selective",
]
