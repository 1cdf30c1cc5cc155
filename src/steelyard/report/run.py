"""What a run-spec came to, for people: counts per model, metrics per cell, models compared, the gate's verdict."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.report.cells import cells_report, is_many
from steelyard.report.details import DETAILS, asked_details
from steelyard.report.document import Count, Document, Heading, Marks, Note, Row, Table, Value
from steelyard.report.evaluation import by_slice, evaluation_report
from steelyard.report.gate import gate_report
from steelyard.report.rows import DELTA_DROPS, Numbered, companion_rows, delta_columns, delta_row, in_families
from steelyard.runner.run import Run
from steelyard.study.primary import family_text
from steelyard.uncertainty.number import Delta


def run_report(run: Run) -> Document:
    """Everything that is said at the end of a run."""
    document: Document = [Heading("asked"), _counts(run)]
    lead = "problem" if run.is_complete else "not complete"
    document += [Note(f"{lead}: {problem}") for problem in run.problems]
    many = is_many(run.evaluation)
    document += [Heading("evaluation"), *(cells_report if many else evaluation_report)(run.evaluation)]
    document += _details(run, few=many)
    if run.comparisons:
        document += [Heading("every two models, paired"), *_comparisons(run, few=many)]
    if run.judgement is not None:
        document += gate_report(run.judgement.decision, {})
    return document


def _details(run: Run, *, few: bool) -> Document:
    """The details that the spec names as metrics; with `few`, where they are, because there would be many."""
    if not few:
        return asked_details(run.evaluation, run.spec.metrics)
    asked = [name for name in run.spec.metrics if name in DETAILS]
    return [Note(f"{', '.join(asked)}: of every cell with `runs show`, and in the JSON form")] if asked else []


def _comparisons(run: Run, *, few: bool) -> Document:
    """The deltas of every two models, cell by cell, each with its other forms below it.

    With `few`, those that decide: the others would be a table of hundreds.
    """
    names = {id(delta): pair for pair, comparison in run.comparisons.items() for delta in comparison}
    level = next(iter(run.comparisons.values())).settings.level
    renamed = {"base": "base value", "new": "new value"}
    columns = ("base", "new", "cell", *(renamed.get(name, name) for name in delta_columns(level)), "notes")

    def table(deltas: Sequence[Delta]) -> Document:
        notes = Numbered()
        rows: list[Row] = []
        for slice_, each in by_slice(deltas):
            for delta in each:
                marks = notes.marks(delta.notes)
                rows.append((*names[id(delta)], slice_, *delta_row(delta), Marks(tuple(sorted(marks.numbers)))))
                rows += [("", "", "", *cells, "") for cells in companion_rows(delta)]
        return [Table(columns, tuple(rows), drops=DELTA_DROPS, folds=("cell",)).trimmed(), *notes.remarks()]

    deltas = [delta for comparison in run.comparisons.values() for delta in comparison]
    if not few:
        return in_families(deltas, table)
    shown = table([delta for delta in deltas if delta.role == "primary"])
    return [*shown, Note(family_text(deltas)), Note("what explores is in the JSON form")]


def _counts(run: Run) -> Table:
    columns = (
        *("model", "requests", "ended", "failed", "declined", "cached"),
        *("retries", "tokens in", "tokens out", "cost"),
    )
    rows = tuple(
        (
            name,
            Count(tally.total),
            Count(tally.done),
            Count(tally.failed),
            ", ".join(f"{n:,} by {how}" for how, n in sorted(tally.declined.items()) if n),
            Count(tally.cached),
            Count(tally.retries),
            Count(tally.input_tokens),
            Count(tally.output_tokens),
            "" if tally.cost is None else Value(tally.cost),
        )
        for name, tally in run.tallies.items()
    )
    return Table(columns, rows).trimmed()
