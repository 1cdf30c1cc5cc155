"""Evaluations in the forms of other tools: one file per form, each of which registers itself.

`contract` says how to add one. Rows are exported by `records.writers`; this room is about their numbers.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from steelyard.exports.contract import Exported, Exporter, Place, Subject, exporters
from steelyard.exports.subject import subject_of

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Exported", "Exporter", "Place", "Subject", "exporters", "subject_of"]
