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

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Annotated, Any, NewType, Protocol

import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError, UsageError, printable
from steelyard.metrics.evidence import Cells, Draw, Evidence, Groups, Parts, Rows, Sums, Terms
from steelyard.naming import RESERVED, Expr, Quoted, label_text, parse, value_text
from steelyard.records.derive import ANSWERED, FAILED
from steelyard.records.schema import OUTCOMES, kind_of
from steelyard.records.table import Labels, Records, value_name
from steelyard.registry import Registry

Floats = npt.NDArray[np.float64]
Column = NewType("Column", str)
Label = NewType("Label", str)  # an option that names a label: text, a whole number or true/false
CONFIDENCE = Column("confidence")
Constant = Annotated[Any, "constant"]  # a keyword that `prepare` fills: not an option
Constants = Mapping[str, Any]

Bounds = tuple[float | None, float | None]
UNIT: Bounds = (0, 1)
AS_BASE: Any = ("as base", "as base")
_ANY = object()
_SPECIAL = ("weight", "records", "task")


@dataclass(frozen=True)
class Param:
    """One option of a metric: its kind decides how text is read."""

    name: str
    kind: str  # int, float, bool, text, list, column, metric
    default: Any = _ANY

    @property
    def required(self) -> bool:
        return self.default is _ANY


class Source(Protocol):
    """Where a metric's evidence comes from."""

    @property
    def params(self) -> tuple[Param, ...]: ...

    def reads(self, options: Mapping[str, Any]) -> tuple[str, ...]: ...

    def constants(self, options: Mapping[str, Any], tables: Sequence[Records]) -> dict[str, Any]: ...

    def key(self, options: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]: ...

    def collect(self, options: Mapping[str, Any], constants: Constants, collector: Collector) -> Evidence: ...


class RowSource:
    """Evidence from a function of columns: a row score, `sums(...)`, or richer evidence made by the function.

    `rows` is the population: "asked" (all but failed rows), "answered" or "all".
    """

    def __init__(self, function: Callable[..., Any], rows: str, reads: tuple[str, ...] | None) -> None:
        if rows not in ("asked", "answered", "all"):
            raise UsageError(f"rows is asked, answered or all, not '{rows}'")
        self.function, self.rows = function, rows
        self._positional, self._params = _signature(function)
        self._stated = reads
        parameters = inspect.signature(function).parameters
        self.whole = "weight" in parameters
        self._labelled = "label" in parameters
        self._numeric = {name for name, p in parameters.items() if p.annotation in ("Floats", Floats)}
        self.prepared: Callable[..., dict[str, Any]] | None = None

    @property
    def params(self) -> tuple[Param, ...]:
        return self._params

    def prepare(self, function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Register what is computed once from the whole table(s), before any split: `f(tables, **options) -> dict`.

        An entry `undefined` says why the metric has no value on these tables.
        """
        self.prepared = function
        return function

    def reads(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        stated = (
            self._stated
            if self._stated is not None
            else tuple(name.replace("__", ".") for name in self._positional if name not in _SPECIAL)
        )
        chosen = [options[p.name] for p in self._params if p.kind == "column" and options.get(p.name) is not None]
        return tuple(dict.fromkeys((*stated, *chosen)))

    def constants(self, options: Mapping[str, Any], tables: Sequence[Records]) -> dict[str, Any]:
        if self.prepared is None:
            return {}
        return self.prepared(tables, **_accepted(self.prepared, options))

    def key(self, options: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
        names = [p.name for p in self._params] + (["label"] if self._labelled else [])
        merged = {**options, **constants}
        return (id(self), *((name, _hashable(merged.get(name))) for name in names), _hashable(constants))

    def collect(self, options: Mapping[str, Any], constants: Constants, collector: Collector) -> Evidence:
        records, asked_by = collector.records, options["name"]
        ids, cluster = collector.ids, collector.cluster
        inside = collector.population(self.rows)
        population = records if inside is None else records.take(inside)
        if inside is not None:
            cluster = cluster[inside]
        arguments = [self._argument(name, population, asked_by) for name in self._positional]
        merged = {**options, **constants}
        keywords = {
            p.name: self._chosen(p, merged.get(p.name), population, asked_by) for p in self._params
        } | _accepted(self.function, {"label": options.get("label"), **constants}, keyword_only=True)
        excluded = _outside(records, inside)
        if self.whole:
            rows = np.bincount(cluster, minlength=len(ids)).astype(np.int64)
            function = _with_options(self.function, keywords)
            return Rows(function, tuple(arguments), ids, cluster, rows, excluded)
        try:
            with np.errstate(all="ignore"):
                return self._collected(arguments, keywords, population, ids, cluster, excluded, options)
        except TypeError:
            texts = [c for c in self.reads(options) if c in population and kind_of(population.column(c)) == "text"]
            if not texts:
                raise
            raise InputError(f"{asked_by} needs numbers; text stands in {', '.join(map(printable, texts))}") from None

    def _collected(
        self,
        arguments: list[Any],
        keywords: Mapping[str, Any],
        population: Records,
        ids: Any,
        cluster: Any,
        excluded: Mapping[str, int],
        options: Mapping[str, Any],
    ) -> Evidence:
        made = self.function(*arguments, **keywords)
        if callable(getattr(made, "collect", None)) and not isinstance(made, Terms):
            return made.collect(ids, cluster, excluded)
        if not isinstance(made, Terms):
            score = np.asarray(made, np.float64)
            if score.shape != (len(population),):
                raise UsageError(
                    f"{options['name']} gave {score.shape} values for {len(population)} rows, not one a row"
                )
            made = Terms({"total": score, "n": 1.0})
        evidence, kept = Sums.collect(made, ids, cluster)
        lost = _reasons(population, ~kept, self.reads(options), made.left_out)
        return replace(evidence, excluded=_ordered(excluded, lost))

    def _chosen(self, param: Param, value: Any, population: Records, asked_by: str) -> Any:
        """An option's value; the numbers of a column where the option names one."""
        if param.kind != "column" or value is None:
            return value
        if value in population and kind_of(population.column(value)) == "bool":
            return population.stated_numbers(value)
        return population.numbers(value, needed_by=asked_by)

    def _argument(self, name: str, population: Records, asked_by: str) -> Any:
        if name == "records":
            return population
        if name == "task":
            return population.task
        array = population.array(name.replace("__", "."), needed_by=asked_by)
        if name in self._numeric and isinstance(array, Labels):
            raise InputError(f"{asked_by} needs numbers; text stands in {printable(name)}", file=population.name)
        return array


@dataclass(frozen=True)
class GroupSource:
    """Evidence of a base metric in every value of a column (an option, or fixed), and overall."""

    params: tuple[Param, ...]
    fixed: str | None = None

    def column(self, options: Mapping[str, Any]) -> str:
        return self.fixed or str(options["by"])

    def reads(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (*options["base"].reads, self.column(options))

    def constants(self, options: Mapping[str, Any], tables: Sequence[Records]) -> dict[str, Any]:
        base: Metric = options["base"]
        column = self.column(options)
        names = {value for t in tables for value in t.labels(column).values} if column in tables[0] else set()
        own = {k: v for k, v in base.constants(tables).items() if k != "labels" or tables[0].task.labels}
        return {"base_constants": own, "names": tuple(sorted(names))}

    def key(self, options: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
        return ("groups", self.column(options), options["base"], _hashable(constants))

    def collect(self, options: Mapping[str, Any], constants: Constants, collector: Collector) -> Evidence:
        base: Metric = options["base"]
        own = constants["base_constants"]
        labels = collector.records.labels(self.column(options)) if self.column(options) in collector.records else None
        if labels is None:
            raise InputError(collector.records.lacks(self.column(options), options["name"]))
        parts = {}
        for name in constants["names"]:
            inside = labels == name
            if inside.any():
                parts[name] = collector.within(inside).evidence(base, own)
        overall = collector.evidence(base, own)
        return Groups(tuple(parts), tuple(parts.values()), overall, lambda reading: base.finished(reading, own))


@dataclass(frozen=True)
class PartSource:
    """Evidence of several metrics; options of the composition are handed to the parts that have them."""

    metrics: Callable[[Mapping[str, Any]], tuple[Metric, ...]]
    params: tuple[Param, ...]
    tables: tuple[Callable[[Collector], Collector] | None, ...] = ()
    lost: Callable[[Records], dict[str, int]] | None = None  # rows that the views leave out, by reason

    def reads(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for m in self.metrics(options) for column in m.reads))

    def constants(self, options: Mapping[str, Any], tables: Sequence[Records]) -> dict[str, Any]:
        return {"parts": tuple(m.constants(tables) for m in self.metrics(options))}

    def key(self, options: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
        return (id(self.tables), *self.metrics(options), _hashable(constants))

    def collect(self, options: Mapping[str, Any], constants: Constants, collector: Collector) -> Evidence:
        metrics = self.metrics(options)
        views = self.tables or (None,) * len(metrics)
        found = [
            (view(collector) if view else collector).evidence(m, own)
            for m, own, view in zip(metrics, constants["parts"], views, strict=True)
        ]
        finishes = tuple(
            (lambda reading, m=m, own=own: m.finished(reading, own))
            for m, own in zip(metrics, constants["parts"], strict=True)
        )
        return Parts(tuple(found), finishes, self.lost(collector.records) if self.lost else {})


@dataclass
class Definition:
    """Everything about one metric. Made by `@metric`, an evidence's `.metric`, `@over` or `@compose`."""

    name: str
    function: Callable[..., Any]
    source: Source
    better: str | None
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
    undefined: str = ""  # what the metric needs to be defined, said where it is not
    no_delta: str = ""  # why it cannot be compared between runs, where that is so
    perturbed_only: bool = False
    by_cluster: bool = False  # the value itself depends on the clusters
    aliases: tuple[str, ...] = ()
    extra: tuple[Param, ...] = ()
    labelled: bool = False
    _finish: Callable[..., Any] | None = None
    _detail: Callable[..., Any] | None = None
    _present: Callable[..., Any] | None = None
    _vector: Callable[..., Any] | None = None

    # decorators that complete a definition -------------------------------------------------------------------

    def finish(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register how sums become the value."""
        self._finish = function
        self.extra = _signature(function)[1]
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

    def prepare(self, function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Register constants of the whole table (see RowSource.prepare)."""
        if not isinstance(self.source, RowSource):
            raise UsageError(f"{self.name} takes its constants from its parts")
        return self.source.prepare(function)

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
                bound[param.name] = _coerced(self.name, param, given[param.name])
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
            if not param.required and _same(value, param.default):
                continue
            if param.name == "k" and param.kind == "int":
                cutoff = f"@{value}"
                continue
            text = _option_text(param, value)
            positional = i == 0 and param.required and param.kind in ("metric", "column")
            shown.append(text if positional else f"{param.name}={text}")
        label = "" if self.label is None else f".{label_text(self.label)}"
        options = f"({', '.join(shown)})" if shown else ""
        return f"{self.head or self.definition.name}{cutoff}{options}{label}"

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Metric({self.name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metric) and self.definition is other.definition and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def base(self) -> Metric | None:
        """The metric this one is about, where it is a combinator's."""
        return dict(self.options).get("base")

    @property
    def better(self) -> str | None:
        stated: str | None = dict(self.options).get("better")
        if stated is None and self.definition.better == "as base":
            return self.base.better if self.base else None
        return stated if stated is not None else self.definition.better

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        if self.definition.bounds == AS_BASE:
            return self.base.bounds if self.base else (None, None)
        return self.definition.bounds

    @property
    def norm(self) -> Callable[[Floats], Floats] | None:
        """The norm of noise that the value is a function of, where an ordinary bootstrap cannot cover a true 0."""
        only = self.definition.norm_members
        return self.definition.norm if only is None or self.label in only else None

    @property
    def unit(self) -> str:
        return self.definition.unit

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns this metric needs."""
        return self.definition.source.reads(self._all_options())

    @property
    def population(self) -> str:
        """The rows that count: all, asked or answered."""
        source, options = self.definition.source, dict(self.options)
        if self.definition.answered_if is not None and self.definition.answered_if(options):
            return "answered"
        if isinstance(source, RowSource):
            return source.rows
        return self.base.population if self.base is not None else "asked"

    def expanded(self, records: Records) -> tuple[Metric, ...]:
        """The metric itself, or the members of a family: `latency`, `mae_by_bin`, `f1` without a label."""
        members = self.definition.members
        if self.label is not None or members is None:
            return (self,)
        if isinstance(members, tuple):
            return tuple(replace(self, label=name) for name in members)
        found = members(records, **_accepted(members, dict(self.options)))
        if self.definition.labelled:
            return tuple(replace(self, label=str(name)) for name in found)
        return tuple(self.definition(**{**dict(self.options), **more}) for more in found)

    def constants(self, tables: Sequence[Records]) -> dict[str, Any]:
        """What is computed once from the whole table(s) and must not depend on a split."""
        return self.definition.source.constants(self._all_options(), tables)

    def finished(self, reading: Any, constants: Constants) -> Floats:
        """The value under every resample of a reading; NaN where undefined."""
        definition = self.definition
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if isinstance(reading, Cells) and "total" in reading and "n" in reading:
                value = reading.total / reading.n
            elif isinstance(reading, Cells) and "value" in reading:
                value = reading.value
            elif definition._finish is not None:
                value = self._call(definition._finish, reading, constants)
            else:
                assert definition.norm is not None
                noise = self.noise(reading, constants)
                value = definition.norm(noise) if noise.shape[-1] else np.full(len(noise), np.nan)
            array = np.asarray(value, np.float64)
        defined = np.isfinite(array) & ("undefined" not in constants)
        return np.where(defined, array, np.nan)

    def noise(self, reading: Any, constants: Constants) -> Floats:
        """The vector whose norm the value is, where the metric has one."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self._call(self.definition._vector, reading, constants), np.float64)

    def present(self, reading: Any, constants: Constants) -> npt.NDArray[np.bool_] | None:
        """Which classes or groups each resample holds, or None where the metric has no such notion."""
        if self.definition._present is None:
            return None
        return np.asarray(self._call(self.definition._present, reading, constants), bool)

    def detail(self, reading: Any, constants: Constants) -> Any:
        """What stands beside the value, or None."""
        if self.definition._detail is None:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._call(self.definition._detail, reading, constants)

    def key(self, constants: Constants) -> tuple[Any, ...]:
        """Metrics with equal keys share their evidence."""
        return self.definition.source.key(self._all_options(), constants)

    def collect(self, constants: Constants, collector: Collector) -> Evidence:
        return self.definition.source.collect(self._all_options(), constants, collector)

    def _call(self, function: Callable[..., Any] | None, reading: Any, constants: Constants) -> Any:
        assert function is not None
        return function(reading, **_accepted(function, {**self._all_options(), **constants}, keyword_only=True))

    def _all_options(self) -> dict[str, Any]:
        return {**dict(self.options), "label": self.label, "name": self.name}


class Collector:
    """One table's clusters and populations, and the evidence already collected from it."""

    def __init__(self, records: Records, *, ids: Any = None, cluster: Any = None) -> None:
        self.records = records
        if ids is None:
            ids, cluster = records.cluster
        self.ids, self.cluster = ids, cluster
        self._populations: dict[str, npt.NDArray[np.bool_] | None] = {}
        self._evidence: dict[tuple[Any, ...], Evidence] = {}

    @cached_property
    def unit(self) -> Draw:
        """Every cluster once: the data as they are."""
        return Draw(np.ones((1, len(self.ids))))

    @classmethod
    def whole(cls, records: Records) -> Collector:
        """Everything in one cluster: enough for the value alone, and the cheapest way to it."""
        return cls(records, ids=(("",),), cluster=np.zeros(len(records), np.int64))

    def population(self, rows: str) -> npt.NDArray[np.bool_] | None:
        """A mask of the rows in a population; None if that is all."""
        if rows not in self._populations:
            outcome = self.records.outcome
            mask = outcome == 0 if rows == "answered" else outcome != FAILED if rows == "asked" else None
            self._populations[rows] = None if mask is None or mask.all() else mask
        return self._populations[rows]

    def within(self, rows: npt.NDArray[np.bool_]) -> Collector:
        """The same clusters, fewer rows."""
        return Collector(self.records.take(rows), ids=self.ids, cluster=self.cluster[rows])

    def on(self, records: Records) -> Collector:
        """The same clusters and rows with other columns."""
        return Collector(records, ids=self.ids, cluster=self.cluster)

    def evidence(self, metric: Metric, constants: Constants) -> Evidence:
        key = metric.key(constants)
        if key not in self._evidence:
            self._evidence[key] = metric.collect(constants, self)
        return self._evidence[key]


# -- registering ---------------------------------------------------------------------------------------------------

metrics: Registry[Definition] = Registry("metric")


def metric(
    *,
    better: str | None = None,
    bounds: tuple[float | None, float | None] = (None, None),
    rows: str = "asked",
    reads: tuple[str, ...] | None = None,
    **facts: Any,
) -> Callable[[Callable[..., Any]], Definition]:
    """Define and register a metric from a function of columns."""

    def define(function: Callable[..., Any]) -> Definition:
        labelled = "label" in inspect.signature(function).parameters
        source = RowSource(function, rows, reads)
        return register(Definition(function.__name__, function, source, better, bounds, labelled=labelled, **facts))

    return define


class SharedEvidence:
    """Evidence that several metrics read. `.metric(...)` defines one: the decorated function is its finish."""

    def __init__(self, source: RowSource) -> None:
        self.source = source

    def prepare(self, function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        return self.source.prepare(function)

    def metric(
        self,
        *,
        better: str | None = None,
        bounds: tuple[float | None, float | None] = (None, None),
        **facts: Any,
    ) -> Callable[[Callable[..., Any]], Definition]:
        def define(function: Callable[..., Any]) -> Definition:
            labelled = "label" in inspect.signature(function).parameters
            definition = Definition(
                function.__name__, function, self.source, better, bounds, labelled=labelled, **facts
            )
            if definition.norm is not None:
                definition.vector(function)
                definition.extra = _signature(function)[1]
            else:
                definition.finish(function)
            return register(definition)

        return define


def evidence(
    *, rows: str = "asked", reads: tuple[str, ...] | None = None
) -> Callable[[Callable[..., Any]], SharedEvidence]:
    """Define evidence that several metrics share."""
    return lambda function: SharedEvidence(RowSource(function, rows, reads))


def over(
    column: str | None = None,
    *,
    better: str | None = None,
    bounds: Any = (None, None),
    **facts: Any,
) -> Callable[[Callable[..., Any]], Definition]:
    """Define a metric of a base metric's values in groups: `f(groups)` with `groups.values`, `.names`, `.overall`.

    Without `column` the metric has an option `by`; with it, the groups are that column's values. With `norm=`, the
    function gives the vector whose norm the value is.
    """
    params = [Param("base", "metric")]
    if column is None:
        params.append(Param("by", "column"))

    def define(function: Callable[..., Any]) -> Definition:
        labelled = "label" in inspect.signature(function).parameters
        source = GroupSource(tuple(params), column)
        definition = Definition(function.__name__, function, source, better, bounds, labelled=labelled, **facts)
        (definition.vector if definition.norm is not None else definition.finish)(function)
        if definition.norm is not None:
            definition.extra = _signature(function)[1]
        return register(definition)

    return define


def compose(
    *parts: Definition, better: str | None = None, bounds: Any = (None, None), **facts: Any
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


def bound(expr: Expr) -> Metric:
    """A parsed expression as a metric; loads a plug-in named `package.module:name`."""
    if expr.slice:
        raise UsageError(f"'{expr}': ask for slices with --by (by=), and pick one from the result by this name")
    definition = _plugin(expr.head) if ":" in expr.head else metrics[expr.head]
    args = [value for name, value in expr.args if not name]
    options = {name: value for name, value in expr.args if name}
    if len(options) + len(args) != len(expr.args):
        raise UsageError(f"'{expr}' gives an option twice")
    if expr.cutoff is not None:
        if not any(p.name == "k" and p.kind == "int" for p in definition.params):
            raise UsageError(f"{definition.name} has no cutoff; '@{expr.cutoff}' means nothing here")
        options["k"] = expr.cutoff
    label = ".".join(expr.labels) if expr.labels else None
    made = definition(*args, label=label, **options)
    return replace(made, head=expr.head) if ":" in expr.head else made


def _plugin(head: str) -> Definition:
    module_name, _, name = head.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), name, None)
    except ModuleNotFoundError as problem:
        raise UsageError(
            f"cannot load {printable(head)}: there is no module '{printable(problem.name or '')}'"
        ) from None
    except Exception as problem:
        raise UsageError(f"cannot load {printable(head)}: importing it raised {type(problem).__name__}") from None
    if isinstance(found, Metric):
        found = found.definition
    if not isinstance(found, Definition):
        raise UsageError(
            f"cannot load {printable(head)}: '{printable(name)}' is not a metric; decorate it with @metric"
        )
    return found


def _origin(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__


# -- options -------------------------------------------------------------------------------------------------------

_KINDS: tuple[tuple[Any, str], ...] = (
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (str, "text"),
    (tuple, "list"),
    (list, "list"),
)


def _signature(function: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[Param, ...]]:
    positional, params = [], []
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.POSITIONAL_OR_KEYWORD:
            positional.append(p.name)
        elif p.kind is p.KEYWORD_ONLY and p.name not in ("weight", "label", "constants"):
            kind = _kind(p.annotation, p.default)
            if kind != "constant":
                params.append(Param(p.name, kind, _ANY if p.default is p.empty else p.default))
    return tuple(positional), tuple(params)


def _kind(annotation: Any, default: Any) -> str:
    if annotation is Constant:
        return "constant"
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    text = text.replace(" ", "").removesuffix("|None").split("[")[0]
    named = {
        "Column": "column",
        "Label": "label",
        "Metric": "metric",
        "Constant": "constant",
        "str": "text",
        "tuple": "list",
    }
    if text in named:
        return named[text]
    if text in ("int", "float", "bool", "list"):
        return text
    return next((kind for type_, kind in _KINDS if isinstance(default, type_)), "text")


def _coerced(owner: str, param: Param, value: Any) -> Any:
    """An option's value in the type its kind asks for."""
    if value is None and not param.required:
        return None
    try:
        return _CASTS[param.kind](value)
    except (TypeError, ValueError):
        wanted = {
            "int": "a whole number",
            "float": "a number",
            "bool": "true or false",
            "text": "a word or a quoted text",
            "list": "a list such as [A, B]",
            "column": "a column name",
            "label": "a label",
            "metric": "a metric",
        }[param.kind]
        raise UsageError(f"{owner}: the option {param.name} is {wanted}") from None


def _as_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError
    return int(value)


def _as_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
        raise TypeError
    return float(value)


def _as_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _as_text(value: Any) -> str:
    if isinstance(value, Quoted):
        return value.text
    if isinstance(value, Expr) and value.is_path:
        return value.path
    if not isinstance(value, str):
        raise TypeError
    return value


def _as_label(value: Any) -> Any:
    return value if isinstance(value, bool | int) else _as_text(value)


def _as_list(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return tuple(map(_as_label, value))


def _as_metric(value: Any) -> Metric:
    return bound(value) if isinstance(value, Expr) else metric_of(value)


_CASTS: dict[str, Callable[[Any], Any]] = {
    "int": _as_int,
    "float": _as_float,
    "bool": _as_bool,
    "text": _as_text,
    "list": _as_list,
    "column": _as_text,
    "label": lambda value: value_name(_as_label(value)),
    "metric": _as_metric,
}


def _option_text(param: Param, value: Any) -> str:
    if param.kind == "list":
        return "[" + ", ".join(label_text(v) if isinstance(v, str) else value_text(v) for v in value) + "]"
    if param.kind in ("text", "label"):
        return label_text(value)
    if param.kind == "column":
        return ".".join(map(label_text, str(value).split(".")))
    return value_text(value)


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b


def _hashable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((k, _hashable(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return value.tobytes() if isinstance(value, np.ndarray) else value


def _accepted(function: Callable[..., Any], values: Mapping[str, Any], *, keyword_only: bool = False) -> dict[str, Any]:
    return {name: values[name] for name in _keywords(function, keyword_only) if name in values}


@cache
def _keywords(function: Callable[..., Any], keyword_only: bool) -> tuple[str, ...]:
    kinds = [inspect.Parameter.KEYWORD_ONLY, *([] if keyword_only else [inspect.Parameter.POSITIONAL_OR_KEYWORD])]
    return tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds)


def _with_options(function: Callable[..., Any], keywords: Mapping[str, Any]) -> Callable[..., float]:
    return lambda *columns, weight: function(*columns, weight=weight, **keywords)


def _outside(records: Records, inside: npt.NDArray[np.bool_] | None) -> dict[str, int]:
    """Rows outside the population, counted by outcome."""
    if inside is None:
        return {}
    counts = np.bincount(records.outcome[~inside], minlength=len(OUTCOMES))
    return {outcome: int(n) for outcome, n in zip(OUTCOMES, counts, strict=True) if n}


def _ordered(excluded: Mapping[str, int], lost: Mapping[str, int]) -> dict[str, int]:
    """Both counts added up: outcomes first, in their order, then the other reasons."""
    reasons = dict.fromkeys((*OUTCOMES, *excluded, *lost))
    added = {reason: excluded.get(reason, 0) + lost.get(reason, 0) for reason in reasons}
    return {reason: n for reason, n in added.items() if n}


def _reasons(
    population: Records, lost: npt.NDArray[np.bool_], reads: Iterable[str], stated: Mapping[str, Any]
) -> dict[str, int]:
    """Why rows inside the population were left out: as stated, the column they lack, else their outcome."""
    if not lost.any():
        return {}
    found: dict[str, int] = {}
    open_ = lost.copy()
    for reason, rows in stated.items():
        here = open_ & np.asarray(rows, bool)
        if here.any():
            found[reason] = int(here.sum())
            open_ &= ~here
    answered = population.outcome == ANSWERED
    for name in reads:
        if not open_.any() or name not in population:
            continue
        column = population.array(name)
        missing = column.missing if isinstance(column, Labels) else np.isnan(column)
        if name in ("prediction", "confidence"):
            missing = missing & answered  # a row without an answer needs neither
        here = open_ & missing
        if here.any():
            found[f"no {name}"] = int(here.sum())
            open_ &= ~here
    for code, outcome in enumerate(OUTCOMES[1:], start=1):
        here = open_ & (population.outcome == code)
        if here.any():
            found[outcome] = int(here.sum())
            open_ &= ~here
    if open_.any():
        found["not applicable"] = int(open_.sum())
    return found
