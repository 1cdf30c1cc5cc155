"""How a report is rendered, one file per format."""

from __future__ import annotations

from importlib import import_module

from steelyard.report.document import Document

_SUFFIXES = {"table": "txt", "markdown": "md", "csv": "csv"}
_ALIASES = {"md": "markdown"}
_MODULES = {"table": "text"}


def known() -> tuple[str, ...]:
    """The names of the formats."""
    return tuple(_SUFFIXES)


def canonical(name: str) -> str:
    """A format's own name where an alias is given."""
    return _ALIASES.get(name, name)


def suffix(name: str) -> str:
    """What a file of this format ends in."""
    return _SUFFIXES[canonical(name)]


def render(name: str, document: Document) -> str:
    """The document in a format."""
    name = canonical(name)
    return str(import_module(f"steelyard.report.formats.{_MODULES.get(name, name)}").render(document))
