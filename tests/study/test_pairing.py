"""What two runs must share to be compared: values, labels, groups, ids; and what leaves both where one lacks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.decide.gate import FAIL, INCONCLUSIVE, PASS, Gate
from steelyard.errors import InputError
from steelyard.records.table import Records
from steelyard.study.comparison import compare, compare_kept
from steelyard.study.evaluation import evaluate, value
from steelyard.uncertainty.settings import Settings
from tests.support.shelf import through_disk as kept

SIZE = 240
FEW = Settings(resamples=300)


def table(seed: int = 1, *, share: float = 0.7, **more: Any) -> Records:
    """Binary questions of 40 patients, six each."""
    rng = np.random.default_rng(seed)
    right = rng.random(SIZE) < share
    target = np.where(np.arange(SIZE) % 2 == 0, "yes", "no")
    columns = {
        "item": np.arange(SIZE),
        "cluster": [f"p{i // 6}" for i in range(SIZE)],
        "target": target,
        "prediction": np.where(right, target, np.where(target == "yes", "no", "yes")),
        "confidence": np.round(rng.uniform(0.5, 1, SIZE), 2),
        "latency_ms": rng.lognormal(5, 0.4, SIZE),
        "score": np.round(rng.random(SIZE), 2),
        "should_abstain": np.arange(SIZE) % 5 == 0,
        "group.site": np.where(np.arange(SIZE) % 12 < 6, "x", "y"),
        **more,
    }
    return Records.from_columns(columns)


def without(records: Records, name: str, rows: np.ndarray) -> Records:
    """The records with a column nulled in these rows."""
    values = [None if gone else v for v, gone in zip(records.column(name).to_pylist(), rows, strict=True)]
    return Records.from_columns({**{n: records.column(n) for n in records.stated}, name: values})


# -- a value that one side lacks -----------------------------------------------------------------------------------


def large_errors(records: Records) -> np.ndarray:
    wrong = records.array("correct") == 0
    return np.asarray(wrong & (records.stated_numbers("confidence") > 0.6))


@pytest.mark.parametrize("metric", ["brier", "nll", "ece", "auroc"])
def test_a_file_against_itself_without_its_worst_confidences_is_not_better(metric: str) -> None:
    base = table()
    new = without(base, "confidence", large_errors(base))
    delta = compare(base, new, [metric])[metric]
    lost = int(large_errors(base).sum())
    assert delta.delta == pytest.approx(0, abs=1e-12)
    assert delta.verdict == "inconclusive"
    assert delta.n == SIZE - lost
    assert delta.companions["missing"] == {"base": 0, "new": lost, "rows": SIZE}
    assert f"0 rows of the base run and {lost} of the new one lack what it reads" in delta.note
    assert "unequal missing" in delta.cautions


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        ("high(delta(brier)) <= 0", INCONCLUSIVE),
        ("high(delta(brier)) <= 0.9", INCONCLUSIVE),
        ("delta(brier) <= 0.5", FAIL),
        ("low(delta(brier)) <= 0.5", FAIL),
    ],
)
def test_no_rule_passes_where_values_are_missing_in_unequal_shares(rule: str, verdict: str) -> None:
    base = table()
    new = without(base, "confidence", large_errors(base))
    (found,) = Gate.parse(rule).check(compare(base, new, ["brier"])).rules
    assert found.verdict == verdict
    assert "different shares" in found.reason


@pytest.mark.parametrize(
    ("column", "metric"),
    [
        ("confidence", "brier"),
        ("score", "mean(score)"),
        ("latency_ms", "latency.p50"),
        ("latency_ms", "latency.mean"),
        ("should_abstain", "unsafe_answer_rate"),
    ],
)
def test_rows_that_one_side_lacks_leave_both_and_the_rest_is_compared(column: str, metric: str) -> None:
    base, new = table(1), table(2, share=0.9)
    gone = np.zeros(SIZE, bool)
    gone[[0, 55]] = True  # both should be deferred
    found = compare(base, without(new, column, gone), [metric], resamples=300)[metric]
    wanted = compare(base.take(~gone), new.take(~gone), [metric], resamples=300)[metric]
    assert found.interval == pytest.approx(wanted.interval)
    assert (found.base, found.new, found.delta) == (wanted.base, wanted.new, wanted.delta)
    assert found.p_value == wanted.p_value
    assert "2 of the new one lack what it reads" in found.note
    assert "unequal missing" not in found.cautions  # 2 of 240: less than a hundredth


@pytest.mark.parametrize("metric", ["brier", "ece", "mean(score)", "latency.p50", "accuracy"])
def test_kept_runs_notice_it_as_rows_do(metric: str) -> None:
    base, new = table(1), table(2)
    column = {"brier": "confidence", "ece": "confidence", "mean(score)": "score"}.get(metric, "latency_ms")
    gone = np.zeros(SIZE, bool)
    gone[[0, 55, 56]] = True
    lacking = without(new, column, gone)
    found = compare_kept(kept(base, [metric]), kept(lacking, [metric]), [metric], settings=FEW)[metric]
    if metric == "accuracy":  # does not read the latency
        assert "lack what it reads" not in found.note
        assert found.clusters == 40
        return
    clusters = np.isin(np.arange(SIZE) // 6, [0, 9])
    wanted = compare(base.take(~clusters), new.take(~clusters), [metric], resamples=300)[metric]
    assert found.delta == pytest.approx(wanted.delta)
    assert found.interval == pytest.approx(wanted.interval)
    assert found.p_value == pytest.approx(wanted.p_value)
    assert "3 of the new one lack what it reads: 2 clusters left both" in found.note
    many = without(new, column, np.arange(SIZE) % 6 == 0)
    barred = compare_kept(kept(base, [metric]), kept(many, [metric]), [metric], settings=FEW)[metric]
    assert "unequal missing" in barred.cautions
    assert barred.verdict == "inconclusive"


def test_a_missing_value_on_both_sides_is_no_difference() -> None:
    gone = np.arange(SIZE) % 7 == 0
    base, new = (without(table(s), "confidence", gone) for s in (1, 2))
    delta = compare(base, new, ["brier"])["brier"]
    assert "missing" not in delta.companions
    assert delta.n_base == delta.n_new == SIZE - int(gone.sum())


# -- what must agree -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "metric"),
    [("should_abstain", "deferral_balanced"), ("group.site", "fairness_gap(accuracy, by=group.site)")],
)
def test_labels_of_the_question_must_agree(column: str, metric: str) -> None:
    base = table(1)
    turned = list(base.column(column).to_pylist())
    turned[0], turned[7] = turned[7], turned[0]
    other = (not turned[0]) if column == "should_abstain" else ("y" if turned[0] == "x" else "x")
    new = table(2, **{column: [other, *turned[1:]]})
    with pytest.raises(InputError, match=column.replace(".", r"\.")):
        compare(base, new, [metric])
    with pytest.raises(InputError, match=column.replace(".", r"\.")):
        compare_kept(kept(base, [metric]), kept(new, [metric]), [metric])
    assert compare(base, new, ["accuracy"]) if column == "should_abstain" else True  # nobody read it


def test_whole_numbers_and_decimals_are_one_label() -> None:
    decimal = Records.from_columns(
        {"item": range(4), "target": [1, 2, 1, 2], "prediction": [1.0, None, 1.0, 1.0]}  # nulls made it decimals
    )
    assert value("accuracy", decimal) == 0.5
    assert value("f1.1", decimal) == value('f1."1.0"', decimal)
    assert value("recall.1", decimal) == 1.0
    assert evaluate(decimal, ["f1_macro"], resamples=100)["f1_macro"].detail["labels"] == [1, 2]
    for target in (["1", "2", "1", "2"], [True, False, True, False]):
        with pytest.raises(InputError, match="never match"):
            value("accuracy", Records.from_columns({"item": range(4), "target": target, "prediction": [1.0, 1, 2, 2]}))


def test_targets_agree_by_value() -> None:
    whole = {"item": list(range(60)), "target": [1, 2] * 30, "prediction": [1, 1] * 30}
    decimal = {**whole, "target": [1.0, 2.0] * 30, "prediction": [1.0, 2.0] * 30}
    found = compare(Records.from_columns(whole), Records.from_columns(decimal), ["accuracy"])["accuracy"]
    assert (found.base, found.new) == (0.5, 1.0)


@pytest.mark.parametrize("metric", ["accuracy", "f1_macro", "aurc", "ece", "latency.p95"])
def test_text_ids_and_whole_number_ids_give_the_same_numbers(metric: str) -> None:
    def run(seed: int, ids: list[Any]) -> Records:
        return table(seed, cluster=[ids[i // 6] for i in range(SIZE)])

    numbers, texts = list(range(95, 135)), [str(n) for n in range(95, 135)]
    one, two = (compare(run(1, ids), run(2, ids), [metric], resamples=400)[metric] for ids in (numbers, texts))
    assert one.interval == two.interval
    assert one.p_value == two.p_value
    alone = [evaluate(run(1, ids), [metric], resamples=400)[metric].interval for ids in (numbers, texts)]
    assert alone[0] == alone[1]


def test_differences_are_averaged_not_means_subtracted() -> None:
    """The certified data set NumAcc4 (mean 10,000,000.2 by construction) against itself moved by 1e7."""
    values = [10000000.2] + [10000000.1, 10000000.3] * 500
    moved = [v - 1e7 for v in values]
    records = [Records.from_columns({"item": list(range(1001)), "score": v}) for v in (moved, values)]
    delta = compare(*records, ["mean(score)"], resamples=100)["mean(score)"]
    assert delta.delta is not None
    assert abs(delta.delta - 1e7) < 1e-9


# -- runs that gave the same answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("by_rows", [True, False])
def test_the_same_answers_are_unchanged_and_a_margin_passes(by_rows: bool) -> None:
    base = table(1)
    new = table(1, latency_ms=np.random.default_rng(9).lognormal(5, 0.4, SIZE))
    names = ["accuracy", "brier", "latency.mean"]
    found = compare(base, new, names) if by_rows else compare_kept(kept(base, names), kept(new, names), names)
    assert found["accuracy"].verdict == found["brier"].verdict == "unchanged"
    assert found["latency.mean"].verdict != "unchanged"  # the answers are the same, the time was not
    interval = found["accuracy"].interval
    assert interval is not None
    assert interval[0] < 0 < interval[1]
    rules = ["low(delta(accuracy)) >= -0.01", "low(delta(accuracy)) >= 0.02", "delta(accuracy) >= 0"]
    verdicts = Gate.parse(rules).check(found).rules
    assert [v.verdict for v in verdicts] == [PASS, FAIL, PASS]
    assert all("the answers are the same in all 240 rows" in v.reason for v in verdicts)
    assert "could not have been seen" in found["accuracy"].note
    judged = (
        compare(base, new, names, unchanged="judge")
        if by_rows
        else compare_kept(kept(base, names), kept(new, names), names, unchanged="judge")
    )
    assert judged["accuracy"].verdict == "inconclusive"
    assert Gate.parse(rules[0]).check(judged).verdict == INCONCLUSIVE


def test_one_other_answer_is_a_change_even_if_the_metric_does_not_see_it() -> None:
    base = table(1)
    wrong = int(np.flatnonzero(base.array("correct") == 0)[0])
    said = base.column("prediction").to_pylist()
    said[wrong] = "perhaps"
    new = table(1, prediction=said)
    delta = compare(base, new, ["accuracy"])["accuracy"]
    assert delta.delta == 0
    assert delta.verdict == "inconclusive"


def test_what_the_first_edition_kept_is_judged_as_any_other(tmp_path: Path) -> None:
    base = table(1)
    (part,) = kept(base, ["accuracy"])
    from dataclasses import replace

    old = replace(part, columns=None)
    assert compare_kept([old], [part], ["accuracy"])["accuracy"].verdict == "inconclusive"
    assert compare_kept([part], [part], ["accuracy"])["accuracy"].verdict == "unchanged"


def old(part: Any) -> Any:
    """What the first edition would have kept of the same slice."""
    from dataclasses import replace

    return replace(part, columns=None, lacking={}, lacking_rows={})


def test_an_earlier_editions_missing_values_are_counted_and_a_note_says_what_is_not_known() -> None:
    base = table()
    new = without(base, "confidence", large_errors(base))
    (mine,), (theirs,) = kept(base, ["brier"]), kept(new, ["brier"])
    for one, two in ((old(mine), old(theirs)), (old(mine), theirs), (mine, old(theirs))):
        found = compare_kept([one], [two], ["brier"])["brier"]
        assert "kept by an earlier edition" in found.note
        assert "unequal missing" in found.cautions
        assert found.verdict == "inconclusive"
    gone = np.arange(SIZE) % 7 == 0
    (one,), (two,) = (kept(without(table(s), "confidence", gone), ["brier"]) for s in (1, 2))
    assert "unequal missing" not in compare_kept([old(one)], [two], ["brier"])["brier"].cautions


@pytest.mark.parametrize("metric", ["accuracy", "auroc", "aurc", "f1_macro"])
def test_kept_runs_compare_as_rows_where_a_whole_cluster_failed_in_both(metric: str) -> None:
    outcome = np.where(np.arange(SIZE) // 6 < 3, "failed", "answered")
    base, new = (table(s, outcome=outcome) for s in (1, 2))
    rows = compare(base, new, [metric], resamples=300)[metric]
    from_kept = compare_kept(kept(base, [metric]), kept(new, [metric]), [metric], settings=FEW)[metric]
    assert from_kept.interval == pytest.approx(rows.interval)
    assert from_kept.p_value == pytest.approx(rows.p_value)


def test_replies_that_nobody_could_read_do_not_hide_unsafe_answers() -> None:
    base = table()
    unsafe = np.flatnonzero(base.stated_numbers("should_abstain") == 1)[::2]
    outcome = np.full(SIZE, "answered", dtype=object)
    outcome[unsafe] = "unparsed"
    new = table(1, outcome=outcome)
    delta = compare(base, new, ["unsafe_answer_rate"])["unsafe_answer_rate"]
    assert delta.n_base == delta.n_new
    assert delta.delta == 0
    assert "unequal missing" in delta.cautions


def test_a_group_of_which_every_row_failed_is_named_and_passes_nothing() -> None:
    name = "fairness_gap(accuracy, by=group.site)"
    site = np.array(["x", "y", "z"])[np.arange(SIZE) // 6 % 3]
    base = table(1, **{"group.site": site})
    new = table(2, **{"group.site": site, "outcome": np.where(site == "z", "failed", "answered")})
    comparison = compare(base, new, [name])
    assert "group z left out" in comparison[name].note
    assert "missing group" in comparison[name].cautions
    assert Gate.parse(f"high(delta({name})) <= 0.9").check(comparison).rules[0].verdict == INCONCLUSIVE
    from_kept = compare_kept(kept(base, [name]), kept(new, [name]), [name])[name]
    assert "missing group" in from_kept.cautions


def test_swapping_the_runs_turns_the_sign_and_nothing_else() -> None:
    base, new = table(1), table(2, share=0.85)
    names = ["accuracy", "f1_macro", "balanced_accuracy", "auroc", "aurc", "ece", "brier", "latency.p50"]
    there, back = compare(base, new, names, resamples=400), compare(new, base, names, resamples=400)
    turned = {"better": "worse", "worse": "better"}
    for one, two in zip(there, back, strict=True):
        assert one.interval is not None
        assert two.interval is not None
        assert two.interval == pytest.approx((-one.interval[1], -one.interval[0]), abs=1e-9), one.metric
        assert one.p_value == pytest.approx(two.p_value, abs=1e-9)
        assert two.verdict == turned.get(one.verdict, one.verdict)


def test_kept_runs_that_lost_most_of_their_clusters_decide_nothing() -> None:
    """A loss in nine clusters of ten, each with one value missing: what is left may say the opposite."""
    base = table(1)
    hurt = np.arange(SIZE) // 6 >= 6
    wrong = np.where(hurt, 0.02, base.stated_numbers("confidence"))
    some = np.zeros(SIZE, bool)
    some[np.flatnonzero(hurt)[::6]] = True
    new = without(table(1, confidence=np.where(base.array("correct") == 1, wrong, 1 - wrong)), "confidence", some)
    found = compare_kept(kept(base, ["brier"]), kept(new, ["brier"]), ["brier"])
    delta = found["brier"]
    assert delta.companions["clusters_left"] == {"left": 6, "of": 40}
    assert "lost clusters" in delta.cautions
    assert delta.verdict == "inconclusive"
    for rule in ("high(delta(brier)) <= 0.9", "delta(brier) <= 0.9"):
        assert not Gate.parse(rule).check(found).passed
    # a cluster or two may go, and the gate says on how many it stands
    few = np.zeros(SIZE, bool)
    few[[0, 55]] = True
    fine = compare_kept(kept(base, ["brier"]), kept(without(table(2), "confidence", few), ["brier"]), ["brier"])
    (verdict,) = Gate.parse("high(delta(brier)) <= 0.9").check(fine).rules
    assert verdict.verdict == PASS
    assert "on 38 of 40 clusters" in verdict.reason


def test_a_target_that_one_side_lacks_leaves_both_but_another_target_is_refused() -> None:
    base, new = table(1), table(2)
    gone = np.zeros(SIZE, bool)
    gone[[0, 55]] = True
    found = compare(base, without(new, "target", gone), ["accuracy"])["accuracy"]
    wanted = compare(base.take(~gone), new.take(~gone), ["accuracy"])["accuracy"]
    assert (found.delta, found.interval, found.p_value) == (wanted.delta, wanted.interval, wanted.p_value)
    turned = new.column("target").to_pylist()
    turned[0] = "no"
    with pytest.raises(InputError, match="target"):
        compare(base, table(2, target=turned), ["accuracy"])


def test_declining_is_not_a_missing_value() -> None:
    base = table(1)
    said = [None if i % 16 == 0 else p for i, p in enumerate(table(2, share=0.95).column("prediction").to_pylist())]
    name = "f1_macro(answered_only=true)"
    delta = compare(base, table(2, prediction=said), [name])[name]
    assert delta.verdict_from == "answered_by_both"
    assert delta.verdict == "better"
    assert "unequal missing" not in delta.cautions


def test_runs_with_the_same_answers_still_heed_a_group_without_a_value() -> None:
    name = "fairness_gap(accuracy, by=group.site)"
    site = np.array(["x", "y", "z"])[np.arange(SIZE) // 6 % 3]
    run = table(1, **{"group.site": site, "outcome": np.where(site == "z", "failed", "answered")})
    comparison = compare(run, run, [name])
    assert comparison[name].verdict == "unchanged"
    (found,) = Gate.parse(f"high(delta({name})) <= 0.5").check(comparison).rules
    assert found.verdict == INCONCLUSIVE


def test_no_difference_on_balance_leaves_room_both_ways() -> None:
    """Two lost and two won of a hundred: the room is the same on both sides, whichever direction is better."""

    def run(wrong: tuple[int, ...]) -> Records:
        said = ["b" if i in wrong else "a" for i in range(100)]
        columns = {"item": range(100), "target": ["a"] * 100, "confidence": np.linspace(0, 1, 100)}
        return Records.from_columns({**columns, "prediction": said})

    there = compare(run((1, 2)), run((3, 4)), ["risk_at(c=1)"], resamples=300)["risk_at(c=1)"]
    assert there.delta == 0
    assert there.interval is not None
    assert there.interval[0] == pytest.approx(-there.interval[1])


def test_one_repeat_pairs_with_none() -> None:
    plain = {"item": list(range(12)), "target": ["a"] * 12, "prediction": ["a", "b"] * 6}
    one = Records.from_columns(plain)
    (delta,) = compare(one, Records.from_columns({**plain, "repeat": [1] * 12}), ["accuracy"], resamples=0)
    assert (delta.value, delta.n) == (0.0, 12)
    twice = {name: values * 2 for name, values in plain.items()} | {"repeat": [1] * 12 + [2] * 12}
    with pytest.raises(InputError, match="no partner"):
        compare(one, Records.from_columns(twice), ["accuracy"], resamples=0)
