"""A document's tables as CSV. A cell that a spreadsheet would run as a formula is made text; numbers stay numbers."""

from __future__ import annotations

import csv
import io
import re

from steelyard.report.document import Document, Table

_NUMBER = re.compile(r"[+-]?\d[\d,]*(\.\d+)?([eE][+-]?\d+)?")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render(document: Document) -> str:
    """Every table, one after the other, a blank line between."""
    blocks = []
    for part in document:
        if isinstance(part, Table):
            buffer = io.StringIO()
            writer = csv.writer(buffer, lineterminator="\n")
            writer.writerow([safe(name) for name in part.columns])
            writer.writerows([safe(cell) for cell in row] for row in part.rows)
            blocks.append(buffer.getvalue())
    return "\n".join(blocks)


def safe(cell: str) -> str:
    """The cell, with an apostrophe before what a spreadsheet would take for a formula."""
    return f"'{cell}" if cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell) else cell
