"""Gates: decisions against a naive reading of the definition, and its single points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.decide.gate import FAIL, INCONCLUSIVE, PASS, Gate
from steelyard.decide.numbers import Subject
from steelyard.errors import UsageError
from steelyard.ground.json import dumps
from steelyard.uncertainty.estimate import Settings
from steelyard.uncertainty.power import OUT_OF_REACH, detectable, estimate_clusters, fewest_clusters
from tests.support.gates import (
    RELATIONS,
    Plain,
    comparison,
    delta,
    estimate,
    evaluation,
    grid,
    is_tested,
    naive_gate,
    near,
    on_the_edge,
    p_of_missing,
    plains,
    population,
    rule_text,
    slices,
    step_down,
    student_below,
    student_quantile,
    verdicts,
)
from tests.support.places import TESTS

CELL_COLUMNS = {"model", "strategy", "task", "perturbation"}


# -- against the definition --------------------------------------------------------------------------------------------

names = ("accuracy", "ece", "f1_macro", "mae", "bias", "brier", "auroc")


@given(st.data())
def test_every_rule_about_every_number_is_decided_as_defined(data: st.DataObject) -> None:
    bound = data.draw(st.sampled_from([None, "low", "high"]))
    relation = data.draw(st.sampled_from(RELATIONS))
    deciding = data.draw(st.sampled_from(["estimate", "delta", "answered_by_both", "common_cmax"]))
    x = data.draw(plains(counted=deciding in ("estimate", "delta")))
    threshold = data.draw(near(x))
    assume(not on_the_edge([(bound, relation, threshold, x)]))
    rule = rule_text("accuracy", bound, relation, threshold, is_delta=deciding != "estimate")
    subject: Any = (
        evaluation([estimate("accuracy", x)])
        if deciding == "estimate"
        else comparison([delta("accuracy", x, deciding=deciding)])
    )
    decision = Gate.parse(rule).check(subject)
    expected, each = naive_gate([(bound, relation, threshold, x)])
    assert decision.verdict == expected
    (verdict,) = decision.rules
    assert verdict.verdict == each[0]
    assert verdict.passed == (expected == PASS)
    assert decision.exit_code == {PASS: 0, FAIL: 1, INCONCLUSIVE: 6}[expected]
    assert verdict.reason
    assert verdict.threshold == threshold


@given(st.data())
def test_several_rules_are_corrected_only_for_failing(data: st.DataObject) -> None:
    checks, rules, estimates, deltas = [], [], [], []
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=7, unique=True)):
        x = data.draw(plains())
        bound = data.draw(st.sampled_from([None, "low", "high", "low", "high"]))
        relation, threshold = data.draw(st.sampled_from(RELATIONS)), data.draw(near(x))
        is_delta = data.draw(st.booleans())
        checks.append((bound, relation, threshold, x))
        rules.append(rule_text(name, bound, relation, threshold, is_delta=is_delta))
        (deltas if is_delta else estimates).append((delta if is_delta else estimate)(name, x))  # type: ignore[operator]
    assume(not on_the_edge(checks))
    decision = Gate.parse(rules).check(evaluation(estimates), comparison(deltas))
    expected, each = naive_gate(checks)
    assert [v.verdict for v in decision.rules] == each
    assert decision.verdict == expected
    family = [p_of_missing(*check[1:]) for check in checks if is_tested(*check)]
    tested = [v for v in decision.rules if v.p_value is not None]
    assert [v.p_value for v in tested] == pytest.approx(family, abs=1e-9)
    assert [v.p_adjusted for v in tested] == pytest.approx(step_down(family), abs=1e-9)


def naive_slices(found: Sequence[Mapping[str, str]], wanted: Mapping[str, str], each: str | None) -> list[Any]:
    """The slices that a rule is about; several without being asked for are an error."""
    if each == "cell":
        return [s for s in found if set(s) <= CELL_COLUMNS]
    if each:
        return [s for s in found if each in s and set(s) <= CELL_COLUMNS | {each}]
    if wanted:
        return [s for s in found if s == wanted]
    if {} in found:
        return [{}]
    if len(found) > 1:
        raise UsageError("several")
    return list(found)


@given(st.data())
def test_rules_about_slices_are_decided_slice_by_slice(data: st.DataObject) -> None:
    found = data.draw(st.lists(st.sampled_from(slices), min_size=0, max_size=6, unique_by=str))
    numbers = [data.draw(plains()) for _ in found]
    asked = st.sampled_from([(w, None) for w in slices] + [({}, e) for e in ("cell", "task", "group.site", "model")])
    wanted, each = data.draw(asked)
    bound, relation = data.draw(st.sampled_from([None, "low", "high"])), data.draw(st.sampled_from(RELATIONS))
    threshold = data.draw(grid)
    is_delta = data.draw(st.booleans())
    name = "accuracy" + (f"{{{','.join(f'{k}={v}' for k, v in wanted.items())}}}" if wanted else "")
    more = f" for each {each}" if each else ""
    gate = Gate.parse(rule_text(name, bound, relation, threshold, is_delta=is_delta, more=more))
    make: Any = delta if is_delta else estimate
    made = [make("accuracy", x, slice_=s) for s, x in zip(found, numbers, strict=True)]
    subject: Any = comparison(made) if is_delta else evaluation(made)
    try:
        chosen = naive_slices(found, wanted, each)
    except UsageError:
        with pytest.raises(UsageError, match="matches several slices"):
            gate.check(subject)
        return
    decision = gate.check(subject)
    checks = [(bound, relation, threshold, numbers[found.index(s)]) for s in chosen] or [
        (bound, relation, threshold, Plain(None))
    ]
    assume(not on_the_edge(checks))
    expected, verdicts_ = naive_gate(checks)
    assert decision.verdict == expected
    assert [v.verdict for v in decision.rules] == verdicts_
    if chosen:
        assert [dict(v.slice) for v in decision.rules] == chosen


@given(st.sampled_from(RELATIONS), st.sampled_from([None, "low", "high"]), st.sampled_from([None, "higher", "lower"]))
def test_a_rule_against_the_better_direction_must_be_meant(
    relation: str, bound: str | None, better: str | None
) -> None:
    x = Plain(0.5, 0.4, 0.6)
    upward = relation in (">=", ">")
    opposing = (better == "higher" and not upward) or (better == "lower" and upward)
    for is_delta in (False, True):
        rule = rule_text("accuracy", bound, relation, 0.5, is_delta=is_delta)
        made: Any = (delta if is_delta else estimate)("accuracy", x, better=better)  # type: ignore[operator]
        subject: Any = comparison([made]) if is_delta else evaluation([made])
        if opposing:
            with pytest.raises(UsageError, match=f"{better} is better"):
                Gate.parse(rule).check(subject)
        else:
            assert verdicts(rule, subject) == naive_gate([(bound, relation, 0.5, x)])[1]
        assert verdicts(f"!{rule}", subject) == naive_gate([(bound, relation, 0.5, x)])[1]


@given(st.integers(1, 400), st.integers(1, 400), st.data())
def test_failures_that_rise_unwatched_do_not_pass(before: int, after: int, data: st.DataObject) -> None:
    base = population(before, data.draw(st.integers(0, before)))
    new = population(after, data.draw(st.integers(0, after)))
    rise = Fraction(new["failed"], after) - Fraction(base["failed"], before)
    if rise == Fraction(1, 100):
        return  # has a test of its own
    found = comparison([delta("accuracy", Plain(0.1, 0.05, 0.15))], base, new)
    decision = Gate.parse("low(delta(accuracy)) >= 0").check(found)
    assert decision.verdict == (FAIL if rise > Fraction(1, 100) else PASS)
    if rise > Fraction(1, 100):
        assert "no rule is about failure_rate" in decision.rules[-1].reason
    watched = ["low(delta(accuracy)) >= 0", "failure_rate <= 0.999"]
    if new["failed"] == after:
        return
    watching = evaluation([estimate("failure_rate", Plain(new["failed"] / after), better="lower")])
    assert Gate.parse(watched).check(found, watching).passed


def test_a_rise_of_exactly_one_point_is_not_more_than_one_point() -> None:
    for failed in range(100):
        found = comparison([delta("accuracy", Plain(0.1))], population(100, failed), population(100, failed + 1))
        assert Gate.parse("delta(accuracy) >= 0").check(found).passed, failed


# -- single points of the definition -----------------------------------------------------------------------------------


def test_a_gate_without_rules_is_none() -> None:
    with pytest.raises(UsageError, match="at least one rule"):
        Gate.parse([])
    with pytest.raises(UsageError, match="rule"):
        Gate(()).check(evaluation([estimate("accuracy", Plain(0.9))]))


def test_nothing_but_a_number_that_meets_the_rule_passes() -> None:
    for value in (None, math.nan):
        for rule in ("accuracy >= 0", "low(accuracy) >= 0", "high(accuracy) >= 0", "!accuracy <= 1", "!accuracy < 1"):
            assert verdicts(rule, evaluation([estimate("accuracy", Plain(value, 0.1, 0.9))])) == [FAIL]
            assert verdicts(rule, evaluation([])) == [FAIL]
            assert verdicts(rule) == [FAIL]
    with pytest.raises(UsageError, match="compares with a baseline, and none was given"):
        Gate.parse("delta(accuracy) >= -1").check(evaluation([estimate("accuracy", Plain(0.9))]))


@pytest.mark.parametrize("ends", [(math.nan, math.nan), (math.nan, 0.9), (0.1, math.nan)])
def test_an_interval_with_an_undefined_end_shows_nothing(ends: tuple[float, float]) -> None:
    # a comparison with NaN is false: neither "low >= t" nor "high < t" holds
    made = evaluation([estimate("accuracy", Plain(0.5, *ends))])
    for threshold, relation, bound in itertools.product((0.0, 0.5, 1.0), RELATIONS, ("low", "high")):
        (verdict,) = Gate.parse(f"{bound}(accuracy) {relation} {threshold}").check(made).rules
        near, far = ends if bound == "low" else ends[::-1]
        if math.isnan(near):
            assert not verdict.passed
        if math.isnan(far) and not verdict.passed:
            assert verdict.verdict == (INCONCLUSIVE if verdict.kind == "confirming" else FAIL), verdict


def test_why_a_value_or_an_interval_is_missing_is_said() -> None:
    few = evaluation([estimate("accuracy", Plain(0.9, 0.8, 1.0, clusters=5))])
    (verdict,) = Gate.parse("low(accuracy) >= 0.5").check(few).rules
    assert "only 5 items" in verdict.reason
    doubtful = evaluation([estimate("accuracy", Plain(0.9, 0.8, 1.0, undefined=0.06))])
    (verdict,) = Gate.parse("low(accuracy) >= 0.5").check(doubtful).rules
    assert "undefined in too many resamples" in verdict.reason
    none = evaluation([estimate("accuracy", Plain(0.9), note="no interval: every cluster has the same share")])
    (verdict,) = Gate.parse("high(accuracy) >= 0.5").check(none).rules
    assert "every cluster has the same share" in verdict.reason
    undefined = evaluation([estimate("accuracy", Plain(None), note="undefined: no row counts")])
    (verdict,) = Gate.parse("accuracy >= 0.5").check(undefined).rules
    assert "no row counts" in verdict.reason
    (verdict,) = Gate.parse("accuracy{task=a} >= 0").check(evaluation([estimate("accuracy", Plain(1.0))])).rules
    assert "the run has no value of accuracy in {task=a}" in verdict.reason


def test_a_delta_that_no_verdict_may_rest_on_passes_no_rule() -> None:
    found = comparison([delta("selective_accuracy", Plain(0.5), deciding="nothing", note="answer rates differ")])
    for rule in (
        "delta(selective_accuracy) >= -1",
        "low(delta(selective_accuracy)) >= -1",
        "high(delta(selective_accuracy)) >= -1",
    ):
        (verdict,) = Gate.parse(rule).check(found).rules
        assert not verdict.passed
        assert "answer rates differ" in verdict.reason


def test_the_remarks_of_the_kinds() -> None:
    found = evaluation([estimate("accuracy", Plain(0.5, 0.4, 0.6))])
    said = {v.kind: v.reason for v in Gate.parse(["accuracy >= 0.5", "high(accuracy) >= 0.5"]).check(found).rules}
    assert said == {"point": "no allowance for chance", "permissive": "not shown to be worse"}


def test_inconclusive_says_what_could_be_seen_and_how_many_clusters_would_settle_it() -> None:
    x = Plain(0.02, 0.02 - 2.093 * 0.03, 0.02 + 2.093 * 0.03, se=0.03, clusters=20)
    (verdict,) = Gate.parse("low(delta(accuracy)) >= -0.01").check(comparison([delta("accuracy", x)])).rules
    smallest = (student_quantile(0.975, 19) + student_quantile(0.8, 19)) * 0.03
    assert verdict.verdict == INCONCLUSIVE
    assert verdict.detectable == pytest.approx(smallest)
    assert verdict.clusters == 20
    assert verdict.clusters_needed == math.ceil(20 * 2.093**2)  # half the width, over the 0.03 there are
    assert f"{smallest:.3g}" in verdict.reason
    assert f"it would pass at {verdict.clusters_needed} " in verdict.advice[0]
    assert f"({verdict.clusters_needed - 20} more)" in verdict.advice[0]
    below = replace(x, value=-0.02)
    (verdict,) = Gate.parse("low(delta(accuracy)) >= -0.01").check(comparison([delta("accuracy", below)])).rules
    assert verdict.clusters_needed is None
    assert "the value itself is beyond the threshold" in verdict.advice[0]


@pytest.mark.parametrize("value", [0.0, 1e-200])
def test_a_value_that_meets_the_threshold_is_not_said_to_miss_it(value: float) -> None:
    # two runs alike and a margin of 0: no number of clusters shows it, but the value does not miss it
    found = comparison([delta("accuracy", Plain(value, -0.1, 0.1))])
    (verdict,) = Gate.parse("low(delta(accuracy)) >= 0").check(found).rules
    assert verdict.verdict == INCONCLUSIVE
    assert verdict.clusters_needed is None
    assert "the value itself misses it" not in verdict.reason


@given(st.floats(0.001, 10), st.integers(2, 500), st.sampled_from([0.9, 0.95, 0.99]))
def test_what_could_be_seen_is_the_formula(se: float, clusters: int, level: float) -> None:
    df = clusters - 1
    smallest = (student_quantile(0.5 + level / 2, df) + student_quantile(0.8, df)) * se
    assert detectable(se, clusters, level) == pytest.approx(smallest, rel=1e-6)


@given(st.floats(0.01, 5), st.floats(0.01, 5), st.integers(6, 500))
def test_clusters_needed_by_an_estimate_narrow_with_their_root(half: float, room: float, clusters: int) -> None:
    needed = estimate_clusters(1.0, 1.0 - half, 1.0 - room, clusters)
    wanted = max(math.ceil(clusters * (half / room) ** 2 - 1e-9), clusters + 1)
    assert needed == (pytest.approx(wanted, abs=1) if wanted <= OUT_OF_REACH else None)
    assert estimate_clusters(1.0, 1.0 - half, 1.0, clusters) is None
    assert estimate_clusters(1.0, 1.0 - half, 1.0 + room, clusters) is None


@given(st.integers(6, 2_000_000), st.integers(6, 5_000))
def test_the_fewest_clusters_are_found(threshold: int, clusters: int) -> None:
    found = fewest_clusters(lambda n: n >= threshold, clusters)
    assert found == (None if threshold > OUT_OF_REACH else max(threshold, clusters + 1))


def test_a_margin_too_small_to_ever_be_shown_does_not_break_the_gate() -> None:
    x = Plain(1e-200, -0.1, 0.1)
    (verdict,) = Gate.parse("low(delta(bias)) >= 0").check(comparison([delta("bias", x)])).rules
    assert verdict.verdict == INCONCLUSIVE


def test_a_fail_among_many_rules_may_be_chance_but_a_pass_needs_no_correction() -> None:
    # one-sided p 0.01: below 0.025 alone, above it times three
    se = 0.1
    miss = -student_quantile(0.99, 19) * se
    reach = student_quantile(0.975, 19) * se
    missed = Plain(miss, miss - reach, miss + reach, se)
    fine = Plain(1.0, 0.9, 1.1, 0.04)
    alone = comparison([delta("accuracy", missed)])
    assert verdicts("low(delta(accuracy)) >= 0", alone) == [FAIL]
    three = comparison([delta("accuracy", missed), delta("f1_macro", fine), delta("auroc", fine)])
    rules = ["low(delta(accuracy)) >= 0", "low(delta(f1_macro)) >= 0", "low(delta(auroc)) >= 0"]
    decision = Gate.parse(rules).check(three)
    assert [v.verdict for v in decision.rules] == [INCONCLUSIVE, PASS, PASS]
    assert decision.rules[0].p_value == pytest.approx(0.01)
    assert decision.rules[0].p_adjusted == pytest.approx(0.03)
    # point and permissive rules are not of the family
    mixed = ["low(delta(accuracy)) >= 0", "delta(f1_macro) >= 0", "high(delta(auroc)) >= 0"]
    assert verdicts(mixed, three) == [FAIL, PASS, PASS]


def test_the_level_of_the_intervals_is_the_level_of_the_correction() -> None:
    # at 90% an end is at one-sided 0.05; a single rule has nothing to be corrected for
    se, value = 0.1, -student_quantile(0.96, 19) * 0.1
    reach = student_quantile(0.95, 19) * se
    found = replace(
        comparison([delta("accuracy", Plain(value, value - reach, value + reach, se))]), settings=Settings(level=0.9)
    )
    assert verdicts("low(delta(accuracy)) >= 0", found) == [FAIL]


def test_an_interval_without_a_standard_error_still_has_a_p_value() -> None:
    se = 0.1
    reach = student_quantile(0.975, 19) * se
    for missing in (None, 0.0):
        e = replace(estimate("accuracy", Plain(0.2, 0.2 - reach, 0.2 + reach, se)), se=missing)
        (verdict,) = Gate.parse("low(accuracy) >= 0.5").check(evaluation([e])).rules
        assert verdict.verdict == FAIL
        assert verdict.p_value == pytest.approx(student_below(-3.0, 19))


def test_an_incomplete_run_does_not_pass() -> None:
    subject = Subject(evaluation=[estimate("accuracy", Plain(0.9))], complete=False)
    decision = Gate.parse("accuracy >= 0.5").check(subject)
    assert decision.verdict == FAIL
    assert [v.verdict for v in decision.rules] == [PASS, FAIL]
    assert decision.rules[-1].reason == "the run is incomplete"


EXCERPT = TESTS / "data/inspect/unfinished.eval"


def torn_file(folder: Path) -> Path:
    path = folder / "torn.jsonl"
    path.write_text("".join(f'{{"item": {i}, "target": "a", "prediction": "a"}}\n' for i in range(20)) + '{"item": 2')
    return path


def loaded(folder: Path, document: Any) -> Any:
    path = folder / "document.json"
    path.write_text(dumps(document))
    return sy.load(path)


@pytest.mark.parametrize("kind", ["excerpt", "torn"])
def test_what_is_only_a_part_passes_no_gate_from_python_either(tmp_path: Path, kind: str) -> None:
    records = sy.read(EXCERPT if kind == "excerpt" else torn_file(tmp_path), salvage=True)
    whole = sy.Records.from_columns({name: records.column(name) for name in records.stated})
    told = "3 of 4 samples" if kind == "excerpt" else "its end could not be read"
    one = sy.evaluate(records, ["accuracy"], resamples=0)
    pairs = [sy.compare(base, new, ["accuracy"], resamples=0) for base, new in ((whole, records), (records, whole))]
    for subject in (one, *pairs):
        rule = "accuracy >= 0" if subject is one else "delta(accuracy) >= -1"
        again = loaded(tmp_path, subject.to_dict())
        for subjects in ([subject], [again], [subject, again]):
            decision = Gate.parse(rule).check(*subjects)
            assert [v.verdict for v in decision.rules] == [PASS, FAIL]
            assert decision.rules[-1].reason == "the run is incomplete"
            assert sum(told in note for note in decision.notes) == 1  # once, however many subjects say it
    assert verdicts("accuracy >= 0", sy.evaluate(whole, ["accuracy"], resamples=0)) == [PASS]


DECLINING = (
    "aurc <= 0.2",
    "high(delta(augrc)) <= 0",
    "aurc_at(c=0.3) <= 0.1",
    "risk_at(c=0.5) <= 0.1",
    "selective_accuracy >= 0.9",
    "low(delta(precision.yes)) >= 0",
    "brier <= 0.2",
    "nll <= 0.2",
    "high(ece) <= 0.1",
    "f1_macro(answered_only=true) >= 0.5",
    "fairness_gap(selective_accuracy, by=group.site) <= 0.1",
)


def test_rules_that_declining_can_satisfy_are_warned_about_without_one_about_answering() -> None:
    found = Subject(baseline=True)
    for rule in DECLINING:
        assert any("declining" in note for note in Gate.parse(rule).check(found).notes)
        for watch in ("answer_rate >= 0.8", "low(delta(answer_rate)) >= -0.01", "coverage >= 0.8"):
            assert not any("declining" in note for note in Gate.parse([rule, watch]).check(found).notes), watch
    for rule in ("accuracy >= 0.8", "f1_macro >= 0.5", "recall.yes >= 0.5", "low(delta(balanced_accuracy)) >= 0"):
        assert not Gate.parse(rule).check(found).notes


def test_by_adds_a_rule_per_value_only_to_rules_about_the_whole() -> None:
    rules = ["accuracy{group.site=x} >= 0", "brier <= 1 for each task", "f1_macro >= 0", "made_elsewhere >= 0"]
    added = [str(rule) for rule in Gate.parse(rules).by(["ward", "race"]).rules[len(rules) :]]
    assert added == ["f1_macro >= 0 for each ward", "f1_macro >= 0 for each race"]
