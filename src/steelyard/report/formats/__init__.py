"""How a report is rendered: one file per format, each of which registers itself. `contract` says how to add one.

Importing this package loads no array library and draws nothing, so that a command may list the names in its help.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from steelyard.report.document import Document, titled
from steelyard.report.formats.contract import Format, formats

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Format", "canonical", "formats", "known", "render", "suffix"]


def known() -> tuple[str, ...]:
    """The names of all formats that are loaded, without aliases; the table for terminals is the first."""
    return ("table", *(name for name in formats if name != "table"))


def canonical(name: str) -> str:
    """A format's own name where an alias is given; what is no format as it is."""
    return formats[name].name if name in formats else name


def render(name: str, document: Document, *, titles: bool = False) -> str:
    """The document in a format, by its name or alias; a name that is not known is an error that names the nearest.

    Metrics go by their titles where that is asked for, and in formats that are for readers who never type a name.
    """
    format_ = formats[name]
    return format_.render(titled(document) if titles or format_.titles else document)


def suffix(name: str) -> str:
    """The suffix of a file in a format, with its dot."""
    return formats[name].suffix
