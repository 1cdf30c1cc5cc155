"""evaluate(): records × metrics × uncertainty → Evaluation.

A table is evaluated cell by cell: rows with the same (model, strategy, task, perturbation). `by` adds slices of each
cell, `pool` drops cell columns; pooling is never implied.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Unpack

from steelyard.ground.arrays import Progress
from steelyard.metrics import metrics as registry
from steelyard.metrics.collector import Collector, side_of
from steelyard.metrics.definition import Definition, Metric, MetricLike, metric_of, single
from steelyard.naming import Expr
from steelyard.records.readers import Readable, records_in
from steelyard.records.reading import Reading
from steelyard.records.table import Records
from steelyard.study.asking import asked_for, completed
from steelyard.study.cells import applies, joined, slices
from steelyard.study.columns import columns_read
from steelyard.study.defaults import choose, listed_metrics
from steelyard.study.explaining import worst_rows
from steelyard.study.measure import MeasuredSlice, measured, origin_of
from steelyard.study.results import Evaluation
from steelyard.uncertainty.settings import Method, Settings, Stream


def evaluate(
    records: Records | Readable,
    metrics: Sequence[MetricLike | Expr] | MetricLike | None = None,
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
    Without metrics, those that suit the columns are taken; `chosen` says which, and why. `settings` holds resamples,
    seed, level, method and stream in one. With `keep_evidence`, what is needed to compare the table later without its
    rows is in `kept`; with `explain`, so many of the worst rows of each metric of texts are in `explained`, in words of
    the data.

    >>> rows = [{"item": i, "target": "a", "prediction": said} for i, said in enumerate(["a", "a", "b", "a"])]
    >>> result = evaluate(rows, ["accuracy", "answer_rate"], resamples=0)
    >>> result["accuracy"].value, result["accuracy"].n
    (0.75, 4)
    """
    settings = settings or Settings(resamples=resamples, seed=seed, level=level, method=method, stream=stream)
    named = None if metrics is None else asked_for(listed(metrics))
    table = records_in(records, columns_read(named or (), listed(by)), reading)
    chosen = choose(table) if named is None else ()
    asked, filled_in = completed(listed_metrics(chosen) if named is None else named, table)
    records = joined(table, asked)
    every = expanded(asked, records)
    parts = list(slices(records, listed(by), listed(pool)))
    return measured(
        [
            MeasuredSlice(
                slice=slice_,
                side=side_of(part),
                metrics=[m for m in every if applies(m, part, len(parts), slice_)],
                records=part,
            )
            for slice_, part in parts
        ],
        origin_of(records, asked),
        settings,
        remarks=filled_in,
        chosen=chosen,
        explained=worst_rows(records, every, explain) if explain else (),
        keep_evidence=keep_evidence,
        progress=progress,
    )


def values(metrics: Sequence[MetricLike], records: Records) -> dict[str, float]:
    """The values of several metrics, without intervals; what they share is collected once.

    >>> records = Records.from_columns({"item": [1, 2], "target": ["a", "b"], "prediction": ["a", "a"]})
    >>> values(["accuracy", "answer_rate"], records)
    {'accuracy': 0.5, 'answer_rate': 1.0}
    """
    asked = [single(metric_of(metric)) for metric in metrics]
    collectors = {False: Collector.whole(records)}
    if any(metric.by_cluster for metric in asked):
        collectors[True] = Collector(records)
    by_name = {}
    for metric in asked:
        constants = metric.constants([records])
        collector = collectors[metric.by_cluster]
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
    if asked.perturbed_only:
        records = joined(records, [asked])
        records = records.take(~records.is_unperturbed())
    return values([asked], records)[asked.name]


def listed(asked: Any) -> list[Any]:
    """A single name or a sequence of them, as a list."""
    return [asked] if isinstance(asked, str | Definition | Metric) else list(asked)


def expanded(asked: Sequence[Metric], records: Records) -> list[Metric]:
    """The metrics with families replaced by their members, each once."""
    return list(dict.fromkeys(member for m in asked for member in m.expanded(records)))


def known_metrics() -> list[Definition]:
    """Every registered metric, plug-ins included."""
    from steelyard.registry import load_entry_points

    load_entry_points()
    return list(registry.values())
