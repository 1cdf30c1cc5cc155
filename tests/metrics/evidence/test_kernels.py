"""Compiled scans and NumPy give the same numbers, and both give the definition's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from steelyard.ground import compiling
from steelyard.metrics.evidence import curve, kernels, passes, sorted_rows
from steelyard.metrics.evidence.clusters import WHOLE
from steelyard.metrics.evidence.curve import CurveTerms
from steelyard.metrics.evidence.sorted_rows import SortedTerms
from steelyard.metrics.evidence.sums import Draw
from steelyard.metrics.questions.calibration import bin_of
from steelyard.records.table import Records
from steelyard.study.evaluation import evaluate, value
from steelyard.study.kept_wire import packed, unpacked

IDS = tuple((i,) for i in range(23))


def rows(seed: int, ties: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 12, 400) / 11 if ties else rng.random(400)
    return score, np.round(rng.random(400), 2), rng.random(400) < 0.25, rng.integers(0, len(IDS), 400)


def draws(seed: int) -> np.ndarray:
    weights = np.random.default_rng(seed).multinomial(len(IDS), np.full(len(IDS), 1 / len(IDS)), size=35)
    weights[0] = 1
    weights[1] = 0
    weights[1, 3] = 23
    return weights.astype(np.uint8)


@pytest.mark.parametrize("ties", [True, False])
def test_the_curve_is_the_same_on_every_path(ties: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    score, loss, silent, cluster = rows(1, ties)
    terms = CurveTerms(score, np.where(silent, np.nan, loss), silent)
    evidence, _ = terms.collect(IDS, cluster)
    names = ("cmax", "exact", "achievable")

    def read() -> dict[str, np.ndarray]:
        reading = evidence.under(Draw(draws(2)))
        found = {name: getattr(reading, name) for name in names}
        found |= {f"area {i}": a for i, a in enumerate((*reading.areas, *reading.optimal))}
        for c in (0.1, 0.35, 0.5, 0.9, 1.0):
            found |= {f"at {c} {i}": a for i, a in enumerate((*reading.areas_at(c), reading.risk_at(c)))}
        return found

    small = read()
    monkeypatch.setattr(sorted_rows, "_SMALL_TABLE", 0)
    monkeypatch.setattr(curve, "_FEW_POINTS", 0)
    compiled = read()
    monkeypatch.setattr(compiling, "available", lambda: False)
    plain = read()
    for name, wanted in small.items():
        assert compiled[name] == pytest.approx(wanted, rel=1e-11, abs=1e-12, nan_ok=True), name
        assert plain[name] == pytest.approx(wanted, rel=1e-11, abs=1e-12, nan_ok=True), name


@pytest.mark.parametrize("ties", [True, False])
def test_every_resample_may_have_its_own_coverage(ties: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    score, loss, silent, cluster = rows(7, ties)
    evidence, _ = CurveTerms(score, np.where(silent, np.nan, loss), silent).collect(IDS, cluster)
    weights = draws(8)
    up_to = np.random.default_rng(9).uniform(0, 1, len(weights))
    up_to[:6] = 0.0, 1.0, 0.5, 1 / 3, 1e-9, np.nan

    def read() -> np.ndarray:
        return np.array(evidence.under(Draw(weights)).areas_at(up_to))

    small = read()
    one_by_one = [evidence.under(Draw(w[None])).areas_at(float(c)) for w, c in zip(weights, up_to, strict=True)]
    assert small.T.tolist() == pytest.approx(np.array(one_by_one)[:, :, 0], rel=1e-12, nan_ok=True)
    monkeypatch.setattr(sorted_rows, "_SMALL_TABLE", 0)
    compiled = read()
    same = evidence.under(Draw(weights))
    for c in (0.35, 1.0):
        assert np.array_equal(same.areas_at(np.full(len(weights), c)), same.areas_at(c))
    monkeypatch.setattr(compiling, "available", lambda: False)
    plain = read()
    for found in (compiled, plain):
        assert found == pytest.approx(small, rel=1e-11, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("levels", [None, 40])
@pytest.mark.parametrize("clusters", [400, 500, 1000])
def test_tables_on_both_sides_of_the_limit_give_the_same_numbers(
    clusters: int, levels: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(clusters)
    score = rng.random(clusters) if levels is None else rng.integers(0, levels, clusters) / levels
    wrong = (rng.random(len(score)) > score).astype(float)
    ids = tuple((i,) for i in range(clusters))
    evidence, _ = CurveTerms(score, wrong, np.zeros(len(score), bool)).collect(ids, np.arange(clusters))
    weights = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=32).astype(np.uint16)

    def read() -> np.ndarray:
        reading = evidence.under(Draw(weights))
        grid = [reading.risk_at(c) for c in kernels.GRID]
        areas = (*reading.areas, *reading.areas_at(0.5), *reading.optimal)
        return np.array([reading.cmax, *areas, reading.exact, reading.auroc, reading.quantile(0.95), *grid])

    assert evidence.small == (levels is not None or clusters == 400)
    found = read()
    for small in (True, False):
        monkeypatch.setattr(sorted_rows.SortedRows, "small", property(lambda _, small=small: small))
        assert read() == pytest.approx(found, rel=1e-12, abs=1e-12, nan_ok=True)


def test_intervals_are_the_same_on_both_sides_of_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some resamples meet the value exactly; the last bits must not decide on which side of it they are."""
    rng = np.random.default_rng(1)
    sure, target = rng.random(1000), rng.integers(0, 3, 1000)
    said = np.where(rng.random(1000) < sure, target, (target + 1) % 3)
    columns = {"item": np.arange(1000), "target": target, "prediction": said, "confidence": sure}
    records = Records.from_columns(columns, task={"labels": [0, 1, 2]})

    def read() -> list[tuple[float, ...]]:
        return [(e.value, *e.interval) for e in evaluate(records, ["augrc", "eaugrc", "aurc", "auroc"])]

    scanned = read()
    monkeypatch.setattr(sorted_rows.SortedRows, "small", property(lambda _: True))
    assert np.array(read()) == pytest.approx(np.array(scanned), rel=1e-12)


def test_both_areas_up_to_a_coverage_are_one_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    score, loss, silent, cluster = rows(1, False)
    evidence, _ = CurveTerms(score, np.where(silent, np.nan, loss), silent).collect(IDS, cluster)
    reading = evidence.under(Draw(draws(2)))
    first = reading.areas_at(0.5)
    monkeypatch.setattr(curve, "_area", None)
    assert reading.areas_at(0.5) is first


def test_the_scan_is_loaded_only_where_it_pays() -> None:
    def small(rows: int, clusters: int, levels: int) -> bool:
        ids = tuple((i,) for i in range(clusters))
        score = (np.arange(rows) % levels).astype(float)
        return SortedTerms(score).collect(ids, np.arange(rows) % clusters)[0].small

    assert small(328, 41, 328)  # 0.4 s for ten thousand resamples, as long as loading takes
    assert not small(1000, 1000, 1000)  # 3 s
    assert not small(2460, 41, 2460)  # few clusters, but every plateau is read again and again
    assert small(100_000, 10_000, 6)  # hundreds of rows a plateau: a scan would look at each of them
    assert not small(1_000_000, 1_000_000, 6)  # too large a table


@pytest.mark.parametrize("ties", [True, False])
def test_auroc_and_quantiles_are_the_same_on_every_path(ties: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    score, _, _, cluster = rows(3, ties)
    hit = (np.random.default_rng(4).random(400) < score).astype(float)
    evidence, _ = SortedTerms(score, hit).collect(IDS, cluster)
    weights = draws(5)

    def read() -> list[np.ndarray]:
        reading = evidence.under(Draw(weights))
        return [reading.auroc, *(reading.quantile(q) for q in (0.0, 0.05, 0.5, 0.95, 1.0))]

    small = read()
    monkeypatch.setattr(sorted_rows, "_SMALL_TABLE", 0)
    compiled = read()
    monkeypatch.setattr(compiling, "available", lambda: False)
    plain = read()
    for a, b, c in zip(small, compiled, plain, strict=True):
        assert b == pytest.approx(a, rel=1e-12, nan_ok=True)
        assert c == pytest.approx(a, rel=1e-12, nan_ok=True)
    repeated = [np.quantile(np.repeat(score, w[cluster]), 0.95) for w in weights]
    assert small[4] == pytest.approx(repeated, rel=1e-12)


def test_merging_sorted_classes_gives_the_same_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    score = np.concatenate([rng.random(5000), rng.integers(0, 9, 5000) / 8, [-0.0, 0.0, 0.0]])
    wrong = (rng.random(len(score)) > score).astype(float)
    silent = rng.random(len(score)) < 0.1
    terms = CurveTerms(score, np.where(silent, np.nan, wrong), silent)
    one = WHOLE
    cluster = np.zeros(len(score), np.int64)
    usual, _ = terms.collect(one, cluster)
    monkeypatch.setattr(curve, "_POINTS_WORTH", 10)
    merged, _ = terms.collect(one, cluster)
    assert type(merged).__name__ == "PointCurve"
    a, b = (e.under(Draw(np.ones((1, 1)))) for e in (usual, merged))
    for mine, wanted in zip((*b.areas, *b.optimal), (*a.areas, *a.optimal), strict=True):
        assert mine == pytest.approx(wanted, rel=1e-12)
    assert b.exact == pytest.approx(a.exact, rel=1e-12)
    assert b.achievable == pytest.approx(a.achievable, rel=1e-9)
    assert b.coverage == pytest.approx(a.coverage)
    assert b.thresholds.tolist() == a.thresholds.tolist()
    for c in (0.2, 0.77):
        for mine, wanted in zip(b.areas_at(c), a.areas_at(c), strict=True):
            assert mine == pytest.approx(wanted, rel=1e-12)
        assert b.risk_at(c) == pytest.approx(a.risk_at(c), rel=1e-12)


def test_a_table_of_one_cluster_is_evaluated_and_kept_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curve, "_POINTS_WORTH", 10)
    rng = np.random.default_rng(1)
    columns = {
        "item": list(range(40)),
        "target": ["a"] * 40,
        "prediction": rng.choice(["a", "b"], 40).tolist(),
        "confidence": rng.random(40).tolist(),
        "site": ["x"] * 40,
    }
    names = ["aurc", "risk_at(c=0.5)"]
    found = evaluate(Records.from_columns(columns, cluster="site"), names, keep_evidence=True, resamples=100)
    del columns["site"]
    assert found["aurc"].value == pytest.approx(value("aurc", **columns), rel=1e-12)
    (kept,) = unpacked(packed(found.kept))
    assert list(kept.evidence) == names


@pytest.mark.parametrize("bins", [1, 2, 3, 7, 10, 15, 20, 49])
def test_bins_are_the_same_on_every_path(bins: int) -> None:
    edges = np.arange(bins + 1) / bins
    near = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1), [np.nan, -0.0]])
    values = near[np.isnan(near) | ((near >= 0) & (near <= 1))]
    assert passes.bins(values, bins).tolist() == bin_of(values, bins).tolist()


EVERY_KERNEL = """
import json
import numpy as np
from steelyard.metrics.evidence import kernels, passes
from steelyard.retrieval import kernels as tiles

rng = np.random.default_rng(0)
cluster, loss, ends = rng.integers(0, 9, 200), rng.integers(0, 2, 200).astype(float), np.arange(1, 200, 2)
weights = passes.tally(3, 0, 20, 9)
asked = weights.astype(float) @ np.bincount(cluster, minlength=9)
kernels.scan(cluster, loss, ends, weights, asked, 0.5, kernels.GRID)
kernels.scan(cluster, loss, ends, weights, asked, np.linspace(0.1, 1, 20), (0.25,))
kernels.row_by_row(cluster, loss, ends, weights, asked, np.zeros(10_000))
kernels.hull_areas(cluster, loss, ends, weights.astype(float), asked, 1e-10)
passes.summed(cluster, loss, 9)
passes.bins(loss, 10)
kernels.auroc(cluster, loss, ends, weights)
kernels.quantile(cluster, loss, weights, 0.95)
runs = passes.sorted_runs(rng.random(200), loss, np.array([0.0, 1.0]))
passes.merged_areas(*runs, np.array([0.0, 1.0]), 200.0)
passes.merged_points(*runs, np.array([0.0, 1.0]))
tile = rng.random((1024, 1024))
tiles.sides(tile, tile[:, 0] - 1e-9, tile[:, 0])
tiles.lengths(tile)
tiles.dots(tile, tile, np.arange(1024), np.arange(1024))
everything = [*kernels._compiled().values(), *passes._compiled().values(), *tiles._compiled().values()]
print(json.dumps([[k.py_func.__name__, sum(k.stats.cache_hits.values()), sum(k.stats.cache_misses.values())]
                  for k in everything]))
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    def run() -> list[tuple[str, int, int]]:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", EVERY_KERNEL]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return [(name, hits, misses) for name, hits, misses in json.loads(done.stdout)]

    def kept() -> list[Path]:
        return sorted(tmp_path.rglob("*.nbc"))

    assert all(misses for _, _, misses in run()), "a kernel is not in the list above"
    compiled = kept()
    assert [(name, misses) for name, hits, misses in run() if misses or not hits] == []
    assert kept() == compiled


def test_one_hull_of_some_hundred_points_does_not_load_the_compiler() -> None:
    code = """
import sys
import numpy as np
from steelyard.study.evaluation import value
rank = np.random.default_rng(0).random(300)
value("aurc_achievable", target=["a"] * 300, prediction=["a", "b"] * 150, confidence=rank.tolist())
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "False\n", done.stderr
