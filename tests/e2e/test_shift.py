"""`steelyard shift` and `segment` as a user meets them: files, numbers, messages and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import command
from tests.support.retrieval import FAST, World, schema

DOCUMENTED = (
    "WorkflowName", "CreatedUtc", "BaseDirectory", "ComparisonRuns", "TrainingMode", "CancelOutEpsilon", "IsCancelled",
    "CancelReason", "DeltaVector", "DeltaNorm", "ImprovementFirst", "ImprovementFirstPlusDelta", "DeltaImprovement",
)  # fmt: skip
STATS = {
    "Pairs", "UniquePairs", "ZeroDirections", "Clipped", "NormBeforeClip", "DirectionNormMin", "DirectionNormMean",
    "DirectionNormMax", "CancelOutSuspected",
}  # fmt: skip


# -- shift -------------------------------------------------------------------------------------------------------------


def test_a_training_is_kept_with_all_documented_keys(world: World) -> None:
    folder = Path(world.training["Folder"])
    names = ["held-out-gain.pdf", "held-out-gain.png", "held-out-gain.svg", "shift-training-result.json"]
    assert sorted(path.name for path in folder.iterdir()) == [*names, "shift-training-result.md"]
    document = json.loads((folder / "shift-training-result.json").read_text())
    assert document == {key: value for key, value in world.training.items() if key != "Folder"}
    assert tuple(document)[: len(DOCUMENTED)] == DOCUMENTED
    assert set(document["Stats"]) == STATS
    assert document["TrainingMode"] == "posneg-uniform"
    assert document["IsCancelled"] is False
    assert document["DeltaNorm"] == pytest.approx(np.linalg.norm(document["DeltaVector"]))
    assert document["Stats"]["NormBeforeClip"] >= document["DeltaNorm"]
    held_out = document["HeldOut"]
    assert held_out["Helps"] is True
    assert held_out["Interval"][0] > 0
    assert document["DeltaImprovement"] == document["ImprovementFirstPlusDelta"] == held_out["Score"]
    assert len(held_out["Folds"]) == 5
    assert sum(fold["Queries"] for fold in held_out["Folds"]) == held_out["Queries"] == 80
    gains = {gain["Metric"]: gain["Delta"] for gain in held_out["Gains"]}
    assert 0.7 * gains["map@1"] + 0.3 * gains["ndcg@3"] == pytest.approx(held_out["Score"])
    assert len(document["QueryDigests"]) == 80
    schema("shift-training-result", world.root).validate(document)
    report = (folder / "shift-training-result.md").read_text()
    assert "](held-out-gain.png)" in report
    assert "largest dimensions" in report
    assert "held-out-gain.png" in report
    for suffix, start in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
        assert (folder / f"held-out-gain.{suffix}").read_bytes().startswith(start)


def test_looking_at_trainings(world: World) -> None:
    id = world.training["TrainingId"]
    assert world.ok("shift", "inspect", id, "--format", "json")["TrainingId"] == id
    assert world.ok("shift", "inspect", id[:10], "--format", "json")["TrainingId"] == id
    assert world.ok("shift", "inspect", "best", "--format", "json")["TrainingId"] == id
    file = Path(world.training["Folder"]) / "shift-training-result.json"
    assert world.ok("shift", "inspect", file, "--format", "json")["TrainingId"] == id
    history = world.ok("shift", "history", "--format", "json")
    assert history["best"] == id
    assert [t["training"] for t in history["trainings"]] == [id]
    assert history["problems"] == []
    best = world.ok("shift", "best", "--format", "json")
    assert best["best"]["training"] == id
    assert best["best"]["held_out_score"] == world.training["HeldOut"]["Score"]
    assert world.ok("shift", "history", "--workflow", "other", "--format", "json")["trainings"] == []
    for style in ("table", "markdown"):
        for arguments in (("inspect", id), ("history",), ("best",)):
            done = world("shift", *arguments, "--format", style)
            assert done.code == 0, done.err
            assert id in done.out.replace("\\", "")
    assert "HELPS" in world("shift", "inspect", id).out
    assert world("shift", "best", "--tenant", "other").code == 1
    assert world("shift", "best", STEELYARD_TENANT="other").code == 1


def test_the_best_training_is_found_without_further_options(world: World) -> None:
    """`shift train` and `retrieval run --shift best`, both as they are by default, belong together."""
    done = world("retrieval", "run", *world.files, *FAST, "--no-save", "--shift", "best", "--format", "json")
    assert done.code == 0, done.err
    assert done.json["shift"]["name"] == world.training["TrainingId"]


def test_an_empty_shift_applies_none(world: World) -> None:
    done = world("retrieval", "run", *world.files, *FAST, "--no-save", "--shift", "", "--format", "json")
    assert done.code == 2 or "deltas" not in done.json


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Queries whose relevant document is always first: nothing can be learned."""
    world = World.__new__(World)
    world.folder = tmp_path_factory.mktemp("settled")
    world.root = world.folder / "root"
    docs = [{"id": f"d{i}", "vector": list(row)} for i, row in enumerate(np.eye(5))]
    queries = [
        {"id": f"q{i}", "vector": list(np.eye(5)[i % 5] + 0.01), "relevantDocId": f"d{i % 5}"} for i in range(20)
    ]
    (world.folder / "docs.json").write_text(json.dumps(docs))
    (world.folder / "queries.json").write_text(json.dumps(queries))
    world.files = (world.folder / "docs.json", world.folder / "queries.json")
    world.training = world.ok("shift", "train", *world.files, *FAST, "--format", "json")
    return world


def test_a_cancelled_training_is_never_chosen(settled: World) -> None:
    training, id = settled.training, settled.training["TrainingId"]
    assert training["IsCancelled"] is True
    assert training["CancelReason"] == "Delta norm 0.000000 below epsilon 0.001000"
    assert training["Stats"]["Pairs"] == 0
    assert any("nothing to learn" in note for note in training["Notes"])
    schema("shift-training-result", settled.root).validate({k: v for k, v in training.items() if k != "Folder"})
    best = settled("shift", "best", "--format", "json")
    assert best.code == 1
    assert best.json["best"] is None
    assert best.json["rejected"] == [{"training": id, "reason": "cancelled"}]
    assert "cancelled" in settled("shift", "history").out
    run = ("retrieval", "run", *settled.files, *FAST, "--no-save", "--format", "json")
    refused = settled(*run, "--shift", "best:PosNeg")
    assert refused.code == 2
    assert "1 cancelled" in refused.err
    for shift in (id, Path(training["Folder"]) / "shift-training-result.json"):
        refused = settled(*run, "--shift", shift)
        assert refused.code == 2
        assert "--allow-cancelled" in refused.err
        allowed = settled(*run, "--shift", shift, "--allow-cancelled")
        assert allowed.code == 0, allowed.err
        assert any("cancelled" in note for note in allowed.json["notes"])
    npz = settled.folder / "q.npz"
    np.savez(npz, vectors=np.eye(5))
    assert settled("shift", "apply", id, npz, "-o", settled.folder / "o.npz").code == 2
    allowed = settled("shift", "apply", id, npz, "-o", settled.folder / "o.npz", "--allow-cancelled")
    assert allowed.code == 0
    assert "cancelled" in allowed.err
    assert "CANCELLED" in settled("shift", "inspect", id).out


def test_applying_a_shift_to_vectors(world: World, tmp_path: Path) -> None:
    queries, out = tmp_path / "q.npz", tmp_path / "out.npz"
    np.savez(queries, vectors=world.queries, ids=[f"q{i}" for i in range(80)], gold=["d1"] * 79 + [""])
    done = world("shift", "apply", "best", queries, "-o", out, "--scale", 0.5)
    assert done.code == 0, done.err
    with np.load(out) as arrays:
        moved = world.queries + 0.5 * np.array(world.training["DeltaVector"])
        assert np.allclose(arrays["vectors"], moved, atol=1e-12)
        assert arrays["ids"].tolist()[:2] == ["q0", "q1"]
        assert arrays["gold"].tolist()[-2:] == ["d1", ""]
    for target in (tmp_path / "out.json", queries):
        assert world("shift", "apply", "best", queries, "-o", target).code == 2
    np.savez(tmp_path / "other.npz", vectors=np.ones((2, 3)))
    assert world("shift", "apply", "best", tmp_path / "other.npz", "-o", tmp_path / "x.npz").code == 3
    assert not (tmp_path / "x.npz").exists()
    assert world("shift", "apply", "none", queries, "-o", out).code == 0


def test_shifted_vectors_that_are_not_finite_are_not_written(world: World, tmp_path: Path) -> None:
    queries, shift = tmp_path / "q.npz", tmp_path / "far.json"
    np.savez(queries, vectors=np.ones((3, 2), np.float32))
    shift.write_text(json.dumps({"vector": [1e39, 0.0]}))  # more than single precision can hold
    arguments = ("shift", "apply", shift, queries, "-o", tmp_path / "out.npz")
    done = command(*arguments, STEELYARD_ROOT=str(world.root))
    assert done.returncode in (2, 3), done.stderr
    assert not (tmp_path / "out.npz").exists()
    assert "Warning" not in done.stderr


# -- segment -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [("oracle",), ("gap", "--tau", 0.05), ("learned",), ("learned", "-m", "map@1")])
def test_segments_are_proposed_and_compared(rule: tuple[Any, ...], world: World, tmp_path: Path) -> None:
    out = tmp_path / "segments.json"
    done = world("segment", "propose", *world.per_query, "--rule", *rule, "-o", out, "--format", "json")
    assert done.code == 0, done.err
    document = json.loads(out.read_text())
    assert document == done.json
    assert tuple(document)[:5] == ("Metric", "Eps", "BaselinePath", "PosNegPath", "Decisions")
    assert len(document["Decisions"]) == 80
    schema("segments", world.root).validate(document)
    compared = world.ok("segment", "compare", out, *FAST, "--out", tmp_path / "out", "--format", "json")
    assert json.loads((tmp_path / "out" / "segment-comparison.json").read_text()) == compared
    assert compared["used"] == 80
    assert compared["apply"] == sum(word == "ApplyShift" for word in document["Decisions"].values())
    assert compared["baseline"]["map@1"] == pytest.approx(world.shifted["baseline"]["map@1"])
    assert compared["posneg"]["ndcg@3"] == pytest.approx(world.shifted["posneg"]["ndcg@3"])
    (wanted,) = (d for d in world.shifted["deltas"] if d["metric"] == "map@1")
    (found,) = (d for d in compared["deltas"]["posneg - baseline"] if d["metric"] == "map@1")
    assert found["delta"] == pytest.approx(wanted["delta"])
    assert found["interval"] == pytest.approx(wanted["interval"])
    if rule[0] == "oracle":
        assert compared["segmented"]["ndcg@3"] >= max(compared["baseline"]["ndcg@3"], compared["posneg"]["ndcg@3"])
        assert any("upper bound" in note for note in compared["notes"])
    for style in ("table", "markdown"):
        proposed = world("segment", "propose", *world.per_query, "--rule", *rule, "-o", out, "--format", style)
        assert proposed.code == 0
        assert "of 80 queries" in proposed.out
        shown = world("segment", "compare", out, *FAST, "--format", style)
        assert shown.code == 0
        assert "segmented - shifted" in shown.out
