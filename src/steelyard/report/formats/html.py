"""A document as one page of HTML that needs nothing else: no script, nothing fetched, fit for paper and dark screens.

Text that came from data is escaped; figures are drawn into the page. Intervals between 0 and 1 are drawn on that scale,
those of differences around 0; others stand as text alone, since they share no scale with their neighbours, and so does
an interval without its value.
"""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Iterator

from steelyard.errors import printable
from steelyard.report.document import (
    Cell,
    Document,
    Heading,
    Marks,
    MetricName,
    Note,
    Remarks,
    Span,
    Table,
    Verbatim,
    Word,
    text_of,
)
from steelyard.report.figures.figure import Figure
from steelyard.report.formats.contract import report_format

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_WIDTH, _HEIGHT, _EDGE = 96, 12, 3  # of a drawn interval
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #57606a; --line: #d0d7de; --paper: #ffffff; --row: #f6f8fa;
  --blue: #0072b2; --good: #00674b; --bad: #b03a00; --open: #6b5900; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --faint: #9da7b1; --line: #3d444d; --paper: #0d1117;
  --row: #161b22; --blue: #56b4e9; --good: #3fcf9f; --bad: #ff9a5c; --open: #e3c84a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 82rem; margin: 0 auto; padding: 2rem 1.5rem 3rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }
h2:first-child { margin-top: 0; }
pre { margin: .5rem 0; max-width: 60rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }
p { margin: .5rem 0; max-width: 60rem; overflow-wrap: anywhere; }
.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .3rem .75rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { padding-left: .25rem; white-space: pre-wrap; }
thead th { color: var(--faint); font-weight: 600; white-space: nowrap; border-bottom: 2px solid var(--line); }
tbody th { font-weight: inherit; }
tbody th:not(.number) { min-width: 14rem; }
tbody tr:hover { background: var(--row); }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.span { white-space: nowrap; font-variant-numeric: tabular-nums; }
.span svg { vertical-align: -1px; margin-right: .6rem; }
.span svg { overflow: visible; background: linear-gradient(var(--line), var(--line)) center / 100% 1px no-repeat; }
.span line { stroke: var(--blue); stroke-width: 3; }
.span circle { fill: var(--blue); }
.span .zero { stroke: var(--faint); stroke-width: 1; }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
.open { color: var(--open); font-weight: 600; }
.marks { white-space: nowrap; }
.marks a { color: var(--blue); text-decoration: none; }
ol { margin: .5rem 0; padding-left: 1.75rem; font-size: .9rem; color: var(--faint); max-width: 60rem; }
li { overflow-wrap: anywhere; }
li:target { color: var(--ink); font-weight: 600; }
figure { margin: 1.5rem 0; }
figure img { display: block; max-width: 100%; height: auto; background: #ffffff; border-radius: 4px; }
figcaption { color: var(--faint); font-size: .9rem; }
@page { size: landscape; margin: 12mm; }
@media print { :root { color-scheme: light; --ink: #000000; --faint: #444444; --line: #bbbbbb; --paper: #ffffff;
  --blue: #0072b2; --good: #00674b; --bad: #b03a00; --open: #6b5900; }
  main { max-width: none; padding: 0; } .table { overflow: visible; } table { font-size: 8pt; }
  th, td { padding: 2pt 5pt; } tbody th:not(.number) { min-width: 0; }
  tr, figure { break-inside: avoid; } h2 { break-after: avoid; } }
"""


@report_format("html", suffix=".html", titles=True)
def render(document: Document) -> str:
    """The page, ending in a newline."""
    first = document[0] if document else None
    title = f"{first.text} · Steelyard" if isinstance(first, Heading) else "Steelyard report"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "".join(f"{block}\n" for block in _blocks(document))
        + "</main>\n</body>\n</html>\n"
    )


def escaped(text: str) -> str:
    """Text as it is: no tag, no entity, no control character, and fit for an attribute in quotes."""
    return html.escape(printable(text, limit=2000))


def _blocks(document: Document) -> Iterator[str]:
    tables = 0  # remarks are those of the table above them
    for part in document:
        if isinstance(part, Heading):
            yield f"<h2{_class(part.tone)}>{escaped(part.text)}</h2>"
        elif isinstance(part, Note):
            yield f"<p>{escaped(part.text)}</p>"
        elif isinstance(part, Verbatim):
            yield f"<pre>{html.escape(chr(10).join(part.lines()))}</pre>"
        elif isinstance(part, Figure):
            yield _figure(part)
        elif isinstance(part, Remarks):
            items = (f'<li id="{_id(tables, i)}">{escaped(text)}</li>' for i, text in enumerate(part.texts, start=1))
            yield f"<ol>{''.join(items)}</ol>"
        else:
            tables += 1
            yield _table(part.trimmed(), tables)


def _table(table: Table, place: int) -> str:
    right = table.aligned_right()
    reach = max((_reach(cell) for row in table.rows for cell in row if isinstance(cell, Span)), default=0.0)
    head = "".join(
        f'<th scope="col"{_class("number" if numbers else "")}>{escaped(name)}</th>'
        for name, numbers in zip(table.columns, right, strict=True)
    )
    body = []
    for name, *cells in table.rows:
        first = f'<th scope="row"{_class("number" if right[0] else "")}>{_content(name, place, reach)}</th>'
        rest = (
            f"<td{_class('number' if numbers else _kind(cell))}>{_content(cell, place, reach)}</td>"
            for cell, numbers in zip(cells, right[1:], strict=True)
        )
        body.append(f"<tr>{first}{''.join(rest)}</tr>\n")
    return (
        f'<div class="table"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{"".join(body)}</tbody>\n</table></div>'
    )


def _kind(cell: Cell) -> str:
    return "span" if isinstance(cell, Span) else "marks" if isinstance(cell, Marks) else ""


def _content(cell: Cell, place: int, reach: float) -> str:
    if isinstance(cell, Marks):
        return " ".join(f'<a href="#{_id(place, mark)}">({mark})</a>' for mark in cell.numbers)
    text = escaped(text_of(cell))
    if isinstance(cell, MetricName):
        return f'<span title="{escaped(cell.name)}">{text}</span>'
    if isinstance(cell, Word) and cell.tone:
        return f"<span{_class(cell.tone)}>{text}</span>"
    return _drawn(cell, reach) + text if isinstance(cell, Span) else text


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _id(table: int, mark: int) -> str:
    return f"note-{table}-{mark}"


# -- drawn -------------------------------------------------------------------------------------------------------------


def _figure(figure: Figure) -> str:
    from steelyard.report.figures.drawing import draw

    data = base64.b64encode(draw(figure, ("svg",))["svg"]).decode()
    text = escaped(figure.text)
    picture = f'<img alt="{text}" src="data:image/svg+xml;base64,{data}">'
    return f"<figure>{picture}<figcaption>{text}</figcaption></figure>"


def _reach(span: Span) -> float:
    """How far a difference lies from 0, where it is drawn."""
    return max(map(abs, _numbers(span))) if span.signed and _is_drawn(span) else 0.0


def _is_drawn(span: Span) -> bool:
    numbers = _numbers(span)
    return span.about is not None and bool(numbers) and min(numbers) >= (-1 if span.signed else 0) and max(numbers) <= 1


def _numbers(span: Span) -> list[float]:
    """What is known of the ends and of the value between them."""
    return [] if span.ends is None else [x for x in (*span.ends, span.about) if x is not None and math.isfinite(x)]


def _drawn(span: Span, reach: float) -> str:
    """The interval as a small picture; an end that is not known runs to the edge."""
    if span.ends is None or not _is_drawn(span) or (span.signed and not reach):
        return ""
    low, high = (-reach, reach) if span.signed else (0.0, 1.0)

    def x(value: float) -> str:
        share = (min(max(value, low), high) - low) / (high - low)
        return f"{_EDGE + share * (_WIDTH - 2 * _EDGE):.1f}"

    middle = _HEIGHT / 2
    marks = [f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="0" y2="{_HEIGHT}"/>'] if span.signed else []
    marks.append(f'<line x1="{x(span.ends[0])}" x2="{x(span.ends[1])}" y1="{middle}" y2="{middle}"/>')
    if span.about is not None:
        marks.append(f'<circle cx="{x(span.about)}" cy="{middle}" r="2.5"/>')
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" aria-hidden="true">{"".join(marks)}</svg>'
