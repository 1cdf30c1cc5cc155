"""Pictures: every format, the same twice, with what they must say, whatever the data are called."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from steelyard.records.table import Records
from steelyard.report.figures.calibration import fit_figures
from steelyard.report.figures.drawing import Pictures, draw, drawn
from steelyard.report.figures.figure import Figure, Line, Panel
from steelyard.report.figures.selective import selection_figures
from steelyard.study.calibrating import calibrate
from steelyard.study.selective import selective

BEGINS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def run(seed: int = 0, people: int = 15, mode: str = "few_shot", said: Any = None) -> Records:
    rng = np.random.default_rng(seed)
    size = people * 4
    columns = {
        "strategy": [mode] * size,
        "item": [f"{i}" for i in range(size)],
        "cluster": [i // 4 for i in range(size)],
        "target": (np.arange(size) % 4).tolist(),
        "prediction": [said if said != "any" else int(rng.integers(0, 4)) for _ in range(size)],
        "signal.token_msp": rng.random(size).round(3),
    }
    return Records.from_columns(columns, task={"range": 3})


def words(pictures: Pictures, name: str) -> str:
    """The text that a vector picture holds as text: matplotlib writes each piece as a comment next to its glyphs."""
    return pictures[name]["svg"].decode()


def test_one_run_has_its_curves_in_every_format_and_the_same_twice() -> None:
    found = drawn(selection_figures(selective(run(said="any"), confidence=["token_msp"], resamples=200)))
    again = drawn(selection_figures(selective(run(said="any"), confidence=["token_msp"], resamples=200)))
    assert list(found) == ["risk-coverage.token_msp"]
    assert found == again
    for suffix, begin in BEGINS.items():
        assert found["risk-coverage.token_msp"][suffix].startswith(begin)
    text = words(found, "risk-coverage.token_msp")
    for said in ("n = 60, cmax = 1.000", "95% band", "perfect ranking", "selective risk", "generalized risk"):
        assert said in text


@pytest.mark.parametrize("mode", ["$x_{", "<script>", "zero\x1bshot", "√ü"])
def test_names_from_data_are_only_text(mode: str) -> None:
    pair = run(1, mode=mode, said="any"), run(2, said="any")
    found = drawn(selection_figures(selective(*pair, confidence=["token_msp"], resamples=100)))
    ElementTree.fromstring(found["risk-coverage.token_msp"]["svg"])
    assert "<script>" not in words(found, "risk-coverage.token_msp")


def test_nothing_answered_draws_an_empty_panel() -> None:
    found = drawn(selection_figures(selective(run(said=None), confidence=["token_msp"], resamples=100)))
    assert "nothing was answered" in words(found, "risk-coverage.token_msp")


def test_reliability_before_and_after() -> None:
    fit = calibrate(run(3, 30, said="any"), "isotonic", confidence="token_msp")
    pictures = drawn(fit_figures(fit))
    (name,) = pictures
    assert name == "reliability.isotonic-on-token_msp"
    assert "before: n = 120, ECE" in words(pictures, name)
    assert "cross-fitted: n = 120" in words(pictures, name)
    test = selective(run(4, said="any"), confidence=["calibrated"], calibrators=[fit.calibrator], resamples=100)
    after = drawn(selection_figures(test))
    assert set(after) == {"risk-coverage.calibrated", "reliability.calibrated"}
    assert "after: n = 60" in words(after, "reliability.calibrated")


def test_variants_that_would_share_a_file_are_numbered() -> None:
    records = run(said="any")
    more = records.with_columns({n: records.column("signal.token_msp") for n in ("signal.a b", "signal.a-b")})
    found = selection_figures(selective(more, confidence=["signal.a b", "signal.a-b"], resamples=100))
    assert [figure.name for figure in found] == ["risk-coverage.signal.a-b", "risk-coverage.signal.a-b-2"]


def test_a_figure_holds_what_is_drawn() -> None:
    (figure,) = selection_figures(selective(run(said="any"), confidence=["token_msp"], resamples=100))
    left, right = figure.panels[0]
    lines = {mark.label: mark for mark in left.marks if isinstance(mark, Line)}
    observed = lines["n = 60, cmax = 1.000"]
    assert (observed.x[0], observed.x[-1]) == (0, 1)
    assert observed.y[0] == observed.y[1]  # right-continuous at zero coverage
    (joint, *_) = (mark for mark in right.marks if isinstance(mark, Line))
    assert (joint.y[0], joint.y[-1]) == (0, observed.y[-1])
    assert {"perfect ranking", "in-sample hull, not attainable"} < set(lines)
    assert max(lines["perfect ranking"].y) == pytest.approx(observed.y[-1])


def test_only_what_is_asked_for_is_drawn_and_the_figure_says_all_of_it() -> None:
    line = Line(series="first", x=(0, 1), y=(0, 1), label="a line")
    figure = Figure(name="n", title="a title", text="t", panels=((Panel(marks=(line,), x_label="across"),),))
    (svg,) = draw(figure, ("svg",)).values()
    for said in ("a line", "a title", "across"):
        assert f"<!-- {said} -->" in svg.decode()
