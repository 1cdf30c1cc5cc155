"""Metrics about metrics that are asked for alone."""

from __future__ import annotations

import pytest

import steelyard as sy
from steelyard.errors import UsageError
from steelyard.records.table import Records

COLUMNS = {
    "item": list(range(12)),
    "target": ["a", "b"] * 6,
    "prediction": ["a", "b", "a", "a"] * 3,
    "group.site": ["x"] * 6 + ["y"] * 6,
}


def test_the_main_metric_and_the_only_groups_are_meant() -> None:
    result = sy.evaluate(Records.from_columns(COLUMNS), ["fairness_gap", "worst_group(recall.b)"], resamples=100)
    assert [e.metric for e in result] == [
        "fairness_gap(accuracy, by=group.site)",
        "worst_group(recall.b, by=group.site)",
    ]
    assert "fairness_gap was asked for alone and taken as fairness_gap(accuracy, by=group.site)" in result.warnings


def test_a_comparison_means_the_same() -> None:
    records = Records.from_columns(COLUMNS)
    deltas = sy.compare(records, records, ["worst_group"], resamples=100)
    assert [d.metric for d in deltas] == ["worst_group(accuracy, by=group.site)"]


def test_several_group_columns_are_named() -> None:
    records = Records.from_columns({**COLUMNS, "group.age": ["old", "young"] * 6})
    with pytest.raises(UsageError, match=r"by=, one of group\.site, group\.age"):
        sy.evaluate(records, ["fairness_gap"], resamples=100)


def test_a_member_of_a_family_keeps_its_name() -> None:
    records = Records.from_columns({**COLUMNS, "item": [*range(6)] * 2, "repeat": [1] * 6 + [2] * 6})
    result = sy.evaluate(records, ["stability.mean"], resamples=100)
    assert [e.metric for e in result] == ["stability(accuracy).mean"]
