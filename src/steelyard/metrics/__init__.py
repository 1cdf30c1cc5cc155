"""The metrics: one file per question. Importing this package registers them all."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from steelyard.metrics import questions
from steelyard.metrics.definition import metrics

for _module in iter_modules(questions.__path__):
    import_module(f"{questions.__name__}.{_module.name}")

__all__ = ["metrics"]
