"""Paired comparisons: pairing, failed rows, companions, verdicts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats

from steelyard.errors import InputError, UsageError
from steelyard.records.table import Records
from steelyard.study.comparison import compare
from tests.support.shelf import answers


def run(predictions: list[Any], *, rows: int = 8, seed: int = 0, **more: Any) -> Records:
    """Binary questions, `rows` a patient."""
    size = len(predictions)
    rng = np.random.default_rng(seed)
    columns = {
        "item": [f"q{i}" for i in range(size)],
        "cluster": [f"p{i // rows}" for i in range(size)],
        "target": ["yes"] * size,
        "prediction": predictions,
        "confidence": [round(float(c), 1) for c in rng.random(size)],
        **more,
    }
    return Records.from_columns(columns)


def test_delta_is_new_minus_base_with_the_textbook_paired_interval() -> None:
    base, new = answers(320, 0.6, 1), answers(320, 0.75, 2)
    (delta,) = compare(run(base), run(new), ["accuracy"])
    d = np.array([(n == "yes") - (b == "yes") for b, n in zip(base, new, strict=True)], float).reshape(40, 8).mean(1)
    assert delta.delta == pytest.approx(d.mean())
    assert delta.se == pytest.approx(d.std(ddof=1) / np.sqrt(40))
    # two pseudo-clusters that differ by the usual size, one up, one down
    usual = np.sqrt((d[d != 0] ** 2).mean())
    padded = np.r_[d, usual, -usual]
    half = 2.0226909 * padded.std(ddof=1) / np.sqrt(42)
    assert delta.interval == pytest.approx((padded.mean() - half, padded.mean() + half), rel=1e-6)
    assert delta.verdict == "better"
    assert delta.p_value is not None
    assert delta.p_value < 0.01


def test_lower_is_better_turns_the_verdict() -> None:
    good, bad = answers(320, 0.9, 1), answers(320, 0.4, 2)
    found = compare(run(good), run(bad), ["accuracy", "augrc"])
    assert found["accuracy"].verdict == "worse"
    assert found["augrc"].verdict == "worse"
    assert found["augrc"].delta is not None
    assert found["augrc"].delta > 0


def test_row_order_and_extra_columns_do_not_matter() -> None:
    base, new = run(answers(160, 0.6, 1)), run(answers(160, 0.7, 2))
    rng = np.random.default_rng(0)
    shuffled = new.take(rng.permutation(160))
    one, two = compare(base, new, ["accuracy", "aurc"]), compare(base, shuffled, ["accuracy", "aurc"])
    for a, b in zip(one, two, strict=True):
        assert a.delta == pytest.approx(b.delta, abs=1e-12)
        assert a.interval == pytest.approx(b.interval, abs=1e-12)
        assert a.p_value == b.p_value


def test_unmatched_rows_are_an_error_or_counted() -> None:
    base, new = run(answers(80, 0.6, 1)), run(answers(72, 0.6, 2))
    with pytest.raises(InputError, match="8 rows of the base run and 0 of the new one have no partner"):
        compare(base, new, ["accuracy"])
    found = compare(base, new, ["accuracy"], align="intersection")
    assert found.unmatched["base_rows"] == 8
    assert found["accuracy"].n == 72


def test_different_targets_are_refused() -> None:
    base = run(answers(80, 0.6, 1))
    new = run(answers(80, 0.6, 1), target=["yes"] * 79 + ["no"])
    with pytest.raises(InputError, match="target: differs from the base run for 1 row"):
        compare(base, new, ["accuracy"])


def test_different_clusters_are_refused() -> None:
    base = run(answers(80, 0.6, 1))
    new = run(answers(80, 0.6, 1), cluster=[f"p{i // 4}" for i in range(80)])
    with pytest.raises(InputError, match="cluster: differs"):
        compare(base, new, ["accuracy"])


def test_a_row_that_failed_on_either_side_leaves_both() -> None:
    outcome = ["failed"] * 8 + ["answered"] * 72
    predictions = answers(80, 0.6, 2)
    base = run(answers(80, 0.6, 1))
    new = run([None if o == "failed" else p for o, p in zip(outcome, predictions, strict=True)], outcome=outcome)
    found = compare(base, new, ["accuracy", "failure_rate"])
    delta = found["accuracy"]
    assert delta.n == 72
    assert "8 rows failed" in delta.note
    assert delta.companions["failure_rate"] == {"base": 0.0, "new": 0.1}
    strict = delta.companions["failed_as_wrong"]
    assert strict["n"] == 80
    right = sum(p == "yes" for p in predictions[8:])
    assert strict["new"] == pytest.approx(right / 80)
    assert found["failure_rate"].n == 80
    assert found["failure_rate"].delta == pytest.approx(0.1)


def test_answered_only_deltas_carry_rates_and_the_common_rows() -> None:
    base = answers(160, 0.7, 1)
    new = [None if i % 4 == 0 else p for i, p in enumerate(answers(160, 0.7, 2))]
    delta = compare(run(base), run(new), ["selective_accuracy"])["selective_accuracy"]
    assert delta.companions["answer_rate"] == {"base": 1.0, "new": 0.75}
    common = delta.companions["answered_by_both"]
    kept = [i for i in range(160) if i % 4]
    assert common["n"] == 120
    assert common["base"] == pytest.approx(np.mean([base[i] == "yes" for i in kept]))
    assert delta.verdict_from == "answered_by_both"


def test_areas_of_unequal_cmax_are_judged_up_to_the_common_one() -> None:
    # a model that answers a tenth of the rows at risk one half must not look better
    base = answers(320, 0.8, 1)
    lazy = [("yes" if i % 20 else "no") if i % 10 == 0 else None for i in range(320)]
    delta = compare(run(base), run(lazy), ["aurc"])["aurc"]
    assert delta.delta is not None
    assert delta.delta < 0  # the raw area rewards declining
    assert delta.verdict_from == "common_cmax"
    assert delta.companions["common_cmax"]["c"] == pytest.approx(0.1)
    assert delta.companions["common_cmax"]["delta"] > 0
    assert delta.verdict != "better"


def test_hardly_any_difference_still_allows_for_a_rare_loss() -> None:
    base = ["yes"] * 160
    new = ["no"] + ["yes"] * 159
    (delta,) = compare(run(base), run(new), ["accuracy"])
    one_seen, none_seen = stats.beta.ppf(0.975, 2, 19), stats.beta.ppf(0.975, 1, 20)
    assert delta.interval is not None
    assert delta.interval[0] == pytest.approx(-1 / 160 - (one_seen - 1 / 20))
    lost = np.r_[1 / 8, np.zeros(19)]
    half = stats.t.ppf(0.975, 19) * lost.std(ddof=1) / np.sqrt(20)
    assert delta.interval[1] == pytest.approx(-1 / 160 + np.hypot(half, none_seen))
    assert delta.verdict == "inconclusive"
    assert "only 1 cluster differs" in delta.note


def test_identical_runs_are_unchanged() -> None:
    base = run(answers(160, 0.6, 1))
    names = ["accuracy", "mean(confidence)", "ece", "auroc"]
    for delta in compare(base, base, names):
        assert delta.delta == 0
        assert delta.verdict == "unchanged"
        assert delta.p_value == 1
        assert "the answers are the same in all 160 rows" in delta.note
    for delta in compare(base, base, names, unchanged="judge"):
        assert delta.verdict == "inconclusive"
        assert not delta.unchanged


def test_fewer_than_six_clusters_can_decide_nothing() -> None:
    (delta,) = compare(run(["no"] * 40), run(["yes"] * 40), ["accuracy"])
    assert delta.clusters == 5
    assert delta.verdict == "inconclusive"
    assert "too few for a verdict" in delta.note


def test_holm_counts_every_comparison_that_decides() -> None:
    base, new = run(answers(160, 0.60, 1)), run(answers(160, 0.72, 2))
    one = compare(base, new, ["accuracy"])["accuracy"]
    metrics = ["accuracy", "f1.yes", "ece"]
    first = compare(base, new, metrics)["accuracy"]
    three = compare(base, new, metrics, primary=metrics)["accuracy"]
    assert one.p_adjusted == one.p_value
    assert (first.p_adjusted, first.role) == (one.p_value, "primary")
    assert three.p_adjusted is not None
    assert three.p_adjusted > three.p_value


def test_cells_pair_and_lonely_cells_are_named() -> None:
    def table(tasks: tuple[str, ...], share: float, seed: int) -> Records:
        rows = list(itertools.product(tasks, range(60)))
        predictions = answers(len(rows), share, seed)
        return Records.from_columns(
            {
                "task": [t for t, _ in rows],
                "item": [i for _, i in rows],
                "target": ["yes"] * len(rows),
                "prediction": predictions,
            }
        )

    found = compare(table(("a", "b"), 0.5, 1), table(("a", "b"), 0.9, 2), ["accuracy"])
    assert [d.slice for d in found] == [{"task": "a"}, {"task": "b"}]
    with pytest.raises(InputError, match="task=c"):
        compare(table(("a", "c"), 0.5, 1), table(("a", "b"), 0.9, 2), ["accuracy"])
    part = compare(table(("a", "c"), 0.5, 1), table(("a", "b"), 0.9, 2), ["accuracy"], align="intersection")
    assert [d.slice for d in part] == [{"task": "a"}]
    assert len(part.unmatched["cells"]) == 2


def test_slices_pair_within_the_group() -> None:
    site = ["x" if i % 2 else "y" for i in range(160)]
    base = run(answers(160, 0.5, 1), **{"group.site": site})
    new = run(answers(160, 0.8, 2), **{"group.site": site})
    found = compare(base, new, ["accuracy"], by=["group.site"])
    assert found["accuracy{group.site=x}"].n == 80
    assert found["accuracy"].n == 160


def test_what_describes_one_run_is_not_compared() -> None:
    base = run(answers(80, 0.6, 1))
    with pytest.raises(UsageError, match="p_calibrated cannot be compared"):
        compare(base, base, ["p_calibrated"])


def test_labels_of_both_runs_make_the_macro_average() -> None:
    base = run(["yes", "no"] * 40)
    new = run(["yes", "maybe"] * 40)
    delta = compare(base, new, ["f1_macro"])["f1_macro"]
    # three labels on both sides: yes 2/3, the others 0
    assert delta.base == pytest.approx((2 / 3) / 3)
    assert delta.new == pytest.approx((2 / 3) / 3)


def test_bootstrap_intervals_on_request_are_near_the_t_interval() -> None:
    base, new = run(answers(400, 0.6, 1)), run(answers(400, 0.7, 2))
    t = compare(base, new, ["accuracy"])["accuracy"]
    for method in ("percentile", "bca"):
        other = compare(base, new, ["accuracy"], method=method, resamples=4000)["accuracy"]
        assert other.method == method
        assert other.interval == pytest.approx(t.interval, abs=0.02)


def test_shared_abstentions_do_not_count_as_differences() -> None:
    # one loss in 160 rows; every patient has one row that both runs declined
    base = [None if i % 8 == 0 else "yes" for i in range(160)]
    new = [None if i % 8 == 0 else "no" if i == 1 else "yes" for i in range(160)]
    for name in ("f1_macro", "recall.yes", "accuracy"):
        delta = compare(run(base), run(new), [name])[name]
        assert "only 1 cluster differs" in delta.note
        assert delta.interval is not None
        assert delta.delta is not None
        assert delta.interval[1] >= delta.delta + stats.beta.ppf(0.975, 1, 20) - 1e-12


def test_excess_areas_of_unequal_cmax_have_no_verdict() -> None:
    base = answers(320, 0.8, 1)
    lazy = [p if i % 3 == 0 else None for i, p in enumerate(base)]
    for name in ("eaurc", "aurc_optimal", "aurc_achievable"):
        delta = compare(run(base), run(lazy), [name])[name]
        assert delta.verdict_from == "nothing"
        assert delta.verdict == "inconclusive"
        assert "rewards declining" in delta.note


def test_every_spelling_of_unperturbed_is_one_cell() -> None:
    def table(words: list[Any]) -> Records:
        return Records.from_columns(
            {
                "item": [*range(20), *range(20, 40)],
                "perturbation": [words[0]] * 20 + [words[1]] * 20,
                "target": ["a"] * 40,
                "prediction": ["a", "b"] * 20,
            }
        )

    found = compare(table([None, "none"]), table(["original", None]), ["accuracy"])
    assert [d.slice for d in found] == [{}]
    assert found.population["paired"] == 40
    assert found["accuracy"].n == 40


def test_a_label_only_the_new_run_predicts_is_compared_too() -> None:
    base, new = run(["yes", "no"] * 40), run(["yes", "maybe"] * 40)
    assert {d.metric for d in compare(base, new, ["f1"])} == {"f1.yes", "f1.no", "f1.maybe"}


def test_a_constant_shift_has_no_interval() -> None:
    size = 80
    columns = {"item": list(range(size)), "cluster": [i // 4 for i in range(size)]}
    base = Records.from_columns({**columns, "score": [0.1, 0.2] * 40})
    new = Records.from_columns({**columns, "score": [0.4, 0.5] * 40})
    (delta,) = compare(base, new, ["mean(score)"])
    assert delta.delta == pytest.approx(0.3)
    assert delta.interval is None
    assert "every cluster differs by exactly 0.3" in delta.note
    assert delta.verdict == "differs"  # by the swaps alone; which way is better, nobody said
    (told,) = compare(base, new, ["mean(score, better=higher)"])
    assert told.verdict == "better"


def test_without_common_answers_there_is_no_verdict() -> None:
    base = run(["no"] * 18 + ["yes"] * 2 + [None] * 60, rows=1)
    new = run([None] * 20 + ["yes"] * 58 + ["no"] * 2, rows=1)
    delta = compare(base, new, ["selective_accuracy"])["selective_accuracy"]
    assert delta.verdict == "inconclusive"
    assert delta.verdict_from == "nothing"


def test_only_what_changes_the_metric_counts_as_a_difference() -> None:
    # one lost row; many rows that were wrong are now declined, which accuracy does not see
    base = run(["yes"] * 30 + ["no"] * 30, rows=1)
    new = run(["yes"] * 29 + ["no"] + [None] * 30, rows=1)
    delta = compare(base, new, ["accuracy"])["accuracy"]
    assert "only 1 cluster differs" in delta.note
    assert delta.interval is not None
    half = stats.t.ppf(0.975, 59) * np.sqrt(1 / 60 * 59 / 60 / 59)
    assert delta.interval[1] == pytest.approx(-1 / 60 + np.hypot(half, stats.beta.ppf(0.975, 1, 60)))


def test_scores_of_0_and_1_are_bounded_in_fact() -> None:
    def table(scores: list[float]) -> Records:
        return Records.from_columns({"item": list(range(60)), "score": scores})

    (delta,) = compare(table([1.0] * 60), table([0.0] + [1.0] * 59), ["mean(score, better=higher)"])
    assert delta.interval is not None
    half = stats.t.ppf(0.975, 59) * np.sqrt(1 / 60 * 59 / 60 / 59)
    assert delta.interval[1] == pytest.approx(-1 / 60 + np.hypot(half, stats.beta.ppf(0.975, 1, 60)))


def test_groups_must_agree() -> None:
    site = ["x", "y"] * 40
    base = run(answers(80, 0.5, 1), **{"group.site": site})
    new = run(answers(80, 0.5, 1), **{"group.site": site[::-1]})
    with pytest.raises(InputError, match=r"group\.site: differs"):
        compare(base, new, ["accuracy"], by="group.site")
    with pytest.raises(InputError, match=r"group\.site: differs"):
        compare(base, new, ["fairness_gap(accuracy, by=group.site)"])
    assert compare(base, new, ["accuracy"])["accuracy"].n == 80  # nobody asked for the groups


def test_labels_that_no_target_has_are_warned_about() -> None:
    assert compare(run(["yes"] * 80), run(["yes "] * 80), ["accuracy"]).warnings
