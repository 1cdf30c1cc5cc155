"""Steelyard: how good a model's answers are, how sure we are, and whether it may pass.

import steelyard as sy
records = sy.read("run.jsonl", cluster="patient")
result = sy.evaluate(records, ["accuracy", "ece(bins=15)", "aurc"], by=["group.site"])
result["aurc"].value, result["aurc"].interval
sy.compare(old, new, ["accuracy", "aurc"])["aurc"].delta
"""

from __future__ import annotations

from typing import Any

__version__ = "0.3.0"

_HOMES = {
    "Calibrator": "steelyard.confidence.calibrators",
    "Comparison": "steelyard.study.comparison",
    "Delta": "steelyard.uncertainty.number",
    "Estimate": "steelyard.uncertainty.number",
    "Gate": "steelyard.decide.gate",
    "InputError": "steelyard.errors",
    "UsageError": "steelyard.errors",
    "Evaluation": "steelyard.study.evaluation",
    "Records": "steelyard.records.table",
    "Selection": "steelyard.study.selective",
    "SteelyardError": "steelyard.errors",
    "Task": "steelyard.records.task",
    "calibrate": "steelyard.study.calibrating",
    "compare": "steelyard.study.comparison",
    "compose": "steelyard.metrics.contract",
    "evaluate": "steelyard.study.evaluation",
    "evidence": "steelyard.metrics.contract",
    "metric": "steelyard.metrics.contract",
    "over": "steelyard.metrics.contract",
    "read": "steelyard.records.readers",
    "row_score": "steelyard.metrics.evidence.sums",
    "selective": "steelyard.study.selective",
    "sums": "steelyard.metrics.evidence.sums",
    "value": "steelyard.study.evaluation",
    "values": "steelyard.study.evaluation",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    # PEP 562: importing steelyard costs nothing until a name is used
    from importlib import import_module

    if name == "retrieval":
        return import_module("steelyard.retrieval")
    if name not in _HOMES:
        raise AttributeError(f"module 'steelyard' has no attribute '{name}'")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found  # a submodule of the same name must not shadow the function
    return found
