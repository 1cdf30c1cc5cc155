"""What `plot()` draws: intervals of estimates, deltas and rules side by side, risk against coverage, counts.

Figures of reports are data that `drawing` turns into files; these are Matplotlib's own, for a user to change further.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import BytesIO

import matplotlib
from matplotlib.figure import Figure

from steelyard.decide.decision import Decision, Verdict
from steelyard.errors import UsageError, printable
from steelyard.naming import slice_text
from steelyard.records.labels import value_name
from steelyard.records.table import Records
from steelyard.report.document import title_of
from steelyard.report.figures.drawing import BLUE, GREY, ORANGE, style
from steelyard.study.results import Comparison, Evaluation
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
                return _forest([(_name(e), e) for e in result], "estimates", units=[_unit(e) for e in result])
            case Comparison():
                return _forest(
                    [(_name(d), d) for d in result], "new − base", zero=True, units=[_unit(d) for d in result]
                )
            case Decision():
                rules = [(_rule_name(v), v) for v in result.rules]
                return _forest(
                    [(name, v.number) for name, v in rules], "rules", thresholds=[v.threshold for _, v in rules]
                )
            case Selection():
                return _risk_coverage(result)
            case Records():
                return _outcomes(result)


def _rule_name(v: Verdict) -> str:
    return printable(v.rule + slice_text({k: value_name(x) for k, x in v.slice.items()}), limit=80)


def _name(number: Estimate | Delta) -> str:
    """The metric with its better direction, and below it what it is of."""
    where = ", ".join(f"{column} {value_name(value)}" for column, value in number.slice.items())
    arrow = {"higher": " ↑", "lower": " ↓"}.get(number.better or "", "")
    name = printable(title_of(number.metric), limit=60) + arrow
    return f"{name}\n{printable(where, limit=60)}" if where else name


def _unit(number: Estimate | Delta) -> str:
    """What stands on one axis: shares together, other units each with its own."""
    if number.of is None:  # a documented key
        return ""
    return number.of.unit or ("" if None not in number.of.bounds else number.metric)


def _forest(
    named: Sequence[tuple[str, Number]],
    title: str,
    *,
    zero: bool = False,
    thresholds: Sequence[float | None] = (),
    units: Sequence[str] = (),
) -> Figure:
    """A row per number, first at the top: a point for the value, a line for the interval, as far as they are known.

    Numbers in other units have an axis of their own below.
    """
    if not named:
        raise UsageError("there is nothing to draw: no number was asked for")
    of = units or [""] * len(named)
    panels = {
        unit: [place for place in range(min(len(named), _MOST)) if of[place] == unit] for unit in dict.fromkeys(of)
    }
    panels = {unit: places for unit, places in panels.items() if places}
    lines = [1 + name.count("\n") for name, _ in named[:_MOST]]
    heights = [0.7 + 0.26 * sum(lines[place] for place in places) for places in panels.values()]
    figure = Plot(figsize=(6.8, 0.4 + sum(heights)), layout="constrained")
    every = figure.subplots(len(panels), squeeze=False, height_ratios=heights)[:, 0]
    for axes, (unit, places) in zip(every, panels.items(), strict=True):
        for row, place in enumerate(places):
            number = named[place][1]
            if number.interval is not None and all(map(math.isfinite, number.interval)):
                axes.hlines(row, *number.interval, color=BLUE, linewidth=2)
            if number.value is not None:
                axes.plot(number.value, row, color=BLUE, marker="o", markersize=5)
            threshold = thresholds[place] if thresholds else None
            if threshold is not None:
                axes.plot(threshold, row, color=ORANGE, marker="|", markersize=12, markeredgewidth=2)
        if zero:
            axes.axvline(0, color=GREY, linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(places)), [named[place][0] for place in places])
        axes.set_ylim(len(places) - 0.5, -0.5)
        if unit:
            axes.set_xlabel(printable(unit, limit=60))
    left = f" (the first {_MOST} of {len(named):,})" if len(named) > _MOST else ""
    figure.supxlabel(f"{title}, with intervals at {100 * named[0][1].level:g}%{left}", fontsize="medium")
    return figure


def _risk_coverage(selection: Selection) -> Figure:
    """Selective risk against coverage, a line per variant and run."""
    figure = Plot(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    sides = [f", {name}" for name in selection.run_names] if selection.overlap else [""]
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
