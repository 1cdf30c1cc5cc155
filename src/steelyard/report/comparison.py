"""A comparison for people: paired deltas with their verdicts, slice by slice."""

from __future__ import annotations

from steelyard.report.document import Document, Heading, Note
from steelyard.report.evaluation import by_slice, evaluation_report, population, taken
from steelyard.report.rows import companion_rows, delta_columns, delta_row, files, noted
from steelyard.study.comparison import Comparison
from steelyard.study.ranked_lists import Ranking


def comparison_report(comparison: Comparison) -> Document:
    """Paired deltas with their verdicts, and other forms of them below."""
    sides = comparison.population
    document: Document = [
        Note(f"base {files(comparison.sources['base'])}: {population(sides['base'])}"),
        Note(f"new  {files(comparison.sources['new'])}: {population(sides['new'])}"),
    ]
    document += [Note(f"{side} took {taken(facts)}") for side, facts in comparison.facts.items()]
    lost = comparison.unmatched
    if lost["base_rows"] or lost["new_rows"] or lost["cells"]:
        alone = f"{lost['base_rows']} base rows, {lost['new_rows']} new rows"
        document.append(Note(f"left out: {alone} and {len(lost['cells'])} cells without partner"))
    for slice_, deltas in by_slice(comparison.deltas):
        if slice_:
            document.append(Heading(slice_))
        document += noted(delta_columns(comparison.settings.level), deltas, delta_row, companion_rows)
    return document + [Note(f"warning: {w}") for w in comparison.warnings]


def ranking_report(ranked: Ranking) -> Document:
    """The estimates of one ranking or two, then the deltas."""
    document = evaluation_report(ranked.evaluation)
    if ranked.comparison is not None:
        document += [Heading("paired, query by query"), *comparison_report(ranked.comparison)]
    return document
