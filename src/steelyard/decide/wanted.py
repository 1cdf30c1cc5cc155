"""What the rules of a gate ask of runs: which metrics, of which deltas, in which slices, and whether runs kept them."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.decide.gate import Gate
from steelyard.decide.numbers import metric_name
from steelyard.errors import UsageError
from steelyard.metrics.definition import metric_of
from steelyard.naming import Rule
from steelyard.records.schema import CELL
from steelyard.runs.saved import EVIDENCE, SavedRun
from steelyard.study.columns import columns_read
from steelyard.study.kept import KeptSlice
from steelyard.study.kept_pairs import KeptSide


def named_metrics(gate: Gate) -> list[tuple[Rule, str]]:
    """The rules that are about a metric, with its name."""
    return [(rule, name) for rule in gate.rules if (name := metric_name(rule)) is not None]


def delta_metrics(gate: Gate) -> list[str]:
    """The metrics of which rules read a delta."""
    return list(dict.fromkeys(name for rule, name in named_metrics(gate) if rule.delta))


def slice_columns(gate: Gate) -> list[str]:
    """The columns that rules slice by, beyond cells."""
    columns: list[str] = []
    for rule in gate.rules:
        if rule.each and rule.each != "cell":
            columns.append(rule.each)
        sliced = [column for column, _ in rule.metric.slice if column not in CELL]
        if sliced:
            columns.append("*".join(sliced))
    return list(dict.fromkeys(columns))


def columns_asked(gate: Gate) -> list[str]:
    """The columns that the rules read of a file of answers."""
    known: list[str] = []
    for _, name in named_metrics(gate):
        try:
            known += columns_read([name])
        except UsageError:  # a name of another document, or none at all: whoever looks for its number says so
            continue
    return columns_read((), slice_columns(gate), *known)


def kept_slices(run: SavedRun) -> list[KeptSlice]:
    """What a run kept of each slice; nothing where it kept only numbers."""
    return run.kept if EVIDENCE in run.run.files else []


def has_evidence(parts: Sequence[KeptSlice], name: str) -> bool:
    """True if a run kept evidence that the metric can be read from, its own or that of its family."""
    metric = metric_of(name)
    return any(KeptSide(part).has(metric) for part in parts)
