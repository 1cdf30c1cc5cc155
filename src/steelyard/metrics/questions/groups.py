"""Does a metric hold across groups?

Equal accuracy is not fairness, and the gap between groups is biased upward: among equal groups of 20 clusters it is
0.19 on average. Its interval is therefore made from the differences of all pairs of groups, not from a bootstrap of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.ground.arrays import Floats
from steelyard.metrics.contract import over, parts_of
from steelyard.metrics.evidence.combined import GroupReading, defined_groups, values_by_group
from steelyard.metrics.metric import Metric
from steelyard.metrics.options import Constant, Param
from steelyard.metrics.questions.screening import fpr, sensitivity
from steelyard.metrics.vocabulary import AS_BASE, WIDTH_OF_BASE
from steelyard.records.labels import value_name
from steelyard.records.table import Records


def span(values: Floats) -> Floats:
    """Largest minus smallest, over the groups that are defined; fewer than two have no gap."""
    low, high, defined = _ends(values)
    return np.where(defined > 1, high - low, np.nan)


def _ends(values: Floats) -> tuple[Floats, Floats, Floats]:
    """The smallest and the largest value of the groups that are defined, and how many are; without any, ±∞."""
    defined = ~np.isnan(values)
    low = np.where(defined, values, np.inf).min(-1, initial=np.inf)
    high = np.where(defined, values, -np.inf).max(-1, initial=-np.inf)
    return low, high, defined.sum(-1).astype(np.float64)


@over(
    title="Fairness Gap of {base} by {by}",
    also=("fairness", "bias", "equity"),
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


@over(
    title="{base} in the Worst Group by {by}",
    also=("fairness", "minimum group"),
    better="as base",
    bounds=AS_BASE,
    over_groups="worst",
    formula="the worst group's value",
)
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
    low, high, defined = _ends(groups.values)
    return np.where(defined > 0, high if _direction(base, overall) == "lower" else low, np.nan)


def _direction(base: Metric, constants: Mapping[str, Any]) -> str:
    better = constants.get("better") or base.better
    if better is None:
        raise UsageError(f"worst_group needs a metric with a better direction; {base} has none")
    return str(better)


@worst_group.detail
def _(groups: GroupReading, *, base: Metric, overall: Constant) -> dict[str, Any]:
    values = groups.values[0]
    if np.isnan(values).all():
        return {"group": None, **values_by_group(groups)}
    lower = _direction(base, overall) == "lower"
    place = np.nanargmax(values) if lower else np.nanargmin(values)
    return {"group": value_name(groups.names[place]), **values_by_group(groups)}


@over(
    title="Fairness Ratio of {base} by {by}",
    also=("fairness", "four fifths rule"),
    better="higher",
    bounds=(0, 1),
    over_groups="ratio",
    formula="min / max over groups",
    undefined="it needs at least two groups with a value, none negative and one above 0",
    aliases=("disparate_impact",),
    reference="Feldman et al. (2015), Certifying and removing disparate impact",
)
def fairness_ratio(groups: GroupReading) -> Floats:
    """Smallest over largest value of a metric among groups: `fairness_ratio(selection_rate, by=group.site)`.

    1 is equal, 0.8 the bound of the four-fifths rule. A ratio exaggerates differences between small values, as
    fairness_gap does those between large ones: read both. Its interval follows from the logarithms of all pairs at
    once; where a group has the value 0 there is none.

    >>> columns = {
    ...     "target": ["a", "a", "a", "a"],
    ...     "prediction": ["a", "a", "a", "b"],
    ...     "group.site": ["x", "x", "y", "y"],
    ... }
    >>> value("fairness_ratio(accuracy, by=group.site)", **columns)
    0.5
    """
    low, high, defined = _ends(groups.values)
    comparable = (defined > 1) & (low >= 0) & (high > 0)
    return np.where(comparable, low / np.where(comparable, high, 1.0), np.nan)


def _gaps_of_odds(options: Mapping[str, Any]) -> tuple[Metric, ...]:
    own = {name: options[name] for name in ("positive", "answered_only")}
    return tuple(fairness_gap(base(**own), by=options["by"]) for base in (sensitivity, fpr))


@parts_of(
    _gaps_of_odds,
    Param("by", "column", named=True),
    *sensitivity.params,
    title="Equalized Odds Gap by {by}",
    also=("fairness", "equal opportunity"),
    better="lower",
    bounds=(0, 1),
    over_groups="gaps",
    answered_if=lambda options: options["answered_only"],
    rewards_declining=True,  # as fpr does
    formula="max(gap of sensitivity, gap of fpr) over groups",
    undefined="it needs two groups with positives and two with negatives",
    aliases=("equalized_odds_difference",),
    reference="Hardt, Price & Srebro (2016), Equality of opportunity in supervised learning",
)
def equalized_odds(found: Floats, alarms: Floats) -> Floats:
    """The larger of two gaps between groups, of sensitivity and of fpr: `equalized_odds(by=group.site)`.

    0 where every group's positives are found equally often, and its negatives falsely flagged equally often. A declined
    row is a miss and no alarm (see sensitivity and fpr). The interval is that of the two gaps, each at half the error.

    >>> columns = {
    ...     "target": ["yes", "no", "no", "yes", "no", "no"],
    ...     "prediction": ["yes", "yes", "no", "yes", "no", "no"],
    ...     "group.site": ["x", "x", "x", "y", "y", "y"],
    ... }
    >>> value("equalized_odds(by=group.site)", **columns)
    0.5
    """
    return np.maximum(found, alarms)


def _group_names(records: Records, by: str) -> tuple[str, ...]:
    return tuple(map(value_name, records.labels(by).values))


@over(
    title="Disparity of {base} by {by}: {label}",
    also=("fairness",),
    bounds=(None, None),
    over_groups="disparity",
    formula="group − overall, signed",
    members=_group_names,
    aliases=("disparities.{label}",),
)
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
    return _in(groups, label) - groups.overall


def _in(groups: GroupReading, label: str) -> Floats:
    names = [value_name(n) for n in groups.names]
    return groups.values[..., names.index(label)] if label in names else np.full(len(groups.overall), np.nan)


@over(
    title="{base} by {by}: {label}",
    also=("subgroup", "stratum"),
    better="as base",
    bounds=AS_BASE,
    over_groups="one",
    formula="the group's value",
    members=_group_names,
    aliases=("per_group.{label}.{base}",),
)
def in_group(groups: GroupReading, *, label: str) -> Floats:
    """A metric in one group: `in_group(accuracy, by=group.site).x`. Its interval is that of the metric on these rows.

    For every group at once, evaluate the metric in slices of the column.

    >>> columns = {
    ...     "target": ["a", "a", "a", "a"],
    ...     "prediction": ["a", "a", "a", "b"],
    ...     "group.site": ["x", "x", "y", "y"],
    ... }
    >>> value("in_group(accuracy, by=group.site).y", **columns)
    0.5
    """
    return _in(groups, label)


for _gap in (fairness_gap, fairness_ratio, worst_group):
    _gap.present(defined_groups)
fairness_gap.detail(values_by_group)
fairness_ratio.detail(values_by_group)
fairness_gap.vector(lambda groups: groups.values)
