"""Does a score tell right answers from wrong ones, or one class from the others?"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from steelyard.ground.arrays import Floats
from steelyard.metrics.claims import CLAIMING, claimed
from steelyard.metrics.contract import metric
from steelyard.metrics.evidence.sorted_rows import SortedReading, SortedRows, SortedTerms
from steelyard.metrics.options import CONFIDENCE, Column, Label
from steelyard.metrics.vocabulary import Default
from steelyard.records.table import Records


def _both_classes(evidence: SortedRows) -> tuple[Any, Floats]:
    """Two parts: the positives and the negatives."""
    holds = [np.bincount(evidence.cluster[evidence.value == v], minlength=len(evidence.ids)) > 0 for v in (1.0, 0.0)]
    return np.stack(holds, -1), np.full(2, 0.5)


_ranked = partial(metric, better="higher", bounds=(0, 1), reads_order=True, parts=_both_classes, **CLAIMING)


@_ranked(
    title="Area under the ROC Curve",
    aliases=("roc_auc",),
    also=("auc", "roc", "c statistic", "discrimination"),
    default_for=(Default("confidences", 4),),
    formula="P(score of a positive > score of a negative) + ½ P(equal)",
    undefined="it needs both positives and negatives",
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


@auroc.finish
def _(s: SortedReading) -> Floats:
    return s.auroc


@_ranked(
    title="Area under the Precision-Recall Curve",
    also=("auc", "pr curve"),
    formula="Σ_n (recall_n − recall_(n−1)) · precision_n over thresholds",
    undefined="it needs positives",
    aliases=("average_precision", "pr_auc"),
    reference="Davis & Goadrich (2006), The relationship between precision-recall and ROC curves",
)
def auprc(records: Records, *, positive: Label | None = None, score: Column = CONFIDENCE) -> SortedTerms:
    """Average precision: the area under the precision-recall curve, without interpolation; ties form one threshold.

    What is ranked is as in auroc: confidence ranks correct answers, `auprc(positive=X, score=col)` targets equal to X
    on every row with a score. A random score has the share of positives, not ½, so it depends on the table.

    >>> columns = {"target": ["a", "b", "a"], "prediction": ["a", "a", "a"], "confidence": [0.9, 0.5, 0.3]}
    >>> round(value("auprc", **columns), 6)
    0.833333
    """
    return SortedTerms(np.asarray(score, float), claimed(records, positive))


@auprc.finish
def _(s: SortedReading) -> Floats:
    return s.average_precision
