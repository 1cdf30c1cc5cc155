"""`steelyard retrieval` as a user meets it: files, numbers, messages and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import command
from tests.support.retrieval import FAST, World, schema

STYLES = ("table", "json", "markdown")


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
    places = ("run_id", "folder", "baseline_run_id", "baseline_folder")
    assert document == {key: value for key, value in world.shifted.items() if key not in places}
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
    real = command(*arguments, "--format", "json", STEELYARD_ROOT=str(world.root))
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
    arguments = (tmp_path / "docs", tmp_path / "queries.jsonl", "--embedder", "hash:64")
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
        world.folder / "docs.json",
        tmp_path / "queries.json",
        "--out",
        tmp_path / "out",
    )
    done = world("retrieval", "run", *arguments, *FAST, "--no-save", "--format", "json")
    assert done.code == 0, done.err
    assert {e["clusters"] for e in done.json["estimates"]["baseline"]} == {16}
    entries = json.loads((tmp_path / "out" / "eval.perQuery.baseline.json").read_text())
    assert [entry["Cluster"] for entry in entries] == [f"patient {i % 16}" for i in range(80)]


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
    return ("retrieval", "eval", tmp_path / "refs.npz", tmp_path / "queries.npz", *FAST)


def test_eval_without_and_with_a_baseline(vectors: tuple[Any, ...], tmp_path: Path) -> None:
    root = tmp_path / "root"
    vectors = (*vectors, "--no-save")
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
    assert "without a direction" in command(*vectors, "--shift", tmp_path / "zero.json", root=root).out
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
    given = ("--baseline", "--shift", tmp_path / f"{shift}.json", *rules, "--no-save", "--out", tmp_path / "out")
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
