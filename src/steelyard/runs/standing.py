"""Which run is best by a metric, and may it replace the active one?

The direction is the metric's: lower latency is better. Ties go by workflow, then the newest first; runs without the
metric come last. The largest of many is optimistic: part of its lead is chance. Areas that reward declining are judged
up to the coverage that all runs reach.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from steelyard.errors import StorageError
from steelyard.metrics.definition import metric_of
from steelyard.naming import slice_text
from steelyard.records.labels import value_name
from steelyard.runs.index import RunEntry
from steelyard.runs.metric_keys import direction, expression, metric_of_expression, split_key, value_of
from steelyard.runs.pairing import delta_of, p_value, paired, shown_delta
from steelyard.runs.saved import SavedRun
from steelyard.study.kept import KeptSlice
from steelyard.study.kept_pairs import KeptSide
from steelyard.study.results import Comparison
from steelyard.study.wire import flat_key
from steelyard.uncertainty.number import Number
from steelyard.uncertainty.sampling import sample
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.significance import holm
from steelyard.uncertainty.verdicts import verdict_of

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
    warnings: tuple[str, ...] = ()  # what was said of both runs' rows

    @property
    def value(self) -> float | None:
        """The metric's value."""
        return self.number.value

    @property
    def place(self) -> tuple[str, str]:
        """What tells it from every other row."""
        return self.run.path, slice_text(self.cell)


def ranked(runs: Sequence[RunEntry], key: str, better: str | None = None) -> list[Standing]:
    """The runs from best to worst; ties by workflow, then the newest first; those without the metric last.

    A run that has the metric for each of its cells only has one row per cell. `better` is the direction of a metric
    that has none of its own.
    """
    rows = _best_first(runs, key, better)
    judged, sign = any(row.judged is not None for row in rows), _sign(runs, key, better)
    known = sorted(rows, key=lambda row: (*_order(row, sign, judged=judged), row.run.workflow))
    paths = {row.run.path for row in known}
    rest = [run for run in _newest_first(runs) if run.path not in paths]
    return known + [Standing(run=run, number=Number(value=None)) for run in sorted(rest, key=lambda r: r.workflow)]


def _order(row: Standing, sign: float, *, judged: bool) -> tuple[bool, float]:
    """The key to sort by: runs that could not be judged come after those that were."""
    return judged and row.judged is None, sign * sorted_by(row)


def sorted_by(row: Standing) -> float:
    return float(row.value or 0.0) if row.judged is None else row.judged


def candidates(runs: Sequence[RunEntry], key: str, better: str | None = None) -> list[Standing]:
    """Complete runs with the metric, the best first and of equal ones the newest: the order of promotion."""
    return [row for row in _best_first([run for run in runs if run.complete], key, better) if not row.cell]


def _best_first(runs: Sequence[RunEntry], key: str, better: str | None) -> list[Standing]:
    newest = _newest_first(runs)
    shared = up_to_common_coverage(newest, key)
    rows: list[Standing] = []
    for run in newest:
        value = value_of(run, key)
        if value is not None:
            rows.append(Standing(run=run, number=Number(value=value), judged=shared.get(run.path)))
        else:
            rows += [Standing(run=run, number=Number(value=v), cell=cell) for cell, v in _cells_of(run, key)]
    sign = _sign(runs, key, better)
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


def _sign(runs: Sequence[RunEntry], key: str, better: str | None) -> float:
    return -1.0 if direction(key, runs, better) == "higher" else 1.0


def up_to_common_coverage(runs: Sequence[RunEntry], key: str) -> dict[str, float]:
    """Areas up to the coverage that all runs with evidence reach, by path; nothing where the metric does not reward
    declining, or where all answer alike. A run without evidence cannot be judged and has none."""
    expr = expression(key)
    metric = None if expr is None else metric_of_expression(expr)
    if expr is None or metric is None or not metric.common_coverage:
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
    area = metric_of(metric.common_coverage).definition(**options, c=limit)
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
    deltas = {path: paired(base, run, key, settings) for path, run in others.items()}
    keys = {row.place: _row_key(row, key) for row in able if row.run.path in deltas}
    family = [p for p, _ in (p_value(deltas[path], own) for (path, _), own in keys.items()) if p is not None]
    if against is None:
        family += _other_pairs(list(others.values()), list(dict.fromkeys(keys.values())), settings)
    return _Pairs(with_intervals, deltas, family)


def reference_of(rows: Sequence[Standing]) -> RunEntry | None:
    """The run that others are compared with where none is named: the best that kept its evidence."""
    return next((row.run for row in rows if row.value is not None and row.run.sealed), None)


def _with_interval(row: Standing, key: str) -> Standing:
    if not row.run.sealed or row.value is None:
        return row
    ends = SavedRun.at(row.run.folder).run.intervals.get(key)
    return row if ends is None else replace(row, number=replace(row.number, interval=ends))


def _other_pairs(runs: Sequence[RunEntry], keys: Sequence[str], settings: Settings | None) -> list[float]:
    p_values = []
    for i, one in enumerate(runs):
        base = SavedRun.at(one.folder)
        for two in runs[i + 1 :]:
            comparison = paired(base, two, keys[0], settings)
            p_values += [p for p, _ in (p_value(comparison, key) for key in keys) if p is not None]
    return p_values


def _adjusted(family: Sequence[float]) -> dict[float, float]:
    return dict(zip(family, holm(list(family)), strict=True))


def _with_delta(row: Standing, comparison: Comparison | str | None, key: str, adjusted: dict[float, float]) -> Standing:
    if comparison is None:
        return row
    p, problem = p_value(comparison, key)
    if isinstance(comparison, str) or problem:
        return replace(row, note=problem or str(comparison))
    number, _ = shown_delta(comparison, key)
    p_adjusted = None if p is None else adjusted.get(p)
    delta = delta_of(comparison, key)
    verdict = verdict_of(delta, math.nan if p_adjusted is None else p_adjusted, 1 - ALPHA)
    return replace(
        row,
        delta=number,
        p_value=p,
        p_adjusted=p_adjusted,
        verdict=verdict,
        note=delta.note,
        warnings=comparison.warnings,
    )
