"""The figures of a selection: risk against coverage per variant, and the reliability of calibrated ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from steelyard.errors import printable
from steelyard.report.document import number
from steelyard.report.figures.calibration import file_name, reliability_figure
from steelyard.report.figures.figure import Area, Figure, Level, Line, Mark, Panel, Points, Series
from steelyard.study.calibrating import reliability_of
from steelyard.study.risk_curves import RiskCurve, risk_curve
from steelyard.study.selection import HULL, Reading, Selection

_FEW = 40  # points up to which each is marked
_SERIES: tuple[Series, ...] = ("first", "second")
_PERFECT = "perfect ranking"


def selection_figures(selection: Selection) -> list[Figure]:
    """One figure per variant: selective and generalized risk against coverage; reliability of calibrated ones."""
    figures: dict[str, Figure] = {}
    for name, readings in selection.readings.items():
        _add(figures, risk_coverage_figure(name, readings, selection))
        calibrator = selection.calibrators.get(name)
        if calibrator is not None and calibrator.target != "loss":
            for reading, side in zip(readings, _sides(selection), strict=True):
                tables = reliability_of(calibrator, reading.records)
                if tables:
                    part = f"{name}.{side.partition(':')[0]}" if side else name
                    figure = reliability_figure(f"{name}, {side}" if side else name, tables)
                    _add(figures, replace(figure, name=f"reliability.{file_name(part)}"))
    return list(figures.values())


def _add(figures: dict[str, Figure], figure: Figure) -> None:
    """Add a figure by its name, numbered where two variants would share it."""
    name = figure.name
    while name in figures:
        name = f"{name}-{len(figures) + 1}"
    figures[name] = replace(figure, name=name)


def risk_coverage_figure(name: str, readings: Sequence[Reading], selection: Selection) -> Figure:
    """The curves of one variant: with band, hull and perfect ranking where there is one run."""
    panels: dict[str, list[Mark]] = {"selective": [], "generalized": []}
    alone = len(readings) == 1
    for reading, side, series in zip(readings, _sides(selection), _SERIES, strict=False):
        for risk, marks in _curves(reading, side, series, selection, alone=alone).items():
            panels[risk] += marks
    titles = {"selective": "errors among accepted answers", "generalized": "errors accepted, of all items asked"}
    return Figure(
        name=f"risk-coverage.{file_name(name)}",
        title=f"Confidence: {name}",
        text=f"risk against coverage, confidence {name}",
        panels=(
            tuple(
                Panel(
                    marks=tuple(marks),
                    title=titles[risk],
                    x_label="coverage (share of asked items that is accepted)",
                    y_label=f"{risk} risk (loss: {selection.loss.name})",
                    x_range=(0, 1),
                    from_zero=True,
                )
                for risk, marks in panels.items()
            ),
        ),
    )


def _curves(reading: Reading, side: str, series: Series, selection: Selection, *, alone: bool) -> dict[str, list[Mark]]:
    cmax = reading.estimates["cmax"]
    label = f"{side + ', ' if side else ''}n = {cmax.n}, cmax = {number(cmax.value)}"
    curve = risk_curve(reading, selection)
    if curve is None:
        return {"selective": [Line(series=series, x=(), y=(), label=f"{label}: nothing was answered")]}
    observed, band = curve.observed, curve.band
    x = np.r_[0.0, observed.coverage].tolist()
    marks: dict[str, list[Mark]] = {}
    for risk, first, values, ends in (
        # right-continuous at zero coverage; accepting nothing risks nothing
        ("selective", observed.selective[0], observed.selective, band.selective if band else None),
        ("generalized", 0.0, observed.generalized, band.generalized if band else None),
    ):
        y = np.r_[first, values].tolist()
        marks[risk] = [Line(series=series, x=x, y=y, label=label)]
        if len(x) <= _FEW:
            marks[risk].append(Points(series=series, x=x[1:], y=y[1:]))
        if band is not None and ends is not None:
            low, high = (end.tolist() for end in ends)
            within = "95% band" if alone else None
            marks[risk].append(Area(series=series, x=band.coverage.tolist(), low=low, high=high, label=within))
        marks[risk].append(Level(series, float(cmax.value or 0), upright=True))
    if alone:
        _read_against(curve, marks)
    return marks


def _read_against(curve: RiskCurve, marks: dict[str, list[Mark]]) -> None:
    """Add the perfect ranking and the hull."""
    perfect, x = curve.perfect, curve.perfect.coverage.tolist()
    marks["selective"].append(Line(series="perfect", x=x, y=perfect.selective.tolist(), label=_PERFECT))
    marks["generalized"].append(Line(series="perfect", x=x, y=perfect.generalized.tolist(), label=_PERFECT))
    hull = np.r_[0.0, curve.hull_coverage], np.r_[curve.hull_risk[0], curve.hull_risk]
    marks["selective"].append(Line(series="hull", x=hull[0].tolist(), y=hull[1].tolist(), label=HULL))


def _sides(selection: Selection) -> list[str]:
    """What two runs are called next to each other; nothing for one."""
    if selection.overlap is None:
        return [""]
    return [printable(name, limit=60) for name in selection.run_names]
