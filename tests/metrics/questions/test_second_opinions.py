"""scikit-learn, scipy and NumPy where they define the same thing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import integrate, spatial, stats
from sklearn import metrics as sk

from steelyard.records.table import Records
from steelyard.study.evaluation import evaluate, value

SEEDS = [1, 2, 3]
NOTHING = "(no answer)"  # as a prediction outside `labels`: a miss for its class, a false positive for none

Columns = dict[str, Any]


def generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def classified(seed: int, *, rows: int = 300, answer_rate: float = 1.0, classes: int = 4) -> Columns:
    """Targets with unequal shares, predictions right two times in three, confidences with ties."""
    random = generator(seed)
    labels = np.array(list("ABCDE"[:classes]))
    target = random.choice(labels, rows, p=np.arange(1, classes + 1) / sum(range(1, classes + 1)))
    prediction = np.where(random.random(rows) < 2 / 3, target, random.choice(labels, rows)).tolist()
    grid = random.choice([10, 1000], rows)
    confidence = (np.round(random.random(rows) * grid) / grid).clip(0.001, 0.999)
    answered = random.random(rows) < answer_rate
    return {
        "item": list(range(rows)),
        "target": target.tolist(),
        "prediction": [p if a else None for p, a in zip(prediction, answered, strict=True)],
        "confidence": confidence.tolist(),
        "signal.x": random.normal(size=rows).round(1).tolist(),
    }


def estimated(seed: int, *, rows: int = 300, offset: float = 0.0) -> Columns:
    """Numbers and noisy predictions of them, on a grid of eighths so that there are ties."""
    random = generator(seed)
    target = np.round(random.normal(0, 3, rows) * 8) / 8
    prediction = np.round((0.6 * target + random.normal(0, 2, rows)) * 8) / 8
    return {
        "item": list(range(rows)),
        "target": (target + offset).tolist(),
        "prediction": (prediction + offset).tolist(),
        "confidence": random.random(rows).round(2).tolist(),
    }


def said(columns: Columns) -> list[str]:
    """Predictions as scikit-learn may read them: no answer is a label of its own."""
    return [NOTHING if p is None else p for p in columns["prediction"]]


def hits(columns: Columns) -> npt.NDArray[np.float64]:
    return np.array([p == t for p, t in zip(columns["prediction"], columns["target"], strict=True)], float)


def of(text: str, columns: Columns) -> float:
    return value(text, Records.from_columns(columns))


def same(got: float, wanted: float, to: float = 1e-12) -> None:
    assert got == pytest.approx(float(wanted), rel=to, abs=to)


# -- classes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("answer_rate", [1.0, 0.7])
@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_f1(seed: int, answer_rate: float, average: str) -> None:
    columns = classified(seed, answer_rate=answer_rate)
    for labels in (["A", "B", "C", "D"], ["A", "B", "C", "D", "E"]):
        wanted = sk.f1_score(columns["target"], said(columns), labels=labels, average=average, zero_division=0)
        same(of(f"f1_{average}(labels=[{', '.join(labels)}])", columns), wanted)
    observed = sorted(set(columns["target"]))
    wanted = sk.f1_score(columns["target"], said(columns), labels=observed, average=average, zero_division=0)
    same(of(f"f1_{average}", columns), wanted)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_f1_of_answered_rows(seed: int, average: str) -> None:
    columns = classified(seed, answer_rate=0.6)
    pairs = [(t, p) for t, p in zip(columns["target"], columns["prediction"], strict=True) if p is not None]
    wanted = sk.f1_score([t for t, _ in pairs], [p for _, p in pairs], average=average)
    same(of(f"f1_{average}(answered_only=true)", columns), wanted)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("label", list("ABCD"))
def test_precision_recall_and_f1_of_a_class(seed: int, label: str) -> None:
    columns = classified(seed, answer_rate=0.8)
    precision, recall, f1, support = sk.precision_recall_fscore_support(
        columns["target"], said(columns), labels=[label]
    )
    assert support[0]
    same(of(f"precision.{label}", columns), precision[0])
    same(of(f"recall.{label}", columns), recall[0])
    same(of(f"f1.{label}", columns), f1[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_confusion_matrix(seed: int) -> None:
    columns = classified(seed, answer_rate=0.8)
    detail = evaluate(Records.from_columns(columns), "f1_macro", resamples=100)["f1_macro"].detail
    wanted = sk.confusion_matrix(columns["target"], said(columns), labels=detail["labels"])
    assert np.array_equal(detail["confusion_matrix"], wanted)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("answer_rate", [1.0, 0.7])
def test_accuracy_and_balanced_accuracy(seed: int, answer_rate: float) -> None:
    columns = classified(seed, answer_rate=answer_rate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that no target is "(no answer)"
        same(of("balanced_accuracy", columns), sk.balanced_accuracy_score(columns["target"], said(columns)))
    same(of("accuracy", columns), sk.accuracy_score(columns["target"], said(columns)))


@pytest.mark.parametrize("seed", SEEDS)
def test_auroc(seed: int) -> None:
    columns = classified(seed)
    same(of("auroc", columns), sk.roc_auc_score(hits(columns), columns["confidence"]))
    is_a = [t == "A" for t in columns["target"]]
    same(of("auroc(positive=A, score=signal.x)", columns), sk.roc_auc_score(is_a, columns["signal.x"]))


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0])), min_size=2, max_size=25))
def test_auroc_with_many_ties(rows: list[tuple[bool, float]]) -> None:
    correct, confidence = [c for c, _ in rows], [s for _, s in rows]
    assume(len(set(correct)) == 2)
    columns = {
        "item": list(range(len(rows))),
        "target": ["A"] * len(rows),
        "prediction": ["A" if c else "B" for c in correct],
        "confidence": confidence,
    }
    same(of("auroc", columns), sk.roc_auc_score(correct, confidence))


# -- numbers -----------------------------------------------------------------------------------------------------------

NUMBERS: dict[str, Callable[[Any, Any], float]] = {
    "mae": sk.mean_absolute_error,
    "mdae": sk.median_absolute_error,
    "rmse": sk.root_mean_squared_error,
    "r2": sk.r2_score,
    "pearson": lambda t, p: stats.pearsonr(t, p).statistic,
    "spearman": lambda t, p: stats.spearmanr(t, p).statistic,
    "bias": lambda t, p: float(np.mean(np.subtract(p, t))),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", NUMBERS)
def test_regression(name: str, seed: int) -> None:
    columns = estimated(seed)
    same(of(name, columns), NUMBERS[name](columns["target"], columns["prediction"]), 1e-11)


@pytest.mark.parametrize("name", NUMBERS)
def test_regression_far_from_zero(name: str) -> None:
    """Eighths at 1e8 are exact: moving everything moves nothing."""
    near, far = estimated(4), estimated(4, offset=1e8)
    same(of(name, far), NUMBERS[name](near["target"], near["prediction"]), 1e-9)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=25))
def test_correlations_of_small_tables(pairs: list[tuple[int, int]]) -> None:
    target, prediction = [float(t) for t, _ in pairs], [float(p) for _, p in pairs]
    assume(len(set(target)) > 1)
    assume(len(set(prediction)) > 1)
    columns = {"item": list(range(len(pairs))), "target": target, "prediction": prediction}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that two rows have no p-value
        same(of("pearson", columns), stats.pearsonr(target, prediction).statistic, 1e-11)
        same(of("spearman", columns), stats.spearmanr(target, prediction).statistic, 1e-11)
    same(of("r2", columns), sk.r2_score(target, prediction), 1e-11)


# -- confidence --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_brier_and_log_loss(seed: int) -> None:
    columns = classified(seed, classes=2)
    same(of("brier", columns), sk.brier_score_loss(hits(columns), columns["confidence"]))
    same(of("brier(binary=true)", columns), sk.brier_score_loss(hits(columns), columns["confidence"]))
    same(of("nll", columns), sk.log_loss(hits(columns), columns["confidence"]), 1e-11)


def test_log_loss_of_certainty_is_clipped() -> None:
    columns = classified(1, rows=40)
    columns["confidence"] = [float(i % 2) for i in range(40)]
    clipped = np.clip(columns["confidence"], 1e-6, 1 - 1e-6)
    same(of("nll", columns), sk.log_loss(hits(columns), clipped), 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bins", [5, 10, 15])
def test_ece_by_binned_statistics(seed: int, bins: int) -> None:
    """scipy's bins are half open with the last closed, as here; the edges are given as the same doubles."""
    columns = classified(seed)
    edges = [k / bins for k in range(bins + 1)]
    gap = np.subtract(hits(columns), columns["confidence"])
    total = stats.binned_statistic(columns["confidence"], gap, "sum", bins=edges).statistic
    count = stats.binned_statistic(columns["confidence"], gap, "count", bins=edges).statistic
    same(of(f"ece(bins={bins})", columns), np.abs(total).sum() / len(gap))
    same(of(f"mce(bins={bins})", columns), np.nanmax(np.abs(total[count > 0] / count[count > 0])))


# -- curves ------------------------------------------------------------------------------------------------------------


def risk_curve(columns: Columns) -> tuple[Any, Any, Any]:
    """Coverage, selective risk and generalized risk, a point per distinct confidence, in NumPy."""
    answered = np.array([p is not None for p in columns["prediction"]])
    confidence = np.array(columns["confidence"])[answered]
    loss = 1 - hits(columns)[answered]
    levels, level = np.unique(-confidence, return_inverse=True)
    accepted = np.cumsum(np.bincount(level, minlength=len(levels)))
    lost = np.cumsum(np.bincount(level, loss, minlength=len(levels)))
    return accepted / len(answered), lost / accepted, lost / len(answered)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("answer_rate", [1.0, 0.6])
def test_areas(seed: int, answer_rate: float) -> None:
    columns = classified(seed, answer_rate=answer_rate)
    coverage, risk, generalized = risk_curve(columns)
    x = np.concatenate([[0.0], coverage])
    same(of("aurc", columns), sk.auc(x, np.concatenate([risk[:1], risk])))
    same(of("augrc", columns), sk.auc(x, np.concatenate([[0.0], generalized])))
    for c in (0.25, 0.5):
        fine = np.union1d(x[x < c], [c])
        same(
            of(f"aurc_at(c={c})", columns),
            integrate.trapezoid(np.interp(fine, x, np.concatenate([risk[:1], risk])), fine),
        )
        same(of(f"risk_at(c={c})", columns), risk[np.searchsorted(coverage, c)])


@pytest.mark.parametrize("seed", SEEDS)
def test_achievable_area_by_the_hull_of_qhull(seed: int) -> None:
    columns = classified(seed)
    coverage, risk, _ = risk_curve(columns)
    top = 1 + risk.max()  # two points far above leave the lower hull as the rest
    points = np.column_stack([np.r_[coverage, coverage[0], coverage[-1]], np.r_[risk, top, top]])
    kept = np.sort([v for v in spatial.ConvexHull(points).vertices if v < len(coverage)])
    x, y = coverage[kept], risk[kept]
    assert kept[0] == 0
    assert kept[-1] == len(coverage) - 1
    same(of("aurc_achievable", columns), sk.auc(np.r_[0.0, x], np.r_[y[0], y]), 1e-9)


# -- cost and intervals ------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_percentiles(latencies: list[float]) -> None:
    columns = {"item": list(range(len(latencies))), "latency_ms": latencies}
    for q in (50, 95, 99):
        same(of(f"latency.p{q}", columns), np.percentile(latencies, q), 1e-9)


@pytest.mark.parametrize("answer_rate", [1.0, 0.5])
def test_percentile_interval_of_accuracy(answer_rate: float) -> None:
    """Both are quantiles of 10,000 resampled shares of 300 rows, which lie on a grid of 1/300."""
    columns = classified(6, answer_rate=answer_rate)
    found = evaluate(Records.from_columns(columns), "accuracy", method="percentile")["accuracy"]
    seeded = "rng" if "rng" in signature(stats.bootstrap).parameters else "random_state"  # scipy before 1.15
    theirs = stats.bootstrap(
        (hits(columns),), np.mean, n_resamples=10_000, method="percentile", vectorized=True, **{seeded: generator(0)}
    )
    assert found.interval is not None
    low, high = (float(end) for end in found.interval)
    assert low == pytest.approx(theirs.confidence_interval.low, abs=2.1 / 300)
    assert high == pytest.approx(theirs.confidence_interval.high, abs=2.1 / 300)
    assert found.se == pytest.approx(math.sqrt(hits(columns).var() / 300), rel=0.05)
