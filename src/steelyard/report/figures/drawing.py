"""Draws figures for paper and screen, as PNG, SVG and PDF; computes nothing.

Colours are Okabe and Ito's, which colour-blind readers tell apart; lines differ in dash and markers too, so that print
in grey still works. Equal data give equal files: no dates, fixed ids.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

from steelyard.errors import printable
from steelyard.report.figures.figure import Area, Bars, Figure, Level, Line, Mark, Panel, Points, Series, Whiskers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#595959"
Pictures = dict[str, dict[str, bytes]]  # by the figure's name, then by suffix
SUFFIXES = ("png", "svg", "pdf")
_COLOURS: Mapping[Series, str] = {
    "first": BLUE,
    "second": ORANGE,
    "perfect": GREEN,
    "hull": ORANGE,
    "before": ORANGE,
    "after": BLUE,
    "reference": GREY,
    "fold": ORANGE,
    "whole": BLUE,
}
_LINES: Mapping[Series, dict[str, Any]] = {
    "first": {"linestyle": "-"},
    "second": {"linestyle": "--"},
    "perfect": {"linestyle": "-.", "linewidth": 1.2},
    "hull": {"linestyle": "--", "linewidth": 1.2},
    "before": {"marker": "o", "markersize": 4, "linewidth": 1},
    "after": {"marker": "s", "markersize": 4, "linewidth": 1},
    "reference": {"linestyle": ":", "linewidth": 0.8},
}
_POINTS: Mapping[Series, dict[str, Any]] = {
    "first": {"marker": "o", "markersize": 3.5},
    "second": {"marker": "o", "markersize": 3.5},
    "fold": {"marker": "o", "markersize": 5},
    "whole": {"marker": "s", "markersize": 7},
}
_WHISKERS: Mapping[Series, float] = {"before": 1.2, "after": 1.2, "whole": 2}  # line widths
_FLAT = 0.06  # an axis from 0 that ends below this would look empty
_STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.size": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "svg.hashsalt": "steelyard",
    "text.parse_math": False,  # a mode's name may hold a dollar sign
}
_UNDATED: Mapping[str, dict[str, Any]] = {
    "png": {"metadata": {"Software": None}, "dpi": 150},
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}


def draw(figure: Figure, suffixes: Iterable[str] = SUFFIXES) -> dict[str, bytes]:
    """The figure as files, by suffix."""
    import matplotlib

    files = {}
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]
        canvas = _canvas(figure)
        for suffix in suffixes:
            buffer = BytesIO()
            canvas.savefig(buffer, format=suffix, **_UNDATED[suffix])
            files[suffix] = buffer.getvalue()
    return files


def style() -> dict[str, Any]:
    """Matplotlib's settings for every picture of ours."""
    return dict(_STYLE)


def drawn(figures: Iterable[Figure]) -> Pictures:
    """Several figures as files, by name and suffix."""
    return {figure.name: draw(figure) for figure in figures}


def _canvas(figure: Figure) -> Canvas:
    from matplotlib.figure import Figure as Canvas

    rows, columns = len(figure.panels), len(figure.panels[0])
    canvas = Canvas(figsize=(4.4 * columns, 4.2), layout="constrained")
    canvas.suptitle(textwrap.fill(printable(figure.title, limit=300), 52 * columns), fontsize=11)
    grid = canvas.subplots(rows, columns, sharex=rows > 1, squeeze=False, height_ratios=figure.heights)
    for row, panels in zip(grid, figure.panels, strict=True):
        for axes, panel in zip(row, panels, strict=True):
            _panel(axes, panel)
    if figure.legend:  # below the panels, where it hides no line
        canvas.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return canvas


def _panel(axes: Axes, panel: Panel) -> None:
    for mark in panel.marks:
        _mark(axes, mark)
    if panel.ticks:
        places, names = zip(*panel.ticks, strict=True)
        axes.set_xticks(places, names)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.x_range is not None:
        axes.set_xlim(*panel.x_range)
    if panel.y_range is not None:
        axes.set_ylim(*panel.y_range)
    if panel.from_zero:
        axes.set_ylim(bottom=0, top=None if axes.get_ylim()[1] > _FLAT else 1)
    axes.set_title(textwrap.fill(panel.title, 48))


def _mark(axes: Axes, mark: Mark) -> None:
    colour = _COLOURS[mark.series]
    match mark:
        case Line():
            axes.plot(mark.x, mark.y, color=colour, label=mark.label, **_LINES[mark.series])
        case Points():
            axes.plot(mark.x, mark.y, color=colour, linestyle="none", label=mark.label, **_POINTS[mark.series])
        case Area():
            axes.fill_between(mark.x, mark.low, mark.high, color=colour, alpha=0.15, linewidth=0, label=mark.label)
        case Whiskers():
            width = _WHISKERS[mark.series]
            axes.vlines(mark.x, mark.low, mark.high, color=colour, linewidth=width, label=mark.label or "")
        case Level():
            across = axes.axvline if mark.upright else axes.axhline
            across(mark.at, color=colour, linewidth=0.8, linestyle=":")
        case Bars():
            bars = axes.bar(mark.x, mark.counts, width=mark.width, color=colour)
            axes.bar_label(bars, fontsize=7, padding=1)
            axes.margins(y=0.35)
