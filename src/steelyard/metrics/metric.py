"""A metric as a value: a definition with its options bound. It is evaluated, printed, stored and gated on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.ground.arrays import Floats, Mask
from steelyard.metrics.by_task import TaskSource
from steelyard.metrics.collector import Collector
from steelyard.metrics.compositions import GroupSource, PartSource
from steelyard.metrics.evidence.sums import Cells, Evidence
from steelyard.metrics.options import Constants, accepted, option_text, same_option
from steelyard.metrics.sources import RowSource
from steelyard.metrics.titles import title_of
from steelyard.metrics.vocabulary import AS_BASE, CUTOFF, WIDTH_OF_BASE, Better, Bounds, Population
from steelyard.naming import label_text
from steelyard.records.table import Records

if TYPE_CHECKING:
    from steelyard.metrics.definition import Definition


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
        inner = () if self.base is None else self.base.grouped_by
        source = self.definition.source
        if isinstance(source, PartSource) and source.views is None:
            return tuple(dict.fromkeys(column for m in source.metrics(self.values) for column in m.grouped_by))
        return (*inner, source.column(self.values)) if isinstance(source, GroupSource) else inner

    @property
    def over_tasks(self) -> bool:
        """True if it is made of what is measured in several tasks."""
        return isinstance(self.definition.source, TaskSource)

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
        return stated or self.definition.better_members.get(self.label or "") or self.definition.better  # type: ignore[return-value]

    @property
    def bounds(self) -> Bounds:
        if self.definition.bounds_of is not None:
            return self.definition.bounds_of(self.values)
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
    def population(self) -> Population:
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
        variants = members(records, **accepted(members, dict(self.options)))
        if self.definition.labelled:
            return tuple(replace(self, label=str(name)) for name in variants)
        return tuple(self.definition(**{**dict(self.options), **more}) for more in variants)

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

    def of_values(self, values: Any, constants: Constants) -> Floats:
        """The value that follows from those of the measures of a benchmark."""
        assert self.definition._finish is not None
        return np.asarray(self._finish_with(self.definition._finish, values, constants), np.float64)

    def noise(self, reading: Any, constants: Constants) -> Floats:
        """The vector whose norm the value is, where the metric has one."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self._call(self.definition._vector, reading, constants), np.float64)

    def present(self, reading: Any, constants: Constants) -> Mask | None:
        """The classes or groups that each resample holds, or None where the metric has no such notion."""
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
        """The clusters that hold each part of the value, and what it carries; None where groups are its parts."""
        if isinstance(self.definition.source, GroupSource):
            return None
        if isinstance(self.definition.source, PartSource):
            return self._parts_of_parts(evidence, constants)
        if isinstance(self.definition.source, TaskSource):
            return self.definition.source.carried(self, evidence, constants)
        if self.definition._parts is None:
            return np.asarray(evidence.rows > 0)[:, None], np.ones(1)
        parts: tuple[Any, Floats] = self._finish_with(self.definition._parts, evidence, constants)
        return parts

    def _parts_of_parts(self, evidence: Any, constants: Constants) -> tuple[Any, Floats] | None:
        """The parts of every metric that this one is composed of: it is no surer than any of them."""
        metrics = self.definition.source.metrics(self.values) if isinstance(self.definition.source, PartSource) else ()
        parts = [m.parts(e, c) for m, e, c in zip(metrics, evidence.parts, constants["parts"], strict=True)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return np.concatenate([holds for holds, _ in known], 1), np.concatenate([weight for _, weight in known])

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
        if isinstance(source, TaskSource):
            return source.today(evidence)
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

    def delta_note(self, base: Any, new: Any) -> str:
        """What must be said of a difference between two runs with this evidence, or nothing."""
        return "" if self.definition._delta_note is None else self.definition._delta_note(base, new)

    @property
    def documented_as(self) -> str:
        """The key of the value in documents that other tools read, where the metric has one of its own."""
        usual = {p.name: p.default for p in self.definition.params}
        plain = all(same_option(value, usual[name]) for name, value in self.unconditional.options)
        return self.definition.documented_as if plain and self.label is None else ""

    def detail(self, reading: Any, constants: Constants) -> Any:
        """What is shown next to the value, or None."""
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
