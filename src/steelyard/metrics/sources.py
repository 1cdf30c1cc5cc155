"""Where a metric's evidence comes from: a function of columns here, other metrics in `compositions`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, get_args

import numpy as np

from steelyard.errors import InputError, UsageError, counted, printable
from steelyard.ground.arrays import Floats, Mask
from steelyard.metrics.evidence.clusters import left_out, sortable
from steelyard.metrics.evidence.combined import RowTerms, WeightedRows
from steelyard.metrics.evidence.sums import Evidence, row_score
from steelyard.metrics.facts import Function, Method
from steelyard.metrics.options import Constants, Param, accepted, hashable, signature
from steelyard.metrics.vocabulary import Population
from steelyard.records.derive import ANSWERED, DERIVED
from steelyard.records.labels import Labels
from steelyard.records.schema import OUTCOMES, kind_of
from steelyard.records.table import Records
from steelyard.records.texts import Texts, texts_of

if TYPE_CHECKING:
    from steelyard.metrics.collector import Collector
    from steelyard.metrics.metric import Metric


_SPECIAL = ("weight", "records", "task")


class Source(Protocol):
    """Where a metric's evidence comes from."""

    @property
    def params(self) -> tuple[Param, ...]: ...

    @property
    def over_tasks(self) -> bool: ...  # whether it is measured in several tasks

    def reads(self, options: Mapping[str, Any]) -> tuple[str, ...]: ...

    def grouped_by(self, options: Mapping[str, Any]) -> tuple[str, ...]: ...  # the columns whose groups are compared

    def population(self, options: Mapping[str, Any]) -> Population: ...  # the rows that count

    def summarised(self, metric: Metric, table: Records) -> Any: ...  # what one table says, as plain data

    def merged(self, metric: Metric, summaries: Sequence[Any], runs: int) -> dict[str, Any]: ...  # the constants

    def key(self, metric: Metric, constants: Constants) -> tuple[Any, ...]: ...

    def collect(self, metric: Metric, constants: Constants, collector: Collector) -> Evidence: ...

    def missing(self, metric: Metric, constants: Constants, collector: Collector) -> Mask: ...  # rows that lack a value

    # the clusters that hold each part of the value, and what it carries; None where groups are its parts
    def parts(self, metric: Metric, evidence: Any, constants: Constants) -> tuple[Any, Floats] | None: ...

    def today(self, metric: Metric, evidence: Any) -> Any: ...  # kept evidence in the form that is collected today

    def ordered(self, metric: Metric, evidence: Any) -> Any: ...  # scores as ranks, where only their order is read

    def united(self, _metric: Metric, sides: Sequence[tuple[Constants, Any]]) -> dict[str, Any]: ...  # of two runs

    def converted(self, _metric: Metric, evidence: Any, own: Constants, joint: Constants) -> Any: ...  # None: cannot be

    def readied(self, metric: Metric, reading: Any, constants: Constants) -> Any: ...  # what finish functions take


class RowSource:
    """Evidence from a function of columns: a row score, `sums(...)`, or richer evidence made by the function.

    `rows` is the population: "asked" (all but failed rows), "answered" or "all"; or a function of the options.
    """

    over_tasks = False

    # What one table says that the metric must know before any split: `f(table, **options)`. What is returned is plain
    # data, because the parts of a table may be summarised apart from each other.
    summary = Method()
    # How summaries become the constants: `f(summaries, **options) -> dict`; by default the first is them. However a
    # table is split, the summaries of its parts give the constants of the whole. In a comparison the tables of both
    # runs are summarised; a function that asks for `runs` gets how many there are. An entry `undefined` says why the
    # metric has no value.
    merge = Method()
    join = Method()  # how the constants of two runs become one set, where their sums can be converted to it
    convert = Method()  # how sums under one set of constants become those under another: `f(sums, own, joint) -> sums`

    def __init__(
        self,
        function: Function,
        rows: Population | Callable[[Mapping[str, Any]], Population],
        reads: tuple[str, ...] | None,
    ) -> None:
        if isinstance(rows, str) and rows not in get_args(Population):
            raise UsageError(f"rows is asked, answered or all, not '{rows}'")
        self.function, self._rows = function, rows
        self._positional, self._params = signature(function)
        self._stated = reads
        if "records" in self._positional and reads is None:
            raise UsageError(
                f"{function.__name__} takes the records themselves and must name what it reads: reads=(...)"
            )
        parameters = inspect.signature(function).parameters
        self.whole = "weight" in parameters
        self._labelled = "label" in parameters
        self._numeric = {name for name, p in parameters.items() if p.annotation in ("Floats", Floats)}
        self._textual = {name for name, p in parameters.items() if p.annotation in ("Texts", Texts)}
        self.methods: dict[str, Function] = {}

    def rows(self, options: Mapping[str, Any]) -> Population:
        """The rows that are read."""
        return self._rows if isinstance(self._rows, str) else self._rows(options)

    @property
    def params(self) -> tuple[Param, ...]:
        return self._params

    def grouped_by(self, options: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def population(self, options: Mapping[str, Any]) -> Population:
        """The rows that count: those that are read, and only answered ones where the option says so."""
        return "answered" if options.get("answered_only") else self.rows(options)

    def reads(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        stated = (
            self._stated
            if self._stated is not None
            else tuple(name.replace("__", ".") for name in self._positional if name not in _SPECIAL)
        )
        columns = [options[p.name] for p in self._params if p.kind == "column" and options.get(p.name) is not None]
        several = [name for p in self._params if p.kind == "columns" for name in options.get(p.name) or ()]
        return tuple(dict.fromkeys((*stated, *columns, *several)))

    def summarised(self, metric: Metric, table: Records) -> Any:
        summary = self.methods.get("summary")
        return {} if summary is None else summary(table, **accepted(summary, metric.values))

    def merged(self, metric: Metric, summaries: Sequence[Any], runs: int) -> dict[str, Any]:
        merge: Function = self.methods.get("merge", _first)
        constants: dict[str, Any] = merge(summaries, **accepted(merge, {**metric.values, "runs": runs}))
        return constants

    def key(self, metric: Metric, constants: Constants) -> tuple[Any, ...]:
        names = [p.name for p in self._params]
        merged = {**metric.values, **constants}
        label = metric.label if self._labelled else None
        return (id(self), label, *((name, hashable(merged.get(name))) for name in names), hashable(constants))

    def explained(self, metric: Metric, constants: Constants, collector: Collector) -> tuple[Mask | None, Any]:
        """The rows that count, as a mask of the table (None: all), and how the score of each came about."""
        inside = collector.population(self.rows(metric.values))
        population = collector.records if inside is None else collector.records.take(inside)
        arguments, keywords = self._called_with(metric, constants, population)
        return inside, getattr(self._terms(metric, arguments, keywords, len(population)), "explained", ())

    def _called_with(
        self, metric: Metric, constants: Constants, population: Records
    ) -> tuple[list[Any], dict[str, Any]]:
        """What the function is called with: columns and options."""
        merged = {**metric.values, **constants}
        arguments = [self._argument(name, population, metric.name) for name in self._positional]
        keywords = {p.name: self._option(p, merged.get(p.name), population, metric.name) for p in self._params}
        return arguments, keywords | accepted(self.function, {"label": metric.label, **constants}, keyword_only=True)

    def collect(self, metric: Metric, constants: Constants, collector: Collector) -> Evidence:
        inside = collector.population(self.rows(metric.values))
        population = collector.records if inside is None else collector.records.take(inside)
        cluster = collector.cluster if inside is None else collector.cluster[inside]
        excluded = _outside(collector.records, inside)
        arguments, keywords = self._called_with(metric, constants, population)
        try:
            with np.errstate(all="ignore"):
                terms = self._terms(metric, arguments, keywords, len(population))
                evidence, kept = terms.collect(collector.ids, cluster)
        except TypeError:
            texts = [c for c in metric.reads if c in population and kind_of(population.column(c)) == "text"]
            if not texts:
                raise
            raise InputError(f"{metric} needs numbers; text stands in {', '.join(map(printable, texts))}") from None
        lost = _reasons(population, ~kept, metric.reads, {**terms.missing, **terms.left_out})
        lacking = None if kept.all() else ~np.logical_or.reduce([kept, *terms.left_out.values()])
        collector.note_missing(self.key(metric, constants), inside, lacking)
        counted: Evidence = replace(evidence, excluded=left_out(excluded, lost))
        return counted

    def missing(self, metric: Metric, constants: Constants, collector: Collector) -> Mask:
        """The rows of the population that lack a value that the metric reads."""
        collector.evidence(metric, constants)
        return collector.noted_missing(self.key(metric, constants))

    def parts(self, metric: Metric, evidence: Any, constants: Constants) -> tuple[Any, Floats]:
        """As the metric says; by default there is one part: the clusters with rows."""
        own: tuple[Any, Floats] | None = metric.own("parts", evidence, constants=constants)
        return own or (np.asarray(evidence.rows > 0)[:, None], np.ones(1))

    def today(self, metric: Metric, evidence: Any) -> Any:
        return metric.own("earlier", evidence, usual=evidence)

    def ordered(self, metric: Metric, evidence: Any) -> Any:
        """The evidence, with scores as midranks within the run where the metric reads only their order."""
        return evidence.by_rank() if metric.definition.rows.reads_order else evidence

    def united(self, _metric: Metric, sides: Sequence[tuple[Constants, Any]]) -> dict[str, Any]:
        """What two runs must know together: labels that either met, and what a `join` makes of the rest."""
        one, two = (constants for constants, _ in sides)
        joint = self.methods["join"](one, two) if "join" in self.methods else dict(one)
        if "labels" in one:
            met = [set(c["labels"] or met_labels(evidence)) for c, evidence in sides]
            stated = one["labels"] is not None and met[0] == met[1]
            joint["labels"] = one["labels"] if stated else tuple(sorted(met[0] | met[1], key=sortable))
        if "undefined" in two:
            joint["undefined"] = two["undefined"]
        return joint

    def converted(self, _metric: Metric, evidence: Any, own: Constants, joint: Constants) -> Any:
        """The evidence as it would be under the joint constants; None where only the rows could say."""
        changed = [name for name in own if name in joint and hashable(own[name]) != hashable(joint[name])]
        if not set(changed) - {"labels", "begins", "undefined"}:  # these are read by the finish alone
            return evidence
        if "convert" not in self.methods:
            return None
        each = evidence.each
        sums_ = self.methods["convert"]({name: getattr(each, name) for name in evidence.names}, own, joint)
        cells = np.stack([sums_[name] for name in evidence.names], -1).reshape(len(evidence.ids), -1)
        return replace(evidence, cells=cells)

    def readied(self, metric: Metric, reading: Any, constants: Constants) -> Any:
        """The reading itself; of whole columns, the value of the function under each resample."""
        if not isinstance(reading, WeightedRows):
            return reading
        merged = {**metric.values, **constants}
        options = {p.name: merged.get(p.name) for p in self._params}
        options |= accepted(self.function, {"label": metric.label, **constants}, keyword_only=True)
        return reading.once(metric, lambda: reading.called(partial(self.function, **options)))

    def _terms(self, metric: Metric, arguments: list[Any], keywords: Mapping[str, Any], rows: int) -> Any:
        """What the function says of each row, as something that collects evidence."""
        if self.whole:
            return RowTerms(tuple(arguments))
        result = self.function(*arguments, **keywords)
        if callable(getattr(result, "collect", None)):
            return result
        score = np.asarray(result, np.float64)
        if score.shape != (rows,):
            raise UsageError(f"{metric} gave {score.shape} values for {counted(rows, 'row')}, not one per row")
        return row_score(score)

    def _option(self, param: Param, value: Any, population: Records, asked_by: str) -> Any:
        """An option's value; the numbers of a column where the option names one."""
        if param.kind != "column" or value is None:
            return value
        if value in DERIVED and value not in population:
            return population.array(value)
        if value in population and kind_of(population.column(value)) == "bool":
            return population.stated_numbers(value)
        return population.numbers(value, needed_by=asked_by)

    def _argument(self, name: str, population: Records, asked_by: str) -> Any:
        if name == "records":
            return population
        if name == "task":
            return population.task
        if name in self._textual:
            return texts_of(population, name.replace("__", "."), needed_by=asked_by)
        array = population.array(name.replace("__", "."), needed_by=asked_by)
        if name in self._numeric and not isinstance(array, np.ndarray):
            what = "text stands" if isinstance(array, Labels) else "lists stand"
            raise InputError(f"{asked_by} needs numbers; {what} in {printable(name)}", file=population.name)
        return array


def _first(summaries: Sequence[Any]) -> dict[str, Any]:
    return dict(summaries[0])


def met_labels(evidence: Any) -> tuple[Any, ...]:
    """The labels that stand among the keys of keyed sums."""
    return tuple(label for part in evidence.keys for label in part.tolist() if label is not None)


def _nothing(column: Any) -> Mask:
    """Where a column of numbers or of lists has no value."""
    return np.isnan(column) if isinstance(column, np.ndarray) else column.is_null().to_numpy(zero_copy_only=False)


def _outside(records: Records, inside: Mask | None) -> dict[str, int]:
    """Rows outside the population, counted by outcome."""
    if inside is None:
        return {}
    counts = np.bincount(records.outcome[~inside], minlength=len(OUTCOMES))
    return {outcome: int(n) for outcome, n in zip(OUTCOMES, counts, strict=True) if n}


def _reasons(population: Records, lost: Mask, reads: Iterable[str], stated: Mapping[str, Any]) -> dict[str, int]:
    """Why rows inside the population were left out: as stated, the column they lack, else their outcome."""
    if not lost.any():
        return {}
    reasons: dict[str, int] = {}
    open_ = lost.copy()
    for reason, rows in stated.items():
        here = open_ & np.asarray(rows, bool)
        if here.any():
            reasons[reason] = int(here.sum())
            open_ &= ~here
    answered = population.outcome == ANSWERED
    right = "mark" if "mark" in population.stated else "target"
    for name in dict.fromkeys(right if name == "correct" else name for name in reads):
        if not open_.any() or name not in population:
            continue
        column = population.array(name)
        missing = column.missing if isinstance(column, Labels) else _nothing(column)
        if name in ("prediction", "confidence", "mark"):
            missing = missing & answered  # a row without an answer needs none of them
        here = open_ & missing
        if here.any():
            reasons[f"no {name}"] = int(here.sum())
            open_ &= ~here
    for code, outcome in enumerate(OUTCOMES[1:], start=1):
        here = open_ & (population.outcome == code)
        if here.any():
            reasons[outcome] = int(here.sum())
            open_ &= ~here
    if open_.any():
        reasons["not applicable"] = int(open_.sum())
    return reasons
