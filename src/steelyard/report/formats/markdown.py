"""A document as Markdown. Text that came from data can add no heading, row, list, link, picture, emphasis or HTML."""

from __future__ import annotations

import re
from urllib.parse import quote

from steelyard.errors import printable
from steelyard.report.document import Document, Figure, Heading, Note, Remarks, Table

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&@$]|(?<=www)\.|:(?=//))")  # the last ones: bare addresses become links
_LEADING = re.compile(r"^((?=[-+=])|[0-9]+(?=[.)]))")  # begins a list, a rule or the underline of a heading


def render(document: Document) -> str:
    """The Markdown, ending in a newline."""
    blocks = []
    for part in document:
        if isinstance(part, Heading):
            blocks.append(f"## {escaped(part.text)}")
        elif isinstance(part, Note):
            blocks.append(_paragraph(part.text))
        elif isinstance(part, Figure):
            blocks.append(f"![{escaped(part.text)}]({quote(part.path, errors='backslashreplace')})")
        elif isinstance(part, Remarks):
            blocks.append("\n".join(f"{i}. {_paragraph(text)}" for i, text in enumerate(part.texts, start=1)))
        else:
            blocks.append(_table(part))
    return "\n\n".join(blocks) + "\n"


def escaped(text: str) -> str:
    """Text within a line, with everything that Markdown would read taken literally."""
    return _SPECIAL.sub(r"\\\1", printable(text, limit=2000))


def _paragraph(text: str) -> str:
    """Text that begins a line: neither indented, nor a list, a rule or the underline of a heading."""
    return _LEADING.sub(r"\1\\", escaped(text).strip(" "))


def _table(table: Table) -> str:
    kept = [i for i, name in enumerate(table.columns) if i == 0 or any(row[i] for row in table.rows)]
    marks = ["---:" if table.columns[i] in table.right else "---" for i in kept]
    columns, *rows = ([escaped(row[i]) for i in kept] for row in (table.columns, *table.rows))
    return "\n".join("| " + " | ".join(row) + " |" for row in (columns, marks, *rows))
