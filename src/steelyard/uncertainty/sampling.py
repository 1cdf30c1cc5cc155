"""A metric's evidence on one table, and what it becomes under other weights: resampled, and with clusters left out.

The evidence is collected once, the weights are drawn once, and every metric is read from them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.ground.arrays import Codes, Floats, Progress
from steelyard.metrics.collector import Side
from steelyard.metrics.definition import Metric
from steelyard.metrics.evidence.by_task import Tasks
from steelyard.metrics.evidence.sums import Draw, Sums
from steelyard.uncertainty.jackknife import leave_one_out
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.weights import Weights, legacy_order

_BLOCK_NUMBERS = 4_000_000


@dataclass(kw_only=True)
class Sample:
    """A metric's evidence on one table, and what resampling it gave."""

    metric: Metric
    constants: Mapping[str, Any]
    evidence: Any
    value: float = math.nan
    vector: Floats | None = None
    whole: npt.NDArray[np.bool_] | None = None
    detail: Any = None
    side: Any = None  # where it was read from
    up_to: float | None = None  # the coverage up to which an area is read, where that is fixed from outside
    replicates: list[Floats] = field(default_factory=list)
    distances: list[Floats] = field(default_factory=list)
    left_out: Floats = field(default_factory=lambda: np.empty(0))

    def finish(self, reading: Any) -> Floats:
        """The metric under each resample of a reading."""
        if self.up_to is not None:
            return self.metric.up_to(reading, np.full(len(reading.counted), self.up_to))
        return self.metric.finished(reading, self.constants)

    def read(self, draw: Draw) -> Floats:
        """The metric under each resample; NaN where it is undefined or lacks a class of the full data."""
        reading = draw.read(self.evidence)
        values = self.finish(reading)
        if self.whole is not None:
            present = self.metric.present(reading, self.constants)
            assert present is not None
            values = np.where((self.whole & ~present).any(-1), np.nan, values)
        return values

    def take(self, draw: Draw) -> None:
        values = self.read(draw)
        self.replicates.append(values)
        if self.vector is not None:
            assert self.metric.norm is not None
            noise = self.metric.noise(draw.read(self.evidence), self.constants)
            assert noise is not None
            moved = noise - self.vector
            self.distances.append(self.metric.norm(np.where(np.isnan(self.vector), np.nan, moved)))

    @property
    def drawn(self) -> Floats:
        """The values of all resamples, NaN where undefined."""
        return np.concatenate(self.replicates) if self.replicates else np.empty(0)

    @property
    def clusters(self) -> int:
        """Clusters that contribute rows."""
        return int(np.count_nonzero(self.evidence.rows))

    @property
    def strata(self) -> Codes | None:
        """Which clusters are drawn together, where they are not all: those of tasks that share none are apart."""
        return self.evidence.strata if isinstance(self.evidence, Tasks) else None

    @property
    def is_score(self) -> bool:
        """True for a row mean."""
        return isinstance(self.evidence, Sums) and self.evidence.is_score and self.up_to is None

    @property
    def is_share(self) -> bool:
        """True for a row mean of zeros and ones that is a share of rows."""
        return self.is_score and self.evidence.binary and self.metric.is_share

    @property
    def score_sums(self) -> tuple[Floats, Floats]:
        """Total and rows of every cluster, of a row mean."""
        return np.asarray(self.evidence.cells[:, 0], float), np.asarray(self.evidence.cells[:, 1], float)

    @property
    def limits(self) -> tuple[float, float] | None:
        """The range of the values: as declared, or what shares and losses cannot exceed; None if there is no end."""
        low, high = self.metric.bounds
        if low is not None and high is not None:
            return float(low), float(high)
        if self.is_share:
            return 0.0, 1.0
        normed = low == 0 and self.constants.get("loss") in ("zero_one", "abs_norm")
        return (0.0, 1.0) if normed and float(np.max(self.evidence.value, initial=0.0)) <= 1 else None


def sample(metric: Metric, side: Side, constants: Mapping[str, Any], up_to: float | None = None) -> Sample:
    """Collect a metric's evidence and read its value."""
    evidence = side.evidence(metric, constants)
    s = Sample(metric=metric, constants=constants, evidence=evidence, side=side, up_to=up_to)
    return read_sample(s, side.unit)


def read_sample(s: Sample, unit: Draw) -> Sample:
    """The sample with its value, its vector and its detail read from its evidence."""
    metric, constants = s.metric, s.constants
    reading = unit.read(s.evidence)
    s.value = float(s.finish(reading)[0])
    present = metric.present(reading, constants)
    s.whole = None if present is None else present[0]
    noise = metric.noise(reading, constants) if metric.norm is not None and not math.isnan(s.value) else None
    s.vector = None if noise is None else noise[0]
    if int(s.evidence.rows.sum()) and s.up_to is None:
        s.detail = metric.detail(reading, constants)
    return s


def resample(samples: Sequence[Sample], settings: Settings, progress: Progress | None = None) -> None:
    """Read every sample under the same weights, block by block."""
    if not samples:
        return
    groups: dict[bytes | None, list[Sample]] = {}
    for s in samples:
        groups.setdefault(None if s.strata is None else s.strata.tobytes(), []).append(s)
    for done, together in enumerate(groups.values()):
        inside = None if progress is None else _share_of(progress, done, len(groups))
        _resampled_alike(together, settings, inside)


def _share_of(progress: Progress, done: int, count: int) -> Progress:
    return lambda share: progress((done + share) / count)


def _resampled_alike(samples: Sequence[Sample], settings: Settings, progress: Progress | None) -> None:
    """Read samples whose clusters are drawn alike: all of them together, or within the same strata."""
    ids = samples[0].evidence.ids
    weights = Weights(
        len(ids),
        resamples=settings.resamples,
        seed=settings.seed,
        stream=settings.stream,
        order=legacy_order(ids) if settings.stream == "legacy" else None,
        strata=samples[0].strata,
    )
    widths = {id(s.evidence): s.evidence.width for s in samples}
    width = max(sum(widths.values()), len(ids), 1)
    size = max(16, min(settings.resamples, _BLOCK_NUMBERS // width) // 16 * 16)
    done = 0
    for block in weights.blocks(size):
        draw = Draw(block)
        for s in samples:
            s.take(draw)
        done += len(block)
        if progress is not None:
            progress(done / settings.resamples)


def jackknife(samples: Sequence[Sample], present: npt.NDArray[np.int64] | None = None) -> None:
    """Leave-one-out values of every sample; what shares evidence is read once."""
    groups: dict[int, list[Sample]] = {}
    for s in samples:
        groups.setdefault(id(s.evidence), []).append(s)
    for together in groups.values():
        left_out = leave_one_out(together[0].evidence, [s.finish for s in together], present)
        for s, values in zip(together, left_out, strict=True):
            s.left_out = values
