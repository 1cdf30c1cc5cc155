"""Sides collected apart and merged are the side of all rows in one table: for every metric, however rows are split."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.metrics.collector import Collector, United, side_of, united
from steelyard.metrics.definition import Metric, metric_of
from steelyard.metrics.evidence.clusters import Merger
from steelyard.records.clusters import Clusters
from steelyard.records.readers import read
from steelyard.records.table import Records
from steelyard.study.comparison import compare
from steelyard.study.evaluation import Evaluation, evaluate
from steelyard.study.kept_wire import packed
from steelyard.uncertainty.estimate import estimates
from steelyard.uncertainty.number import Estimate
from steelyard.uncertainty.sampling import Sample
from steelyard.uncertainty.settings import Settings
from tests.support.tables import every_instance, fitting, is_numeric, tables_apart

SETTINGS = Settings(resamples=100)
Table = tuple[bool, bool]  # with numbers as targets, with partners


@cache
def instances() -> dict[Table, list[Metric]]:
    """Every instance of every metric, by the table that it can be read from."""
    found: dict[Table, list[Metric]] = {}
    for metric in map(metric_of, every_instance()):
        found.setdefault((is_numeric(metric), metric.perturbed_only), []).append(metric)
    return found


@cache
def whole(kind: Table) -> tuple[Records, Collector, list[tuple[Estimate, Sample]]]:
    """The table in one piece, and what every metric says of it."""
    metrics = instances()[kind]
    (records,) = tables_apart(fitting(metrics[0], np.random.default_rng(5)), np.zeros(30 if kind[1] else 60))
    side = Collector(records)
    return records, side, estimates(side, metrics, SETTINGS, {})


def apart(records: Records, part: np.ndarray) -> Collector | United:
    """The side of tables that know nothing of each other."""
    rows = [np.flatnonzero(part == p) for p in np.unique(part)]
    sides = zip(tables_apart(records, part), rows, strict=True)
    return united([Collector(table, rows=own) for table, own in sides])


def split(records: Records, by: str, parts: int) -> np.ndarray:
    ids, cluster = records.cluster
    if by == "rows":
        return np.random.default_rng(parts).integers(0, parts, len(records))
    return (np.arange(len(ids)) % parts)[cluster]


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("by", ["rows", "cluster"])
@pytest.mark.parametrize("kind", list(instances()))
def test_merged_sides_are_the_side_of_the_whole_table(kind: Table, by: str, parts: int) -> None:
    records, one, wanted = whole(kind)
    side = apart(records, split(records, by, parts))
    assert side.ids == one.ids
    assert side.counts == one.counts
    for (e, s), (w, t) in zip(estimates(side, instances()[kind], SETTINGS, {}), wanted, strict=True):
        alike(e, w)
        assert s.evidence.rows.tolist() == t.evidence.rows.tolist(), e.metric
        assert dict(s.evidence.excluded) == dict(t.evidence.excluded), e.metric
        missing = [a.missing(s.metric, b.constants).tolist() for a, b in ((side, s), (one, t))]
        assert missing[0] == missing[1], e.metric


def alike(e: Estimate, wanted: Estimate) -> None:
    near(e.value, wanted.value, 1e-12)
    near(e.interval, wanted.interval, 1e-9)
    same = ("metric", "slice", "n", "clusters", "n_missing", "n_abstained", "n_predictions", "method", "notes")
    for name in (*same, "cautions", "undefined_resamples"):
        assert getattr(e, name) == getattr(wanted, name), (e.metric, name)
    assert dict(e.excluded) == dict(wanted.excluded), e.metric


def near(got: Any, wanted: Any, tolerance: float) -> None:
    """A number, an interval or nothing, alike up to a tolerance that is relative."""
    assert (got is None) == (wanted is None)
    assert got is None or got == pytest.approx(wanted, rel=tolerance, abs=tolerance)


def test_what_metrics_share_is_merged_once() -> None:
    records, _, _ = whole((False, False))
    side = apart(records, split(records, "rows", 3))
    alone, gap, product = map(metric_of, ("accuracy", "fairness_gap(accuracy, by=group.site)", "aurc"))
    accuracy: Any = side.evidence(alone, side.constants(alone))
    groups: Any = side.evidence(gap, side.constants(gap))
    assert groups.overall is accuracy
    area, risk = (metric_of(name) for name in ("augrc", "risk_at(c=0.2)"))
    assert len({id(side.evidence(m, side.constants(m))) for m in (product, area, risk)}) == 1


def test_lists_of_clusters_of_other_kinds_unite_in_the_order_of_a_table() -> None:
    """By text, null first; the kind only where the text is equal, so that an id 7 and an id "7" stay two clusters."""
    numbers = Clusters.of([(None, 2), ("a", 10), ("a", 2), ("b", 7)])
    texts = Clusters.of([(None, "10"), ("a", "10"), ("b", "7")])
    joint = Merger(numbers, texts)
    assert list(joint.ids) == [(None, "10"), (None, 2), ("a", 10), ("a", "10"), ("a", 2), ("b", 7), ("b", "7")]
    assert (joint.mine.tolist(), joint.theirs.tolist()) == ([1, 2, 4, 5], [0, 3, 6])
    same = Merger(numbers, Clusters.of(numbers.ids))
    assert (same.ids, same.mine.tolist(), same.theirs.tolist()) == (numbers, [0, 1, 2, 3], [0, 1, 2, 3])


# -- files -------------------------------------------------------------------------------------------------------------

ASKED = [
    *("accuracy", "f1_macro", "ece", "latency.p50", "selective_accuracy", "robustness_score(accuracy)"),
    *("fairness_gap(accuracy, by=group.site)", "elapsed_seconds", "flip_rate", "p_calibrated"),
]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, list[str]]:
    """The rows of a table in three files, one after the other and all together; patients and questions live in several.

    The third has no confidences.
    """
    rng = np.random.default_rng(1)
    rows = []
    for i in range(150):
        said = None if rng.random() < 0.1 else "ab"[int(rng.random() < 0.6)]
        row = {"item": i // 2, "perturbation": [None, "typo"][i % 2], "patient": f"p{i // 2 % 12}", "prediction": said}
        row |= {"group.site": "xyz"[i // 2 % 3], "target": "b", "latency_ms": float(rng.integers(1, 99))}
        row["confidence"] = None if i >= 101 or said is None else float(rng.random())
        rows.append(json.dumps(row) + "\n")
    named = {"apart": [rows[:40], rows[40:101], rows[101:]], "together": [rows]}
    paths: dict[str, list[str]] = {}
    for name, parts in named.items():
        for i, part in enumerate(parts):
            path = tmp_path / f"{name}{i}.jsonl"
            path.write_text("".join(part))
            paths.setdefault(name, []).append(str(path))
    return paths


def asked(paths: list[str], **more: Any) -> Evaluation:
    reading: dict[str, Any] = {"cluster": "patient", "task": {"facts": {"wall_seconds": 12.0}}}
    return evaluate(read(paths, **reading), ASKED, resamples=200, keep_evidence=True, **more)


@pytest.mark.parametrize("more", [{"pool": "perturbation"}, {"by": ["group.site"]}])
def test_several_files_are_collected_apart_and_give_what_one_file_gives(
    files: dict[str, list[str]], more: dict[str, Any]
) -> None:
    several, one = (asked(paths, **more) for paths in files.values())
    assert len(several) == len(one) > 0
    for e, wanted in zip(several, one, strict=True):
        alike(e, wanted)
    for kept, other in zip(several.kept, one.kept, strict=True):
        for name in ("ids", "asked", "failed", "answered"):
            assert getattr(kept, name) == getattr(other, name)
        lacking = [{name: d.tolist() for name, d in each.lacking.items()} for each in (kept, other)]
        assert lacking[0] == lacking[1]
    arrays = [len(np.load(io.BytesIO(packed(result.kept))).files) for result in (several, one)]
    assert arrays[0] == arrays[1]  # what is shared is written once


def test_the_side_of_several_files_is_one_of_each(files: dict[str, list[str]]) -> None:
    table = read(files["apart"], cluster="patient")
    assert [rows.tolist() for rows in table.by_source()] == [
        list(range(40)),
        list(range(40, 101)),
        list(range(101, 150)),
    ]
    some = table.filter("group.site=x").take(np.arange(40)[::-1])
    assert sorted(i for rows in some.by_source() for i in rows.tolist()) == list(range(40))
    for rows in some.by_source():
        assert len({some.where(int(row))[0] for row in rows}) == 1
    assert isinstance(side_of(table), United)
    assert isinstance(side_of(read(files["together"], cluster="patient")), Collector)


def test_of_very_many_files_several_are_collected_together(tmp_path: Path) -> None:
    for i in range(70):
        (tmp_path / f"{i:02d}.jsonl").write_text(
            json.dumps({"item": i, "target": "a", "prediction": "ab"[i % 2]}) + "\n"
        )
    table = read([str(path) for path in sorted(tmp_path.iterdir())])
    assert len(table.by_source()) == 70
    side = side_of(table)
    assert isinstance(side, United)
    assert side.rows.tolist() == list(range(70))
    assert max(len(leaf.rows) for leaf in leaves(side)) == 3
    assert evaluate(table, "accuracy", resamples=0)["accuracy"].value == 0.5


def leaves(side: Collector | United) -> list[Collector]:
    return [side] if isinstance(side, Collector) else [leaf for each in side._sides for leaf in leaves(each)]


def test_runs_of_several_files_compare_like_runs_of_one(files: dict[str, list[str]]) -> None:
    several, one = (read(paths, cluster="patient", where="perturbation=none") for paths in files.values())
    other = one.with_columns({"prediction": one.column("target")})
    names = ["accuracy", "f1_macro", "latency.p50", "fairness_gap(accuracy, by=group.site)"]
    got, wanted = (compare(base, other, names, resamples=200) for base in (several, one))
    for a, b in zip(got, wanted, strict=True):
        assert (a.metric, a.verdict) == (b.metric, b.verdict)
        near(a.delta, b.delta, 1e-12)
        near(a.interval, b.interval, 1e-9)
