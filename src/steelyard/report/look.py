"""What is in a file, for people and as data."""

from __future__ import annotations

from typing import Any

from steelyard.errors import counted
from steelyard.ground.json import head, plain
from steelyard.report.document import Count, Document, Heading, Note, Table
from steelyard.study.looking import Look


def look_report(look: Look) -> Document:
    """The columns first, then the labels, what can be computed, and what is odd."""
    outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in look.outcomes.items() if n)
    named = ", ".join(source.name for source in look.sources) or "the table"
    document: Document = [
        Note(f"{named}: {counted(look.rows, 'row')}, {counted(len(look.columns), 'column')}{_in_brackets(outcomes)}")
    ]
    rows = tuple(
        (c.name, c.kind, Count(c.missing), "" if c.distinct is None else Count(c.distinct), c.use or c.problem)
        for c in look.columns
    )
    document.append(Table(("column", "holds", "missing", "different", "what it is"), rows))
    if look.labels:
        labels = tuple((label, Count(target), Count(predicted)) for label, (target, predicted) in look.labels.items())
        document += [Heading("labels"), Table(("label", "targets", "predictions"), labels)]
    if look.metrics:
        computed = tuple((", ".join(map(str, choice.metrics)), choice.why) for choice in look.metrics)
        document += [Heading("what can be computed"), Table(("metrics", "because"), computed)]
    if look.odd:
        document += [Heading("what is odd"), *map(Note, look.odd)]
    if look.hints:
        document += [Heading("what to type"), *map(Note, look.hints)]
    return document


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def look_document(look: Look) -> dict[str, Any]:
    """The same as data."""
    return plain(
        {
            **head("look"),
            "inputs": [source.to_dict() for source in look.sources],
            "rows": look.rows,
            "columns": [
                {
                    "name": c.name,
                    "kind": c.kind,
                    "missing": c.missing,
                    "distinct": c.distinct,
                    "use": c.use,
                    "problem": c.problem,
                }
                for c in look.columns
            ],
            "outcomes": dict(look.outcomes),
            "labels": [{"label": k, "targets": t, "predictions": p} for k, (t, p) in look.labels.items()],
            "metrics": [{"metrics": list(map(str, c.metrics)), "why": c.why} for c in look.metrics],
            "odd": list(look.odd),
            "hints": list(look.hints),
        }
    )
