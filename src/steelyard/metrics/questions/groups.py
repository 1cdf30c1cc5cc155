"""Does a metric hold across groups, altered questions and repetitions?

Equal accuracy is not fairness, and the gap between groups is biased upward: among equal groups of 20 clusters it is
0.19 on average. Its interval is therefore made from the differences of all pairs of groups, not from a bootstrap of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.ground.arrays import Floats, Mask
from steelyard.metrics.contract import across, evidence, over
from steelyard.metrics.evidence.combined import GroupReading
from steelyard.metrics.evidence.sums import Cells, Sums, Terms, sums
from steelyard.metrics.metric import Metric
from steelyard.metrics.options import Constant
from steelyard.metrics.views import partnerless
from steelyard.metrics.vocabulary import AS_BASE, UNIT, WIDTH_OF_BASE
from steelyard.records.labels import value_name
from steelyard.records.table import Records


def span(values: Floats) -> Floats:
    """Largest minus smallest, over the groups that are defined; fewer than two have no gap."""
    defined = ~np.isnan(values)
    high = np.where(defined, values, -np.inf).max(-1, initial=-np.inf)
    low = np.where(defined, values, np.inf).min(-1, initial=np.inf)
    return np.where(defined.sum(-1) > 1, high - low, np.nan)


def _defined(groups: GroupReading) -> Mask:
    return ~np.isnan(groups.values)


def _per_group(groups: GroupReading) -> dict[str, Any]:
    values = {
        value_name(n): None if np.isnan(v) else float(v) for n, v in zip(groups.names, groups.values[0], strict=True)
    }
    return {"per_group": values, "overall": None if np.isnan(groups.overall[0]) else float(groups.overall[0])}


@over(
    better="lower",
    bounds=WIDTH_OF_BASE,
    norm=span,
    over_groups="gap",
    formula="max − min over groups",
    undefined="it needs at least two groups with a value",
)
def fairness_gap(groups: GroupReading) -> Floats:
    """Largest difference of a metric between groups: `fairness_gap(f1_macro, by=group.site)`.

    A group where the metric is undefined is left out and named; fewer than two groups have no gap. Areas are compared
    up to the coverage that all groups reach. 0 does not mean fair: groups may differ in what is asked.

    >>> columns = {
    ...     "target": ["a", "a", "a", "a"],
    ...     "prediction": ["a", "a", "a", "b"],
    ...     "group.site": ["x", "x", "y", "y"],
    ... }
    >>> value("fairness_gap(accuracy, by=group.site)", **columns)
    0.5
    """
    return span(groups.values)


@over(better="as base", bounds=AS_BASE, over_groups="worst", formula="the worst group's value")
def worst_group(groups: GroupReading, *, base: Metric, overall: Constant) -> Floats:
    """The metric in the group where it is worst; the group's name is the detail (ties: the first in order).

    >>> columns = {
    ...     "target": ["a", "a", "a", "a"],
    ...     "prediction": ["a", "a", "a", "b"],
    ...     "group.site": ["x", "x", "y", "y"],
    ... }
    >>> value("worst_group(accuracy, by=group.site)", **columns)
    0.5
    """
    defined = ~np.isnan(groups.values)
    if _direction(base, overall) == "lower":
        worst = np.where(defined, groups.values, -np.inf).max(-1, initial=-np.inf)
    else:
        worst = np.where(defined, groups.values, np.inf).min(-1, initial=np.inf)
    return np.where(defined.any(-1), worst, np.nan)


def _direction(base: Metric, constants: Mapping[str, Any]) -> str:
    better = constants.get("better") or base.better
    if better is None:
        raise UsageError(f"worst_group needs a metric with a better direction; {base} has none")
    return str(better)


@worst_group.detail
def _(groups: GroupReading, *, base: Metric, overall: Constant) -> dict[str, Any]:
    values = groups.values[0]
    if np.isnan(values).all():
        return {"group": None, **_per_group(groups)}
    lower = _direction(base, overall) == "lower"
    place = np.nanargmax(values) if lower else np.nanargmin(values)
    return {"group": value_name(groups.names[place]), **_per_group(groups)}


def _group_names(records: Records, by: str) -> tuple[str, ...]:
    return tuple(map(value_name, records.labels(by).values))


@over(bounds=(None, None), over_groups="disparity", formula="group − overall, signed", members=_group_names)
def disparity(groups: GroupReading, *, label: str) -> Floats:
    """How far a group lies above or below the whole: `disparity(accuracy, by=group.site).x`.

    >>> columns = {
    ...     "target": ["a", "a", "a", "a"],
    ...     "prediction": ["a", "a", "a", "b"],
    ...     "group.site": ["x", "x", "y", "y"],
    ... }
    >>> value("disparity(accuracy, by=group.site).x", **columns)
    0.25
    """
    names = [value_name(n) for n in groups.names]
    if label not in names:
        return np.full(len(groups.overall), np.nan)
    return groups.values[..., names.index(label)] - groups.overall


for _gap in (fairness_gap, worst_group):
    _gap.present(_defined)
fairness_gap.detail(_per_group)
fairness_gap.vector(lambda groups: groups.values)


# -- repetitions ---------------------------------------------------------------------------------------------------


def deviation(values: Floats) -> Floats:
    """Population standard deviation over the last axis."""
    return np.sqrt(np.maximum(((values - values.mean(-1, keepdims=True)) ** 2).mean(-1), 0.0))


@over(
    "repeat",
    bounds=(None, None),
    norm=deviation,
    norm_members=("stddev", "sample_stddev", "cv"),
    members=("mean", "stddev", "sample_stddev", "cv", "n_seeds"),
    no_interval=lambda _evidence, _value, label: "a count" if label == "n_seeds" else "",
    formula="mean, population standard deviation, sample standard deviation or std/mean over repeats",
)
def stability(groups: GroupReading, *, label: str) -> Floats:
    """A metric over repetitions: `stability(accuracy).stddev`. One repeat has no spread: undefined.

    The population std flatters few repeats (0.72σ at three): `.sample_stddev` divides by one less.

    >>> columns = {
    ...     "target": ["a"] * 4,
    ...     "prediction": ["a", "a", "a", "b"],
    ...     "item": [1, 2, 1, 2],
    ...     "repeat": [1, 1, 2, 2],
    ... }
    >>> value("stability(accuracy).stddev", **columns)
    0.25
    """
    values = groups.values
    repeats = values.shape[-1]
    if label == "n_seeds":
        return np.full(len(values), float(repeats))
    if label == "mean":
        return values.mean(-1) if repeats else np.full(len(values), np.nan)
    if repeats < 2:
        return np.full(len(values), np.nan)
    std = deviation(values)
    if label == "stddev":
        return std
    if label == "sample_stddev":
        return std * np.sqrt(repeats / (repeats - 1))
    return std / np.abs(values.mean(-1))


@stability.vector
def _(groups: GroupReading, *, label: str) -> Floats:
    repeats = groups.values.shape[-1]
    if label == "cv":
        return _relative(groups)
    scale = np.sqrt(repeats / (repeats - 1)) if label == "sample_stddev" else 1.0
    return groups.values * scale


def _relative(groups: GroupReading) -> Floats:
    """The repeats' distances from their mean, relative to it; and the repeats themselves, whose noise decides on 0."""
    mean = groups.values.mean(-1, keepdims=True)
    size = np.where(mean == 0, np.nan, np.abs(mean))
    return np.stack([(groups.values - mean) / size, groups.values], -2)


@over(
    "repeat",
    better="higher",
    bounds=(0, 1),
    norm=deviation,
    formula="max(0, 1 − std / |mean|) over repeats, population std",
)
def stability_score(groups: GroupReading) -> Floats:
    """1 if a metric is the same in every repetition, 0 if it varies as much as its mean; undefined for one repeat.

    >>> columns = {
    ...     "target": ["a"] * 4,
    ...     "prediction": ["a", "a", "a", "b"],
    ...     "item": [1, 2, 1, 2],
    ...     "repeat": [1, 1, 2, 2],
    ... }
    >>> round(value("stability_score(accuracy)", **columns), 6)
    0.666667
    """
    values = groups.values
    if values.shape[-1] < 2:
        return np.full(len(values), np.nan)
    mean, std = values.mean(-1), deviation(values)
    flat = np.where(std == 0, 1.0, 0.0)
    score = np.where(mean == 0, flat, np.maximum(0.0, 1 - std / np.abs(np.where(mean == 0, 1, mean))))
    return np.where(np.isnan(mean), np.nan, score)


for _steady in (stability, stability_score):
    _steady.present(_defined)
stability_score.detail(_per_group)
stability_score.vector(_relative)


# -- altered questions ---------------------------------------------------------------------------------------------


@evidence(reads=("prediction", "reference.prediction", "reference.outcome"))
def flips(records: Records) -> Terms:
    """Rows whose answer differs from their unperturbed partner's; two abstentions agree."""
    partner = records.labels("reference.outcome")
    outcome = records.array("outcome")
    answered = records.array("answered") == 1
    same = np.asarray(outcome == partner) & (
        ~answered | (records.labels("prediction") == records.labels("reference.prediction"))
    )
    change = np.where(same, 0.0, 1.0)
    now = before = np.full(len(records), np.nan)
    if "target" in records and "prediction" in records:
        now, before = (t.array("correct") for t in (records, records.as_reference()))
    judged = ~np.isnan(now)
    return sums(
        flip=change,
        judged_flip=change * judged,
        to_correct=np.where(judged, change * now, 0.0),
        to_incorrect=np.where(judged, change * before * (1 - now), 0.0),
        n=1,
        missing={reason: rows for reason, rows in partnerless(records).items() if reason != "failed"},
    )


@flips.metric(better="higher", bounds=(0, 1), perturbed_only=True, formula="rows that agree with their partner / rows")
def consistency_rate(s: Cells) -> Floats:
    """Share of altered questions answered as the original was; two abstentions agree.

    >>> columns = {"prediction": ["a", "a"], "item": [1, 1], "perturbation": [None, "typo"]}
    >>> value("consistency_rate", **columns)
    1.0
    """
    return 1 - s.flip / s.n


@flips.metric(better="lower", bounds=(0, 1), perturbed_only=True, formula="rows that differ from their partner / rows")
def flip_rate(s: Cells) -> Floats:
    """Share of altered questions answered otherwise than the original.

    >>> columns = {"prediction": ["a", "b"], "item": [1, 1], "perturbation": [None, "typo"]}
    >>> value("flip_rate", **columns)
    1.0
    """
    return s.flip / s.n


@flips.metric(bounds=(0, 1), perturbed_only=True, formula="flips that became correct / flips")
def flip_to_correct(s: Cells) -> Floats:
    """Of the flips, the share that became correct; undefined without flips.

    >>> columns = {
    ...     "target": ["a", "a"],
    ...     "prediction": ["b", "a"],
    ...     "item": [1, 1],
    ...     "perturbation": [None, "typo"],
    ... }
    >>> value("flip_to_correct", **columns)
    1.0
    """
    return s.to_correct / s.judged_flip


@flips.metric(better="lower", bounds=(0, 1), perturbed_only=True, formula="flips that became incorrect / flips")
def flip_to_incorrect(s: Cells) -> Floats:
    """Of the flips, the share that became incorrect; undefined without flips.

    >>> columns = {
    ...     "target": ["a", "a"],
    ...     "prediction": ["a", "b"],
    ...     "item": [1, 1],
    ...     "perturbation": [None, "typo"],
    ... }
    >>> value("flip_to_incorrect", **columns)
    1.0
    """
    return s.to_incorrect / s.judged_flip


@flip_to_correct.parts
@flip_to_incorrect.parts
def _(evidence: Sums) -> tuple[Any, Floats]:
    """A share of the flips stands on the clusters that flipped."""
    return (evidence.each.judged_flip > 0)[:, None], np.ones(1)


def _within_unit(base: Metric) -> None:
    if base.bounds != UNIT:
        raise UsageError(f"robustness_score needs a metric within [0, 1]; for {base} use relative_change({base})")


@across(
    "reference",
    better="higher",
    bounds=(0, 1),
    requires=_within_unit,
    norm=lambda difference: np.abs(difference[..., 0]),
    formula="clamp(1 − |M − M′|)",
)
def robustness_score(original: Floats, altered: Floats) -> Floats:
    """How little a metric moves when questions are altered: `robustness_score(accuracy)`, in the altered cell's slice.

    >>> columns = {
    ...     "target": ["a"] * 4,
    ...     "prediction": ["a", "a", "a", "b"],
    ...     "item": [1, 2, 1, 2],
    ...     "perturbation": [None, None, "typo", "typo"],
    ... }
    >>> value("robustness_score(accuracy)", **columns)
    0.5
    """
    return np.clip(1 - np.abs(original - altered), 0, 1)


@robustness_score.vector
def _(parts: tuple[Floats, Floats]) -> Floats:
    return (parts[0] - parts[1])[..., None]


@across("reference", formula="(M′ − M) / |M|")
def relative_change(original: Floats, altered: Floats) -> Floats:
    """Change of a metric when questions are altered, relative to the original: for metrics without upper bound.

    >>> columns = {
    ...     "target": [1.0, 1.0],
    ...     "prediction": [2.0, 3.0],
    ...     "item": [1, 1],
    ...     "perturbation": [None, "typo"],
    ... }
    >>> value("relative_change(mae)", **columns)
    1.0
    """
    return (altered - original) / np.abs(original)
