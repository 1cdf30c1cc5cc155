"""How often is the answer right? Rates over all that was asked, over what was answered, and per class.

Abstained and unparsed rows are wrong for end-to-end metrics and outside answered-only ones; failed rows are in neither
and have a rate of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from steelyard.errors import InputError, UsageError
from steelyard.ground.arrays import Codes, Floats, Mask
from steelyard.metrics.contract import evidence, metric
from steelyard.metrics.evidence.sorted_rows import SortedReading, SortedRows, SortedTerms
from steelyard.metrics.evidence.sums import Cells, Sums, Terms, row_score, sums
from steelyard.metrics.options import CONFIDENCE, Column, Constant, Label
from steelyard.records.derive import ANSWERED, same_kind
from steelyard.records.labels import Labels, is_named, value_name
from steelyard.records.schema import OUTCOMES
from steelyard.records.table import Records

MOST_LABELS = 5_000  # above, a column holds texts or identifiers
SHOWN_LABELS = 200  # up to which the confusion matrix stands beside the value
_SMALL_CHOICE = 10_000  # keys × labels up to which a matrix product adds up fastest


@metric(better="higher", bounds=(0, 1), formula="correct / N")
def accuracy(correct: Floats) -> Floats:
    """Share of all asked rows that were answered correctly; declining and unreadable replies count as wrong.

    N = answered + abstained + unparsed. Read it beside selective_accuracy and answer_rate.

    >>> value("accuracy", target=["a", "b", "a", "b"], prediction=["a", "a", None, "b"])
    0.5
    """
    return correct


@metric(better="higher", bounds=(0, 1), rows="answered", formula="correct / answered")
def selective_accuracy(correct: Floats) -> Floats:
    """Share of the answered rows that are correct. Needs answer_rate beside it: answering only easy cases is easy.

    >>> value("selective_accuracy", target=["a", "b", "a"], prediction=["a", "a", None])
    0.5
    """
    return correct


@metric(bounds=(0, 1), formula="answered / N", aliases=("coverage",))
def answer_rate(answered: Floats) -> Floats:
    """Share of the asked rows with a usable answer (coverage).

    >>> value("answer_rate", prediction=["a", "a", None, None])
    0.5
    """
    return answered


@metric(bounds=(0, 1), formula="abstained / N")
def abstention_rate(abstained: Floats) -> Floats:
    """Share of the asked rows where the model declined. Whether that is good depends on the case.

    See deferral_alignment.

    >>> value("abstention_rate", prediction=["a", "a", None, None])
    0.5
    """
    return abstained


@metric(better="lower", bounds=(0, 1), formula="unparsed / N")
def parse_failure_rate(unparsed: Floats) -> Floats:
    """Share of the asked rows with a reply in which no answer could be read.

    >>> value("parse_failure_rate", prediction=["a", None], outcome=["answered", "unparsed"])
    0.5
    """
    return unparsed


@metric(better="lower", bounds=(0, 1), rows="all", formula="failed / (N + failed)")
def failure_rate(failed: Floats) -> Floats:
    """Share of all rows without any reply: transport, server or crash. Quality metrics leave these rows out.

    >>> value("failure_rate", prediction=["a", None], outcome=["answered", "failed"])
    0.5
    """
    return failed


@metric(
    better="higher",
    bounds=(0, 1),
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
    held = evidence.each.n > 0
    return held, np.where(held.any(0), 1.0, 0.0) / max(int(held.any(0).sum()), 1)


# -- the confusion matrix and what reads it -----------------------------------------------------------------------


@evidence(reads=("target", "prediction"))
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


@confusion.prepare
def _(tables: Sequence[Records], labels: tuple[Any, ...] | None) -> dict[str, Any]:
    """The labels to average over: as asked, the task's, or those of both runs of a comparison."""
    if labels is not None and (not labels or len(set(labels)) < len(labels)):
        raise UsageError("labels is a list of different labels, such as [A, B]")
    if labels is None:
        labels = tables[0].task.labels
    if labels is None and len(tables) > 1:
        seen = {v for t in tables for name in ("target", "prediction") for v in t.labels(name).values}
        labels = tuple(sorted(seen))
    return {"labels": labels}


def _refuse_many(metric: str, labels: int, records: Records) -> None:
    if labels > MOST_LABELS:
        raise InputError(
            f"{metric} over {labels:,} labels: above {MOST_LABELS:,} these are no classes; "
            "accuracy counts exact matches, and --map target=… names another column",
            file=records.name,
        )


def _refuse_outside(target: Labels, labels: tuple[Any, ...], records: Records) -> None:
    known = set(map(value_name, labels))
    outside = np.array([value_name(v) not in known for v in target.values] + [False])[target.codes]
    if outside.any():
        file, line = records.where(int(np.flatnonzero(outside)[0]))
        raise InputError("the target is not among the labels", file=file, line=line, field="target")


def _asks_answered(options: Mapping[str, Any]) -> bool:
    return bool(options["answered_only"])


def _counts(s: Cells, labels: tuple[Any, ...] | None) -> _Counts:
    """The counts of a reading, made once for all that asks for them."""
    kept = _COUNTED.setdefault(s, {})
    if labels not in kept:
        kept[labels] = _Counts(s, labels)
    return kept[labels]


_COUNTED: WeakKeyDictionary[Cells, dict[tuple[Any, ...] | None, _Counts]] = WeakKeyDictionary()


class _Counts:
    """Hits, support and predictions per class, (resamples, classes) each, over the given or the seen labels."""

    def __init__(self, s: Cells, labels: tuple[Any, ...] | None) -> None:
        truth, guess = s.key(0), s.key(1)
        self.fixed = labels is not None
        seen = labels if labels is not None else {*truth, *(g for g in guess if g is not None)}
        self.labels = tuple(labels) if labels is not None else tuple(sorted(seen))
        names = {value_name(label): i for i, label in enumerate(self.labels)}
        rows = np.array([names.get(value_name(t), -1) for t in truth], np.int64)
        columns = np.array([-1 if g is None else names.get(value_name(g), -1) for g in guess], np.int64)
        self.truth, self.guess, self.n = rows, columns, s.n
        self.silent = np.array([g is None for g in guess], bool)
        both = np.where(rows == columns, rows, -1)
        self.hits, self.support, self.predicted = (_added(s.n, at, len(self.labels)) for at in (both, rows, columns))

    @property
    def f1(self) -> Floats:
        both = self.support + self.predicted
        return np.where(both > 0, 2 * self.hits / np.where(both > 0, both, 1), 0.0)

    @property
    def counted(self) -> Mask:
        """Classes that enter an average: the fixed set, or those that occur."""
        return np.full_like(self.support, True, bool) if self.fixed else self.support + self.predicted > 0


def _added(n: Floats, place: Codes, size: int) -> Floats:
    """The columns of n added up by their place: (resamples, size). Place −1 is none.

    However many labels there are, every column is looked at once.
    """
    if size * len(place) <= _SMALL_CHOICE:
        return n @ (place[:, None] == np.arange(size)).astype(float)
    found = np.zeros((size, len(n)))
    order = np.argsort(place, kind="stable")
    order = order[place[order] >= 0]
    if len(order):
        places, starts = np.unique(place[order], return_index=True)
        found[places] = np.add.reduceat(n.T[order], starts, axis=0)
    return found.T


@confusion.metric(
    better="higher",
    bounds=(0, 1),
    answered_if=_asks_answered,
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
    counts = _counts(s, labels)
    counted = counts.counted
    mean = np.where(counted, counts.f1, 0).sum(-1) / counted.sum(-1)
    return np.where(s.n.sum(-1) > 0, mean, np.nan)


@f1_macro.present
def _(s: Cells, *, labels: Constant) -> Mask:
    counts = _counts(s, labels)
    return counts.support + counts.predicted > 0


@f1_macro.detail
def _(s: Cells, *, labels: Constant) -> dict[str, Any]:
    counts = _counts(s, labels)
    size = len(counts.labels)
    outside = (counts.guess < 0) & ~counts.silent
    matrix = None
    if size <= SHOWN_LABELS:  # it grows with their square
        table = np.zeros((size + 1, size + 1), int)
        np.add.at(table, (counts.truth, counts.guess), counts.n[0].astype(int))
        matrix = table[:size, :size].tolist()
    unmet = [
        value_name(v)
        for v, up, n in zip(counts.labels, counts.support[0], counts.predicted[0], strict=True)
        if n and not up
    ]
    return {
        "labels": list(counts.labels),
        "confusion_matrix": matrix,
        "no_answer": _whole(_added(counts.n[:1], np.where(counts.silent, counts.truth, -1), size)),
        "outside_labels": _whole(_added(counts.n[:1], np.where(outside, counts.truth, -1), size)),
        **{name: _whole(getattr(counts, name)) for name in ("hits", "support", "predicted")},
        "predicted_but_never_a_target": unmet,
    }


def _whole(counts: Floats) -> list[int]:
    """The counts of the data as they are, a class each."""
    return list(map(int, counts[0]))


@confusion.metric(better="higher", bounds=(0, 1), answered_if=_asks_answered, formula="Σ_c support_c / N · F1_c")
def f1_weighted(s: Cells, *, labels: Constant) -> Floats:
    """Mean F1 over the classes, each weighted by its support.

    >>> round(value("f1_weighted", target=["a", "a", "a", "b"], prediction=["a", "a", "a", "a"]), 6)
    0.642857
    """
    counts = _counts(s, labels)
    return (counts.f1 * counts.support).sum(-1) / counts.support.sum(-1)


@f1_weighted.present
def _(s: Cells, *, labels: Constant) -> Mask:
    return _counts(s, labels).support > 0


def _class_clusters(evidence: Sums, labels: tuple[Any, ...] | None) -> tuple[Mask, Floats, Mask]:
    """Which clusters hold each class (clusters × classes), its rows, and whether it occurs at all.

    A class stands on the clusters where it is the target; one that is only ever predicted, on those where it is said.
    """
    from scipy import sparse

    cells: Any = sparse.csr_array(evidence.cells).sign()
    truth, guess = ([None if v is None else value_name(v) for v in key.tolist()] for key in evidence.keys)
    met = {name for name in (*truth, *guess) if name is not None}
    names = list(map(value_name, labels)) if labels is not None else sorted(met)
    place = {name: i for i, name in enumerate(names)}
    sides = [np.array([-1 if n is None else place.get(n, -1) for n in side], np.int64) for side in (truth, guess)]
    held = []
    for at in sides:
        inside = np.flatnonzero(at >= 0)
        pick = sparse.coo_array((np.ones(len(inside)), (inside, at[inside])), shape=(len(at), len(names)))
        held.append(np.asarray((cells @ pick.tocsr()).toarray()) > 0)
    support = np.bincount(
        np.where(sides[0] >= 0, sides[0], len(names)),
        weights=np.asarray(evidence.cells.sum(axis=0)).ravel(),
        minlength=len(names) + 1,
    )[: len(names)].astype(np.float64)
    return np.where(support > 0, held[0], held[1]), support, np.asarray(held[0].any(0) | held[1].any(0))


@f1_macro.parts
def _(evidence: Sums, *, labels: Constant) -> tuple[Any, Floats]:
    held, _, met = _class_clusters(evidence, labels)
    return held, np.where(met, 1.0, 0.0) / max(len(met) if labels is not None else int(met.sum()), 1)


@f1_weighted.parts
def _(evidence: Sums, *, labels: Constant) -> tuple[Any, Floats]:
    held, support, _ = _class_clusters(evidence, labels)
    return held, support / max(float(support.sum()), 1.0)


def _classes(records: Records) -> tuple[str, ...]:
    """The labels a family such as `f1` expands to."""
    fixed = records.task.labels
    if fixed is not None:
        return tuple(map(value_name, fixed))
    same_kind(records)
    return tuple(map(value_name, sorted({*records.labels("target").values, *records.labels("prediction").values})))


@confusion.metric(
    better="higher",
    bounds=(0, 1),
    answered_if=_asks_answered,
    formula="2 TP / (support + predicted)",
    members=_classes,
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
    held, _, _ = _class_clusters(evidence, (own,))
    return held, np.ones(1)


def _is(records: Records, column: str, label: str) -> Mask:
    labels = records.labels(column)
    place = [i for i, v in enumerate(labels.values) if is_named(v, label)]
    return labels.codes == (place[0] if place else -2)


@metric(
    better="higher",
    bounds=(0, 1),
    formula="TP / predicted",
    reads=("target", "prediction"),
    members=_classes,
    rewards_declining=True,
)
def precision(records: Records, *, label: str) -> Terms:
    """Of the rows predicted as this class, the share that is: `precision.Critical`. Undefined without predictions.

    >>> value("precision.a", target=["a", "b", "b"], prediction=["a", "a", "b"])
    0.5
    """
    same_kind(records)
    claimed = _is(records, "prediction", label) & (records.array("answered") == 1)
    hit = np.where(records.labels("target").missing, np.nan, _is(records, "target", label))
    return row_score(hit, left_out={"not predicted as this class": ~claimed})


@metric(better="higher", bounds=(0, 1), formula="TP / support", reads=("target", "prediction"), members=_classes)
def recall(records: Records, *, label: str) -> Terms:
    """Of the rows of this class, the share found: `recall.Critical`. A non-answer is a miss. Undefined without support.

    >>> value("recall.a", target=["a", "a", "b"], prediction=["a", None, "b"])
    0.5
    """
    same_kind(records)
    found = _is(records, "prediction", label) & (records.array("answered") == 1)
    lacking = records.labels("target").missing  # it may be of this class
    hit = np.where(lacking, np.nan, found)
    return row_score(hit, left_out={"another class": ~_is(records, "target", label) & ~lacking})


@metric(
    better="higher",
    bounds=(0, 1),
    formula="P(score of a positive > score of a negative) + ½ P(equal)",
    undefined="it needs both positives and negatives",
    rows=lambda options: "answered" if options["positive"] is None else "asked",
    reads=("target", "prediction"),
    reads_order=True,
)
def auroc(records: Records, *, positive: Label | None = None, score: Column = CONFIDENCE) -> SortedTerms:
    """How well a score separates positives from negatives; ties count ½.

    By default confidence ranks correct over incorrect answered rows. `auroc(positive=X, score=col)` ranks targets
    equal to X over the others, on every row with a score.

    >>> value("auroc", target=["a", "a", "b"], prediction=["a", "b", "b"], confidence=[0.9, 0.5, 0.7])
    1.0
    """
    scores = np.asarray(score, float)
    return SortedTerms(scores, claimed(records, positive))


def claimed(records: Records, positive: str | None) -> Floats:
    """What a score is about: that the answer is correct, or that the target is `positive`; NaN without a target."""
    if positive is None:
        return np.asarray(records.array("correct"), np.float64)
    return np.where(records.labels("target").missing, np.nan, _is(records, "target", positive))


@auroc.prepare
def known_positive(tables: Sequence[Records], positive: str | None) -> dict[str, Any]:
    """Nothing, or why a metric about one class is undefined: no target is that class, as where it is misspelt."""
    known = positive is None or any(is_named(v, positive) for t in tables for v in t.labels("target").values)
    return {} if known else {"undefined": "no target equals the positive label"}


@auroc.finish
def _(s: SortedReading) -> Floats:
    return s.auroc


@auroc.parts
def _(evidence: SortedRows) -> tuple[Any, Floats]:
    """Two parts: the positives and the negatives."""
    held = [np.bincount(evidence.cluster[evidence.value == v], minlength=len(evidence.ids)) > 0 for v in (1.0, 0.0)]
    return np.stack(held, -1), np.full(2, 0.5)


@metric(formula="mean of the column", share=True)
def mean(*, column: Column, better: str | None = None) -> Floats:
    """Mean of a numeric column that another tool computed, one score a row: `mean(score, better=higher)`.

    >>> value("mean(score)", score=[1.0, 0.0, 1.0, 1.0])
    0.75
    """
    if better not in (None, "higher", "lower"):
        raise UsageError("mean: better is higher or lower")
    return np.asarray(column, float)


@mean.prepare
def _(tables: Sequence[Records], better: str | None) -> dict[str, Any]:
    return {"better": better or tables[0].task.direction}
