"""Pictures: every format, the same twice, with what they must say, whatever the data are called."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from steelyard.calibration import calibrate
from steelyard.records.table import Records
from steelyard.report.figures import Pictures, reliability_figure, selection_figures
from steelyard.selection import RANK, curve_metric, selective
from steelyard.uncertainty.bands import curve_band
from steelyard.uncertainty.estimate import Settings

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
    """The text that a vector picture holds as text: matplotlib writes each piece as a comment beside its glyphs."""
    return pictures[name]["svg"].decode()


def test_one_run_has_its_curves_in_every_format_and_the_same_twice() -> None:
    found = selection_figures(selective(run(said="any"), confidence=["token_msp"], resamples=200))
    again = selection_figures(selective(run(said="any"), confidence=["token_msp"], resamples=200))
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
    found = selection_figures(selective(*pair, confidence=["token_msp"], resamples=100))
    ElementTree.fromstring(found["risk-coverage.token_msp"]["svg"])
    assert "<script>" not in words(found, "risk-coverage.token_msp")


def test_nothing_answered_draws_an_empty_panel() -> None:
    found = selection_figures(selective(run(said=None), confidence=["token_msp"], resamples=100))
    assert "nothing was answered" in words(found, "risk-coverage.token_msp")


def test_reliability_before_and_after() -> None:
    fit = calibrate(run(3, 30, said="any"), "isotonic", confidence="token_msp")
    pictures = reliability_figure(fit)
    (name,) = pictures
    assert name == "reliability.isotonic-on-token_msp"
    assert "before: n = 120, ECE" in words(pictures, name)
    assert "cross-fitted: n = 120" in words(pictures, name)
    test = selective(run(4, said="any"), confidence=["calibrated"], calibrators=[fit.calibrator], resamples=100)
    drawn = selection_figures(test)
    assert set(drawn) == {"risk-coverage.calibrated", "reliability.calibrated"}
    assert "after: n = 60" in words(drawn, "reliability.calibrated")


def test_a_band_holds_its_curve_and_is_what_resampling_by_hand_gives() -> None:
    records = run(5, 10, said="any")
    records = records.with_columns({RANK: records.column("signal.token_msp")})
    metric = curve_metric("aurc", "abs", None)
    band = curve_band(records, metric, Settings(resamples=200, method="percentile", stream="legacy"))
    assert band is not None
    rank, loss = (
        np.asarray(records.array("signal.token_msp")),
        np.abs(np.asarray(records.array("prediction")) - np.asarray(records.array("target"))),
    )
    rng = np.random.RandomState(42)
    at = len(band.coverage) // 2 - 1
    risks = []
    for _ in range(200):
        chosen = np.concatenate([np.arange(4 * c, 4 * c + 4) for c in rng.randint(0, 10, 10)])
        order = np.argsort(-rank[chosen], kind="stable")
        r, x = rank[chosen][order], np.cumsum(loss[chosen][order])
        ends = np.flatnonzero(np.r_[r[1:] != r[:-1], True])
        risks.append(np.interp(band.coverage[at], (ends + 1) / 40, x[ends] / (ends + 1)))
    low, high = np.quantile(risks, (0.025, 0.975))
    assert band.selective[0][at] == pytest.approx(low, abs=1e-12)
    assert band.selective[1][at] == pytest.approx(high, abs=1e-12)


def test_no_band_without_something_to_resample() -> None:
    one = run(6, 1, said="any")
    one = one.with_columns({RANK: one.column("signal.token_msp")})
    metric = curve_metric("aurc", "abs", None)
    assert curve_band(one, metric, Settings(method="percentile")) is None
    assert curve_band(one, metric, Settings(resamples=0, method="percentile")) is None
