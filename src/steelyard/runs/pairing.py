"""Two kept runs by one metric: their comparison or why there is none, and what of it is shown and decides."""

from __future__ import annotations

from dataclasses import replace

from steelyard.errors import InputError, StorageError, UsageError
from steelyard.naming import slice_text, split_slice
from steelyard.runs.documented import meant_by
from steelyard.runs.index import RunEntry
from steelyard.runs.metric_keys import expression, metric_of_expression
from steelyard.runs.saved import SavedRun, compare_runs
from steelyard.study.results import Comparison
from steelyard.uncertainty.number import Delta, Number, barred_by
from steelyard.uncertainty.scarcity import FEWEST_CLUSTERS
from steelyard.uncertainty.settings import Settings


def paired(base: SavedRun, run: RunEntry, key: str, settings: Settings | None) -> Comparison | str:
    """The comparison of two kept runs by a metric, or why there is none."""
    expr = expression(key)
    metric = None if expr is None else metric_of_expression(expr)
    if metric is None:
        return "no paired delta: this key is no metric that evidence is kept of"
    try:
        return compare_runs(base, SavedRun.at(run.folder), [metric], settings=settings)
    except (InputError, StorageError, UsageError) as problem:
        return str(problem)


def why_barred(comparison: Comparison | str, key: str) -> str:
    """Why the two values cannot stand for a difference, where that is so: values or clusters that one run lacks."""
    if isinstance(comparison, str):
        return ""
    try:
        return barred_by(delta_of(comparison, key).cautions)
    except UsageError:
        return ""


def is_better(comparison: Comparison | str, key: str, *, higher: bool) -> bool:
    """True if the candidate is better beyond chance; a metric without a direction by the one it is sorted in."""
    if isinstance(comparison, str):
        return False
    try:
        d = delta_of(comparison, key)
    except UsageError:
        return False
    decisive = d.decisive
    if d.verdict == "differs" and decisive is not None and decisive.delta is not None:
        return (decisive.delta > 0) == higher
    return d.verdict == "better"


def p_value(comparison: Comparison | str, key: str) -> tuple[float | None, str]:
    if isinstance(comparison, str):
        return None, comparison
    try:
        return shown_delta(comparison, key)[1], ""
    except UsageError as problem:
        return None, str(problem)


def lead_of(comparison: Comparison, key: str) -> Number | None:
    """The paired difference, with its interval where enough clusters give one; None where the metric has none."""
    try:
        number, _ = shown_delta(comparison, key)
    except UsageError:
        return None
    return number if number.clusters >= FEWEST_CLUSTERS else replace(number, interval=None)


def delta_of(comparison: Comparison, key: str) -> Delta:
    """The delta of a key; cells pair on the columns that do not tell the runs apart."""
    name, cell = split_slice(meant_by(key))
    columns = {column for d in comparison for column in d.slice}
    return comparison[name + slice_text({c: v for c, v in cell.items() if c in columns})]


def shown_delta(comparison: Comparison, key: str) -> tuple[Number, float | None]:
    """What is shown of a delta: of this metric, on what decides; and the p-value that the verdict rests on."""
    d = delta_of(comparison, key)
    readable, decisive = d.readable, d.decisive
    if readable is None or decisive is None or "unequal missing" in d.cautions:
        return Number(value=d.delta), None
    return Number(value=readable.delta, interval=readable.interval, clusters=decisive.clusters), decisive.p_value
