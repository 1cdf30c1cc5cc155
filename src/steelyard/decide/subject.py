"""What a gate looks at: two runs that were kept, or two tables of answers that are evaluated for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from steelyard.decide.advice import unit_of
from steelyard.decide.gate import Gate
from steelyard.decide.known import Known
from steelyard.decide.numbers import Subject, metric_name
from steelyard.errors import StorageError, UsageError, printable
from steelyard.metrics.definition import Metric, bound, metric_of
from steelyard.metrics.evidence.combined import Groups
from steelyard.metrics.sources import met_labels
from steelyard.naming import Rule
from steelyard.records.derive import DERIVED
from steelyard.records.labels import null_name, value_name
from steelyard.records.schema import CELL, FIELDS
from steelyard.records.table import Records
from steelyard.runs.saved import EVALUATION, EVIDENCE, SEEN, Opened, compare_runs, pooled
from steelyard.study.comparison import Align, Comparison, checked_align, checked_unchanged, compare, kept_population
from steelyard.study.deltas import Unchanged
from steelyard.study.evaluation import evaluate
from steelyard.study.kept import Kept
from steelyard.study.kept_pairs import KeptSide
from steelyard.study.row_pairs import unpaired
from steelyard.uncertainty.estimate import estimates_of, missing_rows
from steelyard.uncertainty.number import Estimate
from steelyard.uncertainty.sampling import sample
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.wire import read_estimate


@dataclass(frozen=True, kw_only=True)
class Asked:
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


def of_runs(gate: Gate, run: Opened, baseline: Opened | None, asked: Asked | None = None) -> Subject:
    """A kept run, and its deltas against a kept baseline; every file is verified first."""
    asked = asked or Asked()
    run.verify()
    gate = gate.spelled([*run.run.metrics, *(baseline.run.metrics if baseline is not None else ())])
    settings = replace(_settings(run), **asked.stated)
    found = Subject(
        evaluation=_estimates(gate, run, settings, anew=bool(asked.stated)),
        metrics=run.run.metrics,
        complete=run.run.complete,
        resamples=settings.resamples,
        remarks=_remarks(run),
        known=_known_to_runs(gate, run, baseline),
        unit=_unit(run),
    )
    if baseline is None:
        return found
    baseline.verify()
    if not baseline.run.complete:
        raise StorageError(f"the baseline {baseline.name} is not complete; nothing can be gated against it")
    names = [name for name in _delta_metrics(gate) if name not in found.known.lacking]
    by = [columns for columns in _columns(gate) if run.records is not None and baseline.records is not None]
    comparison: Comparison | None = (
        compare_runs(
            baseline,
            run,
            names,
            resamples=settings.resamples,
            seed=settings.seed,
            level=settings.level,
            unchanged=asked.unchanged,
            by=by,
        )
        if names
        else None
    )
    rates = _failure_rate(baseline), _failure_rate(run)
    return replace(
        found,
        comparison=comparison,
        failure_rates=(rates[0], rates[1]) if rates[0] is not None and rates[1] is not None else None,
        baseline=True,
        baseline_metrics=baseline.run.metrics,
        absent=_absent(run, baseline),
        remarks=(*found.remarks, *_remarks(baseline)),
    )


def of_records(gate: Gate, new: Records, base: Records | None, asked: Asked | None = None) -> Subject:
    """A table of answers, evaluated for the rules, and compared with a baseline's on the same questions."""
    asked = asked or Asked()
    gate = gate.spelled(())
    _check_columns(gate, new)
    known = _known_to_tables(gate, new, base)
    for rule in gate.rules:
        if metric_name(rule) is not None:
            known.check(rule)
    by = _columns(gate)
    plain = [name for rule, name in _named(gate) if not rule.delta]
    found = evaluate(new, plain, by=by, pool=asked.pool, **asked.stated) if plain else None
    deltas = _delta_metrics(gate)
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
    return Subject(
        evaluation=() if found is None else tuple(found),
        comparison=comparison,
        failure_rates=rates,
        resamples=asked.resamples or Settings().resamples,
        baseline=base is not None,
        complete=not any(source.torn for table in (new, base) if table is not None for source in table.sources),
        known=known,
        unit=unit_of(new.cluster_columns),
        absent=0.0 if base is None else float(unpaired(base, new)[0].mean()),
    )


def _check_columns(gate: Gate, table: Records) -> None:
    """Refuse columns that rules name and the table does not have: they are misspelt, or of another table."""
    for rule, name in _named(gate):
        metric = metric_of(name)
        named = [metric.values.get(p.name) for p in metric.definition.params if p.kind == "column"]
        for column in dict.fromkeys((*metric.grouped_by, *named)):
            if isinstance(column, str) and column not in (*FIELDS, *DERIVED) and column not in table:
                raise UsageError(f"'{rule}': {table.lacks(column, metric.definition.name)}")


def _absent(run: Opened, baseline: Opened) -> float:
    """The share of the baseline's rows whose clusters the run was not asked; 0 where that is not known."""
    mine = {i for part in _kept(run) for i in part.ids}
    theirs = [part for part in _kept(baseline) if set(part.slice) <= set(CELL)]
    rows = sum(int(part.asked_rows.sum()) for part in theirs)
    if not mine or not rows:
        return 0.0
    lost = sum(int(n) for part in theirs for i, n in zip(part.ids, part.asked_rows, strict=True) if i not in mine)
    return lost / rows


def _named(gate: Gate) -> list[tuple[Rule, str]]:
    return [(rule, name) for rule in gate.rules if (name := metric_name(rule)) is not None]


def _delta_metrics(gate: Gate) -> list[str]:
    return list(dict.fromkeys(name for rule, name in _named(gate) if rule.delta))


def _columns(gate: Gate) -> list[str]:
    """The columns that rules slice by, beyond cells."""
    found: list[str] = []
    for rule in gate.rules:
        if rule.each and rule.each != "cell":
            found.append(rule.each)
        sliced = [column for column, _ in rule.metric.slice if column not in CELL]
        if sliced:
            found.append("*".join(sliced))
    return list(dict.fromkeys(found))


# -- what the runs know by name ----------------------------------------------------------------------------------------


def _known_to_tables(gate: Gate, new: Records, base: Records | None) -> Known:
    tables = [new] if base is None else [new, base]
    labels = {
        metric.definition.name: frozenset(
            value_name(member.label) for table in tables for member in replace(metric, label=None).expanded(table)
        )
        for metric in _of_classes(gate)
    }
    grouped = {column for _, name in _named(gate) for column in metric_of(name).grouped_by}
    columns = {c for rule in gate.rules for c in (*dict(rule.metric.slice), rule.each) if c and c != "cell"} | grouped
    classes = {
        value_name(label)
        for table in tables
        for column in ("target", "prediction")
        if column in table
        for label in table.labels(column).values
    }
    return Known(
        new.name or "",
        "" if base is None else base.name or "",
        labels,
        _values_of(new, columns),
        {} if base is None else _values_of(base, columns),
        classes=frozenset(classes | {value_name(label) for label in new.task.labels or ()}),
    )


def _values_of(table: Records, columns: set[str]) -> dict[str, frozenset[str]]:
    found = {}
    for column in columns:
        if column in table or column == "outcome":
            labels = table.labels(column)
            null = [null_name(labels)] if bool(labels.missing.any()) else []
            found[column] = frozenset([*map(value_name, labels.values), *null])
    return found


def _known_to_runs(gate: Gate, run: Opened, baseline: Opened | None) -> Known:
    runs = [run] if baseline is None else [run, baseline]
    kept = [_kept(each) for each in runs]
    labels: dict[str, frozenset[str]] = {}
    for metric in _of_classes(gate):
        members = [member for parts in kept for part in parts for member in _members(metric, part)]
        if members:
            labels[metric.definition.name] = frozenset(members)
    lacking = {
        name: [f"run {each.name}" for each, parts in zip(runs, kept, strict=True) if not _has(parts, name)]
        for name in _delta_metrics(gate)
        if any(each.records is None for each in runs)  # rows say what evidence does not
    }
    return Known(
        f"run {run.name}",
        "" if baseline is None else f"run {baseline.name}",
        labels,
        _slices_of(kept[0]),
        _slices_of(kept[1]) if len(kept) > 1 else {},
        kept=True,
        lacking={name: who for name, who in lacking.items() if who},
    )


def _of_classes(gate: Gate) -> list[Metric]:
    """The metrics of the rules that are about a class of the data: `precision.Critical`."""
    found = [bound(replace(rule.metric, slice=())) for rule, _ in _named(gate)]
    return [m for m in found if m.label is not None and callable(m.definition.members)]


def _members(metric: Metric, part: Kept) -> list[str]:
    """The classes that a run knows of, by what it kept of metrics about them; nothing where that cannot be told."""
    about = [
        (part.evidence[name], constants["labels"])
        for name, constants in part.constants.items()
        if "labels" in constants
    ]
    if not about:
        return []
    named = [label for evidence, labels in about for label in (labels or met_labels(evidence))]
    same = [m.label for m in map(metric_of, part.evidence) if m.definition is metric.definition]
    return [value_name(label) for label in (*named, *same) if label is not None]


def _has(parts: Sequence[Kept], name: str) -> bool:
    """Whether a run kept evidence that the metric can be read from, its own or that of its family."""
    metric = metric_of(name)
    return any(KeptSide(part).has(metric) for part in parts)


def _slices_of(parts: Sequence[Kept]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for part in parts:
        for column, value in part.slice.items():
            found.setdefault(column, set()).add(value_name(value))
        for name, evidence in part.evidence.items():
            if isinstance(evidence, Groups) and "by" in metric_of(name).values:
                found.setdefault(str(metric_of(name).values["by"]), set()).update(map(value_name, evidence.names))
    return {column: frozenset(values) for column, values in found.items()}


def _kept(run: Opened) -> list[Kept]:
    return run.kept if EVIDENCE in run.run.files else []


def _remarks(run: Opened) -> tuple[str, ...]:
    """What a run itself says of how far its numbers can be trusted."""
    seen = run.run.labels.get(SEEN)
    return (f"run {run.name}: its shift was learned from {printable(seen)} that it is judged on",) if seen else ()


def _unit(run: Opened) -> str:
    if EVALUATION not in run.run.files:
        return "cluster"
    return unit_of([str(column) for column in run.evaluation["uncertainty"].get("cluster", ())])


# -- the estimates of a kept run ---------------------------------------------------------------------------------------


def _settings(run: Opened) -> Settings:
    """How the run's estimates were made."""
    if EVALUATION not in run.run.files:
        return Settings()
    known = ("resamples", "seed", "level", "method", "stream")
    return Settings(**{k: v for k, v in run.evaluation["uncertainty"].items() if k in known})


def _estimates(gate: Gate, run: Opened, settings: Settings, *, anew: bool) -> Sequence[Estimate]:
    """The estimates that rules may read: as they were stored, and what the evidence or the rows of the run give beyond.

    Those of which a rule reads an end have their interval at other levels. With `anew`, all are estimated with these
    settings. What another edition estimated stays as it was stored.
    """
    asked = _asked_for(gate)
    stored = {(e.metric, _slice_key(e.slice)): e for e in _stored(run)}
    for part in _kept(run):
        if _is_named(gate, part):
            stored |= {(e.metric, _slice_key(e.slice)): e for e in _of_part(part, asked, stored, settings, anew=anew)}
    known = {name for name, _ in stored}
    if anew:
        fixed = [name for name in asked if name in known and not _has(_kept(run), name)]
        if fixed:
            raise UsageError(
                f"run {run.name} kept no evidence of {fixed[0]}: it stands as it was estimated; leave level, resamples "
                "and seed out"
            )
    if run.records is not None:
        stored |= _of_rows(gate, run, run.records, settings, stored)
    return tuple(stored.values())


def _is_named(gate: Gate, part: Kept) -> bool:
    """Whether a rule may be about this slice: cells are, other slices where a rule names their columns."""
    beyond = {column for column in part.slice if column not in CELL}
    return not beyond or any(beyond == set(columns.split("*")) for columns in _columns(gate))


def _of_part(
    part: Kept,
    asked: Mapping[str, bool],
    stored: Mapping[tuple[str, Any], Estimate],
    settings: Settings,
    *,
    anew: bool,
) -> list[Estimate]:
    """The estimates of one slice that rules may read, with what its evidence says beyond what was stored."""
    side = KeptSide(part.in_order)
    metrics = [m for m in map(metric_of, asked) if side.has(m) and not set(m.grouped_by) & set(part.slice)]
    samples = {m.name: sample(m, side, side.constants(m)) for m in metrics}
    held = {name: stored.get((name, _slice_key(part.slice))) for name in samples}
    again = [n for n, e in held.items() if anew or e is None or (asked[n] and e.interval is not None)]
    made = dict(zip(again, estimates_of([samples[n] for n in again], settings, part.slice), strict=True))
    found = []
    for name, read in samples.items():
        before, now = held[name], made.get(name)
        if before is None or anew:
            assert now is not None
            chosen = replace(now, n_abstained=part.counts["abstained"])
        else:
            chosen = before if now is None or before.interval is None else _with_rule(before, now)
        if chosen.n_missing is None:
            asked_rows = int(part.asked_rows.sum())
            chosen = replace(chosen, n_missing=missing_rows(read), n_predictions=asked_rows)
        found.append(chosen)
    return found


def _of_rows(
    gate: Gate, run: Opened, records: Records, settings: Settings, stored: Mapping[tuple[str, Any], Estimate]
) -> dict[tuple[str, Any], Estimate]:
    """What rules ask for and neither estimates nor evidence have, evaluated from the rows that were kept."""
    by = _columns(gate)
    there = {(name, frozenset(c for c, _ in key if c not in CELL)) for name, key in stored}
    wanted = {
        name for rule, name in _named(gate) if not rule.delta and (name, frozenset(_own_columns(rule))) not in there
    }
    if not wanted:
        return {}
    pool = pooled([part.slice for part in run.kept], [records])
    found = evaluate(records, sorted(wanted), by=by, pool=pool, **asdict(settings))
    return {(e.metric, _slice_key(e.slice)): e for e in found if (e.metric, _slice_key(e.slice)) not in stored}


def _own_columns(rule: Rule) -> list[str]:
    """The columns, beyond cells, of the slices that a rule is about."""
    named = [rule.each] if rule.each and rule.each != "cell" else [column for column, _ in rule.metric.slice]
    return [column for column in named if column not in CELL]


def _asked_for(gate: Gate) -> dict[str, bool]:
    """The metrics whose values rules read, and whether an end of an interval is among them."""
    found: dict[str, bool] = {}
    for rule, name in _named(gate):
        if not rule.delta:
            found[name] = found.get(name, False) or rule.bound is not None
    return found


def _stored(run: Opened) -> Sequence[Estimate]:
    if EVALUATION not in run.run.files:
        return ()
    found = []
    for e in run.evaluation["estimates"]:
        try:
            found.append(read_estimate(e))
        except (KeyError, TypeError, IndexError, ValueError):
            raise StorageError(f"run {run.name}: {EVALUATION}: an estimate is not as it must be") from None
    return tuple(found)


def _with_rule(stored: Estimate, made: Estimate) -> Estimate:
    """The stored estimate with its interval at other levels, where it is made today as it was then."""
    assert stored.interval is not None
    same = made.interval is not None and made.method == stored.method and _close(made.interval, stored.interval)
    return replace(stored, rule=made.rule) if same else stored


def _slice_key(slice_: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((column, value_name(value)) for column, value in slice_.items())


def _close(one: tuple[float, float], two: tuple[float, float]) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(one, two, strict=True))


def _failure_rate(run: Opened) -> float | None:
    if EVIDENCE not in run.run.files:
        return run.run.value("failure_rate")
    counts = kept_population(run.kept)
    return counts["failed"] / counts["rows"] if counts["rows"] else None


def _failed_share(records: Records) -> float:
    counts = records.counts()
    return counts["failed"] / max(len(records), 1)
