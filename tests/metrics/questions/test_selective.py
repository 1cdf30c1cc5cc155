"""Areas under tied confidences: the mean over every order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.study.evaluation import value
from tests.support.naive import NAIVE
from tests.support.naive.selective import (
    aurc_exact_ties,
    aurc_over_orders,
)
from tests.support.naive.strategies import agrees, records
from tests.support.naive.table import Table


@st.composite
def tiny_tables(draw: Any) -> Table:
    """Up to seven rows on three confidence levels."""
    rows = [
        {
            "item": item,
            "target": draw(st.sampled_from([0.0, 1.0, 2.5])),
            "prediction": draw(st.sampled_from([0.0, 1.0, 2.5, None])),
            "confidence": draw(st.sampled_from([0.0, -0.0, 0.5, 0.75])),
        }
        for item in range(draw(st.integers(1, 7)))
    ]
    return Table(rows)


@given(tiny_tables())
def test_exact_ties_are_the_mean_over_every_order(table: Table) -> None:
    """Enumerated, in closed form, and by the package."""
    for loss in ("abs", "zero_one"):
        enumerated = aurc_over_orders(table, loss=loss)
        assert agrees(aurc_exact_ties(table, loss=loss), enumerated, 1e-12, 1.0)
        assert agrees(value(f"aurc(loss={loss}, ties=exact)", records(table)), enumerated, 1e-12, 1.0)


def test_a_perfect_ranker_with_two_levels_is_flattered_by_the_trapezoid() -> None:
    """Ties between equal losses: every order is optimal, so the exact excess is 0; the plateau's is below."""
    rows = [
        {"item": i, "target": "A", "prediction": "A" if i < 5 else "B", "confidence": 0.9 if i < 5 else 0.1}
        for i in range(10)
    ]
    data = records(Table(rows))
    assert value("eaurc(ties=exact)", data) == pytest.approx(0, abs=1e-12)
    assert value("eaurc", data) == pytest.approx(NAIVE["eaurc"](Table(rows)), abs=1e-12)
    assert value("eaurc", data) < -0.02
