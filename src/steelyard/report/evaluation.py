"""An evaluation for people: every value with its interval, its denominator and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from steelyard.errors import counted
from steelyard.records.labels import value_name
from steelyard.report.document import Document, Note
from steelyard.report.rows import ESTIMATE_DROPS, estimate_columns, estimate_row, files, sliced
from steelyard.study.results import Evaluation
from steelyard.uncertainty.number import Delta, Estimate

Sliced = TypeVar("Sliced", Estimate, Delta)


def evaluation_report(evaluation: Evaluation) -> Document:
    """The table a user reads first: every metric, in every cell and slice."""
    clusters = f"{counted(evaluation.clusters, 'cluster')} ({', '.join(evaluation.cluster)})"
    document: Document = [Note(f"{files(evaluation.sources)}: {population(evaluation.population)}; {clusters}")]
    if evaluation.facts:
        document.append(Note(f"it took {taken(evaluation.facts)}"))
    columns = estimate_columns(evaluation.settings.level)
    document += sliced(columns, evaluation.estimates, estimate_row, drops=ESTIMATE_DROPS)
    return document + [Note(f"warning: {w}") for w in evaluation.warnings]


def population(counts: Mapping[str, int]) -> str:
    """How many rows there are, and what became of them."""
    outcomes = ", ".join(f"{n:,} {name}" for name, n in counts.items() if name not in ("rows", "clusters") and n)
    return f"{counted(counts['rows'], 'row')} ({outcomes})"


def taken(facts: Mapping[str, float]) -> str:
    """What a whole table took: time, energy, emissions."""
    units = {"wall_seconds": "s", "kwh": "kWh", "co2_kg": "kg of CO₂"}
    return ", ".join(f"{facts[name]:,.4g} {unit}" for name, unit in units.items() if name in facts)


def by_slice(numbers: Sequence[Sliced]) -> list[tuple[str, list[Sliced]]]:
    """The numbers of each slice, under its name."""
    groups: dict[str, list[Sliced]] = {}
    for each in numbers:
        groups.setdefault(_slice(each.slice), []).append(each)
    return list(groups.items())


def _slice(slice_: Mapping[str, Any]) -> str:
    return ", ".join(f"{column}={value_name(value)}" for column, value in slice_.items())
