"""Steelyard: how good a model's answers are, how sure we are, and whether it may pass."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Records": "steelyard.records.table",
    "Task": "steelyard.records.task",
    "read": "steelyard.records.readers",
}

__all__ = ["Records", "Task", "__version__", "read"]


def __getattr__(name: str) -> Any:
    # PEP 562: importing steelyard costs nothing until a name is used
    if name not in _HOMES:
        raise AttributeError(f"module 'steelyard' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
