"""What a format is. To add one, write one file: a function from a document to a text, with its name.

    from steelyard.report.document import Document, text_of
    from steelyard.report.formats.contract import report_format

    @report_format("outline", suffix=".txt")
    def render(document: Document) -> str:
        ...

A file in this folder is known at once; that of another package by its entry point in the group "steelyard". Whatever
came from data must stay inert: no text may become a tag, a command or a control character.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from steelyard.registry import Registry
from steelyard.report.document import Document

Render = Callable[[Document], str]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A way to render a document, and the suffix of a file that holds it."""

    name: str
    suffix: str
    render: Render
    aliases: tuple[str, ...] = ()
    titles: bool = False  # metrics by their titles for people, not by their names


formats: Registry[Format] = Registry("format")


def report_format(
    name: str, *, suffix: str, aliases: tuple[str, ...] = (), titles: bool = False
) -> Callable[[Render], Render]:
    """Register a function as the format of a name."""

    def register(render: Render) -> Render:
        formats.add(
            name,
            Format(name=name, suffix=suffix, render=render, aliases=aliases, titles=titles),
            aliases=aliases,
        )
        return render

    return register
