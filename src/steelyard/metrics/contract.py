"""The metric contract: a metric says, per row, what to add up; a finish turns the sums into its value.

    @metric(better="lower", bounds=(0, None))
    def mae(target, prediction):                 # positional = columns it reads
        '''Mean absolute error.'''
        return abs(prediction - target)          # a row score: weighted mean, NaN = excluded and counted

    @metric(better="lower", bounds=(0, 1), rows="answered")
    def ece(confidence, correct, *, bins=10):    # keyword-only = options: "ece(bins=15)"
        return sums(hits=correct, mass=confidence, n=1, by=bin_of(confidence, bins))

    @ece.finish
    def _(s):                                    # s.hits: (resamples, keys)
        return abs(s.hits - s.mass).sum(-1) / s.n.sum(-1)

That is all a metric needs to have an interval, a paired delta, slices, a gate and a merge. Beyond it: metrics that read
the same sums share an `evidence`; `over` makes a metric of a base metric's values in groups, `compose` one of several
metrics; a function that asks for `weight` is called once a resample. A parameter named `a__b` reads the column `a.b`,
one named `records` gets the rows themselves, one named `task` what is known of the task. A parameter annotated `Floats`
must be numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

from steelyard.metrics.definition import Better, Bounds, Definition, Metric, register
from steelyard.metrics.options import Param
from steelyard.metrics.sources import GroupSource, PartSource, Population, RowSource, Source


def metric(
    *,
    better: Better | Literal["as base"] | None = None,
    bounds: Bounds = (None, None),
    rows: Population = "asked",
    reads: tuple[str, ...] | None = None,
    name: str | None = None,
    **facts: Any,
) -> Callable[[Callable[..., Any]], Definition]:
    """Define and register a metric from a function of columns, under its name.

    A `name` that ends in "@" is the metric meant where a cutoff follows: `precision@5` beside `precision.yes`.
    """

    def define(function: Callable[..., Any]) -> Definition:
        return _defined(function, RowSource(function, rows, reads), name=name, better=better, bounds=bounds, **facts)

    return define


def _defined(
    function: Callable[..., Any], source: Source, *, finish: bool = False, name: str | None = None, **facts: Any
) -> Definition:
    labelled = "label" in inspect.signature(function).parameters
    definition = Definition(name or function.__name__, function, source, labelled=labelled, **facts)
    if finish:
        definition.finish(function)
    return register(definition)


class SharedEvidence:
    """Evidence that several metrics read. `.metric(...)` defines one: the decorated function is its finish."""

    def __init__(self, source: RowSource) -> None:
        self.source = source

    def prepare(self, function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        return self.source.prepare(function)

    def join(self, function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        return self.source.join(function)

    def convert(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return self.source.convert(function)

    def metric(
        self,
        *,
        better: Better | Literal["as base"] | None = None,
        bounds: Bounds = (None, None),
        **facts: Any,
    ) -> Callable[[Callable[..., Any]], Definition]:
        def define(function: Callable[..., Any]) -> Definition:
            return _defined(function, self.source, finish=True, better=better, bounds=bounds, **facts)

        return define


def evidence(
    *, rows: Population = "asked", reads: tuple[str, ...] | None = None
) -> Callable[[Callable[..., Any]], SharedEvidence]:
    """Define evidence that several metrics share."""
    return lambda function: SharedEvidence(RowSource(function, rows, reads))


def over(
    column: str | None = None,
    *,
    better: Better | Literal["as base"] | None = None,
    bounds: Any = (None, None),
    **facts: Any,
) -> Callable[[Callable[..., Any]], Definition]:
    """Define a metric of a base metric's values in groups: `f(groups)` with `groups.values`, `.names`, `.overall`.

    Without `column` the metric has an option `by`; with it, the groups are that column's values.
    """
    params = [Param("base", "metric")]
    if column is None:
        params.append(Param("by", "column"))

    def define(function: Callable[..., Any]) -> Definition:
        source = GroupSource(tuple(params), column)
        return _defined(function, source, finish=True, better=better, bounds=bounds, **facts)

    return define


def compose(
    *parts: Definition, better: Better | None = None, bounds: Any = (None, None), **facts: Any
) -> Callable[[Callable[..., Any]], Definition]:
    """Define a metric of other metrics' values: `f(a, b)` for two parts. Options are those of the parts."""
    params = tuple({p.name: p for part in parts for p in part.params}.values())

    def bind(options: Mapping[str, Any]) -> tuple[Metric, ...]:
        return tuple(part(**{p.name: options[p.name] for p in part.params if p.name in options}) for part in parts)

    def define(function: Callable[..., Any]) -> Definition:
        definition = Definition(function.__name__, function, PartSource(bind, params), better, bounds, **facts)
        definition._finish = lambda reading: function(*reading)
        return register(definition)

    return define
