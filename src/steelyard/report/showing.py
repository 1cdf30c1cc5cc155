"""What shows results in notebooks, papers and files: importing this module fills the port `ground.showing`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steelyard.decide.decision import Decision
from steelyard.errors import counted
from steelyard.ground.showing import Presenter, present
from steelyard.records.table import Records
from steelyard.report.comparison import comparison_report
from steelyard.report.document import Count, Document, Note, Table
from steelyard.report.evaluation import evaluation_report, population
from steelyard.report.formats import formats, known, render
from steelyard.report.fragment import fragment
from steelyard.report.gate import gate_report
from steelyard.report.selective import selection_report
from steelyard.study.results import Comparison, Evaluation
from steelyard.study.selection import Selection

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def records_report(records: Records) -> Document:
    """How many rows there are, and which columns with how many values: counts, never a value."""
    clusters = f"{counted(len(records.cluster[0]), 'cluster')} ({', '.join(records.cluster_columns)})"
    rows = []
    for name, kind in records.to_dict()["columns"].items():
        column = records.column(name)
        rows.append((name, kind, Count(len(column) - column.null_count), Count(column.null_count)))
    document: Document = [
        Note(f"{population({'rows': len(records), **records.counts()})}; {clusters}"),
        Table(("column", "holds", "present", "missing"), tuple(rows)),
    ]
    return document + [Note(f"warning: {warning}") for warning in records.warnings]


def _decision_report(decision: Decision) -> Document:
    return gate_report(decision, {})


_REPORTS: dict[type, Callable[[Any], Document]] = {
    Comparison: comparison_report,
    Decision: _decision_report,
    Evaluation: evaluation_report,
    Records: records_report,
    Selection: selection_report,
}


def _rendered(result: Any, name: str) -> str:
    document = _REPORTS[type(result)](result)
    return fragment(document) if name == "fragment" else render(name, document)


def _formats() -> dict[str, str]:
    return {formats[name].suffix: name for name in reversed(known())}


def _plotted(result: Any) -> Figure:
    from steelyard.report.figures.plots import plotted

    return plotted(result)


for _kind in _REPORTS:
    present(_kind, Presenter(rendered=_rendered, formats=_formats, plotted=_plotted))
