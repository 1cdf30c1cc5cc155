"""Which run is best by a metric, and may it replace the active one?

The direction is the metric's: lower latency is better. Ties go by workflow, then the newest first; runs without the
metric come last. The largest of many is optimistic: part of its lead is chance. Areas that reward declining are judged
up to the coverage that all runs reach.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from steelyard.errors import InputError, StorageError, UsageError, printable
from steelyard.metrics.definition import metric_of
from steelyard.naming import slice_text, split_slice
from steelyard.records.labels import value_name
from steelyard.runs.documented import meant_by
from steelyard.runs.index import RunEntry
from steelyard.runs.metric_keys import direction, expression, metric_of_expression, split_key, value_of
from steelyard.runs.saved import EVIDENCE, RECORDS, SavedRun, compare_runs
from steelyard.study.comparison import Comparison
from steelyard.study.kept import KeptSlice
from steelyard.study.kept_pairs import KeptSide
from steelyard.study.wire import flat_key
from steelyard.uncertainty.number import Delta, Number, barred_by
from steelyard.uncertainty.sampling import sample
from steelyard.uncertainty.scarcity import FEWEST_CLUSTERS
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.significance import holm
from steelyard.uncertainty.verdicts import verdict_of

PROMOTE, KEEP = "Promote", "KeepActive"
ALPHA = 0.05
MOST_PAIRS = 20  # runs up to which every pair is compared where no reference is named


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A run in order: its number, and its paired delta against a reference where the data match."""

    run: RunEntry
    number: Number
    cell: Mapping[str, str] = field(default_factory=dict)  # of a run with several models, strategies, …
    judged: float | None = None  # what it is sorted by where that is not the value: an area up to a common coverage
    delta: Number | None = None  # on what decides
    p_value: float | None = None
    p_adjusted: float | None = None
    verdict: str = ""
    note: str = ""

    @property
    def value(self) -> float | None:
        """The metric's value."""
        return self.number.value

    @property
    def place(self) -> tuple[str, str]:
        """What tells it from every other row."""
        return self.run.path, slice_text(self.cell)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The decision whether a candidate replaces the active run, why, and by how much it is ahead."""

    action: str
    candidate: RunEntry
    value: float
    active_run_id: str | None
    active_value: float | None
    lead: Number  # candidate − active
    eps: float
    reason: str


def ranked(runs: Sequence[RunEntry], key: str) -> list[Standing]:
    """The runs from best to worst; ties by workflow, then the newest first; those without the metric last.

    A run that has the metric for each of its cells only has one row per cell.
    """
    rows = _best_first(runs, key)
    judged, sign = any(row.judged is not None for row in rows), _sign(runs, key)
    known = sorted(rows, key=lambda row: (*_order(row, sign, judged=judged), row.run.workflow))
    paths = {row.run.path for row in known}
    rest = [run for run in _newest_first(runs) if run.path not in paths]
    return known + [Standing(run=run, number=Number(value=None)) for run in sorted(rest, key=lambda r: r.workflow)]


def _order(row: Standing, sign: float, *, judged: bool) -> tuple[bool, float]:
    """The key to sort by: runs that could not be judged come after those that were."""
    return judged and row.judged is None, sign * _sorted_by(row)


def _sorted_by(row: Standing) -> float:
    return float(row.value or 0.0) if row.judged is None else row.judged


def candidates(runs: Sequence[RunEntry], key: str) -> list[Standing]:
    """Complete runs with the metric, the best first and of equal ones the newest: the order of promotion."""
    return [row for row in _best_first([run for run in runs if run.complete], key) if not row.cell]


def _best_first(runs: Sequence[RunEntry], key: str) -> list[Standing]:
    newest = _newest_first(runs)
    shared = up_to_common_coverage(newest, key)
    rows: list[Standing] = []
    for run in newest:
        value = value_of(run, key)
        if value is not None:
            rows.append(Standing(run=run, number=Number(value=value), judged=shared.get(run.path)))
        else:
            rows += [Standing(run=run, number=Number(value=v), cell=cell) for cell, v in _cells_of(run, key)]
    sign = _sign(runs, key)
    return sorted(rows, key=lambda row: _order(row, sign, judged=bool(shared)))


def _cells_of(run: RunEntry, key: str) -> Iterator[tuple[dict[str, str], float]]:
    """The metric in each cell of a run."""
    for text, value in run.metrics.items():
        name, cell = split_key(text)
        if cell and name == key:
            yield cell, value


def _row_key(row: Standing, key: str) -> str:
    return flat_key(key, row.cell)


def _newest_first(runs: Sequence[RunEntry]) -> list[RunEntry]:
    return sorted(runs, key=lambda r: r.latest, reverse=True)


def _sign(runs: Sequence[RunEntry], key: str) -> float:
    return -1.0 if direction(key, runs) == "higher" else 1.0


def up_to_common_coverage(runs: Sequence[RunEntry], key: str) -> dict[str, float]:
    """Areas up to the coverage that all runs with evidence reach, by path; nothing where the metric does not reward
    declining, or where all answer alike. A run without evidence cannot be judged and has none."""
    expr = expression(key)
    metric = None if expr is None else metric_of_expression(expr)
    if expr is None or metric is None or not metric.definition.common_coverage:
        return {}
    with_value = [run for run in runs if value_of(run, key) is not None]
    kept = {run.path: _slice_of(run, dict(expr.slice)) for run in with_value}
    sides = {path: KeptSide(part) for path, part in kept.items() if part is not None}
    if not sides:
        return {}
    rates = [side.kept.answer_rate for side in sides.values()]
    common = min(rates)
    if not common > 0 or max(rates) - common < 1e-12:
        return {}
    options = {k: v for k, v in metric.values.items() if k not in ("ties", "c")}
    limit = min(common, float(metric.values.get("c", 1.0)))
    area = metric_of(metric.definition.common_coverage).definition(**options, c=limit)
    return {path: sample(area, side, side.constants(area)).value for path, side in sides.items() if side.has(area)}


def _slice_of(run: RunEntry, slice_: dict[str, str]) -> KeptSlice | None:
    """The kept evidence of a slice, None where the run kept none."""
    if not run.sealed:
        return None
    try:
        parts = SavedRun.at(run.folder).kept
    except StorageError:
        return None
    return next((k for k in parts if {c: value_name(v) for c, v in k.slice.items()} == slice_), None)


def compared(
    rows: Sequence[Standing], key: str, against: RunEntry | None, *, settings: Settings | None = None
) -> list[Standing]:
    """The rows with intervals, and paired deltas against a run; without one, against the best, Holm over all pairs."""
    return compared_by({key: rows}, against, settings=settings)[key]


def compared_by(
    rows: Mapping[str, Sequence[Standing]], against: RunEntry | None, *, settings: Settings | None = None
) -> dict[str, list[Standing]]:
    """The same by several metrics: p-values are adjusted over every pair and metric together."""
    paired = {key: _pairs(own, key, against, settings) for key, own in rows.items()}
    adjusted = _adjusted([p for pairs in paired.values() for p in pairs.p_values])
    return {
        key: [_with_delta(row, pairs.deltas.get(row.run.path), _row_key(row, key), adjusted) for row in pairs.rows]
        for key, pairs in paired.items()
    }


@dataclass(frozen=True)
class _Pairs:
    """Rows by one metric with their intervals, each run's comparison with the reference, and all p-values."""

    rows: list[Standing]
    deltas: Mapping[str, Comparison | str] = field(default_factory=dict)
    p_values: Sequence[float] = ()


def _pairs(rows: Sequence[Standing], key: str, against: RunEntry | None, settings: Settings | None) -> _Pairs:
    with_intervals = [_with_interval(row, _row_key(row, key)) for row in rows]
    able = [row for row in with_intervals if row.value is not None and row.run.sealed]
    if against is None and len({row.run.path for row in able}) > MOST_PAIRS:
        note = f"more than {MOST_PAIRS} runs: name one to compare with for paired deltas"
        return _Pairs([replace(row, note=note) if place == 0 else row for place, row in enumerate(with_intervals)])
    reference = against or reference_of(with_intervals)
    if reference is None:
        return _Pairs(with_intervals)
    base = SavedRun.at(reference.folder)
    others = {row.run.path: row.run for row in able if row.run.path != reference.path}
    deltas = {path: _paired(base, run, key, settings) for path, run in others.items()}
    keys = {row.place: _row_key(row, key) for row in able if row.run.path in deltas}
    family = [p for p, _ in (_p(deltas[path], own) for (path, _), own in keys.items()) if p is not None]
    if against is None:
        family += _other_pairs(list(others.values()), list(dict.fromkeys(keys.values())), settings)
    return _Pairs(with_intervals, deltas, family)


def reference_of(rows: Sequence[Standing]) -> RunEntry | None:
    """The run that others are compared with where none is named: the best that kept its evidence."""
    return next((row.run for row in rows if row.value is not None and row.run.sealed), None)


def decide(
    runs: Sequence[RunEntry],
    key: str,
    active: RunEntry | None,
    *,
    eps: float,
    point: bool = False,
    settings: Settings | None = None,
) -> Choice:
    """The choice to promote the best run, if it beats the active one by more than eps and by more than chance, or not.

    Chance is considered where both runs kept evidence of the metric; `point` decides by eps alone.
    """
    if not eps >= 0:
        raise UsageError("eps is a number of at least 0")
    order = candidates(runs, key)
    if not order:
        raise InputError(f"no complete run has a value of {printable(key)}")
    best, value = order[0].run, _sorted_by(order[0])
    common = ", by the areas up to the common cmax" if order[0].judged is not None else ""
    choice = Choice(
        action=PROMOTE,
        candidate=best,
        value=value,
        active_run_id=None,
        active_value=None,
        lead=Number(value=0.0),
        eps=eps,
        reason="nothing is active yet",
    )
    if active is None:
        return choice
    active_value = next((_sorted_by(row) for row in order if row.run.path == active.path), value_of(active, key))
    if active_value is None:
        return replace(choice, active_run_id=active.run_id, reason="the active run has no such value")
    kept = replace(choice, action=KEEP, active_run_id=active.run_id, active_value=active_value)
    if best.path == active.path:
        return replace(kept, reason="the best run is active already")
    delta = value - active_value
    kept = replace(kept, lead=Number(value=delta), reason=f"not better by more than eps{common}")
    higher = direction(key, runs) == "higher"
    if not (delta if higher else -delta) > eps:
        return kept
    action, reason, interval = _against_chance(active, best, key, higher=higher, point=point, settings=settings)
    lead = Number(value=delta, interval=interval)
    return replace(kept, action=action, reason=f"better by more than eps{common}{reason}", lead=lead)


def _against_chance(
    active: RunEntry, best: RunEntry, key: str, *, higher: bool, point: bool, settings: Settings | None
) -> tuple[str, str, tuple[float, float] | None]:
    """What follows for a run that is better by more than eps: the action, why, and the interval of the difference."""
    missing = [run for run in (active, best) if not _has_evidence(run, key)]
    if missing and not all(_has_rows(run, key) for run in (active, best)):
        none = "neither run" if len(missing) > 1 else f"run {printable(missing[0].run_id)}"
        kept = "kept evidence" if len(missing) > 1 else "kept no evidence"
        return PROMOTE, f"; decided by eps alone: {none} {kept} of it, so chance is not considered", None
    comparison = _paired(SavedRun.at(active.folder), best, key, settings)
    barred = _barred(comparison, key)
    if barred:
        return KEEP, f", but {barred}", None
    if point:
        return PROMOTE, "; decided by eps alone, as asked: chance is not considered", None
    if isinstance(comparison, str):
        return KEEP, f", but the runs cannot be paired: {comparison}", None
    sure = _is_better(comparison, key, higher=higher)
    reason = ", and by more than chance" if sure else ", but it may be chance"
    return PROMOTE if sure else KEEP, reason, _interval(comparison, key)


def _has_evidence(run: RunEntry, key: str) -> bool:
    """True if the run kept what a paired difference of this metric needs."""
    if not run.sealed:
        return False
    opened = SavedRun.at(run.folder)
    expr = expression(key)
    metric = None if expr is None else metric_of_expression(expr)
    return metric is not None and EVIDENCE in opened.run.files and any(KeptSide(k).has(metric) for k in opened.kept)


def _has_rows(run: RunEntry, key: str) -> bool:
    """True if the run kept its rows, from which any metric can be paired."""
    expr = expression(key)
    known = expr is not None and metric_of_expression(expr) is not None
    return known and run.sealed and RECORDS in SavedRun.at(run.folder).run.files


def _with_interval(row: Standing, key: str) -> Standing:
    if not row.run.sealed or row.value is None:
        return row
    ends = SavedRun.at(row.run.folder).run.intervals.get(key)
    return row if ends is None else replace(row, number=replace(row.number, interval=ends))


def _paired(base: SavedRun, run: RunEntry, key: str, settings: Settings | None) -> Comparison | str:
    """The comparison, or why there is none."""
    expr = expression(key)
    metric = None if expr is None else metric_of_expression(expr)
    if metric is None:
        return "no paired delta: this key is no metric that evidence is kept of"
    try:
        return compare_runs(base, SavedRun.at(run.folder), [metric], settings=settings)
    except (InputError, StorageError, UsageError) as problem:
        return str(problem)


def _barred(comparison: Comparison | str, key: str) -> str:
    """Why the two values cannot stand for a difference, where that is so: values or clusters that one run lacks."""
    if isinstance(comparison, str):
        return ""
    try:
        return barred_by(_delta_of(comparison, key).cautions)
    except UsageError:
        return ""


def _is_better(comparison: Comparison | str, key: str, *, higher: bool) -> bool:
    """True if the candidate is better beyond chance; a metric without a direction by the one it is sorted in."""
    if isinstance(comparison, str):
        return False
    try:
        d = _delta_of(comparison, key)
    except UsageError:
        return False
    decisive = d.decisive
    if d.verdict == "differs" and decisive is not None and decisive.delta is not None:
        return (decisive.delta > 0) == higher
    return d.verdict == "better"


def _p(comparison: Comparison | str, key: str) -> tuple[float | None, str]:
    if isinstance(comparison, str):
        return None, comparison
    try:
        return _deciding(comparison, key)[1], ""
    except UsageError as problem:
        return None, str(problem)


def _interval(comparison: Comparison | str, key: str) -> tuple[float, float] | None:
    if isinstance(comparison, str):
        return None
    try:
        number, _ = _deciding(comparison, key)
        return None if number.clusters < FEWEST_CLUSTERS else number.interval
    except UsageError:
        return None


def _other_pairs(runs: Sequence[RunEntry], keys: Sequence[str], settings: Settings | None) -> list[float]:
    p_values = []
    for i, one in enumerate(runs):
        base = SavedRun.at(one.folder)
        for two in runs[i + 1 :]:
            comparison = _paired(base, two, keys[0], settings)
            p_values += [p for p, _ in (_p(comparison, key) for key in keys) if p is not None]
    return p_values


def _adjusted(family: Sequence[float]) -> dict[float, float]:
    return dict(zip(family, holm(list(family)), strict=True))


def _with_delta(row: Standing, comparison: Comparison | str | None, key: str, adjusted: dict[float, float]) -> Standing:
    if comparison is None:
        return row
    p, problem = _p(comparison, key)
    if isinstance(comparison, str) or problem:
        return replace(row, note=problem or str(comparison))
    number, _ = _deciding(comparison, key)
    p_adjusted = None if p is None else adjusted.get(p)
    delta = _delta_of(comparison, key)
    verdict = verdict_of(delta, math.nan if p_adjusted is None else p_adjusted, 1 - ALPHA)
    return replace(
        row,
        delta=number,
        p_value=p,
        p_adjusted=p_adjusted,
        verdict=verdict,
        note=delta.note,
    )


def _delta_of(comparison: Comparison, key: str) -> Delta:
    """The delta of a key; cells pair on the columns that do not tell the runs apart."""
    name, cell = split_slice(meant_by(key))
    columns = {column for d in comparison for column in d.slice}
    return comparison[name + slice_text({c: v for c, v in cell.items() if c in columns})]


def _deciding(comparison: Comparison, key: str) -> tuple[Number, float | None]:
    """What is shown of a delta: of this metric, on what decides; and the p-value that the verdict rests on."""
    d = _delta_of(comparison, key)
    readable, decisive = d.readable, d.decisive
    if readable is None or decisive is None or "unequal missing" in d.cautions:
        return Number(value=d.delta), None
    return Number(value=readable.delta, interval=readable.interval, clusters=decisive.clusters), decisive.p_value
