"""A metric as a value: everything that is known of it, the registry that finds it, and its options bound.

`Definition` is what a decorator of `contract.py` makes; `Metric` is a definition with its options, what is evaluated,
printed, stored and gated on. Its text is its name everywhere.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import is_
from typing import Any, Literal

import numpy as np

from steelyard.errors import UsageError, printable
from steelyard.ground.arrays import Floats, Mask
from steelyard.metrics.collector import Collector
from steelyard.metrics.evidence.sums import Cells, Evidence
from steelyard.metrics.options import Constants, Param, accepted, coerced, option_text, same_option, signature
from steelyard.metrics.sources import GroupSource, PartSource, RowSource, Source
from steelyard.naming import RESERVED, Expr, Quoted, label_text, parse
from steelyard.records.table import Records
from steelyard.registry import Registry

Bounds = tuple[float | None, float | None]
Better = Literal["higher", "lower"]
UNIT: Bounds = (0, 1)
CUTOFF = "@"  # at the end of a name: the metric that is meant where a cutoff follows
_DEEPEST = 3
AS_BASE: Any = ("as base", "as base")
WIDTH_OF_BASE: Any = (0, "width of base")


@dataclass
class Definition:
    """Everything about one metric. Made by `@metric`, an evidence's `.metric`, `@over` or `@compose`."""

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
    # how its interval is made where the kind of evidence does not say: "t" (jackknife), "t-skewed", "log-t"
    spread: str = ""
    over_groups: str = ""  # how the interval follows from the groups': gap, worst, disparity
    twin: str = ""  # the metric that a delta takes its verdict from, because this one's delta is biased
    extreme: bool = False  # the largest of several: no interval, and groups cannot be compared by it
    aliases: tuple[str, ...] = ()
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

    # decorators that complete a definition -------------------------------------------------------------------

    def finish(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register how sums become the value."""
        self._finish = function
        self.extra = signature(function)[1]
        return function

    def detail(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register what stands beside the value: a curve, a table of bins, a confusion matrix."""
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

    def prepare(self, function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Register constants of the whole table (see RowSource.prepare)."""
        return self._row_source.prepare(function)

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


@dataclass(frozen=True, eq=False)
class Metric:
    """A definition with its options: what is evaluated, printed, stored and gated on. Its text is its name."""

    definition: Definition
    options: tuple[tuple[str, Any], ...] = ()
    label: str | None = None
    head: str = field(default="")

    @cached_property
    def name(self) -> str:
        """The canonical text: signature order, defaults omitted."""
        shown, cutoff = [], ""
        values = dict(self.options)
        for i, param in enumerate(self.definition.params):
            value = values[param.name]
            if not param.required and same_option(value, param.default):
                continue
            if param.name == "k" and param.kind == "int":
                cutoff = f"@{value}"
                continue
            text = option_text(param, value)
            positional = i == 0 and param.required and param.kind in ("metric", "column")
            shown.append(text if positional else f"{param.name}={text}")
        label = "" if self.label is None else f".{label_text(self.label)}"
        options = f"({', '.join(shown)})" if shown else ""
        head = self.head or self.definition.name.removesuffix(CUTOFF)
        return f"{head}{cutoff}{options}{label}"

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Metric({self.name})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Metric) or self.definition is not other.definition:
            return False
        return self.name == other.name and self.options == other.options

    def __hash__(self) -> int:
        return hash(self.name)

    @cached_property
    def values(self) -> dict[str, Any]:
        """The options by name."""
        return dict(self.options)

    @property
    def base(self) -> Metric | None:
        """The metric this one is about, where it is a combinator's."""
        return self.values.get("base")

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """The columns whose groups the metric compares, its base's too."""
        inner = () if self.base is None else self.base.grouped_by
        source = self.definition.source
        return (*inner, source.column(self.values)) if isinstance(source, GroupSource) else inner

    @property
    def unconditional(self) -> Metric:
        """The metric without the options that only say when it is undefined: it reads the same evidence."""
        if not self.definition.conditions:
            return self
        usual = {p.name: p.default for p in self.definition.params if p.name in self.definition.conditions}
        return replace(self, options=tuple((name, usual.get(name, value)) for name, value in self.options))

    @property
    def is_family(self) -> bool:
        """True if the name stands for its members: `latency`, `f1` without a label."""
        return self.label is None and (self.definition.labelled or isinstance(self.definition.members, tuple))

    @property
    def better(self) -> Better | None:
        stated: Better | None = dict(self.options).get("better")
        if stated is None and self.definition.better == "as base":
            return self.base.better if self.base else None
        return stated or self.definition.better  # type: ignore[return-value]

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        if self.definition.bounds not in (AS_BASE, WIDTH_OF_BASE):
            return self.definition.bounds
        low, high = self.base.bounds if self.base else (None, None)
        if self.definition.bounds == AS_BASE:
            return low, high
        return (0, None) if low is None or high is None else (0, high - low)

    @property
    def norm(self) -> Callable[[Floats], Floats] | None:
        """The norm of noise that the value is a function of, where an ordinary bootstrap cannot cover a true 0."""
        only = self.definition.norm_members
        return self.definition.norm if only is None or self.label in only else None

    @property
    def bootstrap_shifts(self) -> bool:
        """True if resampling moves the value systematically, so that its deltas rest on the jackknife."""
        return self.norm is not None or bool(self.definition.over_groups) or self.definition.spread == "t"

    @property
    def unit(self) -> str:
        return self.definition.unit

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns this metric needs."""
        return self.definition.source.reads(self.values)

    @property
    def population(self) -> str:
        """The rows that count: all, asked or answered."""
        source, options = self.definition.source, dict(self.options)
        if self.definition.answered_if is not None and self.definition.answered_if(options):
            return "answered"
        if isinstance(source, RowSource):
            return source.rows(options)
        return self.base.population if self.base is not None else "asked"

    def expanded(self, records: Records) -> tuple[Metric, ...]:
        """The metric itself, or the members of a family: `latency`, `mae_by_bin`, `f1` without a label."""
        members = self.definition.members
        if self.label is not None or members is None:
            return (self,)
        if isinstance(members, tuple):
            return tuple(replace(self, label=name) for name in members)
        found = members(records, **accepted(members, dict(self.options)))
        if self.definition.labelled:
            return tuple(replace(self, label=str(name)) for name in found)
        return tuple(self.definition(**{**dict(self.options), **more}) for more in found)

    def constants(self, tables: Sequence[Records]) -> dict[str, Any]:
        """What is computed once from the whole table(s) and must not depend on a split."""
        return self.definition.source.constants(self, tables)

    def finished(self, reading: Any, constants: Constants) -> Floats:
        """The value under every resample of a reading; NaN where undefined."""
        finish = self.definition._finish
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            reading = self.definition.source.readied(self, reading, constants)
            if isinstance(reading, Cells) and reading.is_score:
                value = reading.total / reading.n
            elif isinstance(reading, np.ndarray):
                value = reading
            elif finish is not None:
                value = self._finish_with(finish, reading, constants)
            else:
                name = self.definition.name
                raise UsageError(f"{name} returns sums and has no finish; add one with @{name}.finish")
            array = np.asarray(value, np.float64)
        defined = np.isfinite(array) & ("undefined" not in constants)
        return np.where(defined, array, np.nan)

    def noise(self, reading: Any, constants: Constants) -> Floats:
        """The vector whose norm the value is, where the metric has one."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self._call(self.definition._vector, reading, constants), np.float64)

    def present(self, reading: Any, constants: Constants) -> Mask | None:
        """Which classes or groups each resample holds, or None where the metric has no such notion."""
        if self.definition._present is None:
            return None
        return np.asarray(self._call(self.definition._present, reading, constants), bool)

    def up_to(self, reading: Any, c: Floats) -> Floats:
        """The area up to each resample's coverage c, where the metric has such a form."""
        function = self.definition._up_to
        assert function is not None
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(function(reading, c, **accepted(function, self.values, keyword_only=True)), np.float64)

    @property
    def is_area(self) -> bool:
        """True if it rewards declining and has a form up to a coverage by which runs and groups are compared."""
        return self.definition._up_to is not None and self.values.get("ties", "plateau") == "plateau"

    def shares(self, evidence: Any) -> tuple[Floats, Floats] | None:
        """Hits and rows of every cluster and share, where the value is the mean of several shares."""
        return None if self.definition._shares is None else self.definition._shares(evidence)

    def parts(self, evidence: Any, constants: Constants) -> tuple[Any, Floats] | None:
        """Which clusters hold each part of the value, and what it carries; None where groups are its parts."""
        if isinstance(self.definition.source, GroupSource):
            return None
        if isinstance(self.definition.source, PartSource):
            return self._parts_of_parts(evidence, constants)
        if self.definition._parts is None:
            return np.asarray(evidence.rows > 0)[:, None], np.ones(1)
        found: tuple[Any, Floats] = self._finish_with(self.definition._parts, evidence, constants)
        return found

    def _parts_of_parts(self, evidence: Any, constants: Constants) -> tuple[Any, Floats] | None:
        """The parts of every metric that this one is composed of: it is no surer than any of them."""
        metrics = self.definition.source.metrics(self.values) if isinstance(self.definition.source, PartSource) else ()
        found = [m.parts(e, c) for m, e, c in zip(metrics, evidence.parts, constants["parts"], strict=True)]
        known = [part for part in found if part is not None]
        if len(known) < len(found):
            return None
        return np.concatenate([held for held, _ in known], 1), np.concatenate([weight for _, weight in known])

    def today(self, evidence: Any) -> Any:
        """Kept evidence in the form that is collected today, inside groups and parts too."""
        source = self.definition.source
        if isinstance(source, GroupSource):
            base: Metric = self.values["base"]
            groups, overall = tuple(map(base.today, evidence.groups)), base.today(evidence.overall)
            same = overall is evidence.overall and all(map(is_, groups, evidence.groups))
            return evidence if same else replace(evidence, groups=groups, overall=overall)
        if isinstance(source, PartSource):
            parts = tuple(m.today(e) for m, e in zip(source.metrics(self.values), evidence.parts, strict=True))
            return evidence if all(map(is_, parts, evidence.parts)) else replace(evidence, parts=parts)
        return evidence if self.definition._earlier is None else self.definition._earlier(evidence)

    def ordered(self, evidence: Any) -> Any:
        """The evidence with scores as midranks within the run, where only their order is read."""
        return self.definition.source.ordered(self, evidence)

    def united(self, sides: Sequence[tuple[Constants, Any]]) -> dict[str, Any]:
        """The constants of two runs together, each given with its evidence."""
        return self.definition.source.united(self, sides)

    def converted(self, evidence: Any, own: Constants, joint: Constants) -> Any:
        """The evidence under joint constants; None where only rows could say."""
        return self.definition.source.converted(self, evidence, own, joint)

    def detail(self, reading: Any, constants: Constants) -> Any:
        """What stands beside the value, or None."""
        if self.definition._detail is None:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._call(self.definition._detail, reading, constants)

    def key(self, constants: Constants) -> tuple[Any, ...]:
        """Metrics with equal keys share their evidence."""
        return self.definition.source.key(self, constants)

    def collect(self, constants: Constants, collector: Collector) -> Evidence:
        return self.definition.source.collect(self, constants, collector)

    def _call(self, function: Callable[..., Any] | None, reading: Any, constants: Constants) -> Any:
        assert function is not None
        return self._finish_with(function, self.definition.source.readied(self, reading, constants), constants)

    def _finish_with(self, function: Callable[..., Any], reading: Any, constants: Constants) -> Any:
        values = {**self.values, "label": self.label, **constants}
        return function(reading, **accepted(function, values, keyword_only=True))


metrics: Registry[Definition] = Registry("metric")


def register(definition: Definition) -> Definition:
    """Add a definition to the registry; the same function imported anew replaces itself."""
    name = definition.name
    if name in RESERVED:
        raise UsageError(f"'{name}' is a reserved word; choose another name for the metric")
    if definition.better not in (None, "higher", "lower", "as base"):
        raise UsageError(f"{name}: better is 'higher', 'lower' or None")
    if name in metrics and _origin(metrics[name].function) == _origin(definition.function):
        metrics.remove(name)
    metrics.add(name, definition, aliases=definition.aliases)
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
        raise UsageError(f"'{expr}': ask for slices with --by (by=), and pick one from the result by this name")
    found = _plugin(expr.head) if ":" in expr.head else _registered(expr)
    definition, preset = (found.definition, found.values) if isinstance(found, Metric) else (found, {})
    args = [value for name, value in expr.args if not name]
    options = {name: value for name, value in expr.args if name}
    if len(options) + len(args) != len(expr.args):
        raise UsageError(f"'{expr}' gives an option twice")
    if expr.cutoff is not None:
        if not any(p.name == "k" and p.kind == "int" for p in definition.params):
            raise UsageError(f"{definition.name} has no cutoff; '@{expr.cutoff}' means nothing here")
        options["k"] = expr.cutoff
    label = ".".join(expr.labels) if expr.labels else None
    made = definition(*args, label=label, **{**preset, **options})
    return replace(made, head=expr.head) if ":" in expr.head else made


def _registered(expr: Expr) -> Definition:
    """The metric of that name; where a cutoff follows, the one that is meant with a cutoff."""
    cut = f"{expr.head}{CUTOFF}"
    return metrics[cut if expr.cutoff is not None and cut in metrics else expr.head]


def _plugin(head: str) -> Definition | Metric:
    module_name, _, name = head.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), name, None)
    except ModuleNotFoundError as problem:
        raise UsageError(
            f"cannot load {printable(head)}: there is no module '{printable(problem.name or '')}'"
        ) from None
    except Exception as problem:
        raise UsageError(f"cannot load {printable(head)}: importing it raised {type(problem).__name__}") from None
    if not isinstance(found, Definition | Metric):
        raise UsageError(
            f"cannot load {printable(head)}: '{printable(name)}' is not a metric; decorate it with @metric"
        )
    return found


def _origin(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__
