"""Gaps, worst groups, disparities and repeats: their intervals read naively, and what is said of groups left out."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from steelyard.decide.gate import FAIL, INCONCLUSIVE, PASS, Gate
from steelyard.records.table import Records
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate

GAP = "fairness_gap(accuracy, by=group.site)"


def records(
    right: np.ndarray, cluster: np.ndarray, site: np.ndarray, *, prediction: list[Any] | None = None, **more: Any
) -> Records:
    size = len(right)
    said = prediction if prediction is not None else ["a" if r else "b" for r in right]
    columns = {"item": list(range(size)), "cluster": cluster, "target": ["a"] * size, "prediction": said}
    return Records.from_columns({**columns, "group.site": site, **more})


def drawn(seed: int, sizes: dict[str, int], shares: dict[str, float], rows: int = 6) -> Records:
    """Groups of whole clusters, with their own share of right answers."""
    rng = np.random.default_rng(seed)
    site = np.repeat(list(sizes), [n * rows for n in sizes.values()])
    cluster = np.repeat(np.arange(sum(sizes.values())), rows)
    right = rng.random(len(site)) < np.array([shares[s] for s in site])
    return records(right, cluster, site)


def welch(table: Records, level: float, *, padded: bool = True) -> tuple[float, float]:
    """Simultaneous intervals of all pairs, from the definition, with covariances of shared clusters."""
    ids, cluster = table.cluster
    right = np.asarray(table.array("correct"))
    names = sorted(table.labels("group.site").values)
    groups = []
    for name in names:
        inside = np.asarray(table.labels("group.site") == name)
        held = sorted(set(cluster[inside].tolist()))
        totals = np.array([right[inside & (cluster == c)].sum() for c in held])
        rows = np.array([(inside & (cluster == c)).sum() for c in held], float)
        mean, count = totals.sum() / rows.sum(), len(held)
        psi = np.zeros(len(ids))
        psi[held] = (totals - mean * rows) / rows.sum() * math.sqrt(count / (count - 1))
        size = rows.mean()
        more = (np.r_[totals, 0.0, size], np.r_[rows, size, size]) if padded else (totals, rows)
        centre = more[0].sum() / more[1].sum()
        extra = len(more[1])
        variance = extra / (extra - 1) * ((more[0] - centre * more[1]) ** 2).sum() / more[1].sum() ** 2
        groups.append((mean, variance, count, psi))
    groups = [g for g in groups if g[2] >= 4]
    pairs = list(itertools.combinations(groups, 2))
    ends = []
    for (a, va, na, pa), (b, vb, nb, pb) in pairs:
        v = va + vb - 2 * float(pa @ pb)
        df = (va + vb) ** 2 / (va**2 / (na - 1) + vb**2 / (nb - 1))
        h = stats.t.ppf(1 - (1 - level) / (2 * len(pairs)), df) * math.sqrt(v)
        ends.append((abs(a - b) - h, abs(a - b) + h))
    return max(0.0, max(low for low, _ in ends)), min(1.0, max(high for _, high in ends))


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize(
    "sizes", [{"x": 12, "y": 9}, {"x": 30, "y": 6, "z": 5}, {"x": 5, "y": 7, "z": 4, "u": 20, "v": 9}]
)
def test_a_gap_is_the_widest_of_all_pairs(sizes: dict[str, int], level: float) -> None:
    table = drawn(3, sizes, {name: 0.5 + 0.08 * i for i, name in enumerate(sizes)})
    (gap,) = evaluate(table, [GAP], level=level)
    assert gap.method == "welch"
    assert gap.interval == pytest.approx(welch(table, level), abs=1e-9)
    assert gap.cautions == ()


def test_groups_that_cut_through_clusters_share_their_noise() -> None:
    rng = np.random.default_rng(4)
    cluster = np.repeat(np.arange(20), 10)
    easy = rng.normal(size=20)[cluster]
    table = records(rng.random(200) < 1 / (1 + np.exp(-easy)), cluster, np.array(["x", "y"] * 100))
    (gap,) = evaluate(table, [GAP])
    assert gap.interval == pytest.approx(welch(table, 0.95), abs=1e-9)


def test_other_base_metrics_take_the_jackknife() -> None:
    table = drawn(5, {"x": 15, "y": 12}, {"x": 0.6, "y": 0.8})
    name = "fairness_gap(f1.a, by=group.site)"
    (gap,) = evaluate(table, [name])

    def f1(right: np.ndarray) -> float:
        return 2 * right.sum() / (len(right) + right.sum())

    found = []
    _, cluster = table.cluster
    for site in ("x", "y"):
        inside = np.asarray(table.labels("group.site") == site)
        right, own = np.asarray(table.array("correct"))[inside], cluster[inside]
        left = np.array([f1(right[own != c]) for c in sorted(set(own.tolist()))])
        found.append((f1(right), (len(left) - 1) / len(left) * ((left - left.mean()) ** 2).sum(), len(left)))
    (a, va, na), (b, vb, nb) = found
    df = (va + vb) ** 2 / (va**2 / (na - 1) + vb**2 / (nb - 1))
    half = stats.t.ppf(0.975, df) * math.sqrt(va + vb)
    assert gap.interval == pytest.approx((max(0.0, abs(a - b) - half), min(1.0, abs(a - b) + half)), abs=1e-9)


def test_a_group_with_few_clusters_can_only_widen_the_gap() -> None:
    table = drawn(6, {"x": 40, "y": 40, "tiny": 3}, {"x": 0.9, "y": 0.4, "tiny": 0.5})
    (gap,) = evaluate(table, [GAP])
    kept = table.take(np.asarray(table.labels("group.site") != "tiny"))
    assert gap.interval is not None
    assert gap.interval[0] == pytest.approx(welch(kept, 0.95)[0], abs=1e-9)  # a real gap is not hidden
    assert gap.interval[0] > 0.2
    assert gap.interval[1] == 1.0
    assert "group tiny has fewer than 4 clusters" in gap.note
    result = evaluate(table, [GAP])
    verdicts = {
        rule: Gate.parse(rule).check(result).verdict
        for rule in (f"high({GAP}) <= 0.6", f"high({GAP}) <= 1", f"high({GAP}) <= 0.1", f"low({GAP}) <= 0.6")
    }
    assert verdicts == {
        f"high({GAP}) <= 0.6": INCONCLUSIVE,
        f"high({GAP}) <= 1": INCONCLUSIVE,  # never a pass on an end that nobody knows
        f"high({GAP}) <= 0.1": FAIL,  # shown already by the groups that are known
        f"low({GAP}) <= 0.6": PASS,
    }


def test_an_unbounded_metric_has_no_upper_end_beside_a_tiny_group() -> None:
    rng = np.random.default_rng(1)
    site = np.repeat(["x", "y", "tiny"], [120, 120, 6])
    columns = {"item": range(246), "cluster": np.arange(246) // 3, "target": np.zeros(246), "group.site": site}
    table = Records.from_columns({**columns, "prediction": rng.normal(size=246) * np.where(site == "y", 3, 1)})
    (gap,) = evaluate(table, ["fairness_gap(mae, by=group.site)"])
    assert gap.interval is not None
    assert gap.interval[0] > 0
    assert math.isinf(gap.interval[1])
    assert "open high" in gap.cautions


def test_fewer_than_two_groups_have_no_gap() -> None:
    table = drawn(7, {"x": 20}, {"x": 0.5})
    (gap,) = evaluate(table, [GAP])
    assert gap.value is None
    assert "at least two groups" in gap.note


def test_no_rule_passes_where_a_group_has_no_value() -> None:
    """A group whose every row was declined has no selective accuracy: the gap of the others is not the gap."""
    table = drawn(8, {"x": 20, "y": 20, "z": 20}, {"x": 0.8, "y": 0.8, "z": 0.8})
    silent = np.asarray(table.labels("group.site") == "z")
    said = [None if gone else p for p, gone in zip(table.column("prediction").to_pylist(), silent, strict=True)]
    muted = records(np.zeros(360), table.cluster[1], np.asarray(table.labels("group.site")), prediction=said)
    name = "fairness_gap(selective_accuracy, by=group.site)"
    result = evaluate(muted, [name])
    assert result[name].value is not None
    assert "group z left out: the metric is undefined there" in result[name].note
    for rule, verdict in (
        (f"{name} <= 0.9", FAIL),
        (f"low({name}) <= 0.9", FAIL),
        (f"high({name}) <= 0.9", INCONCLUSIVE),
    ):
        (found,) = Gate.parse(rule).check(result).rules
        assert found.verdict == verdict
        assert "a group has no value" in found.reason


def test_a_group_without_a_value_in_one_run_leaves_both() -> None:
    base = drawn(9, {"x": 20, "y": 20, "z": 20}, {"x": 0.6, "y": 0.8, "z": 0.1})
    silent = np.asarray(base.labels("group.site") == "z")
    said = [None if gone else p for p, gone in zip(base.column("prediction").to_pylist(), silent, strict=True)]
    new = records(np.zeros(360), base.column("cluster"), np.asarray(base.labels("group.site")), prediction=said)
    name = "fairness_gap(selective_accuracy, by=group.site)"
    delta = compare(base, new, [name])[name]
    assert delta.base == pytest.approx(delta.new)  # the gap between x and y, in both
    assert "group z left out: without a value in one run" in delta.note


def test_norms_and_extremes_do_not_compare_groups() -> None:
    table = drawn(10, {"x": 10, "y": 10}, {"x": 0.6, "y": 0.8})
    with_confidence = Records.from_columns(
        {**{n: table.column(n) for n in table.stated}, "confidence": np.random.default_rng(1).random(len(table))}
    )
    for base in ("ece", "ace", "mce"):
        (gap,) = evaluate(with_confidence, [f"fairness_gap({base}, by=group.site)"], resamples=100)
        assert gap.interval is None
        assert "calibration_error2" in gap.note
    (fit,) = evaluate(with_confidence, ["fairness_gap(calibration_error2, by=group.site)"], resamples=100)
    assert fit.interval is not None


@pytest.mark.parametrize("lower", [False, True])
def test_the_worst_group_is_the_worst_of_intervals_at_once(lower: bool) -> None:
    table = drawn(11, {"x": 15, "y": 20, "z": 9}, {"x": 0.6, "y": 0.8, "z": 0.7})
    base = "parse_failure_rate" if lower else "accuracy"
    if lower:
        outcome = ["answered" if p == "a" else "unparsed" for p in table.column("prediction").to_pylist()]
        table = Records.from_columns({**{n: table.column(n) for n in table.stated}, "outcome": outcome})
    (worst,) = evaluate(table, [f"worst_group({base}, by=group.site)"])
    alone = [evaluate(table, [base], by=["group.site"], level=1 - 0.05 / 3)[f"{base}{{group.site={s}}}"] for s in "xyz"]
    ends = [e.interval for e in alone if e.interval is not None]
    choose = max if lower else min
    assert worst.interval == pytest.approx((choose(low for low, _ in ends), choose(high for _, high in ends)))
    assert worst.method == "simultaneous"


def test_a_worst_group_of_few_clusters_may_be_as_bad_as_can_be() -> None:
    table = drawn(12, {"x": 15, "tiny": 3}, {"x": 0.6, "tiny": 0.9})
    (worst,) = evaluate(table, ["worst_group(accuracy, by=group.site)"])
    assert worst.interval is not None
    assert worst.interval[0] == 0.0
    assert "tiny" in worst.note


def test_disparity_takes_its_group_with_two_pseudo_clusters() -> None:
    table = drawn(13, {"x": 15, "y": 20, "z": 9}, {"x": 0.6, "y": 0.8, "z": 0.7})
    (found,) = evaluate(table, ["disparity(accuracy, by=group.site).x"])
    ids, cluster = table.cluster
    right, inside = np.asarray(table.array("correct")), np.asarray(table.labels("group.site") == "x")
    left = np.array([right[inside & (cluster != c)].mean() - right[cluster != c].mean() for c in range(len(ids))])
    variance = (len(ids) - 1) / len(ids) * ((left - left.mean()) ** 2).sum()
    held = sorted(set(cluster[inside].tolist()))
    totals, rows = np.array([right[inside & (cluster == c)].sum() for c in held]), np.full(len(held), 6.0)

    def spread(totals: np.ndarray, rows: np.ndarray) -> float:
        mean, n = totals.sum() / rows.sum(), len(rows)
        return float(n / (n - 1) * ((totals - mean * rows) ** 2).sum() / rows.sum() ** 2)

    variance += spread(np.r_[totals, 0, 6], np.r_[rows, 6, 6]) - spread(totals, rows)
    half = stats.t.ppf(1 - 0.05 / 6, len(held) - 1) * math.sqrt(variance)
    value = right[inside].mean() - right.mean()
    assert found.interval == pytest.approx((value - half, value + half), abs=1e-9)


def test_metrics_over_a_column_are_not_asked_inside_its_groups() -> None:
    table = drawn(14, {"x": 15, "y": 20}, {"x": 0.6, "y": 0.8})
    result = evaluate(table, [GAP, "accuracy"], by=["group.site"])
    assert [(e.metric, dict(e.slice)) for e in result if e.metric == GAP] == [(GAP, {})]
    assert len([e for e in result if e.metric == "accuracy"]) == 3


# -- repeats -------------------------------------------------------------------------------------------------------


def repeated(seed: int, items: int = 60, repeats: int = 4, drift: float = 0.0) -> Records:
    rng = np.random.default_rng(seed)
    ease = rng.random(items)
    rows = [(i, r, rng.random() < np.clip(ease[i] + drift * r, 0, 1)) for i in range(items) for r in range(repeats)]
    return Records.from_columns(
        {
            "item": [i for i, _, _ in rows],
            "repeat": [r for _, r, _ in rows],
            "target": ["a"] * len(rows),
            "prediction": ["a" if ok else "b" for *_, ok in rows],
        }
    )


def test_cv_and_score_hold_0_exactly_where_the_deviation_does() -> None:
    held = 0
    for seed in range(12):
        table = repeated(seed, drift=0.0 if seed % 2 else 0.12)
        names = ["stability(accuracy).stddev", "stability(accuracy).cv", "stability_score(accuracy)"]
        std, cv, score = evaluate(table, names, resamples=400)
        assert std.interval is not None
        assert cv.interval is not None
        assert score.interval is not None
        assert (std.interval[0] == 0) == (cv.interval[0] == 0) == (score.interval[1] == 1)
        assert score.interval == pytest.approx((max(0, 1 - cv.interval[1]), 1 - cv.interval[0]))
        held += std.interval[0] == 0
    assert 5 <= held <= 11  # some of both, or this shows nothing


def test_a_range_that_the_groups_do_not_share_bounds_nothing() -> None:
    rng = np.random.default_rng(3)
    site = np.repeat(["a", "b"], 60)
    score = np.where(site == "a", rng.integers(0, 2, 120), rng.integers(0, 11, 120)).astype(float)
    columns = {"item": range(120), "cluster": np.arange(120) // 3, "score": score}
    name = "fairness_gap(mean(score), by=group.site)"
    ends = [
        evaluate(Records.from_columns({**columns, "group.site": names}), [name])[name].interval
        for names in (site, np.where(site == "a", "z", site))
    ]
    assert ends[0] == pytest.approx(ends[1])  # whichever group comes first
    assert ends[0] is not None
    assert ends[0][1] > abs(score[site == "b"].mean() - score[site == "a"].mean())


def test_the_worst_group_is_no_surer_than_any_group() -> None:
    rng = np.random.default_rng(4)
    site = np.repeat(["a", "b"], 60)
    right = rng.random(120) < 0.6
    right[60:] = True
    right[60] = False  # one wrong answer: most resamples of b have none
    table = records(right, np.arange(120) // 3, site, confidence=rng.random(120))
    (worst,) = evaluate(table, ["worst_group(auroc, by=group.site)"], resamples=500)
    assert worst.undefined_resamples > 100
    assert "doubtful" in worst.cautions


def test_extremes_do_not_compare_groups_either() -> None:
    rng = np.random.default_rng(5)
    site = np.repeat(["a", "b"], 60)
    table = records(rng.random(120) < 0.6, np.arange(120) // 3, site, latency_ms=rng.lognormal(5, 1, 120))
    for name in ("fairness_gap(latency.max, by=group.site)", "disparity(latency.max, by=group.site).a"):
        (found,) = evaluate(table, [name], resamples=100)
        assert found.interval is None
        assert "extreme" in found.note
