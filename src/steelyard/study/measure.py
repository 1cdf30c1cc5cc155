"""The one door to every number: sides that are measured become an Evaluation, pairs that are compared a Comparison.

Whoever has something to measure (a table, a suite, a kept run, the parts of a distributed one) says which sides there
are, in which slices, and where they come from; what is said of their numbers is said here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from steelyard.ground.arrays import Progress
from steelyard.metrics.collector import Side
from steelyard.metrics.definition import Metric
from steelyard.records.cautions import Caution, each_once, of_pairs
from steelyard.records.schema import CELL
from steelyard.records.sources import Source
from steelyard.records.table import Records
from steelyard.records.texts import holds_texts
from steelyard.study.defaults import Choice
from steelyard.study.deltas import Unchanged, deltas
from steelyard.study.explaining import ExplainedRow
from steelyard.study.kept import KeptSlice, keep
from steelyard.study.label_names import without_texts
from steelyard.study.pairs import Pair
from steelyard.study.results import Comparison, Evaluation
from steelyard.study.row_pairs import UnmatchedRows
from steelyard.study.warnings import cautions_of, unlike, warnings_of
from steelyard.uncertainty.estimate import estimates
from steelyard.uncertainty.number import Delta, Estimate
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.verdicts import judged

K = TypeVar("K")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where the numbers of one run come from: who was asked, in which files, and what must be said of them."""

    population: Mapping[str, int]  # rows by outcome
    cluster: tuple[str, ...] = ()
    clusters: int = 0
    sources: tuple[Source, ...] = ()
    remarks: tuple[str, ...] = ()  # of whoever read the rows
    warnings: tuple[str, ...] = ()  # about the rows, next to the metrics that are asked for
    cautions: tuple[Caution, ...] = ()
    reading: Mapping[str, Any] = field(default_factory=dict)  # how its rows were chosen and read
    is_told: bool = True  # whether that is known
    facts: Mapping[str, float] = field(default_factory=dict)
    has_texts: Callable[[], bool] = lambda: False  # whether its labels are texts of people, not names of classes


def origin_of(records: Records, metrics: Sequence[Metric], *, paired: bool = False) -> Origin:
    """Where the numbers of a table come from; a few clusters are said of a run alone, and of every `paired` delta."""
    return Origin(
        population={"rows": len(records), **records.counts()},
        cluster=records.cluster_columns,
        clusters=len(records.cluster[0]),
        sources=tuple(records.sources),
        remarks=tuple(records.warnings),
        warnings=tuple(warnings_of(records, metrics, paired=paired)),
        cautions=cautions_of(records),
        reading=records.reading,
        is_told=records.is_told,
        facts={} if records.is_part else dict(records.task.facts),
        has_texts=lambda: holds_texts(records),
    )


@dataclass(frozen=True, kw_only=True)
class MeasuredSlice:
    """A slice of a run: its side, and the metrics to read from it."""

    slice: Mapping[str, Any]
    side: Side
    metrics: Sequence[Metric]
    records: Records | None = None  # its rows, which are needed to keep its evidence


@dataclass(frozen=True, kw_only=True)
class ComparedSlice:
    """A slice of two runs: their pair, and the metrics to compare there."""

    slice: Mapping[str, Any]
    pair: Pair
    metrics: Sequence[Metric]
    is_asked: bool = True  # false of a slice that is shown without being asked for, as the tasks of a benchmark are
    primary: Sequence[Metric] = ()  # those of the metrics that decide here


def measured(
    slices: Sequence[MeasuredSlice],
    origin: Origin,
    settings: Settings,
    *,
    remarks: Sequence[str] = (),
    chosen: Sequence[Choice] = (),
    explained: Sequence[ExplainedRow] = (),
    keep_evidence: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Every metric on every slice, with its interval; with `keep_evidence`, what a later comparison needs.

    `remarks` are what must be said of how it was asked for, `chosen` the metrics that nobody named, with the reasons.
    """
    estimated: list[Estimate] = []
    kept: list[KeptSlice] = []
    for done, each in enumerate(slices):
        inside = None if progress is None else (lambda share, done=done: progress((done + share) / len(slices)))
        samples = estimates(each.side, each.metrics, settings, each.slice, inside)
        estimated += [estimate for estimate, _ in samples]
        if keep_evidence and each.records is not None:
            kept.append(keep(each.records, each.slice, [sample for _, sample in samples]))
    return Evaluation(
        estimates=tuple(without_texts(estimated, origin.has_texts)),
        settings=settings,
        population=origin.population,
        cluster=origin.cluster,
        clusters=origin.clusters,
        sources=origin.sources,
        warnings=(*origin.remarks, *remarks, *origin.warnings),
        cautions=origin.cautions,
        reading=origin.reading,
        facts=origin.facts,
        kept=tuple(kept),
        explained=tuple(explained),
        chosen=tuple(chosen),
    )


def united(runs: Sequence[Evaluation], names: Sequence[str], column: str, clusters: int) -> Evaluation:
    """Evaluations of several runs as one, in which every run is a slice of this column under its name."""
    return replace(
        runs[0],
        estimates=tuple(replace(e, slice={column: name}) for name, one in zip(names, runs, strict=True) for e in one),
        population={key: sum(one.population[key] for one in runs) for key in runs[0].population},
        clusters=clusters,
        sources=tuple({(s.name, s.sha256): s for one in runs for s in one.sources}.values()),
        warnings=tuple(dict.fromkeys(w for one in runs for w in one.warnings)),
        cautions=each_once(c for one in runs for c in one.cautions),
    )


def compared(
    slices: Sequence[ComparedSlice],
    base: Origin,
    new: Origin,
    settings: Settings,
    *,
    unchanged: Unchanged = "say",
    unmatched: UnmatchedRows | None = None,
    remarks: Sequence[str] = (),
    chosen: Sequence[Choice] = (),
    names: Mapping[str, str] | None = None,
    versus: Sequence[str] = (),
    progress: Progress | None = None,
) -> Comparison:
    """Every metric's delta on every slice, with verdicts that allow for their number.

    `names` are what the runs are called, `versus` the columns that tell them apart.
    """
    every: list[Delta] = []
    for done, each in enumerate(slices):
        found = deltas(each.pair, each.metrics, settings, each.slice, unchanged)
        every += [d if d.of in each.primary else replace(d, role="exploratory") for d in found]
        if progress is not None:
            progress((done + 1) / len(slices))
    apart = unlike(base.reading, new.reading, versus) if base.is_told and new.is_told else ()
    said = (*base.remarks, *new.remarks, *remarks, *base.warnings, *new.warnings, *(each.text for each in apart))
    runs = {"base": base, "new": new}
    return Comparison(
        deltas=tuple(judged(every, settings)),
        settings=settings,
        population={side: {**run.population, "clusters": run.clusters} for side, run in runs.items()} | _paired(slices),
        cluster=base.cluster,
        sources={side: run.sources for side, run in runs.items()},
        unmatched=(unmatched or UnmatchedRows()).to_dict(),
        warnings=tuple(dict.fromkeys(said)),
        cautions=of_pairs(base.cautions, new.cautions, apart),
        reading={side: run.reading for side, run in runs.items() if run.reading},
        facts={side: run.facts for side, run in runs.items() if run.facts},
        names=names or {},
        chosen=tuple(chosen),
    )


def together(comparisons: Mapping[K, Comparison]) -> dict[K, Comparison]:
    """The comparisons of several pairs of runs, judged as one family: p-values allow for the number of pairs."""
    every = [d for comparison in comparisons.values() for d in comparison]
    verdicts = judged(every, next(iter(comparisons.values())).settings) if comparisons else iter(())
    return {key: replace(one, deltas=tuple(islice(verdicts, len(one)))) for key, one in comparisons.items()}


def _paired(slices: Sequence[ComparedSlice]) -> dict[str, int]:
    """How many rows are paired, and in how many clusters; nothing where only evidence was kept."""
    pairs = [each.pair for each in cells_of(slices)]
    rows = [pair.rows for pair in pairs]
    known = [n for n in rows if n is not None]
    if not rows or len(known) < len(rows):
        return {}
    return {"paired": sum(known), "clusters": len({id_ for pair in pairs for id_ in pair.sides[0].ids})}


def cells_of(slices: Iterable[Any]) -> list[Any]:
    """The slices that hold each row once: cells, but for one whose parts are there too, as a benchmark's tasks are."""
    cells = [each for each in slices if set(each.slice) <= set(CELL)]
    return [each for each in cells if not any(_within(each.slice, other.slice) for other in cells)]


def _within(slice_: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if another slice is a part of this one, as a task is of a whole benchmark."""
    return len(slice_) < len(other) and all(column in other and other[column] == v for column, v in slice_.items())
