"""The estimates of a kept run that rules may read: as they were stored, or made again from its evidence or its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from steelyard.decide.gate import Gate
from steelyard.decide.wanted import has_evidence, kept_slices, named_metrics, slice_columns
from steelyard.errors import UsageError
from steelyard.metrics.definition import metric_of
from steelyard.naming import Rule
from steelyard.records.labels import value_name
from steelyard.records.schema import CELL
from steelyard.records.table import Records
from steelyard.runs.saved import SavedRun, pooled
from steelyard.study.comparison import kept_origin
from steelyard.study.evaluation import evaluate
from steelyard.study.kept import KeptSlice
from steelyard.study.kept_pairs import KeptSide
from steelyard.study.measure import MeasuredSlice, measured
from steelyard.uncertainty.number import Estimate
from steelyard.uncertainty.settings import Settings


def run_settings(run: SavedRun) -> Settings:
    """How the run's estimates were made."""
    return Settings() if run.evaluation is None else run.evaluation.settings


def run_estimates(
    gate: Gate, run: SavedRun, settings: Settings, *, again: bool, must: bool = False
) -> Sequence[Estimate]:
    """The estimates that rules may read: as they were stored, and what the evidence or the rows of the run give beyond.

    Those of which a rule reads an end have their interval at other levels. With `again`, all are estimated again
    with these settings, where evidence was kept; `must` refuses to judge what was not. What another edition estimated
    stays as it was stored.
    """
    asked = _asked_for(gate)
    stored = {(e.metric, _slice_key(e.slice)): e for e in run.evaluation or ()}
    for part in kept_slices(run):
        if _is_named(gate, part):
            stored |= {(e.metric, _slice_key(e.slice)): e for e in _of_part(part, asked, stored, settings, again=again)}
    known = {name for name, _ in stored}
    if must:
        fixed = [name for name in asked if name in known and not has_evidence(kept_slices(run), name)]
        if fixed:
            raise UsageError(
                f"run {run.name} kept no evidence of {fixed[0]}: it stands as it was estimated; leave level, resamples "
                "and seed out"
            )
    if again:
        stored = {key: _as_sure(e, settings.level) for key, e in stored.items()}
    if run.records is not None:
        stored |= _of_rows(gate, run, run.records, settings, stored)
    return tuple(stored.values())


def _as_sure(e: Estimate, level: float) -> Estimate:
    """The estimate, without an interval that is of a lower level than rules read."""
    if e.interval is None or e.level >= level:
        return e
    said = f"its interval is at {100 * e.level:g}% only, and no evidence was kept to make another"
    return replace(e, interval=None, notes=(*e.notes, said))


def _is_named(gate: Gate, part: KeptSlice) -> bool:
    """True if a rule may be about this slice: cells are, other slices where a rule names their columns."""
    beyond = {column for column in part.slice if column not in CELL}
    return not beyond or any(beyond == set(columns.split("*")) for columns in slice_columns(gate))


def _of_part(
    part: KeptSlice,
    asked: Mapping[str, bool],
    stored: Mapping[tuple[str, Any], Estimate],
    settings: Settings,
    *,
    again: bool,
) -> list[Estimate]:
    """The estimates of one slice that rules may read, with what its evidence says beyond what was stored."""
    side = KeptSide(part.in_order)
    metrics = {m.name: m for m in map(metric_of, asked) if side.has(m) and not set(m.grouped_by) & set(part.slice)}
    earlier = {name: stored.get((name, _slice_key(part.slice))) for name in metrics}
    pending = [n for n, e in earlier.items() if again or e is None or (asked[n] and e.interval is not None)]
    uncounted = [n for n, e in earlier.items() if n not in pending and e is not None and e.n_missing is None]
    fresh = {
        e.metric: e
        for names, how in ((pending, settings), (uncounted, replace(settings, resamples=0)))
        for e in measured(
            [MeasuredSlice(slice=part.slice, side=side, metrics=[metrics[n] for n in names])], kept_origin([part]), how
        )
    }
    estimates = []
    for name, before in earlier.items():
        now = fresh.get(name)
        estimate = now if again or before is None else before
        assert estimate is not None
        if now is not None and estimate is before:
            estimate = estimate if name in uncounted or before.interval is None else _with_rule(before, now)
            if before.n_missing is None:
                estimate = replace(estimate, n_missing=now.n_missing, n_predictions=now.n_predictions)
        estimates.append(estimate)
    return estimates


def _of_rows(
    gate: Gate, run: SavedRun, records: Records, settings: Settings, stored: Mapping[tuple[str, Any], Estimate]
) -> dict[tuple[str, Any], Estimate]:
    """What rules ask for and neither estimates nor evidence have, evaluated from the rows that were kept."""
    by = slice_columns(gate)
    there = {(name, frozenset(c for c, _ in key if c not in CELL)) for name, key in stored}
    wanted = {
        name
        for rule, name in named_metrics(gate)
        if not rule.delta and (name, frozenset(_own_columns(rule))) not in there
    }
    if not wanted:
        return {}
    pool = pooled([part.slice for part in run.kept], [records])
    evaluation = evaluate(records, sorted(wanted), by=by, pool=pool, settings=settings)
    return {(e.metric, _slice_key(e.slice)): e for e in evaluation if (e.metric, _slice_key(e.slice)) not in stored}


def _own_columns(rule: Rule) -> list[str]:
    """The columns, beyond cells, of the slices that a rule is about."""
    named = [rule.each] if rule.each and rule.each != "cell" else [column for column, _ in rule.metric.slice]
    return [column for column in named if column not in CELL]


def _asked_for(gate: Gate) -> dict[str, bool]:
    """The metrics whose values rules read, and whether an end of an interval is among them."""
    ends_read: dict[str, bool] = {}
    for rule, name in named_metrics(gate):
        if not rule.delta:
            ends_read[name] = ends_read.get(name, False) or rule.bound is not None
    return ends_read


def _with_rule(stored: Estimate, fresh: Estimate) -> Estimate:
    """The stored estimate with its interval at other levels, where it is made today as it was then."""
    assert stored.interval is not None
    same = fresh.interval is not None and fresh.method == stored.method and _close(fresh.interval, stored.interval)
    return replace(stored, rule=fresh.rule) if same else stored


def _slice_key(slice_: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((column, value_name(value)) for column, value in slice_.items())


def _close(one: tuple[float, float], two: tuple[float, float]) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(one, two, strict=True))
