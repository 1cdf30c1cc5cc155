"""How often is the answer right? Rates over all that was asked, over what was answered, and per class.

Abstained and unparsed rows are wrong for end-to-end metrics and outside answered-only ones; failed rows are in neither
and have a rate of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steelyard.errors import InputError, UsageError
from steelyard.ground.arrays import Floats, Mask
from steelyard.metrics.claims import class_names, is_label
from steelyard.metrics.contract import evidence, metric
from steelyard.metrics.evidence.confusion import class_clusters, confusion_counts, confusion_matrix
from steelyard.metrics.evidence.sums import Cells, Sums, Terms, sums
from steelyard.metrics.options import Column, Constant
from steelyard.metrics.rates import rate, share
from steelyard.metrics.vocabulary import UNIT, Default
from steelyard.records.derive import ANSWERED, same_kind
from steelyard.records.labels import Labels, is_named, value_name
from steelyard.records.schema import OUTCOMES
from steelyard.records.table import Records

MOST_LABELS = 5_000  # above, a column holds texts or identifiers
SHOWN_LABELS = 200  # up to which the confusion matrix is shown next to the value


@rate(
    title="Accuracy",
    aliases=("acc",),
    also=("correct", "hits", "score", "success rate"),
    better="higher",
    default_for=(Default("labels", 1),),
    formula="correct / N",
)
def accuracy(correct: Floats) -> Floats:
    """Share of all asked rows that were answered correctly; declining and unreadable replies count as wrong.

    N = answered + abstained + unparsed. Read it together with selective_accuracy and answer_rate.

    >>> value("accuracy", target=["a", "b", "a", "b"], prediction=["a", "a", None, "b"])
    0.5
    """
    return correct


@rate(
    title="Selective Accuracy (answered only)",
    also=("accuracy of answers", "conditional accuracy", "answered accuracy"),
    better="higher",
    rows="answered",
    default_for=(Default("labels", 4),),
    formula="correct / answered",
)
def selective_accuracy(correct: Floats) -> Floats:
    """Share of the answered rows that are correct. Needs answer_rate next to it: answering only easy cases is easy.

    >>> value("selective_accuracy", target=["a", "b", "a"], prediction=["a", "a", None])
    0.5
    """
    return correct


@metric(
    title="Balanced Accuracy",
    aliases=("bacc",),
    also=("macro recall", "uar"),
    better="higher",
    bounds=(0, 1),
    default_for=(Default("classes", 2),),
    formula="mean over classes of correct_c / N_c",
    reads=("target", "prediction"),
    undefined="it needs at least two classes among the targets",
)
def balanced_accuracy(records: Records) -> Terms:
    """Mean recall over the classes in the targets; undefined with fewer than two.

    >>> value("balanced_accuracy", target=["a", "a", "a", "b"], prediction=["a", "a", "a", "a"])
    0.5
    """
    target = records.labels("target")
    _refuse_many("balanced_accuracy", len(target.values), records)
    return sums(hits=records.array("correct"), n=1, by=target)


@balanced_accuracy.finish
def _(s: Cells) -> Floats:
    seen = s.n > 0
    recall = np.where(seen, s.hits / np.where(seen, s.n, 1), 0).sum(-1)
    classes = seen.sum(-1)
    return np.where(classes >= 2, recall / np.maximum(classes, 1), np.nan)


@balanced_accuracy.present
def _(s: Cells) -> Mask:
    return s.n > 0


@balanced_accuracy.shares
def _(evidence: Sums) -> tuple[Floats, Floats]:
    """The recalls that are averaged: hits and rows of each class."""
    return evidence.each.hits, evidence.each.n


@balanced_accuracy.parts
def _(evidence: Sums) -> tuple[Any, Floats]:
    holds = evidence.each.n > 0
    return holds, np.where(holds.any(0), 1.0, 0.0) / max(int(holds.any(0).sum()), 1)


# -- the confusion matrix and what reads it -----------------------------------------------------------------------


@evidence(reads=("target", "prediction"), better="higher", bounds=UNIT)
def confusion(records: Records, *, labels: tuple[Any, ...] | None = None, answered_only: bool = False) -> Terms:
    """Rows counted by target and prediction; a non-answer has no prediction."""
    same_kind(records)
    target, prediction = records.labels("target"), records.labels("prediction")
    silent = records.outcome != ANSWERED
    seen = {*target.values, *prediction.values} if labels is None else labels
    _refuse_many("f1_macro and its kin", len(seen), records)
    if labels is not None:
        _refuse_outside(target, labels, records)
    if not silent.any():
        return sums(n=1, by=(target, prediction))
    codes = np.where(silent, len(prediction.values), prediction.codes)
    guess = Labels(codes, (*prediction.values, None))
    outside = {name: records.outcome == code for code, name in enumerate(OUTCOMES) if code != ANSWERED}
    return sums(n=1, by=(target, guess), left_out=outside if answered_only else None)


@confusion.summary
def _(table: Records, labels: tuple[Any, ...] | None) -> dict[str, Any]:
    """The labels of the task, and those met in a table that has none stated."""
    if labels is not None and (not labels or len(set(labels)) < len(labels)):
        raise UsageError("labels is a list of different labels, such as [A, B]")
    stated = labels if labels is not None else table.task.labels
    columns = [name for name in ("target", "prediction") if stated is None and name in table]
    return {"stated": stated, "met": {value for name in columns for value in table.labels(name).values}}


@confusion.merge
def _(summaries: Sequence[Any], runs: int) -> dict[str, Any]:
    """The labels to average over: as asked, the task's, or those of both runs of a comparison."""
    labels = summaries[0]["stated"]
    if labels is None and runs > 1:
        labels = tuple(sorted(set().union(*(summary["met"] for summary in summaries))))
    return {"labels": labels}


def _refuse_many(metric: str, labels: int, records: Records) -> None:
    if labels > MOST_LABELS:
        raise InputError(
            f"{metric} over {labels:,} labels: above {MOST_LABELS:,} these are no classes; "
            'accuracy counts exact matches, and `map={"target": "…"}` names another column',
            file=records.name,
        )


def _refuse_outside(target: Labels, labels: tuple[Any, ...], records: Records) -> None:
    known = set(map(value_name, labels))
    outside = np.array([value_name(v) not in known for v in target.values] + [False])[target.codes]
    if outside.any():
        file, line = records.where(int(np.flatnonzero(outside)[0]))
        raise InputError("the target is not among the labels", file=file, line=line, field="target")


@confusion.metric(
    title="Macro F1",
    also=("f1", "f measure", "f score", "confusion"),
    default_for=(Default("classes", 3),),
    formula="mean over classes of 2 TP / (support + predicted)",
    aliases=("confusion_matrix",),
    reference="Opitz & Burst (2019), Macro F1 and Macro F1",
)
def f1_macro(s: Cells, *, labels: Constant) -> Floats:
    """Mean F1 over the classes, each with equal weight; an empty class of a fixed label set counts 0.

    A non-answer is a miss for its true class and a false positive for none; `answered_only=true` leaves it out.

    >>> round(value("f1_macro", target=["a", "a", "b", "b"], prediction=["a", "b", "b", None]), 6)
    0.583333
    """
    counts = confusion_counts(s, labels)
    counted = counts.counted
    mean = np.where(counted, counts.f1, 0).sum(-1) / counted.sum(-1)
    return np.where(s.n.sum(-1) > 0, mean, np.nan)


@f1_macro.present
def _(s: Cells, *, labels: Constant) -> Mask:
    counts = confusion_counts(s, labels)
    return counts.support + counts.predicted > 0


@f1_macro.detail
def _(s: Cells, *, labels: Constant) -> dict[str, Any]:
    return confusion_matrix(confusion_counts(s, labels), SHOWN_LABELS)


@confusion.metric(
    title="Weighted F1",
    aliases=("weighted_f1",),
    also=("f1", "f score"),
    formula="Σ_c support_c / N · F1_c",
)
def f1_weighted(s: Cells, *, labels: Constant) -> Floats:
    """Mean F1 over the classes, each weighted by its support.

    >>> round(value("f1_weighted", target=["a", "a", "a", "b"], prediction=["a", "a", "a", "a"]), 6)
    0.642857
    """
    counts = confusion_counts(s, labels)
    return (counts.f1 * counts.support).sum(-1) / counts.support.sum(-1)


@f1_weighted.present
def _(s: Cells, *, labels: Constant) -> Mask:
    return confusion_counts(s, labels).support > 0


@f1_macro.parts
def _(evidence: Sums, *, labels: Constant) -> tuple[Any, Floats]:
    holds, _, met = class_clusters(evidence, labels)
    return holds, np.where(met, 1.0, 0.0) / max(len(met) if labels is not None else int(met.sum()), 1)


@f1_weighted.parts
def _(evidence: Sums, *, labels: Constant) -> tuple[Any, Floats]:
    holds, support, _ = class_clusters(evidence, labels)
    return holds, support / max(float(support.sum()), 1.0)


@confusion.metric(
    title="F1 of {label}",
    aliases=("per_class.{label}.f1",),
    also=("f score", "f measure"),
    formula="2 TP / (support + predicted)",
    members=class_names,
    undefined="the class is neither a target nor predicted",
)
def f1(s: Cells, *, label: str) -> Floats:
    """F1 of one class: `f1.Critical`. Undefined where the class is neither a target nor predicted.

    >>> round(value("f1.a", target=["a", "a", "b"], prediction=["a", "b", "b"]), 6)
    0.666667
    """
    truth, guess = (np.array([is_named(v, label) for v in s.key(part)], bool) for part in (0, 1))
    hits, support, predicted = (s.n[:, is_].sum(1) for is_ in (truth & guess, truth, guess))
    return np.asarray(2 * hits / (support + predicted))


@f1.parts
def _(evidence: Sums, *, label: str) -> tuple[Any, Floats]:
    own = next((v for key in evidence.keys for v in key.tolist() if v is not None and is_named(v, label)), label)
    holds, _, _ = class_clusters(evidence, (own,))
    return holds, np.ones(1)


@rate(
    title="Precision of {label}",
    aliases=("per_class.{label}.precision",),
    better="higher",
    formula="TP / predicted",
    reads=("target", "prediction"),
    members=class_names,
    rewards_declining=True,
)
def precision(records: Records, *, label: str) -> Terms:
    """Of the rows predicted as this class, the share that is: `precision.Critical`. Undefined without predictions.

    >>> value("precision.a", target=["a", "b", "b"], prediction=["a", "a", "b"])
    0.5
    """
    same_kind(records)
    claimed = is_label(records, "prediction", label) & (records.array("answered") == 1)
    hit = np.where(records.labels("target").missing, np.nan, is_label(records, "target", label))
    return share(hit, among=claimed, otherwise="not predicted as this class")


@rate(
    title="Recall of {label}",
    aliases=("per_class.{label}.recall",),
    better="higher",
    formula="TP / support",
    reads=("target", "prediction"),
    members=class_names,
)
def recall(records: Records, *, label: str) -> Terms:
    """Of the rows of this class, the share found: `recall.Critical`. A non-answer is a miss. Undefined without support.

    >>> value("recall.a", target=["a", "a", "b"], prediction=["a", None, "b"])
    0.5
    """
    same_kind(records)
    recognised = is_label(records, "prediction", label) & (records.array("answered") == 1)
    target = is_label(records, "target", label)
    here = np.where(records.labels("target").missing, np.nan, target)  # without a target it may be of this class
    return share(recognised, among=here, otherwise="another class")


@metric(
    title="Mean of {column}",
    also=("average", "avg"),
    default_for=(Default("scores", 1),),
    formula="mean of the column",
    share=True,
)
def mean(*, column: Column, better: str | None = None) -> Floats:
    """Mean of a numeric column that another tool computed, one score a row: `mean(score, better=higher)`.

    >>> value("mean(score)", score=[1.0, 0.0, 1.0, 1.0])
    0.75
    """
    if better not in (None, "higher", "lower"):
        raise UsageError("mean: better is higher or lower")
    return np.asarray(column, float)


@mean.summary
def _(table: Records, better: str | None) -> dict[str, Any]:
    return {"better": better or table.task.direction}
