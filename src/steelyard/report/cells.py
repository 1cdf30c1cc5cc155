"""Many cells for people: one table per metric, models and strategies down, perturbations across, every number with its
interval. What is in a hundred tables of a few rows otherwise can be seen at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.errors import counted
from steelyard.records.labels import value_name
from steelyard.report.document import Document, Heading, Measured, Note, Row, Table
from steelyard.report.evaluation import population, taken
from steelyard.report.rows import Numbered, files, level_name
from steelyard.study.results import Evaluation
from steelyard.uncertainty.number import Estimate

_NUMBER = re.compile(r"\b\d[\d,.]*\b")  # without them, notes of many cells are the same few
ACROSS = "perturbation"
MANY = 12  # slices


def is_many(evaluation: Evaluation) -> bool:
    """True if a table per slice would be too many."""
    return len({_key(each.slice) for each in evaluation.estimates}) > MANY


def cells_report(evaluation: Evaluation) -> Document:
    """The evaluation, metric by metric."""
    clusters = f"{counted(evaluation.clusters, 'cluster')} ({', '.join(evaluation.cluster)})"
    document: Document = [Note(f"{files(evaluation.sources)}: {population(evaluation.population)}; {clusters}")]
    if evaluation.facts:
        document.append(Note(f"it took {taken(evaluation.facts)}"))
    for name in dict.fromkeys(each.metric for each in evaluation.estimates):
        estimates = [each for each in evaluation.estimates if each.metric == name]
        if all(each.value is None for each in estimates) and len({each.notes for each in estimates}) == 1:
            document.append(Note(f"{name}: {'; '.join(estimates[0].notes) or 'undefined'}"))  # of the whole run alone
            continue
        document += [Heading(_title(estimates[0], evaluation.settings.level)), *_grid(estimates)]
    document.append(Note("n, standard errors and methods of every number are in the JSON form, and with `runs show`."))
    return document + [Note(f"warning: {warning}") for warning in evaluation.warnings]


def _grid(estimates: Sequence[Estimate]) -> Document:
    """One metric: a row per slice but for the perturbation, a column per perturbation, the unperturbed first."""
    notes = Numbered()
    across = sorted({_column(each.slice) for each in estimates}, key=lambda name: (name != "none", name))
    down = tuple(name for name in estimates[0].slice if name != ACROSS)
    rows: dict[tuple[str, ...], dict[str, Measured]] = {}
    for each in estimates:
        row = rows.setdefault(tuple(value_name(each.slice[name]) for name in down), {})
        marks = notes.marks(dict.fromkeys(_NUMBER.sub("n", note) for note in each.notes))
        row[_column(each.slice)] = Measured(each.value, each.interval, marks)
    table: list[Row] = [(*names, *(row.get(column, "") for column in across)) for names, row in rows.items()]
    return [Table((*down, *across), tuple(table)), *notes.remarks()]


def _title(estimate: Estimate, level: float) -> str:
    better = "" if estimate.better is None else f", {estimate.better} is better"
    return f"{estimate.metric}{better}, with its {level_name(level)}"


def _column(slice_: Mapping[str, Any]) -> str:
    return value_name(slice_[ACROSS]) if ACROSS in slice_ else "none"


def _key(slice_: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value_name(value)) for name, value in slice_.items())
