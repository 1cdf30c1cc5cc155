"""How far do two or more ratings agree beyond chance? Answers with targets, or columns of raters with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from steelyard.errors import InputError, UsageError
from steelyard.ground.arrays import Codes, Floats, Mask
from steelyard.metrics.claims import by_task, in_tasks
from steelyard.metrics.contract import metric
from steelyard.metrics.evidence.confusion import class_clusters, confusion_counts
from steelyard.metrics.evidence.sums import Cells, Sums, Terms, sums
from steelyard.metrics.options import Columns, Constant
from steelyard.metrics.questions.correctness import confusion
from steelyard.records.clusters import Clusters
from steelyard.records.derive import ANSWERED
from steelyard.records.labels import Labels, value_name
from steelyard.records.table import Records

_WEIGHTS = ("linear", "quadratic")
_LEVELS = ("nominal", "ordinal", "interval", "ratio")


@confusion.metric(
    title="Matthews Correlation Coefficient",
    also=("phi coefficient",),
    bounds=(-1, 1),
    formula="(c·N − Σ_k t_k·p_k) / √((N² − Σ p_k²)·(N² − Σ t_k²))",
    undefined="it needs at least two labels among the targets, and two among the answers",
    aliases=("matthews", "matthews_corrcoef"),
    reference="Gorodkin (2004), Comparing two K-category assignments by a K-category correlation coefficient",
)
def mcc(s: Cells, *, labels: Constant) -> Floats:
    """Matthews' correlation of answers and targets: 1 for all right, 0 for chance; any number of classes.

    c are the correct rows, t_k the targets and p_k the answers of class k. A non-answer (and an answer outside fixed
    labels) is an answer of a class of its own, which no target has; `answered_only=true` leaves it out. Undefined, not
    0, where all targets or all answers are alike.

    >>> round(value("mcc", target=["a", "a", "b", "b"], prediction=["a", "a", "b", "a"]), 6)
    0.57735
    """
    counts = confusion_counts(s, labels)
    rows = s.n.sum(-1)
    other = rows - counts.predicted.sum(-1)
    hits, expected = counts.hits.sum(-1), (counts.support * counts.predicted).sum(-1)
    said = rows**2 - (counts.predicted**2).sum(-1) - other**2
    true = rows**2 - (counts.support**2).sum(-1)
    both = said * true
    return (hits * rows - expected) / np.sqrt(np.where(both > 0, both, np.nan))


@metric(
    title="Cohen's Kappa",
    also=("agreement", "inter rater agreement"),
    better="higher",
    bounds=(-1, 1),
    reads=("target", "prediction"),
    formula="1 − Σ w_ij·o_ij / Σ w_ij·e_ij, w = 1 where i ≠ j, |i − j| or (i − j)²",
    undefined="all targets and all answers are one label",
    aliases=("cohen_kappa", "cohens_kappa"),
    reference="Cohen (1960), A coefficient of agreement for nominal scales; Cohen (1968) for weights",
)
def kappa(
    records: Records,
    *,
    labels: tuple[Any, ...] | None = None,
    weights: str | None = None,  # noqa: ARG001 - read by the finish
    answered_only: bool = False,
) -> Terms:
    """Cohen's kappa of answers and targets: agreement beyond that of independent answers with the same shares.

    `weights=linear` or `quadratic` count a near miss less, by the distance of the labels' places. That needs an order:
    of numbers, of `labels=[...]`, or of the task's labels. A non-answer (and an answer outside fixed labels) is a class
    of its own that no target has, as far from every label as the farthest two; `answered_only=true` leaves it out.

    >>> value("kappa", target=["a", "a", "b", "b"], prediction=["a", "a", "b", "a"])
    0.5
    """
    terms: Terms = confusion.source.function(records, labels=labels, answered_only=answered_only)
    return terms


@kappa.summary
def _(table: Records, labels: tuple[Any, ...] | None, weights: str | None) -> dict[str, Any]:
    """As of the confusion matrix; labels that have no order are refused where weights need one."""
    if weights not in (None, *_WEIGHTS):
        raise UsageError("kappa: weights is linear or quadratic")
    summary: dict[str, Any] = confusion.source.methods["summary"](table, labels)
    if weights is None or summary["stated"] is not None:
        return summary
    if any(isinstance(v, str) for v in summary["met"]):
        raise UsageError(
            "kappa: weights need labels in an order; name them from lowest to highest, such as "
            "labels=[Low, Medium, High], or declare the task's labels"
        )
    return summary | by_task(table, _labels_met)


def _labels_met(table: Records) -> set[Any]:
    return {value for name in ("target", "prediction") if name in table for value in table.labels(name).values}


@kappa.merge
def _(summaries: Sequence[Any], runs: int) -> dict[str, Any]:
    """The labels; where places count, those of the whole task: a slice without the middle one moves no other."""
    if "by_task" in summaries[0]:
        return {"labels": tuple(sorted(set().union(*in_tasks(summaries))))}
    merged: dict[str, Any] = confusion.source.methods["merge"](summaries, runs)
    return merged


@kappa.finish
def _(s: Cells, *, labels: Constant, weights: str | None = None) -> Floats:
    counts = confusion_counts(s, labels)
    rows, size = s.n.sum(-1), len(counts.labels)
    other = (rows - counts.predicted.sum(-1))[:, None]
    place = np.arange(size, dtype=np.float64)
    distance = np.abs(place[:, None] - place)
    distance = (distance > 0) * 1.0 if weights is None else distance if weights == "linear" else distance**2
    # the last column is no answer: as far from every label as the farthest two are
    far = np.concatenate([distance, np.full((size, 1), max(distance.max(initial=0.0), 1.0))], axis=1)
    expected = ((counts.support @ far) * np.concatenate([counts.predicted, other], axis=1)).sum(-1) / rows
    inside = counts.truth >= 0
    observed = s.n @ np.where(inside, far[np.maximum(counts.truth, 0), counts.guess], 0.0)
    return 1 - observed / np.where(expected > 0, expected, np.nan)


@mcc.parts
@kappa.parts
def _(evidence: Sums, *, labels: Constant) -> tuple[Any, Floats]:
    holds, _, met = class_clusters(evidence, labels)
    return holds, np.where(met, 1.0, 0.0) / max(int(met.sum()), 1)


# -- raters --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RatingTerms:
    """Ratings of rows by several raters, each row under several keys: `terms` of the row that `row` says."""

    terms: Terms
    row: Codes
    left_out: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, Any] = field(default_factory=dict)

    def collect(self, ids: Clusters, cluster: Codes) -> tuple[Sums, Mask]:
        """The sums per cluster, and which rows were included; a row counts once, however many rated it."""
        kept = np.ones(len(cluster), bool)
        for rows in (*self.left_out.values(), *self.missing.values()):
            kept &= ~np.asarray(rows, bool)
        evidence, _ = Sums.collect(self.terms, ids, cluster[self.row])
        return replace(evidence, rows=np.bincount(cluster[kept], minlength=len(ids)).astype(np.int64)), kept


def _ratings(owner: str, records: Records, raters: tuple[str, ...]) -> tuple[tuple[Any, ...], Codes]:
    """The different ratings, and which one each rater gave each row: raters × rows, −1 for none."""
    columns = [_given(records, rater) for rater in raters]
    values = {value for labels in columns for value in labels.values}
    kinds = {"text" if isinstance(v, str) else "bool" if isinstance(v, bool) else "number" for v in values}
    if len(kinds) > 1:
        raise InputError(f"{owner}: ratings are labels or numbers, not both", file=records.name)
    order = sorted(values)
    place = {value: i for i, value in enumerate(order)}
    codes = [np.array([*(place[v] for v in labels.values), -1], np.int64)[labels.codes] for labels in columns]
    return tuple(order), np.array(codes, np.int64).reshape(len(raters), len(records))


def _given(records: Records, rater: str) -> Labels:
    """A rater's column; of the model's answers only what it answered."""
    labels = records.labels(rater)
    if rater != "prediction":
        return labels
    return Labels(np.where(records.outcome == ANSWERED, labels.codes, -1), labels.values)


def _checked_raters(owner: str, table: Records, raters: tuple[str, ...]) -> None:
    if len(raters) < 2 or len(set(raters)) < len(raters):
        raise UsageError(f"{owner}: raters is a list of at least two different columns, such as [rater_a, rater_b]")
    for rater in raters:
        if rater not in table:
            raise InputError(table.lacks(rater, owner))


_between_raters = partial(metric, better="higher", bounds=(-1, 1), rows="all", reads=())


@_between_raters(
    title="Krippendorff's Alpha",
    also=("agreement", "inter rater reliability"),
    option_titles={"raters": "between {}", "level": "{} level"},
    formula="1 − (n − 1)·Σ o_ck·δ²_ck / Σ n_c·n_k·δ²_ck",
    undefined="all ratings are alike, or no row has two",
    reference="Krippendorff (2011), Computing Krippendorff's alpha-reliability",
)
def krippendorff_alpha(
    records: Records,
    *,
    raters: Columns,
    level: str = "nominal",  # noqa: ARG001 - read by the finish
) -> RatingTerms:
    """Krippendorff's alpha between columns of raters: `krippendorff_alpha(raters=[a, b, c], level=ordinal)`.

    A row is a unit, whatever became of the model's answer to it; ratings may be missing, and a row with fewer than two
    is left out. `level` says what a
    disagreement is worth: any the same (nominal), by the ranks between (ordinal: numbers, or the task's labels in
    their order), by the difference (interval) or by the relative difference (ratio). Undefined where all ratings are
    alike: without variation there is nothing to agree on.

    >>> columns = {"a": [1, 2, 3, 3], "b": [1, 2, 3, None], "c": [1, 2, 2, 3]}
    >>> round(value("krippendorff_alpha(raters=[a, b, c])", **columns), 6)
    0.75
    """
    values, codes = _ratings("krippendorff_alpha", records, raters)
    given = (codes >= 0).sum(0)
    rows, first, second, share = [], [], [], []
    for a, b in combinations(codes, 2):
        both = np.flatnonzero((a >= 0) & (b >= 0))
        rows.append(both)
        first.append(a[both])
        second.append(b[both])
        share.append(1 / (given[both] - 1))
    one, two = np.concatenate(first), np.concatenate(second)
    pair = (Labels(np.minimum(one, two), values), Labels(np.maximum(one, two), values))
    terms = sums(o=np.concatenate(share), by=pair)
    return RatingTerms(terms=terms, row=np.concatenate(rows), left_out={"fewer than two ratings": given < 2})


@krippendorff_alpha.summary
def _(table: Records, raters: tuple[str, ...], level: str) -> dict[str, Any]:
    """The order of labels, where the task declares one; a level that the ratings do not have is refused."""
    _checked_raters("krippendorff_alpha", table, raters)
    if level not in _LEVELS:
        raise UsageError(f"krippendorff_alpha: level is one of {', '.join(_LEVELS)}")
    texts = any(isinstance(v, str) for rater in raters for v in table.labels(rater).values)
    order = table.task.labels if texts and level == "ordinal" else None
    if texts and (level in ("interval", "ratio") or (level == "ordinal" and order is None)):
        more = "numbers, or labels whose order the task declares" if level == "ordinal" else "numbers"
        raise UsageError(f"krippendorff_alpha: level={level} needs {more}")
    return {"order": None if order is None else tuple(map(value_name, order))}


@krippendorff_alpha.finish
def _(s: Cells, *, level: str = "nominal", order: Constant = None) -> Floats:
    names = sorted({*s.key(0).tolist(), *s.key(1).tolist()}, key=_in_order(order))
    place = {name: i for i, name in enumerate(names)}
    left, right = (np.array([place[v] for v in s.key(part).tolist()], np.int64) for part in (0, 1))
    margins = np.zeros((len(s.o), len(names)))
    for side in (left, right):
        np.add.at(margins.T, side, s.o.T)
    total = margins.sum(-1)
    if level == "nominal":
        observed = 2 * (s.o * (left != right)).sum(-1)
        expected = total**2 - (margins**2).sum(-1)
    elif level == "ratio":
        number = np.array(names, np.float64)
        both = np.abs(number[:, None]) + np.abs(number)
        distance = ((number[:, None] - number) / np.where(both > 0, both, 1.0)) ** 2
        observed = 2 * (s.o * distance[left, right]).sum(-1)
        expected = ((margins @ distance) * margins).sum(-1)
    else:
        number = np.cumsum(margins, axis=-1) - margins / 2 if level == "ordinal" else np.array(names, np.float64)[None]
        centre = (margins * number).sum(-1, keepdims=True) / np.where(total > 0, total, 1.0)[:, None]
        observed = 2 * (s.o * (number[:, left] - number[:, right]) ** 2).sum(-1)
        expected = 2 * total * (margins * (number - centre) ** 2).sum(-1)
    return 1 - (total - 1) * observed / np.where(expected > 1e-12 * np.maximum(total, 1) ** 2, expected, np.nan)


def _in_order(order: tuple[str, ...] | None) -> Any:
    if order is None:
        return None
    place = {name: i for i, name in enumerate(order)}
    return lambda value: (place.get(value_name(value), len(place)), value_name(value))


@_between_raters(
    title="Gwet's AC1",
    also=("agreement", "inter rater agreement"),
    option_titles={"raters": "between {}"},
    formula="(p_a − p_e) / (1 − p_e), p_e = Σ_k π_k·(1 − π_k) / (K − 1)",
    undefined="no row has two ratings, or there is only one category",
    reference="Gwet (2008), Computing inter-rater reliability in the presence of high agreement",
)
def gwet_ac1(records: Records, *, raters: Columns) -> RatingTerms:
    """Gwet's AC1 between columns of raters: `gwet_ac1(raters=[a, b, c])`. It stays high where one category dominates.

    p_a is the share of agreeing pairs, averaged over rows with two ratings or more; π_k the share of category k,
    averaged over all rated rows; K the number of categories: the task's labels, and whatever else its raters said.

    >>> columns = {"a": ["x", "x", "x", "y"], "b": ["x", "x", "x", "x"]}
    >>> round(value("gwet_ac1(raters=[a, b])", **columns), 6)
    0.68
    """
    values, codes = _ratings("gwet_ac1", records, raters)
    given = (codes >= 0).sum(0)
    rater, row = np.nonzero(codes >= 0)
    own = codes[rater, row]
    same = (codes[:, row] == own).sum(0)
    several = given[row] > 1
    pairs = np.where(several, given[row] * (given[row] - 1), 1)
    terms = sums(
        share=1 / given[row],
        paired=several / given[row],
        agree=np.where(several, (same - 1) / pairs, 0.0),
        by=Labels(own, values),
    )
    return RatingTerms(terms=terms, row=row, left_out={"no rating": given < 1})


@gwet_ac1.summary
def _(table: Records, raters: tuple[str, ...]) -> dict[str, Any]:
    _checked_raters("gwet_ac1", table, raters)
    stated = {value_name(label) for label in table.task.labels or ()}

    def categories(part: Records) -> set[str]:
        return stated | {value_name(v) for rater in raters if rater in part for v in part.labels(rater).values}

    return by_task(table, categories)


@gwet_ac1.merge
def _(summaries: Sequence[Any]) -> dict[str, Any]:
    """K is a fact of the study: a slice or a resample in which nobody chose a category has as many."""
    return {"categories": len(set().union(*in_tasks(summaries)))}


@gwet_ac1.finish
def _(s: Cells, *, categories: Constant) -> Floats:
    units = s.share.sum(-1, keepdims=True)
    share = s.share / np.where(units > 0, units, np.nan)
    chance = (share * (1 - share)).sum(-1) / (categories - 1 if categories > 1 else np.nan)
    agreed = s.agree.sum(-1) / s.paired.sum(-1)
    return (agreed - chance) / (1 - chance)
