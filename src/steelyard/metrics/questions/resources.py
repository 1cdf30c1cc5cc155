"""What did it take: tokens, money, time, energy?

Totals and facts of the whole table are what they are: values without interval. What is set against the quality of the
answers has one, of the quality: the grams are those of this run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steelyard.ground.arrays import Floats
from steelyard.metrics.contract import compose, metric
from steelyard.metrics.definition import Definition
from steelyard.metrics.evidence.sums import Cells, Terms, sums
from steelyard.metrics.facts import Function
from steelyard.metrics.options import Constant
from steelyard.metrics.questions.correctness import f1_macro
from steelyard.metrics.questions.regression import mae
from steelyard.records.table import Records

_TOTAL: dict[str, Any] = {
    "better": "lower",
    "bounds": (0, None),
    "unit": "tokens",
    "no_interval": "it is the sum of this table, not an estimate",
}
_MEASURED = "it needs facts of the whole table: {co2_kg: 0.3} in the task file, or a run with `sustainability`"


def _fact(name: str, **facts: Any) -> Callable[[Function], Definition]:
    """Define a metric that is a fact of the whole table."""

    def stated(table: Records) -> dict[str, Any]:
        if table.is_part:
            return {"stated": None, "undefined": f"{name} is a fact of the whole table, not of a part of it"}
        return {"stated": table.task.facts.get(name)}

    return metric(
        better="lower",
        bounds=(0, None),
        reads=(f"facts.{name}",),
        no_interval="it is one fact of the whole table",
        no_delta="it is one fact of a whole table",
        summary=stated,
        finish=_as_stated,
        **facts,
    )


def _as_stated(s: Cells, *, stated: Constant) -> Floats:
    return np.full(len(s.rows), np.nan if stated is None else float(stated))


@metric(
    title="Total Input Tokens",
    also=("usage",),
    formula="Σ input_tokens",
    no_delta="totals grow with the rows: compare input_tokens, the mean",
    **_TOTAL,
)
def input_tokens_total(input_tokens: Floats) -> Terms:
    """Tokens read, in all.

    >>> value("input_tokens_total", input_tokens=[10, 20])
    30.0
    """
    return sums(tokens=input_tokens, n=1)


@metric(
    title="Total Output Tokens",
    also=("usage",),
    formula="Σ output_tokens",
    no_delta="totals grow with the rows: compare output_tokens, the mean",
    **_TOTAL,
)
def output_tokens_total(output_tokens: Floats) -> Terms:
    """Tokens written, in all.

    >>> value("output_tokens_total", output_tokens=[10, 20])
    30.0
    """
    return sums(tokens=output_tokens, n=1)


def _sum(s: Cells) -> Floats:
    return np.where(s.n > 0, s.tokens, np.nan)  # of nothing that is known there is no sum


input_tokens_total.finish(_sum)
output_tokens_total.finish(_sum)


@compose(
    input_tokens_total,
    output_tokens_total,
    title="Total Tokens",
    also=("usage", "total tokens"),
    formula="input_tokens_total + output_tokens_total",
    no_delta="totals grow with the rows: compare input_tokens and output_tokens, the means",
    **_TOTAL,
)
def token_total(read: Floats, written: Floats) -> Floats:
    """Tokens read and written, in all.

    >>> value("token_total", input_tokens=[10, 20], output_tokens=[1, 2])
    33.0
    """
    return read + written


@metric(
    title="Cost per Correct Answer",
    also=("cost", "price", "dollars"),
    better="lower",
    bounds=(0, None),
    formula="Σ cost / correct",
    undefined="it needs a right answer, and rows whose cost is known",
)
def cost_per_correct(cost: Floats, correct: Floats) -> Terms:
    """What a right answer cost: all that was spent, for each answer that is right.

    Rows whose cost is not known are left out; so are those that came from a cache.

    >>> value("cost_per_correct", cost=[0.25, 0.5, 0.25], target=["a", "b", "a"], prediction=["a", "a", "a"])
    0.5
    """
    return sums(cost=cost, right=correct)


@cost_per_correct.finish
def _(s: Cells) -> Floats:
    return np.where(s.right > 0, s.cost / np.where(s.right > 0, s.right, 1), np.nan)


# -- facts of the whole table ------------------------------------------------------------------------------------------


@_fact(
    "wall_seconds",
    title="Elapsed Time",
    also=("duration", "wall time"),
    unit="s",
    formula="wall seconds",
    aliases=("duration_s",),
    undefined="it needs the wall time of the whole table: facts: {wall_seconds: 812.5} in the task file",
)
def elapsed_seconds(records: Records) -> Terms:
    """How long it took, from the first question to the last answer, without the pauses of a run that was stopped.

    >>> value("elapsed_seconds", task={"facts": {"wall_seconds": 60.0}}, prediction=["a", "b"])
    60.0
    """
    return sums(rows=np.ones(len(records)))


@_fact("kwh", title="Energy", also=("energy", "power"), unit="kWh", formula="kilowatt-hours", undefined=_MEASURED)
def kwh(records: Records) -> Terms:
    """Energy that was used while models were asked, by this process and those that it started.

    >>> value("kwh", task={"facts": {"kwh": 0.5}}, prediction=["a", "b"])
    0.5
    """
    return sums(rows=np.ones(len(records)))


@_fact(
    "co2_kg",
    title="CO₂ Emissions",
    also=("carbon", "emissions", "co2"),
    unit="kg",
    formula="kilograms of CO₂ equivalent",
    undefined=_MEASURED,
)
def co2_kg(records: Records) -> Terms:
    """Emissions by that energy, for the mix of electricity of a country.

    >>> value("co2_kg", task={"facts": {"co2_kg": 0.25}}, prediction=["a", "b"])
    0.25
    """
    return sums(rows=np.ones(len(records)))


# -- energy against quality --------------------------------------------------------------------------------------------


@compose(
    f1_macro,
    co2_kg,
    title="CO₂ per Point of Macro F1",
    also=("carbon", "co2"),
    better="lower",
    bounds=(0, None),
    unit="g",
    formula="grams of CO₂ / (f1_macro × 100)",
    undefined=f"f1_macro must be above 0; {_MEASURED}",
    no_delta="emissions are one fact of a whole table",
)
def gco2_per_f1_point(f1: Floats, kilograms: Floats) -> Floats:
    """Grams of CO₂ for each point of f1_macro, from 0 to 100.

    >>> columns = {"target": ["a", "b"], "prediction": ["a", "b"]}
    >>> value("gco2_per_f1_point", task={"facts": {"co2_kg": 0.1}}, **columns)
    1.0
    """
    return _shared(kilograms, f1 * 100)


@compose(
    mae,
    co2_kg,
    title="CO₂ per Unit of Mean Absolute Error",
    also=("carbon", "co2"),
    better="lower",
    bounds=(0, None),
    unit="g",
    formula="grams of CO₂ / mae",
    undefined=f"mae must be above 0; {_MEASURED}",
    no_delta="emissions are one fact of a whole table",
)
def gco2_per_mae_unit(error: Floats, kilograms: Floats) -> Floats:
    """Grams of CO₂ for each unit of mae. It falls as the error grows: read it next to mae, never alone.

    >>> columns = {"target": [1.0, 2.0], "prediction": [2.0, 4.0]}
    >>> round(value("gco2_per_mae_unit", task={"facts": {"co2_kg": 0.03}}, **columns), 9)
    20.0
    """
    return _shared(kilograms, error)


def _shared(kilograms: Floats, among: Floats) -> Floats:
    """Grams for each unit of something, where there is any."""
    some = among > 0
    return np.where(some, 1000 * kilograms / np.where(some, among, 1), np.nan)
