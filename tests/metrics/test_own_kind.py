"""A plug-in with a kind of evidence of its own, written here alone: evaluated, kept, compared from disk and gated."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import StorageError, UsageError
from steelyard.metrics import metrics as registry
from steelyard.metrics.evidence import codec
from steelyard.metrics.evidence.codec import kind, kind_named, kind_of, kinds
from steelyard.records.table import Records
from steelyard.study.evaluation import evaluate
from steelyard.study.kept_wire import packed, unpacked

PLUGIN = '''
from dataclasses import dataclass, field, replace

import numpy as np

from steelyard import metric
from steelyard.metrics.evidence.clusters import added, spread
from steelyard.metrics.evidence.codec import kind
from steelyard.records.clusters import Clusters


@dataclass(frozen=True)
class Peaks:
    """The slowest row of every cluster, and the rows: neither a sum nor an order of rows."""

    peak: np.ndarray
    ids: Clusters
    rows: np.ndarray
    excluded: dict = field(default_factory=dict)

    @property
    def width(self):
        return len(self.ids)

    def under(self, draw):
        return np.where(draw.floats > 0, draw.floats * self.peak, 0.0), draw.floats * (self.rows > 0)

    def on(self, ids, place):
        peak, rows = (spread(each, place, len(ids)) for each in (self.peak, self.rows))
        return replace(self, peak=peak, ids=ids, rows=rows)

    def among(self, clusters):
        return replace(self, peak=self.peak[clusters], ids=self.ids.at(clusters), rows=self.rows[clusters])

    def differs(self, other):
        return (self.peak != other.peak) | (self.rows != other.rows)

    def merge(self, other, merger):
        peak = spread(self.peak, merger.mine, len(merger.ids))
        np.maximum.at(peak, merger.theirs, other.peak)
        rows = merger.added(self.rows, other.rows)
        return Peaks(peak, merger.ids, rows, added(self.excluded, other.excluded))

    def stacked(self, other):
        ids = self.ids.stacked(other.ids)
        return Peaks(np.r_[self.peak, other.peak], ids, np.r_[self.rows, other.rows])


kind(
    "peaks of clusters",
    pack=lambda peaks: {"milliseconds": peaks.peak, "ids": peaks.ids, "rows": peaks.rows, "lost": peaks.excluded},
    unpack=lambda packed: Peaks(packed["milliseconds"], packed["ids"], packed["rows"], packed["lost"]),
)(Peaks)


@dataclass(frozen=True)
class PeakTerms:
    latency: np.ndarray
    left_out: dict = field(default_factory=dict)
    missing: dict = field(default_factory=dict)

    def collect(self, ids, cluster):
        kept = ~np.isnan(self.latency)
        peak = np.zeros(len(ids))
        np.maximum.at(peak, cluster[kept], self.latency[kept])
        return Peaks(peak, ids, np.bincount(cluster[kept], minlength=len(ids)).astype(np.int64)), kept


@metric(better="lower", bounds=(0, None), unit="ms", formula="mean over clusters of the slowest row")
def mean_peak(latency_ms):
    """Mean over clusters of the slowest row."""
    return PeakTerms(latency_ms)


@mean_peak.finish
def _(reading):
    peaks, clusters = reading
    return peaks.sum(-1) / clusters.sum(-1)
'''
RUN = "from steelyard.cli.main import main; main()"
NAME = "own_kind:mean_peak"


class Commands:
    """Commands in fresh processes, next to the plug-in: nothing is known that was not said."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "own_kind.py").write_text(PLUGIN)

    def __call__(self, *arguments: Any, code: tuple[int, ...] = (0,)) -> Any:
        source = str(Path(__file__).parents[2] / "src")
        paths = os.pathsep.join([source, str(self.place)])
        environment = {**os.environ, "PYTHONPATH": paths, "STEELYARD_ROOT": str(self.place / "store")}
        line = [sys.executable, "-c", RUN, *map(str, arguments)]
        done = subprocess.run(line, env=environment, cwd=self.place, capture_output=True, text=True, timeout=300)
        assert done.returncode in code, done.stderr
        return json.loads(done.stdout) if code == (0,) else done.stdout + done.stderr

    def table(self, name: str, slower: float, seed: int) -> Path:
        rng = np.random.default_rng(seed)
        path = self.place / f"{name}.jsonl"
        rows = [
            {
                "item": i,
                "cluster": i % 30,
                "target": "a",
                "prediction": "a" if rng.random() < 0.8 else "b",
                "latency_ms": slower + 10 * float(rng.random()),
                "group.site": "xy"[i % 2],
            }
            for i in range(120)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def saved(self, name: str, slower: float, seed: int) -> str:
        asked = (self.table(name, slower, seed), "--metric", NAME, "--metric", "accuracy")
        more = ("--by", "group.site", "--cluster", "cluster", "--resamples", 200, "--save", "--run-id", name)
        found = self("evaluate", *asked, *more, "--format", "json")
        mine = next(e for e in found["estimates"] if e["metric"] == NAME and not e["slice"])
        assert mine["interval"][0] < mine["value"] < mine["interval"][1]
        assert any(e["metric"] == NAME and e["slice"] for e in found["estimates"])
        return name


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    return Commands(tmp_path_factory.mktemp("own"))


def test_a_kind_of_its_own_is_kept_compared_and_gated(commands: Commands) -> None:
    commands.saved("before", 100.0, 1)
    commands.saved("after", 120.0, 2)
    found = commands("runs", "compare", "--metric", NAME, "--against", "before", "--format", "json")
    (row,) = (row for row in found["runs"] if row["run_id"] == "after")
    assert row["verdict"] == "worse"
    assert row["delta"] == pytest.approx(20, abs=2)
    pair = ("gate", "--run", "after", "--baseline", "before", "--format", "json")
    assert commands(*pair, "--rule", f"high(delta({NAME})) <= 30")["verdict"] == "pass"
    assert '"verdict": "fail"' in commands(*pair, "--rule", f"high(delta({NAME})) <= 5", code=(1,))
    alone = commands(
        *pair, "--rule", "low(delta(accuracy)) >= -1", code=(5,)
    )  # the plug-in is not named, so not loaded
    assert "the kind of evidence 'peaks of clusters'" in alone
    assert "install the plug-in" in alone


@pytest.fixture
def counted() -> Iterator[type]:
    @dataclass(frozen=True)
    class RowCounts:
        n: int
        held: Any

    yield RowCounts
    if "counted" in kinds:
        kinds.remove("counted")


def test_the_fields_of_a_dataclass_are_its_form_on_disk(counted: type) -> None:
    assert kind("counted")(counted) is counted
    value = counted(3, ("x",))
    assert kind_of(value).pack(value) == {"n": 3, "held": ("x",)}
    assert kind_named("counted").unpack({"n": 3, "held": ("x",)}) == value


def test_a_renamed_attribute_keeps_its_name_on_disk(counted: type) -> None:
    kind("counted", "count=n held")(counted)
    assert kind_named("counted").pack(counted(3, None)) == {"count": 3, "held": None}
    assert kind_named("counted").unpack({"count": 3, "held": None}) == counted(3, None)


def test_a_name_belongs_to_one_kind_and_may_be_imported_again(counted: type) -> None:
    kind("counted")(counted)
    kind("counted")(counted)
    with pytest.raises(UsageError, match="the kind of evidence 'Sums' is defined twice"):
        kind("Sums")(counted)


def records() -> Records:
    columns = {
        "item": [1, 2, 3, 4],
        "target": list("aabb"),
        "prediction": list("abbb"),
        "confidence": [0.9, 0.2, 0.3, 1],
    }
    return Records.from_columns(columns)


def test_what_no_kind_is_registered_for_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = evaluate(records(), ["accuracy"], resamples=100, keep_evidence=True).kept
    monkeypatch.delitem(kinds._items, "Sums")
    with pytest.raises(UsageError, match=r"the class Sums cannot be kept; register it"):
        packed(kept)


def renamed(data: bytes, old: str, new: str) -> bytes:
    """Kept evidence with one name on disk replaced by another."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        held = dict(arrays)
    text = held["header"].tobytes().decode()
    assert f'"{old}"' in text
    held["header"] = np.frombuffer(text.replace(f'"{old}"', f'"{new}"').encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **held)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("metric", "name", "what"),
    [("accuracy", "Sums", "kind of evidence"), ("aurc", "CurveReading", "reading of evidence")],
)
def test_an_unknown_name_on_disk_is_named(metric: str, name: str, what: str) -> None:
    data = packed(evaluate(records(), [metric], resamples=100, keep_evidence=True).kept)
    with pytest.raises(StorageError, match=f"the {what} 'Wavelets', which nothing here has registered; install"):
        unpacked(renamed(data, name, "Wavelets"))


def test_every_kind_and_reading_has_the_name_that_files_hold() -> None:
    """Names on disk are for good: a file of the first edition holds them."""
    assert {"Kept", "Sums", "SortedRows", "Rows", "Groups", "Parts", "Signed"} <= set(kinds)
    assert {"SortedReading", "CurveReading"} <= set(codec._readings)
    assert "mean_peak" not in registry
