"""The figures of a calibrator: how often answers are right, bin by bin of confidence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from steelyard.report.document import number
from steelyard.report.figures.figure import Bars, Figure, Line, Mark, Panel, Series, Whiskers
from steelyard.study.calibrating import Fit, Reliability

_RANGE = (-0.02, 1.02)
_BAR = 0.08


def fit_figures(fit: Fit) -> list[Figure]:
    """Reliability before calibration, and cross-fitted after it; nothing where the target is not right or wrong."""
    return [reliability_figure(fit.calibrator.name, fit.reliability)] if fit.reliability else []


def reliability_figure(title: str, tables: Sequence[Reliability]) -> Figure:
    """Confidence against outcome above, and how many rows each bin has below."""
    return Figure(
        name=f"reliability.{file_name(title)}",
        title=title,
        text=f"reliability, {title}",
        panels=(tuple(_outcomes(table) for table in tables), tuple(_rows(table) for table in tables)),
        heights=(4, 1),
        legend=False,
    )


def file_name(name: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:120] or "variant"


def _outcomes(table: Reliability) -> Panel:
    series = _series(table)
    marks: list[Mark] = [Line(series="reference", x=(0, 1), y=(0, 1), label="calibrated")]
    known = [(b.confidence, *b.interval) for b in table.bins if b.interval is not None]
    if known:
        places, low, high = zip(*known, strict=True)
        marks.append(Whiskers(series=series, x=places, low=low, high=high, label="95% interval"))
    x, y = [b.confidence for b in table.bins], [b.accuracy for b in table.bins]
    marks.append(Line(series=series, x=x, y=y, label=table.title))
    title = f"{table.title}: n = {table.n}, ECE = {number(table.ece)}"
    return Panel(marks=tuple(marks), title=title, y_label=table.outcome, x_range=_RANGE, y_range=_RANGE)


def _rows(table: Reliability) -> Panel:
    middles, counts = [(b.low + b.high) / 2 for b in table.bins], [b.n for b in table.bins]
    return Panel(
        marks=(Bars(series=_series(table), x=middles, counts=counts, width=_BAR),),
        x_label="confidence: mean of each bin above, rows in each bin below",
        y_label="rows",
    )


def _series(table: Reliability) -> Series:
    return "before" if table.title == "before" else "after"
