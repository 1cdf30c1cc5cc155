"""A document as Markdown. Text that came from data can add no heading, row, link or HTML."""

from __future__ import annotations

import re

from steelyard.errors import printable
from steelyard.report.document import Document, Figure, Heading, Note, Remarks, Table

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&@]|(?<=www)\.|:(?=//))")  # the last ones: bare addresses become links


def render(document: Document) -> str:
    """The Markdown, ending in a newline."""
    blocks = []
    for part in document:
        if isinstance(part, Heading):
            blocks.append(f"## {escaped(part.text)}")
        elif isinstance(part, Note):
            blocks.append(escaped(part.text))
        elif isinstance(part, Figure):
            blocks.append(f"![{escaped(part.text)}]({part.path})")
        elif isinstance(part, Remarks):
            blocks.append("\n".join(f"{i}. {escaped(text)}" for i, text in enumerate(part.texts, start=1)))
        else:
            blocks.append(_table(part))
    return "\n\n".join(blocks) + "\n"


def escaped(text: str) -> str:
    """Text with everything that Markdown would read taken literally."""
    return _SPECIAL.sub(r"\\\1", printable(text, limit=2000))


def _table(table: Table) -> str:
    kept = [i for i, name in enumerate(table.columns) if i == 0 or any(row[i] for row in table.rows)]
    marks = ["---:" if table.columns[i] in table.right else "---" for i in kept]
    rows = [[table.columns[i] for i in kept], marks, *([escaped(row[i]) for i in kept] for row in table.rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
