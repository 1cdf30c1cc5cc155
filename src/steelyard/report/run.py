"""What a run-spec came to, for people: counts per model, metrics per cell, models compared, the gate's verdict."""

from __future__ import annotations

from steelyard.records.schema import UNPERTURBED
from steelyard.report.cells import cells_report, is_many
from steelyard.report.document import Count, Document, Heading, Marks, Note, Row, Table, Value
from steelyard.report.evaluation import by_slice, evaluation_report
from steelyard.report.gate import gate_report
from steelyard.report.rows import DELTA_DROPS, Numbered, companion_rows, delta_columns, delta_row
from steelyard.runner.run import Run
from steelyard.uncertainty.number import Delta


def run_report(run: Run) -> Document:
    """Everything that is said at the end of a run."""
    document: Document = [Heading("asked"), _counts(run)]
    lead = "problem" if run.is_complete else "not complete"
    document += [Note(f"{lead}: {problem}") for problem in run.problems]
    many = is_many(run.evaluation)
    document += [Heading("evaluation"), *(cells_report if many else evaluation_report)(run.evaluation)]
    if run.comparisons:
        document += [Heading("every two models, paired"), *_comparisons(run, few=many)]
    if run.judgement is not None:
        document += gate_report(run.judgement.decision, {})
    return document


def _comparisons(run: Run, *, few: bool) -> Document:
    """The deltas of every two models in one table, cell by cell, each with its other forms below it.

    With `few`, those of the first metric on the questions as they are.
    """
    notes = Numbered()
    rows: list[Row] = []
    for (base, new), comparison in run.comparisons.items():
        first = comparison.deltas[0].metric if comparison.deltas else ""
        shown = [each for each in comparison.deltas if not few or (each.metric == first and not _is_perturbed(each))]
        for slice_, deltas in by_slice(shown):
            for delta in deltas:
                marks = notes.marks(delta.notes)
                rows.append((base, new, slice_, *delta_row(delta), Marks(tuple(sorted(marks.numbers)))))
                rows += [("", "", "", *cells, "") for cells in companion_rows(delta)]
    level = next(iter(run.comparisons.values())).settings.level
    renamed = {"base": "base value", "new": "new value"}
    columns = ("base", "new", "cell", *(renamed.get(name, name) for name in delta_columns(level)), "notes")
    document: Document = [Table(columns, tuple(rows), drops=DELTA_DROPS, folds=("cell",)).trimmed(), *notes.remarks()]
    if few:
        document.append(Note("other metrics, and the same under every perturbation, are in the JSON form"))
    if len(run.comparisons) > 1:
        document.append(Note("p adjusted allows for the metrics of one pair, not for the number of pairs"))
    return document


def _is_perturbed(delta: Delta) -> bool:
    return delta.slice.get("perturbation") not in (None, *UNPERTURBED)


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
