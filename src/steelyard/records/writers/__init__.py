"""Tables written to files: one file per format, each of which registers itself. `contract` says how to add one."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from steelyard.records.writers.contract import Writer, write_parts, write_records, writer_of, writers

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Writer", "write_parts", "write_records", "writer_of", "writers"]
