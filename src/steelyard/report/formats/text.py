"""A document as plain text for a terminal or a pipe: aligned columns, nothing cut, control characters escaped."""

from __future__ import annotations

from steelyard.errors import printable
from steelyard.report.document import Document, Figure, Remarks, Table


def render(document: Document) -> str:
    """The text, ending in a newline."""
    blocks = []
    for part in document:
        if isinstance(part, Table):
            blocks.append(_table(part))
        elif isinstance(part, Remarks):
            blocks.append("\n".join(_line(f"({i}) {text}") for i, text in enumerate(part.texts, start=1)))
        elif isinstance(part, Figure):
            blocks.append(_line(f"picture: {part.path}"))
        else:
            blocks.append(_line(part.text))
    return "\n\n".join(blocks) + "\n"


def _line(text: str) -> str:
    return printable(text, limit=2000)


def _table(table: Table) -> str:
    kept = [i for i, name in enumerate(table.columns) if i == 0 or any(row[i] for row in table.rows)]
    cells = [[_line(row[i]) for i in kept] for row in (table.columns, *table.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(kept))]
    lines = []
    for row in cells:
        padded = [
            text.rjust(width) if table.columns[i] in table.right else text.ljust(width)
            for text, width, i in zip(row, widths, kept, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
