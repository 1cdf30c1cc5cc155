"""Facts of the whole table belong to no part of it; facts of a metric are stated on the metric and found there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from steelyard import Records, compare, evaluate, metric
from steelyard.errors import UsageError
from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import Definition, metric_of
from steelyard.metrics.vocabulary import Default
from steelyard.runs.documented import documented, is_documented, meant_by
from steelyard.study.defaults import choose


def test_wall_time_is_of_the_whole_table() -> None:
    columns = {"item": [1, 2, 3, 4], "model": ["a", "a", "b", "b"], "prediction": ["x"] * 4}
    task = {"facts": {"wall_seconds": 60.0}}
    parts = evaluate(Records.from_columns(columns, task=task), ["throughput"])
    assert all(e.value is None and "whole table" in e.note for e in parts)
    whole = evaluate(Records.from_columns(columns, task=task), ["throughput"], pool=["model"])
    assert whole["throughput"].value == 4.0
    assert whole["throughput"].interval is None


# -- what a metric says of itself --------------------------------------------------------------------------------------


@pytest.fixture
def own() -> Iterator[Definition]:
    """A plug-in that belongs to the default stack, has a documented key and something to say of its deltas."""

    @metric(
        better="higher",
        bounds=(0, 1),
        formula="correct / N",
        default_for=(Default("labels", 2),),
        documented_as="share_right",
    )
    def right(correct):
        """Share of the asked rows that are right, for this test."""
        return correct

    @right.delta_note
    def _(base, new):
        return f"{int(base.rows.sum())} rows before, {int(new.rows.sum())} now"

    yield right
    registry.remove("right")


def answers(wrong: int) -> Records:
    said = ["a"] * (12 - wrong) + ["b"] * wrong
    return Records.from_columns({"item": list(range(12)), "target": ["a", "b"] * 6, "prediction": said})


def test_a_plug_in_joins_the_default_stack_at_its_place(own: Definition) -> None:
    (choice,) = choose(answers(3))
    names = [metric.name for metric in choice.metrics[:4]]
    assert names == ["accuracy", "balanced_accuracy", "right", "f1_macro"]  # after what was there first


def test_a_documented_key_is_a_fact_of_the_metric(own: Definition) -> None:
    found = documented(evaluate(answers(3), ["right", "accuracy"], resamples=0))
    assert found["share_right"].value == found["share_right"].estimate.value
    assert meant_by("share_right{model=m1}") == "right{model=m1}"
    assert is_documented("share_right")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("brier", "brier_score"),
        ("brier(binary=true)", "brier_score"),
        ("brier(positive=a)", ""),
        ("aurc", "aurc_full"),
        ("aurc(ties=exact)", ""),
        ("augrc", "augrc_full"),
        ("accuracy", ""),
    ],
)
def test_only_the_usual_form_has_the_documented_key(text: str, key: str) -> None:
    assert metric_of(text).documented_as == key


def test_a_metric_says_what_must_be_said_of_its_delta(own: Definition) -> None:
    delta = compare(answers(3), answers(5), ["right"], resamples=100)["right"]
    assert "12 rows before, 12 now" in delta.notes


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"spread": "normal"}, "spread is one of t, t-skewed, log-t"),
        ({"over_groups": "best"}, "over_groups is one of gap, gaps, ratio, worst, disparity, one"),
        ({"rows": "some"}, "rows is asked, answered or all"),
        ({"better": "up"}, "better is 'higher', 'lower' or None"),
    ],
)
def test_facts_are_stated_in_their_vocabulary(facts: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):

        @metric(**facts)
        def vague(correct):
            return correct


LABELLED = {"item": [1, 2, 3], "target": list("aab"), "prediction": list("aba")}
NUMERIC = {"item": [1, 2], "target": [1.0, 2.0], "prediction": [1.0, 3.0]}
STACK = [
    (LABELLED, [("accuracy", "balanced_accuracy", "f1_macro", "selective_accuracy", "answer_rate", "abstention_rate")]),
    (NUMERIC, [("mae", "rmse", "bias", "answer_rate")]),
    (
        {
            **LABELLED,
            "confidence": [0.5, 0.6, 0.7],
            "latency_ms": [1.0, 2.0, 3.0],
            "should_abstain": [True, False, False],
        },
        [
            ("accuracy", "balanced_accuracy", "f1_macro", "selective_accuracy", "answer_rate", "abstention_rate"),
            ("deferral_alignment", "deferral_balanced", "unsafe_answer_rate", "over_deferral_rate"),
            ("ece(bins=15)", "ece_null", "brier(binary=true)", "auroc"),
            ("aurc", "augrc", "eaurc"),
            ("latency.p50", "latency.p95"),
        ],
    ),
    ({**NUMERIC, "confidence": [0.5, 0.6]}, [("mae", "rmse", "bias", "answer_rate"), ("aurc", "augrc", "eaurc")]),
    (
        {
            "item": [1, 2, 3],
            "prediction": ["a", None, None],
            "outcome": ["answered", "unparsed", "failed"],
            "my score": [1, 2, 3],
        },
        [("parse_failure_rate",), ("failure_rate",), ('mean("my score")',)],
    ),
]


@pytest.mark.parametrize(("columns", "stack"), STACK)
def test_the_default_stack_is_what_it_was(columns: dict[str, Any], stack: list[tuple[str, ...]]) -> None:
    chosen = choose(Records.from_columns(columns))
    assert [tuple(metric.name for metric in choice.metrics) for choice in chosen] == stack
