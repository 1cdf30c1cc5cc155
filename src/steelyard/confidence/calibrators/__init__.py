"""From a confidence to a probability: calibrators, fitted once on training rows and kept as plain data.

`methods` has one file each. A `Calibrator` is what a fit leaves behind: the method's parameters, the features with
their scaling, the target, where the rows came from, and how well it did in sample and cross-fitted. It is applied with
NumPy alone.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from steelyard.confidence.calibrators.calibrator import Calibrator, Feature, Input, Provenance, Scores, Target
from steelyard.confidence.calibrators.contract import Method, methods

for _module in iter_modules(__path__):  # a file in this folder is known by being there
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Calibrator", "Feature", "Input", "Method", "Provenance", "Scores", "Target", "methods"]
