"""`steelyard retrieval`, `shift` and `segment` as a user meets them: files, numbers, messages and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from tests.support.commands import command, steelyard
from tests.support.retrieval import FAST, World

DOCUMENTED = (
    "WorkflowName", "CreatedUtc", "BaseDirectory", "ComparisonRuns", "TrainingMode", "CancelOutEpsilon", "IsCancelled",
    "CancelReason", "DeltaVector", "DeltaNorm", "ImprovementFirst", "ImprovementFirstPlusDelta", "DeltaImprovement",
)  # fmt: skip
STATS = {
    "Pairs", "UniquePairs", "ZeroDirections", "Clipped", "NormBeforeClip", "DirectionNormMin", "DirectionNormMean",
    "DirectionNormMax", "CancelOutSuspected",
}  # fmt: skip
STYLES = ("table", "json", "markdown")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("retrieval"))


def schema(name: str, root: Path) -> Any:
    done = command("schema", name, root=root)
    assert done.code == 0, done.err
    jsonschema.Draft202012Validator.check_schema(done.json)
    return jsonschema.Draft202012Validator(done.json)


# -- retrieval run -----------------------------------------------------------------------------------------------------


def test_a_baseline_run_is_kept(world: World) -> None:
    folder = Path(world.baseline["folder"])
    assert folder.relative_to(world.root).parts[:4] == ("results", "evaluation", "runs", "PosNeg")
    wanted = ["eval.perQuery.baseline.json", "evaluation.json", "evidence.npz", "ingest.json", "run.json"]
    assert sorted(path.name for path in folder.iterdir()) == wanted
    run = json.loads((folder / "run.json").read_text())
    assert {"RunId", "Workflow", "Tenant", "StartedAtUtc", "CompletedAtUtc", "Labels", "Metrics"} <= set(run)
    assert run["Workflow"] == "PosNeg"
    assert run["Labels"]["shift"] == "none"
    metrics = run["Metrics"]
    assert set(metrics) == set(run["Intervals"]) == {"map@1", "mrr", "ndcg@3", "hit@1"}
    assert metrics["map@1"] == metrics["mrr"]
    for key, (low, high) in run["Intervals"].items():
        assert low <= metrics[key] <= high, key
    assert {count["n_evaluated"] for count in run["Counts"].values()} == {80}
    assert world.baseline["left_out"] == {"no known relevant document": 1}
    assert metrics == world.baseline["baseline"]
    ingest = json.loads((folder / "ingest.json").read_text())
    assert (ingest["documents"], ingest["dimension"], ingest["provider"]) == (30, 8, "given")
    estimates = json.loads((folder / "evaluation.json").read_text())["estimates"]
    assert {e["metric"]: e["value"] for e in estimates} == metrics
    entries = json.loads((folder / "eval.perQuery.baseline.json").read_text())
    assert len(entries) == 80
    assert np.mean([e["Ap1"] for e in entries]) == pytest.approx(metrics["map@1"])
    assert np.mean([e["Rank"] == 1 for e in entries]) == pytest.approx(metrics["hit@1"])


def test_a_run_with_a_shift_is_kept(world: World) -> None:
    folder = Path(world.shifted["folder"])
    assert sorted(path.name for path in folder.iterdir()) == [
        "eval.perQuery.baseline.json", "eval.perQuery.posneg.json", "evaluation.json", "evidence.npz", "ingest.json",
        "metrics-posneg.json", "metrics-posneg.md", "run.json",
    ]  # fmt: skip
    run = json.loads((folder / "run.json").read_text())
    assert run["Labels"]["model"] == "m1"
    assert run["Labels"]["shift"] == world.training["TrainingId"]
    document = json.loads((folder / "metrics-posneg.json").read_text())
    assert document == {key: value for key, value in world.shifted.items() if key not in ("run_id", "folder")}
    assert run["Metrics"] == document["posneg"]
    assert document["baseline"] == world.baseline["baseline"]
    for delta in document["deltas"]:
        key = delta["metric"]
        assert delta["delta"] == pytest.approx(document["posneg"][key] - document["baseline"][key], abs=1e-12)
        assert delta["verdict"] == "better"
    assert document["shift"]["queries_seen_in_training"] == 80
    assert any("judged on what it has seen" in note for note in document["notes"])
    entries = json.loads((folder / "eval.perQuery.posneg.json").read_text())
    assert np.mean([e["Ap1"] for e in entries]) == pytest.approx(run["Metrics"]["map@1"])
    validator = schema("per-query", world.root)
    for name in ("eval.perQuery.baseline.json", "eval.perQuery.posneg.json"):
        for entry in json.loads((folder / name).read_text()):
            validator.validate(entry)
    report = (folder / "metrics-posneg.md").read_text().replace("\\", "")
    assert "| metric" in report
    assert "ndcg@3" in report


def test_runs_compare_gives_the_paired_delta(world: World) -> None:
    for metric in ("map@1", "ndcg@3", "hit@1"):
        against = world.baseline["run_id"]
        found = world.ok("runs", "compare", "-m", metric, "--against", against, "--format", "json")
        (row,) = (row for row in found["runs"] if row["run_id"] == world.shifted["run_id"])
        (wanted,) = (delta for delta in world.shifted["deltas"] if delta["metric"] == metric)
        assert row["value"] == pytest.approx(wanted["new"], abs=1e-12)
        assert row["delta"] == pytest.approx(wanted["delta"], abs=1e-12)
        assert (row["delta_low"], row["delta_high"]) == pytest.approx(wanted["interval"], abs=1e-12)
        assert row["verdict"] == "better"


def test_gate_on_kept_retrieval_runs(world: World) -> None:
    about = ("--run", world.shifted["run_id"], "--baseline", world.baseline["run_id"])
    assert world("gate", *about, "--rule", "low(delta(map@1)) >= 0").code == 0
    assert world("gate", *about, "--rule", "map@1 >= 0.999").code == 1
    assert world("gate", *about, "--rule", "low(delta(ndcg@3)) >= 0.24").code == 6
    back = ("--run", world.baseline["run_id"], "--baseline", world.shifted["run_id"])
    assert world("gate", *back, "--rule", "low(delta(map@1)) >= -0.01").code == 1


def test_the_same_command_prints_the_same_bytes(world: World) -> None:
    arguments = ("retrieval", "run", *world.files, *FAST, "--no-save", "--shift", world.training["TrainingId"])
    for style in STYLES:
        one, two = (world(*arguments, "--format", style) for _ in range(2))
        assert one.code == two.code == 0
        assert one.out == two.out
        assert "map@1" in one.out.replace("\\", "")
        assert ("| " in one.out) == (style == "markdown")
    real = steelyard(*arguments, "--format", "json", STEELYARD_ROOT=str(world.root))
    assert real.returncode == 0, real.stderr
    assert json.loads(real.stdout) == world.ok(*arguments, "--format", "json")


def test_texts_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    topics = ("hail damage to a car", "water in the cellar", "theft of a bicycle", "a broken leg on the ski slope")
    for i, text in enumerate(topics):
        (tmp_path / "docs" / f"policy-{i}.txt").write_text(f"This policy covers {text}.")
    lines = [{"queryId": f"q{i}", "query": text, "relevantDocId": f"POLICY-{i}"} for i, text in enumerate(topics)]
    lines.append({"queryId": "none", "query": "anything", "relevantDocId": None})
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ("--docs", tmp_path / "docs", "--queries", tmp_path / "queries.jsonl", "--embedder", "hash:64")
    done = command("retrieval", "run", *arguments, *FAST, "--format", "json", root=tmp_path / "root")
    assert done.code == 0, done.err
    assert done.json["effective_queries"] == 4
    assert done.json["baseline"]["map@1"] > 0.6
    ingest = json.loads((Path(done.json["folder"]) / "ingest.json").read_text())
    assert (ingest["documents"], ingest["dimension"], ingest["provider"]) == (4, 64, "hash")
    assert len(ingest["inputs"]) == 4


def test_a_cluster_in_the_queries_is_kept(tmp_path: Path, world: World) -> None:
    rows = json.loads((world.folder / "queries.json").read_text())
    rows = [{**row, "cluster": f"patient {i % 16}"} for i, row in enumerate(rows)]
    (tmp_path / "queries.json").write_text(json.dumps(rows))
    arguments = (
        "--docs",
        world.folder / "docs.json",
        "--queries",
        tmp_path / "queries.json",
        "--out",
        tmp_path / "out",
    )
    done = world("retrieval", "run", *arguments, *FAST, "--no-save", "--format", "json")
    assert done.code == 0, done.err
    assert {e["clusters"] for e in done.json["estimates"]["baseline"]} == {16}
    entries = json.loads((tmp_path / "out" / "eval.perQuery.baseline.json").read_text())
    assert [entry["Cluster"] for entry in entries] == [f"patient {i % 16}" for i in range(80)]


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
    world.files = ("--docs", world.folder / "docs.json", "--queries", world.folder / "queries.json")
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
    assert settled("shift", "apply", id, "--queries", npz, "-o", settled.folder / "o.npz").code == 2
    allowed = settled("shift", "apply", id, "--queries", npz, "-o", settled.folder / "o.npz", "--allow-cancelled")
    assert allowed.code == 0
    assert "cancelled" in allowed.err
    assert "CANCELLED" in settled("shift", "inspect", id).out


def test_applying_a_shift_to_vectors(world: World, tmp_path: Path) -> None:
    queries, out = tmp_path / "q.npz", tmp_path / "out.npz"
    np.savez(queries, vectors=world.queries, ids=[f"q{i}" for i in range(80)], gold=["d1"] * 79 + [""])
    done = world("shift", "apply", "best", "--queries", queries, "-o", out, "--scale", 0.5)
    assert done.code == 0, done.err
    with np.load(out) as arrays:
        moved = world.queries + 0.5 * np.array(world.training["DeltaVector"])
        assert np.allclose(arrays["vectors"], moved, atol=1e-12)
        assert arrays["ids"].tolist()[:2] == ["q0", "q1"]
        assert arrays["gold"].tolist()[-2:] == ["d1", ""]
    for target in (tmp_path / "out.json", queries):
        assert world("shift", "apply", "best", "--queries", queries, "-o", target).code == 2
    np.savez(tmp_path / "other.npz", vectors=np.ones((2, 3)))
    assert world("shift", "apply", "best", "--queries", tmp_path / "other.npz", "-o", tmp_path / "x.npz").code == 3
    assert not (tmp_path / "x.npz").exists()
    assert world("shift", "apply", "none", "--queries", queries, "-o", out).code == 0


def test_shifted_vectors_that_are_not_finite_are_not_written(world: World, tmp_path: Path) -> None:
    queries, shift = tmp_path / "q.npz", tmp_path / "far.json"
    np.savez(queries, vectors=np.ones((3, 2), np.float32))
    shift.write_text(json.dumps({"vector": [1e39, 0.0]}))  # more than single precision can hold
    arguments = ("shift", "apply", shift, "--queries", queries, "-o", tmp_path / "out.npz")
    done = steelyard(*arguments, STEELYARD_ROOT=str(world.root))
    assert done.returncode in (2, 3), done.stderr
    assert not (tmp_path / "out.npz").exists()
    assert "Warning" not in done.stderr


# -- retrieval eval ----------------------------------------------------------------------------------------------------


@pytest.fixture
def vectors(tmp_path: Path) -> tuple[Any, ...]:
    rng = np.random.default_rng(3)
    refs = np.abs(rng.normal(size=(9, 4)))
    queries = refs[0] + rng.normal(size=(40, 4))
    np.savez(tmp_path / "refs.npz", vectors=refs)
    np.savez(tmp_path / "queries.npz", vectors=queries)
    for name, vector in (("toward", refs[0] + refs.mean(axis=0)), ("away", -2 * refs[0])):
        (tmp_path / f"{name}.json").write_text(json.dumps({"vector": list(vector)}))
    (tmp_path / "zero.json").write_text(json.dumps({"kind": "multiplicative", "vector": [0.0] * 4}))
    return ("retrieval", "eval", "--refs", tmp_path / "refs.npz", "--queries", tmp_path / "queries.npz", *FAST)


def test_eval_without_and_with_a_baseline(vectors: tuple[Any, ...], tmp_path: Path) -> None:
    root = tmp_path / "root"
    alone = command(*vectors, "--format", "json", root=root)
    assert alone.code == 0, alone.err
    assert len(alone.json["metrics"]) == 9
    assert "deltas" not in alone.json
    both = command(*vectors, "--baseline", "--shift", tmp_path / "toward.json", "--format", "json", root=root).json
    assert len(both["metrics"]) == 21
    assert both["metrics"]["MrrEvaluator.delta"] > 0
    for style in ("table", "markdown"):
        for more in ((), ("--baseline", "--shift", tmp_path / "zero.json")):
            done = command(*vectors, *more, "--format", style, root=root)
            assert done.code == 0, done.err
            assert "NdcgEvaluator" in done.out
            assert "not retrieval" in done.out
    assert "no direction" in command(*vectors, "--shift", tmp_path / "zero.json", root=root).out
    assert not root.exists()


@pytest.mark.parametrize(
    ("shift", "rules", "code"),
    [
        ("toward", ["--gate-profile", "rank"], 0),
        ("toward", ["--gate-profile", "rank+cosine"], 0),
        ("away", ["--gate-profile", "rank"], 1),
        ("zero", ["--gate-profile", "rank"], 0),  # ranks alone are fooled
        ("zero", ["--gate-profile", "rank+cosine"], 1),
        ("away", ["--rule", "low(delta(mean(MarginEvaluator, better=higher))) >= 0"], 6),
        ("toward", ["--rule", "MrrEvaluator.delta >= 0.9"], 1),
    ],
)
def test_eval_with_rules(shift: str, rules: list[str], code: int, vectors: tuple[Any, ...], tmp_path: Path) -> None:
    given = ("--baseline", "--shift", tmp_path / f"{shift}.json", *rules, "--out", tmp_path / "out")
    done = command(*vectors, *given, "--format", "json", root=tmp_path / "root")
    assert done.code == code, done.err + done.out
    gate = json.loads((tmp_path / "out" / "acceptance_gate.json").read_text())
    assert gate == done.json["gate"]
    assert gate["metrics"]["NdcgEvaluator.delta"] == done.json["metrics"]["NdcgEvaluator.delta"]
    assert json.loads((tmp_path / "out" / "evaluators.json").read_text()) == done.json


def test_a_kept_eval_run_can_be_gated(vectors: tuple[Any, ...], tmp_path: Path) -> None:
    root = tmp_path / "root"
    for shift, code in (("toward", 0), ("away", 1)):
        kept = command(*vectors, "--baseline", "--shift", tmp_path / f"{shift}.json", "--save", root=root)
        assert kept.code == 0, kept.err
        run_id = kept.err.split("saved run ")[1].split()[0]
        done = command("gate", "--run", run_id, "--gate-profile", "rank+cosine", root=root)
        assert done.code == code, done.err
        (folder,) = root.glob(f"results/evaluation/runs/evaluation+baseline/{run_id}")
        metrics = json.loads((folder / "run.json").read_text())["Metrics"]
        evaluators = json.loads((folder / "evaluators.json").read_text())["metrics"]
        assert {key: metrics[key] for key in evaluators} == evaluators
    alone = command(*vectors, "--save", root=root)
    assert alone.code == 0, alone.err
    assert (root / "results" / "evaluation" / "runs" / "evaluation").is_dir()


def test_a_margin_of_one_reference_is_null_and_left_out_of_run_json(vectors: tuple[Any, ...], tmp_path: Path) -> None:
    np.savez(tmp_path / "refs.npz", vectors=np.ones((1, 4)))
    done = command(*vectors, "--baseline", "--save", "--format", "json", root=tmp_path / "root")
    assert done.code == 0, done.err
    assert done.json["metrics"]["MarginEvaluator"] is None
    assert done.json["metrics"]["MarginEvaluator.delta"] is None
    (run,) = (tmp_path / "root").rglob("run.json")
    assert not [key for key in json.loads(run.read_text())["Metrics"] if "Margin" in key and "duration" not in key]
    table = command(*vectors, "--baseline", root=tmp_path / "root")
    assert "n/a" in table.out
    assert "at least two references" in table.out
    assert command(*vectors, "--baseline", "--rule", "MarginEvaluator.delta >= 0", root=tmp_path / "root").code == 1


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


# -- how failures end --------------------------------------------------------------------------------------------------


def test_exit_codes(world: World, tmp_path: Path) -> None:
    (tmp_path / "zero.json").write_text(json.dumps([{"id": "q", "vector": [0.0] * 8, "relevantDocId": "d1"}]))
    (tmp_path / "nobody.json").write_text(json.dumps([{"id": "q", "vector": [1.0] * 8, "relevantDocId": "x"}]))
    (tmp_path / "short.json").write_text(json.dumps([{"id": "q", "vector": [1.0], "relevantDocId": "d1"}]))
    (tmp_path / "one.json").write_text(json.dumps([{"id": "q", "vector": [1.0] * 8, "relevantDocId": "d1"}]))
    (tmp_path / "three.json").write_text(json.dumps({"vector": [1.0, 2.0, 3.0]}))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 nothing")
    np.savez(tmp_path / "two.npz", vectors=np.ones((2, 2)))
    np.savez(tmp_path / "three.npz", vectors=np.ones((2, 3)))
    docs, fast = ("--docs", world.folder / "docs.json"), (*FAST, "--no-save")
    run, train = ("retrieval", "run", *world.files, *fast), ("shift", "train", *world.files, *FAST)
    evaluate = ("retrieval", "eval", *FAST, "--refs", tmp_path / "two.npz", "--queries", tmp_path / "two.npz")
    base, new = world.per_query[1], world.per_query[3]
    propose = ("segment", "propose", *world.per_query, "-o", tmp_path / "s.json")
    wanted: list[tuple[int, tuple[Any, ...]]] = [
        (2, ("retrieval", "run", *docs)),
        (2, (*run, "--format", "xml")),
        (2, (*run, "--embedder", "nothing")),
        (2, (*run, "--shift", "nothing")),
        (2, (*run, "--shift", "best:nothing")),
        (2, (*run, "--shift", "best:../x")),
        (2, ("retrieval", "run", *world.files, *FAST, "--workflow", "../x")),
        (2, (*run, "--tenant", "../x")),
        (2, (*run, "--label", "nothing")),
        (2, (*run, "--chunk-size", 5)),
        (2, (*run, "--overlap", 5)),
        (3, (*run, "--shift", tmp_path / "three.json")),
        (3, (*run, "--shift", tmp_path / "broken.json")),
        (3, (*run, "--shift", tmp_path / "missing.json")),
        (3, (*run, "--shift", tmp_path / "broken.npz")),
        (3, ("retrieval", "run", *docs, "--queries", tmp_path / "zero.json", *fast)),
        (3, ("retrieval", "run", *docs, "--queries", tmp_path / "nobody.json", *fast)),
        (3, ("retrieval", "run", *docs, "--queries", tmp_path / "short.json", *fast)),
        (3, ("retrieval", "run", *docs, "--queries", tmp_path / "missing.json", *fast)),
        (2, (*train, "--folds", 1)),
        (2, (*train, "--hard-negatives", 0)),
        (2, (*train, "--epsilon", "nan")),
        (2, (*train, "--epsilon", -1)),
        (2, (*train, "--scale", "nan")),
        (2, (*train, "--max-norm", "nan")),
        (2, (*train, "--workflow", "../x")),
        (3, ("shift", "train", *docs, "--queries", tmp_path / "one.json", *FAST)),
        (2, ("shift", "inspect", "nothing")),
        (2, ("shift", "inspect", tmp_path / "three.json")),
        (2, ("shift", "history", "--workflow", "../x")),
        (3, ("retrieval", "eval", "--refs", tmp_path / "two.npz", "--queries", tmp_path / "three.npz")),
        (2, (*evaluate, "--relevant", "x")),
        (2, (*evaluate, "--relevant", "-1")),
        (2, (*evaluate, "--mrr-index", -1)),
        (2, (*evaluate, "--gate-profile", "rank")),
        (2, (*evaluate, "--baseline", "--gate-profile", "nothing")),
        (2, (*evaluate, "--baseline", "--rule", "NdcgEvaluator.delta == 0")),
        (3, (*evaluate, "--shift", tmp_path / "three.json")),
        (3, ("retrieval", "eval", "--refs", tmp_path / "broken.npz", "--queries", tmp_path / "two.npz")),
        (2, (*propose, "--rule", "gap")),
        (2, (*propose, "--rule", "magic")),
        (2, (*propose, "--rule", "oracle", "-m", "hit@1")),
        (2, (*propose, "--rule", "learned", "--folds", 1)),
        (2, ("segment", "propose", *world.per_query, "-o", base, "--rule", "oracle")),
        (3, ("segment", "propose", "--baseline", base, "--shifted", tmp_path / "broken.json", "-o", tmp_path / "s")),
        (3, ("segment", "compare", new)),
        (3, ("segment", "compare", tmp_path / "missing.json")),
    ]
    found = []
    for code, arguments in wanted:
        done = world(*arguments)
        assert "Traceback" not in done.err
        if done.code != code:
            found.append((code, done.code, " ".join(map(str, arguments[:2] + arguments[-2:])), done.err[-160:]))
    assert found == []


def test_a_refused_command_leaves_nothing_behind(world: World, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for more in (("--shift", "nothing"), ("--format", "xml"), ("--workflow", "../x")):
        assert command("retrieval", "run", *world.files, *FAST, *more, root=root).code == 2
    assert not list(root.rglob("*.json")) if root.exists() else True


def test_tenants_are_apart(world: World, tmp_path: Path) -> None:
    arguments = ("shift", "train", *world.files, *FAST, "--format", "json")
    root = tmp_path / "root"
    acme = command(*arguments, "--tenant", "acme", root=root).json
    assert "tenants/acme/shifts/PosNeg" in acme["Folder"]
    assert command("shift", "history", "--format", "json", root=root).json["trainings"] == []
    assert command("shift", "inspect", acme["TrainingId"], root=root).code == 2
    assert command("shift", "inspect", acme["TrainingId"], root=root, STEELYARD_TENANT="acme").code == 0
    run = ("retrieval", "run", *world.files, *FAST, "--workflow", "PosNeg", "--shift", "best", "--format", "json")
    assert command(*run, root=root).code == 2
    done = command(*run, "--tenant", "acme", root=root)
    assert done.code == 0, done.err
    assert done.json["shift"]["name"] == acme["TrainingId"]
    assert "tenants/acme/runs/PosNeg" in done.json["folder"]


def test_a_changed_training_is_said_and_not_applied(world: World, tmp_path: Path) -> None:
    root = tmp_path / "root"
    trained = command("shift", "train", *world.files, *FAST, "--format", "json", root=root).json
    file = Path(trained["Folder"]) / "shift-training-result.json"
    file.write_text(file.read_text().replace('"Helps": true', '"Helps": false', 1))
    history = command("shift", "history", "--format", "json", root=root)
    assert history.code == 0
    assert history.json["trainings"] == []
    assert "changed after it was written" in history.json["problems"][0]
    assert "changed after it was written" in command("shift", "history", root=root).out
    run = ("retrieval", "run", *world.files, *FAST, "--no-save", "--shift")
    assert command(*run, trained["TrainingId"], root=root).code == 5
    assert command(*run, file, root=root).code == 3
    best = command("shift", "best", "--format", "json", root=root)
    assert best.code == 1
    assert best.json["problems"]
