"""A comparison for people: who is compared with whom, and paired deltas with their verdicts in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.errors import counted
from steelyard.report.document import Document, Heading, Note, Table, Value
from steelyard.report.evaluation import evaluation_report, population, taken
from steelyard.report.formats import render
from steelyard.report.rows import DELTA_DROPS, companion_rows, delta_columns, delta_row, files, in_families, sliced
from steelyard.study.ranked_lists import Ranking
from steelyard.study.results import Comparison


def comparison_report(comparison: Comparison) -> Document:
    """Paired deltas with their verdicts, and other forms of them below."""
    document: Document = [_side(comparison, side) for side in ("base", "new")]
    paired = comparison.population.get("paired")
    if paired is not None:
        unit = f" ({', '.join(comparison.cluster)})" if comparison.cluster else ""
        clusters = comparison.population.get("clusters")
        inside = f" in {counted(clusters, 'cluster')}{unit}" if clusters is not None else ""
        document.append(Note(f"{counted(paired, 'pair')} of rows{inside}"))
    document += [Note(f"{side} took {taken(facts)}") for side, facts in comparison.facts.items()]
    if comparison.without_partner:
        document.append(Note(f"left out, without partner: {comparison.without_partner}"))
    columns = delta_columns(comparison.settings.level)
    document += in_families(
        comparison.deltas, lambda deltas: sliced(columns, deltas, delta_row, companion_rows, drops=DELTA_DROPS)
    )
    return document + [Note(f"warning: {w}") for w in comparison.warnings]


def _side(comparison: Comparison, side: str) -> Note:
    """Who the base or the new run is: by name where it has one, and by its files."""
    name, where = comparison.names.get(side), files(comparison.sources[side])
    who = where if name is None else f"{name}, {where}"
    return Note(f"{side:<4} {who}: {population(comparison.population[side])}")


def ranking_tables(ranked: Ranking) -> dict[str, str]:
    """The estimates as one CSV table, and the deltas of two rankings as another: text by file name."""
    tables = {"evaluation.csv": render("csv", evaluation_report(ranked.evaluation))}
    if ranked.comparison is not None:
        tables["comparison.csv"] = render("csv", comparison_report(ranked.comparison))
    return tables


def by_query_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Every query's own values as a CSV table."""
    columns = tuple(rows[0]) if rows else ()
    cells = tuple(tuple(v if isinstance(v, str) else Value(v) for v in row.values()) for row in rows)
    return render("csv", [Table(columns, cells)])


def ranking_report(ranked: Ranking) -> Document:
    """The estimates of one ranking or two, then the deltas."""
    document = evaluation_report(ranked.evaluation)
    if ranked.comparison is not None:
        document += [Heading("paired, query by query"), *comparison_report(ranked.comparison)]
    return document
