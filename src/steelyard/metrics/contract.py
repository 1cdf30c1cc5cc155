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
the same sums share an `evidence`; `over` makes a metric of a base metric's values in groups, `across` one of its values
in two views of the table, `compose` one of several metrics; a function that asks for `weight` is called once per
resample. A parameter named `a__b` reads the column `a.b`, one named `records` gets the rows themselves, one named
`task` what is known of the task. A parameter annotated `Floats` must be numbers, one
annotated `Texts` text.

What the sums must know of the whole table, such as a scale, are its constants. They are made in two steps, so that the
parts of a table can be read apart from each other:

    @rmse.summary
    def _(table):                                # what one table, or a part of it, says
        return {"largest": ...}

    @rmse.merge
    def _(summaries):                            # the constants, handed to keywords annotated `Constant`
        return {"scale": max(s["largest"] for s in summaries)}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Literal

from steelyard.metrics.by_task import TaskSource
from steelyard.metrics.compositions import GroupSource, PartSource
from steelyard.metrics.definition import Definition, register
from steelyard.metrics.facts import Function, Method
from steelyard.metrics.metric import Metric
from steelyard.metrics.options import Param
from steelyard.metrics.sources import RowSource, Source
from steelyard.metrics.views import views
from steelyard.metrics.vocabulary import Better, Bounds, Population


def metric(
    *,
    better: Better | Literal["as base"] | None = None,
    bounds: Bounds = (None, None),
    rows: Population | Callable[[Mapping[str, Any]], Population] = "asked",
    reads: tuple[str, ...] | None = None,
    name: str | None = None,
    **facts: Any,
) -> Callable[[Function], Definition]:
    """Define and register a metric from a function of columns, under its name.

    A `name` that ends in "@" is the metric meant where a cutoff follows: `precision@5` next to `precision.yes`.

    >>> import steelyard as sy
    >>> @sy.metric(better="lower", bounds=(0, None))
    ... def squared_distance(target, prediction):
    ...     return (target - prediction) ** 2
    >>> sy.value("squared_distance", target=[1.0, 2.0], prediction=[1.0, 4.0])
    2.0
    """
    return _defining(lambda f: RowSource(f, rows, reads), name=name, better=better, bounds=bounds, **facts)


def _defining(
    source: Callable[[Function], Source], as_finish: Callable[[Function], Function] | None = None, /, **facts: Any
) -> Callable[[Function], Definition]:
    """A decorator that makes a definition of a function: its source, what its finish is, and what is stated of it."""

    def define(function: Function) -> Definition:
        own = {} if as_finish is None else {"finish": as_finish(function)}
        return register(Definition.stated(function, source(function), **{**own, **facts}))

    return define


class SharedEvidence:
    """Evidence that several metrics read. `.metric(...)` defines one: the decorated function is its finish."""

    summary = Method()
    merge = Method()
    join = Method()
    convert = Method()

    def __init__(self, source: RowSource, facts: Mapping[str, Any]) -> None:
        self.source, self.methods, self.facts = source, source.methods, facts

    def metric(self, **facts: Any) -> Callable[[Function], Definition]:
        """Define a metric of this evidence; what is stated here stands before what is stated of all of them."""
        return _defining(lambda _: self.source, _itself, **{**self.facts, **facts})


def _itself(function: Function) -> Function:
    return function


def evidence(
    *,
    rows: Population | Callable[[Mapping[str, Any]], Population] = "asked",
    reads: tuple[str, ...] | None = None,
    **facts: Any,
) -> Callable[[Function], SharedEvidence]:
    """Define evidence that several metrics share, with what is stated of each of them.

    >>> import steelyard as sy
    >>> @sy.evidence()
    ... def distances(target, prediction):
    ...     return sy.sums(off=abs(target - prediction), size=abs(target))
    >>> @distances.metric(better="lower", bounds=(0, None))
    ... def share_off(s):
    ...     return s.off / s.size
    >>> sy.value("share_off", target=[1.0, 4.0], prediction=[1.0, 3.0])
    0.2
    """
    return lambda function: SharedEvidence(RowSource(function, rows, reads), facts)


def over(
    column: str | None = None,
    *,
    better: Better | Literal["as base"] | None = None,
    bounds: Any = (None, None),
    **facts: Any,
) -> Callable[[Function], Definition]:
    """Define a metric of a base metric's values in groups: `f(groups)` with `groups.values`, `.names`, `.overall`.

    Without `column` the metric has an option `by`; with it, the groups are that column's values.

    >>> import steelyard as sy
    >>> @sy.over(better="as base")
    ... def best_group(groups):
    ...     return groups.values.max(axis=-1)
    >>> columns = {"target": ["a", "a"], "prediction": ["a", "b"], "group.site": ["x", "y"]}
    >>> sy.value("best_group(accuracy, by=group.site)", **columns)
    1.0
    """
    params = [Param("base", "metric")]
    if column is None:
        params.append(Param("by", "column"))
    source = GroupSource(tuple(params), column)
    return _defining(lambda _: source, _itself, better=better, bounds=bounds, **facts)


def across(
    pair: str,
    *,
    better: Better | Literal["as base"] | None = None,
    bounds: Any = (None, None),
    requires: Callable[[Metric], None] | None = None,
    **facts: Any,
) -> Callable[[Function], Definition]:
    """Define a metric of a base metric's values in two views of the table: `f(first, second)`.

    The views of the pair "reference" are the originals of altered questions, and the altered questions themselves, on
    the rows that have a partner; a plug-in may add further pairs to `steelyard.metrics.views.views`. `requires` refuses
    a base metric that makes no sense here.

    >>> import steelyard as sy
    >>> @sy.across("reference")
    ... def lost(original, altered):
    ...     return original - altered
    >>> columns = {"item": [1, 1], "perturbation": ["none", "typos"], "target": ["a", "a"], "prediction": ["a", "b"]}
    >>> sy.value("lost(accuracy)", **columns)
    1.0
    """
    both = views[pair]

    def bind(options: Mapping[str, Any]) -> tuple[Metric, ...]:
        if requires is not None:
            requires(options["base"])
        return options["base"], options["base"]

    source = PartSource(bind, (Param("base", "metric"),), both)
    stated = {"better": better, "bounds": bounds, "perturbed_only": both.perturbed_only}
    return _defining(lambda _: source, _of_parts, **stated, **facts)


def compose(
    *parts: Definition, better: Better | None = None, bounds: Any = (None, None), **facts: Any
) -> Callable[[Function], Definition]:
    """Define a metric of other metrics' values: `f(a, b)` for two parts. Options are those of the parts.

    >>> import steelyard as sy
    >>> from steelyard.metrics import metrics
    >>> @sy.compose(metrics["accuracy"], metrics["answer_rate"], better="higher")
    ... def product(accuracy, answer_rate):
    ...     return accuracy * answer_rate
    >>> sy.value("product", target=["a", "a"], prediction=["a", None])
    0.25
    """
    params = tuple({p.name: p for part in parts for p in part.params}.values())

    def bind(options: Mapping[str, Any]) -> tuple[Metric, ...]:
        return tuple(part(**{p.name: options[p.name] for p in part.params if p.name in options}) for part in parts)

    return parts_of(bind, *params, better=better, bounds=bounds, **facts)


def parts_of(
    bind: Callable[[Mapping[str, Any]], tuple[Metric, ...]], *params: Param, **facts: Any
) -> Callable[[Function], Definition]:
    """Define a metric of other metrics' values: `f(a, b)`, of the metrics that `bind` makes of its options."""
    return _defining(lambda _: PartSource(bind, params), _of_parts, **facts)


def of_tasks(source: TaskSource, **facts: Any) -> Callable[[Function], Definition]:
    """Define a metric of what a benchmark measures in its tasks: `f(measured)`, the values of the measures."""
    return _defining(lambda _: source, _itself, **facts)


def _of_parts(function: Function) -> Function:
    """A function of several values as a function of one tuple of them, with the same options."""

    @wraps(function)
    def finish(reading: tuple[Any, ...], **options: Any) -> Any:
        return function(*reading, **options)

    return finish
