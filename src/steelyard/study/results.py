"""What came out: every estimate of one table, or every paired delta of two runs, with what must be said of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from steelyard.errors import UsageError, counted
from steelyard.ground.showing import Shows
from steelyard.metrics.definition import MetricLike, bound, metric_of
from steelyard.naming import parse, slice_text
from steelyard.records.cautions import Caution
from steelyard.records.labels import value_name
from steelyard.records.sources import Source
from steelyard.study.defaults import Choice
from steelyard.study.explaining import ExplainedRow
from steelyard.study.frames import deltas_table, estimates_table, main_lines
from steelyard.study.kept import KeptSlice
from steelyard.uncertainty.number import Delta, Estimate
from steelyard.uncertainty.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from steelyard.ground.showing import Json


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation(Shows):
    """All estimates of one table. `result["accuracy"]`, `result["accuracy{model=m1}"]` pick one.

    >>> from steelyard import evaluate
    >>> result = evaluate([{"item": 1, "target": "a", "prediction": "a"}], "accuracy", resamples=0)
    >>> result["accuracy"].value
    1.0
    """

    estimates: tuple[Estimate, ...]
    settings: Settings
    population: Mapping[str, int]
    cluster: tuple[str, ...]
    clusters: int
    sources: tuple[Source, ...]
    warnings: tuple[str, ...]
    cautions: tuple[Caution, ...] = ()  # what keeps a gate from believing the rows
    reading: Mapping[str, Any] = field(default_factory=dict)  # how they were chosen and read
    is_told: bool = True  # false of one from before that was recorded
    facts: Mapping[str, float] = field(default_factory=dict)  # of the whole table: wall time, energy
    kept: tuple[KeptSlice, ...] = ()  # the evidence of every slice, where it was asked for
    explained: tuple[ExplainedRow, ...] = ()  # the worst rows in words, where that was asked for
    chosen: tuple[Choice, ...] = ()  # the metrics that nobody named, and why they were taken

    def __getitem__(self, name: MetricLike) -> Estimate:
        return pick(self.estimates, name)

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def __repr__(self) -> str:
        rows, clusters = counted(self.population["rows"], "row"), counted(self.clusters, "cluster")
        estimated = counted(len(self), "estimate")
        head = f"Evaluation: {rows}, {clusters} ({', '.join(self.cluster)}), {estimated}"
        return "\n".join((head, *main_lines(self.estimates)))

    def to_arrow(self) -> pa.Table:
        """One row per estimate: the metric, its slice, value, interval, and what it stands on."""
        return estimates_table(self.estimates)

    def _inputs(self) -> Iterator[str]:
        return (source.name for source in self.sources)

    def to_dict(self) -> Json:
        """Plain data: the document that `evaluation.json` holds."""
        from steelyard.study.wire import evaluation_document

        return evaluation_document(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Shows):
    """All paired deltas of two runs. `result["aurc"]` picks one.

    >>> old = [{"item": 1, "target": "a", "prediction": "b"}]
    >>> new = [{"item": 1, "target": "a", "prediction": "a"}]
    >>> from steelyard import compare
    >>> compare(old, new, "accuracy", resamples=0)["accuracy"].delta
    1.0
    """

    deltas: tuple[Delta, ...]
    settings: Settings
    population: Mapping[str, Any]
    cluster: tuple[str, ...]
    sources: Mapping[str, tuple[Source, ...]]
    unmatched: Mapping[str, Any]
    warnings: tuple[str, ...]
    cautions: tuple[Caution, ...] = ()  # what keeps a gate from believing the rows of either
    reading: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # how those of each were chosen and read
    facts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # of both whole tables: wall time, energy
    names: Mapping[str, str] = field(default_factory=dict)  # of base and new, where a column tells them apart
    chosen: tuple[Choice, ...] = ()  # the metrics that nobody named, and why they were taken

    def __getitem__(self, name: MetricLike) -> Delta:
        return pick(self.deltas, name)

    def __iter__(self) -> Iterator[Delta]:
        return iter(self.deltas)

    @property
    def failure_rates(self) -> tuple[float, float]:
        """The share of the rows of the base run and of the new one that failed."""
        base, new = (
            side["failed"] / side["rows"] if side.get("rows") else 0.0
            for side in (self.population[name] for name in ("base", "new"))
        )
        return base, new

    def failed_share(self, delta: Delta) -> float:
        """The share of the pairs that left a delta because either run failed; at most that, where no rows were kept."""
        if "clusters_left" in delta.companions:  # others left with them
            return min(1.0, sum(self.failure_rates))
        return delta.n_failed / (delta.n_failed + delta.n_asked) if delta.n_failed else 0.0

    def __len__(self) -> int:
        return len(self.deltas)

    def __repr__(self) -> str:
        pairs = self.population.get("paired")
        shared = f"{counted(pairs, 'pair')} of rows, " if pairs is not None else ""
        head = f"Comparison: {shared}{counted(len(self), 'delta')} (new − base)"
        return "\n".join((head, *main_lines(self.deltas)))

    @property
    def without_partner(self) -> str:
        """What only one of the runs has, in words; nothing where everything is paired."""
        lost = self.unmatched
        alone = {"base row": lost["base_rows"], "new row": lost["new_rows"], "cell": len(lost["cells"])}
        return ", ".join(counted(n, noun) for noun, n in alone.items() if n)

    def to_arrow(self) -> pa.Table:
        """One row per delta: the metric, its slice, both values, delta, interval and verdict."""
        return deltas_table(self.deltas)

    def _inputs(self) -> Iterator[str]:
        return (source.name for sources in self.sources.values() for source in sources)

    def to_dict(self) -> Json:
        """Plain data: the document that `comparison.json` holds."""
        from steelyard.study.wire import comparison_document

        return comparison_document(self)


def pick(estimates_: Sequence[Any], asked: MetricLike) -> Any:
    """The one estimate (or delta) that a name means; an error lists the slices where it is not one."""
    name = asked if isinstance(asked, str) else str(metric_of(asked))
    expr = parse(name)
    wanted = dict(expr.slice)
    text = str(bound(replace(expr, slice=())))
    named = [e for e in estimates_ if e.metric == text]
    if not named:
        known = ", ".join(dict.fromkeys(e.metric for e in estimates_)) or "none"
        raise UsageError(f"'{text}' was not evaluated; there are: {known}")
    if wanted:
        matching = [e for e in named if {k: value_name(v) for k, v in e.slice.items()} == wanted]
    else:
        matching = [e for e in named if not e.slice] or named
    if len(matching) == 1:
        return matching[0]
    shown = ", ".join(f"{text}{slice_text({k: value_name(v) for k, v in e.slice.items()})}" for e in named[:12])
    raise UsageError(f"'{name}' matches {len(matching)} estimates; choose one of: {shown}")
