"""Bands of curves: what resampling by hand gives, at every coverage."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.records.table import Records
from steelyard.study.selective import RANK, curve_metric
from steelyard.uncertainty.bands import MOST_LOST, curve_band
from steelyard.uncertainty.estimate import Settings

METRIC = curve_metric("aurc", "abs", None)


def run(seed: int, people: int, declines: float = 0.0) -> Records:
    rng = np.random.default_rng(seed)
    size = people * 4
    columns = {
        "item": [f"{i}" for i in range(size)],
        "cluster": [i // 4 for i in range(size)],
        "target": (np.arange(size) % 4).tolist(),
        "prediction": [None if rng.random() < declines else int(rng.integers(0, 4)) for _ in range(size)],
        RANK: rng.random(size).round(2),
    }
    return Records.from_columns(columns, task={"range": 3})


@pytest.mark.parametrize("declines", [0.0, 0.4])
def test_a_band_is_what_resampling_by_hand_gives_and_holds_its_curve(declines: float) -> None:
    records = run(5, 10, declines)
    band = curve_band(records, METRIC, Settings(resamples=200, method="plain", stream="legacy"))
    assert band is not None
    rank, target = np.asarray(records.array(RANK)), np.asarray(records.array("target"))
    said = np.asarray(records.array("prediction"))
    answered = ~np.isnan(said)
    rng = np.random.RandomState(42)
    curves: dict[str, list[np.ndarray]] = {"selective": [], "generalized": []}

    def curve(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kept = rows[answered[rows]]
        order = kept[np.argsort(-rank[kept], kind="stable")]
        loss = np.cumsum(np.abs(said[order] - target[order]))
        ends = np.flatnonzero(np.r_[rank[order][1:] != rank[order][:-1], True])
        coverage = (ends + 1) / 40
        selective = np.interp(band.coverage, coverage, loss[ends] / (ends + 1), right=np.nan)
        joint = np.interp(band.coverage, np.r_[0, coverage], np.r_[0, loss[ends] / 40], right=np.nan)
        return selective, joint

    for _ in range(200):
        rows = np.concatenate([np.arange(4 * c, 4 * c + 4) for c in rng.randint(0, 10, 10)])
        for name, found in zip(curves, curve(rows), strict=True):
            curves[name].append(found)
    whole = dict(zip(curves, curve(np.arange(40)), strict=True))
    for name, listed in curves.items():
        drawn = np.array(listed)
        gone = np.isnan(drawn).mean(0) > MOST_LOST
        low, high = getattr(band, name)
        assert np.isnan(low[gone]).all()
        wanted = np.nanquantile(drawn[:, ~gone], (0.025, 0.975), axis=0)
        assert low[~gone] == pytest.approx(wanted[0], abs=1e-12)
        assert high[~gone] == pytest.approx(wanted[1], abs=1e-12)
        inside = (low <= whole[name] + 1e-12) & (whole[name] <= high + 1e-12)
        assert inside[~gone].mean() > 0.95


def test_no_band_without_something_to_resample() -> None:
    assert curve_band(run(6, 1), METRIC, Settings(method="plain")) is None
    assert curve_band(run(6, 4), METRIC, Settings(resamples=0, method="plain")) is None
