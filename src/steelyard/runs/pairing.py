"""Two kept runs by one metric: their comparison or why there is none, and what of it is shown and decides."""

from __future__ import annotations

from dataclasses import replace

from steelyard.errors import InputError, StorageError, UsageError
from steelyard.naming import slice_text, split_slice
from steelyard.records.schema import CELL
from steelyard.runs.documented import meant_by
from steelyard.runs.index import RunEntry
from steelyard.runs.metric_keys import expression, metric_of_expression
from steelyard.runs.saved import SavedRun, compare_runs
from steelyard.study.results import Comparison
from steelyard.uncertainty.number import Delta, Number
from steelyard.uncertainty.scarcity import FEWEST_CLUSTERS
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.verdicts import judged


def paired(base: SavedRun, run: RunEntry, key: str, settings: Settings | None) -> Comparison | str:
    """The comparison of two kept runs by a metric, or why there is none."""
    expr = expression(key)
    metric = None if expr is None else metric_of_expression(expr)
    if metric is None:
        return "no paired delta: this key is no metric that evidence is kept of"
    try:
        return compare_runs(base, SavedRun.at(run.folder), [metric], settings=settings, by=_sliced_by(key))
    except (InputError, StorageError, UsageError) as problem:
        return str(problem)


def _sliced_by(key: str) -> list[str]:
    """The columns that a key slices by, beyond cells."""
    _, slice_ = split_slice(meant_by(key))
    return ["*".join(own)] if (own := [column for column in slice_ if column not in CELL]) else []


def found_delta(comparison: Comparison | str, key: str) -> Delta | str:
    """The delta of a key, or why there is none; cells pair on the columns that do not tell the runs apart."""
    if isinstance(comparison, str):
        return comparison
    name, cell = split_slice(meant_by(key))
    columns = {column for d in comparison for column in d.slice}
    try:
        found: Delta = comparison[name + slice_text({c: v for c, v in cell.items() if c in columns})]
    except UsageError as problem:
        return str(problem)
    return found


def is_better(delta: Delta, settings: Settings, *, higher: bool) -> bool:
    """True if a run is better beyond chance, as the one question that is asked; where a metric has no direction, by the
    one it is sorted in.
    """
    (alone,) = judged([replace(delta, role="primary")], settings)
    decisive = alone.decisive
    if alone.verdict == "differs" and decisive is not None and decisive.delta is not None:
        return (decisive.delta > 0) == higher
    return alone.verdict == "better"


def lead_of(delta: Delta) -> Number:
    """The paired difference, with its interval where enough clusters give one."""
    number = shown_delta(delta)
    return number if number.clusters >= FEWEST_CLUSTERS else replace(number, interval=None)


def shown_delta(delta: Delta) -> Number:
    """What is shown of a delta: of this metric, on what decides."""
    readable, decisive = delta.readable, _decisive(delta)
    if readable is None or decisive is None:
        return Number(value=delta.delta)
    return Number(value=readable.delta, interval=readable.interval, clusters=decisive.clusters)


def known_p(delta: Delta) -> float | None:
    """The p-value that a verdict rests on, None where there can be no verdict."""
    decisive = None if delta.readable is None else _decisive(delta)
    return None if decisive is None else decisive.p_value


def _decisive(delta: Delta) -> Delta | None:
    return None if "unequal missing" in delta.cautions else delta.decisive
