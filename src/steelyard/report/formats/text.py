"""A document as plain text for a terminal or a pipe: aligned columns, nothing cut, control characters escaped.

Without a width, lines are as long as they are. With one, `layout` says how a table comes to fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.report.document import Document, Heading, Remarks, Table, Verbatim
from steelyard.report.figures.figure import Figure
from steelyard.report.formats.contract import report_format
from steelyard.report.layout import PLAIN, Style, line, paragraphs, table_lines, wrapped


@dataclass(frozen=True)
class LaidOut:
    """The text, ending in a newline, and the columns that were dropped so that it fits."""

    text: str
    dropped: tuple[str, ...]


@report_format("table", aliases=("text",), suffix=".txt")
def render(document: Document) -> str:
    """The text, ending in a newline."""
    return laid_out(document).text


def laid_out(document: Document, *, width: int | None = None, style: Style = PLAIN) -> LaidOut:
    """The document within a width, in the style that a terminal can show."""
    blocks: list[list[str]] = []
    dropped: dict[str, None] = {}
    for part in document:
        if isinstance(part, Table):
            lines, gone = table_lines(part, width, style)
            blocks.append(lines)
            dropped |= dict.fromkeys(gone)
        elif isinstance(part, Remarks):
            blocks.append(paragraphs((f"({i}) {text}" for i, text in enumerate(part.texts, 1)), width, indent=4))
        elif isinstance(part, Verbatim):
            blocks.append([piece for each in part.lines() for piece in wrapped(each, width)])
        elif isinstance(part, Figure):
            blocks += [] if part.path is None else [paragraphs([f"picture: {part.path}"], width)]
        elif isinstance(part, Heading):
            blocks.append([style.heading(part, text) for text in wrapped(line(part.text), width)])
        else:
            blocks.append(paragraphs([part.text], width))
    return LaidOut("\n\n".join("\n".join(lines) for lines in blocks) + "\n", tuple(dropped))
