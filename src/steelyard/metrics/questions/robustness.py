"""Does a metric hold when questions are altered, and when they are asked again?"""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.ground.arrays import Floats
from steelyard.metrics.contract import across, evidence, over
from steelyard.metrics.evidence.combined import GroupReading, defined_groups, values_by_group
from steelyard.metrics.evidence.sums import Cells, Sums, Terms, sums
from steelyard.metrics.metric import Metric
from steelyard.metrics.views import partnerless
from steelyard.metrics.vocabulary import UNIT
from steelyard.records.table import Records

# -- repetitions ---------------------------------------------------------------------------------------------------


def deviation(values: Floats) -> Floats:
    """Population standard deviation over the last axis."""
    return np.sqrt(np.maximum(((values - values.mean(-1, keepdims=True)) ** 2).mean(-1), 0.0))


@over(
    "repeat",
    title="Stability of {base}",
    member_titles={
        "mean": "{base}, Mean over Repeats",
        "stddev": "{base}, Standard Deviation over Repeats",
        "sample_stddev": "{base}, Sample Standard Deviation over Repeats",
        "cv": "{base}, Coefficient of Variation over Repeats",
        "n_seeds": "Number of Repeats",
    },
    also=("variance", "repeats", "seeds", "std"),
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
    title="Stability Score of {base}",
    also=("variance", "repeatability"),
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
    _steady.present(defined_groups)
stability_score.detail(values_by_group)
stability_score.vector(_relative)


# -- altered questions ---------------------------------------------------------------------------------------------


@evidence(reads=("prediction", "reference.prediction", "reference.outcome"), bounds=UNIT, perturbed_only=True)
def flips(records: Records) -> Terms:
    """Rows whose answer differs from their unperturbed partner's; two abstentions agree.

    A reply that could not be read says neither that the answer is the same nor that it is another: it lacks a value.
    """
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
        missing={
            **{reason: rows for reason, rows in partnerless(records).items() if reason != "failed"},
            "unparsed": np.asarray(outcome == "unparsed") | np.asarray(partner == "unparsed"),
        },
    )


@flips.metric(
    title="Consistency Rate",
    also=("agreement", "self consistency"),
    better="higher",
    formula="rows that agree with their partner / rows",
)
def consistency_rate(s: Cells) -> Floats:
    """Share of altered questions answered as the original was; two abstentions agree, unread replies are left out.

    >>> columns = {"prediction": ["a", "a"], "item": [1, 1], "perturbation": [None, "typo"]}
    >>> value("consistency_rate", **columns)
    1.0
    """
    return 1 - s.flip / s.n


@flips.metric(
    title="Flip Rate",
    also=("changed answers",),
    better="lower",
    formula="rows that differ from their partner / rows",
)
def flip_rate(s: Cells) -> Floats:
    """Share of altered questions answered otherwise than the original.

    >>> columns = {"prediction": ["a", "b"], "item": [1, 1], "perturbation": [None, "typo"]}
    >>> value("flip_rate", **columns)
    1.0
    """
    return s.flip / s.n


@flips.metric(
    title="Flips to Correct",
    also=("flips",),
    formula="flips that became correct / flips",
)
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


@flips.metric(
    title="Flips to Incorrect",
    also=("flips",),
    better="lower",
    formula="flips that became incorrect / flips",
)
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
    title="Robustness Score of {base}",
    also=("robustness", "perturbation"),
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


@across("reference", title="Relative Change of {base}", also=("robustness",), formula="(M′ − M) / |M|")
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
