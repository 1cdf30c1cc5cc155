"""The metrics: one file per question. Importing this package registers them all."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from steelyard.metrics import questions
from steelyard.metrics.definition import metrics

_FIRST = "correctness"  # the question that the others refine; they follow in the order of their names

for _question in sorted((module.name for module in iter_modules(questions.__path__)), key=lambda n: (n != _FIRST, n)):
    import_module(f"{questions.__name__}.{_question}")

__all__ = ["metrics"]
