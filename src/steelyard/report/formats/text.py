"""A document as plain text for a terminal or a pipe: aligned columns, nothing cut, control characters escaped."""

from __future__ import annotations

from steelyard.errors import printable
from steelyard.report.document import Document, Remarks, Table, Verbatim
from steelyard.report.figures.figure import Figure
from steelyard.report.formats.contract import report_format


@report_format("table", aliases=("text",), suffix=".txt")
def render(document: Document) -> str:
    """The text, ending in a newline."""
    blocks = []
    for part in document:
        if isinstance(part, Table):
            blocks.append(_table(part))
        elif isinstance(part, Remarks):
            blocks.append("\n".join(_line(f"({i}) {text}") for i, text in enumerate(part.texts, start=1)))
        elif isinstance(part, Verbatim):
            blocks.append("\n".join(part.lines()))
        elif isinstance(part, Figure):
            blocks += [] if part.path is None else [_line(f"picture: {part.path}")]
        else:
            blocks.append(_line(part.text))
    return "\n\n".join(blocks) + "\n"


def _line(text: str) -> str:
    return printable(text, limit=2000)


def _table(table: Table) -> str:
    table = table.trimmed()
    cells = [[_line(text) for text in row] for row in table.texts()]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = table.aligned_right()
    lines = [
        "  ".join(
            text.rjust(width) if numbers else text.ljust(width)
            for text, width, numbers in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
