"""How far off is a numeric answer? Read on answered rows with a target; the others are counted.

Sums of squares lose their digits far from zero, so what needs them is centred and scaled by constants of the whole
table, which do not change the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.ground.arrays import Floats
from steelyard.metrics.contract import evidence, metric
from steelyard.metrics.evidence.keys import midranks
from steelyard.metrics.evidence.sorted_rows import SortedReading, SortedTerms
from steelyard.metrics.evidence.sums import Cells, Terms, row_score, sums
from steelyard.metrics.options import Constant, Constants
from steelyard.metrics.vocabulary import Default
from steelyard.records.table import Records

BINS = ("1-3", "5-8", "13-21", "34+")
_error = partial(metric, better="lower", bounds=(0, None), rows="answered")
_NO_SPREAD = 1e-13  # a sum of squares this small next to its terms is rounding


@_error(
    title="Mean Absolute Error",
    aliases=("mean_absolute_error",),
    also=("error", "absolute error", "l1"),
    default_for=(Default("numbers", 1),),
    formula="mean |prediction − target|",
)
def mae(target: Floats, prediction: Floats) -> Floats:
    """Mean absolute error.

    >>> value("mae", target=[1.0, 2.0], prediction=[1.0, 4.0])
    1.0
    """
    return abs(prediction - target)


@_error(
    title="Median Absolute Error",
    aliases=("median_absolute_error",),
    also=("error", "median"),
    formula="median |prediction − target|",
)
def mdae(target: Floats, prediction: Floats) -> SortedTerms:
    """Median absolute error: robust to outliers.

    >>> value("mdae", target=[1.0, 2.0, 3.0], prediction=[1.0, 4.0, 9.0])
    2.0
    """
    return SortedTerms(abs(prediction - target))


@mdae.finish
def _(s: SortedReading) -> Floats:
    return s.quantile(0.5)


@_error(
    title="Root Mean Squared Error",
    aliases=("root_mean_squared_error",),
    also=("mse", "error", "l2", "squared error"),
    spread="log-t",
    default_for=(Default("numbers", 2),),
    formula="√ mean (prediction − target)²",
)
def rmse(target: Floats, prediction: Floats, *, scale: Constant) -> Terms:
    """Root mean squared error: large errors weigh more.

    >>> round(value("rmse", target=[1.0, 2.0], prediction=[1.0, 4.0]), 6)
    1.414214
    """
    return sums(square=((prediction - target) / scale) ** 2, n=1)


@rmse.finish
def _(s: Cells, *, scale: Constant) -> Floats:
    return np.sqrt(s.square / s.n) * scale


@rmse.summary
def _(table: Records) -> dict[str, Any]:
    target, prediction = (table.numbers(name, needed_by="rmse") for name in ("target", "prediction"))
    errors = np.abs(prediction - target)
    return {"largest": 0.0 if np.isnan(errors).all() else float(np.nanmax(errors))}


@rmse.merge
def _(summaries: Sequence[Any]) -> dict[str, Any]:
    return {"scale": max(summary["largest"] for summary in summaries) or 1.0}


@rmse.join
def _(one: Constants, two: Constants) -> dict[str, Any]:
    return {"scale": max(one["scale"], two["scale"])}


@rmse.convert
def _(sums_: Mapping[str, Floats], own: Constants, joint: Constants) -> dict[str, Floats]:
    return {**sums_, "square": sums_["square"] * (own["scale"] / joint["scale"]) ** 2}


@metric(
    title="Bias (Mean Signed Error)",
    aliases=("mean_error",),
    also=("error", "signed error"),
    bounds=(None, None),
    rows="answered",
    default_for=(Default("numbers", 3),),
    formula="mean (prediction − target)",
)
def bias(target: Floats, prediction: Floats) -> Floats:
    """Mean signed error: positive where predictions are too high.

    >>> value("bias", target=[1.0, 2.0], prediction=[2.0, 2.0])
    0.5
    """
    return prediction - target


@evidence(rows="answered", better="higher", spread="t-skewed")
def moments(target: Floats, prediction: Floats, *, centre: Constant, scale: Constant) -> Terms:
    """First and second moments of target and prediction, centred and scaled."""
    x, y = (target - centre[0]) / scale[0], (prediction - centre[1]) / scale[1]
    error = (prediction - target) / scale[0]
    return sums(x=x, y=y, xx=x * x, yy=y * y, xy=x * y, ee=error * error, n=1)


@moments.summary
def _(table: Records) -> dict[str, Any]:
    """All targets and all predictions: their middle is that of no part."""
    columns = {name: table.numbers(name, needed_by="this metric") for name in ("target", "prediction")}
    return {name: values[~np.isnan(values)] for name, values in columns.items()}


@moments.merge
def _(summaries: Sequence[Any]) -> dict[str, Any]:
    centre, scale = [], []
    for name in ("target", "prediction"):
        values = np.sort(np.concatenate([summary[name] for summary in summaries]))
        middle = float(values[len(values) // 2]) if len(values) else 0.0
        width = float(values[-1] - values[0]) if len(values) else 0.0
        centre.append(middle)
        scale.append(width if 0 < width < np.inf else 1.0)
    return {"centre": tuple(centre), "scale": tuple(scale)}


@moments.join
def _(one: Constants, two: Constants) -> dict[str, Any]:
    """A centre between both runs', and the larger scale."""
    centre = tuple((a + b) / 2 for a, b in zip(one["centre"], two["centre"], strict=True))
    return {"centre": centre, "scale": tuple(map(max, one["scale"], two["scale"]))}


@moments.convert
def _(sums_: Mapping[str, Floats], own: Constants, joint: Constants) -> dict[str, Floats]:
    """First and second moments about another centre, in another scale."""
    n = sums_["n"]
    ratio = [a / b for a, b in zip(own["scale"], joint["scale"], strict=True)]
    move = [(a - b) / c for a, b, c in zip(own["centre"], joint["centre"], joint["scale"], strict=True)]
    x, y = (sums_[name] * ratio[i] for i, name in enumerate("xy"))
    return {
        "x": x + move[0] * n,
        "y": y + move[1] * n,
        "xx": sums_["xx"] * ratio[0] ** 2 + 2 * move[0] * x + move[0] ** 2 * n,
        "yy": sums_["yy"] * ratio[1] ** 2 + 2 * move[1] * y + move[1] ** 2 * n,
        "xy": sums_["xy"] * ratio[0] * ratio[1] + move[0] * y + move[1] * x + move[0] * move[1] * n,
        "ee": sums_["ee"] * ratio[0] ** 2,
        "n": n,
    }


def _spread(square: Floats, total: Floats, n: Floats) -> Floats:
    """Σ(x − x̄)², NaN where there is none."""
    spread = square - total * total / n
    return np.where(spread > _NO_SPREAD * square, spread, np.nan)


@moments.metric(
    title="R² (Explained Variance)",
    aliases=("r_squared", "r2_score"),
    also=("explained variance", "determination"),
    bounds=(None, 1),
    formula="1 − Σ(prediction − target)² / Σ(target − mean target)²",
)
def r2(s: Cells) -> Floats:
    """Share of the target's variance that is explained; negative if the mean would do better. Undefined if constant.

    >>> value("r2", target=[1.0, 2.0, 3.0], prediction=[1.0, 2.0, 4.0])
    0.5
    """
    return 1 - s.ee / _spread(s.xx, s.x, s.n)


@moments.metric(
    title="Pearson Correlation",
    aliases=("pearsonr",),
    also=("correlation",),
    bounds=(-1, 1),
    formula="cov(target, prediction) / (σ_target σ_prediction)",
)
def pearson(s: Cells) -> Floats:
    """Linear correlation of target and prediction; undefined where either is constant.

    >>> value("pearson", target=[1.0, 2.0, 3.0], prediction=[2.0, 4.0, 6.0])
    1.0
    """
    x, y = _spread(s.xx, s.x, s.n), _spread(s.yy, s.y, s.n)
    return np.clip((s.xy - s.x * s.y / s.n) / np.sqrt(x * y), -1, 1)


@metric(
    title="Spearman Rank Correlation",
    aliases=("spearmanr",),
    also=("correlation", "rank correlation"),
    better="higher",
    bounds=(-1, 1),
    rows="answered",
    reads_order=True,
    formula="Pearson correlation of midranks",
)
def spearman(target: Floats, prediction: Floats) -> Terms:
    """Rank correlation of target and prediction; ties share their mean rank.

    >>> value("spearman", target=[1.0, 2.0, 3.0], prediction=[1.0, 20.0, 300.0])
    1.0
    """
    return sums(n=1, by=(target, prediction))


@spearman.finish
def _(s: Cells) -> Floats:
    n = s.n.sum(-1, keepdims=True)
    x, y = (midranks(s.key(part), s.n) - (n + 1) / 2 for part in (0, 1))
    x_spread, y_spread = (s.n * x * x).sum(-1), (s.n * y * y).sum(-1)
    covered = (x_spread > 0) & (y_spread > 0)
    together = (s.n * x * y).sum(-1) / np.sqrt(np.where(covered, x_spread * y_spread, 1))
    return np.where(covered, np.clip(together, -1, 1), np.nan)


@_error(
    title="Mean Absolute Error, Target {label}",
    also=("error",),
    formula="mean |prediction − target| where the target is in the bin",
    members=lambda _, bins: _bins(bins),
)
def mae_by_bin(target: Floats, prediction: Floats, *, bins: tuple[str, ...] = BINS, label: str) -> Terms:
    """Mean absolute error where the target lies in a bin: `mae_by_bin.5-8`. Both ends belong to the bin.

    An empty bin is undefined. Targets in no bin are counted. Choose others with `mae_by_bin(bins=["0-1", "2-3"])`.

    >>> value("mae_by_bin.1-3", target=[1.0, 2.0, 8.0], prediction=[2.0, 2.0, 9.0])
    0.5
    """
    edges = {name: _edges(str(name)) for name in bins}
    if label not in edges:
        raise UsageError(f"mae_by_bin has the bins {', '.join(bins)}, not '{label}'")
    low, high = edges[label]
    inside = (target >= low) & (target <= high)
    anywhere = np.logical_or.reduce([(target >= a) & (target <= b) for a, b in edges.values()])
    left_out = {
        "target in no bin": ~anywhere & ~np.isnan(target),
        "target in another bin": anywhere & ~inside,
    }
    return row_score(abs(prediction - target), left_out=left_out)


def _bins(bins: tuple[str, ...]) -> tuple[str, ...]:
    if not bins:
        raise UsageError("mae_by_bin needs at least one bin, such as [5-8]")
    return bins


def _edges(name: str) -> tuple[float, float]:
    number = r"([0-9]+(?:\.[0-9]+)?)"
    match = re.fullmatch(number + r"(?:-" + number + r"|(\+))", name)
    if match is None:
        raise UsageError("mae_by_bin: a bin is written as 5-8 or 34+")
    low = float(match[1])
    high = np.inf if match[3] else float(match[2])
    if high < low:
        raise UsageError("mae_by_bin: a bin goes from low to high")
    return low, high
