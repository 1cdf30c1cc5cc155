"""Calibration errors by chance, against all signs of few clusters and other random ones."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.study.evaluation import value
from tests.support.naive.calibration import (
    ece,
    ece_null,
    null_eces,
    p_calibrated,
    sampled_null_eces,
)
from tests.support.naive.strategies import label_tables, large, records
from tests.support.naive.table import Table

SIGNS = 9_999  # random sign vectors behind ece_null and p_calibrated: the smallest p-value is 1/(B + 1) = 0.0001


def within(got: float, wanted: float, error: float) -> bool:
    """Within five standard errors."""
    return abs(got - wanted) <= 5 * error + 1e-12


@st.composite
def clustered_tables(draw: Any) -> Table:
    """Up to ten clusters: all their sign vectors can be counted."""
    table = draw(label_tables(missing=("confidence",)))
    clusters = draw(st.integers(1, 10))
    rows = [{**row, "patient": draw(st.integers(1, clusters))} for row in table.rows]
    return Table(rows, cluster="patient")


@given(clustered_tables(), st.sampled_from([3, 10]))
def test_chance_against_all_signs_of_few_clusters(table: Table, bins: int) -> None:
    """Exact ties count in p; ties up to rounding may."""
    data = records(table)
    got, p = value(f"ece_null(bins={bins})", data), value(f"p_calibrated(bins={bins})", data)
    found = [float(e) for e in null_eces(table, bins)]
    if not found:
        assert math.isnan(got)
        assert math.isnan(p)
        return
    wanted = ece_null(table, bins=bins)
    spread = math.sqrt(math.fsum((e - wanted) ** 2 for e in found) / len(found))
    assert within(got, wanted, spread / math.sqrt(SIGNS))
    low, high = (p_calibrated(table, bins=bins, slack=slack) for slack in (0.0, 1e-12))
    slack = [5 * math.sqrt(share * (1 - share) / SIGNS) + 1 / SIGNS for share in (low, high)]
    assert low - slack[0] <= p <= high + slack[1]


@pytest.mark.parametrize("clusters", [12, 40, 300])
def test_chance_against_other_random_signs(clusters: int) -> None:
    """Many clusters: a naive Monte Carlo with signs of its own, both errors counted."""
    table, draws = large(11 + clusters, clusters=clusters), 2_000
    data = records(table)
    found = sampled_null_eces(table, 10, draws, Random(3))
    centre = math.fsum(found) / draws
    spread = math.sqrt(math.fsum((e - centre) ** 2 for e in found) / draws)
    assert within(value("ece_null", data), centre, spread * math.sqrt(1 / draws + 1 / SIGNS))
    reached = sum(e >= ece(table) for e in found) / draws
    error = math.sqrt(max(reached * (1 - reached), 1 / draws) * (1 / draws + 1 / SIGNS))
    assert within(value("p_calibrated", data), reached, error + 0.2 / SIGNS)


def test_clusters_that_share_no_bin_cannot_look_miscalibrated() -> None:
    """No sign changes any |Σ_c s_c d_cb|: every draw ties with the data, and p is 1."""
    rows = [
        {"item": i, "patient": i // 3, "target": "A", "prediction": "AB"[i % 3 == 0], "confidence": 0.03 + i // 3 / 10}
        for i in range(30)
    ]
    table = Table(rows, cluster="patient")
    assert value("p_calibrated", records(table)) == 1
    assert value("ece_null", records(table)) == pytest.approx(ece(table), abs=1e-12)
