"""Every result shows itself: short, inert, without values of the data where nobody asked, and in every format."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.report.formats import formats, render
from steelyard.report.showing import _REPORTS

SECRET = "Jane<b>Doe"
ROWS = [
    {
        "item": f"{SECRET}{i}",
        "target": (SECRET, "b")[i % 2],
        "prediction": (SECRET, "b")[(i // 3) % 2] if i % 7 else None,
        "confidence": (i % 10) / 10,
        "patient": f"{SECRET}{i // 2}",
        "group.site": (SECRET, "y")[i % 2],
    }
    for i in range(40)
]


@pytest.fixture(scope="module")
def results() -> dict[type, Any]:
    records = sy.read(ROWS, cluster="patient")
    evaluation = sy.evaluate(records, ["accuracy", "f1", "ece"], by="group.site", resamples=100)
    comparison = sy.compare(records, records.take(np.arange(40)), ["accuracy"], by="group.site", resamples=100)
    decision = sy.Gate.parse(["accuracy >= 0.5", "low(accuracy) >= 0.9 for each group.site"]).check(evaluation)
    selection = sy.selective(records, confidence="confidence", resamples=100)
    return {type(each): each for each in (records, evaluation, comparison, decision, selection)}


@pytest.fixture(params=list(_REPORTS), ids=lambda kind: kind.__name__)
def result(request: pytest.FixtureRequest, results: dict[type, Any]) -> Any:
    return results[request.param]


def test_a_repr_is_short_and_holds_no_text_of_the_data(result: Any) -> None:
    shown = repr(result)
    assert len(shown.splitlines()) <= 10
    assert len(shown) < 700
    assert "Jane" not in shown
    assert shown.startswith(type(result).__name__)


class _Reading(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_the_html_is_an_inert_piece_that_fetches_nothing(result: Any) -> None:
    reading = _Reading()
    reading.feed(result._repr_html_())
    assert reading.tags <= {"div", "p", "table", "thead", "tbody", "tr", "th", "td", "ol", "li"}
    assert reading.attributes <= {"style", "class"}


def test_markdown_and_latex_are_what_the_command_prints(result: Any) -> None:
    document = _REPORTS[type(result)](result)
    assert result.to_markdown() == result._repr_markdown_() == render("markdown", document)
    assert result.to_latex() == render("latex", document)


def test_frames_of_both_libraries_hold_the_same(result: Any) -> None:
    pandas, polars = result.to_pandas(), result.to_polars()
    assert list(pandas.columns) == polars.columns == result.to_arrow().column_names
    assert len(pandas) == len(polars) > 0
    assert polars.to_dicts() == result.to_arrow().to_pylist()


def test_a_document_is_json(result: Any) -> None:
    document = result.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_files_are_saved_by_suffix(result: Any, tmp_path: Path) -> None:
    if isinstance(result, sy.Records):
        again = sy.read(result.save(tmp_path / "rows.parquet"), cluster="patient")
        assert again.to_arrow().to_pylist() == result.to_arrow().to_pylist()
    else:
        for name in formats:
            path = result.save(tmp_path / f"a{formats[name].suffix}")
            assert path.read_text() == render(name, _REPORTS[type(result)](result))
        assert json.loads(result.save(str(tmp_path / "a.JSON")).read_text()) == result.to_dict()
    with pytest.raises(sy.UsageError, match=r"suffix"):
        result.save(tmp_path / "a.docx")
    assert not (tmp_path / "a.docx").exists()


def test_a_picture_is_drawn_and_a_notebook_shows_it(result: Any) -> None:
    assert result.plot()._repr_png_().startswith(b"\x89PNG")


def test_a_forest_holds_every_value_and_interval(results: dict[type, Any]) -> None:
    evaluation = results[sy.Evaluation]
    (axes,) = evaluation.plot().axes
    drawn = [float(line.get_xdata()[0]) for line in axes.lines]
    assert drawn == [e.value for e in evaluation if e.value is not None]
    assert len(axes.get_yticks()) == len(evaluation)


def test_the_frame_of_an_evaluation_is_tidy(results: dict[type, Any]) -> None:
    evaluation = results[sy.Evaluation]
    rows = evaluation.to_arrow().to_pylist()
    for row, estimate in zip(rows, evaluation, strict=True):
        assert (row["metric"], row["value"], row["n"]) == (estimate.metric, estimate.value, estimate.n)
        assert (row["low"], row["high"]) == (estimate.interval or (None, None))
        assert row["group.site"] == estimate.slice.get("group.site")


def test_papers_and_pictures_name_metrics_by_their_titles(results: dict[type, Any]) -> None:
    page = results[sy.Selection].to_latex()
    assert "Excess AURC" in page
    assert "eaurc" not in page
    (axes,) = results[sy.Evaluation].plot().axes
    assert "Expected Calibration Error ↓" in [label.get_text() for label in axes.get_yticklabels()]
    (axes,) = results[sy.Selection].plot().axes
    assert axes.get_xlabel() == "coverage (share of asked items that is accepted)"
    assert axes.get_ylabel().startswith("selective risk (loss: ")


def test_nothing_is_saved_over_what_it_was_made_from(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("item,target,prediction\n1,a,a\n2,b,a\n")
    records = sy.read(file)
    for result in (records, sy.evaluate(records, "accuracy", resamples=0), sy.compare(records, records, "accuracy")):
        with pytest.raises(sy.UsageError, match="made from"):
            result.save(file)
    assert file.read_text().startswith("item,target")


def test_a_comparison_keeps_whom_it_compared(tmp_path: Path) -> None:
    rows = [{"item": i, "target": "a", "prediction": "a"} for i in range(3)]
    compared = sy.compare(*([{**row, "model": name} for row in rows] for name in ("old", "new")), "accuracy")
    again = sy.load(compared.save(tmp_path / "comparison.json"))
    assert isinstance(again, sy.Comparison)
    assert again.names == compared.names == {"base": "old", "new": "new"}
    assert again.population["clusters"] == 3
    assert again.to_markdown().splitlines()[:5] == compared.to_markdown().splitlines()[:5]


def test_frames_of_two_selections_hold_the_differences() -> None:
    said = {"target": ["a"] * 6, "confidence": [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], "item": list(range(6))}
    runs = [sy.Records.from_columns({**said, "prediction": list(p)}) for p in ("aaabbb", "aaaabb")]
    table = sy.selective(*runs, resamples=100).to_arrow().to_pylist()
    areas = {row["run"]: row for row in table if row["number"] == "aurc_full"}
    assert areas["right − left"]["value"] == pytest.approx(areas["right"]["value"] - areas["left"]["value"])
    assert {row["metric"] for row in table if row["number"] == "cmax"} == {"cmax(rank=confidence, loss=zero_one)"}


def test_warnings_are_for_the_author_of_a_paper_not_for_its_readers() -> None:
    records = sy.Records.from_columns({"item": [1, 2, 3], "target": ["a", "b", "b"], "prediction": ["a", "b", "b"]})
    page = sy.evaluate(records, ["ppv"], resamples=0).to_latex()
    lines = [line for line in page.splitlines() if "positive label" in line]
    assert lines
    assert [line for line in lines if not line.startswith("% warning: ")] == []
    assert "graphicx" not in page
