"""What is kept: the documents that are written, and how they reach the disk.

import steelyard as sy
sy.runs.metrics("results-root")           # run_id, metric_name, value: one row per number
sy.runs.metrics_pivot("results-root")     # one row per run, one column per metric
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.runs.metric_frames import metrics as metrics
    from steelyard.runs.metric_frames import metrics_pivot as metrics_pivot

__all__ = ["metrics", "metrics_pivot"]


def __getattr__(name: str) -> object:
    # PEP 562: naming the room costs nothing until something of it is used
    if name not in __all__:
        raise AttributeError(f"module 'steelyard.runs' has no attribute '{name}'")
    return getattr(import_module("steelyard.runs.metric_frames"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
