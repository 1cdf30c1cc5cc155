"""A gate read naively: plain numbers in, a word out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from steelyard.decide.gate import FAIL, INCONCLUSIVE, PASS, Gate
from steelyard.decide.numbers import Subject
from steelyard.study.results import Comparison, Evaluation
from steelyard.uncertainty.estimate import Settings
from steelyard.uncertainty.number import Delta, Estimate

WHOLE: Mapping[str, str] = {}
RELATIONS = (">=", ">", "<=", "<")
# a small grid makes ends, values and thresholds meet
grid = st.integers(-6, 6).map(lambda n: n / 8)
slices = (
    {}, {"task": "a"}, {"task": "b"}, {"group.site": "x"}, {"group.site": "y"}, {"task": "a", "group.site": "x"},
    {"task": "b", "group.site": "x"}, {"group.age": "old"}, {"group.site": "x", "group.age": "old"},
)  # fmt: skip
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


def step_down(p_values: Sequence[float]) -> list[float]:
    """Holm: the smallest times m, the next times m − 1, never below the one before."""
    found = [0.0] * len(p_values)
    before = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        before = found[place] = max(before, min(1.0, p_values[place] * (len(p_values) - rank)))
    return found


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
