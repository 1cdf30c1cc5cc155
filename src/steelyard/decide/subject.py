"""What a gate looks at: two runs that were kept, or two tables of answers that are evaluated for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from steelyard.decide.advice import unit_of
from steelyard.decide.estimates import run_estimates, run_settings
from steelyard.decide.gate import Gate
from steelyard.decide.known import KnownNames
from steelyard.decide.numbers import Subject, metric_name
from steelyard.decide.wanted import delta_metrics, has_evidence, kept_slices, named_metrics, slice_columns
from steelyard.errors import StorageError, UsageError, printable
from steelyard.metrics.categories import COMBINED
from steelyard.metrics.definition import Metric, bound, known_metric, metric_of
from steelyard.metrics.evidence.combined import Groups
from steelyard.metrics.sources import met_labels
from steelyard.records.cautions import each_once
from steelyard.records.derive import DERIVED
from steelyard.records.labels import null_name, value_name
from steelyard.records.reading import reading_text
from steelyard.records.schema import CELL, FIELDS
from steelyard.records.table import Records
from steelyard.runs.saved import COMBINED_NAME, EVIDENCE, SEEN, SavedRun, compare_runs
from steelyard.study.comparison import NOT_TOLD, Align, checked_align, checked_unchanged, compare, kept_population
from steelyard.study.deltas import Unchanged
from steelyard.study.evaluation import evaluate
from steelyard.study.kept import KeptSlice
from steelyard.study.results import Comparison
from steelyard.study.row_pairs import unpaired
from steelyard.study.warnings import assumed_positive
from steelyard.uncertainty.settings import Settings


@dataclass(frozen=True, kw_only=True)
class NumberOptions:
    """How the numbers of a gate are made; what is None is as the run was evaluated, or as by default."""

    resamples: int | None = None
    seed: int | None = None
    level: float | None = None
    align: Align = "strict"
    pool: tuple[str, ...] = ()
    versus: tuple[str, ...] = ()
    unchanged: Unchanged = "say"

    def __post_init__(self) -> None:
        checked_unchanged(self.unchanged)
        checked_align(self.align)

    @property
    def stated(self) -> dict[str, Any]:
        """The settings that were asked for."""
        named = {"resamples": self.resamples, "seed": self.seed, "level": self.level}
        return {name: value for name, value in named.items() if value is not None}

    def settled(self, kept: Settings) -> Settings:
        """How the numbers of a kept run are made: no less sure than by default, whatever it was evaluated with."""
        usual = Settings()
        return replace(kept, **{"level": max(kept.level, usual.level), "method": usual.method, **self.stated})


def of_runs(gate: Gate, run: SavedRun, baseline: SavedRun | None, asked: NumberOptions | None = None) -> Subject:
    """A kept run, and its deltas against a kept baseline; every file is verified first."""
    asked = asked or NumberOptions()
    run.verify()
    gate = gate.spelled([*run.run.metrics, *(baseline.run.metrics if baseline is not None else ())])
    own = run_settings(run)
    settings = asked.settled(own)
    subject = Subject(
        evaluation=run_estimates(gate, run, settings, again=settings != own, must=bool(asked.stated)),
        metrics=run.run.metrics,
        complete=run.run.complete,
        resamples=settings.resamples,
        remarks=(*_remarks(run), *_told(run)),
        cautions=() if run.evaluation is None else run.evaluation.cautions,
        known=_known_to_runs(gate, run, baseline),
        unit=_unit(run),
    )
    if baseline is None:
        return subject
    baseline.verify()
    if not baseline.run.complete:
        raise StorageError(f"the baseline {baseline.name} is not complete; nothing can be gated against it")
    names = [name for name in delta_metrics(gate) if name not in subject.known.lacking]
    how: dict[str, Any] = {"settings": settings, "unchanged": asked.unchanged, "by": slice_columns(gate)}
    comparison: Comparison | None = compare_runs(baseline, run, names, **how) if names else None
    rates = _failure_rate(baseline), _failure_rate(run)
    return replace(
        subject,
        comparison=comparison,
        failure_rates=(rates[0], rates[1]) if rates[0] is not None and rates[1] is not None else None,
        baseline=True,
        baseline_metrics=baseline.run.metrics,
        absent=_absent(run, baseline),
        remarks=tuple(dict.fromkeys((*subject.remarks, *_remarks(baseline), *_told(baseline), *_between(comparison)))),
        cautions=each_once((*subject.cautions, *(comparison.cautions if comparison is not None else ()))),
    )


def called(gate: Gate, run: SavedRun) -> Gate:
    """The gate with the combined score of a benchmark under its metric's name, where the run calls it otherwise."""
    name = run.run.labels.get(COMBINED_NAME)
    return gate if name is None else gate.called({name: COMBINED})


def against_kept(gate: Gate, new: Records, baseline: SavedRun, asked: NumberOptions | None = None) -> Subject:
    """A table of answers, evaluated for the rules, and compared with a kept run on the same questions."""
    asked = asked or NumberOptions()
    baseline.verify()
    if not baseline.run.complete:
        raise StorageError(f"the baseline {baseline.name} is not complete; nothing can be gated against it")
    subject = of_records(gate, new, None, asked, alone=False)
    deltas = delta_metrics(gate.spelled(()))
    settings = asked.settled(run_settings(baseline))
    how: dict[str, Any] = {"settings": settings, "unchanged": asked.unchanged, "align": asked.align}
    comparison = compare_runs(baseline, new, deltas, by=slice_columns(gate), **how) if deltas else None
    failed = _failure_rate(baseline)
    known = replace(subject.known, baseline=f"run {baseline.name}", baseline_values=_slices_of(kept_slices(baseline)))
    found = replace(
        subject,
        comparison=comparison,
        baseline=True,
        baseline_metrics=baseline.run.metrics,
        known=known,
        failure_rates=None if failed is None else (failed, _failed_share(new)),
        remarks=tuple(dict.fromkeys((*subject.remarks, *_remarks(baseline), *_told(baseline)))),
    )
    return found if comparison is None else found.told((), comparison.cautions, comparison.warnings)


def of_records(
    gate: Gate, new: Records, base: Records | None, asked: NumberOptions | None = None, *, alone: bool = True
) -> Subject:
    """A table of answers, evaluated for the rules, and compared with a baseline's on the same questions.

    `alone` is false where it is compared with something else, so that rules about deltas are not for this.
    """
    asked = asked or NumberOptions()
    gate = gate.spelled(())
    _check_columns(gate, new)
    known = _known_to_tables(gate, new, base)
    for rule in gate.rules:
        if metric_name(rule) is not None and (alone or not rule.delta):
            known.check(rule)
    by = slice_columns(gate)
    plain = [name for rule, name in named_metrics(gate) if not rule.delta]
    evaluation = evaluate(new, plain, by=by, pool=asked.pool, **asked.stated) if plain else None
    deltas = delta_metrics(gate)
    comparison = None
    if base is not None and deltas:
        comparison = compare(
            base,
            new,
            deltas,
            by=by,
            pool=asked.pool,
            versus=asked.versus,
            align=asked.align,
            unchanged=asked.unchanged,
            **asked.stated,
        )
    rates = None if base is None else (_failed_share(base), _failed_share(new))
    subject = Subject(
        evaluation=() if evaluation is None else tuple(evaluation),
        comparison=comparison,
        failure_rates=rates,
        resamples=asked.resamples or Settings().resamples,
        baseline=base is not None,
        known=known,
        unit=unit_of(new.cluster_columns),
        absent=0.0 if base is None else float(unpaired(base, new)[0].mean()),
        remarks=_about_tables(gate, new, base, comparison),
    )
    both = [result for result in (evaluation, comparison) if result is not None]
    return subject.told(
        (*new.sources, *(() if base is None else base.sources)),
        [caution for result in both for caution in result.cautions],
        [warning for result in both for warning in result.warnings],
    )


def _about_tables(gate: Gate, new: Records, base: Records | None, comparison: Comparison | None) -> tuple[str, ...]:
    """What must be said of answers besides their numbers: a class that nobody named, rows that have no partner."""
    read = [
        f"{side}: {reading_text(table.reading, len(table))}"
        for side, table in (("run", new), ("baseline", base))
        if table is not None and table.reading
    ]
    assumed = assumed_positive(new, [metric_of(name) for _, name in named_metrics(gate)])
    alone = comparison.without_partner if comparison is not None else ""
    return (*read, *assumed, *([f"left out, without partner: {alone}"] if alone else []))


def _check_columns(gate: Gate, table: Records) -> None:
    """Refuse columns that rules name and the table does not have: they are misspelt, or of another table."""
    for rule, name in named_metrics(gate):
        metric = metric_of(name)
        named = [metric.values.get(p.name) for p in metric.definition.params if p.kind == "column"]
        for column in dict.fromkeys((*metric.grouped_by, *named)):
            if isinstance(column, str) and column not in (*FIELDS, *DERIVED) and column not in table:
                raise UsageError(f"'{rule}': {table.lacks(column, metric.definition.name)}")


def _absent(run: SavedRun, baseline: SavedRun) -> float:
    """The share of the baseline's rows whose clusters the run was not asked; 0 where that is not known."""
    mine = {i for part in kept_slices(run) for i in part.ids}
    theirs = [part for part in kept_slices(baseline) if set(part.slice) <= set(CELL)]
    rows = sum(int(part.asked_rows.sum()) for part in theirs)
    if not mine or not rows:
        return 0.0
    lost = sum(int(n) for part in theirs for i, n in zip(part.ids, part.asked_rows, strict=True) if i not in mine)
    return lost / rows


# -- what the runs know by name ----------------------------------------------------------------------------------------


def _known_to_tables(gate: Gate, new: Records, base: Records | None) -> KnownNames:
    tables = [new] if base is None else [new, base]
    labels = {
        metric.definition.name: frozenset(
            value_name(member.label) for table in tables for member in replace(metric, label=None).expanded(table)
        )
        for metric in _of_classes(gate)
    }
    grouped = {column for _, name in named_metrics(gate) for column in metric_of(name).grouped_by}
    columns = {c for rule in gate.rules for c in (*dict(rule.metric.slice), rule.each) if c and c != "cell"} | grouped
    classes = {
        value_name(label)
        for table in tables
        for column in ("target", "prediction")
        if column in table
        for label in table.labels(column).values
    }
    return KnownNames(
        run=new.name or "",
        baseline="" if base is None else base.name or "",
        labels=labels,
        values=_values_of(new, columns),
        baseline_values={} if base is None else _values_of(base, columns),
        classes=frozenset(classes | {value_name(label) for label in new.task.labels or ()}),
    )


def _values_of(table: Records, columns: set[str]) -> dict[str, frozenset[str]]:
    values = {}
    for column in columns:
        if column in table or column == "outcome":
            labels = table.labels(column)
            null = [null_name(labels)] if bool(labels.missing.any()) else []
            values[column] = frozenset([*map(value_name, labels.values), *null])
    return values


def _known_to_runs(gate: Gate, run: SavedRun, baseline: SavedRun | None) -> KnownNames:
    runs = [run] if baseline is None else [run, baseline]
    kept = [kept_slices(each) for each in runs]
    labels: dict[str, frozenset[str]] = {}
    for metric in _of_classes(gate):
        members = [member for parts in kept for part in parts for member in _members(metric, part)]
        if members:
            labels[metric.definition.name] = frozenset(members)
    lacking = {
        name: [f"run {each.name}" for each, parts in zip(runs, kept, strict=True) if not has_evidence(parts, name)]
        for name in delta_metrics(gate)
        if any(each.records is None for each in runs)  # rows say what evidence does not
    }
    return KnownNames(
        run=f"run {run.name}",
        baseline="" if baseline is None else f"run {baseline.name}",
        labels=labels,
        values=_slices_of(kept[0]),
        baseline_values=_slices_of(kept[1]) if len(kept) > 1 else {},
        kept=True,
        lacking={name: who for name, who in lacking.items() if who},
    )


def _of_classes(gate: Gate) -> list[Metric]:
    """The metrics of the rules that are about a class of the data: `precision.Critical`."""
    metrics = [bound(replace(rule.metric, slice=())) for rule, _ in named_metrics(gate)]
    return [m for m in metrics if m.label is not None and callable(m.definition.members)]


def _members(metric: Metric, part: KeptSlice) -> list[str]:
    """The classes that a run knows of, by what it kept of metrics about them; nothing where that cannot be told."""
    kept = map(known_metric, part.evidence)
    same = [m.label for m in kept if m is not None and m.definition is metric.definition]
    if metric.over_tasks:  # its members are categories, not classes
        return [value_name(label) for label in same if label is not None]
    about = [
        (part.evidence[name], constants["labels"])
        for name, constants in part.constants.items()
        if "labels" in constants
    ]
    if not about:
        return []
    named = [label for evidence, labels in about for label in (labels or met_labels(evidence))]
    return [value_name(label) for label in (*named, *same) if label is not None]


def _slices_of(parts: Sequence[KeptSlice]) -> dict[str, frozenset[str]]:
    names: dict[str, set[str]] = {}
    for part in parts:
        for column, value in part.slice.items():
            names.setdefault(column, set()).add(value_name(value))
        for name, evidence in part.evidence.items():
            metric = known_metric(name) if isinstance(evidence, Groups) else None
            if isinstance(evidence, Groups) and metric is not None and "by" in metric.values:
                names.setdefault(str(metric.values["by"]), set()).update(map(value_name, evidence.names))
    return {column: frozenset(values) for column, values in names.items()}


def _remarks(run: SavedRun) -> tuple[str, ...]:
    """What a run itself says of how far its numbers can be trusted."""
    seen = run.run.labels.get(SEEN)
    return (f"run {run.name}: its shift was learned from {printable(seen)} that it is judged on",) if seen else ()


def _told(run: SavedRun) -> tuple[str, ...]:
    """What was said of a run's rows when it was evaluated, and how they were chosen and read."""
    told = run.evaluation
    if told is None:
        return ()
    read = [f"run {run.name}: {reading_text(told.reading, told.population['rows'])}"] if told.reading else []
    unknown = [] if told.is_told else [f"run {run.name}: {NOT_TOLD}"]
    return (*read, *unknown, *told.warnings)


def _between(comparison: Comparison | None) -> tuple[str, ...]:
    """What was said of two runs together."""
    return () if comparison is None else tuple(c.text for c in comparison.cautions if c.kind == "conditions")


def _unit(run: SavedRun) -> str:
    return "cluster" if run.evaluation is None else unit_of(run.evaluation.cluster)


def _failure_rate(run: SavedRun) -> float | None:
    if EVIDENCE not in run.run.files:
        return run.run.value("failure_rate")
    counts = kept_population(run.kept)
    return counts["failed"] / counts["rows"] if counts["rows"] else None


def _failed_share(records: Records) -> float:
    counts = records.counts()
    return counts["failed"] / max(len(records), 1)
