"""evaluate(): records × metrics × uncertainty → Evaluation.

A table is evaluated cell by cell: rows with the same (model, strategy, task, perturbation). `by` adds slices of each
cell, `pool` drops cell columns; pooling is never implied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

from steelyard.errors import UsageError, counted
from steelyard.ground.arrays import Progress
from steelyard.ground.showing import Shows
from steelyard.metrics import metrics as registry
from steelyard.metrics.collector import Collector, side_of
from steelyard.metrics.definition import Definition, Metric, MetricLike, bound, metric_of, single
from steelyard.naming import parse, slice_text
from steelyard.records.labels import value_name
from steelyard.records.readers import Readable, Reading, records_in
from steelyard.records.table import Records, Source
from steelyard.study.asking import completed
from steelyard.study.cells import applies, joined, slices
from steelyard.study.columns import columns_read
from steelyard.study.defaults import default_stack
from steelyard.study.explaining import ExplainedRow, worst_rows
from steelyard.study.frames import estimates_table, main_lines
from steelyard.study.kept import KeptSlice, keep
from steelyard.study.label_names import without_texts
from steelyard.study.warnings import class_warnings, table_warnings
from steelyard.uncertainty.estimate import estimates
from steelyard.uncertainty.number import Estimate
from steelyard.uncertainty.settings import Method, Settings, Stream

if TYPE_CHECKING:
    import pyarrow as pa

    from steelyard.ground.showing import Json


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation(Shows):
    """All estimates of one table. `result["accuracy"]`, `result["accuracy{model=m1}"]` pick one.

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
    facts: Mapping[str, float] = field(default_factory=dict)  # of the whole table: wall time, energy
    kept: tuple[KeptSlice, ...] = ()  # the evidence of every slice, where it was asked for
    explained: tuple[ExplainedRow, ...] = ()  # the worst rows in words, where that was asked for

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


def evaluate(
    records: Records | Readable,
    metrics: Sequence[MetricLike] | MetricLike | None = None,
    *,
    by: Sequence[str] | str = (),
    pool: Sequence[str] | str = (),
    resamples: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
    method: Method = "auto",
    stream: Stream = "counter",
    settings: Settings | None = None,
    keep_evidence: bool = False,
    explain: int = 0,
    progress: Progress | None = None,
    **reading: Unpack[Reading],
) -> Evaluation:
    """Every metric with its interval, on every cell of the table and every slice asked for.

    `records` are Records, or anything that `read` takes, with its options: a path, a frame, a list of dictionaries.
    Without metrics, those that suit the columns are taken, as by the command. `settings` holds resamples, seed, level,
    method and stream in one. With `keep_evidence`, what is needed to compare the table later without its rows is in
    `kept`; with `explain`, so many of the worst rows of each metric of texts are in `explained`, in words of the data.

    >>> rows = [{"item": i, "target": "a", "prediction": said} for i, said in enumerate(["a", "a", "b", "a"])]
    >>> result = evaluate(rows, ["accuracy", "answer_rate"], resamples=0)
    >>> result["accuracy"].value, result["accuracy"].n
    (0.75, 4)
    """
    settings = settings or Settings(resamples=resamples, seed=seed, level=level, method=method, stream=stream)
    table = records_in(records, columns_read(listed(metrics or ()), listed(by)), reading)
    asked, filled_in = completed(listed(default_stack(table) if metrics is None else metrics), table)
    records = joined(table, asked)
    worst = worst_rows(records, expanded(asked, records), explain) if explain else []
    parts = list(slices(records, listed(by), listed(pool)))
    estimated: list[Estimate] = []
    kept: list[KeptSlice] = []
    for done, (slice_, table) in enumerate(parts):
        inside = None if progress is None else (lambda share, done=done: progress((done + share) / len(parts)))
        own = [m for m in expanded(asked, records) if applies(m, table, len(parts), slice_)]
        measured = estimates(side_of(table), own, settings, slice_, inside)
        estimated += [estimate for estimate, _ in measured]
        if keep_evidence:
            kept.append(keep(table, slice_, [sample for _, sample in measured]))
    return Evaluation(
        estimates=tuple(without_texts(estimated, records)),
        settings=settings,
        population={"rows": len(records), **records.counts()},
        cluster=records.cluster_columns,
        clusters=len(records.cluster[0]),
        sources=tuple(records.sources),
        warnings=(*records.warnings, *filled_in, *table_warnings(records, asked), *class_warnings(records, asked)),
        facts=facts_of(records),
        kept=tuple(kept),
        explained=tuple(worst),
    )


def facts_of(records: Records) -> Mapping[str, float]:
    """Facts of a whole table, such as its wall time; a part of a table has none."""
    return {} if records.is_part else dict(records.task.facts)


def values(metrics: Sequence[MetricLike], records: Records) -> dict[str, float]:
    """The values of several metrics, without intervals; what they share is collected once.

    >>> records = Records.from_columns({"item": [1, 2], "target": ["a", "b"], "prediction": ["a", "a"]})
    >>> values(["accuracy", "answer_rate"], records)
    {'accuracy': 0.5, 'answer_rate': 1.0}
    """
    asked = [single(metric_of(metric)) for metric in metrics]
    collectors = {False: Collector.whole(records)}
    if any(metric.definition.by_cluster for metric in asked):
        collectors[True] = Collector(records)
    by_name = {}
    for metric in asked:
        constants = metric.constants([records])
        collector = collectors[metric.definition.by_cluster]
        reading = collector.unit.read(collector.evidence(metric, constants))
        by_name[metric.name] = float(metric.finished(reading, constants)[0])
    return by_name


def value(metric: MetricLike, records: Records | None = None, /, **columns: Collection[object]) -> float:
    """The value of one metric, without interval: of records, or of columns given by name.

    >>> value("accuracy", target=["a", "b"], prediction=["a", "a"])
    0.5
    """
    if records is None:
        given = dict(columns)
        stated = given.get("task")
        task = stated if isinstance(stated, Mapping) else None
        if task is not None:
            del given["task"]
        size = len(next(iter(given.values())))
        records = Records.from_columns({"item": list(range(size)), **given}, task=task)
    asked = metric_of(metric)
    if asked.definition.perturbed_only:
        records = joined(records, [asked])
        records = records.take(~records.is_unperturbed())
    return values([asked], records)[asked.name]


def listed(asked: Any) -> list[Any]:
    """A single name or a sequence of them, as a list."""
    return [asked] if isinstance(asked, str | Definition | Metric) else list(asked)


def expanded(asked: Sequence[Metric], records: Records) -> list[Metric]:
    """The metrics with families replaced by their members, each once."""
    return list(dict.fromkeys(member for m in asked for member in m.expanded(records)))


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


def known_metrics() -> list[Definition]:
    """Every registered metric, plug-ins included."""
    from steelyard.registry import load_entry_points

    load_entry_points()
    return list(registry.values())
