"""What retrieval reads and leaves behind: vectors of any name, judgements, paired runs, and how a run came about."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import command
from tests.support.retrieval import FAST, World, schema
from tests.support.stores import tree

STACK = {"ndcg@10", "mrr", "map", "precision@10", "recall@100", "hit@10", "rprec"}


def gold(world: World) -> list[str]:
    rows = json.loads((world.folder / "queries.json").read_text())
    return [row["relevantDocId"] for row in rows[:80]]


@pytest.fixture
def arrays(world: World, tmp_path: Path) -> tuple[Any, ...]:
    """The world's documents and queries as arrays under names of somebody's own, and who is right as judgements."""
    np.savez(tmp_path / "d.npz", doc_emb=world.docs, doc_names=[f"d{i}" for i in range(30)])
    np.save(tmp_path / "q.npy", world.queries)
    lines = [f"{i} 0 {id} 2\n{i} 0 d{(int(id[1:]) + 1) % 30} 1\n" for i, id in enumerate(gold(world))]
    (tmp_path / "qrels.txt").write_text("".join(lines))
    return (
        "retrieval",
        "run",
        tmp_path / "d.npz",
        tmp_path / "q.npy",
        *FAST,
        "--format",
        "json",
    )


# -- vectors and judgements --------------------------------------------------------------------------------------------


def test_vectors_under_any_name_give_the_same_numbers(world: World, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", doc_emb=world.docs, doc_names=[f"d{i}" for i in range(30)])
    np.savez(tmp_path / "q.npz", text_emb=world.queries, gold=gold(world))
    files = (tmp_path / "d.npz", tmp_path / "q.npz")
    done = world("retrieval", "run", *files, *FAST, "--no-save", "--format", "json")
    assert done.code == 0, done.err
    assert done.json["baseline"] == world.baseline["baseline"]


@pytest.mark.parametrize("group", [("retrieval", "run"), ("shift", "train")], ids=" ".join)
def test_an_array_that_is_missing_is_named_with_those_that_are_there(
    world: World, tmp_path: Path, group: tuple[str, str]
) -> None:
    docs = world.folder / "docs.json"
    np.savez(tmp_path / "q.npz", ids=np.arange(80), embeddings=world.queries, relevant=gold(world))
    done = world(*group, docs, "q.npz", cwd=tmp_path)
    assert done.code == 3
    assert "steelyard: error: q.npz has no array gold; it has: ids, embeddings, relevant" in done.err
    assert "a search takes judgements instead: --qrels" in done.err
    np.savez(tmp_path / "d.npz", a=world.docs, b=np.zeros(30))
    done = world(*group, "d.npz", world.folder / "queries.json", cwd=tmp_path)
    assert done.code == 3
    assert "d.npz has no array ids; it has: a, b" in done.err


def test_several_relevant_documents(world: World, arrays: tuple[Any, ...], tmp_path: Path) -> None:
    assert world(*arrays).code == 3, "nobody says which documents are relevant"
    qrels, run = tmp_path / "qrels.txt", tmp_path / "run.txt"
    done = world(*arrays, "--qrels", qrels, "--run-id", "judged", "--workflow", "Judged", "--trec-run", run)
    assert done.code == 0, done.err
    assert set(done.json["baseline"]) == STACK
    ranked = world.ok("rank", qrels, run, *FAST, "--format", "json")
    assert {e["metric"]: e["value"] for e in ranked["estimates"]} == pytest.approx(done.json["baseline"])
    folder = Path(done.json["folder"])
    assert sorted(path.name for path in folder.iterdir()) == [
        "evaluation.json", "evidence.npz", "ingest.json", "run.json"
    ]  # fmt: skip
    kept = json.loads((folder / "run.json").read_text())
    assert kept["Metrics"] == done.json["baseline"]
    assert [Path(entry["Path"]).name for entry in kept["Inputs"]] == ["q.npy", "d.npz", "qrels.txt"]
    assert run.read_text().count("\n") == 80 * 30
    assert {line.split()[5] for line in run.read_text().splitlines()} == {"Judged"}
    table = world(*arrays[:-2], "--qrels", qrels, "--no-save", "--depth", 5).out
    assert "rankings end after 5 documents" in table
    assert "map@1" not in table


def test_a_shift_on_several_relevant_documents(world: World, arrays: tuple[Any, ...], tmp_path: Path) -> None:
    about = ("--qrels", tmp_path / "qrels.txt", "--shift", "best", "--workflow", "JudgedToo", "--run-id", "moved")
    done = world(*arrays, *about)
    assert done.code == 0, done.err
    assert {delta["metric"] for delta in done.json["deltas"]} == STACK
    compared = world.ok("runs", "compare", "-m", "ndcg@10", "--against", "moved-baseline", "--format", "json")
    (row,) = (row for row in compared["runs"] if row["run_id"] == "moved")
    (wanted,) = (delta for delta in done.json["deltas"] if delta["metric"] == "ndcg@10")
    assert (row["delta"], row["verdict"]) == (pytest.approx(wanted["delta"]), wanted["verdict"])
    assert world("gate", "--run", "moved", "--baseline", "moved-baseline", "--rule", "low(delta(map)) >= 0").code == 0


def test_options_of_rankings_that_make_no_sense(world: World, arrays: tuple[Any, ...], tmp_path: Path) -> None:
    assert world(*arrays, "--depth", 5).code == 2
    assert world(*arrays, "--qrels", tmp_path / "qrels.txt", "--depth", 0).code == 2
    assert world(*arrays, "--qrels", tmp_path / "none.txt").code == 3
    rows = [{"id": "a query", "vector": [1.0] * 8, "relevantDocId": "d1"}]
    (tmp_path / "q.json").write_text(json.dumps(rows))
    given = (world.folder / "docs.json", tmp_path / "q.json", "--no-save")
    done = world("retrieval", "run", *given, "--trec-run", tmp_path / "run.txt")
    assert done.code == 3
    assert "cannot be named in a TREC run" in done.err
    assert not (tmp_path / "run.txt").exists()


# -- paired runs -------------------------------------------------------------------------------------------------------


def test_a_run_with_a_shift_keeps_its_baseline_too(world: World) -> None:
    run, base = (Path(world.shifted[key]) for key in ("folder", "baseline_folder"))
    assert (run.parent.name, base.parent.name) == ("PosNeg", "PosNeg-Baseline")
    asked, without = (json.loads((folder / "run.json").read_text()) for folder in (run, base))
    assert asked["Labels"]["pair"] == without["Labels"]["pair"] == asked["RunId"] == run.name
    assert without["Labels"]["shift"] == "none"
    assert without["Labels"]["model"] == "m1"
    assert "shift_seen" not in without["Labels"]
    assert without["Metrics"] == world.baseline["baseline"]
    names = ["eval.perQuery.baseline.json", "evaluation.json", "evidence.npz", "ingest.json", "run.json"]
    assert sorted(path.name for path in base.iterdir()) == names
    assert world("runs", "show", world.shifted["baseline_run_id"]).code == 0


def test_the_baseline_run_can_be_left_out(world: World, tmp_path: Path) -> None:
    (tmp_path / "shift.json").write_text(json.dumps({"vector": [-3.0] + [0.0] * 7}))
    run = ("retrieval", "run", *world.files, *FAST, "--workflow", "Alone", "--format", "json")
    root = tmp_path / "root"
    for more in (("--shift", tmp_path / "shift.json", "--no-baseline-run"), ("--shift", "none"), ()):
        done = command(*run, *more, root=root)
        assert done.code == 0, done.err
        assert "baseline_run_id" not in done.json
    assert [path.name for path in (root / "results/evaluation/runs").iterdir()] == ["Alone"]
    assert all("pair" not in json.loads(path.read_text())["Labels"] for path in root.rglob("run.json"))


def test_a_baseline_that_is_there_already_is_not_written_over(world: World, tmp_path: Path) -> None:
    (tmp_path / "shift.json").write_text(json.dumps({"vector": [-3.0] + [0.0] * 7}))
    run = ("retrieval", "run", *world.files, *FAST, "--shift", tmp_path / "shift.json", "--workflow", "W")
    root = tmp_path / "root"
    assert command(*run, "--run-id", "one", root=root).code == 0
    before = tree(root)
    for clash in (("--run-id", "one"), ("--run-id", "x" * 95), ("--workflow", "w" * 95)):
        assert command(*run, *clash, root=root).code in (2, 5)
    assert tree(root) == before


def test_a_matrix_counts_the_run_that_it_asked_for(world: World, tmp_path: Path) -> None:
    (tmp_path / "shift.json").write_text(json.dumps({"vector": [-3.0] + [0.0] * 7}))
    run = ("retrieval", "run", *world.files, *FAST, "--shift", tmp_path / "shift.json", "--run-id", "one")
    assert command(*run, root=tmp_path / "root", STEELYARD_MATRIX="m", STEELYARD_VARIANT="v").code == 0
    labels = {p.parent.name: json.loads(p.read_text())["Labels"] for p in (tmp_path / "root").rglob("run.json")}
    assert labels["one"]["matrix"] == "m"
    assert "matrix" not in labels["one-baseline"]


# -- evaluators --------------------------------------------------------------------------------------------------------


@pytest.fixture
def evaluators(world: World, tmp_path: Path) -> tuple[Any, ...]:
    np.savez(tmp_path / "refs.npz", anything=world.docs)
    np.save(tmp_path / "queries.npy", world.queries)
    (tmp_path / "delta.json").write_text(json.dumps({"vector": [-3.0] + [0.0] * 7, "scale": 0.5}))
    files = (tmp_path / "refs.npz", tmp_path / "queries.npy", "--shift", tmp_path / "delta.json")
    return ("retrieval", "eval", *files, *FAST, "--format", "json")


def test_evaluators_keep_their_run_with_a_manifest(evaluators: tuple[Any, ...], tmp_path: Path) -> None:
    root = tmp_path / "root"
    more = ("--baseline", "--relevant", "0,2", "--gate-profile", "rank", "--run-id", "kept", "--label", "model=m1")
    done = command(*evaluators, *more, root=root)
    assert done.code in (0, 1), done.err
    folder = root / "results/evaluation/runs/evaluation+baseline/kept"
    assert (done.json["run_id"], done.json["folder"]) == ("kept", str(folder))
    names = ["acceptance_gate.json", "evaluation.json", "evaluators.json", "evidence.npz", "run.json"]
    assert sorted(path.name for path in folder.iterdir()) == [*names, "run_manifest.json"]
    run = json.loads((folder / "run.json").read_text())
    assert run["Labels"]["model"] == "m1"
    manifest = json.loads((folder / "run_manifest.json").read_text())
    schema("run-manifest", root).validate(manifest)
    assert manifest["command"] == ["steelyard", *map(str, (*evaluators, *more))]
    assert [Path(entry["path"]).name for entry in manifest["inputs"]] == ["queries.npy", "refs.npz"]
    for entry in manifest["inputs"]:
        assert entry["sha256"] == hashlib.sha256(Path(entry["path"]).read_bytes()).hexdigest()
    assert manifest["shift"]["name"] == "delta.json"
    assert (manifest["shift"]["kind"], manifest["shift"]["scale"]) == ("additive", 0.5)
    assert len(manifest["shift"]["vector_sha256"]) == 64
    assert manifest["settings"]["relevant"] == [0, 2]
    assert manifest["settings"]["rules"] == ["NdcgEvaluator.delta >= -0.005", "MrrEvaluator.delta >= -0.005"]
    assert manifest["settings"]["uncertainty"]["resamples"] == 200
    others = {name: digest for name, digest in run["Files"].items() if name != "run_manifest.json"}
    assert manifest["files"] == others
    assert command("runs", "show", "kept", root=root).code == 0
    (folder / "run_manifest.json").write_text("{}")
    assert command("runs", "show", "kept", root=root).code == 5


def test_a_manifest_without_a_shift(evaluators: tuple[Any, ...], tmp_path: Path) -> None:
    done = command(*evaluators, "--shift", "none", "--run-id", "plain", root=tmp_path / "root")
    assert done.code == 0, done.err
    manifest = json.loads((Path(done.json["folder"]) / "run_manifest.json").read_text())
    assert manifest["shift"] == {"name": "none", "kind": "none", "scale": None, "vector_sha256": None}
    assert manifest["settings"]["rules"] == []
    again = command(*evaluators, "--run-id", "plain", root=tmp_path / "root")
    assert again.code == 5, "never written over"


def test_an_evaluation_that_is_not_kept_leaves_nothing(evaluators: tuple[Any, ...], tmp_path: Path) -> None:
    done = command(*evaluators, "--no-save", root=tmp_path / "root")
    assert done.code == 0, done.err
    assert "run_id" not in done.json
    assert not (tmp_path / "root").exists()
    assert command(*evaluators, "--save", root=tmp_path / "root").code == 0, "as it was written before"


def test_out_is_the_run_outside_the_store(evaluators: tuple[Any, ...], world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for _ in range(2):  # a folder for other tools may be written again
        done = command(*evaluators, "--no-save", "--out", out, root=tmp_path / "root")
        assert done.code == 0, done.err
    names = [
        "evaluation.json",
        "evaluators.json",
        "evidence.npz",
        "retrieval-eval.json",
        "run.json",
        "run_manifest.json",
    ]
    assert sorted(path.name for path in out.iterdir()) == names
    run = json.loads((out / "run.json").read_text())
    for name, digest in run["Files"].items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    done = world("retrieval", "run", *world.files, *FAST, "--no-save", "--out", tmp_path / "search")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "search" / "run.json").read_text())["Metrics"] == world.baseline["baseline"]
    assert (tmp_path / "search" / "evaluation.json").exists()
    kept = Path(world.baseline["folder"])
    assert world("retrieval", "run", *world.files, *FAST, "--no-save", "--out", kept).code == 2
