"""Is the condition found, and only where it is? Rates of one class against the rest, as screening and diagnosis ask.

One class is the positive one: `positive=` says which. Without it, it is the task's `positive` label; else 1 of 0 and 1,
true of true and false; else the rarer of the two target labels of the task (of equally rare ones the last in order).
The detail of every value names it, and a warning says so where nobody did. Of more than two labels, `positive=` must
say which.

A model may decline. A declined or unreadable row of either class was not recognised: it is a miss for sensitivity and
for specificity alike, and it raises no false alarm. So `fnr` = 1 − `sensitivity`, but `fpr` = 1 − `specificity` only
where everything is answered: with declining, `fpr` is smaller. `answered_only=true` reads answered rows alone, where
both equations hold. `ppv` and `npv` are about what was said, so they read answered rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from steelyard.errors import InputError, UsageError
from steelyard.metrics.claims import class_in_table, is_label, one_class
from steelyard.metrics.contract import metric
from steelyard.metrics.evidence.sums import Cells, Terms, row_score
from steelyard.metrics.options import CONFIDENCE, Column, Constant, Label
from steelyard.metrics.rates import rate, share
from steelyard.records.derive import ANSWERED, same_kind
from steelyard.records.table import Records


def _named_class(_: Cells, *, positive: Constant) -> dict[str, Any]:
    return {"positive": positive}


# of one class against the rest; the detail says which class that is
_rate = partial(rate, reads=("target", "prediction"), summary=class_in_table, merge=one_class, detail=_named_class)


def _recognised(
    records: Records,
    positive: str,
    answered_only: bool,
    *,
    of_positives: bool,
    says_positive: bool,
    missed: bool = False,
) -> Terms:
    """Of the rows of one side, the share that was answered with a label of one side, or that was not."""
    same_kind(records)
    answered = records.outcome == ANSWERED
    side = is_label(records, "target", positive) == of_positives
    here = np.where(records.labels("target").missing, np.nan, side)  # without a target it may be of either side
    said = answered & (is_label(records, "prediction", positive) == says_positive)
    left_out = {"not answered": ~answered & (here == 1)} if answered_only else None
    return share(said != missed, among=here, otherwise="negative" if of_positives else "positive", left_out=left_out)


@_rate(
    title="Sensitivity",
    also=("recall", "detection rate"),
    better="higher",
    formula="TP / positives",
    undefined="no target is the positive label",
    aliases=("tpr", "true_positive_rate"),
    reference="Altman & Bland (1994), Diagnostic tests 1: sensitivity and specificity",
)
def sensitivity(records: Records, *, positive: Label | None = None, answered_only: bool = False) -> Terms:
    """Of the positives, the share that was found: `sensitivity(positive=sick)`. A declined positive is a miss.

    Undefined without positives. `answered_only=true` leaves out what was declined; read answer_rate with it.

    >>> value("sensitivity(positive=sick)", target=["sick", "sick", "well"], prediction=["sick", None, "well"])
    0.5
    """
    return _recognised(records, str(positive), answered_only, of_positives=True, says_positive=True)


@_rate(
    title="Specificity",
    also=("selectivity",),
    better="higher",
    formula="TN / negatives",
    undefined="every target is the positive label",
    aliases=("tnr", "true_negative_rate"),
    reference="Altman & Bland (1994), Diagnostic tests 1: sensitivity and specificity",
)
def specificity(records: Records, *, positive: Label | None = None, answered_only: bool = False) -> Terms:
    """Of the negatives, the share that was recognised as such. A declined negative is a miss, no true negative.

    So 1 − specificity counts declined negatives, and fpr does not. Undefined without negatives.

    >>> value("specificity(positive=sick)", target=["sick", "well", "well"], prediction=["sick", "well", None])
    0.5
    """
    return _recognised(records, str(positive), answered_only, of_positives=False, says_positive=False)


@_rate(
    title="False Positive Rate",
    also=("false alarm rate", "type i error"),
    better="lower",
    rewards_declining=True,
    formula="FP / negatives",
    undefined="every target is the positive label",
    aliases=("false_positive_rate", "fall_out"),
)
def fpr(records: Records, *, positive: Label | None = None, answered_only: bool = False) -> Terms:
    """Of the negatives, the share that was called positive. Declining raises no false alarm.

    Where models decline, fpr is less than 1 − specificity; with `answered_only=true` they are equal. A model that
    declines everything has an fpr of 0: read answer_rate together with it.

    >>> value("fpr(positive=sick)", target=["sick", "well", "well", "well"], prediction=["sick", "sick", "well", None])
    0.3333333333333333
    """
    return _recognised(records, str(positive), answered_only, of_positives=False, says_positive=True)


@_rate(
    title="False Negative Rate",
    also=("missed", "type ii error"),
    better="lower",
    formula="1 − TP / positives",
    undefined="no target is the positive label",
    aliases=("false_negative_rate", "miss_rate"),
)
def fnr(records: Records, *, positive: Label | None = None, answered_only: bool = False) -> Terms:
    """Of the positives, the share that was missed: called negative, declined or unreadable. It is 1 − sensitivity.

    >>> value("fnr(positive=sick)", target=["sick", "sick", "well"], prediction=["sick", None, "well"])
    0.5
    """
    return _recognised(records, str(positive), answered_only, of_positives=True, says_positive=True, missed=True)


def _predictive(records: Records, positive: str, *, says_positive: bool) -> Terms:
    """Of the answers with a label of one side, the share whose target is of that side."""
    same_kind(records)
    side = is_label(records, "prediction", positive) == says_positive
    hit = np.where(records.labels("target").missing, np.nan, is_label(records, "target", positive) == says_positive)
    reason = "not called positive" if says_positive else "not called negative"
    return share(hit, among=(records.outcome == ANSWERED) & side, otherwise=reason)


@_rate(
    title="Positive Predictive Value",
    also=("precision",),
    rows="answered",
    better="higher",
    rewards_declining=True,
    formula="TP / (TP + FP)",
    undefined="nothing was called positive",
    aliases=("positive_predictive_value",),
    reference="Altman & Bland (1994), Diagnostic tests 2: predictive values",
)
def ppv(records: Records, *, positive: Label | None = None) -> Terms:
    """Of the rows called positive, the share that is: precision of the positive class. Undefined if none was.

    It depends on how common positives are in the table: with rare ones it is lower for the same model.

    >>> value("ppv(positive=sick)", target=["sick", "well", "well"], prediction=["sick", "sick", "well"])
    0.5
    """
    return _predictive(records, str(positive), says_positive=True)


@_rate(
    title="Negative Predictive Value",
    rows="answered",
    better="higher",
    rewards_declining=True,
    formula="TN / (TN + FN)",
    undefined="nothing was called negative",
    aliases=("negative_predictive_value",),
    reference="Altman & Bland (1994), Diagnostic tests 2: predictive values",
)
def npv(records: Records, *, positive: Label | None = None) -> Terms:
    """Of the rows called negative, the share that is. A declined row was not called negative. Undefined if none was.

    >>> value("npv(positive=sick)", target=["sick", "well", "sick"], prediction=["sick", "well", "well"])
    0.5
    """
    return _predictive(records, str(positive), says_positive=False)


@_rate(
    title="Selection Rate",
    also=("demographic parity", "acceptance rate"),
    reads=("prediction",),
    formula="called positive / N",
    aliases=("positive_rate",),
    reference="Dwork et al. (2012), Fairness through awareness",
)
def selection_rate(records: Records, *, positive: Label | None = None) -> Terms:
    """Share of the asked rows that were called positive, right or wrong; a declined row was not.

    Demographic parity is `fairness_gap(selection_rate, by=group.x)`, as a ratio `fairness_ratio(selection_rate,
    by=group.x)`, where the four-fifths rule asks for 0.8. Groups may differ in what is asked, so 0 is not always fair.

    >>> value("selection_rate(positive=sick)", prediction=["sick", "well", None, "well"])
    0.25
    """
    said = (records.outcome == ANSWERED) & is_label(records, "prediction", str(positive))
    return row_score(said.astype(np.float64))


# -- what acting on a probability is worth ---------------------------------------------------------------------------


@metric(
    title="Net Benefit at {pt}",
    also=("decision curve", "decision curve analysis", "dca"),
    better="higher",
    bounds=(None, 1),
    bounds_of=lambda options: (-_odds(options["pt"]), 1.0),
    reads=("target",),
    formula="TP/N − FP/N · pt/(1 − pt), called positive where score ≥ pt",
    undefined="no row has a target and a score, or was declined",
    reference="Vickers & Elkin (2006), Decision curve analysis",
)
def net_benefit(records: Records, *, pt: float, positive: Label | None = None, score: Column = CONFIDENCE) -> Terms:
    """What treating everyone with P(positive) ≥ pt is worth, in true positives per row: `net_benefit(pt=0.1)`.

    `pt` is the probability at which harm and benefit of treating balance: at 0.1, nine needless treatments weigh as
    much as one found case. The score is the probability of the positive class; a row with a score of `pt` or more is
    treated, a row that was declined or unreadable is not, and both count. An answered row without a score is left out.
    The detail has what treating all is worth; treating none is worth 0.

    >>> columns = {"target": ["sick", "well", "well", "well"], "risk": [0.8, 0.6, 0.2, 0.1]}
    >>> value("net_benefit(pt=0.5, positive=sick, score=risk)", **columns)
    0.0
    """
    truth = np.where(records.labels("target").missing, np.nan, is_label(records, "target", str(positive)))
    scores = np.asarray(score, np.float64)
    if ((scores < 0) | (scores > 1)).any():
        raise InputError("net_benefit: the score is a probability, from 0 to 1", file=records.name)
    answered = records.outcome == ANSWERED
    treated = np.where(answered & np.isnan(scores), np.nan, answered & (scores >= pt))
    hits, alarms = truth * treated, (1 - truth) * treated
    return row_score(hits - alarms * _odds(pt), hits=hits, alarms=alarms, positives=truth)


@net_benefit.summary
def _(table: Records, positive: str | None, pt: float) -> dict[str, Any]:
    _odds(pt)
    return class_in_table(table, positive)


net_benefit.merge(one_class)


@net_benefit.detail
def _(s: Cells, *, pt: float, positive: Constant) -> dict[str, Any]:
    """What the two policies that need no model are worth."""
    rows, sick = float(s.n[0]), float(s.positives[0])
    return {
        "positive": positive,
        "treat_all": (sick - (rows - sick) * _odds(pt)) / rows if rows else None,
        "treat_none": 0.0,
        "true_positives": int(s.hits[0]),
        "false_positives": int(s.alarms[0]),
    }


def _odds(pt: float) -> float:
    if not 0 < pt < 1:
        raise UsageError("net_benefit: pt is a probability between 0 and 1, such as 0.1")
    return pt / (1 - pt)
