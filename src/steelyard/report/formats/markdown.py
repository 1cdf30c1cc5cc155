"""A document as Markdown. Text that came from data can add no heading, row, list, link, picture, emphasis or HTML."""

from __future__ import annotations

import re
from urllib.parse import quote

from steelyard.errors import printable
from steelyard.report.document import Document, Heading, Note, Remarks, Table, Verbatim
from steelyard.report.figures.figure import Figure
from steelyard.report.formats.contract import report_format

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&@$]|(?<=www)\.|:(?=//))")  # the last ones: bare addresses become links
_LEADING = re.compile(r"^((?=[-+=])|[0-9]+(?=[.)]))")  # begins a list, a rule or the underline of a heading


@report_format("markdown", aliases=("md",), suffix=".md")
def render(document: Document) -> str:
    """The Markdown, ending in a newline."""
    blocks = []
    for part in document:
        if isinstance(part, Heading):
            blocks.append(f"## {escaped(part.text)}")
        elif isinstance(part, Note):
            blocks.append(_paragraph(part.text))
        elif isinstance(part, Verbatim):
            blocks.append(_fenced(part))
        elif isinstance(part, Figure):
            blocks += [] if part.path is None else [_picture(part.text, part.path)]
        elif isinstance(part, Remarks):
            blocks.append("\n".join(f"{i}. {_paragraph(text)}" for i, text in enumerate(part.texts, start=1)))
        else:
            blocks.append(_table(part))
    return "\n\n".join(blocks) + "\n"


def escaped(text: str) -> str:
    """Text within a line, with everything that Markdown would read taken literally."""
    return _SPECIAL.sub(r"\\\1", printable(text, limit=2000))


def _fenced(part: Verbatim) -> str:
    """Code between fences that are longer than any in it."""
    text = "\n".join(part.lines())
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def _picture(text: str, path: str) -> str:
    return f"![{escaped(text)}]({quote(path, errors='backslashreplace')})"


def _paragraph(text: str) -> str:
    """Text that begins a line: neither indented, nor a list, a rule or the underline of a heading."""
    return _LEADING.sub(r"\1\\", escaped(text).strip(" "))


def _table(table: Table) -> str:
    table = table.trimmed()
    marks = ["---:" if right else "---" for right in table.aligned_right()]
    columns, *rows = ([escaped(text) for text in row] for row in table.texts())
    return "\n".join("| " + " | ".join(row) + " |" for row in (columns, marks, *rows))
