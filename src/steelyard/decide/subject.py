"""What a gate looks at: two runs that were kept, or two tables of answers that are evaluated for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from steelyard.comparison import Comparison, compare, kept_population
from steelyard.decide.gate import Gate, Subject
from steelyard.errors import StorageError, printable
from steelyard.evaluation import evaluate
from steelyard.metrics.definition import metric_of
from steelyard.records.labels import value_name
from steelyard.records.schema import CELL
from steelyard.records.table import Records
from steelyard.runs.artifact import read_estimate
from steelyard.runs.keeping import EVALUATION, EVIDENCE, SEEN, Opened, compare_runs
from steelyard.uncertainty.estimate import Estimate, estimates_of
from steelyard.uncertainty.kept import KeptSide
from steelyard.uncertainty.sampling import sample
from steelyard.uncertainty.settings import Settings


def of_runs(gate: Gate, run: Opened, baseline: Opened | None, *, unchanged: str = "say") -> Subject:
    """A kept run, and its deltas against a kept baseline; every file is verified first."""
    run.verify()
    found = Subject(
        evaluation=_with_rules(gate, run, _estimates(run)),
        metrics=run.run.metrics,
        exact_keys=run.run.sealed,
        complete=run.run.complete,
        resamples=_resamples(run),
        remarks=_remarks(run),
    )
    if baseline is None:
        return found
    baseline.verify()
    if not baseline.run.complete:
        raise StorageError(f"the baseline {baseline.name} is not complete; nothing can be gated against it")
    names = [name for name in _delta_metrics(gate) if _kept(run, name) and _kept(baseline, name)]
    comparison: Comparison | None = compare_runs(baseline, run, names, unchanged=unchanged) if names else None
    rates = _failure_rate(baseline), _failure_rate(run)
    return Subject(
        found.evaluation,
        comparison,
        found.metrics,
        found.exact_keys,
        found.complete,
        (rates[0], rates[1]) if rates[0] is not None and rates[1] is not None else None,
        found.resamples,
        baseline=True,
        remarks=(*found.remarks, *_remarks(baseline)),
    )


def of_records(
    gate: Gate,
    new: Records,
    base: Records | None,
    *,
    resamples: int,
    seed: int,
    align: str,
    unchanged: str = "say",
) -> Subject:
    """A table of answers, evaluated for the rules, and compared with a baseline's on the same questions."""
    by = _columns(gate)
    plain = [name for rule, name in _named(gate) if not rule.delta]
    found = evaluate(new, plain, by=by, resamples=resamples, seed=seed) if plain else None
    deltas = _delta_metrics(gate)
    comparison = None
    if base is not None and deltas:
        comparison = compare(base, new, deltas, by=by, resamples=resamples, seed=seed, align=align, unchanged=unchanged)
    rates = None if base is None else (_failed_share(base), _failed_share(new))
    estimates = () if found is None else tuple(found)
    return Subject(estimates, comparison, failure_rates=rates, resamples=resamples, baseline=base is not None)


def _named(gate: Gate) -> list[tuple[Any, str]]:
    return [(rule, name) for rule in gate.rules for name in Gate((rule,)).metrics]


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


def _remarks(run: Opened) -> tuple[str, ...]:
    """What a run itself says of how far its numbers can be trusted."""
    seen = run.run.labels.get(SEEN)
    return (f"run {run.name}: its shift was learned from {printable(seen)} that it is judged on",) if seen else ()


def _estimates(run: Opened) -> Sequence[Estimate]:
    if EVALUATION not in run.run.files:
        return ()
    found = []
    for e in run.evaluation["estimates"]:
        try:
            found.append(read_estimate(e))
        except (KeyError, TypeError, IndexError, ValueError):
            raise StorageError(f"run {run.name}: {EVALUATION}: an estimate is not as it must be") from None
    return tuple(found)


def _with_rules(gate: Gate, run: Opened, estimates: Sequence[Estimate]) -> Sequence[Estimate]:
    """The estimates, those that a rule reads an end of with their interval at other levels, made anew from evidence.

    What another edition estimated stays as it was stored.
    """
    read = {name for rule, name in _named(gate) if rule.bound and not rule.delta}
    if EVIDENCE not in run.run.files or not read:
        return estimates
    stated = {k: v for k, v in run.evaluation["uncertainty"].items() if k in ("resamples", "seed", "level", "method")}
    settings = Settings(**stated, stream=run.evaluation["uncertainty"]["stream"])
    sides = {_slice_key(kept.slice): KeptSide(kept.in_order) for kept in run.kept}
    found = []
    for e in estimates:
        side = sides.get(_slice_key(e.slice)) if e.metric in read else None
        if side is not None and e.interval is not None and e.metric in side.kept.evidence:
            metric = metric_of(e.metric)
            (anew,) = estimates_of([sample(metric, side, side.constants(metric))], settings, e.slice)
            if anew.interval is not None and anew.method == e.method and _close(anew.interval, e.interval):
                e = replace(e, rule=anew.rule)
        found.append(e)
    return found


def _slice_key(slice_: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((column, value_name(value)) for column, value in slice_.items())


def _close(one: tuple[float, float], two: tuple[float, float]) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(one, two, strict=True))


def _resamples(run: Opened) -> int:
    return int(run.evaluation["uncertainty"]["resamples"]) if EVALUATION in run.run.files else 10_000


def _kept(run: Opened, name: str) -> bool:
    return EVIDENCE in run.run.files and any(name in kept.evidence for kept in run.kept)


def _failure_rate(run: Opened) -> float | None:
    if EVIDENCE not in run.run.files:
        return run.run.value("failure_rate")
    counts = kept_population(run.kept)
    return counts["failed"] / counts["rows"] if counts["rows"] else None


def _failed_share(records: Records) -> float:
    counts = records.counts()
    return counts["failed"] / max(len(records), 1)
