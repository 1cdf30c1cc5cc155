"""Totals and facts have no interval and no delta; what is set against quality has the interval of the quality."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.errors import SteelyardError
from steelyard.metrics.questions.resources import gco2_per_f1_point, gco2_per_mae_unit
from tests.support.oracles import oracle

CASES = oracle("runmetrics")["sustainability"]
FACTS = {"facts": {"wall_seconds": 60.0, "kwh": 0.5, "co2_kg": 0.2}}


def answers(right: int, of: int = 40) -> dict[str, Any]:
    targets = ["a", "b"] * (of // 2)
    wrong = {"a": "b", "b": "a"}
    said = [target if number < right else wrong[target] for number, target in enumerate(targets)]
    return {"item": list(range(of)), "target": targets, "prediction": said, "cost": [0.25] * of}


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_grams_of_the_oracle(case: dict[str, Any]) -> None:
    grams, f1, mae = case["co2_g"], case["f1"], case["mae"]
    kilograms = np.array([grams / 1000])
    for function, quality, wanted in (
        (gco2_per_f1_point.function, f1, case["seed_gco2_per_f1_point"]),
        (gco2_per_mae_unit.function, mae, case["gco2_per_mae_unit"]),
    ):
        (got,) = function(np.array([quality]), kilograms)
        assert np.isnan(got) if wanted is None else got == pytest.approx(wanted)
    columns = {"item": [1], "target": [0.0], "prediction": [mae]}
    table = sy.Records.from_columns(columns, task={"facts": {"co2_kg": grams / 1000}})
    found = sy.evaluate(table, ["gco2_per_mae_unit"])["gco2_per_mae_unit"]
    assert found.value == (None if case["gco2_per_mae_unit"] is None else pytest.approx(case["gco2_per_mae_unit"]))


def test_what_is_set_against_quality_has_the_interval_of_the_quality() -> None:
    table = sy.Records.from_columns(answers(30), task=FACTS)
    result = sy.evaluate(table, ["gco2_per_f1_point", "f1_macro", "co2_kg", "cost_per_correct"])
    f1 = result["f1_macro"].value
    assert f1 is not None
    assert result["gco2_per_f1_point"].value == pytest.approx(200 / (100 * f1))
    low, high = result["gco2_per_f1_point"].interval or (0, 0)
    assert low < result["gco2_per_f1_point"].value < high
    assert result["cost_per_correct"].value == pytest.approx(10 / 30)
    low, high = result["cost_per_correct"].interval or (0, 0)
    assert low < 1 / 3 < high


@pytest.mark.parametrize("name", ["elapsed_seconds", "kwh", "co2_kg"])
def test_a_fact_is_of_the_whole_table(name: str) -> None:
    columns = {**answers(20), "model": ["x", "y"] * 20}
    table = sy.Records.from_columns(columns, task=FACTS)
    parts = sy.evaluate(table, [name, "gco2_per_f1_point"])
    assert all(e.value is None and "whole table" in e.note for e in parts)
    (whole,) = sy.evaluate(table, [name], pool=["model"])
    assert (whole.value, whole.interval) == (FACTS["facts"][{"elapsed_seconds": "wall_seconds"}.get(name, name)], None)
    (nothing,) = sy.evaluate(sy.Records.from_columns(answers(20)), [name])
    assert nothing.value is None
    assert "of the whole table:" in nothing.note
    with pytest.raises(SteelyardError, match="one fact"):
        sy.compare(table, table, [name])


def test_the_document_of_seconds_knows_them_by_another_name() -> None:
    table = sy.Records.from_columns(answers(20), task=FACTS)
    assert sy.evaluate(table, ["duration_s"])["elapsed_seconds"].value == 60


def test_totals() -> None:
    columns = {**answers(20), "input_tokens": [None, *[3] * 39], "output_tokens": [2] * 40}
    result = sy.evaluate(sy.Records.from_columns(columns), ["token_total", "input_tokens_total"])
    assert result["input_tokens_total"].value == 117
    assert result["token_total"].value == 197
    assert result["token_total"].interval is None
    assert "sum of this table" in result["token_total"].note


def test_nothing_right_costs_no_number() -> None:
    found = sy.evaluate(sy.Records.from_columns(answers(0)), ["cost_per_correct"])["cost_per_correct"]
    assert found.value is None
