"""A document as a piece of HTML for a notebook: nothing fetched, no script, colours of the page that it stands in.

A page of its own is `formats/html.py`. A piece may not style what is around it, so every style is an attribute, text
has the colour of the notebook, and rules are that colour at a third: light and dark are both readable.
"""

from __future__ import annotations

import html

from steelyard.errors import printable
from steelyard.report.document import (
    Count,
    Document,
    Heading,
    MetricName,
    Note,
    Remarks,
    Span,
    Table,
    Value,
    Verbatim,
    Word,
)

_CELL = "padding:.25em .75em;vertical-align:top;border-bottom:1px solid rgba(128,128,128,.33);background:none"

_WHOLE = ";white-space:nowrap"
_UNBROKEN = (Count, MetricName, Span, Value, Word)  # cells that a line break would tear apart


def fragment(document: Document) -> str:
    """The piece: one `div`, ending in a newline."""
    blocks = []
    for part in document:
        if isinstance(part, Heading):
            blocks.append(f'<p style="margin:.75em 0 .25em;font-weight:600">{_escaped(part.text)}</p>')
        elif isinstance(part, Note):
            blocks.append(f'<p style="margin:.25em 0">{_escaped(part.text)}</p>')
        elif isinstance(part, Verbatim):
            blocks.append(f"<pre>{html.escape(chr(10).join(part.lines()))}</pre>")
        elif isinstance(part, Remarks):
            items = "".join(f"<li>{_escaped(text)}</li>" for text in part.texts)
            blocks.append(f'<ol style="margin:.25em 0;font-size:.9em">{items}</ol>')
        elif isinstance(part, Table):
            blocks.append(_table(part.trimmed()))
    style = "color:inherit;background:none;overflow-x:auto"
    return f'<div class="steelyard" style="{style}">\n' + "\n".join(blocks) + "\n</div>\n"


def _escaped(text: str) -> str:
    return html.escape(printable(text, limit=2000))


def _table(table: Table) -> str:
    sides = ["right" if right else "left" for right in table.aligned_right()]
    columns, *rows = table.texts()
    whole = [any(isinstance(row[i], _UNBROKEN) for row in table.rows) for i in range(len(columns))]

    def row(tag: str, texts: list[str]) -> str:
        cells = (
            f'<{tag} style="{_CELL};text-align:{side}{_WHOLE if kept else ""}">{_escaped(text)}</{tag}>'
            for text, side, kept in zip(texts, sides, whole, strict=True)
        )
        return f'<tr style="background:none">{"".join(cells)}</tr>'

    head, body = row("th", columns), "\n".join(row("td", texts) for texts in rows)
    return (
        '<table style="border-collapse:collapse;color:inherit;background:none">\n'
        f"<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    )
