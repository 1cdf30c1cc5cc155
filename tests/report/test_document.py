"""Cells keep their number and are read alike everywhere; columns align by what they hold; no note is ever split."""

from __future__ import annotations

import pytest

from steelyard.report.document import (
    Cell,
    Count,
    Marks,
    Measured,
    MetricName,
    Note,
    Remarks,
    Span,
    Table,
    Value,
    Word,
    text_of,
    title_of,
)
from steelyard.report.figures.figure import Figure
from steelyard.report.formats import render
from steelyard.report.rows import Numbered, delta_row, estimate_row, judged, noted
from steelyard.uncertainty.number import Delta, Estimate


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("a text", "a text"),
        (Value(0.12345), "0.1235"),
        (Value(0.5, signed=True), "+0.5000"),
        (Value(None, unit="ms"), "n/a"),
        (Value(12.5, unit="ms"), "12.50 ms"),
        (Value(0.02, spec="g"), "0.02"),
        (Value(None, spec="g"), "n/a"),
        (Span((-0.1, 0.2), 0.0, signed=True), "[-0.1000, +0.2000]"),
        (Span((0.1, float("inf"))), "[0.1000, unknown]"),
        (Span(None, 0.1), ""),
        (Count(1234), "1,234"),
        (Count(1234, grouped=False), "1234"),
        (Word("PASS", "good"), "PASS"),
        (Marks((1, 3)), "(1) (3)"),
        (Marks(()), ""),
        (MetricName("mae", "lower"), "mae ↓"),
        (MetricName("answer_rate", titled=True), title_of("answer_rate")),
        (MetricName("no metric", titled=True), "no metric"),
        (Measured(0.5, (0.4, 0.6), Marks((2,))), "0.5000 [0.4000, 0.6000] (2)"),
    ],
)
def test_a_cell_is_read_as(cell: Cell, text: str) -> None:
    assert text_of(cell) == text


def test_columns_of_numbers_stand_right() -> None:
    rows = (("a", Value(1.5), Span((1.0, 2.0), 1.5), Count(3), "x", ""), ("b", "", "", Count(4), Count(5), ""))
    table = Table(("name", "value", "interval", "n", "mixed", "empty"), rows)
    assert table.aligned_right() == [False, True, False, True, False, False]
    assert table.trimmed().columns == ("name", "value", "interval", "n", "mixed")
    told = Table(table.columns, rows, frozenset({"mixed"}))
    assert told.trimmed().aligned_right() == [False, False, False, False, True]


def estimate(**more: object) -> Estimate:
    known = {"metric": "mae", "value": 0.5, "interval": (0.4, 0.6), "n": 1200, "clusters": 7, "better": "lower"}
    return Estimate(**{**known, **more})  # type: ignore[arg-type]


def test_an_estimate_as_cells_keeps_its_numbers() -> None:
    row = estimate_row(estimate(unit="ms", se=0.05, method="wilson", excluded={"failed": 1500}))
    assert row == (
        MetricName("mae", "lower"),
        Value(0.5, unit="ms"),
        Span((0.4, 0.6), 0.5),
        "",
        Value(0.05),
        "wilson-t",
        Count(1200),
        Count(7),
        "1,500 failed",
    )


def test_a_delta_shows_the_adjusted_p_only_where_the_verdict_rests_on_it() -> None:
    known = {"metric": "mae", "value": -0.1, "n": 9, "base": 0.5, "new": 0.4, "n_base": 9, "n_new": 9}
    more = {"p_value": 0.01, "p_adjusted": 0.02, "verdict": "better"}
    own, other = (Delta(**{**known, **more, "verdict_from": of}) for of in ("delta", "common_cmax"))  # type: ignore[arg-type]
    assert delta_row(own)[-4:] == (Value(0.02), Word("better", "good"), Count(9), Count(0))
    assert delta_row(other)[-4:-2] == ("", Word("better", "good"))
    assert delta_row(own)[3] == Value(-0.1, signed=True)


def test_a_verdict_has_a_tone_whatever_it_is_shown_as() -> None:
    assert judged("fail", "FAIL") == Word("FAIL", "bad")
    assert judged("unchanged") == Word("unchanged")


def test_no_note_is_split() -> None:
    whole = "only 5 clusters lie in the tail; at least 10 are needed"
    table, remarks = noted(
        ("metric",), [estimate(notes=("x", whole)), estimate(notes=(whole, "x"))], lambda e: (e.metric,)
    )
    assert remarks == Remarks(("x", whole))
    assert isinstance(table, Table)
    assert table.rows == (("mae", Marks((1, 2))), ("mae", Marks((1, 2))))


def test_without_notes_there_are_no_remarks() -> None:
    assert Numbered().remarks() == []


def test_a_figure_without_a_file_is_shown_only_where_it_can_be_drawn() -> None:
    figure = Figure(name="n", title="t", text="x", panels=())
    for name in ("table", "markdown", "latex"):
        assert render(name, [Note("a"), figure]) == render(name, [Note("a")])
