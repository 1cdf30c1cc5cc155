"""The deltas of one pair: every metric's difference, what stands next to it, and which form of it decides.

One function for two tables and for what two runs kept: a pair says what it can do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from steelyard.errors import counted
from steelyard.metrics.definition import Metric, metric_of
from steelyard.study.pairs import ClustersLeft, MissingRows, Pair
from steelyard.uncertainty.groups import counted_rows
from steelyard.uncertainty.groups import named as group_names
from steelyard.uncertainty.number import Delta
from steelyard.uncertainty.paired import PairedSample, no_worse, paired
from steelyard.uncertainty.sampling import sample
from steelyard.uncertainty.scarcity import FEWEST_CLUSTERS
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.sparse import rare_clusters, rare_share
from steelyard.uncertainty.wire import form_document

Unchanged = Literal["say", "judge"]  # what is done with runs that gave the same answers
UNEQUAL_RATES = 0.01
MOST_LOST = 0.2  # of the rows of kept runs, whose clusters left because other rows of them failed or lack values
_EARLIER = (
    "a run was kept by an earlier edition: whether the answers are the same, whether groups and labels to defer agree, "
    "and which rows lack values is not known"
)


def deltas(
    pair: Pair, metrics: Sequence[Metric], settings: Settings, slice_: Mapping[str, Any], unchanged: Unchanged
) -> list[Delta]:
    """Every metric's delta on one pair; their verdicts come later, with those of other pairs."""
    for metric in metrics:
        pair.checked(metric)
    measured = _Measurements(settings, slice_)
    countable = {metric: _rows_for(metric, pair).countable(metric) for metric in metrics}
    for inner in dict.fromkeys(part for part, _ in countable.values()):
        measured.take(inner, [m for m in metrics if countable[m][0] is inner])
    return [_delta(pair, *countable[metric], metric, measured, unchanged) for metric in metrics]


def _delta(
    pair: Pair, inner: Pair, missing: MissingRows | None, metric: Metric, measured: _Measurements, unchanged: Unchanged
) -> Delta:
    """One metric's delta, with everything that must be said of it."""
    delta = _counted(_with_companions(pair, inner, metric, measured), pair, metric)
    if missing is not None:
        counts = {"base": missing.base, "new": missing.new, "rows": missing.rows}
        delta = _with(delta, str(missing), missing=counts)
        if missing.unequal:
            note = "the runs lack values in different shares of their rows: no verdict, and no rule passes"
            delta = _with(delta, note).cautioned("unequal missing")
    left = pair.clusters_left(inner)
    if left is not None:
        delta = _on_what_is_left(delta, left)
    gone = pair.lost_groups(metric, inner)
    if gone:
        note = f"{group_names(gone)} left out: every row of it left both runs"
        delta = _with(delta, note).cautioned("missing group")
    if unchanged == "say" and pair.unchanged(metric):
        delta = _unchanged(delta, measured.of(inner, metric), measured.settings.level, len(pair))
    elif unchanged == "say" and missing is None and _no_row_worse(pair, inner, metric, measured):
        unseen = _unseen(measured.of(inner, metric), measured.settings.level)
        delta = _with(delta, no_row_worse={"rows": len(pair), "unseen": unseen})
    return delta if pair.knows_columns else _with(delta, _EARLIER)


def _counted(delta: Delta, pair: Pair, metric: Metric) -> Delta:
    """The delta with how many pairs were asked, lack what the metric reads, and failed."""
    rows = _rows_for(metric, pair)
    failed = 0 if metric.population == "all" else pair.whole - len(rows)
    return replace(delta, n_asked=len(rows), n_missing=rows.lacking(metric), n_failed=failed)


def _rows_for(metric: Metric, pair: Pair) -> Pair:
    """The rows that a metric is compared on: a failed row leaves both sides, unless failures are what is counted."""
    return pair if metric.population == "all" else pair.without_failed


def _with_companions(pair: Pair, inner: Pair, metric: Metric, measured: _Measurements) -> Delta:
    """The delta with its companions, and which of its forms decides."""
    delta = measured.delta(inner, metric)
    failures = pair.failures(_rows_for(metric, pair))
    if failures:
        rates = dict(zip(("base", "new"), pair.failure_rates, strict=True))
        delta = _with(delta, failures, failure_rate=rates)
        wrong = pair.failed_as_wrong if metric.population == "asked" else None
        if wrong is not None:
            delta = _with(delta, failed_as_wrong=form_document(measured.delta(wrong.countable(metric)[0], metric)))
    decides = inner
    if metric.population == "answered":
        delta, decides = _with_rates(delta, inner, metric, measured)
    if metric.common_coverage is not None and len(inner):
        delta = _with_common_coverage(delta, inner, metric, measured)
    delta = replace(delta, read_from=delta.verdict_from)
    if metric.twin and delta.verdict_from != "nothing":
        delta = _decided_by(delta, metric.twin, measured.delta(decides, _twin(metric)))
        delta = _with(delta, f"judged by {metric.twin}, which noise does not make larger")
    return delta


def _twin(metric: Metric) -> Metric:
    """The metric that a delta takes its verdict from, with the same options."""
    definition = metric_of(metric.twin).definition
    known = {p.name for p in definition.params}
    return definition(**{name: value for name, value in metric.options if name in known})


def _with_rates(delta: Delta, pair: Pair, metric: Metric, measured: _Measurements) -> tuple[Delta, Pair]:
    """Answered-only metrics: both answer rates, the delta on rows answered by both, and the pair that decides."""
    rates = pair.rates
    delta = _with(delta, answer_rate={"base": rates[0], "new": rates[1]})
    if pair.same_answered:
        return delta, pair
    unequal = abs(rates[0] - rates[1]) > UNEQUAL_RATES
    shared = pair.answered_by_both
    if shared is None:
        if not unequal:
            return delta, pair
        note = "answer rates differ: a verdict needs the rows answered by both, so keep the records of both runs"
        return replace(_with(delta, note), verdict_from="nothing"), pair
    if not len(shared):
        return replace(_with(delta, "no row was answered by both: no verdict"), verdict_from="nothing"), pair
    both = measured.delta(shared, metric)
    if not unequal:
        return _with(delta, answered_by_both=form_document(both)), pair
    note = "answer rates differ: the verdict is from rows answered by both"
    return _decided_by(_with(delta, note), "answered_by_both", both), shared


def _with_common_coverage(delta: Delta, pair: Pair, metric: Metric, measured: _Measurements) -> Delta:
    """Areas of runs with unequal cmax: the verdict uses the area up to the common cmax, where there is such a form."""
    rates = pair.rates
    delta = _with(delta, cmax={"base": rates[0], "new": rates[1]})
    common = min(rates)
    if rates[0] == rates[1] or common == 0 or metric.values.get("c", 1.0) <= common:
        return delta
    if not metric.is_area:
        note = f"cmax differs: {metric.definition.name} rewards declining, so there is no verdict (aurc has one)"
        return replace(_with(delta, note), verdict_from="nothing")
    options = {k: v for k, v in metric.values.items() if k not in ("ties", "c")}  # the areas up to c know no ties
    area = metric_of(str(metric.common_coverage)).definition(**options, c=common)
    delta = _decided_by(delta, "common_cmax", measured.delta(pair, area))
    form = {"c": common, **delta.companions["common_cmax"]}
    return _with(delta, "cmax differs: the verdict is from the area up to the common cmax", common_cmax=form)


def _decided_by(delta: Delta, name: str, form: Delta) -> Delta:
    """The delta with another form of it that decides."""
    companions = {**delta.companions, name: form_document(form)}
    return replace(delta, companions=companions, verdict_from=name, forms={**delta.forms, name: form})


def _with(delta: Delta, note: str = "", **companions: Any) -> Delta:
    """The delta with a further note and further companions."""
    notes = (*delta.notes, note) if note else delta.notes
    return replace(delta, notes=notes, companions={**delta.companions, **companions})


def _on_what_is_left(delta: Delta, left: ClustersLeft) -> Delta:
    """The delta with how many clusters it still stands on; too few to speak for the others bar it."""
    delta = _with(delta, clusters_left={"left": left.left, "of": left.of})
    if left.lost <= MOST_LOST:
        return delta
    note = "more than a fifth of what was asked left with those clusters: a verdict needs the records of both runs"
    return _with(delta, note).cautioned("lost clusters")


def _no_row_worse(pair: Pair, inner: Pair, metric: Metric, measured: _Measurements) -> bool:
    """True if every row counts in both runs, and in the new one no less than in the base."""
    found = measured.of(inner, metric)
    sign = {"higher": 1, "lower": -1}.get(found.base.constants.get("better") or metric.better or "", 0)
    if (
        not sign
        or found.clusters < FEWEST_CLUSTERS
        or not pair.failed_alike
        or not no_worse(found.base, found.new, sign)
    ):
        return False  # a cluster that counts less holds a row that does
    sides = inner.by_row()
    if sides is None:
        return False
    base, new = (sample(metric, side, c) for side, c in zip(sides, inner.constants(metric), strict=True))
    return no_worse(base, new, sign)


def _unseen(sides: PairedSample, level: float) -> float:
    """The share of rows in clusters of a kind of which none was seen, at most."""
    rows = np.maximum(sides.base.evidence.rows, sides.new.evidence.rows).astype(float)
    return rare_share(0, rows[rows > 0], rows[:0], level)


def _unchanged(delta: Delta, sides: PairedSample, level: float, rows: int) -> Delta:
    """The delta of runs that gave the same answers, where there are clusters enough to say so."""
    if delta.value is None or sides.clusters < FEWEST_CLUSTERS:
        return delta
    limits = sides.base.limits
    unseen = rare_clusters(0, sides.clusters, level) * (limits[1] - limits[0] if limits else math.nan)
    note = f"the answers are the same in all {counted(rows, 'row')}"
    if not math.isnan(unseen):
        note += f"; a rarer change of up to {unseen:.3g} could not have been seen"
    return replace(_with(delta, note, unchanged={"rows": rows, "unseen": _unseen(sides, level)}), unchanged=True)


class _Measurements:
    """Deltas of metrics on pairs, each measured once. What is taken together shares what it reads of each resample."""

    def __init__(self, settings: Settings, slice_: Mapping[str, Any]) -> None:
        self.settings, self.slice = settings, slice_
        self._paired: dict[tuple[Pair, Metric], PairedSample] = {}

    def take(self, pair: Pair, metrics: Sequence[Metric]) -> None:
        """Measure these metrics on a pair."""
        samples = []
        for metric in metrics:
            own = zip(pair.sides, pair.constants(metric), strict=True)
            base, new = (sample(metric, side, constants) for side, constants in own)
            samples.append((base, new))
        for metric, measured in zip(metrics, paired(samples, self.settings), strict=True):
            self._paired[pair, metric] = measured

    def of(self, pair: Pair, metric: Metric) -> PairedSample:
        """What was measured of a metric on a pair."""
        if (pair, metric) not in self._paired:
            self.take(pair, [metric])
        return self._paired[pair, metric]

    def delta(self, pair: Pair, metric: Metric) -> Delta:
        """The delta itself: values, interval and p-value."""
        measured = self.of(pair, metric)
        known = not math.isnan(measured.delta)
        about = metric.delta_note(measured.base.evidence, measured.new.evidence) if known else ""
        return Delta(
            metric=metric.name,
            of=metric,
            slice=dict(self.slice),
            base=_or_none(measured.base.value),
            new=_or_none(measured.new.value),
            value=_or_none(measured.delta),
            se=_or_none(measured.se),
            interval=measured.interval(self.settings.level),
            level=self.settings.level,
            p_value=_or_none(measured.p_value),
            better=measured.base.constants.get("better") or metric.better,
            n=len(pair),
            n_base=counted_rows(measured.base),
            n_new=counted_rows(measured.new),
            clusters=measured.clusters,
            method="none" if measured.rule is None else measured.rule.method,
            undefined_resamples=measured.undefined,
            notes=(*measured.notes, about) if about else measured.notes,
            clusters_scarcest=measured.parts.fewest,
            cautions=measured.cautions,
            rule=measured.rule,
            grown=measured.grown,
        )


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
