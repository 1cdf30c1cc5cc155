"""Everything that is known of a metric, the registry that finds it, and how its text is read.

`Definition` is what a decorator of `contract.py` makes; `Metric` is a definition with its options bound. Its text is
its name everywhere.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from steelyard.errors import UsageError, printable
from steelyard.ground.arrays import Floats
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
    Default,
    OverGroups,
    Spread,
)
from steelyard.naming import RESERVED, Expr, Quoted, label_text, parse
from steelyard.registry import Registry

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


@dataclass(kw_only=True)
class Definition:
    """Everything about one metric. Made by `@metric`, an evidence's `.metric`, `@over`, `@across` or `@compose`."""

    name: str
    function: Callable[..., Any]
    source: Source
    better: Better | Literal["as base"] | None
    bounds: Bounds
    unit: str = ""
    formula: str = ""
    reference: str = ""
    no_interval: str | Callable[..., str] = ""  # the reason why no interval is honest, where that is so
    norm: Callable[[Floats], Floats] | None = None  # of a vector of noise; the value is a function of the norm
    norm_members: tuple[str, ...] | None = None
    members: tuple[str, ...] | Callable[..., tuple[Any, ...]] | None = None
    bounds_of: Callable[[Mapping[str, Any]], Bounds] | None = None  # closer bounds that follow from the options
    share: bool | None = None  # whether 0/1 row scores are a share; by default if the bounds are [0, 1]
    answered_if: Callable[[Mapping[str, Any]], bool] | None = None  # options under which only answered rows count
    conditions: tuple[str, ...] = ()  # options that change no value, but say when there is none
    undefined: str = ""  # what the metric needs to be defined, said where it is not
    no_delta: str = ""  # why it cannot be compared between runs, where that is so
    # for metrics that reward declining: the form up to a common coverage that is judged instead, "" if there is none
    common_coverage: str | None = None
    rewards_declining: bool = False  # answering less can better it, though the rows that count are all that were asked
    perturbed_only: bool = False
    by_cluster: bool = False  # the value itself depends on the clusters
    reads_order: bool = False  # of its score only the order matters: two runs may state it on different scales
    spread: Spread = ""
    over_groups: OverGroups = ""
    texts: bool = False  # what it reads are texts of people, no labels that may be shown
    better_members: Mapping[str, Better] = field(default_factory=dict)  # where the members of a family differ
    twin: str = ""  # the metric that a delta takes its verdict from, because this one's delta is biased
    extreme: bool = False  # the largest of several: no interval, and groups cannot be compared by it
    title: str = ""  # for people; names its options as {base} or {label}. By default made from the name
    member_titles: Mapping[str, str] = field(default_factory=dict)  # of a family with members of its own
    option_titles: Mapping[str, str] = field(default_factory=dict)  # how an option is said in a title: "{} bins"
    aliases: tuple[str, ...] = ()  # other names; `P_{k}` and `per_class.{label}.f1` hold an option or the label
    also: tuple[str, ...] = ()  # words that people use for it: no names, but a name with one of them suggests it
    documented_as: str = ""  # the key of its value in documents that other tools read, where that is not its name
    option_aliases: Mapping[str, str] = field(default_factory=dict)  # other names of its options
    default_for: tuple[Default, ...] = ()  # where it is computed without being asked for
    extra: tuple[Param, ...] = ()
    labelled: bool = False
    _finish: Callable[..., Any] | None = None
    _detail: Callable[..., Any] | None = None
    _present: Callable[..., Any] | None = None
    _vector: Callable[..., Any] | None = None
    _parts: Callable[..., Any] | None = None
    _shares: Callable[..., Any] | None = None
    _up_to: Callable[..., Any] | None = None
    _earlier: Callable[..., Any] | None = None
    _delta_note: Callable[[Any, Any], str] | None = None

    # decorators that complete a definition -------------------------------------------------------------------

    def finish(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register how sums become the value."""
        self._finish = function
        self.extra = signature(function)[1]
        return function

    def detail(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register what is shown next to the value: a curve, a table of bins, a confusion matrix."""
        self._detail = function
        return function

    def present(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register which classes or groups a resample holds; one that lacks a class of the data is left out."""
        self._present = function
        return function

    def vector(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the vector whose norm the value is (see `norm`)."""
        self._vector = function
        return function

    def parts(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the parts the value stands on: `f(evidence) -> (clusters × parts, weights)`.

        A part is a class, a group or a denominator; the first array says which clusters hold it, the second how much of
        the value it carries. By default there is one: the clusters with rows.
        """
        self._parts = function
        return function

    def shares(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register that the value is the mean of several shares: `f(evidence) -> (hits, rows)`, clusters × shares."""
        self._shares = function
        return function

    def up_to(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the area up to a coverage, one for each resample: `f(reading, c)`."""
        self._up_to = function
        return function

    def earlier(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register how evidence that an earlier version kept in another form is read: `f(evidence) -> evidence`."""
        self._earlier = function
        return function

    def delta_note(self, function: Callable[[Any, Any], str]) -> Callable[[Any, Any], str]:
        """Register what must be said of a difference between two runs: `f(base evidence, new evidence) -> note`."""
        self._delta_note = function
        return function

    def summary(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register what one table says that the metric must know before any split (see RowSource.summary)."""
        return self._row_source.summary(function)

    def merge(self, function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Register how the summaries of tables become constants (see RowSource.merge)."""
        return self._row_source.merge(function)

    def join(self, function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Register how the constants of two kept runs become one set (see RowSource.join)."""
        return self._row_source.join(function)

    def convert(self, function: Callable[..., dict[str, Floats]]) -> Callable[..., dict[str, Floats]]:
        """Register how kept sums are converted to other constants (see RowSource.convert)."""
        return self._row_source.convert(function)

    @property
    def _row_source(self) -> RowSource:
        if not isinstance(self.source, RowSource):
            raise UsageError(f"{self.name} takes its constants from its parts")
        return self.source

    # what it offers ---------------------------------------------------------------------------------------------

    @property
    def params(self) -> tuple[Param, ...]:
        """The options, in signature order."""
        named = {p.name: p for p in (*self.extra, *self.source.params)}
        order = dict.fromkeys(p.name for p in (*self.source.params, *self.extra))
        named = {name: named[name] for name in order}
        return tuple(p for p in named.values() if not (self.labelled and p.name == "label"))

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
    stated = (("spread", definition.spread, Spread), ("over_groups", definition.over_groups, OverGroups))
    for fact, word, words in stated:
        if word not in get_args(words):
            raise UsageError(f"{name}: {fact} is one of {', '.join(filter(None, get_args(words)))}")
    if name in metrics and _origin(metrics[name].function) == _origin(definition.function):
        metrics.remove(name)
    plain = [alias for alias in definition.aliases if "{" not in alias]
    metrics.add(name, definition, aliases=tuple(dict.fromkeys((*plain, *filter(None, [definition.documented_as])))))
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
    if metric.definition.by_cluster and metric.definition.no_delta:
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
    options = {definition.option_aliases.get(name, name): value for name, value in expr.args if name}
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
    """The metric of a name in a file, if it is registered; no module is imported because a file names a plug-in."""
    try:
        expr = parse(name)
        return None if _names_plugin(expr) else bound(expr)
    except UsageError:
        return None


def _names_plugin(expr: Expr) -> bool:
    return ":" in expr.head or any(_names_plugin(value) for _, value in expr.args if isinstance(value, Expr))


def _registered(expr: Expr) -> Definition:
    """The metric of that name; where a cutoff follows, the one that is meant with a cutoff."""
    cut = metrics.meant(f"{expr.head}{CUTOFF}") if expr.cutoff is not None else None
    return metrics[cut or expr.head]


def _plugin(head: str) -> Definition | Metric:
    module_name, _, name = head.partition(":")
    try:
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


def _origin(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__


MetricLike = str | Definition | Metric  # what is asked for: a text, a metric without options, or one with them
