"""Which run is best by a metric, and may it replace the active one?

The direction is the metric's: lower latency is better. Ties go by workflow, then the newest first; runs without the
metric come last. The largest of many is optimistic: part of its lead is chance. Areas that reward declining are judged
up to the coverage that all runs reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from steelyard.errors import StorageError
from steelyard.metrics.definition import metric_of
from steelyard.naming import slice_text
from steelyard.records.labels import value_name
from steelyard.runs.index import RunEntry
from steelyard.runs.metric_keys import direction, expression, metric_of_expression, split_key, value_of
from steelyard.runs.pairing import found_delta, known_p, paired, shown_delta
from steelyard.runs.saved import SavedRun
from steelyard.study.kept import KeptSlice
from steelyard.study.kept_pairs import KeptSide
from steelyard.study.primary import family_text
from steelyard.study.results import Comparison
from steelyard.study.wire import flat_key
from steelyard.uncertainty.number import Delta, Number, Role
from steelyard.uncertainty.sampling import sample
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.verdicts import judged

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
    return compared_by({key: rows}, against, settings=settings)[0][key]


def compared_by(
    rows: Mapping[str, Sequence[Standing]],
    against: RunEntry | None,
    *,
    primary: Sequence[str] = (),
    settings: Settings | None = None,
) -> tuple[dict[str, list[Standing]], str]:
    """The same by several metrics, and what of them decides: the first, or those that `primary` names.

    p-values are adjusted over every pair by what decides, and over every pair by the others.
    """
    deciding = primary or list(rows)[:1]
    pairs = {key: _pairs(own, key, against, settings) for key, own in rows.items()}
    every: dict[_Place, Delta] = {}
    for key, own in pairs.items():
        role: Role = "primary" if key in deciding else "exploratory"
        every |= {(key, *place): replace(delta, role=role) for place, delta in own.deltas.items()}
    verdicts = dict(zip(every, judged(list(every.values()), settings or Settings()), strict=True))
    standings = {
        key: [_with_delta(row, own, verdicts.get((key, "", *row.place))) for row in own.rows]
        for key, own in pairs.items()
    }
    return standings, family_text(list(verdicts.values()))


_Place = tuple[str, ...]  # of a delta: the run it is against where that is not the reference, the run, its cell


@dataclass(frozen=True)
class _Pairs:
    """Rows by one metric with their intervals, each run's comparison with the reference, and every pair's delta."""

    rows: list[Standing]
    comparisons: Mapping[str, Comparison | str] = field(default_factory=dict)
    deltas: Mapping[_Place, Delta] = field(default_factory=dict)
    problems: Mapping[_Place, str] = field(default_factory=dict)


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
    comparisons = {path: paired(base, run, key, settings) for path, run in others.items()}
    deltas: dict[_Place, Delta] = {}
    problems: dict[_Place, str] = {}
    for row in able:
        if row.run.path in comparisons:
            found = found_delta(comparisons[row.run.path], _row_key(row, key))
            if isinstance(found, str):
                problems[row.place] = found
            else:
                deltas["", *row.place] = found
    if against is None:
        keys = dict.fromkeys(_row_key(row, key) for row in able if row.run.path in comparisons)
        deltas |= _other_pairs(list(others.values()), list(keys), settings)
    return _Pairs(with_intervals, comparisons, deltas, problems)


def reference_of(rows: Sequence[Standing]) -> RunEntry | None:
    """The run that others are compared with where none is named: the best that kept its evidence."""
    return next((row.run for row in rows if row.value is not None and row.run.sealed), None)


def _with_interval(row: Standing, key: str) -> Standing:
    if not row.run.sealed or row.value is None:
        return row
    ends = SavedRun.at(row.run.folder).run.intervals.get(key)
    return row if ends is None else replace(row, number=replace(row.number, interval=ends))


def _other_pairs(runs: Sequence[RunEntry], keys: Sequence[str], settings: Settings | None) -> dict[_Place, Delta]:
    """The deltas of pairs without the reference, which p-values allow for."""
    deltas: dict[_Place, Delta] = {}
    for i, one in enumerate(runs):
        base = SavedRun.at(one.folder)
        for two in runs[i + 1 :]:
            comparison = paired(base, two, keys[0], settings)
            for key in keys:
                found = found_delta(comparison, key)
                if not isinstance(found, str):
                    deltas[one.path, two.path, key] = found
    return deltas


def _with_delta(row: Standing, pairs: _Pairs, delta: Delta | None) -> Standing:
    comparison = pairs.comparisons.get(row.run.path)
    if delta is None or comparison is None or isinstance(comparison, str):
        return replace(row, note=pairs.problems.get(row.place, row.note))
    return replace(
        row,
        delta=shown_delta(delta),
        p_value=known_p(delta),
        p_adjusted=delta.p_adjusted,
        verdict=delta.verdict,
        note=delta.note,
        warnings=comparison.warnings,
    )
