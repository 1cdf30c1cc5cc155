"""Strategies: how a model is asked about an item. One file each, `contract` says how to add one.

strategy_named("zero-shot")
strategy_named("few-shot-3")
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from steelyard.runner.strategies.contract import Strategy, strategies, strategy_named

for _module in iter_modules(__path__):  # a file in this folder is known by being there
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Strategy", "strategies", "strategy_named"]
