"""Gates: decisions against a naive reading of the definition, where numbers come from, and what CI sees."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from steelyard.decide.gate import FAIL, INCONCLUSIVE, PASS, PROFILES, Decision, Gate
from steelyard.decide.numbers import Subject
from steelyard.decide.rules_file import load_rules
from steelyard.decide.subject import Asked, of_records, of_runs
from steelyard.errors import InputError, StorageError, UsageError
from steelyard.records.readers import read
from steelyard.records.table import Records
from steelyard.report.formats import markdown, text
from steelyard.report.gate import acceptance_document, gate_report, github_commands, junit
from steelyard.report.schemas import schemas
from steelyard.runs.layout import Scope
from steelyard.runs.saved import Clock, Opened, save
from steelyard.study.comparison import Comparison, compare, compare_kept
from steelyard.study.evaluation import Evaluation, evaluate
from steelyard.uncertainty.estimate import Settings
from steelyard.uncertainty.number import Delta, Estimate
from steelyard.uncertainty.power import OUT_OF_REACH, detectable, estimate_clusters, fewest_clusters
from tests.support.answers import lines
from tests.support.commands import command, steelyard
from tests.support.gates import step_down
from tests.support.oracles import oracle

ORACLE = oracle("retrieval")
WHOLE: Mapping[str, str] = {}
CELL_COLUMNS = {"model", "strategy", "task", "perturbation"}
RELATIONS = (">=", ">", "<=", "<")


# -- the definition, read naively: plain numbers in, a word out --------------------------------------------------------


@dataclass(frozen=True)
class Plain:
    """What is known of one number."""

    value: float | None
    low: float | None = None
    high: float | None = None
    se: float = 0.05
    clusters: int = 20
    undefined: float = 0.0  # the share of resamples


def holds(value: float, relation: str, threshold: float) -> bool:
    return {
        ">=": value >= threshold,
        ">": value > threshold,
        "<=": value <= threshold,
        "<": value < threshold,
    }[relation]


def naive(bound: str | None, relation: str, threshold: float, x: Plain) -> str:
    """One rule about one number, before the correction of several fails."""
    if x.value is None or x.value != x.value:
        return FAIL
    if bound is None:
        return PASS if holds(x.value, relation, threshold) else FAIL
    upward = relation in (">=", ">")
    confirming = upward if bound == "low" else not upward
    if x.low is None or x.high is None or x.clusters < 6 or x.undefined > 0.05:
        return INCONCLUSIVE if confirming else FAIL
    near, far = (x.low, x.high) if bound == "low" else (x.high, x.low)
    if holds(near, relation, threshold):
        return PASS
    if not confirming:
        return FAIL
    opposite = {">=": "<", ">": "<=", "<=": ">", "<": ">="}[relation]
    return FAIL if holds(far, opposite, threshold) else INCONCLUSIVE


def student_below(t: float, df: int) -> float:
    """P(T ≤ t) for whole degrees of freedom: the finite series."""
    angle = math.atan(t / math.sqrt(df))
    cosine, sine = math.cos(angle), math.sin(angle)
    if df % 2:
        term, total = cosine, cosine if df > 1 else 0.0
        for k in range(2, df - 2, 2):
            term *= cosine * cosine * k / (k + 1)
            total += term
        area = 2 / math.pi * (angle + sine * total)
    else:
        term = total = 1.0
        for k in range(1, df - 2, 2):
            term *= cosine * cosine * k / (k + 1)
            total += term
        area = sine * total
    return 0.5 + area / 2


def student_quantile(p: float, df: int) -> float:
    low, high = -1000.0, 1000.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if student_below(middle, df) < p else (low, middle)
    return (low + high) / 2


def p_of_missing(relation: str, threshold: float, x: Plain) -> float:
    """One-sided, from the interval that is shown: 1 where the value meets it, α/2 where its far end does."""
    assert x.value is not None
    assert x.low is not None
    assert x.high is not None
    sign = 1 if relation in (">=", ">") else -1
    missed = sign * (threshold - x.value)
    if missed <= 0:
        return 1.0
    half = x.high - x.value if sign > 0 else x.value - x.low
    if half == 0:
        return 0.0
    return student_below(-student_quantile(0.975, x.clusters - 1) * missed / half, x.clusters - 1)


def naive_gate(checks: Sequence[tuple[str | None, str, float, Plain]]) -> tuple[str, list[str]]:
    """All rules: fails of confirming rules stand only if they survive the correction over all confirming rules."""
    verdicts = [naive(*check) for check in checks]
    family = [i for i, check in enumerate(checks) if is_tested(*check)]
    for i, p in zip(family, step_down([p_of_missing(*checks[i][1:]) for i in family]), strict=True):
        if verdicts[i] == FAIL and p > 0.025:
            verdicts[i] = INCONCLUSIVE
    return whole(verdicts), verdicts


def on_the_edge(checks: Sequence[tuple[str | None, str, float, Plain]]) -> bool:
    """Where rounding decides: a p-value of α/2 itself, as at the end of an interval that fits its standard error."""
    adjusted = step_down([p_of_missing(*check[1:]) for check in checks if is_tested(*check)])
    return any(abs(p - 0.025) < 1e-9 for p in adjusted)


def is_tested(bound: str | None, relation: str, threshold: float, x: Plain) -> bool:
    """A confirming rule about a number with a usable interval: what has a p-value."""
    confirming = bound == ("low" if relation in (">=", ">") else "high")
    usable = x.low is not None and x.clusters >= 6 and x.undefined <= 0.05
    return confirming and usable and x.value is not None and not math.isnan(x.value)


def whole(verdicts: Sequence[str]) -> str:
    return FAIL if FAIL in verdicts else INCONCLUSIVE if INCONCLUSIVE in verdicts else PASS


# -- plain numbers as what a gate is given -----------------------------------------------------------------------------


def estimate(
    metric: str, x: Plain, *, slice_: Mapping[str, Any] = WHOLE, better: str | None = None, note: str = ""
) -> Estimate:
    interval = None if x.low is None or x.high is None else (x.low, x.high)
    undefined = round(x.undefined * 10_000)
    return Estimate(
        metric=metric, slice=slice_, value=x.value, se=x.se, interval=interval, method="t", n=100, clusters=x.clusters,
        undefined_resamples=undefined, better=better, notes=(note,) if note else (),
    )  # fmt: skip


def delta(
    metric: str,
    x: Plain,
    *,
    slice_: Mapping[str, Any] = WHOLE,
    better: str | None = None,
    deciding: str = "delta",
    note: str = "",
) -> Delta:
    """A delta; if it is not the delta itself that decides, that one is far off and a companion holds the number."""
    interval = None if x.low is None or x.high is None else (x.low, x.high)
    undefined = round(x.undefined * 10_000)
    own = Delta(
        metric=metric, slice=slice_, base=0.0, new=x.value, value=x.value, se=x.se, interval=interval, p_value=0.5,
        p_adjusted=0.5, better=better, n=100, n_base=100, n_new=100, clusters=x.clusters, method="t",
        undefined_resamples=undefined, notes=(note,) if note else (),
    )  # fmt: skip
    if deciding == "delta":
        return own
    far = replace(own, new=99.0, value=99.0, interval=(98.0, 100.0), clusters=20, undefined_resamples=0)
    forms = {} if deciding == "nothing" else {deciding: own}
    return replace(far, verdict_from=deciding, read_from=deciding, forms=forms)


def population(rows: int = 100, failed: int = 0) -> dict[str, int]:
    return {"rows": rows, "answered": rows - failed, "abstained": 0, "unparsed": 0, "failed": failed, "clusters": 20}


def comparison(
    deltas: Sequence[Delta], base: Mapping[str, int] | None = None, new: Mapping[str, int] | None = None
) -> Comparison:
    sides = {"base": base or population(), "new": new or population(), "paired": 100}
    lost = {"cells": [], "base_rows": 0, "new_rows": 0}
    return Comparison(
        deltas=tuple(deltas), settings=Settings(), population=sides, cluster=("item",), warnings=(),
        sources={"base": (), "new": ()}, unmatched=lost,
    )  # fmt: skip


def evaluation(estimates: Sequence[Estimate]) -> Evaluation:
    return Evaluation(
        estimates=tuple(estimates), settings=Settings(), population=population(), cluster=("item",), clusters=20,
        sources=(), warnings=(),
    )  # fmt: skip


def verdicts(rules: str | Sequence[str], *subjects: Comparison | Evaluation | Subject) -> list[str]:
    return [v.verdict for v in Gate.parse(rules).check(*subjects).rules]


# a small grid makes ends, values and thresholds meet
grid = st.integers(-6, 6).map(lambda n: n / 8)
names = ("accuracy", "ece", "f1_macro", "mae", "bias", "brier", "auroc")


@st.composite
def plains(draw: st.DrawFn, *, counted: bool = True) -> Plain:
    """Any number: with and without interval, value, enough clusters and defined resamples."""
    if draw(st.integers(0, 9)) == 0:
        return Plain(draw(st.sampled_from([None, math.nan])))
    value = draw(grid)
    se = draw(st.sampled_from([0.01, 0.05, 0.11, 0.4]))
    clusters = draw(st.sampled_from([2, 5, 6, 7, 12, 20, 41, 200]))
    undefined = draw(st.sampled_from([0.0, 0.0, 0.0, 0.05, 0.0501, 1.0])) if counted else 0.0
    if draw(st.integers(0, 5)) == 0:
        return Plain(value, None, None, se, clusters, undefined)
    if draw(st.booleans()):  # the interval that fits the standard error
        reach = se * student_quantile(0.975, clusters - 1)
        return Plain(value, value - reach, value + reach, se, clusters, undefined)
    low, high = sorted((value, draw(grid), draw(grid)))[::2]
    return Plain(value, low, high, se, clusters, undefined)


def rule_text(name: str, bound: str | None, relation: str, threshold: float, *, is_delta: bool, more: str = "") -> str:
    inside = f"delta({name})" if is_delta else name
    return f"{f'{bound}({inside})' if bound else inside} {relation} {threshold!r}{more}"


@st.composite
def near(draw: st.DrawFn, x: Plain) -> float:
    """A threshold: an end, the value, or elsewhere."""
    ends = [e for e in (x.value, x.low, x.high) if e is not None and not math.isnan(e)]
    return draw(st.sampled_from(ends)) if ends and draw(st.booleans()) else draw(grid)


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


slices = (
    {}, {"task": "a"}, {"task": "b"}, {"group.site": "x"}, {"group.site": "y"}, {"task": "a", "group.site": "x"},
    {"task": "b", "group.site": "x"}, {"group.age": "old"}, {"group.site": "x", "group.age": "old"},
)  # fmt: skip


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
    watched = ["low(delta(accuracy)) >= 0", "failure_rate <= 1"]
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
    assert "alone would not pass it" in verdict.advice[0]


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


def test_margins_that_add_up_are_warned_about() -> None:
    judged = Subject(baseline=True)
    assert any("margins add up" in note for note in Gate.parse("low(delta(accuracy)) >= -0.01").check(judged).notes)
    assert not Gate.parse("low(delta(accuracy)) >= 0").check(judged).notes


# -- where a rule's numbers come from ----------------------------------------------------------------------------------


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
        with pytest.raises(UsageError, match=r"unknown metric.*did you mean 'accuracy'"):
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


# -- the profiles that other tools know --------------------------------------------------------------------------------


def test_profiles_are_the_documented_rules() -> None:
    assert [str(r) for r in Gate.profile("rank").rules] == [
        "NdcgEvaluator.delta >= -0.005",
        "MrrEvaluator.delta >= -0.005",
    ]
    assert [str(r) for r in Gate.profile("rank+cosine").rules][2:] == ["CosineSimilarityEvaluator.delta >= 0"]
    assert all(r.kind == "point" for name in PROFILES for r in Gate.profile(name).rules)
    for name in ("", "RANK", "rank+", "cosine"):
        with pytest.raises(UsageError, match="unknown gate profile"):
            Gate.profile(name)


@pytest.mark.parametrize("case", ORACLE["gate_cases"], ids=lambda case: case["id"])
@pytest.mark.parametrize("cased", [str, str.lower, str.upper])
def test_documented_gates_decide_as_documented(case: dict[str, Any], cased: Any) -> None:
    metrics = {cased(key): float(value) for key, value in case["metrics"].items()}
    decision = Gate.profile(case["profile"]).check(Subject(metrics=metrics))
    document = acceptance_document(decision, {})
    expected = case["expected_seed_document"]
    assert document["passed"] is expected["passed"]
    assert document["checks"] == expected["checks"]
    assert document["metrics"] == {key: case["metrics"][key] for key in expected["checks"]}


@pytest.mark.parametrize("case", ORACLE["gate_cases"], ids=lambda case: case["id"])
def test_documented_gates_decide_as_documented_on_the_command_line(case: dict[str, Any], tmp_path: Path) -> None:
    folder = foreign_run(tmp_path / "elsewhere" / case["id"], case["metrics"])
    done = command(
        "gate", "--run", folder, "--gate-profile", case["profile"], "--format", "json", "--root", tmp_path,
        "--output", tmp_path / "acceptance_gate.json",
    )  # fmt: skip
    expected = case["expected_seed_document"]
    assert done.returncode == (0 if expected["passed"] else 1), done.stderr
    document = json.loads(done.stdout)
    assert document["passed"] is expected["passed"]
    assert document["checks"] == expected["checks"]
    assert (tmp_path / "acceptance_gate.json").read_text() == done.stdout


# -- rows and kept runs ------------------------------------------------------------------------------------------------


def answers(size: int, share: float, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return ["yes" if rng.random() < share else "no" for _ in range(size)]


def table(predictions: Sequence[Any], *, rows: int = 4, **more: Any) -> Records:
    size = len(predictions)
    rng = np.random.default_rng(0)
    return Records.from_columns(
        {
            "item": [f"q{i}" for i in range(size)],
            "cluster": [f"p{i // rows}" for i in range(size)],
            "target": ["yes"] * size,
            "prediction": list(predictions),
            "confidence": [round(float(c), 2) for c in rng.random(size)],
            **more,
        }
    )


def cells(shares: Mapping[str, float], seed: int, *, column: str = "task", size: int = 80) -> Records:
    """One cell a key, the same questions in each."""
    predictions = [p for i, share in enumerate(shares.values()) for p in answers(size, share, seed + i)]
    return Records.from_columns(
        {
            column: [name for name in shares for _ in range(size)],
            "item": [f"q{i}" for _ in shares for i in range(size)],
            "cluster": [f"p{i // 4}" for _ in shares for i in range(size)],
            "target": ["yes"] * (size * len(shares)),
            "prediction": predictions,
        }
    )


class Shelf:
    """Keeps tables as runs, and opens them again."""

    def __init__(self, root: Path) -> None:
        self.root, self._count = root, 0

    def keep(
        self, records: Records, metrics: Sequence[str] = ("accuracy",), *, rows: bool = False, **how: Any
    ) -> Opened:
        self._count += 1
        found = evaluate(records, list(metrics), keep_evidence=True, resamples=200, **how)
        kept = records if rows else None
        _, folder = save(
            Scope(self.root), found, workflow="w", clock=Clock(), run_id=f"run-{self._count}", records=kept
        )
        return Opened.at(folder)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def gated(rules: str | Sequence[str], run: Opened, baseline: Opened | None = None) -> Decision:
    gate = Gate.parse(rules)
    return gate.check(of_runs(gate, run, baseline))


def gated_rows(rules: str | Sequence[str], new: Records, base: Records | None = None) -> Decision:
    gate = Gate.parse(rules)
    return gate.check(of_records(gate, new, base, Asked(resamples=200)))


SITES = {"group.site": ["x" if i // 4 % 2 else "y" for i in range(160)]}
BOTH_WAYS = (
    "accuracy >= 0.5",
    "low(accuracy) >= 0.5",
    "delta(accuracy) >= -0.01",
    "low(delta(accuracy)) >= -0.01",
    "low(delta(accuracy{group.site=x})) >= -0.01",
    "high(delta(accuracy)) >= 0 for each group.site",
    "accuracy{group.site=y} >= 0.5",
    "high(delta(ece)) <= 0.2",
)


@pytest.mark.parametrize("rows", [False, True], ids=["evidence", "rows"])
@pytest.mark.parametrize("rule", BOTH_WAYS)
def test_kept_runs_decide_as_their_tables_do(shelf: Shelf, rule: str, rows: bool) -> None:
    base, new = table(answers(160, 0.6, 1), **SITES), table(answers(160, 0.8, 2), **SITES)
    kept = [shelf.keep(t, ("accuracy", "ece"), rows=rows, by=["group.site"]) for t in (base, new)]
    found, wanted = gated(rule, kept[1], kept[0]), gated_rows(rule, new, base)
    assert found.verdict == wanted.verdict
    for one, two in zip(found.rules, wanted.rules, strict=True):
        assert one.verdict == two.verdict
        assert one.value == pytest.approx(two.value)


def test_a_wrong_way_rule_about_a_slice_is_refused_for_kept_runs_too(shelf: Shelf) -> None:
    new = table(answers(160, 0.8, 2), **SITES)
    with pytest.raises(UsageError, match="higher is better"):
        gated_rows("accuracy{group.site=x} <= 0.99", new)
    with pytest.raises(UsageError, match="higher is better"):
        gated("accuracy{group.site=x} <= 0.99", shelf.keep(new, by=["group.site"]))


def test_a_documented_key_knows_its_direction(shelf: Shelf) -> None:
    kept = shelf.keep(table(answers(160, 0.8, 2)), ("aurc", "brier"))
    for rule in ("aurc_full >= 0", "brier_score >= 0"):
        with pytest.raises(UsageError, match="lower is better"):
            gated(rule, kept)


@pytest.mark.parametrize("rows", [False, True], ids=["evidence", "rows"])
def test_cells_of_several_models_are_paired_with_their_own(shelf: Shelf, rows: bool) -> None:
    base, new = (cells({"a": 0.9, "b": 0.3}, 1, column="model") for _ in range(2))
    kept = [shelf.keep(t, rows=rows) for t in (base, new)]
    decision = gated("delta(accuracy) >= -0.01 for each cell", kept[1], kept[0])
    assert [(dict(v.slice), v.value) for v in decision.rules] == [({"model": "a"}, 0.0), ({"model": "b"}, 0.0)]
    assert decision.passed
    assert gated("delta(accuracy{model=b}) >= -0.01", kept[1], kept[0]).passed


@pytest.mark.parametrize("rows", [False, True], ids=["evidence", "rows"])
@pytest.mark.parametrize(("before", "after"), [("ab", "ac"), ("abc", "ab"), ("ab", "abc")])
def test_a_cell_that_only_one_run_has_is_not_passed_over(shelf: Shelf, rows: bool, before: str, after: str) -> None:
    base, new = (cells(dict.fromkeys(tasks, 0.9), 1) for tasks in (before, after))
    kept = [shelf.keep(t, rows=rows) for t in (base, new)]
    try:
        decision = gated("delta(accuracy) >= -0.05 for each cell", kept[1], kept[0])
    except InputError:
        return
    assert not decision.passed


def test_areas_of_unequal_coverage_are_gated_up_to_the_common_one(shelf: Shelf) -> None:
    # raw AURC rewards abstaining: a run that answers a tenth at risk one half must not pass
    base = table(answers(320, 0.8, 1))
    lazy = table([("yes" if i % 20 else "no") if i % 10 == 0 else None for i in range(320)])
    raw = compare(base, lazy, ["aurc"])["aurc"]
    assert raw.delta is not None
    assert raw.delta < 0
    rule = ["delta(aurc) <= 0"]
    for decision in (
        gated_rows(rule, lazy, base),
        gated(rule, shelf.keep(lazy, ("aurc",)), shelf.keep(base, ("aurc",))),
    ):
        assert decision.verdict == FAIL
        assert decision.rules[0].value == pytest.approx(raw.companions["common_cmax"]["delta"])
        assert any("answer_rate" in note for note in decision.notes)


def test_a_delta_that_stands_in_for_another_is_said() -> None:
    x = Plain(-0.1, -0.2, -0.05)
    for deciding, note in (("common_cmax", "up to the common cmax"), ("answered_by_both", "rows answered by both")):
        found = comparison([delta("aurc", x, deciding=deciding, note=f"the verdict is from {note}")])
        for rule in ("delta(aurc) <= 0", "high(delta(aurc)) <= 0", "low(delta(aurc)) <= 0", "high(delta(aurc)) <= -1"):
            decision = Gate.parse(rule).check(found)
            assert note in decision.rules[0].reason + "".join(decision.notes), rule


def test_answered_only_deltas_are_gated_on_rows_that_both_answered() -> None:
    base = answers(160, 0.7, 1)
    new = [None if p == "no" and i % 4 else p for i, p in enumerate(base)]  # declines what it got wrong
    found = compare(table(base), table(new), ["selective_accuracy"])["selective_accuracy"]
    assert found.delta is not None
    assert found.delta > 0.05
    (verdict,) = gated_rows("delta(selective_accuracy) >= 0.05", table(new), table(base)).rules
    assert verdict.value == 0
    assert verdict.verdict == FAIL


@pytest.mark.parametrize("rows", [False, True], ids=["evidence", "rows"])
def test_failures_that_rose_stop_kept_runs(shelf: Shelf, rows: bool) -> None:
    base = answers(160, 0.8, 1)
    outcome = ["failed" if i < 4 else "answered" for i in range(160)]
    new = table([None if o == "failed" else p for o, p in zip(outcome, base, strict=True)], outcome=outcome)
    kept = [shelf.keep(t, ("accuracy", "failure_rate"), rows=rows) for t in (table(base), new)]
    decision = gated("delta(accuracy) >= -0.01", kept[1], kept[0])
    assert [v.verdict for v in decision.rules] == [PASS, FAIL]
    assert "2.5% of the rows failed, 0.0% before" in decision.rules[1].reason
    assert gated(["delta(accuracy) >= -0.01", "failure_rate <= 0.03"], kept[1], kept[0]).passed


def test_failures_of_every_cell_are_watched_when_evidence_is_compared(shelf: Shelf) -> None:
    base, new = cells({"a": 0.9, "b": 0.9}, 1), cells({"a": 0.9, "b": 0.9}, 1)
    outcome = ["failed" if i >= 150 else "answered" for i in range(160)]
    new = new.with_columns({"outcome": pa.array(outcome)})
    kept = [evaluate(t, ["accuracy"], keep_evidence=True, resamples=100).kept for t in (base, new)]
    found = compare_kept(*kept, ["accuracy"], resamples=100)
    assert found.population["new"]["rows"] == 160
    assert not Gate.parse("delta(accuracy) >= -0.05 for each cell").check(found).passed


def test_the_failure_rate_of_another_tool_is_watched_whatever_its_case(tmp_path: Path) -> None:
    for key in ("failure_rate", "Failure_Rate"):
        runs = [Opened.at(foreign_run(tmp_path / f"{key}-{rate}", {"ndcg@3": 0.9, key: rate})) for rate in (0.0, 0.2)]
        decision = gated("ndcg@3 >= 0.5", runs[1], runs[0])
        assert [v.verdict for v in decision.rules] == [PASS, FAIL], key


def test_a_baseline_that_cannot_be_compared_is_not_said_to_be_missing(shelf: Shelf, tmp_path: Path) -> None:
    run, same = (shelf.keep(table(answers(80, 0.8, 1))) for _ in range(2))
    bare = Opened.at(foreign_run(tmp_path / "bare", {"accuracy": 0.8}))
    for rule, baseline in (("low(delta(accuracy)) >= -1", bare), ("delta(f1_macro) >= -1", same)):
        (verdict,) = gated(rule, run, baseline).rules
        assert verdict.verdict == FAIL
        assert "did not keep evidence of it; `steelyard evaluate FILE -m" in verdict.reason, rule
        assert run.run.run_id in verdict.reason or baseline.run.run_id in verdict.reason


def test_a_point_rule_about_a_delta_needs_the_two_values_only(shelf: Shelf, tmp_path: Path) -> None:
    run = shelf.keep(table(answers(80, 0.8, 1)))
    value = run.run.metrics["accuracy"]
    for key in ("accuracy", "Accuracy"):
        bare = Opened.at(foreign_run(tmp_path / key, {key: value - 0.25}))
        for rule, verdict in (("delta(accuracy) >= 0.2", PASS), ("delta(accuracy) >= 0.3", FAIL)):
            (found,) = gated(rule, run, bare).rules
            assert found.verdict == verdict
            assert found.value == pytest.approx(0.25)
            assert "from values alone; not known to be the same questions" in found.reason
        (found,) = gated("low(delta(accuracy)) >= -1", run, bare).rules
        assert found.verdict == FAIL
    one, two = (Opened.at(foreign_run(tmp_path / f"f{i}", {"NDCG@3": i / 4, "foo.bar": i / 4})) for i in (1, 2))
    for written in ("ndcg@3", "NDCG@3", "foo.bar", "Foo.Bar"):
        assert [v.value for v in gated(f"delta({written}) >= 0.2", two, one).rules] == [pytest.approx(0.25)]
        (found,) = gated(f"low(delta({written})) >= -1", two, one).rules
        assert found.verdict == FAIL
        assert "evidence" in found.reason
    with pytest.raises(UsageError, match=r"unknown metric 'foo\.baz'"):
        gated("delta(foo.baz) >= 0", two, one)


@pytest.mark.parametrize("rows", [False, True], ids=["evidence", "rows"])
@pytest.mark.parametrize("sliced", [0, 1])
def test_runs_that_were_sliced_differently_are_still_compared_as_a_whole(shelf: Shelf, rows: bool, sliced: int) -> None:
    by: list[list[str]] = [[], []]
    by[sliced] = ["group.site"]
    tables = table(answers(160, 0.6, 1), **SITES), table(answers(160, 0.8, 2), **SITES)
    kept = [shelf.keep(t, rows=rows, by=b) for t, b in zip(tables, by, strict=True)]
    decision = gated("delta(accuracy) >= -0.01", kept[1], kept[0])
    assert decision.passed
    assert decision.rules[0].value == pytest.approx(compare(*tables, ["accuracy"])["accuracy"].delta)
    if not rows:  # the slice is known of one run only
        with contextlib.suppress(InputError):
            assert not gated("delta(accuracy{group.site=x}) >= -1", kept[1], kept[0]).passed


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("file", ["records.parquet", "evidence.npz", "evaluation.json"])
def test_every_file_of_both_runs_is_verified_before_anything_is_judged(shelf: Shelf, side: int, file: str) -> None:
    kept = [shelf.keep(table(answers(80, 0.8, 1)), rows=True) for _ in range(2)]
    path = kept[side].folder / file
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(StorageError, match="was changed after it was written"):
        gated("accuracy >= 0", kept[1], kept[0])


def test_kept_runs_on_other_questions_are_refused(shelf: Shelf) -> None:
    one, two = shelf.keep(table(answers(80, 0.8, 1))), shelf.keep(table(answers(84, 0.8, 1)))
    with pytest.raises(InputError, match="different questions"):
        gated("delta(accuracy) >= -1", one, two)


@pytest.mark.parametrize("missing", [None, "NaN", "absent"])
def test_missing_null_and_nan_metrics_of_other_tools_do_not_pass(tmp_path: Path, missing: str | None) -> None:
    folder = foreign_run(tmp_path / "run", {"MrrEvaluator.delta": 0.1, "NdcgEvaluator.delta": 0.1})
    path = folder / "run.json"
    written = path.read_text()
    value = {None: "null", "NaN": "NaN"}.get(missing)
    pattern = r'"NdcgEvaluator.delta": 0.1'
    path.write_text(re.sub(pattern, f'"NdcgEvaluator.delta": {value}' if value else '"other": 1', written))
    run = Opened.at(folder)
    for rules in (PROFILES["rank"], ["NdcgEvaluator.delta >= -100"], ["!NdcgEvaluator.delta <= 100"]):
        assert gated(rules, run).verdict == FAIL


def test_an_incomplete_run_of_another_tool_does_not_pass(tmp_path: Path) -> None:
    folder = foreign_run(tmp_path / "run", {"ndcg@3": 0.9})
    document = json.loads((folder / "run.json").read_text())
    del document["CompletedAtUtc"]
    (folder / "run.json").write_text(json.dumps(document))
    decision = gated("ndcg@3 >= 0.5", Opened.at(folder))
    assert decision.verdict == FAIL
    assert "incomplete" in decision.rules[-1].reason


def foreign_run(folder: Path, metrics: Mapping[str, float], run_id: str | None = None) -> Path:
    """A run.json as another tool writes it."""
    folder.mkdir(parents=True)
    document = {
        "RunId": run_id or folder.name,
        "Workflow": "Evaluation",
        "Tenant": "",
        "StartedAtUtc": "2026-01-01T00:00:00Z",
        "CompletedAtUtc": "2026-01-01T00:00:01Z",
        "Labels": {},
        "Metrics": dict(metrics),
    }
    (folder / "run.json").write_text(json.dumps(document))
    return folder


# -- what people and machines are shown --------------------------------------------------------------------------------

HOSTILE = (
    "## GATE: PASSED",
    "x\n## GATE: PASSED\n",
    "a | PASS | 1 | [1, 1] |\n| b",
    "<script>alert(1)</script>",
    "[click](https://evil.example)",
    "\x1b[32mPASS\x1b[0m",
    "100%0A::error::owned",
    "a\r\n::set-output name=x::y",
    "\u2028::warning::x\u2029",
    "﻿\ufffe\ud800",
    "]]>&amp;<!--",
    "`code` *bold* _it_ ~~gone~~ @team",
)


def hostile_decision(better: str | None = "higher") -> Decision:
    found = [
        estimate("accuracy", Plain(0.1 * (i % 3), 0.0, 0.3), slice_={"group.site": label}, better=better)
        for i, label in enumerate(HOSTILE)
    ]
    rules = ["accuracy >= 0.15 for each group.site", "low(accuracy) >= 0.1 for each group.site"]
    return Gate.parse(rules).check(evaluation(found))


def test_labels_add_no_heading_row_link_or_html_to_the_summary() -> None:
    decision = hostile_decision()
    shown = markdown.render(gate_report(decision, {"run": HOSTILE[1], "baseline": HOSTILE[2]}))
    rows = shown.split("\n")
    assert [row for row in rows if row.lstrip().startswith("#")] == [f"## gate: {decision.verdict.upper()}"]
    cells_ = [re.split(r"(?<!\\)\|", row) for row in rows if row.startswith("|")]
    assert len(cells_) == 2 + len(decision.rules)
    assert {len(row) for row in cells_} == {len(cells_[0])}
    assert not re.search(r"(?<!\\)[<`\[\]*@#]", "\n".join(rows[1:]))
    assert "https://" not in shown
    assert all(c.isprintable() or c == "\n" for c in shown)


def test_the_table_on_the_terminal_holds_no_control_character() -> None:
    shown = text.render(gate_report(hostile_decision(), {"run": HOSTILE[5]}))
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert shown.startswith("gate: FAIL\n")
    assert len([row for row in shown.split("\n") if row.startswith(("accuracy", "low(accuracy"))]) == 2 * len(HOSTILE)


def test_junit_is_well_formed_and_counts_what_did_not_pass() -> None:
    decision = hostile_decision()
    suite = ElementTree.fromstring(junit(decision).encode())
    assert suite.tag == "testsuite"
    open_ = [v for v in decision.rules if not v.passed]
    assert int(suite.get("tests", "")) == len(suite.findall("testcase")) == len(decision.rules)
    assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure")) == len(open_) > 0
    assert suite.get("errors") == suite.get("skipped") == "0"
    kinds = [f.get("type") for f in suite.findall("testcase/failure")]
    assert kinds == ["inconclusive" if v.verdict == INCONCLUSIVE else "fail" for v in open_]
    assert {"inconclusive", "fail"} == set(kinds)
    assert len({case.get("name") for case in suite.findall("testcase")}) == len(decision.rules)


def test_annotations_are_one_line_each_with_percent_and_newlines_escaped() -> None:
    decision = hostile_decision()
    shown = github_commands(decision)
    open_ = [v for v in decision.rules if not v.passed]
    rows = shown.split("\n")
    assert rows.pop() == ""
    assert len(rows) == len(open_)
    for row, verdict in zip(rows, open_, strict=True):
        level = "warning" if verdict.verdict == INCONCLUSIVE else "error"
        assert row.startswith(f"::{level} title=steelyard gate::")
        assert row.isprintable()
        assert not re.search(r"%(?!25|0A|0D)", row)
    assert "100%250A" in shown


def test_a_passed_gate_says_nothing_beside_a_change() -> None:
    decision = Gate.parse("accuracy >= 0.5").check(evaluation([estimate("accuracy", Plain(0.9))]))
    assert github_commands(decision) == ""
    assert ElementTree.fromstring(junit(decision).encode()).get("failures") == "0"


def test_the_acceptance_document_holds_every_number_and_no_nan() -> None:
    found = evaluation(
        [
            estimate("accuracy", Plain(0.5, 0.4, 0.6)),
            estimate("ece", Plain(math.nan)),
            estimate("auroc", Plain(0.7)),
        ]
    )
    decision = Gate.parse(["low(accuracy) >= 0.45", "ece <= 0.1", "auroc >= 0.5"]).check(found)
    document = acceptance_document(decision, {"run": "r", "baseline": None, "attempt": 3})
    json.dumps(document, allow_nan=False)
    assert document["verdict"] == "fail"
    assert document["passed"] is False
    assert (document["run"], document["baseline"], document["attempt"]) == ("r", None, 3)
    assert all(
        {"rule", "value", "low", "high", "passed", "reason", "threshold", "slice"} <= set(r) for r in document["rules"]
    )
    assert [r["value"] for r in document["rules"]] == [0.5, None, 0.7]
    assert [(r["low"], r["high"]) for r in document["rules"]] == [(0.4, 0.6), (None, None), (None, None)]
    assert [r["passed"] for r in document["rules"]] == [False, False, True]
    assert document["checks"] == {"low(accuracy)": "INCONCLUSIVE", "ece": "FAIL", "auroc": "OK"}


@pytest.mark.parametrize("order", [1, -1])
def test_two_rules_about_one_number_do_not_hide_a_fail(order: int) -> None:
    """`!bias >= -0.1` and `bias <= 0.1` are the usual way to bound a number on both sides."""
    rules = ["bias <= 0.1", "bias >= -0.1"][::order]
    decision = Gate.parse(rules).check(evaluation([estimate("bias", Plain(-0.5))]))
    assert decision.verdict == FAIL
    assert "FAIL" in acceptance_document(decision, {})["checks"].values()


def test_for_each_names_every_slice_in_checks() -> None:
    document = acceptance_document(hostile_decision(), {})
    assert len(document["checks"]) == 2 * len(HOSTILE)


# -- rules in a file ---------------------------------------------------------------------------------------------------

GOOD = (
    "rules: [accuracy >= 0.8]",
    "rules:\n  - low(delta(accuracy)) >= -0.01\n  - accuracy{group.site=x} >= 0.5 for each cell\nbaseline: active\n",
    "profile: rank",
    "profile: rank+cosine\nrules: [failure_rate <= 0.02]\nbaseline: pinned:release-1",
    "# a comment\nrules:\n  - '!bias >= -0.1'  # another\n",
)
BAD = {
    "": "object",
    "{}": "rules or a profile are needed",
    "rules: []": "rules or a profile are needed",
    "rules:": "array",
    "rules: accuracy >= 0.8": "array",
    "rules: [0.8]": "str",
    "rules: [true]": "str",
    "rules: ['']": "length",
    "rules: [[accuracy >= 1]]": "str",
    "rules: [{accuracy: 0.8}]": "str",
    "profile: 3": "str",
    "profile: [rank]": "str",
    "rules: [accuracy >= 1]\nbaseline: 7": "str",
    "rule: [accuracy >= 1]": "did you mean 'rules'?",
    "rules: [accuracy >= 1]\nbaselin: active": "did you mean 'baseline'?",
    "rules: [accuracy >= 1]\ncolour: red": "colour",
    "- accuracy >= 0.8": "object",
    "accuracy >= 0.8": "object",
}


@pytest.mark.parametrize("content", GOOD)
def test_good_rules_files_are_read_and_meet_the_schema(tmp_path: Path, content: str) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(content)
    found = load_rules(path)
    assert found.rules or found.profile
    assert Gate.parse(found.rules or ["accuracy >= 0"])
    schema_of_rules().validate(yaml.safe_load(content))


@pytest.mark.parametrize(("content", "problem"), BAD.items())
def test_bad_rules_files_are_refused_and_told_why(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        load_rules(path)
    assert "gate.yaml" in str(caught.value)
    assert problem in str(caught.value)


@pytest.mark.parametrize("content", BAD)
def test_bad_rules_files_do_not_meet_the_schema(content: str) -> None:
    assert list(schema_of_rules().iter_errors(yaml.safe_load(content)))


@pytest.mark.parametrize("content", ["profile: rank\nrules: []", "profile:\nrules: [accuracy >= 1]", "profile: null"])
def test_the_schema_and_the_reader_agree(tmp_path: Path, content: str) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(content)
    valid = schema_of_rules().is_valid(yaml.safe_load(content))
    if valid:
        load_rules(path)
    else:
        with pytest.raises(UsageError):
            load_rules(path)


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("rules: [accuracy >= 1]\nrules: [accuracy >= 0]", 2, "a key stands twice"),
        ("rules: &r [accuracy >= 1]\nprofile: *r", 2, "aliases are not allowed"),
        ("rules: [accuracy >= 1]\nprofile: no", 2, "put it in quotes"),
        ("rules: [accuracy >= 1\n", 2, ""),
        ("rules:\n  - !bias >= 0\n", 2, ""),  # without quotes "!" is a tag of YAML
        ("rules: !!python/object/apply:os.system [ls]", 1, ""),
    ],
)
def test_what_yaml_would_take_otherwise_is_refused_at_its_line(
    tmp_path: Path, content: str, line: int, problem: str
) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        load_rules(path)
    assert f"gate.yaml:{line}: " in str(caught.value)
    assert problem in str(caught.value)


def test_a_rules_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_rules(tmp_path / "nowhere.yaml")
    (tmp_path / "gate.yaml").write_bytes("rules: [ä >= 1]".encode("latin-1"))
    with pytest.raises(UsageError, match="not UTF-8"):
        load_rules(tmp_path / "gate.yaml")


def schema_of_rules() -> Any:
    schema = schemas["gate-rules"]()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


# -- the command line: files of answers --------------------------------------------------------------------------------


def rows_of(seed: int, share: float, *, patients: int = 25, **more: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "item": f"q{p}-{i}",
            "patient": f"p{p}",
            "target": "yes",
            "prediction": "yes" if rng.random() < share else "no",
            "confidence": round(float(rng.random()), 2),
            "group": {"site": "x" if p % 2 else "y"},
            **more,
        }
        for p in range(patients)
        for i in range(4)
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    for name, rows in {
        "old": rows_of(1, 0.6),
        "new": rows_of(2, 0.8),
        "few": rows_of(2, 0.8, patients=5),
        "other": rows_of(1, 0.6, patients=24),
    }.items():
        (folder / f"{name}.jsonl").write_text(lines(rows))
    failing = [{**r, "outcome": "failed", "prediction": None} if i < 5 else r for i, r in enumerate(rows_of(2, 0.8))]
    (folder / "failing.jsonl").write_text(lines(failing))
    (folder / "torn.jsonl").write_text(lines(rows_of(2, 0.8))[:-9])
    (folder / "empty.jsonl").write_text("")
    (folder / "gate.yaml").write_text("rules:\n  - low(delta(accuracy)) >= -0.01\nbaseline: old.jsonl\n")
    (folder / "typo.yaml").write_text("rule: [accuracy >= 1]\n")
    return folder


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--run", "new.jsonl", "--baseline", "old.jsonl", "--rule", "low(delta(accuracy)) >= -0.01"), 0, "gate: PASS"),
        (("--run", "new.jsonl", "--rules", "gate.yaml"), 0, "baseline old.jsonl"),
        (("--run", "new.jsonl", "--rule", "accuracy >= 0.99"), 1, "gate: FAIL"),
        (("--run", "new.jsonl", "--rule", "low(accuracy) >= 0.76"), 6, "smallest detectable difference"),
        (("--run", "few.jsonl", "--rule", "low(accuracy) >= 0.1"), 6, "only 5 patients"),
        (("--run", "few.jsonl", "--rule", "high(accuracy) >= 0.1"), 1, "only 5 patients"),
        (
            ("--run", "failing.jsonl", "--baseline", "old.jsonl", "--rule", "delta(accuracy) >= -1"),
            1,
            "no rule is about failure_rate",
        ),
    ],
)
def test_files_are_gated_with_exit_codes_for_the_three_verdicts(
    files: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = command("gate", *arguments, "--cluster", "patient", "--resamples", 200, cwd=files)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("run", "rule", "code"),
    [
        ("new.jsonl", "accuracy >= 0.5", 0),
        ("new.jsonl", "accuracy >= 0.99", 1),
        ("new.jsonl", "accuracy == 0.5", 2),
        ("torn.jsonl", "accuracy >= 0.5", 3),
        ("nowhere", "accuracy >= 0.5", 2),
        ("new.jsonl", "low(accuracy) >= 0.76", 6),
    ],
)
def test_the_process_ends_with_the_documented_code(files: Path, tmp_path: Path, run: str, rule: str, code: int) -> None:
    done = steelyard("gate", "--run", run, "--rule", rule, "--cluster", "patient", "--root", tmp_path, cwd=files)
    assert done.returncode == code, done.stdout + done.stderr
    assert bool(done.stdout) == (code in (0, 1, 6))
    assert bool(done.stderr) == (code in (2, 3, 5))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--run", "new.jsonl"), 2, "a gate needs rules"),
        (("--run", "new.jsonl", "--gate-profile", "gold"), 2, "unknown gate profile 'gold'; known: rank"),
        (("--run", "new.jsonl", "--rule", "accuracy == 0.5"), 2, "equality is never decided"),
        (("--run", "new.jsonl", "--rule", "accuracy <= 0.5"), 2, "higher is better"),
        (("--run", "new.jsonl", "--rule", "low(acuracy) >= 0.5"), 2, "did you mean 'accuracy'"),
        (("--run", "new.jsonl", "--rule", "accuracy >= 0.5 for each group.sight"), 2, "did you mean 'group.site'"),
        (("--run", "new.jsonl", "--rules", "typo.yaml"), 2, "did you mean 'rules'?"),
        (("--run", "new.jsonl", "--rule", "accuracy >= 0", "--baseline", "active"), 2, "gated against a file"),
        (("--run", "new.jsonl", "--rule", "accuracy >= 0", "--format", "html"), 2, "--format is one of"),
        (("--run", "torn.jsonl", "--rule", "accuracy >= 0"), 3, "torn.jsonl:100"),
        (("--run", "empty.jsonl", "--rule", "accuracy >= 0"), 3, "empty.jsonl"),
        (("--run", "new.jsonl", "--baseline", "other.jsonl", "--rule", "delta(accuracy) >= 0"), 3, "have no partner"),
        (("--run", "new.jsonl", "--rule", "low(latency.p50) <= 1"), 3, "latency_ms"),
        (("--run", "nowhere", "--rule", "accuracy >= 0"), 2, "'nowhere' is no run here"),
        (("--run", "new.jsonl", "--rule", "delta(accuracy) >= -1"), 2, "compares with a baseline, and none was given"),
        (("--run", "new.jsonl", "--rule", "nonsense >= 0"), 2, "unknown metric 'nonsense'; see `steelyard metrics`"),
        (("--run", "new.jsonl", "--rule", "accurracy >= 0"), 2, "did you mean 'accuracy'?"),
        (
            ("--run", "new.jsonl", "--rule", "recall.yess >= 0"),
            2,
            "neither run has the label 'yess'; did you mean 'yes'?",
        ),
        (("--run", "new.jsonl", "--rule", "accuracy{group.site=z} >= 0"), 2, "neither run has group.site=z; there are"),
        (("--run", "new.jsonl", "--rule", "accuracy >= 0 for each group.sit"), 2, "group.sit"),
        (
            ("--run", "new.jsonl", "--baseline", "olt.jsonl", "--rule", "delta(accuracy) >= 0"),
            2,
            "the baseline 'olt.jsonl' is no file; did you mean 'old.jsonl'?",
        ),
        (
            ("--run", "nwe.jsonl", "--rule", "accuracy >= 0"),
            2,
            "the run 'nwe.jsonl' is no file; did you mean 'new.jsonl'?",
        ),
        (("--run", "new.jsonl", "--rule", "accuracy >= 0", "--output", "."), 5, "it is a folder"),
    ],
)
def test_what_cannot_be_gated_ends_in_one_line_and_its_code(
    files: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = command("gate", *arguments, "--cluster", "patient", "--resamples", 200, "--root", tmp_path, cwd=files)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_everything_that_ci_reads_is_written(files: Path, tmp_path: Path) -> None:
    rows = [
        {**r, "group": {"site": HOSTILE[1] if i % 8 < 4 else "100%\r\n::error::x"}}
        for i, r in enumerate(rows_of(2, 0.8))
    ]
    (tmp_path / "new.jsonl").write_text(lines(rows))
    done = steelyard(
        "gate", "--run", "new.jsonl", "--rule", "accuracy >= 0.99 for each group.site", "--rule", "accuracy >= 0.1",
        "--rule", "low(accuracy) >= 0.76", "--cluster", "patient", "--resamples", 200, "--junit", "out/gate.xml",
        "--summary", "out/gate.md", "--output", "out/acceptance_gate.json", "--github", "--format", "json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert (tmp_path / "out" / "acceptance_gate.json").read_text() == done.stdout
    assert [r["verdict"] for r in document["rules"]] == ["fail", "fail", "pass", "inconclusive"]
    assert document["run"] == "new.jsonl"
    assert "attempt" not in document  # files that are not kept are not counted
    suite = ElementTree.parse(tmp_path / "out" / "gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("4", "3")
    summary = (tmp_path / "out" / "gate.md").read_text()
    assert [row for row in summary.split("\n") if row.startswith("#")] == ["## gate: FAIL"]
    commands = [row for row in done.stderr.split("\n") if row.startswith("::")]
    assert [row.split(" ")[0] for row in commands] == ["::error", "::error", "::warning"]
    assert sum("::error::x" in row for row in done.stderr.split("\n")) == 1
    assert any("100%25" in row for row in commands)


def test_annotations_come_by_themselves_inside_github_actions(files: Path) -> None:
    arguments = ("gate", "--run", "new.jsonl", "--rule", "accuracy >= 0.99", "--cluster", "patient")
    assert "::error" in command(*arguments, cwd=files, GITHUB_ACTIONS="true").stdout
    assert "::error" not in command(*arguments, cwd=files).stdout


@pytest.mark.parametrize("format_", ["json", "csv", "markdown"])
def test_annotations_do_not_run_into_what_a_program_reads(files: Path, format_: str) -> None:
    done = command(
        "gate", "--run", "new.jsonl", "--rule", "accuracy >= 0.99", "--github", "--format", format_, cwd=files
    )
    assert done.returncode == 1
    assert "::error" in done.stdout + done.stderr
    assert "::error" not in done.stdout


@pytest.mark.parametrize("content", ["rules: [accuracy == 0.5]", "profile: gold"])
def test_a_rule_that_cannot_be_read_is_named_with_its_file(files: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "gate.yaml").write_text(content)
    done = command("gate", "--run", "new.jsonl", "--rules", tmp_path / "gate.yaml", cwd=files)
    assert done.returncode == 2
    assert "gate.yaml" in done.stderr


@pytest.mark.parametrize("option", ["--output", "--junit", "--summary"])
def test_no_output_is_written_over_the_answers(tmp_path: Path, option: str) -> None:
    path = tmp_path / "new.jsonl"
    path.write_text(lines(rows_of(2, 0.8)))
    before = path.read_bytes()
    done = command("gate", "--run", path, "--rule", "accuracy >= 0", option, path, "--resamples", 200)
    assert path.read_bytes() == before
    assert done.returncode == 2, done.stdout


def test_no_output_is_written_over_a_baseline_that_the_rules_name(tmp_path: Path) -> None:
    for name, share in (("old", 0.6), ("new", 0.8)):
        (tmp_path / f"{name}.jsonl").write_text(lines(rows_of(1, share)))
    (tmp_path / "gate.yaml").write_text("rules: [delta(accuracy) >= -1]\nbaseline: old.jsonl\n")
    before = (tmp_path / "old.jsonl").read_bytes()
    done = command("gate", "--run", "new.jsonl", "--rules", "gate.yaml", "--output", "old.jsonl", cwd=tmp_path)
    assert (tmp_path / "old.jsonl").read_bytes() == before
    assert done.returncode == 2, done.stdout


def test_a_metric_from_a_module_in_the_working_folder_can_be_gated(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from steelyard import metric\n\n@metric(better='lower', bounds=(0, 1))\ndef gap(confidence, correct):\n"
        "    '''Distance of confidence and correctness.'''\n    return abs(confidence - correct)\n"
    )
    (tmp_path / "new.jsonl").write_text(lines(rows_of(2, 0.8)))
    # in a process of its own: what it registers must not stay in this one
    done = steelyard("gate", "--run", "new.jsonl", "--rule", "high(mine:gap) <= 1", "--resamples", 200, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_mistyped_file_leaves_nothing_behind(tmp_path: Path) -> None:
    done = command("gate", "--run", "nwe.jsonl", "--rule", "accuracy >= 0", cwd=tmp_path)
    assert done.returncode in (2, 3, 5)
    assert os.listdir(tmp_path) == []


def test_the_schema_is_printed(tmp_path: Path) -> None:
    done = command("schema", "gate-rules")
    assert done.returncode == 0, done.stderr
    schema = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate({"rules": ["accuracy >= 0.8"], "baseline": "active"})
    assert list(validator.iter_errors({"rules": "accuracy >= 0.8"}))
    assert list(validator.iter_errors({"rules": ["accuracy >= 0.8"], "bseline": "active"}))


# -- the command line: kept runs ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three kept runs: old, new (better), failing; old is active and pinned."""
    root = tmp_path_factory.mktemp("store")
    for name in ("old", "new", "failing"):
        done = command(
            "evaluate", files / f"{name}.jsonl", "--cluster", "patient", "-m", "accuracy", "-m", "aurc", "-m",
            "failure_rate", "--by", "group.site", "--resamples", 200, "--save", "--run-id", name, "--root", root,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    for arguments in (("promote", "old", "--metric", "accuracy"), ("pin", "old", "--as", "release-1")):
        done = command("runs", *arguments, "--root", root)
        assert done.returncode == 0, done.stderr
    return root


def gate(root: Path, *arguments: Any, code: int = 0) -> dict[str, Any]:
    done = command("gate", *arguments, "--root", root, "--format", "json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout else {"error": done.stderr}


@pytest.fixture
def own(store: Path, tmp_path: Path) -> Path:
    """A copy of the store, to be changed."""
    shutil.copytree(store, tmp_path / "own")
    return tmp_path / "own"


def test_baselines_by_every_name_mean_the_same_run_and_attempts_count_up(own: Path) -> None:
    folder = own / "results" / "evaluation" / "runs" / "evaluate" / "old"
    tries = ("active", "active:accuracy", "pinned:release-1", "old", folder)
    documents = [
        gate(own, "--run", "new", "--baseline", baseline, "--rule", "low(delta(accuracy)) >= -0.01")
        for baseline in tries
    ]
    assert [d["baseline"] for d in documents] == ["old"] * 5
    assert [d["attempt"] for d in documents] == [1, 2, 3, 4, 5]
    assert [d["verdict"] for d in documents] == ["pass"] * 5
    (rule,) = documents[0]["rules"]
    assert {"rule", "value", "low", "high", "passed", "reason"} <= set(rule)
    assert rule["rule"] == "low(delta(accuracy)) >= -0.01"
    assert rule["passed"] is True
    assert -0.01 <= rule["low"] < rule["value"] < rule["high"]
    assert documents[0]["checks"] == {"low(delta(accuracy))": "OK"}
    # another baseline is another count
    assert gate(own, "--run", "new", "--baseline", "new", "--rule", "delta(accuracy) >= 0")["attempt"] == 1


def test_the_second_look_is_said(own: Path) -> None:
    arguments = ("gate", "--run", "new", "--baseline", "old", "--rule", "delta(accuracy) >= 0", "--root", own)
    assert "attempt" not in steelyard(*arguments).stdout
    assert "attempt 2 on these data against this baseline" in steelyard(*arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("new", "old", "delta(accuracy) >= 0.9"), 1, "no allowance for chance"),
        (("new", "old", "low(delta(accuracy)) >= 0.15"), 6, "would not pass it"),
        (("new", "old", "delta(accuracy{group.site=x}) >= -1"), 0, ""),
        (("new", "old", "delta(accuracy) >= -1 for each group.site"), 0, ""),
        (("failing", "old", "delta(accuracy) >= -1"), 1, "no rule is about failure_rate"),
        (("failing", "old", "failure_rate <= 0.1"), 0, ""),
        (("new", None, "accuracy >= 0.5"), 0, ""),
        (("new", None, "aurc_full <= 0.9"), 0, ""),
    ],
)
def test_kept_runs_are_gated_with_exit_codes_for_the_three_verdicts(
    own: Path, arguments: tuple[str, str | None, str], code: int, said: str
) -> None:
    run, baseline, rule = arguments
    against = ("--baseline", baseline) if baseline else ()
    document = gate(own, "--run", run, *against, "--rule", rule, code=code)
    assert document["passed"] is (code == 0)
    if said:
        assert any(said in "; ".join((r["reason"], *r["advice"])) for r in document["rules"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--run", "new", "--baseline", "pinned:nothing"), 2, "nothing is pinned under 'nothing'; there is release-1"),
        (("--run", "new", "--baseline", "active:ece"), 2, "nothing is active under 'ece'; there is accuracy"),
        (("--run", "new", "--baseline", "nowhere"), 2, "'nowhere' is no run here"),
        (("--run", "nowhere"), 2, "'nowhere' is no run here"),
    ],
)
def test_a_run_or_baseline_that_is_not_there_is_said(
    store: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = command("gate", *arguments, "--rule", "accuracy >= 0", "--root", store)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("side", ["old", "new"])
@pytest.mark.parametrize("file", ["run.json", "evidence.npz", "evaluation.json"])
def test_a_tampered_run_is_not_gated(own: Path, side: str, file: str) -> None:
    path = own / "results" / "evaluation" / "runs" / "evaluate" / side / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    done = command("gate", "--run", "new", "--baseline", "pinned:release-1", "--rule", "accuracy >= 0", "--root", own)
    assert done.returncode == 5, done.stdout + done.stderr
    assert done.stdout == ""


def test_an_incomplete_baseline_gates_nothing(own: Path) -> None:
    folder = foreign_run(own / "results" / "evaluation" / "runs" / "evaluate" / "half", {"accuracy": 0.1})
    document = json.loads((folder / "run.json").read_text())
    del document["CompletedAtUtc"]
    (folder / "run.json").write_text(json.dumps(document))
    done = command("gate", "--run", "new", "--baseline", "half", "--rule", "accuracy >= 0", "--root", own)
    assert done.returncode == 5, done.stdout + done.stderr
    assert "not complete" in done.stderr
    assert gate(own, "--run", "half", "--rule", "accuracy >= 0", code=1)["passed"] is False


def test_the_level_of_the_interval_is_shown_as_it_is(files: Path, tmp_path: Path) -> None:
    saved = command(
        "evaluate", files / "new.jsonl", "--cluster", "patient", "-m", "accuracy", "--level", 0.8, "--save", "--run-id",
        "wide", "--root", tmp_path,
    )  # fmt: skip
    assert saved.returncode == 0, saved.stderr
    done = command("gate", "--run", "wide", "--rule", "low(accuracy) >= 0.5", "--root", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "95% interval" not in done.stdout


# -- as a test of a team -----------------------------------------------------------------------------------------------

TEAM = """
RUN = dict(resamples=200, cluster="patient")

def test_passes(steelyard_gate):
    decision = steelyard_gate("new.jsonl", baseline="old.jsonl", rules="low(delta(accuracy)) >= -0.01", **RUN)
    assert decision.passed

def test_fails(steelyard_gate):
    steelyard_gate("new.jsonl", rules=["accuracy >= 0.99", "accuracy >= 0.1"], **RUN)

def test_is_open(steelyard_gate):
    steelyard_gate("new.jsonl", rules=["low(accuracy) >= 0.76"], **RUN)

def test_is_open_and_allowed(steelyard_gate):
    decision = steelyard_gate("new.jsonl", rules=["low(accuracy) >= 0.76"], allow_inconclusive=True, **RUN)
    assert decision.verdict == "inconclusive"

def test_allowing_the_open_does_not_allow_a_fail(steelyard_gate):
    steelyard_gate("new.jsonl", rules=["accuracy >= 0.98"], allow_inconclusive=True, **RUN)

def test_kept_runs(steelyard_gate):
    steelyard_gate("kept/new", baseline="kept/old", rules=["low(delta(accuracy)) >= -0.01"])

def test_records(steelyard_gate):
    import steelyard
    steelyard_gate(steelyard.read("new.jsonl", cluster="patient"), rules="accuracy >= 0.5", resamples=200)
"""


@pytest.fixture(scope="module")
def team(files: Path, tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    folder = tmp_path_factory.mktemp("team")
    for name in ("old", "new"):
        shutil.copy(files / f"{name}.jsonl", folder)
    shelf = Shelf(folder / "store")
    runs = folder / "kept"
    runs.mkdir()
    for name in ("old", "new"):
        opened = shelf.keep(read(folder / f"{name}.jsonl", cluster="patient"))
        shutil.copytree(opened.folder, runs / name)
    (folder / "test_team.py").write_text(TEAM)
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-rA", "test_team.py"],
        cwd=folder, env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("test_passes", "PASSED"),
        ("test_fails", "FAILED"),
        ("test_is_open", "FAILED"),
        ("test_is_open_and_allowed", "PASSED"),
        ("test_allowing_the_open_does_not_allow_a_fail", "FAILED"),
        ("test_kept_runs", "PASSED"),
        ("test_records", "PASSED"),
    ],
)
def test_a_gate_is_one_line_of_a_test(team: subprocess.CompletedProcess[str], name: str, outcome: str) -> None:
    assert re.search(rf"^{outcome} test_team.py::{name}\b(?!_)", team.stdout, re.MULTILINE), team.stdout + team.stderr


def test_a_failed_gate_shows_the_table_and_no_traceback(team: subprocess.CompletedProcess[str]) -> None:
    assert team.returncode == 1
    section = team.stdout.split("_ test_fails _")[1].split("_ test_is_open _")[0]
    assert "gate: FAIL" in section
    for said in ("accuracy >= 0.99", "accuracy >= 0.1", "FAIL", "PASS", "no allowance for chance", "95% interval"):
        assert said in section
    assert "Traceback" not in section
    assert "pytest_plugin.py" not in section
    assert "gate: INCONCLUSIVE" in team.stdout.split("_ test_is_open _")[1]
