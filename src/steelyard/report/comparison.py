"""A comparison for people: who is compared with whom, and paired deltas with their verdicts in one table."""

from __future__ import annotations

from steelyard.errors import counted
from steelyard.report.document import Document, Heading, Note
from steelyard.report.evaluation import evaluation_report, population, taken
from steelyard.report.rows import DELTA_DROPS, companion_rows, delta_columns, delta_row, files, sliced
from steelyard.study.comparison import Comparison
from steelyard.study.ranked_lists import Ranking


def comparison_report(comparison: Comparison) -> Document:
    """Paired deltas with their verdicts, and other forms of them below."""
    document: Document = [_side(comparison, side) for side in ("base", "new")]
    paired = comparison.population.get("paired")
    if paired is not None:
        unit = f" ({', '.join(comparison.cluster)})" if comparison.cluster else ""
        clusters = max((delta.clusters for delta in comparison.deltas), default=0)
        document.append(Note(f"{counted(paired, 'pair')} of rows in {counted(clusters, 'cluster')}{unit}"))
    document += [Note(f"{side} took {taken(facts)}") for side, facts in comparison.facts.items()]
    lost = comparison.unmatched
    if lost["base_rows"] or lost["new_rows"] or lost["cells"]:
        alone = {"base row": lost["base_rows"], "new row": lost["new_rows"], "cell": len(lost["cells"])}
        named = ", ".join(counted(n, noun) for noun, n in alone.items() if n)
        document.append(Note(f"left out, without partner: {named}"))
    columns = delta_columns(comparison.settings.level)
    document += sliced(columns, comparison.deltas, delta_row, companion_rows, drops=DELTA_DROPS)
    return document + [Note(f"warning: {w}") for w in comparison.warnings]


def _side(comparison: Comparison, side: str) -> Note:
    """Who the base or the new run is: by name where it has one, and by its files."""
    name, where = comparison.names.get(side), files(comparison.sources[side])
    who = where if name is None else f"{name}, {where}"
    return Note(f"{side:<4} {who}: {population(comparison.population[side])}")


def ranking_report(ranked: Ranking) -> Document:
    """The estimates of one ranking or two, then the deltas."""
    document = evaluation_report(ranked.evaluation)
    if ranked.comparison is not None:
        document += [Heading("paired, query by query"), *comparison_report(ranked.comparison)]
    return document
