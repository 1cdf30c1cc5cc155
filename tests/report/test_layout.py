"""Tables within a width: no line is longer, nothing is lost without being said, and everything is there when wide."""

from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.report.catalogue import catalogue_report
from steelyard.report.document import (
    Cell,
    Count,
    Heading,
    Marks,
    MetricName,
    Note,
    Remarks,
    Span,
    Table,
    Value,
    Word,
    text_of,
)
from steelyard.report.formats import render
from steelyard.report.formats.text import laid_out
from steelyard.report.layout import Style, columns_of, table_lines, wrapped
from steelyard.report.rows import estimate_columns, estimate_row, extremes, sliced
from steelyard.uncertainty.number import Estimate

TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp", "Zs", "Cn", "Co")), max_size=40)
CELLS = st.one_of(
    TEXTS,
    st.lists(TEXTS, max_size=6).map(" ".join),
    st.floats(-10, 10).map(Value),
    st.integers(0, 10**6).map(Count),
    st.tuples(st.floats(-1, 0), st.floats(0, 1)).map(Span),
    st.lists(st.integers(1, 30), max_size=4).map(lambda marks: Marks(tuple(marks))),
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = draw(st.lists(st.text("abcdefgh ", min_size=1, max_size=20), min_size=1, max_size=9, unique=True))
    rows = draw(st.lists(st.tuples(*(CELLS for _ in columns)), min_size=1, max_size=4))
    some = st.lists(st.sampled_from(columns[1:]), unique=True) if len(columns) > 1 else st.just([])
    return Table(tuple(columns), tuple(rows), drops=tuple(draw(some)), folds=tuple(draw(some)))


@given(tables(), st.integers(40, 120))
def test_no_line_is_longer_and_nothing_is_lost(table: Table, width: int) -> None:
    lines, dropped = table_lines(table, width)
    assert all(columns_of(line) <= width for line in lines)
    shown = sorted("".join(lines).replace("-", ""))
    for name, cells in zip(table.columns, zip(*table.rows, strict=True), strict=True):
        if name not in dropped:
            for cell in cells:
                wanted = re.sub(r"[\s-]", "", text_of(cell))
                assert not set(wanted) - set(shown)
    assert set(dropped) <= set(table.drops)


@given(st.lists(TEXTS.filter(bool), max_size=20), st.integers(4, 60), st.integers(0, 2))
def test_wrapping_keeps_every_character(words: list[str], width: int, indent: int) -> None:
    lines = wrapped(" ".join(words), width, indent=indent)
    assert all(columns_of(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join("".join(words).split())


def test_columns_go_in_the_stated_order_and_only_as_many_as_must() -> None:
    table = Table(("a", "b", "c", "d"), (tuple(Word("x" * 20) for _ in range(4)),), drops=("c", "b"))
    assert table_lines(table, 86)[1] == ()
    assert table_lines(table, 85)[1] == ("c",)
    assert table_lines(table, 64)[1] == ("c",)
    assert table_lines(table, 63)[1] == ("c", "b")
    stacked, dropped = table_lines(table, 40)  # then nothing is dropped
    assert dropped == ()
    assert [line.split()[0] for line in stacked] == ["a", "b", "c", "d"]


def test_colour_changes_nothing_but_colour() -> None:
    document = [Heading("gate: FAIL", "bad"), Table(("metric", "verdict"), ((MetricName("mae"), Word("FAIL", "bad")),))]
    plain = laid_out(document, width=80).text
    shown = laid_out(document, width=80, style=Style(bold=True, colour=True)).text
    assert "\x1b[1;31m" in shown
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == plain
    assert "31" not in laid_out(document, width=80, style=Style(bold=True)).text


def test_data_can_bring_no_code_of_a_terminal() -> None:
    hostile = "\x1b[31m\x9b2J\r\x07"
    document = [Heading(hostile), Note(hostile), Table((hostile,), ((hostile,),)), Remarks((hostile,))]
    shown = laid_out(document, width=40, style=Style(bold=True, colour=True)).text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", re.sub(r"\x1b\[1?m|\x1b\[0m", "", shown))


def number(metric: str, value: float, **slice_: str) -> Estimate:
    return Estimate(metric=metric, value=value, interval=(value / 3, 2 * value), n=1234, clusters=7, slice=slice_)


def test_slices_are_rows_of_one_table_metric_by_metric() -> None:
    numbers = [number(m, 0.1, task="t", model=model) for model in ("a", "b") for m in ("mae", "rmse")]
    note, table = sliced(estimate_columns(0.95), numbers, estimate_row)
    assert note == Note("all rows: task t")
    assert isinstance(table, Table)
    assert [tuple(map(text_of, row[:2])) for row in table.rows] == [
        ("mae", "a"),
        ("mae", "b"),
        ("rmse", "a"),
        ("rmse", "b"),
    ]


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        ({"group": "north", "per_group": {"north": 0.1, "south": 0.2}}, "worst: north"),
        ({"per_group": {"north": 0.3, "south": 0.2, "west": None}}, "south 0.2000 to north 0.3000"),
        ({"per_group": {"west": None}}, ""),
        ({"sum": 3}, ""),
        (None, ""),
    ],
)
def test_the_groups_that_make_a_number_are_named(detail: object, said: str) -> None:
    assert extremes(Estimate(metric="x", value=0.1, n=3, detail=detail)) == said


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_csv_gives_the_same_doubles_back(value: float, low: float, high: float) -> None:
    row: tuple[Cell, ...] = (
        MetricName("mae", "lower"),
        Value(value, unit="ms"),
        Span((low, high)),
        Count(1234),
        Marks((1,)),
    )
    table = Table(("metric", "value", "95% interval", "n", "notes"), (row,))
    (read,) = csv.DictReader(io.StringIO(render("csv", [table, Remarks(("few",))])))
    assert read["metric"] == "mae"
    assert [float(read[name]) for name in ("value", "low", "high")] == [value, low, high]
    assert (read["unit"], read["n"], read["notes"]) == ("ms", "1234", "few")


def test_titles_are_shown_where_they_are_asked_for_and_in_pages_for_readers() -> None:
    document = [Table(("metric",), ((MetricName("answer_rate"),),))]
    for name in ("table", "markdown", "csv"):
        assert "Answer" in render(name, document, titles=True)
        assert "Answer" not in render(name, document)
    for name in ("html", "latex"):
        assert "Answer" in render(name, document)


def test_catalogue_keeps_what_a_metric_says_on_a_narrow_terminal() -> None:
    laid = laid_out(catalogue_report(), width=80)
    assert laid.dropped[:2] == ("title", "options")
    assert not {"metric", "better", "what it says"} & {*laid.dropped}
    assert all(columns_of(line) <= 80 for line in laid.text.splitlines())
