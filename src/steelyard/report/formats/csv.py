"""A document's tables as CSV: control characters visible, nothing cut, nothing that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
import re

from steelyard.errors import printable
from steelyard.report.document import Document, Table
from steelyard.report.formats.contract import report_format

_NUMBER = re.compile(r"[+-]?[0-9][0-9,]*(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_FORMULA = re.compile(r" *[=+\-@＝＋－＠]")  # wide forms count too: some spreadsheets read them as the narrow ones


@report_format("csv", suffix=".csv")
def render(document: Document) -> str:
    """Every table, one after the other, with a blank line between them."""
    blocks = []
    for part in document:
        if isinstance(part, Table):
            buffer = io.StringIO()
            writer = csv.writer(buffer, lineterminator="\n")
            writer.writerows([safe(text) for text in row] for row in part.texts())
            blocks.append(buffer.getvalue())
    return "\n".join(blocks)


def safe(cell: str) -> str:
    """The cell on one line, with an apostrophe before what a spreadsheet would take for a formula.

    >>> safe("=1+1"), safe("-0.5"), safe("two\\nlines")
    ("'=1+1", '-0.5', 'two\\\\nlines')
    """
    shown = printable(cell, limit=None)
    return f"'{shown}" if _FORMULA.match(shown) and not _NUMBER.fullmatch(shown) else shown
