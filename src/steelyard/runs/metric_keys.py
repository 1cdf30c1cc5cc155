"""The metric that a run's key means: its direction, its value in a run, and its key as runs write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from steelyard.errors import UsageError, printable
from steelyard.metrics.definition import Metric, bound
from steelyard.naming import Expr, parse, slice_text, split_slice
from steelyard.records.schema import CELL
from steelyard.runs.documented import meant_by
from steelyard.runs.index import RunEntry
from steelyard.runs.keys import looked_up, no_such_key, same_but_case


def direction(key: str, runs: Sequence[RunEntry] = (), asked: str | None = None) -> str:
    """Which direction is better, higher or lower: as the metric says, as a run recorded it, as asked; else higher.

    Of a metric that has none, such as a rate of answers, neither end is better by itself: somebody has to say which.
    """
    if asked not in (None, "higher", "lower"):
        raise UsageError(f"`better=` is higher or lower, not '{printable(asked)}'")
    aimless = False
    for text in (key, key.lower()):  # other tools write names in other cases
        expr = expression(text)
        metric = None if expr is None else metric_of_expression(expr)
        if metric is not None and metric.better is not None:
            return metric.better
        aimless = aimless or (metric is not None and not split_key(key)[1])
    for run in runs:
        recorded = run.better.get(key)
        if recorded in ("higher", "lower"):
            return recorded
    if asked is not None:
        return asked
    if aimless:
        raise UsageError(
            f"{printable(key)} has no direction: neither more nor less of it is better by itself; say which is with "
            "`better=higher` or `better=lower`"
        )
    return "lower" if key.lower().endswith("duration_ms") else "higher"


def value_of(run: RunEntry, key: str) -> float | None:
    """A run's value of a metric; of other tools' files, whatever the case of the key."""
    return looked_up(run.metrics, key, exact=run.sealed)


def known_key(runs: Sequence[RunEntry], key: str, *, cells: bool = False) -> str:
    """The key that is meant, as the runs spell it; one that no run has is an error that names the nearest.

    It may be written in another case, with other spaces, or with options that are the default. With `cells`, it may
    also be one that runs have for each of their cells only.
    """
    known = dict.fromkeys(k for run in runs for k in run.metrics)
    for text in dict.fromkeys((key, canonical(key))):
        spelled = same_but_case(text, known)
        if spelled is not None:
            return spelled
    split = dict.fromkeys(name for name, cell in map(split_key, known) if cell)
    whole = next((name for text in (key, canonical(key)) if (name := same_but_case(text, split))), None)
    if whole is None:
        raise no_such_key(key, [*known, *split])
    if cells:
        return whole
    per_cell = [k for k in known if split_key(k)[0] == whole]
    shown = ", ".join(printable(k) for k in per_cell[:4])
    raise UsageError(f"'{printable(key)}' is known for each cell only; choose one: {shown}")


def canonical(key: str) -> str:
    """The key of a metric as runs write it; a key that is no metric's as it is."""
    expr = expression(key)
    metric = None if expr is None else metric_of_expression(expr)
    return key if expr is None or metric is None else metric.name + slice_text(dict(expr.slice))


def split_key(key: str) -> tuple[str, dict[str, str]]:
    """A key as its name and cell; the cell is empty where the key is of a whole run or of a slice within a cell."""
    name, slice_ = split_slice(key)
    return (name, slice_) if slice_ and set(slice_) <= set(CELL) else (key, {})


def expression(key: str) -> Expr | None:
    try:
        return parse(meant_by(key))
    except UsageError:
        return None


def metric_of_expression(expr: Expr) -> Metric | None:
    try:
        return bound(replace(expr, slice=()))
    except UsageError:
        return None
