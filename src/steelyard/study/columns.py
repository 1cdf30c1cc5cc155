"""Which columns an evaluation or a comparison will read, so that the others need not be held in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steelyard.metrics.definition import Metric, MetricLike
from steelyard.naming import Expr
from steelyard.study.asking import asked_for


def columns_read(metrics: Iterable[MetricLike | Expr] = (), by: Sequence[str] | str = (), *more: str) -> list[str]:
    """The columns of some metrics and slices, by name; `more` are further ones.

    >>> columns_read(["mean(words)"], ["site*ward"], "phase")
    ['words', 'site', 'ward', 'phase']
    """
    asked = [metric for metric in asked_for(list(metrics)) if isinstance(metric, Metric)]
    own = [name for metric in asked for name in (*metric.reads, *metric.grouped_by)]
    slices = [name.strip() for each in ([by] if isinstance(by, str) else by) for name in each.split("*")]
    named = [name.removeprefix("reference.") for name in (*own, *slices, *more)]
    return list(dict.fromkeys(name for name in named if name))
