"""What a run-spec came to, for people: counts per model, metrics per cell, models compared, the gate's verdict."""

from __future__ import annotations

from steelyard.report.comparison import comparison_report
from steelyard.report.document import Count, Document, Heading, Note, Table, Value
from steelyard.report.evaluation import evaluation_report
from steelyard.report.gate import gate_report
from steelyard.runner.run import Run


def run_report(run: Run) -> Document:
    """Everything that is said at the end of a run."""
    document: Document = [Heading("asked"), _counts(run)]
    document += [Note(f"not complete: {problem}") for problem in run.problems]
    document += [Heading("evaluation"), *evaluation_report(run.evaluation)]
    for (base, new), comparison in run.comparisons.items():
        document += [Heading(f"{new} against {base}, paired"), *comparison_report(comparison)]
    if run.judgement is not None:
        document += gate_report(run.judgement.decision, {})
    return document


def _counts(run: Run) -> Table:
    columns = ("model", "requests", "ended", "failed", "cached", "retries", "tokens in", "tokens out", "cost")
    rows = tuple(
        (
            name,
            Count(tally.total),
            Count(tally.done),
            Count(tally.failed),
            Count(tally.cached),
            Count(tally.retries),
            Count(tally.input_tokens),
            Count(tally.output_tokens),
            "" if tally.cost is None else Value(tally.cost),
        )
        for name, tally in run.tallies.items()
    )
    return Table(columns, rows).trimmed()
