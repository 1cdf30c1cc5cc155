"""A metric as a value: a definition with its options bound. It is evaluated, printed, stored and gated on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.ground.arrays import Floats, Mask
from steelyard.metrics.collector import Collector
from steelyard.metrics.evidence.sums import Cells, Evidence
from steelyard.metrics.options import Constants, accepted, option_text, same_option
from steelyard.metrics.titles import title_of
from steelyard.metrics.vocabulary import (
    AS_BASE,
    CUTOFF,
    UNIT,
    WIDTH_OF_BASE,
    Better,
    Bounds,
    OverGroups,
    Population,
    Spread,
)
from steelyard.naming import label_text
from steelyard.records.table import Records

if TYPE_CHECKING:
    from steelyard.metrics.definition import Definition

_NONE: Mapping[str, Any] = MappingProxyType({})


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
            positional = i == 0 and param.required and param.kind in ("metric", "column") and not param.named
            shown.append(text if positional else f"{param.name}={text}")
        label = "" if self.label is None else f".{label_text(self.label)}"
        options = f"({', '.join(shown)})" if shown else ""
        head = self.head or self.definition.name.removesuffix(CUTOFF)
        return f"{head}{cutoff}{options}{label}"

    @cached_property
    def title(self) -> str:
        """The name for people, in tables and pictures: `Selective Accuracy (answered only)`.

        >>> from steelyard.metrics.definition import metric_of
        >>> metric_of("fairness_gap(ece(bins=15), by=group.site)").title
        'Fairness Gap of Expected Calibration Error (15 bins) by site'
        """
        return title_of(self)

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
        return self.definition.source.grouped_by(self.values)

    @property
    def over_tasks(self) -> bool:
        """True if it is made of what is measured in several tasks."""
        return self.definition.source.over_tasks

    def own(self, method: str, *taken: Any, constants: Constants = _NONE, usual: Any = None) -> Any:
        """What a method of this metric's own gives, with the options that it names; `usual` where it has none."""
        function = self.definition.methods.get(method)
        if function is None:
            return usual
        values = {**self.values, "label": self.label, **constants}
        return function(*taken, **accepted(function, values, keyword_only=True))

    @property
    def unconditional(self) -> Metric:
        """The metric without the options that only say when it is undefined: it reads the same evidence."""
        conditions = self.own("conditions", usual=())
        usual = {p.name: p.default for p in self.definition.params if p.name in conditions}
        return replace(self, options=tuple((name, usual.get(name, value)) for name, value in self.options))

    @property
    def is_family(self) -> bool:
        """True if the name stands for its members: `latency`, `f1` without a label."""
        return self.label is None and (self.definition.labelled or isinstance(self.definition.members, tuple))

    @property
    def better(self) -> Better | None:
        stated: Better | None = self.values.get("better") or self.own("better_members", usual=_NONE).get(self.label)
        usual = self.definition.better
        if usual == "as base":
            usual = self.base.better if self.base else None
        return stated or usual

    @property
    def bounds(self) -> Bounds:
        bounds: Bounds = self.own("bounds_of", self.values, usual=self.definition.bounds)
        if bounds not in (AS_BASE, WIDTH_OF_BASE):
            return bounds
        low, high = self.base.bounds if self.base else (None, None)
        if bounds == AS_BASE:
            return low, high
        return (0, None) if low is None or high is None else (0, high - low)

    @property
    def norm(self) -> Callable[[Floats], Floats] | None:
        """The norm of noise that the value is a function of, where an ordinary bootstrap cannot cover a true 0."""
        only = self.own("norm_members")
        return self.definition.uncertainty.norm if only is None or self.label in only else None

    @property
    def spread(self) -> Spread:
        """How the interval is made where the kind of evidence does not say."""
        return self.definition.uncertainty.spread

    @property
    def over_groups(self) -> OverGroups:
        """How the interval follows from those of groups."""
        return self.definition.uncertainty.over_groups

    @property
    def no_interval(self) -> str | Callable[..., str]:
        """The reason why no interval is honest, where that is so; or how it follows from evidence, value and label."""
        return self.definition.uncertainty.no_interval

    @property
    def bootstrap_shifts(self) -> bool:
        """True if resampling moves the value systematically, so that its deltas rest on the jackknife."""
        return self.norm is not None or bool(self.over_groups) or self.spread == "t"

    @property
    def is_extreme(self) -> bool:
        """True if it is the largest of several: groups cannot be compared by it."""
        return bool(self.own("extreme", usual=False))

    @property
    def is_share(self) -> bool:
        """True if row scores of 0 and 1 are a share of rows."""
        return bool(self.own("share", usual=self.definition.bounds == UNIT))

    @property
    def by_cluster(self) -> bool:
        """True if the value itself depends on the clusters."""
        return self.definition.rows.by_cluster

    @property
    def perturbed_only(self) -> bool:
        """True if it is about altered questions alone."""
        return self.definition.rows.perturbed_only

    @property
    def no_delta(self) -> str:
        """Why it cannot be compared between runs, where that is so."""
        return self.definition.comparing.no_delta

    @property
    def common_coverage(self) -> str | None:
        """Of metrics that reward declining, the form up to a common coverage that is judged instead, "" if none."""
        return self.definition.comparing.common_coverage

    @property
    def rewards_declining(self) -> bool:
        """True if answering less can better it, though the rows that count are all that were asked."""
        return self.definition.comparing.rewards_declining or self.common_coverage is not None

    @property
    def twin(self) -> str:
        """The metric that a delta takes its verdict from, because this one's delta is biased."""
        return str(self.own("twin", usual=""))

    @property
    def unit(self) -> str:
        return self.definition.shown.unit

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns this metric needs."""
        return self.definition.source.reads(self.values)

    @property
    def population(self) -> Population:
        """The rows that count: all, asked or answered."""
        if self.own("answered_if", self.values, usual=False):
            return "answered"
        return self.definition.source.population(self.values)

    def expanded(self, records: Records) -> tuple[Metric, ...]:
        """The metric itself, or the members of a family: `latency`, `mae_by_bin`, `f1` without a label."""
        members = self.definition.members
        if self.label is not None or members is None:
            return (self,)
        if isinstance(members, tuple):
            return tuple(replace(self, label=name) for name in members)
        variants = members(records, **accepted(members, self.values))
        if self.definition.labelled:
            return tuple(replace(self, label=str(name)) for name in variants)
        return tuple(self.definition(**{**self.values, **more}) for more in variants)

    def constants(self, tables: Sequence[Records]) -> dict[str, Any]:
        """What is computed once from the whole table, or from those of both runs, and must not depend on a split."""
        return self.merged([self.summary(table) for table in tables], runs=len(tables))

    def summary(self, table: Records) -> Any:
        """What one table, or a part of one, says that constants are made from."""
        return self.definition.source.summarised(self, table)

    def merged(self, summaries: Sequence[Any], *, runs: int = 1) -> dict[str, Any]:
        """The constants that follow from the summaries of all parts of a table, or of the tables of several runs."""
        return self.definition.source.merged(self, summaries, runs)

    def finished(self, reading: Any, constants: Constants) -> Floats:
        """The value under every resample of a reading; NaN where undefined."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            reading = self.definition.source.readied(self, reading, constants)
            if isinstance(reading, Cells) and reading.is_score:
                value = reading.total / reading.n
            elif isinstance(reading, np.ndarray):
                value = reading
            elif "finish" in self.definition.methods:
                value = self.own("finish", reading, constants=constants)
            else:
                name = self.definition.name
                raise UsageError(f"{name} returns sums and has no finish; add one with @{name}.finish")
            array = np.asarray(value, np.float64)
        defined = np.isfinite(array) & ("undefined" not in constants)
        return np.where(defined, array, np.nan)

    def of_values(self, values: Any, constants: Constants) -> Floats:
        """The value that follows from those of the measures of a benchmark."""
        return np.asarray(self.own("finish", values, constants=constants), np.float64)

    def noise(self, reading: Any, constants: Constants) -> Floats | None:
        """The vector whose norm the value is, where the metric has one."""
        vector = self._read("vector", reading, constants)
        return None if vector is None else np.asarray(vector, np.float64)

    def present(self, reading: Any, constants: Constants) -> Mask | None:
        """The classes or groups that each resample holds, or None where the metric has no such notion."""
        present = self._read("present", reading, constants)
        return None if present is None else np.asarray(present, bool)

    def up_to(self, reading: Any, c: Floats) -> Floats:
        """The area up to each resample's coverage c, where the metric has such a form."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.own("up_to", reading, c), np.float64)

    @property
    def is_area(self) -> bool:
        """True if it rewards declining and has a form up to a coverage by which runs and groups are compared."""
        return "up_to" in self.definition.methods and self.values.get("ties", "plateau") == "plateau"

    @property
    def is_mean_of_shares(self) -> bool:
        """True if the value is the mean of several shares."""
        return "shares" in self.definition.methods

    def shares(self, evidence: Any) -> tuple[Floats, Floats]:
        """Hits and rows of every cluster and share, where the value is the mean of several shares."""
        shares: tuple[Floats, Floats] = self.own("shares", evidence)
        return shares

    def parts(self, evidence: Any, constants: Constants) -> tuple[Any, Floats] | None:
        """The clusters that hold each part of the value, and what it carries; None where groups are its parts."""
        return self.definition.source.parts(self, evidence, constants)

    def today(self, evidence: Any) -> Any:
        """Kept evidence in the form that is collected today, inside groups and parts too."""
        return self.definition.source.today(self, evidence)

    def ordered(self, evidence: Any) -> Any:
        """The evidence with scores as midranks within the run, where only their order is read."""
        return self.definition.source.ordered(self, evidence)

    def united(self, sides: Sequence[tuple[Constants, Any]]) -> dict[str, Any]:
        """The constants of two runs together, each given with its evidence."""
        return self.definition.source.united(self, sides)

    def converted(self, evidence: Any, own: Constants, joint: Constants) -> Any:
        """The evidence under joint constants; None where only rows could say."""
        return self.definition.source.converted(self, evidence, own, joint)

    def delta_note(self, base: Any, new: Any) -> str:
        """What must be said of a difference between two runs with this evidence, or nothing."""
        return str(self.own("delta_note", base, new, usual=""))

    @property
    def documented_as(self) -> str:
        """The key of the value in documents that other tools read, where the metric has one of its own."""
        usual = {p.name: p.default for p in self.definition.params}
        plain = all(same_option(value, usual[name]) for name, value in self.unconditional.options)
        return self.definition.names.documented_as if plain and self.label is None else ""

    def detail(self, reading: Any, constants: Constants) -> Any:
        """What is shown next to the value, or None."""
        return self._read("detail", reading, constants)

    def key(self, constants: Constants) -> tuple[Any, ...]:
        """Metrics with equal keys share their evidence."""
        return self.definition.source.key(self, constants)

    def collect(self, constants: Constants, collector: Collector) -> Evidence:
        return self.definition.source.collect(self, constants, collector)

    def _read(self, method: str, reading: Any, constants: Constants) -> Any:
        """What one of the metric's methods makes of a reading, or None where it has none."""
        if method not in self.definition.methods:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.own(method, self.definition.source.readied(self, reading, constants), constants=constants)
