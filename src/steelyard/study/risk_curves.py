"""The risk-coverage curve of a run with what it is read against: its band, the perfect ranking, the in-sample hull."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steelyard.ground.arrays import Floats
from steelyard.metrics.evidence.curve import hull_corners
from steelyard.records.derive import loss_values
from steelyard.study.selection import Reading, Selection
from steelyard.study.selective import curve_metric
from steelyard.uncertainty.bands import Band, curve_band


@dataclass(frozen=True)
class Risks:
    """Selective and generalized risk at each coverage."""

    coverage: Floats
    selective: Floats
    generalized: Floats


@dataclass(frozen=True, kw_only=True)
class RiskCurve:
    """A run's risks at every coverage that it reaches, and what they are read against."""

    observed: Risks
    band: Band | None  # None where nothing can be resampled
    perfect: Risks  # of a ranking by the loss itself
    hull_coverage: Floats
    hull_risk: Floats


def risk_curve(reading: Reading, selection: Selection) -> RiskCurve | None:
    """The curve of one reading; None where nothing was answered."""
    observed = Risks(*(np.asarray(reading.curve[key]) for key in ("coverage", "selective_risk", "generalized_risk")))
    if not len(observed.coverage):
        return None
    corners = hull_corners(observed.coverage, observed.selective)
    return RiskCurve(
        observed=observed,
        band=curve_band(
            reading.records, curve_metric("aurc", selection.loss.name, selection.range), selection.settings
        ),
        perfect=_perfect(reading, selection),
        hull_coverage=observed.coverage[corners],
        hull_risk=observed.selective[corners],
    )


def _perfect(reading: Reading, selection: Selection) -> Risks:
    losses = loss_values(reading.records, selection.loss.name, selection.range)
    total = np.cumsum(np.sort(losses[~np.isnan(losses)]))
    accepted, asked = np.arange(1, len(total) + 1), reading.estimates["aurc_full"].n
    return Risks(accepted / asked, total / accepted, total / asked)
