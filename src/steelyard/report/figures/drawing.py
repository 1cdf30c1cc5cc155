"""Pictures for paper and screen: risk-coverage curves and reliability diagrams, as PNG, SVG and PDF.

Colours are Okabe and Ito's, which colour-blind readers tell apart; lines differ in dash and markers too, so that print
in grey still works. Equal data give equal files: no dates, fixed ids.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.errors import printable
from steelyard.metrics.evidence.curve import hull_corners
from steelyard.records.derive import loss_values
from steelyard.report.document import number
from steelyard.retrieval.shifts.kept import ShiftTrainingResult
from steelyard.study.calibrating import Fit, Reliability, reliability_of
from steelyard.study.selective import HULL, Reading, Selection, curve_metric
from steelyard.uncertainty.bands import curve_band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#595959"
Pictures = dict[str, dict[str, bytes]]
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


def selection_figures(selection: Selection) -> Pictures:
    """One picture a variant: selective and generalized risk against coverage; reliability of calibrated ones."""
    found: Pictures = {}
    for name, readings in selection.readings.items():
        found[_free(found, f"risk-coverage.{_file_name(name)}")] = _drawn(_curves, name, readings, selection)
        calibrator = selection.calibrators.get(name)
        if calibrator is not None and calibrator.target != "loss":
            for reading, side in zip(readings, sides(selection), strict=True):
                tables = reliability_of(calibrator, reading.records)
                part = _file_name(f"{name}.{side.partition(':')[0]}" if side else name)
                if tables:
                    found[_free(found, f"reliability.{part}")] = _drawn(
                        _diagrams, f"{name}, {side}" if side else name, tables
                    )
    return found


def reliability_figure(fit: Fit) -> Pictures:
    """Before calibration, and cross-fitted after it."""
    name = fit.calibrator.name
    return {f"reliability.{_file_name(name)}": _drawn(_diagrams, name, fit.reliability)}


def held_out_figure(result: ShiftTrainingResult) -> Pictures:
    """The gain of a learned shift on held-out queries, fold by fold and together with its interval."""
    return {"held-out-gain": _drawn(_gains, result)} if result.held_out is not None else {}


def sides(selection: Selection) -> list[str]:
    """What two runs are called beside each other; nothing for one."""
    if selection.overlap is None:
        return [""]
    return [
        f"{side}: {printable(mode or 'run')}" for side, mode in zip(("left", "right"), selection.modes, strict=True)
    ]


def _drawn(make: Callable[..., Figure], *given: Any) -> dict[str, bytes]:
    """A figure in every format."""
    import matplotlib

    found = {}
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]
        figure = make(*given)
        for suffix, how in _UNDATED.items():
            buffer = BytesIO()
            figure.savefig(buffer, format=suffix, **how)
            found[suffix] = buffer.getvalue()
    return found


def _figure(title: str, panels: int) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4 * panels, 4.2), layout="constrained")
    figure.suptitle(textwrap.fill(printable(title, limit=300), 52 * panels), fontsize=11)
    return figure


def _legend(figure: Figure, axes: Axes) -> None:
    """Below the panels, where it hides no line."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:120] or "variant"


def _free(found: Pictures, name: str) -> str:
    """The name, numbered where two variants would share it."""
    return name if name not in found else _free(found, f"{name}-{len(found) + 1}")


# -- risk and coverage -------------------------------------------------------------------------------------------------


def _curves(name: str, readings: Sequence[Reading], selection: Selection) -> Figure:
    figure = _figure(f"Confidence: {name}", 2)
    left, right = figure.subplots(1, 2)
    alone = len(readings) == 1
    for reading, side, colour, dash in zip(readings, sides(selection), (BLUE, ORANGE), ("-", "--"), strict=False):
        _run(left, right, reading, side, colour, dash, selection, extras=alone)
    for axes, risk in ((left, "selective risk"), (right, "generalized risk")):
        axes.set_xlabel("coverage (share of asked items that is accepted)")
        axes.set_ylabel(f"{risk} (loss: {selection.loss.name})")
        axes.set_xlim(0, 1)
        axes.set_ylim(bottom=0, top=None if axes.get_ylim()[1] > 0.06 else 1)  # nothing but zeros would look empty
    left.set_title("errors among accepted answers")
    right.set_title("errors accepted, of all items asked")
    _legend(figure, left)
    return figure


def _run(
    left: Axes,
    right: Axes,
    reading: Reading,
    who: str,
    colour: str,
    dash: str,
    selection: Selection,
    *,
    extras: bool,
) -> None:
    curve = {key: np.asarray(values) for key, values in reading.curve.items()}
    estimate = reading.estimates["cmax"]
    label = f"{who + ', ' if who else ''}n = {estimate.n}, cmax = {number(estimate.value)}"
    if not len(curve["coverage"]):
        left.plot([], [], color=colour, linestyle=dash, label=f"{label}: nothing was answered")
        return
    metric = curve_metric("aurc", selection.loss.name, selection.range)
    band = curve_band(reading.records, metric, selection.settings)
    start = curve["selective_risk"][0]
    for axes, key, first, ends in (
        (left, "selective_risk", start, band.selective if band else None),
        (right, "generalized_risk", 0.0, band.generalized if band else None),
    ):
        x, y = np.r_[0.0, curve["coverage"]], np.r_[first, curve[key]]
        axes.plot(x, y, color=colour, linestyle=dash, label=label)
        if len(x) <= 40:
            axes.plot(x[1:], y[1:], color=colour, linestyle="none", marker="o", markersize=3.5)
        if band is not None and ends is not None:
            axes.fill_between(
                band.coverage, *ends, color=colour, alpha=0.15, linewidth=0, label="95% band" if extras else None
            )
        axes.axvline(float(estimate.value or 0), color=colour, linewidth=0.8, linestyle=":")
    if extras:
        _oracle(left, right, reading, selection)
        corners = hull_corners(curve["coverage"], curve["selective_risk"])
        x, y = curve["coverage"][corners], curve["selective_risk"][corners]
        left.plot(
            np.r_[0.0, x],
            np.r_[y[0], y],
            color=ORANGE,
            linestyle="--",
            linewidth=1.2,
            label=HULL,
        )


def _oracle(left: Axes, right: Axes, reading: Reading, selection: Selection) -> None:
    """The curve that a ranking by the loss itself would have."""
    losses = loss_values(reading.records, selection.loss.name, selection.range)
    ordered = np.cumsum(np.sort(losses[~np.isnan(losses)]))
    count, asked = np.arange(1, len(ordered) + 1), reading.estimates["aurc_full"].n
    left.plot(count / asked, ordered / count, color=GREEN, linestyle="-.", linewidth=1.2, label="perfect ranking")
    right.plot(count / asked, ordered / asked, color=GREEN, linestyle="-.", linewidth=1.2, label="perfect ranking")


# -- reliability -------------------------------------------------------------------------------------------------------


def _diagrams(title: str, tables: Sequence[Reliability]) -> Figure:
    figure = _figure(title, max(len(tables), 1))
    panels = figure.subplots(2, len(tables), sharex=True, squeeze=False, height_ratios=[4, 1])
    for place, table in enumerate(tables):
        axes, below = panels[0][place], panels[1][place]
        colour, marker = (ORANGE, "o") if table.title == "before" else (BLUE, "s")
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=":", label="calibrated")
        known = [(b.confidence, *b.interval) for b in table.bins if b.interval is not None]
        if known:
            axes.vlines(*zip(*known, strict=True), color=colour, linewidth=1.2, label="95% interval")
        x, y = [b.confidence for b in table.bins], [b.accuracy for b in table.bins]
        axes.plot(x, y, color=colour, marker=marker, markersize=4, linewidth=1, label=f"{table.title}")
        axes.set_title(f"{table.title}: n = {table.n}, ECE = {number(table.ece)}")
        axes.set_ylabel(table.outcome)
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.02)
        bars = below.bar(
            [(b.low + b.high) / 2 for b in table.bins], [b.n for b in table.bins], width=0.08, color=colour
        )
        below.bar_label(bars, fontsize=7, padding=1)
        below.margins(y=0.35)
        below.set_xlabel("confidence: mean of each bin above, rows in each bin below")
        below.set_ylabel("rows")
    return figure


# -- held-out gain -----------------------------------------------------------------------------------------------------


def _gains(result: ShiftTrainingResult) -> Figure:
    held_out = result.held_out
    assert held_out is not None
    figure = _figure(f"Gain on held-out queries: {result.training_id or result.workflow_name}", 1)
    axes = figure.subplots()
    folds = [fold.gain for fold in held_out.folds]
    places = np.arange(1, len(folds) + 1)
    axes.axhline(0, color=GREY, linewidth=0.8, linestyle=":")
    axes.plot(places, folds, color=ORANGE, linestyle="none", marker="o", markersize=5, label="one fold")
    score, together = held_out.score, len(folds) + 1
    if score is not None:
        if held_out.interval is not None:
            label = f"{100 * held_out.level:g}% interval"
            axes.vlines(together, *held_out.interval, color=BLUE, linewidth=2, label=label)
        axes.plot([together], [score], color=BLUE, linestyle="none", marker="s", markersize=7, label="all folds")
    axes.set_xticks([*places, together], [*(str(i) for i in places), "all"])
    axes.set_xlabel("fold: the shift was learned without its queries")
    axes.set_ylabel("gain in 0.7 · map@1 + 0.3 · ndcg@3")
    status = "helps" if result.usable else f"not chosen: {result.why_not}"
    axes.set_title(textwrap.fill(f"{held_out.queries} queries; {status}", 48))
    _legend(figure, axes)
    return figure
