"""Pointwise bootstrap bands of a risk-coverage curve: where 95% of the resampled curves pass at each coverage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.ground.arrays import Floats
from steelyard.metrics.collector import Collector
from steelyard.metrics.definition import Metric
from steelyard.metrics.evidence.curve import CurveReading
from steelyard.metrics.evidence.sums import Draw
from steelyard.records.table import Records
from steelyard.uncertainty.intervals import tail_of
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.weights import Weights, legacy_order

ENOUGH = 2_000  # resamples: a band is looked at, not quoted
MOST_LOST = 0.5  # at cmax itself half of the resampled curves have ended; up to there a band is drawn
_STEPS = 200


@dataclass(frozen=True)
class Band:
    """Low and high ends at each coverage, NaN where too many resampled curves end before it."""

    coverage: Floats
    selective: tuple[Floats, Floats]
    generalized: tuple[Floats, Floats]


def curve_band(records: Records, metric: Metric, settings: Settings) -> Band | None:
    """The band of the curve behind a metric of the curve family; None where nothing can be resampled."""
    collector = Collector(records)
    evidence: Any = collector.evidence(metric, metric.constants([records]))
    if len(collector.ids) < 2 or not settings.resamples or not evidence.points:
        return None
    point: CurveReading = collector.unit.read(evidence)
    grid = np.linspace(0, float(point.cmax[0]), _STEPS + 1)[1:]
    weights = Weights(
        len(collector.ids),
        resamples=min(settings.resamples, ENOUGH),
        seed=settings.seed,
        stream=settings.stream,
        order=legacy_order(collector.ids) if settings.stream == "legacy" else None,
    )
    selective, generalized = [], []
    for block in weights.blocks(256):
        reading: CurveReading = Draw(block).read(evidence)
        for coverage, risk, joint in zip(reading.coverage, reading.risk, reading.generalized, strict=True):
            selective.append(np.interp(grid, coverage, risk, right=np.nan))
            # from (0, 0): accepting nothing risks nothing
            generalized.append(np.interp(grid, np.r_[0.0, coverage], np.r_[0.0, joint], right=np.nan))
    return Band(grid, _ends(np.array(selective), settings.level), _ends(np.array(generalized), settings.level))


def _ends(curves: Floats, level: float) -> tuple[Floats, Floats]:
    lost = np.isnan(curves).mean(0)
    tail = tail_of(level)
    gone = lost > MOST_LOST
    low, high = np.nanquantile(np.where(gone, 0.0, curves), (tail, 1 - tail), axis=0)
    return np.where(gone, np.nan, low), np.where(gone, np.nan, high)
