"""Does a stated confidence mean what it says? Read on answered rows with a confidence; the others are counted.

A perfectly calibrated model has a positive plug-in ECE, because a bin's accuracy is noisy. `ece_null` says how large
that noise is here, `p_calibrated` how often noise alone would give an ECE this large, `calibration_error2` is free of
it. With `positive=` the score is read as the probability of that class: `ece(positive=yes, score=signal.p)`, on every
row with a target and a score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steelyard.errors import InputError, UsageError
from steelyard.ground import compiling
from steelyard.ground.arrays import Codes, Floats
from steelyard.metrics.claims import CLAIMING, claimed, has_positive, known_positive
from steelyard.metrics.contract import evidence, metric
from steelyard.metrics.evidence import passes
from steelyard.metrics.evidence.signed import SignedReading, SignedTerms
from steelyard.metrics.evidence.sums import Cells, Terms, sums
from steelyard.metrics.options import CONFIDENCE, Column, Constant, Label
from steelyard.metrics.vocabulary import Default
from steelyard.records.derive import ANSWERED, FAILED
from steelyard.records.labels import Labels, value_name
from steelyard.records.table import Records

_CLIP = 1e-6
_MOST_BINS = 10_000
_COMPILED_ROWS = 2_000_000
_ENOUGH_ROWS = 20  # answers with two labels before their confidences are taken to be one class's probability
_GUO = "Guo et al. (2017), On Calibration of Modern Neural Networks (ICML)"


def bin_of(confidence: Floats, bins: int) -> Codes:
    """The equal-width bin of each confidence: bin k is [k/bins, (k+1)/bins), the last one closed; −1 without one.

    The edges are the doubles k/bins, so 0.3 is in the bin that starts at 0.3.
    """
    _check_bins(bins)
    if len(confidence) >= _COMPILED_ROWS and compiling.available():
        return passes.bins(confidence, bins)
    return np.where(np.isnan(confidence), -1, np.searchsorted(np.arange(1, bins) / bins, confidence, side="right"))


def _check_bins(bins: int) -> None:
    if not 1 <= bins <= _MOST_BINS:
        raise UsageError(f"bins is at least 1 and at most {_MOST_BINS:,}")


def sum_of_gaps(gaps: Floats) -> Floats:
    """Σ|a|: the norm that ECE is of its bins' gaps."""
    return np.abs(gaps).sum(-1)


def _probability(records: Records, score: Any) -> Floats:
    """The score as a probability; another column than `confidence` was not checked at the door."""
    values = np.asarray(score, float)
    if np.fmin.reduce(values, initial=0.0) < 0 or np.fmax.reduce(values, initial=1.0) > 1:
        file, line = records.where(int(np.flatnonzero((values < 0) | (values > 1))[0]))
        raise InputError("is outside [0, 1], so it is no probability", file=file, line=line, field="the score")
    return values


@evidence(better="lower", bounds=(0, 1), **CLAIMING)
def reliability(
    records: Records, *, bins: int = 10, positive: Label | None = None, score: Column = CONFIDENCE
) -> Terms:
    """Hits, confidence mass and rows per equal-width bin."""
    stated = _probability(records, score)
    return sums(hits=claimed(records, positive), mass=stated, n=1, by=bin_of(stated, bins))


@reliability.metric(
    title="Expected Calibration Error",
    aliases=("expected_calibration_error",),
    also=("calibration", "reliability"),
    norm=sum_of_gaps,
    twin="calibration_error2",
    default_for=(Default("confidences", 1, options={"bins": 15}),),
    formula="Σ_b n_b/N · |acc_b − conf_b|",
    reference=_GUO,
)
def ece(s: Cells) -> Floats:
    """Expected calibration error over equal-width bins. Positive by chance even if calibrated: see ece_null.

    Bin k is [k/bins, (k+1)/bins): a confidence on an edge is in the bin that begins there; the last bin is closed.

    >>> round(value("ece", target=["a", "a"], prediction=["a", "b"], confidence=[0.9, 0.9]), 6)
    0.4
    """
    return np.where(s.n.sum(-1) > 0, sum_of_gaps(gaps(s)), np.nan)


@ece.vector
def gaps(s: Cells) -> Floats:
    """Each bin's share of the rows times its gap."""
    return (s.hits - s.mass) / s.n.sum(-1, keepdims=True)


@ece.detail
def equal_width_table(s: Cells, *, bins: int) -> dict[str, Any]:
    """The non-empty bins: their edges, rows, accuracy and mean confidence."""
    edges = [(float(b / bins), float((b + 1) / bins)) for b in s.key()]
    return {"bins": _bin_rows(edges, s.hits[0], s.mass[0], s.n[0])}


def _bin_rows(edges: Sequence[tuple[float, float]], hits: Floats, mass: Floats, n: Floats) -> list[dict[str, Any]]:
    return [
        {"low": low, "high": high, "n": int(rows), "accuracy": float(right / rows), "confidence": float(sure / rows)}
        for (low, high), right, sure, rows in zip(edges, hits, mass, n, strict=True)
        if rows
    ]


@reliability.metric(
    title="Maximum Calibration Error",
    aliases=("maximum_calibration_error",),
    also=("calibration",),
    formula="max_b |acc_b − conf_b| over non-empty bins",
    reference=_GUO,
    no_interval="the largest of several gaps: resampling does not cover it",
    extreme=True,
)
def mce(s: Cells) -> Floats:
    """Largest calibration gap of a non-empty bin.

    >>> round(value("mce", target=["a", "a"], prediction=["a", "b"], confidence=[0.9, 0.2]), 6)
    0.2
    """
    gaps = np.where(s.n > 0, np.abs(s.hits - s.mass) / np.where(s.n > 0, s.n, 1), -1)
    largest = gaps.max(-1, initial=-1)
    return np.where(largest >= 0, largest, np.nan)


mce.detail(equal_width_table)


@reliability.metric(
    title="Squared Calibration Error",
    also=("calibration",),
    bounds=(-1, 1),
    by_cluster=True,
    spread="t",
    formula="Σ_b (S_b² − Q_b) G/(G−1) / (N n_b), S_b = Σ_c d_cb, Q_b = Σ_c d_cb², d_cb = hits − mass of cluster c",
    undefined="it needs at least two clusters",
)
def calibration_error2(s: Cells) -> Floats:
    """Squared calibration error without what noise adds to it: 0 on average if calibrated, so often negative.

    Bins as in ece. Use it to compare runs or groups: ece is larger where there are fewer rows.

    >>> columns = {"target": ["a", "a"], "prediction": ["a", "a"], "confidence": [0.9, 0.9], "cluster": [1, 2]}
    >>> round(value("calibration_error2", **columns), 6)
    0.01
    """
    each = s.each
    square = s.added((each.hits - each.mass) ** 2)
    clusters = s.added(each.n.sum(-1) > 0)
    rows = s.n.sum(-1, keepdims=True)
    excess = ((s.hits - s.mass) ** 2 - square) / (rows * np.where(s.n > 0, s.n, 1))
    return np.where(clusters > 1, excess.sum(-1) * clusters / (clusters - 1), np.nan)


@metric(
    title="Adaptive Calibration Error",
    aliases=("adaptive_calibration_error",),
    also=("calibration",),
    better="lower",
    bounds=(0, 1),
    norm=sum_of_gaps,
    formula="Σ_b n_b/N · |acc_b − conf_b| over bins of equal mass",
    **CLAIMING,
)
def ace(records: Records, *, bins: int = 10, positive: Label | None = None, score: Column = CONFIDENCE) -> Terms:
    """Adaptive calibration error: bins of equal mass, bin = ⌊bins · midrank / n⌋, equal confidences together.

    >>> round(value("ace", target=["a", "a"], prediction=["a", "b"], confidence=[0.9, 0.9]), 6)
    0.4
    """
    _check_bins(bins)
    stated = _probability(records, score)
    return sums(hits=claimed(records, positive), mass=stated, n=1, by=stated)


@ace.summary
def _(table: Records, bins: int, positive: str | None, score: str) -> dict[str, Any]:
    """The different scores of the rows that count, and how often each occurs."""
    _check_bins(bins)
    inside = table.outcome == ANSWERED if positive is None else table.outcome != FAILED
    scores = table.numbers(score, needed_by="ace")[inside]
    values, counts = np.unique(scores[~np.isnan(scores)], return_counts=True)
    return {"values": values, "counts": counts, **has_positive(table, positive)}


@ace.merge
def _(summaries: Sequence[Any], bins: int) -> dict[str, Any]:
    """Where the bins of the whole data begin: the noise around their gaps is measured in fixed bins."""
    values, place = np.unique(np.concatenate([s["values"] for s in summaries]), return_inverse=True)
    counts = np.bincount(place, weights=np.concatenate([s["counts"] for s in summaries]), minlength=len(values))
    bin_ = equal_mass(counts[None].astype(np.float64), bins)[0]
    begins = tuple(values[np.flatnonzero(np.diff(bin_)) + 1].tolist())
    return {"begins": begins, **known_positive(summaries)}


@ace.finish
def _(s: Cells, *, bins: int) -> Floats:
    place, gap = equal_mass(s.n, bins), s.hits - s.mass
    return sum(np.abs(np.where(place == b, gap, 0).sum(-1)) for b in range(bins)) / s.n.sum(-1)


@ace.vector
def _(s: Cells, *, begins: Constant) -> Floats:
    place = np.searchsorted(np.asarray(begins, float), s.key(), side="right")
    gap = s.hits - s.mass
    per_bin = [gap[..., place == b].sum(-1) for b in range(len(begins) + 1)]
    return np.stack(per_bin, -1) / s.n.sum(-1, keepdims=True)


@ace.detail
def _(s: Cells, *, bins: int) -> dict[str, Any]:
    """The non-empty bins: lowest and highest confidence, rows, accuracy and mean confidence."""
    place = equal_mass(s.n, bins)[0]
    inside = [place == b for b in np.unique(place)]
    edges = [(float(s.key()[rows].min()), float(s.key()[rows].max())) for rows in inside]
    sums_ = [np.array([term[0][rows].sum() for rows in inside]) for term in (s.hits, s.mass, s.n)]
    return {"bins": _bin_rows(edges, *sums_)}


def equal_mass(counts: Floats, bins: int) -> Floats:
    """The equal-mass bin of every sorted value under each row of counts."""
    n = counts.sum(-1, keepdims=True)
    midrank = np.cumsum(counts, -1) - counts / 2
    return np.minimum(np.floor(bins * midrank / np.where(n > 0, n, 1)), bins - 1)


@metric(
    title="Brier Score",
    also=("calibration", "proper score", "quadratic score"),
    better="lower",
    bounds=(0, 1),
    spread="log-t",
    conditions=("binary",),
    documented_as="brier_score",
    default_for=(Default("confidences of two labels", 3, options={"binary": True}),),
    formula="mean (confidence − correct)²",
    reference="Brier (1950), Verification of forecasts expressed in terms of probability",
    **CLAIMING,
)
def brier(
    records: Records,
    *,
    binary: bool = False,  # noqa: ARG001 - `summary` reads it
    positive: Label | None = None,
    score: Column = CONFIDENCE,
) -> Floats:
    """Mean squared distance of confidence and correctness: a proper score.

    `brier(binary=true)` is undefined where the answered rows hold more than two labels.

    >>> round(value("brier", target=["a", "a"], prediction=["a", "b"], confidence=[0.9, 0.9]), 6)
    0.41
    """
    gap = _probability(records, score) - claimed(records, positive)
    return np.multiply(gap, gap, out=gap)


@brier.summary
def _(table: Records, binary: bool, positive: str | None) -> dict[str, Any]:
    """The summary: whether the class is known; for two labels only, the labels of the answered rows."""
    if not binary:
        return has_positive(table, positive)
    answered = table.array("answered") == 1
    met: set[Any] = set()
    for name in ("target", "prediction"):
        labels: Labels = table.labels(name)[answered]
        met |= {labels.values[code] for code in np.unique(labels.codes) if code >= 0}
    return {"met": met}


@brier.merge
def _(summaries: Sequence[Any], binary: bool) -> dict[str, Any]:
    if not binary:
        return known_positive(summaries)
    met = set().union(*(summary["met"] for summary in summaries))
    return {"undefined": f"the answered rows hold {len(met)} labels, not two"} if len(met) > 2 else {}


@metric(
    title="Negative Log-Likelihood",
    aliases=("log_loss",),
    also=("cross entropy", "likelihood", "logloss"),
    better="lower",
    bounds=(0, None),
    formula="−mean log p(observed), p clipped to [1e-6, 1 − 1e-6]",
    **CLAIMING,
)
def nll(records: Records, *, positive: Label | None = None, score: Column = CONFIDENCE) -> Floats:
    """Negative log-likelihood of correctness under the confidence (log loss).

    >>> round(value("nll", target=["a", "a"], prediction=["a", "b"], confidence=[0.5, 0.5]), 6)
    0.693147
    """
    p = np.clip(_probability(records, score), _CLIP, 1 - _CLIP)
    correct = claimed(records, positive)
    return -(correct * np.log(p) + (1 - correct) * np.log1p(-p))


def class_probability(records: Records) -> str:
    """The label whose probability the confidence evidently states, of two; nothing where it may be about the answer.

    A confidence in the answer is seldom low for one of two answers and high for the other throughout.
    """
    if not {"target", "prediction", "confidence"} <= set(records.stated):
        return ""
    answered = records.array("answered") == 1
    said, stated = records.labels("prediction")[answered], records.stated_numbers("confidence")[answered]
    labels = [label for label in said.values if (said == label).any()]
    if len(labels) != 2 or len(stated) < _ENOUGH_ROWS:
        return ""
    for one, other in (labels, labels[::-1]):
        high, low = stated[said == one], stated[said == other]
        if min(len(high), len(low)) >= _ENOUGH_ROWS // 2 and (high >= 0.5).all() and (low <= 0.5).all():
            return value_name(one) if (low < 0.5).any() else ""
    return ""


# -- how large noise alone would be -----------------------------------------------------------------------------


@evidence(rows="answered", bounds=(0, 1), by_cluster=True)
def signed_reliability(confidence: Floats, correct: Floats, *, bins: int = 10) -> SignedTerms:
    """Gaps per cluster and bin, to be summed under random signs."""
    terms = sums(gap=correct - confidence, n=1, by=bin_of(confidence, bins))
    return SignedTerms(values=terms.values, by=terms.by)


@signed_reliability.metric(
    title="Expected Calibration Error from Noise Alone",
    also=("calibration",),
    formula="mean over random cluster signs s of Σ_b |Σ_c s_c d_cb| / N, d = hits − mass",
    no_interval="it is itself an average over chance",
    no_delta="ece_null describes the noise in one run",
    default_for=(Default("confidences", 2),),
)
def ece_null(s: SignedReading) -> Floats:
    """How large ECE would be from noise alone: read ece together with it.

    >>> round(value("ece_null", target=["a", "a"], prediction=["a", "b"], confidence=[0.5, 0.5]), 2)
    0.25
    """
    return s.chance.mean(-1)


@signed_reliability.metric(
    title="Calibration P-Value",
    also=("calibration test",),
    formula="(1 + #{ece under random signs ≥ ece}) / (B + 1)",
    no_interval="a p-value has no interval",
    no_delta="p_calibrated is a test of one run",
)
def p_calibrated(s: SignedReading) -> Floats:
    """How often noise alone gives an ECE at least this large; small values say: not calibrated.

    >>> round(value("p_calibrated", target=["a", "a"], prediction=["a", "b"], confidence=[0.5, 0.5]), 2)
    1.0
    """
    reached = (s.chance >= s.observed[:, None] * (1 - 1e-12)).sum(-1)
    defined = np.where(np.isnan(s.observed), np.nan, 1.0)
    return defined * (1 + reached) / (1 + s.chance.shape[-1])
