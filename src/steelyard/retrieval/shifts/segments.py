"""For which queries is a shift worth applying? Rules that propose it, and what a proposal comes to.

    oracle    apply where the shifted query does better by more than eps: it knows the outcome, so it is an upper bound
    gap       apply where the baseline's first two documents are closer than tau: the uncertain queries
    learned   as gap, with tau chosen on other folds than the query's own

A query in the baseline's file alone has no partner and is left out; one without a decision keeps the baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError, UsageError, printable
from steelyard.records.table import Records
from steelyard.retrieval.per_query import PerQuery, PerQueryEval, ap1, by_id, ndcg3, records_of
from steelyard.retrieval.shifts.segments_wire import APPLY, METRICS, SKIP, Decision, Segments, decided
from steelyard.study.comparison import compare
from steelyard.uncertainty.folds import held_out_folds
from steelyard.uncertainty.number import Delta
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.verdicts import judged

Floats = npt.NDArray[np.float64]
RULES = ("oracle", "gap", "learned")
UPPER_BOUND = "decided by the outcome itself: an upper bound, not a rule that can be used"
OWN_QUERIES = "tau was given; if it was chosen by looking at these queries, it is judged on them"
UNKNOWN_RULE = "no rule is stated: if the decisions knew the outcomes, this is an upper bound"
CROSS_FITTED = "each query was decided with a tau that was chosen without its fold; Tau is the one chosen on all"
_LABELS = {"oracle": UPPER_BOUND, "gap": OWN_QUERIES, "learned": CROSS_FITTED}
_KEPT = {"map@1": "mrr", "ndcg@3": "ndcg@3"}  # the metrics of single-gold rows


@dataclass(frozen=True, kw_only=True)
class SegmentComparison:
    """What a segmentation comes to on the queries that stand in both files."""

    used: int
    missing: tuple[str, ...]  # ids in the baseline's file alone
    extra: tuple[str, ...]  # ids in the shifted file alone
    undecided: int  # effective queries without a decision: they keep the baseline
    unknown: int  # decisions about queries that are not there
    apply: int
    skip: int
    values: dict[str, dict[str, float]]  # baseline, posneg (the shifted queries), segmented → metric → mean
    deltas: dict[str, tuple[Delta, ...]]  # shifted and segmented against baseline, segmented against shifted
    level: float
    notes: tuple[str, ...]


def propose(
    baseline: PerQuery,
    shifted: PerQuery,
    *,
    rule: str,
    metric: str = "ndcg@3",
    eps: float = 0.0,
    tau: float | None = None,
    folds: int = 5,
    seed: int = 42,
) -> Segments:
    """Decide for every query that stands in both files."""
    if rule not in RULES:
        raise UsageError(f"`rule=` is one of {', '.join(RULES)}, not '{printable(rule)}'")
    if metric not in METRICS:
        raise UsageError(f"`metric=` is map@1 or ndcg@3, not '{printable(metric)}'")
    if not np.isfinite(eps) or (tau is not None and not np.isfinite(tau)):
        raise UsageError("eps and tau are finite numbers")
    if eps and rule != "oracle":
        raise UsageError(f"`eps=` is for the rule oracle; {rule} does not use it")
    if (tau is not None) != (rule == "gap"):
        raise UsageError("the rule gap needs `tau=`" if rule == "gap" else f"the rule {rule} takes no `tau=`")
    pairs = _pairs(baseline, shifted)
    gains = np.array([_value(new, metric) - _value(base, metric) for base, new in pairs])
    cut = tau
    if rule == "oracle":
        apply = gains > eps
    elif tau is not None:
        apply = _gaps(pairs) < tau
    else:
        apply, cut = _learned(pairs, gains, folds, seed)
    decisions: dict[str, Decision] = {
        base.query_id: APPLY if yes else SKIP for (base, _), yes in zip(pairs, apply, strict=True)
    }
    return Segments(
        metric=metric,
        eps=eps,
        baseline_path=baseline.source.name,
        pos_neg_path=shifted.source.name,
        decisions=decisions,
        rule=rule,
        tau=cut,
        folds=folds if rule == "learned" else None,
        seed=seed if rule == "learned" else None,
        note=_LABELS[rule],
        baseline_sha256=baseline.source.sha256,
        pos_neg_sha256=shifted.source.sha256,
        schema_version="1",
    )


def compared(
    segments: Segments,
    baseline: PerQuery,
    shifted: PerQuery,
    name: str,
    *,
    resamples: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
    settings: Settings | None = None,
) -> SegmentComparison:
    """The means of baseline, shifted and segmented queries, with paired intervals between them."""
    decisions = decided(segments, name)
    ours, theirs = by_id(baseline, baseline.source.name), by_id(shifted, shifted.source.name)
    pairs = _pairs(baseline, shifted)
    apply = [decisions.get(base.query_id.casefold(), False) for base, _ in pairs]
    sides = {
        "baseline": [base for base, _ in pairs],
        "posneg": [new for _, new in pairs],
        "segmented": [new if yes else base for (base, new), yes in zip(pairs, apply, strict=True)],
    }
    tables = {side: _records(entries, pairs) for side, entries in sides.items()}
    values = {
        side: {metric: float(np.mean([_value(entry, metric) for entry in entries])) for metric in METRICS}
        for side, entries in sides.items()
    }
    used = settings or Settings(resamples=resamples, seed=seed, level=level)
    effective = {base.query_id.casefold() for base, _ in pairs}
    return SegmentComparison(
        used=len(pairs),
        missing=tuple(entry.query_id for key, entry in ours.items() if key not in theirs),
        extra=tuple(entry.query_id for key, entry in theirs.items() if key not in ours),
        undecided=sum(key not in decisions for key in effective),
        unknown=sum(key not in effective for key in decisions),
        apply=sum(apply),
        skip=len(apply) - sum(apply),
        values=values,
        deltas=_differences(tables, used),
        level=used.level,
        notes=tuple(_notes(segments, baseline, shifted, pairs)),
    )


def _differences(tables: dict[str, Records], settings: Settings) -> dict[str, tuple[Delta, ...]]:
    """Paired differences between all three, judged together: they are one family of tests."""
    versus = {
        "posneg - baseline": ("baseline", "posneg"),
        "segmented - baseline": ("baseline", "segmented"),
        "segmented - posneg": ("posneg", "segmented"),
    }
    names = {kept: documented for documented, kept in _KEPT.items()}
    asked = list(names)
    deltas = [
        replace(delta, metric=names[delta.metric])
        for base, new in versus.values()
        for delta in compare(tables[base], tables[new], asked, settings=settings)
    ]
    together = list(judged(deltas, settings))
    return {title: tuple(together[i * len(asked) : (i + 1) * len(asked)]) for i, title in enumerate(versus)}


def _notes(
    segments: Segments, baseline: PerQuery, shifted: PerQuery, pairs: Sequence[tuple[PerQueryEval, PerQueryEval]]
) -> list[str]:
    """What the rule means for what can be claimed, what the shift has seen, and files that are not what they were."""
    notes = [_LABELS.get(segments.rule or "", UNKNOWN_RULE)]
    seen = sum(any(entry.seen_in_training for entry in pair) for pair in pairs)
    if seen:
        notes.append(f"the shift was learned from {seen} of these queries: its gains are those on queries it has seen")
    for stated, file in ((segments.baseline_sha256, baseline), (segments.pos_neg_sha256, shifted)):
        if stated is not None and stated != file.source.sha256:
            notes.append(f"{printable(file.source.name)} has changed since the decisions were made")
    return notes


def _pairs(baseline: PerQuery, shifted: PerQuery) -> list[tuple[PerQueryEval, PerQueryEval]]:
    """The entries of every query that stands in both files, in the baseline's order."""
    theirs = by_id(shifted, shifted.source.name)
    pairs = [(base, theirs[key]) for base in baseline if (key := base.query_id.casefold()) in theirs]
    if not pairs:
        raise InputError("no query stands in both files", file=shifted.source.name)
    for base, new in pairs:
        if base.relevant_doc_id.casefold() != new.relevant_doc_id.casefold():
            raise InputError(
                f"the query '{printable(base.query_id)}' has another relevant document in the baseline",
                file=shifted.source.name,
                field="RelevantDocId",
            )
    return pairs


def _records(entries: Sequence[PerQueryEval], pairs: Sequence[tuple[PerQueryEval, PerQueryEval]]) -> Records:
    """The entries under the baseline's ids and clusters, so that sides pair whatever the case of their ids."""
    aligned = [
        msgspec.structs.replace(entry, query_id=base.query_id, cluster=base.cluster)
        for entry, (base, _) in zip(entries, pairs, strict=True)
    ]
    return records_of(aligned)


def _value(entry: PerQueryEval, metric: str) -> float:
    """The query's score, from its rank: a stated one may be rounded."""
    return ap1(entry.rank) if metric == "map@1" else ndcg3(entry.rank)


def _gaps(pairs: Sequence[tuple[PerQueryEval, PerQueryEval]]) -> Floats:
    """The baseline's first score minus its second; without a second document there is nothing to be unsure between."""
    gaps = []
    for base, _ in pairs:
        if base.top_score is None or (base.top2_score is None and base.top2_doc_id is not None):
            raise InputError(f"the query '{printable(base.query_id)}' has no TopScore and Top2Score to compare")
        gaps.append(np.inf if base.top2_doc_id is None or base.top2_score is None else base.top_score - base.top2_score)
    return np.array(gaps)


def _learned(
    pairs: Sequence[tuple[PerQueryEval, PerQueryEval]], gains: Floats, folds: int, seed: int
) -> tuple[npt.NDArray[np.bool_], float]:
    """True per query where the threshold chosen on the other folds says to apply; and the threshold chosen on all."""
    gaps = _gaps(pairs)
    together = [base.query_id if base.cluster is None else base.cluster for base, _ in pairs]
    fold = held_out_folds(together, folds, seed)
    apply = np.zeros(len(pairs), bool)
    for each in np.unique(fold):
        held_out = fold == each
        apply[held_out] = gaps[held_out] < _threshold(gaps[~held_out], gains[~held_out])
    return apply, _threshold(gaps, gains)


def _threshold(gaps: Floats, gains: Floats) -> float:
    """The tau under which applying gains most; the smallest such, and 0 where applying never gains.

    Candidates lie halfway between neighbouring gaps, so that a tau does not sit on a query.
    """
    order = np.argsort(gaps, kind="stable")
    sorted_gaps, total = gaps[order], np.round(np.cumsum(gains[order]), 9)  # sums that should be equal are equal
    finite = np.isfinite(sorted_gaps)
    ends = np.flatnonzero(finite & (np.append(sorted_gaps[1:], np.inf) > sorted_gaps))  # of runs of equal gaps
    if not len(ends) or total[ends].max() <= 0:
        return 0.0
    best = ends[np.argmax(total[ends])]
    following = sorted_gaps[best + 1] if best + 1 < len(sorted_gaps) else np.inf
    return float(
        (sorted_gaps[best] + following) / 2 if np.isfinite(following) else np.nextafter(sorted_gaps[best], np.inf)
    )
