"""One table, several metrics: each value with its interval, its denominator and what was left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from steelyard.errors import counted
from steelyard.ground.arrays import Progress
from steelyard.metrics.collector import Side
from steelyard.metrics.definition import Metric
from steelyard.metrics.evidence.by_task import Tasks
from steelyard.metrics.vocabulary import FROM_ALL_GROUPS
from steelyard.uncertainty.families import (
    Spread,
    by_jackknife,
    needs_resampling,
    never_resampled,
    spread_of,
)
from steelyard.uncertainty.groups import (
    counted_rows,
    excluded_rows,
    groups_without_value,
    named,
    named_samples,
    over_groups,
    ungrouped_rows,
)
from steelyard.uncertainty.intervals import Rule
from steelyard.uncertainty.measures import lone, measures_without_value, named_measures
from steelyard.uncertainty.number import TOLERATED_UNDEFINED, Caution, Estimate
from steelyard.uncertainty.sampling import Sample, jackknife, resample, sample
from steelyard.uncertainty.scarcity import FEW_CLUSTERS, Scarcity, scarcity
from steelyard.uncertainty.settings import Settings


def estimates(
    side: Side,
    metrics: Sequence[Metric],
    settings: Settings,
    slice_: Mapping[str, Any],
    progress: Progress | None = None,
) -> list[tuple[Estimate, Sample]]:
    """Every metric on one side, and the sample that it was read from."""
    samples = [sample(metric, side, side.constants(metric)) for metric in metrics]
    counts = side.counts
    asked = sum(counts.values()) - counts["failed"]
    estimated = [
        replace(e, n_abstained=counts["abstained"], n_predictions=asked, n_missing=missing_rows(s))
        for e, s in zip(estimates_of(samples, settings, slice_, progress), samples, strict=True)
    ]
    return list(zip(estimated, samples, strict=True))


def missing_rows(s: Sample) -> int:
    """The rows that lack a value that the metric reads, or the group that it compares."""
    return int(s.side.missing_rows(s.metric, s.constants)) + ungrouped_rows(s)


def estimates_of(
    samples: Sequence[Sample], settings: Settings, slice_: Mapping[str, Any], progress: Progress | None = None
) -> list[Estimate]:
    """The estimates of samples on one list of clusters."""
    asked = list(samples)
    samples = [lone(s) or s for s in asked]  # a mean of one metric is as sure as that metric is
    inner = {id(s): named_samples(s) for s in samples if s.metric.over_groups == "worst" and settings.by_family}
    each = [*samples, *(part for parts in inner.values() for part in parts.values())]
    resampled = [s for s in each if needs_resampling(s, settings)]
    resample(resampled, settings, progress)
    if not settings.percentiles:
        jackknife([s for s in resampled if s.vector is None or not settings.by_family])
    jackknife([s for s in each if by_jackknife(s) and (settings.by_family or never_resampled(s))])
    estimated = [_estimate(s, settings, slice_, inner.get(id(s), {})) for s in samples]
    return [
        e
        if own is s
        else replace(e, metric=own.metric.name, of=own.metric, detail=own.detail, better=own.metric.better)
        for e, s, own in zip(map(_about_measures, estimated, asked), samples, asked, strict=True)
    ]


def _named(metric: Metric) -> dict[str, Any]:
    """What an estimate says it is of."""
    return {"metric": metric.name, "of": metric}


def _about_measures(e: Estimate, s: Sample) -> Estimate:
    """The estimate with what a benchmark planned to measure and could not: no rule passes on what is left of it."""
    lost = measures_without_value(s) if isinstance(s.evidence, Tasks) else []
    if not lost or e.value is None:
        return e
    note = f"{named_measures(lost)} left out: without a value"
    return replace(e, notes=(*e.notes, note)).cautioned("missing group")


def _estimate(s: Sample, settings: Settings, slice_: Mapping[str, Any], groups: Mapping[Any, Sample]) -> Estimate:
    metric, notes = s.metric, []
    cautions: list[Caution] = []
    inner = over_groups(s)
    parts = scarcity(inner if len(inner) > 1 else [s])  # of two gaps the one that stands on less
    clusters = min(each.clusters for each in inner) if len(inner) > 1 else s.clusters
    spread = Spread(rule=None)
    interval = None
    if math.isnan(s.value):
        notes.append(undefined_reason(s))
    else:
        spread = spread_of(s, settings, parts, groups)
        interval = spread.at(settings.level, s.value)
        notes += spread.notes
        cautions += spread.cautions
        if spread.undefined > TOLERATED_UNDEFINED * settings.resamples:
            doubt = ": the interval is doubtful" if interval is not None else ""
            notes.append(f"undefined in {spread.undefined} of {settings.resamples} resamples{doubt}")
            cautions.append("doubtful")
        if inner:
            group_notes, group_cautions = _about_groups(s)
            notes += group_notes
            cautions += group_cautions
        more, also = about_scarcity(parts, clusters, with_interval=interval is not None)
        notes += more
        cautions += also
    return Estimate(
        **_named(metric),
        slice=dict(slice_),
        value=None if math.isnan(s.value) else s.value,
        se=None if math.isnan(spread.se) else spread.se,
        interval=interval,
        level=settings.level,
        method="none" if spread.rule is None else spread.rule.method,
        n=counted_rows(s),
        clusters=clusters,
        excluded=excluded_rows(s),
        undefined_resamples=spread.undefined,
        better=s.constants.get("better") or metric.better,
        unit=metric.unit,
        notes=tuple(notes),
        detail=s.detail,
        clusters_scarcest=parts.fewest,
        cautions=tuple(dict.fromkeys(cautions)),
        rule=None if spread.rule is None else Rule(spread.rule.method, _ends(spread, s.value), spread.rule.least),
    )


def _ends(spread: Spread, value: float) -> Any:
    return lambda level: spread.at(level, value)


def _about_groups(s: Sample) -> tuple[list[str], list[Caution]]:
    """What must be said of groups: those without a value, and rows without a group."""
    notes: list[str] = []
    cautions: list[Caution] = []
    lost = groups_without_value(s)
    if lost:
        notes.append(f"{named(lost)} left out: the metric is undefined there")
        if s.metric.over_groups in FROM_ALL_GROUPS:
            cautions.append("missing group")
    alone = ungrouped_rows(s)
    if alone:
        notes.append(f"{counted(alone, 'row')} without a group: counted in the overall value only")
    return notes, cautions


def about_scarcity(parts: Scarcity, clusters: int, *, with_interval: bool) -> tuple[list[str], list[Caution]]:
    """What must be said of a number that stands on few clusters."""
    if parts.scarce and parts.fewest < clusters:
        return [f"a part of it sits in {counted(parts.fewest, 'cluster')} only: too few for a verdict or a gate"], [
            "scarce"
        ]
    if parts.scarce:
        return [f"only {counted(clusters, 'cluster')}: too few for a verdict or a gate"], ["scarce"]
    if with_interval and (parts.few or 2 <= clusters < FEW_CLUSTERS):
        where = (
            f"only {counted(clusters, 'cluster')}"
            if clusters < FEW_CLUSTERS
            else f"a part of it sits in {counted(parts.fewest, 'cluster')}"
        )
        return [f"{where}: the interval may be too narrow"], []
    return [], []


def undefined_reason(s: Sample) -> str:
    """Why a value is undefined."""
    stated = s.constants.get("undefined")
    if stated:
        return f"undefined: {stated}"
    if not int(s.evidence.rows.sum()):
        lost = ", ".join(f"{n} {reason}" for reason, n in s.evidence.excluded.items())
        return f"undefined: no row counts ({lost})" if lost else "undefined: no row counts"
    return f"undefined: {s.metric.definition.shown.undefined or 'the data do not determine it'}"
