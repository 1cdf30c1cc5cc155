"""evaluate(): records × metrics × uncertainty → Evaluation.

A table is evaluated cell by cell: rows with the same (model, strategy, task, perturbation). `by` adds slices of each
cell, `pool` drops cell columns; pooling is never implied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steelyard.errors import InputError, UsageError, printable
from steelyard.metrics import metrics as registry
from steelyard.metrics.calibration import class_probability
from steelyard.metrics.definition import Definition, Metric, bound, metric_of, single
from steelyard.metrics.sources import Collector
from steelyard.naming import label_text, parse, slice_text
from steelyard.records.asked import uneven_items
from steelyard.records.derive import with_reference
from steelyard.records.labels import value_name
from steelyard.records.schema import CELL, kind_of
from steelyard.records.table import Records
from steelyard.uncertainty.estimate import Estimate, estimates
from steelyard.uncertainty.kept import Kept, keep
from steelyard.uncertainty.sampling import Progress
from steelyard.uncertainty.scarcity import FEW_CLUSTERS
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.weights import scheme
from steelyard.wire import head

Asked = str | Definition | Metric


@dataclass(frozen=True)
class Evaluation:
    """All estimates of one table. `result["accuracy"]`, `result["accuracy{model=m1}"]` pick one."""

    estimates: tuple[Estimate, ...]
    settings: Settings
    population: Mapping[str, int]
    cluster: tuple[str, ...]
    clusters: int
    sources: tuple[Any, ...]
    warnings: tuple[str, ...]
    kept: tuple[Kept, ...] = ()  # the evidence of every slice, where it was asked for

    def __getitem__(self, name: Asked) -> Estimate:
        return pick(self.estimates, name)

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the document that `evaluation.json` holds."""
        return {
            **head("evaluation"),
            "inputs": [source.to_dict() for source in self.sources],
            "population": dict(self.population),
            "uncertainty": {
                **self.settings.to_dict(),
                "weights": scheme(self.clusters, self.settings.stream),
                "cluster": list(self.cluster),
                "clusters": self.clusters,
            },
            "estimates": [e.to_dict() for e in self.estimates],
            "warnings": list(self.warnings),
        }


def evaluate(
    records: Records,
    metrics: Sequence[Asked] | Asked,
    *,
    by: Sequence[str] | str = (),
    pool: Sequence[str] | str = (),
    resamples: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
    method: str = "auto",
    stream: str = "counter",
    keep_evidence: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Every metric with its interval, on every cell of the table and every slice asked for.

    With `keep_evidence`, what is needed to compare it later without its rows stands in `kept`.
    """
    settings = Settings(resamples, seed, level, method, stream)
    asked = [metric_of(m) for m in listed(metrics)]
    records = joined(records, asked)
    parts = list(slices(records, listed(by), listed(pool)))
    found: list[Estimate] = []
    kept: list[Kept] = []
    for done, (slice_, table) in enumerate(parts):
        inside = None if progress is None else (lambda share, done=done: progress((done + share) / len(parts)))
        chosen = [m for m in expanded(asked, records) if applies(m, table, len(parts), slice_)]
        measured = estimates(table, chosen, settings, slice_, inside)
        found += [estimate for estimate, _ in measured]
        if keep_evidence:
            kept.append(keep(table, slice_, [sample for _, sample in measured]))
    return Evaluation(
        tuple(found),
        settings,
        {"rows": len(records), **records.counts()},
        records.cluster_columns,
        len(records.cluster[0]),
        records.sources,
        (*records.warnings, *_table_warnings(records), *class_warnings(records, asked)),
        tuple(kept),
    )


def values(metrics: Sequence[Asked], records: Records) -> dict[str, float]:
    """The values of several metrics, without intervals; what they share is collected once."""
    chosen_ = [single(metric_of(metric)) for metric in metrics]
    collectors = {False: Collector.whole(records)}
    if any(chosen.definition.by_cluster for chosen in chosen_):
        collectors[True] = Collector(records)
    found = {}
    for chosen in chosen_:
        constants = chosen.constants([records])
        collector = collectors[chosen.definition.by_cluster]
        reading = collector.unit.read(collector.evidence(chosen, constants))
        found[chosen.name] = float(chosen.finished(reading, constants)[0])
    return found


def value(metric: Asked, records: Records | None = None, /, **columns: Any) -> float:
    """The value of one metric, without interval: of records, or of columns given by name.

    >>> value("accuracy", target=["a", "b"], prediction=["a", "a"])
    0.5
    """
    if records is None:
        task = columns.pop("task", None) if isinstance(columns.get("task"), Mapping) else None
        size = len(next(iter(columns.values())))
        records = Records.from_columns({"item": list(range(size)), **columns}, task=task)
    chosen = metric_of(metric)
    if chosen.definition.perturbed_only:
        records = joined(records, [chosen])
        records = records.take(~records.is_unperturbed())
    return values([chosen], records)[chosen.name]


def listed(asked: Any) -> list[Any]:
    """A single name or a sequence of them, as a list."""
    return [asked] if isinstance(asked, str | Definition | Metric) else list(asked)


def expanded(asked: Sequence[Metric], records: Records) -> list[Metric]:
    """The metrics with families replaced by their members, each once."""
    return list(dict.fromkeys(member for m in asked for member in m.expanded(records)))


def joined(records: Records, asked: Sequence[Metric]) -> Records:
    """The records, with the unperturbed partner's columns where a metric reads them."""
    needing = [m for m in asked if m.definition.perturbed_only or any(c.startswith("reference.") for c in m.reads)]
    if not needing:
        return records
    if "perturbation" not in records:
        raise InputError(
            f"{needing[0]} compares altered questions with the originals and needs the column 'perturbation'",
            file=records.name,
        )
    return with_reference(records)


def slices(records: Records, by: Sequence[str], pool: Sequence[str]) -> Iterator[tuple[dict[str, Any], Records]]:
    """The cells of a table and their slices, each with its mapping."""
    cell_columns = cells(records, checked_pool(pool))
    for cell, table in records.split(cell_columns):
        yield cell, table
        for group in dict.fromkeys(by):
            columns = [c.strip() for c in group.split("*")]
            if all(c in cell_columns for c in columns):
                continue
            for name in columns:
                if name not in records and name != "outcome":
                    raise UsageError(records.lacks(name, "by"))
            for values, part in table.split(columns):
                yield {**cell, **values}, part


def checked_pool(pool: Sequence[str]) -> Sequence[str]:
    """The cell columns to pool over; anything else is an error."""
    for name in pool:
        if name not in CELL:
            raise UsageError(f"pool takes cell columns ({', '.join(CELL)}), not '{printable(name)}'")
    return pool


def cells(records: Records, pool: Sequence[str] = ()) -> list[str]:
    """The cell columns that tell cells of this table apart."""
    return [c for c in CELL if c in records and c not in pool and several(records, c)]


def one_cell(records: Records) -> Records:
    """The records, if they are one cell; else an error that says what tells the cells apart."""
    columns = cells(records)
    if columns:
        raise UsageError(f"the rows differ in {', '.join(columns)}; choose one with --mode or --where")
    return records


def several(records: Records, column: str) -> bool:
    """True if the column has more than one value (a null counts as one)."""
    labels = records.labels(column)
    return len(labels.values) + bool(labels.missing.any()) > 1


def applies(metric: Metric, table: Records, parts: int, slice_: Mapping[str, Any]) -> bool:
    """Metrics of altered questions have nothing to say of the originals, nor those over groups inside one group."""
    if metric.definition.perturbed_only and parts > 1 and table.is_unperturbed().all():
        return False
    return not set(metric.grouped_by) & set(slice_)


def pick(estimates_: Sequence[Any], asked: Asked) -> Any:
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
        found = [e for e in named if {k: value_name(v) for k, v in e.slice.items()} == wanted]
    else:
        found = [e for e in named if not e.slice] or named
    if len(found) == 1:
        return found[0]
    shown = ", ".join(f"{text}{slice_text({k: value_name(v) for k, v in e.slice.items()})}" for e in named[:12])
    raise UsageError(f"'{name}' matches {len(found)} estimates; choose one of: {shown}")


def unmet_labels(records: Records) -> list[str]:
    """A warning if labels are predicted that no target has: often a misspelt or unclean label."""
    if records.task.labels is not None or not {"target", "prediction"} <= set(records.stated):
        return []
    if any(kind_of(records.column(name)) != "text" for name in ("target", "prediction")):
        return []
    unmet = {*records.labels("prediction").values} - {*records.labels("target").values}
    if not unmet:
        return []
    return [f"{len(unmet)} predicted labels are never a target; check for misspelt or unclean labels"]


def _table_warnings(records: Records) -> list[str]:
    few = len(records.cluster[0])
    narrow = [f"only {few} clusters: intervals may be too narrow"] if 2 <= few < FEW_CLUSTERS else []
    return [*unmet_labels(records), *uneven_items(records), *narrow]


def class_warnings(records: Records, asked: Sequence[Metric]) -> list[str]:
    """A warning if metrics read a confidence as about the answer, and it evidently states one class's probability."""
    about = [m for m in asked if "positive" in m.values and m.values["positive"] is None]
    label = class_probability(records) if about else ""
    if not label:
        return []
    name = about[0].definition.name
    return [
        f"the confidence looks like the probability of {printable(label, limit=40)}: high where that is predicted, low "
        f"where it is not; {name} takes it for confidence in the answer. Ask for {name}(positive={label_text(label)})"
    ]


def known_metrics() -> list[Definition]:
    """Every registered metric, plug-ins included."""
    from steelyard.registry import load_entry_points

    load_entry_points()
    return list(registry.values())
