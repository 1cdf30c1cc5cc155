"""Perturbations: the same question asked a little otherwise. A few per file, `contract` says how to add one.

perturbed("typos", task, item, seed)     the item with misspelt texts, None where nothing would change
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from steelyard.runner.perturbations.contract import Altered, Perturbation, altered_item, perturbations, perturbed

for _module in iter_modules(__path__):  # a file in this folder is known by being there
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Altered", "Perturbation", "altered_item", "perturbations", "perturbed"]
