"""compare(): two runs on the same questions → paired deltas, p-values and verdicts.

delta = new − base, never sign-flipped. Rows pair on (task, item, repeat, perturbation); cells pair on their columns
minus those that tell the runs apart. A row that failed on either side leaves both and is counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError, UsageError, printable
from steelyard.evaluation import Asked, applies, checked_pool, expanded, joined, listed, pick, unmet_labels
from steelyard.metrics.definition import Metric, metric_of
from steelyard.naming import slice_text
from steelyard.pairing import Pair, Unmatched, paired_slices
from steelyard.records.labels import value_name
from steelyard.records.schema import CELL, OUTCOMES
from steelyard.records.table import Records
from steelyard.uncertainty import intervals
from steelyard.uncertainty.estimate import (
    FEW_CLUSTERS,
    TOLERATED_UNDEFINED,
    Progress,
    Reads,
    Sample,
    Settings,
    resample,
    sample,
)
from steelyard.uncertainty.intervals import Interval
from steelyard.uncertainty.jackknife import leave_one_out
from steelyard.uncertainty.kept import Kept, KeptPair
from steelyard.uncertainty.tests import FEWEST_CLUSTERS, holm, sign_flip_p

Floats = npt.NDArray[np.float64]

FEW_DIFFERENT = 5
UNEQUAL_RATES = 0.01


@dataclass(frozen=True)
class Delta:
    """A paired difference: new − base on the same rows, with what stands beside it in `companions`."""

    metric: str
    slice: Mapping[str, Any]
    base: float | None
    new: float | None
    delta: float | None
    se: float | None
    interval: Interval | None
    p_value: float | None
    p_adjusted: float | None
    better: str | None
    verdict: str
    verdict_from: str  # delta, the name of the companion that decides, or nothing
    n: int  # pairs of rows
    n_base: int  # rows that count on each side
    n_new: int
    clusters: int
    method: str
    undefined_resamples: int
    note: str
    companions: Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """All paired deltas of two runs. `result["aurc"]` picks one."""

    deltas: tuple[Delta, ...]
    settings: Settings
    population: Mapping[str, Any]
    cluster: tuple[str, ...]
    sources: Mapping[str, tuple[Any, ...]]
    unmatched: Mapping[str, Any]
    warnings: tuple[str, ...]

    def __getitem__(self, name: Asked) -> Delta:
        return pick(self.deltas, name)

    def __iter__(self) -> Iterator[Delta]:
        return iter(self.deltas)

    def __len__(self) -> int:
        return len(self.deltas)


def compare(
    base: Records,
    new: Records,
    metrics: Sequence[Asked] | Asked,
    *,
    align: str = "strict",
    by: Sequence[str] | str = (),
    pool: Sequence[str] | str = (),
    versus: Sequence[str] = (),
    resamples: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
    method: str = "auto",
    stream: str = "counter",
    progress: Progress | None = None,
) -> Comparison:
    """Paired deltas of every metric, cell by cell. `versus` names columns that tell the two runs apart."""
    if align not in ("strict", "intersection"):
        raise UsageError("align is strict or intersection")
    settings = Settings(resamples, seed, level, method, stream)
    asked = [metric_of(m) for m in listed(metrics)]
    for metric in asked:
        if metric.definition.no_delta:
            raise UsageError(f"{metric} cannot be compared: {metric.definition.no_delta}")
    base, new = joined(base, asked), joined(new, asked)
    unmatched = Unmatched()
    pooled = checked_pool(listed(pool))
    parts = list(paired_slices(base, new, by=listed(by), pool=pooled, versus=versus, align=align, unmatched=unmatched))
    deltas: list[Delta] = []
    for done, (slice_, pair) in enumerate(parts):
        both = dict.fromkeys(m for table in pair.tables for m in expanded(asked, table))
        samples = _Samples(settings)
        chosen = [m for m in both if applies(m, pair.base, len(parts))]
        for inner in dict.fromkeys(_rows_for(m, pair) for m in chosen):
            samples.take(inner, [m for m in chosen if _rows_for(m, pair) is inner])
        deltas += [_delta(pair, m, samples, slice_) for m in chosen]
        if progress is not None:
            progress((done + 1) / len(parts))
    cells = [pair for slice_, pair in parts if set(slice_) <= set(CELL)]
    return Comparison(
        tuple(judged(deltas, settings)),
        settings,
        {"base": _population(base), "new": _population(new), "paired": sum(map(len, cells))},
        base.cluster_columns,
        {"base": base.sources, "new": new.sources},
        asdict(unmatched),
        tuple(dict.fromkeys((*base.warnings, *new.warnings, *unmet_labels(base), *unmet_labels(new)))),
    )


def compare_kept(
    base: Sequence[Kept],
    new: Sequence[Kept],
    metrics: Sequence[Asked],
    *,
    resamples: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
) -> Comparison:
    """Paired deltas of two runs from the evidence they kept.

    Slices pair on their columns, without model and strategy where each run has one value of them. A cell that only one
    run has is an error; another slice is left out. What needs single rows is left without a verdict.
    """
    settings = Settings(resamples, seed, level)
    asked = [metric_of(m) for m in listed(metrics)]
    dropped = [c for c in ("model", "strategy") if all(_values(kept, c) <= 1 for kept in (base, new))]
    mine, theirs = (_by_slice(kept, dropped) for kept in (base, new))
    lonely = [key for key in (*mine, *theirs) if (key in mine) != (key in theirs) and {c for c, _ in key} <= set(CELL)]
    if lonely:
        shown = ", ".join(slice_text(dict(key)) or "the whole table" for key in lonely[:5])
        raise InputError(f"{len(lonely)} cells were evaluated in one run only: {printable(shown)}")
    deltas: list[Delta] = []
    for key, part in mine.items():
        if key not in theirs:
            continue
        pair = KeptPair(part, theirs[key])
        samples = _Samples(settings)
        slice_ = {k: v for k, v in part.slice.items() if k not in dropped}
        deltas += [_kept_delta(pair, m, samples, slice_) for m in asked if not m.definition.no_delta]
    return Comparison(
        tuple(judged(deltas, settings)),
        settings,
        {side: kept_population(kept) for side, kept in (("base", base), ("new", new))},
        (),
        {"base": (), "new": ()},
        {"cells": [], "base_rows": 0, "new_rows": 0},
        (),
    )


def _values(kept: Sequence[Kept], column: str) -> int:
    return len({value_name(k.slice[column]) for k in kept if column in k.slice})


def _by_slice(kept: Sequence[Kept], dropped: Sequence[str]) -> dict[tuple[tuple[str, str], ...], Kept]:
    found: dict[tuple[tuple[str, str], ...], Kept] = {}
    for part in kept:
        key = tuple(sorted((c, value_name(v)) for c, v in part.slice.items() if c not in dropped))
        if key in found:
            raise InputError(f"one run holds several parts for {slice_text(dict(key)) or 'the whole table'}")
        found[key] = part
    return found


def kept_population(kept: Sequence[Kept]) -> dict[str, int]:
    """The rows of a run by outcome, each counted once: cells do not overlap, other slices do."""
    cells = [k for k in kept if set(k.slice) <= set(CELL)]
    counts = {outcome: sum(k.counts[outcome] for k in cells) for outcome in OUTCOMES}
    return {"rows": sum(counts.values()), **counts, "clusters": len({i for k in cells for i in k.ids})}


def _kept_delta(pair: KeptPair, metric: Metric, samples: _Samples, slice_: Mapping[str, Any]) -> Delta:
    whole_pair, whole = pair, len(pair.base.ids)
    pair = pair if metric.population == "all" else pair.without_failed
    found = _measured(pair, metric, samples, slice_)
    lost = whole - len(pair.base.ids)
    failed = [k.counts["failed"] / max(sum(k.counts.values()), 1) for k in (whole_pair.base, whole_pair.new)]
    if lost:
        found = _beside(found, failure_rate={"base": failed[0], "new": failed[1]})
        note = f"{lost} clusters in which other rows failed left both; with their records only those rows would"
        found = _beside(found, note)
    rates = [pair.base.answer_rate, pair.new.answer_rate]
    if metric.population == "answered":
        found = _beside(found, answer_rate={"base": rates[0], "new": rates[1]})
        if not pair.same_answered and abs(rates[0] - rates[1]) > UNEQUAL_RATES:
            note = "answer rates differ: a verdict needs the rows answered by both; save runs with --save-records"
            found = replace(_beside(found, note), verdict_from="nothing")
    if metric.definition.common_coverage is not None and len(pair):
        found = _with_common_coverage(found, pair, metric, samples, rates)
    return found


# -- one delta -----------------------------------------------------------------------------------------------------


class _Samples:
    """Both sides of every metric, sampled once. What is taken together shares what it reads of each resample."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._found: dict[tuple[Pair | KeptPair, Metric], tuple[Sample, Sample]] = {}

    def take(self, pair: Pair | KeptPair, metrics: Sequence[Metric]) -> None:
        """Sample these metrics on a pair."""
        fresh: list[Sample] = []
        for metric in metrics:
            collectors: Sequence[Reads] = pair.collectors
            sides = zip(collectors, pair.constants(metric), strict=True)
            base, new = (sample(metric, collector, constants) for collector, constants in sides)
            self._found[pair, metric] = base, new
            if not math.isnan(new.value - base.value):
                fresh += [base, new]
        if self.settings.resamples and not self.settings.by_family:
            resample(fresh, len(pair.collectors[0].ids), self.settings)

    def of(self, pair: Pair | KeptPair, metric: Metric) -> tuple[Sample, Sample]:
        if (pair, metric) not in self._found:
            self.take(pair, [metric])
        return self._found[pair, metric]


def _rows_for(metric: Metric, pair: Pair) -> Pair:
    """The rows that a metric is compared on: a failed row leaves both sides, unless failures are what is counted."""
    return pair if metric.population == "all" else pair.without_failed


def _delta(pair: Pair, metric: Metric, samples: _Samples, slice_: Mapping[str, Any]) -> Delta:
    inner = _rows_for(metric, pair)
    found = _measured(inner, metric, samples, slice_)
    lost = len(pair) - len(inner)
    if lost:
        rates = {"base": float(pair.failed[0].mean()), "new": float(pair.failed[1].mean())}
        found = _beside(found, f"{lost} rows failed on either side and left both", failure_rate=rates)
        if metric.population == "asked":
            strict = _measured(pair.failed_as_wrong, metric, samples, slice_)
            found = _beside(found, failed_as_wrong=_short(strict))
    if metric.population == "answered":
        found = _with_rates(found, inner, metric, samples)
    if metric.definition.common_coverage is not None and len(inner):
        found = _with_common_coverage(found, inner, metric, samples, [float(a.mean()) for a in inner.answered])
    return found


def _with_rates(found: Delta, pair: Pair, metric: Metric, samples: _Samples) -> Delta:
    """Answered-only metrics: both answer rates, and the delta on rows answered by both."""
    rates = [float(a.mean()) if len(a) else math.nan for a in pair.answered]
    found = _beside(found, answer_rate={"base": rates[0], "new": rates[1]})
    if (pair.answered[0] == pair.answered[1]).all():
        return found
    if not len(pair.answered_by_both):
        return replace(_beside(found, "no row was answered by both: no verdict"), verdict_from="nothing")
    found = _beside(found, answered_by_both=_short(_measured(pair.answered_by_both, metric, samples, found.slice)))
    if abs(rates[0] - rates[1]) <= UNEQUAL_RATES:
        return found
    note = "answer rates differ: the verdict is from rows answered by both"
    return replace(_beside(found, note), verdict_from="answered_by_both")


def _with_common_coverage(
    found: Delta, pair: Pair | KeptPair, metric: Metric, samples: _Samples, rates: Sequence[float]
) -> Delta:
    """Areas of runs with unequal cmax: the verdict uses the area up to the common cmax, where there is such a form."""
    found = _beside(found, cmax={"base": rates[0], "new": rates[1]})
    common = min(rates)
    if rates[0] == rates[1] or common == 0 or metric.values.get("c", 1.0) <= common:
        return found
    if not metric.definition.common_coverage or metric.values.get("ties", "plateau") != "plateau":
        note = f"cmax differs: {metric} rewards declining, so there is no verdict; see aurc"
        return replace(_beside(found, note), verdict_from="nothing")
    options = {k: v for k, v in metric.values.items() if k not in ("ties", "c")}  # the areas up to c know no ties
    area = metric_of(metric.definition.common_coverage).definition(**options, c=common)
    short = {"c": common, **_short(_measured(pair, area, samples, found.slice))}
    note = "cmax differs: the verdict is from the area up to the common cmax"
    return replace(_beside(found, note, common_cmax=short), verdict_from="common_cmax")


def _beside(found: Delta, note: str = "", **companions: Any) -> Delta:
    """The delta with a further note and further companions."""
    return replace(found, note=_also(found.note, note), companions={**found.companions, **companions})


def _measured(pair: Pair | KeptPair, metric: Metric, samples: _Samples, slice_: Mapping[str, Any]) -> Delta:
    """The delta itself: values, jackknife interval (or a bootstrap one, on request) and sign-flip p-value."""
    settings = samples.settings
    sides = base, new = samples.of(pair, metric)
    notes: list[str] = []
    present = np.flatnonzero((base.evidence.rows > 0) | (new.evidence.rows > 0))
    clusters = len(present)
    delta = new.value - base.value
    blank = Delta(
        metric.name,
        dict(slice_),
        _or_none(base.value),
        _or_none(new.value),
        _or_none(delta),
        None,
        None,
        None,
        None,
        base.constants.get("better") or metric.better,
        "inconclusive",
        "delta",
        len(pair),
        int(base.evidence.rows.sum()),
        int(new.evidence.rows.sum()),
        clusters,
        "none",
        0,
        "",
        {},
    )
    if math.isnan(delta):
        lost = " and ".join(side for side, s in (("base", base), ("new", new)) if math.isnan(s.value))
        return replace(blank, note=_also(blank.note, f"undefined in {lost}"))
    if clusters < 2:
        return replace(blank, note=_also(blank.note, "fewer than 2 clusters: no interval"))
    if not settings.resamples:
        return replace(blank, note="no resamples were asked for: neither interval nor p-value")
    left_out = _left_out(sides, present)
    se = intervals.jackknife_se(left_out)
    p = sign_flip_p(
        _cluster_differences(sides, left_out, delta, present),
        resamples=settings.resamples,
        seed=settings.seed,
    )
    different = int(base.evidence.differs(new.evidence).sum())
    interval, method, undefined, reason = _delta_interval(sides, delta, se, left_out, different, settings)
    notes += [reason] if reason else []
    if undefined > TOLERATED_UNDEFINED * settings.resamples:
        notes.append(f"undefined in {undefined} of {settings.resamples} resamples: the interval is doubtful")
    if clusters < FEWEST_CLUSTERS:
        notes.append(f"only {clusters} clusters: no test can reach 0.05")
    elif clusters < FEW_CLUSTERS:
        notes.append(f"only {clusters} clusters: the interval may be too narrow")
    if metric.definition.name == "aurc":
        points = [s.evidence.points for s in sides]
        coarse = [s.evidence.points / max(len(s.evidence.score), 1) for s in sides]
        if min(coarse) < 0.9 * max(coarse):
            notes.append(f"{points[0]} and {points[1]} plateaus: AURC favours the coarser, see aurc(ties=exact)")
    return replace(
        blank,
        se=_or_none(se),
        interval=interval,
        p_value=_or_none(p),
        method=method,
        undefined_resamples=undefined,
        note="; ".join(notes),
    )


def _left_out(sides: Sequence[Sample], present: npt.NDArray[np.int64]) -> Floats:
    base, new = (leave_one_out(s.evidence, [s.finish], present)[0] for s in sides)
    return new - base


def _cluster_differences(
    sides: Sequence[Sample], left_out: Floats, delta: float, present: npt.NDArray[np.int64]
) -> Floats:
    """What a sign flip flips: summed row differences of a cluster, else jackknife pseudo-values of the delta."""
    if all(s.is_score for s in sides):
        mine, theirs = (np.asarray(s.evidence.cells, float) for s in sides)
        if (mine[:, 1] == theirs[:, 1]).all():
            return (theirs[:, 0] - mine[:, 0])[present]
    size = len(left_out)
    return size * delta - (size - 1) * left_out


def _delta_interval(
    sides: Sequence[Sample], delta: float, se: float, left_out: Floats, different: int, settings: Settings
) -> tuple[Interval | None, str, int, str]:
    width = _range_width(sides)
    clusters = len(left_out)
    undefined, method, reason = 0, "t", ""
    interval: Interval | None = None
    if settings.by_family:
        if not math.isnan(se) and not intervals.no_spread(se, sides[0].value, sides[1].value):
            interval = intervals.student(delta, se, clusters, settings.level)
    else:
        drawn = np.concatenate(sides[1].replicates) - np.concatenate(sides[0].replicates)
        defined = drawn[~np.isnan(drawn)]
        undefined = len(drawn) - len(defined)
        tail = intervals.tail_of(settings.level)
        if len(defined) > 1 and defined.max() > defined.min():
            method = "percentile" if settings.percentiles else "bca"
            if settings.percentiles:
                interval = intervals.percentile(defined, tail)
            else:
                interval = intervals.bca(delta, defined, left_out, tail)
    if settings.unstretched:
        return interval, method if interval else "none", undefined, ""
    if different < FEW_DIFFERENT and width is not None:
        margin = intervals.sparse_margin(clusters, width)
        near = interval or (delta, delta)
        interval = min(near[0], -margin), max(near[1], margin)
        reason = f"only {different} clusters differ: the interval allows for a rare difference not yet seen"
    if interval is None:
        return None, "none", undefined, "no interval: every resample gives the same difference"
    return intervals.containing(interval, delta), method, undefined, reason


def _range_width(sides: Sequence[Sample]) -> float | None:
    """The width of the metric's range: as declared, or 1 for shares and losses that cannot exceed it."""
    metric = sides[0].metric
    low, high = metric.bounds
    if low is not None and high is not None:
        return float(high) - float(low)
    if metric.definition.share and all(s.evidence.binary for s in sides):
        return 1.0
    return 1.0 if sides[0].constants.get("loss") in ("zero_one", "abs_norm") else None


# -- verdicts ------------------------------------------------------------------------------------------------------


def judged(deltas: Sequence[Delta], settings: Settings) -> Iterator[Delta]:
    """Verdicts: the interval excludes 0 and the p-value, Holm-adjusted over all comparisons, is at most α."""
    deciding = [_deciding(d) for d in deltas]
    adjusted = holm([math.nan if p is None else p for _, p, _ in deciding])
    for d, (interval, _, clusters), p in zip(deltas, deciding, adjusted, strict=True):
        verdict = "inconclusive"
        sure = interval is not None and not math.isnan(p) and p <= 1 - settings.level and clusters >= FEWEST_CLUSTERS
        if sure and interval is not None and d.better is not None:
            if interval[0] > 0:
                verdict = "better" if d.better == "higher" else "worse"
            elif interval[1] < 0:
                verdict = "worse" if d.better == "higher" else "better"
        aimless = "neither direction is better by itself: no verdict" if sure and d.better is None else ""
        yield replace(d, verdict=verdict, p_adjusted=_or_none(p), note=_also(d.note, aimless))


def _deciding(d: Delta) -> tuple[Interval | None, float | None, int]:
    """Interval, p-value and clusters that the verdict rests on."""
    if d.verdict_from == "delta":
        return d.interval, d.p_value, d.clusters
    if d.verdict_from == "nothing":
        return None, None, 0
    chosen = d.companions[d.verdict_from]
    return chosen["interval"], chosen["p_value"], chosen["clusters"]


def _short(d: Delta) -> dict[str, Any]:
    return {k: getattr(d, k) for k in ("base", "new", "delta", "se", "interval", "p_value", "n", "clusters")}


def _population(records: Records) -> dict[str, int]:
    return {"rows": len(records), **records.counts(), "clusters": len(records.cluster[0])}


def _also(note: str, more: str) -> str:
    return "; ".join(text for text in (note, more) if text)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
