"""Everything that is known of a metric, the registry that finds it, and how its text is read.

`Definition` is what a decorator of `contract.py` makes; `Metric` is a definition with its options bound. Its text is
its name everywhere.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

from steelyard.errors import UsageError, printable
from steelyard.metrics.facts import Comparing, Function, Method, Names, Rows, Shown, Uncertainty, in_parts
from steelyard.metrics.metric import Metric
from steelyard.metrics.options import Param, coerced, signature
from steelyard.metrics.sources import RowSource, Source
from steelyard.metrics.spellings import spelled, suggestions
from steelyard.metrics.vocabulary import (
    AS_BASE,
    CUTOFF,
    UNIT,
    WIDTH_OF_BASE,
    Better,
    Bounds,
    OverGroups,
    Spread,
)
from steelyard.naming import RESERVED, Expr, Quoted, label_text, parse
from steelyard.registry import Registry, findable

__all__ = [
    "AS_BASE",
    "CUTOFF",
    "UNIT",
    "WIDTH_OF_BASE",
    "Better",
    "Bounds",
    "Definition",
    "Metric",
    "bound",
    "known_metric",
    "metric_of",
    "metrics",
    "register",
    "single",
]

_DEEPEST = 3


def _of_rows(definition: Definition) -> dict[str, Function]:
    if not isinstance(definition.source, RowSource):
        raise UsageError(f"{definition.name} takes its constants from its parts")
    return definition.source.methods


@dataclass(frozen=True, kw_only=True, eq=False)
class Definition:
    """One metric, as a decorator of `contract.py` makes it: what is stated of it in parts, and methods of its own.

    A method is registered by a decorator (`@ece.finish`) or given as a keyword, where it may also be a constant. It is
    handed the options that it names as keywords, and `label`; finish, detail, present, vector and parts also the
    constants. What holds for metrics without such a method is in `Metric` and in their source.
    """

    name: str
    function: Function
    source: Source
    better: Better | Literal["as base"] | None = None
    bounds: Bounds = (None, None)
    members: tuple[str, ...] | Callable[..., tuple[Any, ...]] | None = None
    names: Names
    shown: Shown
    rows: Rows
    uncertainty: Uncertainty
    comparing: Comparing
    methods: dict[str, Function] = field(default_factory=dict)

    # methods of many metrics ---------------------------------------------------------------------------------------

    finish = Method()  # how sums become the value
    detail = Method()  # what is shown next to the value: a curve, a table of bins, a confusion matrix
    present = Method()  # which classes or groups a resample holds; one that lacks a class of the data is left out
    vector = Method()  # the vector whose norm the value is (see `norm`)
    # The parts the value stands on: `f(evidence) -> (clusters × parts, weights)`. A part is a class, a group or a
    # denominator; the first array says which clusters hold it, the second how much of the value it carries. By default
    # there is one: the clusters with rows.
    parts = Method()
    shares = Method()  # that the value is the mean of several shares: `f(evidence) -> (hits, rows)`, clusters × shares
    up_to = Method()  # the area up to a coverage, one for each resample: `f(reading, c)`

    # methods of the rows it reads: see `RowSource` -----------------------------------------------------------------

    summary = Method(_of_rows)
    merge = Method(_of_rows)
    join = Method(_of_rows)
    convert = Method(_of_rows)

    # what one metric does in a way of its own ----------------------------------------------------------------------

    answered_if = Method()  # `f(options)`: whether only answered rows count, where that is not `answered_only`
    better_members = Method()  # which way is better for members of a family, where they differ
    bounds_of = Method()  # `f(options)`: closer bounds that follow from the options
    conditions = Method()  # options that change no value, but say when there is none
    delta_note = Method()  # `f(base evidence, new evidence)`: what must be said of a difference between two runs
    earlier = Method()  # `f(evidence)`: how evidence that an earlier version kept in another form is read
    extreme = Method()  # whether it is the largest of several: no interval, and groups cannot be compared by it
    norm_members = Method()  # the members of a family whose value is a norm (see `norm`), where not all are
    share = Method()  # whether 0/1 row scores are a share of rows, where that does not follow from bounds of 0 and 1
    twin = Method()  # the metric that a delta takes its verdict from, because this one's delta is biased

    @classmethod
    def stated(cls, function: Function, source: Source, **facts: Any) -> Definition:
        """A definition from the keywords of a decorator."""
        own = {key: facts.pop(key) for key, kind in vars(cls).items() if isinstance(kind, Method) and key in facts}
        name = facts.pop("name", None) or function.__name__
        definition = cls(name=name, function=function, source=source, **in_parts(**facts))
        for key, method in own.items():
            getattr(definition, key)(method if callable(method) else _constant(method))
        return definition

    # what it offers ---------------------------------------------------------------------------------------------

    @property
    def params(self) -> tuple[Param, ...]:
        """The options, in signature order."""
        stated = self.source.params
        read = signature(self.methods["finish"])[1] if "finish" in self.methods else ()
        return (*stated, *(p for p in read if p.name not in {own.name for own in stated}))

    @cached_property
    def labelled(self) -> bool:
        """True if it is computed for a label: `f1.Critical`."""
        return "label" in inspect.signature(self.function).parameters

    @property
    def usual_reads(self) -> tuple[str, ...] | None:
        """The columns that it reads with its usual options, a column that must be named as the option is; None where
        it is about another metric."""
        if any(p.kind == "metric" for p in self.params):
            return None
        named = {p.name: p.name if p.kind == "column" else None for p in self.params}
        options = {p.name: named[p.name] if p.required else p.default for p in self.params}
        return tuple(self.source.reads({**options, "name": self.name}))

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.function) or ""

    def __call__(self, *args: Any, label: str | None = None, **options: Any) -> Metric:
        """Bind options: `ece(bins=15)`, `fairness_gap("f1_macro", by="group.site")`."""
        params = self.params
        if len(args) > len(params):
            raise UsageError(f"{self.name} takes at most {len(params)} options")
        given = dict(zip((p.name for p in params), args, strict=False))
        for name in options:
            if name in given:
                raise UsageError(f"{self.name} got the option {name} twice")
        given |= options
        known = {p.name: p for p in params}
        for name in given:
            if name not in known:
                hint = f"it has: {', '.join(known)}" if known else "it has none"
                raise UsageError(f"{self.name} has no option '{printable(name)}'; {hint}")
        bound = {}
        for param in params:
            if param.name in given:
                value = given[param.name]
                bound[param.name] = _as_metric(value) if param.kind == "metric" else coerced(self.name, param, value)
            elif param.required:
                raise UsageError(f"{self.name} needs the option {param.name}")
            else:
                bound[param.name] = param.default
        if label is not None and not (self.labelled or self.members):
            raise UsageError(f"{self.name} has no members; '.{label_text(label)}' means nothing here")
        if label is not None and isinstance(self.members, tuple) and label not in self.members:
            raise UsageError(f"{self.name} has the members {', '.join(self.members)}, not '{printable(label)}'")
        return Metric(self, tuple(bound.items()), label)


metrics: Registry[Definition] = Registry("metric", hint=lambda name: suggestions(name, metrics.values()))


def register(definition: Definition) -> Definition:
    """Add a definition to the registry; the same function imported again replaces itself."""
    name = definition.name
    if name in RESERVED:
        raise UsageError(f"'{name}' is a reserved word; choose another name for the metric")
    if definition.better not in (None, "higher", "lower", "as base"):
        raise UsageError(f"{name}: better is 'higher', 'lower' or None")
    for fact, words in (("spread", Spread), ("over_groups", OverGroups)):
        if getattr(definition.uncertainty, fact) not in get_args(words):
            raise UsageError(f"{name}: {fact} is one of {', '.join(filter(None, get_args(words)))}")
    if name in metrics and _origin(metrics[name].function) == _origin(definition.function):
        metrics.remove(name)
    plain = [alias for alias in definition.names.typed if "{" not in alias]
    metrics.add(name, definition, aliases=tuple(dict.fromkeys(plain)))
    return definition


def metric_of(asked: str | Definition | Metric) -> Metric:
    """The metric meant by a text such as "ece(bins=15)", a definition, or a metric itself."""
    if isinstance(asked, Metric):
        return asked
    if isinstance(asked, Definition):
        return asked()
    return bound(parse(asked))


def _as_metric(asked: Any) -> Metric:
    text = asked.text if isinstance(asked, Quoted) else asked
    if not isinstance(text, str | Expr | Definition | Metric):
        raise UsageError("a metric is expected here, such as accuracy")
    metric = single(bound(text) if isinstance(text, Expr) else metric_of(text))
    depth, inner = 1, metric.base
    while inner is not None:
        depth, inner = depth + 1, inner.base
    if metric.by_cluster and metric.no_delta:
        raise UsageError(f"{metric} describes a whole run and cannot stand inside another metric")
    if depth > _DEEPEST:
        raise UsageError(f"metrics of metrics may be nested {_DEEPEST} deep; their groups multiply")
    return metric


def single(metric: Metric) -> Metric:
    """The metric, unless its name stands for several."""
    if metric.is_family:
        members = metric.definition.members
        hint = f"{metric}.{members[0]}" if isinstance(members, tuple) else f"{metric}.LABEL"
        raise UsageError(f"{metric} stands for several metrics; name one, such as {hint}")
    return metric


def bound(expr: Expr) -> Metric:
    """A parsed expression as a metric; loads a plug-in named `package.module:name`."""
    if expr.slice:
        raise UsageError(f"'{expr}': ask for slices with `by=`, and pick one from the result by this name")
    if ":" not in expr.head:
        expr = spelled(expr, metrics)
    entry = _plugin(expr.head) if ":" in expr.head else _registered(expr)
    definition, preset = (entry.definition, entry.values) if isinstance(entry, Metric) else (entry, {})
    args = [value for name, value in expr.args if not name]
    options = {definition.names.option_aliases.get(name, name): value for name, value in expr.args if name}
    if len(options) + len(args) != len(expr.args):
        raise UsageError(f"'{expr}' gives an option twice")
    if expr.cutoff is not None:
        if not any(p.name == "k" and p.kind == "int" for p in definition.params):
            raise UsageError(f"{definition.name} has no cutoff; '@{expr.cutoff}' means nothing here")
        options["k"] = expr.cutoff
    label = ".".join(expr.labels) if expr.labels else None
    metric = definition(*args, label=label, **{**preset, **options})
    return replace(metric, head=expr.head) if ":" in expr.head else metric


def known_metric(name: str) -> Metric | None:
    """The metric of a name in a file, if it is registered or a plug-in in use; no module is imported for a file."""
    try:
        expr = parse(name)
        in_use = all(head.partition(":")[0] in sys.modules for head in expr.plugins)
        return bound(expr) if in_use else None
    except UsageError:
        return None


def _registered(expr: Expr) -> Definition:
    """The metric of that name; where a cutoff follows, the one that is meant with a cutoff."""
    cut = metrics.meant(f"{expr.head}{CUTOFF}") if expr.cutoff is not None else None
    return metrics[cut or expr.head]


def _plugin(head: str) -> Definition | Metric:
    module_name, _, name = head.partition(":")
    try:
        with findable(module_name):
            plugin = getattr(importlib.import_module(module_name), name, None)
    except ModuleNotFoundError as problem:
        raise UsageError(
            f"cannot load {printable(head)}: there is no module '{printable(problem.name or '')}'"
        ) from None
    except Exception as problem:
        raise UsageError(f"cannot load {printable(head)}: importing it raised {type(problem).__name__}") from None
    if not isinstance(plugin, Definition | Metric):
        raise UsageError(
            f"cannot load {printable(head)}: '{printable(name)}' is not a metric; decorate it with @metric"
        )
    return plugin


def _constant(value: Any) -> Function:
    return lambda *_: value


def _origin(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__


MetricLike = str | Definition | Metric  # what is asked for: a text, a metric without options, or one with them
