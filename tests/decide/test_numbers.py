"""Where the numbers of a gate's rule come from: keys, names, slices."""

from __future__ import annotations

import pytest

from steelyard.decide.gate import FAIL, PASS, Gate
from steelyard.decide.numbers import Subject
from steelyard.errors import UsageError
from steelyard.study.evaluation import evaluate
from tests.support.gates import Plain, estimate, evaluation, slices, verdicts
from tests.support.shelf import answers, table


def test_a_literal_key_of_the_run_comes_first() -> None:
    subject = Subject(
        evaluation=[estimate("accuracy", Plain(0.2, 0.1, 0.3), better="higher")], metrics={"accuracy": 0.9}
    )
    assert verdicts("accuracy >= 0.8", subject) == [PASS]
    assert verdicts("low(accuracy) >= 0.8", subject) == [FAIL]  # a bound is never a literal key
    with pytest.raises(UsageError, match="higher is better"):
        Gate.parse("accuracy <= 0.95").check(subject)


@pytest.mark.parametrize("key", ["NdcgEvaluator.delta", "map@1", "per_class.bad.f1", "evaluation.duration_ms", "x"])
def test_keys_of_other_tools_are_found_whatever_their_case(key: str) -> None:
    for written in (key, key.lower(), key.upper()):
        assert verdicts(f"{written} >= 0.5", Subject(metrics={key: 0.9})) == [PASS]
        assert verdicts(f"{written} >= 0.5", Subject(metrics={key: 0.1})) == [FAIL]


def test_of_keys_that_differ_in_case_the_one_written_is_meant() -> None:
    subject = Subject(metrics={"ndcg@3": 0.1, "NDCG@3": 0.9})
    assert verdicts("NDCG@3 >= 0.5", subject) == [PASS]
    assert verdicts("ndcg@3 >= 0.5", subject) == [FAIL]


def test_a_documented_key_of_a_label_that_needs_quotes_is_found() -> None:
    # run.json writes per_class.<label>.f1 with the bare label; a rule can only write it in quotes
    subject = Subject(metrics={"per_class.very bad.f1": 0.9})
    assert verdicts('per_class."very bad".f1 >= 0.5', subject) == [PASS]


def test_a_name_that_nothing_has_is_a_usage_error_and_no_failed_gate() -> None:
    for rule in ("acuracy >= 0.5", "low(acuracy) >= 0.5", "delta(acuracy) >= 0.5"):
        with pytest.raises(UsageError, match=r"unknown metric.*did you mean accuracy"):
            Gate.parse(rule).check(evaluation([]))


def test_options_of_a_metric_may_be_written_in_any_way() -> None:
    found = evaluation([estimate("ece", Plain(0.1)), estimate("ece(bins=15)", Plain(0.3))])
    assert verdicts(["ece( bins = 10 ) <= 0.1", "ece(15) <= 0.1"], found) == [PASS, FAIL]


def test_several_slices_need_a_choice_and_are_shown() -> None:
    found = evaluation([estimate("accuracy", Plain(0.9), slice_={"task": t}) for t in ("a", "b b")])
    with pytest.raises(UsageError, match=r'\{task=a\}, \{task="b b"\}.*for each cell'):
        Gate.parse("accuracy >= 0.5").check(found)
    assert verdicts("accuracy >= 0.5 for each cell", found) == [PASS, PASS]
    assert verdicts('accuracy{task="b b"} >= 0.5', found) == [PASS]


def test_for_each_goes_through_one_column_of_every_cell_and_no_crossed_slice() -> None:
    found = evaluation([estimate("accuracy", Plain(0.9), slice_=s) for s in slices])
    decided = {each: Gate.parse(f"accuracy >= 0.5 for each {each}").check(found) for each in ("cell", "group.site")}
    assert [v.slice for v in decided["cell"].rules] == [{}, {"task": "a"}, {"task": "b"}]
    assert [v.slice for v in decided["group.site"].rules] == [
        {"group.site": "x"},
        {"group.site": "y"},
        {"task": "a", "group.site": "x"},
        {"task": "b", "group.site": "x"},
    ]


def test_values_of_slices_are_compared_as_they_are_written() -> None:
    found = evaluation(
        [estimate("accuracy", Plain(0.9), slice_={"group.flag": flag}) for flag in (True, False)]
        + [estimate("accuracy", Plain(0.1), slice_={"group.age": 3})]
    )
    assert verdicts(["accuracy{group.flag=true} >= 0.5", "accuracy{group.age=3} >= 0.5"], found) == [PASS, FAIL]


@pytest.mark.parametrize("each", ["cell", "group.site", "task"])
def test_a_slice_and_for_each_together_are_both_heeded_or_refused(each: str) -> None:
    """`accuracy{group.age=old} … for each X` must not be decided by numbers of other ages."""
    good = [estimate("accuracy", Plain(0.9), slice_=s) for s in ({}, {"group.site": "x"}, {"task": "a"})]
    gate = Gate.parse(f"accuracy{{group.age=old}} >= 0.5 for each {each}")
    try:
        decision = gate.check(evaluation(good))
    except UsageError:
        return
    assert decision.verdict == FAIL  # nothing was evaluated for the old


def test_the_rules_of_a_whole_family_are_not_taken_for_a_missing_metric() -> None:
    rows = table(answers(80, 0.7, 1))
    with pytest.raises(UsageError, match="stands for several"):
        Gate.parse("f1 >= 0.1").check(evaluate(rows, ["f1"], resamples=0))
