"""compare(): two runs on the same questions → paired deltas, p-values and verdicts.

delta = new − base, never sign-flipped. Rows pair on (task, item, repeat, perturbation); cells pair on their columns
minus those that tell the runs apart. A row that failed on either side leaves both and is counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from steelyard.errors import UsageError
from steelyard.evaluation import Asked, expanded, joined, listed, pick
from steelyard.metrics.contract import Metric, metric_of
from steelyard.metrics.sources import Collector, RowSource
from steelyard.pairing import Pair, paired_slices
from steelyard.records.derive import FAILED
from steelyard.records.labels import Labels
from steelyard.records.table import Records
from steelyard.uncertainty import intervals
from steelyard.uncertainty.estimate import FEW_CLUSTERS, Progress, Sample, Settings, resample, sample
from steelyard.uncertainty.intervals import Interval
from steelyard.uncertainty.jackknife import leave_one_out
from steelyard.uncertainty.tests import FEWEST_CLUSTERS, holm, sign_flip_p

Floats = npt.NDArray[np.float64]

FEW_DIFFERENT = 5
UNEQUAL_RATES = 0.01
_AREAS = {"aurc": "aurc_at", "augrc": "augrc_at"}


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
    n: int
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

    def __getitem__(self, name: str) -> Delta:
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
    unmatched: dict[str, Any] = {"cells": [], "base_rows": 0, "new_rows": 0}
    parts = list(paired_slices(base, new, listed(by), versus, align, unmatched))
    deltas: list[Delta] = []
    for done, (slice_, pair) in enumerate(parts):
        chosen = [
            m
            for m in expanded(asked, pair.base)
            if not (m.definition.perturbed_only and pair.base.is_unperturbed().all())
        ]
        deltas += [_delta(pair, m, settings, slice_) for m in chosen]
        if progress is not None:
            progress((done + 1) / len(parts))
    return Comparison(
        tuple(_judged(deltas, settings)),
        settings,
        {"base": _population(base), "new": _population(new), "paired": len(base) - unmatched["base_rows"]},
        base.cluster_columns,
        {"base": base.sources, "new": new.sources},
        unmatched,
        tuple(dict.fromkeys((*base.warnings, *new.warnings))),
    )


# -- one delta -----------------------------------------------------------------------------------------------------


def _delta(pair: Pair, metric: Metric, settings: Settings, slice_: Mapping[str, Any]) -> Delta:
    counted = pair.tables[0].outcome == FAILED, pair.tables[1].outcome == FAILED
    failed = counted[0] | counted[1]
    companions: dict[str, Any] = {}
    notes: list[str] = []
    everything = metric.population == "all"
    inner = pair if everything or not failed.any() else pair.take(~failed)
    if failed.any() and not everything:
        notes.append(f"{int(failed.sum())} rows failed on either side and left both")
        companions["failure_rate"] = {"base": float(counted[0].mean()), "new": float(counted[1].mean())}
        if metric.population == "asked":
            strict = Pair(*(_failed_as_wrong(t) for t in pair.tables))
            companions["failed_as_wrong"] = _short(_measured(strict, metric, settings, slice_, []))
    found = _measured(inner, metric, settings, slice_, notes)
    if metric.population == "answered":
        found = _with_rates(found, inner, metric, settings, companions)
    if isinstance(metric.definition.source, RowSource) and metric.definition.name in _AREAS and len(inner.base):
        found = _with_common_coverage(found, inner, metric, settings, companions)
    return replace(found, companions=companions)


def _failed_as_wrong(records: Records) -> Records:
    """Failed rows as if a reply had come that nobody could read: wrong end to end."""
    outcome = np.array(["answered", "abstained", "unparsed", "unparsed"], dtype=object)[records.outcome]
    return records.with_columns({"outcome": pa.array(outcome)})


def _with_rates(found: Delta, pair: Pair, metric: Metric, settings: Settings, companions: dict[str, Any]) -> Delta:
    """Answered-only metrics: both answer rates, and the delta on rows answered by both."""
    answered = [t.array("answered") == 1 for t in pair.tables]
    rates = [float(a.mean()) if len(a) else math.nan for a in answered]
    both = answered[0] & answered[1]
    companions["answer_rate"] = {"base": rates[0], "new": rates[1]}
    if not (answered[0] ^ answered[1]).any():
        return found
    if not both.any():
        return replace(found, note=_also(found.note, "no row was answered by both"))
    common = _measured(pair.take(both), metric, settings, found.slice, [])
    companions["answered_by_both"] = _short(common)
    if abs(rates[0] - rates[1]) > UNEQUAL_RATES:
        companions["verdict_from"] = "answered_by_both"
        note = _also(found.note, "answer rates differ: the verdict is from rows answered by both")
        return replace(found, note=note)
    return found


def _with_common_coverage(
    found: Delta, pair: Pair, metric: Metric, settings: Settings, companions: dict[str, Any]
) -> Delta:
    """Areas of runs with unequal cmax: the verdict uses the area up to the common cmax."""
    rates = [float((t.array("answered") == 1).mean()) for t in pair.tables]
    companions["cmax"] = {"base": rates[0], "new": rates[1]}
    common = min(rates)
    if rates[0] == rates[1] or common == 0:
        return found
    options = {k: v for k, v in metric.options if k != "ties"}
    area = metric_of(_AREAS[metric.definition.name]).definition(**options, c=common)
    companions["common_cmax"] = {"c": common, **_short(_measured(pair, area, settings, found.slice, []))}
    companions["verdict_from"] = "common_cmax"
    return replace(found, note=_also(found.note, "cmax differs: the verdict is from the area up to the common cmax"))


def _measured(pair: Pair, metric: Metric, settings: Settings, slice_: Mapping[str, Any], notes: list[str]) -> Delta:
    """The delta itself: values, jackknife interval (or a bootstrap one, on request) and sign-flip p-value."""
    constants = metric.constants(list(pair.tables))
    ids, cluster = pair.base.cluster
    sides = [sample(metric, Collector(t, ids=ids, cluster=cluster), constants) for t in pair.tables]
    base, new = sides
    notes = list(notes)
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
        constants.get("better") or metric.better,
        "inconclusive",
        int(np.maximum(base.evidence.rows, new.evidence.rows).sum()),
        clusters,
        "none",
        0,
        "; ".join(notes),
        {},
    )
    if math.isnan(delta):
        lost = " and ".join(side for side, s in (("base", base), ("new", new)) if math.isnan(s.value))
        return replace(blank, note=_also(blank.note, f"undefined in {lost}"))
    if clusters < 2:
        return replace(blank, note=_also(blank.note, "fewer than 2 clusters: no interval"))
    left_out = _left_out(sides, present)
    se = intervals.jackknife_se(left_out)
    p = sign_flip_p(
        _cluster_differences(sides, left_out, delta, present),
        resamples=settings.resamples,
        seed=settings.seed,
    )
    different = _different_clusters(pair, metric, cluster)
    interval, method, undefined, reason = _delta_interval(sides, delta, se, clusters, different, settings)
    notes += [reason] if reason else []
    if clusters < FEWEST_CLUSTERS:
        notes.append(f"only {clusters} clusters: no test can reach 0.05")
    elif clusters < FEW_CLUSTERS:
        notes.append(f"only {clusters} clusters: the interval may be too narrow")
    if metric.definition.name == "aurc":
        points = [s.evidence.points for s in sides]
        if min(points) < 0.9 * max(points):
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
    values = [leave_one_out(s.evidence, s.finish, present) for s in sides]
    return values[1] - values[0]


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


def _different_clusters(pair: Pair, metric: Metric, cluster: npt.NDArray[np.int64]) -> int:
    """Clusters in which anything the metric reads differs between the runs."""
    different = pair.base.outcome != pair.new.outcome
    for name in metric.reads:
        if name.startswith("facts.") or not all(name in t or name == "correct" for t in pair.tables):
            continue
        a, b = (t.array(name) for t in pair.tables)
        if isinstance(a, Labels) or isinstance(b, Labels):
            different = different | np.asarray(a != b)
        elif isinstance(a, np.ndarray):
            different = different | ~((a == b) | (np.isnan(a) & np.isnan(b)))
    return len(np.unique(cluster[different]))


def _delta_interval(
    sides: Sequence[Sample], delta: float, se: float, clusters: int, different: int, settings: Settings
) -> tuple[Interval | None, str, int, str]:
    low, high = sides[0].metric.bounds
    bounded = low is not None and high is not None
    undefined, method, reason = 0, "t", ""
    interval: Interval | None = None
    if settings.method == "auto" and not settings.plain:
        if not math.isnan(se) and se > 0:
            interval = intervals.student(delta, se, clusters, settings.level)
    else:
        resample(sides, len(sides[0].evidence.ids), settings)
        drawn = np.concatenate(sides[1].replicates) - np.concatenate(sides[0].replicates)
        defined = drawn[~np.isnan(drawn)]
        undefined = len(drawn) - len(defined)
        if len(defined) > 1 and defined.max() > defined.min():
            if settings.plain:
                interval, method = (
                    intervals.percentile(defined, intervals.tail_of(settings.level)),
                    "percentile",
                )
            else:
                left_out = _left_out(sides, np.flatnonzero(sides[0].evidence.rows + sides[1].evidence.rows))
                interval, method = (
                    intervals.bca(delta, defined, left_out, intervals.tail_of(settings.level)),
                    "bca",
                )
    if settings.stream == "legacy":
        return interval, method if interval else "none", undefined, ""
    if different < FEW_DIFFERENT and bounded:
        margin = intervals.sparse_margin(clusters, float(high) - float(low))  # type: ignore[arg-type]
        near = interval or (delta, delta)
        interval = min(near[0], -margin), max(near[1], margin)
        reason = f"only {different} clusters differ: the interval allows for a rare difference not yet seen"
    if interval is None:
        return None, "none", undefined, "no interval: every resample gives the same difference"
    return intervals.containing(interval, delta), method, undefined, reason


# -- verdicts ------------------------------------------------------------------------------------------------------


def _judged(deltas: Sequence[Delta], settings: Settings) -> Iterator[Delta]:
    """Verdicts: the interval excludes 0 and the p-value, Holm-adjusted over all comparisons, is at most α."""
    deciding = [_deciding(d) for d in deltas]
    adjusted = holm([math.nan if p is None else p for _, p in deciding])
    for d, (interval, _), p in zip(deltas, deciding, adjusted, strict=True):
        verdict = "inconclusive"
        if interval is not None and not math.isnan(p) and p <= 1 - settings.level and d.clusters >= FEWEST_CLUSTERS:
            if d.better is None:
                pass
            elif interval[0] > 0:
                verdict = "better" if d.better == "higher" else "worse"
            elif interval[1] < 0:
                verdict = "worse" if d.better == "higher" else "better"
        yield replace(d, verdict=verdict, p_adjusted=_or_none(p))


def _deciding(d: Delta) -> tuple[Interval | None, float | None]:
    source = d.companions.get("verdict_from")
    if source is None:
        return d.interval, d.p_value
    chosen = d.companions[source]
    return chosen["interval"], chosen["p_value"]


def _short(d: Delta) -> dict[str, Any]:
    return {k: getattr(d, k) for k in ("base", "new", "delta", "se", "interval", "p_value", "n")}


def _population(records: Records) -> dict[str, int]:
    return {"rows": len(records), **records.counts(), "clusters": len(records.cluster[0])}


def _also(note: str, more: str) -> str:
    return f"{note}; {more}" if note else more


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
