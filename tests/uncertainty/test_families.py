"""Which rule a number gets, and what its p-value is: skewed means, calibration, gates that invert what is shown."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from steelyard.decide.gate import FAIL, INCONCLUSIVE, PASS, Gate
from steelyard.errors import InputError
from steelyard.records.table import Records
from steelyard.study.comparison import compare, compare_kept
from steelyard.study.evaluation import evaluate, value
from steelyard.study.kept_wire import packed, unpacked
from steelyard.uncertainty.intervals import Rule, bca_rule, percentile_rule, shown_rule, student, wilson_of

# -- skewed numbers ------------------------------------------------------------------------------------------------


def errors(size: int = 40, seed: int = 0) -> Records:
    """Errors of which a few are far larger than the rest."""
    error = np.random.default_rng(seed).lognormal(0, 1.2, size)
    return Records.from_columns({"item": range(size), "target": np.zeros(size), "prediction": error})


def worth(psi: np.ndarray) -> float:
    second, fourth, size = (psi**2).sum(), (psi**4).sum(), len(psi)
    room = fourth - second**2 / size
    return size - 1 if room <= 0 else min(size - 1, 2 * second**2 / room)


def test_a_mean_that_cannot_be_negative_is_taken_on_a_log_scale() -> None:
    records = errors()
    (mae,) = evaluate(records, ["mae"])
    loss = np.abs(records.stated_numbers("prediction"))
    freedom = worth(loss - loss.mean())
    half = stats.t.ppf(0.975, freedom) * stats.sem(loss) / loss.mean()
    assert mae.method == "log-t"
    assert mae.interval == pytest.approx((loss.mean() * math.exp(-half), loss.mean() * math.exp(half)), rel=1e-9)
    assert ("a few clusters carry the spread" in mae.note) == (freedom < 10)


def test_rmse_takes_the_jackknife_on_a_log_scale() -> None:
    records = errors()
    (rmse,) = evaluate(records, ["rmse"])
    square = records.stated_numbers("prediction") ** 2
    root = math.sqrt(square.mean())
    left = np.array([math.sqrt(np.delete(square, i).mean()) for i in range(len(square))])
    se = math.sqrt((len(left) - 1) / len(left) * ((left - left.mean()) ** 2).sum())
    half = stats.t.ppf(0.975, worth(left.mean() - left)) * se / root
    assert rmse.interval == pytest.approx((root * math.exp(-half), root * math.exp(half)), rel=1e-7)


def test_correlations_take_t_with_the_freedom_their_clusters_are_worth() -> None:
    rng = np.random.default_rng(2)
    x = rng.lognormal(size=50)
    y = x + rng.lognormal(size=50)
    (found,) = evaluate(Records.from_columns({"item": range(50), "target": x, "prediction": y}), ["pearson"])
    r = np.corrcoef(x, y)[0, 1]
    left = np.array([np.corrcoef(np.delete(x, i), np.delete(y, i))[0, 1] for i in range(50)])
    se = math.sqrt(49 / 50 * ((left - left.mean()) ** 2).sum())
    half = stats.t.ppf(0.975, worth(left.mean() - left)) * se
    assert found.method == "t"
    assert found.interval == pytest.approx((r - half, min(1, r + half)), rel=1e-7)


def test_the_note_never_says_the_reverse() -> None:
    (even,) = evaluate(Records.from_columns({"item": range(40), "score": np.linspace(-1, 1, 40)}), ["mean(score)"])
    assert even.note == ""


# -- rules at every level --------------------------------------------------------------------------------------------


@given(st.floats(-2, 2), st.floats(0.01, 1), st.integers(3, 80))
def test_the_level_that_begins_to_exclude_is_the_p_value_of_t(x: float, se: float, clusters: int) -> None:
    rule = Rule("t", lambda level: student(x, se, clusters, level))
    assert rule.alpha(0.0) == pytest.approx(max(2 * stats.t.sf(abs(x) / se, clusters - 1), 1e-12), rel=1e-6, abs=2e-9)


@given(st.integers(0, 10**6), st.sampled_from([7, 20, 200]), st.floats(-1, 1))
def test_p_and_interval_agree_at_every_level(seed: int, clusters: int, threshold: float) -> None:
    rng = np.random.default_rng(seed)
    replicates = rng.normal(0.3, 0.4, 400)
    left_out = rng.normal(size=clusters)
    for rule in (percentile_rule(replicates, clusters), bca_rule(0.3, replicates, left_out, clusters)):
        p = rule.alpha(threshold)
        assert p >= rule.least
        for level in (0.5, 0.8, 0.95, 0.99):
            low, high = rule.at(level)
            if 1 - level > p * 1.001:
                assert not low <= threshold <= high
            elif 1 - level < p * 0.999 and p > rule.least * 1.001:
                assert low <= threshold <= high


def test_a_shown_interval_is_inverted_by_its_own_method() -> None:
    share = Rule("wilson", lambda level: wilson_of(0.15, 20, 20, level))
    again = shown_rule("wilson", 0.15, share.at(0.95), 0.95, 20)
    assert again.alpha(0.02) == pytest.approx(share.alpha(0.02), rel=1e-6)
    assert again.at(0.8) == pytest.approx(share.at(0.8), rel=1e-9)


def test_a_gates_p_belongs_to_the_interval_that_is_shown() -> None:
    """Three of twenty that should be deferred were answered, against at most .02: excluded, so p is at most .025."""
    records = Records.from_columns(
        {"item": range(20), "should_abstain": [True] * 20, "prediction": ["a"] * 3 + [None] * 17}
    )
    result = evaluate(records, ["unsafe_answer_rate"])
    interval = result["unsafe_answer_rate"].interval
    assert interval is not None
    assert interval[0] > 0.02
    (found,) = Gate.parse("high(unsafe_answer_rate) <= 0.02").check(result).rules
    assert found.verdict == FAIL
    assert found.p_value is not None
    assert found.p_value <= 0.025  # a Wald test next to it said .065
    (fine,) = Gate.parse("high(unsafe_answer_rate) <= 0.9").check(result).rules
    assert (fine.verdict, fine.p_value) == (PASS, 1.0)


# -- calibration -----------------------------------------------------------------------------------------------------


def confident(seed: int, slope: float, size: int = 600, **more: Any) -> Records:
    """Answers whose confidence is off by a slope around one half; 1 is calibrated."""
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0.5, 1, size)
    right = rng.random(size) < truth
    stated = np.clip(0.5 + slope * (truth - 0.5), 0, 1)
    columns = {"item": range(size), "cluster": np.arange(size) // 6, "target": ["a"] * size, "confidence": stated}
    return Records.from_columns({**columns, "prediction": np.where(right, "a", "b"), **more})


def test_a_delta_of_ece_takes_its_verdict_from_what_noise_does_not_move() -> None:
    good, bad = confident(1, 1.0), confident(1, 0.2)
    worse = compare(good, bad, ["ece"])["ece"]
    assert worse.verdict_from == "calibration_error2"
    assert worse.verdict == "worse"
    twin = compare(good, bad, ["calibration_error2"])["calibration_error2"]
    assert worse.companions["calibration_error2"]["delta"] == twin.delta
    assert worse.companions["calibration_error2"]["interval"] == twin.interval
    assert "biased towards 0" in worse.note
    assert compare(bad, good, ["ece"])["ece"].verdict == "better"
    # bins travel along
    wide = compare(good, bad, ["ece(bins=3)"])["ece(bins=3)"]
    assert (
        wide.companions["calibration_error2"]["delta"]
        == compare(good, bad, ["calibration_error2(bins=3)"])["calibration_error2(bins=3)"].delta
    )


def test_a_rule_on_ece_does_not_pass_where_its_twin_is_worse() -> None:
    good, bad = confident(1, 1.0), confident(1, 0.2)
    comparison = compare(good, bad, ["ece"])
    for rule, verdict in (("high(delta(ece)) <= 0.9", INCONCLUSIVE), ("delta(ece) <= 0.9", FAIL)):
        (found,) = Gate.parse(rule).check(comparison).rules
        assert found.verdict == verdict
        assert "calibration_error2 is shown to be worse" in found.reason
    (own,) = Gate.parse("high(delta(ece)) <= 0.5").check(compare(bad, good, ["ece"])).rules
    assert own.verdict == PASS


def test_kept_ece_has_its_twin_too() -> None:
    kept = [
        unpacked(packed(evaluate(r, ["ece"], keep_evidence=True, resamples=100).kept))
        for r in (confident(1, 1.0), confident(2, 0.4))
    ]
    rows = compare(confident(1, 1.0), confident(2, 0.4), ["ece"])["ece"]
    found = compare_kept(*kept, ["ece"])["ece"]
    assert found.companions["calibration_error2"]["delta"] == pytest.approx(
        rows.companions["calibration_error2"]["delta"]
    )
    assert found.verdict == rows.verdict


def test_the_error_without_noise_is_0_on_average_where_ece_is_not() -> None:
    found = [(value("ece", r), value("calibration_error2", r)) for r in (confident(s, 1.0, 240) for s in range(60))]
    ece, twin = np.array(found).T
    assert ece.mean() > 0.04
    assert abs(twin.mean()) < 3 * twin.std() / math.sqrt(60)
    assert (twin < 0).any()


def test_the_probability_of_a_class_is_calibrated_on_every_row_with_a_target() -> None:
    rng = np.random.default_rng(5)
    p = rng.random(400)
    target = np.where(rng.random(400) < p, "ill", "well")
    said = np.where(p >= 0.5, "ill", "well").astype(object)
    said[::10] = None
    columns = {"item": range(400), "target": target, "prediction": said, "signal.p": p}
    records = Records.from_columns(columns)
    asked = "ece(positive=ill, score=signal.p)"
    (found,) = evaluate(records, [asked], resamples=100)
    assert found.n == 400  # declined rows too: the probability is about the case
    hit = (target == "ill").astype(float)
    assert value("brier(positive=ill, score=signal.p)", records) == pytest.approx(((p - hit) ** 2).mean())
    assert value("nll(positive=ill, score=signal.p)", records) == pytest.approx(
        -np.log(np.clip(np.where(hit == 1, p, 1 - p), 1e-6, 1 - 1e-6)).mean()
    )
    outside = Records.from_columns({**columns, "signal.p": p * 100})
    with pytest.raises(InputError, match="no probability"):
        value(asked, outside)


def test_a_confidence_that_is_evidently_a_classs_probability_draws_a_warning() -> None:
    rng = np.random.default_rng(6)
    p = rng.random(100)
    columns = {"item": range(100), "target": np.where(rng.random(100) < p, "ill", "well"), "confidence": p}
    evident = Records.from_columns({**columns, "prediction": np.where(p >= 0.5, "ill", "well")})
    (warning,) = [w for w in evaluate(evident, ["ece"], resamples=100).warnings if "probability of" in w]
    assert "probability of ill" in warning
    assert "ece(positive=ill)" in warning
    assert not any("probability of" in w for w in evaluate(evident, ["ece(positive=ill)"], resamples=100).warnings)
    usual = Records.from_columns(
        {**columns, "confidence": np.maximum(p, 1 - p), "prediction": evident.column("prediction")}
    )
    assert not any("probability of" in w for w in evaluate(usual, ["ece"], resamples=100).warnings)


def test_a_gate_on_ece_reads_the_rows_that_both_answered() -> None:
    """A run that only declines what it got wrong must not look better calibrated."""
    base = confident(3, 0.3)
    wrong = base.array("correct") == 0
    said = [
        None if w and i % 2 else p
        for i, (p, w) in enumerate(zip(base.column("prediction").to_pylist(), wrong, strict=True))
    ]
    new = confident(3, 0.3, prediction=said)
    comparison = compare(base, new, ["ece"])
    assert comparison["ece"].companions["answered_by_both"]["delta"] == pytest.approx(0)
    (found,) = Gate.parse("high(delta(ece)) <= 0").check(comparison).rules
    assert found.verdict != PASS
    assert found.value == pytest.approx(0)


def test_whether_the_twin_is_worse_does_not_depend_on_what_else_is_compared() -> None:
    good, bad = confident(1, 1.0), confident(4, 0.75)
    alone = compare(good, bad, ["ece"])["ece"]
    among = compare(good, bad, ["ece", "accuracy", "brier", "nll", "auroc", "answer_rate", "ace", "f1.a"])["ece"]
    assert alone.cautions == among.cautions


def test_an_interval_holds_its_delta_and_an_excess_is_not_cut_off() -> None:
    """A declared range that the errors exceed bounds nothing."""
    columns = {"item": range(30), "target": np.zeros(30), "confidence": np.linspace(0, 1, 30)}
    base = Records.from_columns({**columns, "prediction": np.zeros(30)})
    new = Records.from_columns({**columns, "prediction": np.r_[100.0, 100.0, np.zeros(28)]})
    name = "aurc(loss=abs_norm, range=1)"
    delta = compare(base, new, [name], resamples=300)[name]
    assert delta.delta is not None
    if delta.interval is not None:
        assert delta.interval[0] <= delta.delta <= delta.interval[1]
        assert delta.interval[1] > 1


def test_a_perfect_correlation_has_an_interval_at_its_bound() -> None:
    x = np.linspace(0, 1, 40)
    (found,) = evaluate(Records.from_columns({"item": range(40), "target": x, "prediction": 2 * x}), ["pearson"])
    assert found.method == "bound"
    assert found.interval == pytest.approx((1 - 2 * (1 - 0.025 ** (1 / 40)), 1.0))


def test_a_quantile_that_jumps_is_not_said_to_move_every_cluster() -> None:
    columns = {"item": range(60), "prediction": ["a"] * 60}
    base = Records.from_columns({**columns, "latency_ms": [100.0] * 60})
    new = Records.from_columns({**columns, "latency_ms": [90.0] * 50 + [100.0] * 10})
    delta = compare(base, new, ["latency.p50"], resamples=300)["latency.p50"]
    assert "every cluster differs by exactly" not in delta.note
    assert "constant" not in delta.cautions


@pytest.mark.parametrize("metric", ["ece", "ace", "mce", "brier", "nll", "calibration_error2", "auroc"])
def test_a_class_that_no_target_has_is_undefined_and_passes_no_gate(metric: str) -> None:
    name = f"{metric}(positive=Ill)"
    result = evaluate(confident(1, 1.0), [name], resamples=100)
    assert result[name].value is None
    assert "no target equals the positive label" in result[name].note
    better = ">=" if metric == "auroc" else "<="
    assert Gate.parse(f"{name} {better} {0 if metric == 'auroc' else 1}").check(result).verdict == FAIL


@pytest.mark.parametrize("method", ["percentile", "bca", "plain"])
def test_the_error_without_noise_is_never_bootstrapped(method: str) -> None:
    one, two = confident(1, 0.5), confident(2, 0.5)
    usual = evaluate(one, ["calibration_error2"])["calibration_error2"]
    asked = evaluate(one, ["calibration_error2"], method=method, resamples=200)["calibration_error2"]
    assert asked.interval == usual.interval
    assert compare(one, two, ["calibration_error2"], method=method, resamples=200)["calibration_error2"].method == "t"
