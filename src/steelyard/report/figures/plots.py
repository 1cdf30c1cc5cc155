"""What `plot()` draws: intervals of estimates, deltas and rules side by side, risk against coverage, counts.

Figures of reports are data that `drawing` turns into files; these are Matplotlib's own, for a user to change further.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import BytesIO

import matplotlib
from matplotlib.figure import Figure

from steelyard.decide.decision import Decision
from steelyard.errors import UsageError, printable
from steelyard.naming import slice_text
from steelyard.records.labels import value_name
from steelyard.records.table import Records
from steelyard.report.document import title_of
from steelyard.report.figures.drawing import BLUE, GREY, ORANGE, style
from steelyard.study.comparison import Comparison
from steelyard.study.evaluation import Evaluation
from steelyard.study.risk_curves import risk_curve
from steelyard.study.selection import Selection
from steelyard.uncertainty.number import Delta, Estimate, Number

_MOST = 60  # intervals in one picture


class Plot(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


def plotted(result: Evaluation | Comparison | Selection | Decision | Records) -> Figure:
    """The picture of a result."""
    with matplotlib.rc_context(style()):  # type: ignore[arg-type]
        match result:
            case Evaluation():
                return _forest([(_name(e), e) for e in result], "estimates")
            case Comparison():
                return _forest([(_name(d), d) for d in result], "new − base", zero=True)
            case Decision():
                rules = [(v.rule + slice_text({k: value_name(x) for k, x in v.slice.items()}), v) for v in result.rules]
                return _forest(
                    [(name, v.number) for name, v in rules], "rules", thresholds=[v.threshold for _, v in rules]
                )
            case Selection():
                return _risk_coverage(result)
            case Records():
                return _outcomes(result)


def _name(number: Estimate | Delta) -> str:
    where = slice_text({column: value_name(value) for column, value in number.slice.items()})
    return f"{title_of(number.metric)} {where}".strip()


def _forest(
    named: Sequence[tuple[str, Number]],
    title: str,
    *,
    zero: bool = False,
    thresholds: Sequence[float | None] = (),
) -> Figure:
    """A row per number, first at the top: a point for the value, a line for the interval, as far as they are known."""
    if not named:
        raise UsageError("there is nothing to draw: no number was asked for")
    shown = named[:_MOST]
    figure = Plot(figsize=(6.4, 1.1 + 0.32 * len(shown)), layout="constrained")
    axes = figure.subplots()
    for place, (_, number) in enumerate(shown):
        if number.interval is not None and all(map(math.isfinite, number.interval)):
            axes.hlines(place, *number.interval, color=BLUE, linewidth=2)
        if number.value is not None:
            axes.plot(number.value, place, color=BLUE, marker="o", markersize=5)
    for place, threshold in enumerate(thresholds[:_MOST]):
        if threshold is not None:
            axes.plot(threshold, place, color=ORANGE, marker="|", markersize=12, markeredgewidth=2)
    if zero:
        axes.axvline(0, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(shown)), [printable(name, limit=60) for name, _ in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    left = f" (the first {_MOST} of {len(named):,})" if len(named) > _MOST else ""
    axes.set_xlabel(f"{title}, with intervals at {100 * shown[0][1].level:g}%{left}")
    return figure


def _risk_coverage(selection: Selection) -> Figure:
    """Selective risk against coverage, a line per variant and run."""
    figure = Plot(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    sides = (", left", ", right") if selection.overlap else ("",)
    for name, readings in selection.readings.items():
        for side, dash, reading in zip(sides, ("-", "--"), readings, strict=False):
            curve = risk_curve(reading, selection)
            if curve is not None:
                x, y = curve.observed.coverage, curve.observed.selective
                axes.step(x, y, where="post", linestyle=dash, label=printable(f"{name}{side}", limit=60))
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("coverage (share of asked items that is accepted)")
    axes.set_ylabel(f"selective risk (loss: {selection.loss.name})")
    if axes.lines:
        axes.legend()
    return figure


def _outcomes(records: Records) -> Figure:
    """How many rows have each outcome."""
    figure = Plot(figsize=(6.4, 2.4), layout="constrained")
    axes = figure.subplots()
    counts = records.counts()
    axes.bar_label(axes.barh(list(counts), list(counts.values()), color=BLUE), padding=2)
    axes.invert_yaxis()
    axes.set_xlabel("rows")
    return figure
