"""What is shown next to a value: cells, matrices, curves, bins."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.study.evaluation import evaluate
from tests.support.naive.calibration import (
    calibration_rows,
    gaps,
    mass_bins,
    width_bin,
)
from tests.support.naive.deferral import deferral_cells
from tests.support.naive.selective import (
    curve,
)
from tests.support.naive.strategies import large, records
from tests.support.naive.table import Table, answered


def beside(text: str, table: Table) -> Any:
    return evaluate(records(table), text, resamples=100)[text]


def test_the_four_cells_stand_beside_deferral() -> None:
    table = large(4)
    found = beside("deferral_alignment", table)
    cells = deferral_cells(table)
    assert found.detail == cells
    assert found.n == sum(cells.values())


def test_rows_left_out_of_deferral_are_counted_by_reason() -> None:
    """A failed row has no reply, an unparsed one neither answered nor deferred; the others lack the label."""
    table = large(4)
    reasons: dict[str, int] = {}
    for row in table.rows:
        reason = row["outcome"] if row["outcome"] in ("failed", "unparsed") else None
        if reason is None and row["should_abstain"] is None:
            reason = "no should_abstain"
        if reason is not None:
            reasons[reason] = reasons.get(reason, 0) + 1
    assert beside("deferral_alignment", table).excluded == reasons


def test_the_confusion_matrix_stands_beside_f1_macro() -> None:
    table = large(4)
    detail = beside("f1_macro", table).detail
    rows = answered(table)
    for i, true in enumerate(detail["labels"]):
        for j, said in enumerate(detail["labels"]):
            wanted = sum(row["target"] == true and row["prediction"] == said for row in rows)
            assert detail["confusion_matrix"][i][j] == wanted


def test_the_curve_stands_beside_aurc() -> None:
    table = large(4)
    detail = beside("aurc", table).detail
    points = curve(table)
    assert detail["loss"] == "zero_one"
    assert detail["curve"]["coverage"] == pytest.approx([p.coverage for p in points], abs=1e-12)
    assert detail["curve"]["selective_risk"] == pytest.approx([p.risk for p in points], abs=1e-12)
    assert detail["curve"]["generalized_risk"] == pytest.approx([p.generalized for p in points], abs=1e-12)


@pytest.mark.parametrize("name", ["ece", "mce", "ace"])
def test_the_bins_stand_beside_calibration(name: str) -> None:
    table = large(4)
    rows = calibration_rows(table)
    confidences = [row["confidence"] for row in rows]
    width = [width_bin(c, 10) for c in confidences]
    wanted = gaps(rows, mass_bins(confidences, 10) if name == "ace" else width)
    bins = [b for b in beside(name, table).detail["bins"] if b["n"]]
    assert [b["n"] for b in bins] == [n for n, _ in wanted]
    assert [abs(b["accuracy"] - b["confidence"]) for b in bins] == pytest.approx([gap for _, gap in wanted], abs=1e-12)


def test_the_worst_group_of_equals_is_the_first_by_name() -> None:
    rows = [{"item": i, "target": "A", "prediction": "AB"[i % 2], "group.site": "zyx"[i // 2 % 3]} for i in range(12)]
    assert beside("worst_group(accuracy, by=group.site)", Table(rows)).detail["group"] == "x"
