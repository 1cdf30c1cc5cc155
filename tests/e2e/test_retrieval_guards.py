"""What retrieval must not do: write over its inputs, claim what it has seen, pass on nothing, pay before it checks."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import BackendError
from steelyard.texts.embedders import embedder
from tests.support.commands import Done, command
from tests.support.retrieval import FAST, World


def vectors(path: Path, matrix: Any, **more: Any) -> Path:
    np.savez(path, vectors=np.asarray(matrix, float), **more)
    return path


def said(done: Done) -> str:
    return " ".join((done.out + done.err).split())


# -- files -------------------------------------------------------------------------------------------------------------


def test_inputs_are_never_written_over(world: World, tmp_path: Path) -> None:
    queries = tmp_path / "ingest.json"
    queries.write_bytes((world.folder / "queries.json").read_bytes())
    before = queries.read_bytes()
    run = ("retrieval", "run", world.folder / "docs.json", queries, "--no-save")
    assert world(*run, "--out", tmp_path).code == 2
    assert queries.read_bytes() == before

    out = tmp_path / "segment-comparison.json"
    assert world("segment", "propose", *world.per_query, "--tau", 0.1, "-o", out).code == 0
    decisions = out.read_bytes()
    assert world("segment", "compare", out, "--out", tmp_path).code == 2
    assert out.read_bytes() == decisions

    ranking = tmp_path / "evaluation.json"
    ranking.write_text('{"t": {"d": 1}}')
    (tmp_path / "qrels.json").write_text('{"t": {"d": 1}}')
    assert world("rank", tmp_path / "qrels.json", ranking, "--out", tmp_path).code == 2
    assert ranking.read_text() == '{"t": {"d": 1}}'


def test_a_kept_run_and_a_folder_of_documents_are_left_alone(world: World, tmp_path: Path) -> None:
    run = Path(world.shifted["folder"]) / "run.json"
    before = run.read_bytes()
    assert world("segment", "propose", *world.per_query, "--tau", 0.1, "-o", run).code == 2
    assert run.read_bytes() == before
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "a.md").write_text("flood")
    (tmp_path / "q.json").write_text(json.dumps([{"id": "q", "text": "flood", "relevantDocId": "a"}]))
    search = ("retrieval", "run", policies, tmp_path / "q.json", "--no-save", "--out")
    assert world(*search, policies).code == 2
    assert world(*search, tmp_path / "q.json").code == 2
    assert [path.name for path in policies.iterdir()] == ["a.md"]
    (tmp_path / "r.json").write_text('{"t": {"d": 1}}')
    ranked = ("rank", tmp_path / "r.json", tmp_path / "r2.json", "--out", tmp_path)
    (tmp_path / "r2.json").write_text('{"t": {"d": 2}}')
    assert world(*ranked, "--per-query", tmp_path / "evaluation.json").code == 2


# -- what a shift has seen ---------------------------------------------------------------------------------------------


def test_queries_are_known_again_by_their_vectors(world: World, tmp_path: Path) -> None:
    rows = json.loads((world.folder / "queries.json").read_text())
    renamed = [{**row, "id": f"other-{i}"} for i, row in enumerate(rows)]
    (tmp_path / "renamed.json").write_text(json.dumps(renamed))
    moved = [{**row, "vector": [x + 0.01 for x in row["vector"]]} for row in rows]
    (tmp_path / "moved.json").write_text(json.dumps(moved))
    for name, seen in (("renamed", 80), ("moved", 0)):
        files = (world.folder / "docs.json", tmp_path / f"{name}.json")
        done = world("retrieval", "run", *files, "--shift", "best", "--no-save", *FAST, "--format", "json")
        assert done.code == 0, done.err
        assert done.json["shift"]["queries_seen_in_training"] == seen
        assert any("it is judged on what it has seen" in note for note in done.json["notes"]) == bool(seen)


def test_every_later_use_says_what_the_shift_has_seen(world: World, tmp_path: Path) -> None:
    base, new = world.baseline["run_id"], world.shifted["run_id"]
    rule = ("--rule", "low(delta(map@1)) >= -0.5")
    gate = world("gate", "--run", new, "--baseline", base, *rule)
    assert "its shift was learned from 80 of 80 queries that it is judged on" in said(gate)
    compared = world("runs", "compare", "-m", "map@1", "--against", base)
    assert "its shift was learned from 80 of 80 queries" in said(compared)
    segments = tmp_path / "segments.json"
    assert world("segment", "propose", *world.per_query, "--tau", 0.1, "-o", segments).code == 0
    assert "learned from 80 of these queries" in said(world("segment", "compare", segments, *FAST))
    queries = vectors(tmp_path / "q.npz", world.queries)
    refs = vectors(tmp_path / "r.npz", world.docs)
    shift = ("--shift", world.training["TrainingId"], "--baseline")
    done = world("retrieval", "eval", refs, queries, *shift, *FAST)
    assert "learned from 80 of these 80 queries" in said(done)
    assert world("retrieval", "eval", refs, queries, *shift, *FAST, "--save").code == 0
    listed = world.ok("runs", "list", "--workflow", "evaluation+baseline", "--format", "json")["runs"]
    gate = world("gate", "--run", listed[0]["run_id"], "--gate-profile", "rank")
    assert "its shift was learned from 80 of 80 queries" in said(gate)


@pytest.mark.parametrize("change", [lambda x: x * 2, lambda x: x / 3, lambda x: np.float32(x)])
def test_a_query_is_the_same_whatever_its_length(world: World, tmp_path: Path, change: Any) -> None:
    queries, refs = vectors(tmp_path / "q.npz", change(world.queries)), vectors(tmp_path / "r.npz", world.docs)
    done = world("retrieval", "eval", refs, queries, "--shift", world.training["TrainingId"])
    assert "learned from 80 of these 80 queries" in said(done)


def test_the_label_of_what_was_seen_is_not_the_users(world: World) -> None:
    lie = ("--label", "shift_seen=nothing", "--run-id", "lied")
    world.ok("retrieval", "run", *world.files, *FAST, "--shift", "best", *lie, "--format", "json")
    shown = world.ok("runs", "show", "lied", "--format", "json")
    assert shown["Labels"]["shift_seen"] == "80 of 80 queries"


def test_decisions_without_a_rule_may_know_the_outcome(world: World, tmp_path: Path) -> None:
    shifted, baseline = world.per_query
    document = {
        "Metric": "NDCG@3",
        "Eps": 0,
        "BaselinePath": str(baseline),
        "PosNegPath": str(shifted),
        "Decisions": {},
    }
    path = tmp_path / "s.json"
    path.write_text(json.dumps(document))
    assert "no rule is stated" in said(world("segment", "compare", path, *FAST))
    path.write_text(json.dumps({**document, "Rule": "oracle", "Note": "held out, all fine"}))
    shown = said(world("segment", "compare", path, *FAST))
    assert "an upper bound" in shown
    assert "all fine" not in shown
    for wrong in ({"Metric": "zzz"}, {"SchemaVersion": "99"}, {"Decisions": {"q1": "Mrs Miller"}}):
        path.write_text(json.dumps({**document, **wrong}))
        done = world("segment", "compare", path)
        assert done.code == 3
        assert "Miller" not in done.err


def test_equal_queries_are_held_out_together(world: World, tmp_path: Path) -> None:
    rows = json.loads((world.folder / "queries.json").read_text())[:40]
    twins = [{**row, "id": f"twin-{row['id']}"} for row in rows]
    for name, found in (("alone", rows), ("twins", rows + twins)):
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    train = ("shift", "train", world.folder / "docs.json", *FAST, "--format", "json")
    one, two = (command(*train, tmp_path / f"{name}.json", root=tmp_path).json for name in ("alone", "twins"))
    assert [2 * fold["Queries"] for fold in one["HeldOut"]["Folds"]] == [f["Queries"] for f in two["HeldOut"]["Folds"]]
    assert one["HeldOut"]["Score"] == pytest.approx(two["HeldOut"]["Score"])


# -- gates -------------------------------------------------------------------------------------------------------------


def test_a_gate_does_not_pass_on_what_measures_nothing(world: World, tmp_path: Path) -> None:
    refs, queries = vectors(tmp_path / "r.npz", world.docs), vectors(tmp_path / "q.npz", world.queries)
    files = ("retrieval", "eval", refs, queries, "--baseline", *FAST)
    done = world(*files, "--relevant", 99, "--mrr-index", 99, "--gate-profile", "rank")
    assert done.code == 1
    assert "measures nothing" in said(done)
    assert "there is no shift: both sides are the same" in said(done)
    assert world(*files, "--gate-profile", "rank").code == 0
    for rule in ("delta(mean(MrrEvaluator, better=higher)) >= -0.005", "mean(MrrEvaluator, better=higher) >= 0"):
        assert world(*files, "--mrr-index", 99, "--rule", rule).code == 1, rule
    assert world(*files, "--mrr-index", 99, "--save").code == 0
    listed = world.ok("runs", "list", "--workflow", "evaluation+baseline", "--format", "json")["runs"]
    assert world("gate", "--run", listed[0]["run_id"], "--gate-profile", "rank").code == 1
    assert world(*files[:-3], "--gate-profile", "rank", *FAST).code == 2, "differences need --baseline"
    assert world(*files, "--relevant", "9" * 5000).code == 2


# -- embedders ---------------------------------------------------------------------------------------------------------


def test_vectors_of_another_embedder_are_not_guessed(world: World, tmp_path: Path) -> None:
    (tmp_path / "texts.json").write_text(json.dumps([{"id": "q", "text": "a flood", "relevantDocId": "d1"}]))
    mixed = (
        "retrieval",
        "run",
        world.folder / "docs.json",
        tmp_path / "texts.json",
        "--no-save",
    )
    done = world(*mixed)
    assert done.code == 2
    assert "name the embedder that made the vectors" in done.err
    assert world(*mixed, "--embedder", "hash:8").code == 0
    assert world(*mixed, "--base-url", "http://127.0.0.1:1/v1").code == 2


def test_one_file_of_vectors_tells_documents_from_queries(tmp_path: Path) -> None:
    vectors(tmp_path / "v.npz", np.eye(3), ids=np.array(["a", "b", "c"]))
    (tmp_path / "docs.json").write_text(json.dumps([{"id": "a", "text": "x"}, {"id": "b", "text": "y"}]))
    for query, code in (("c", 0), ("A", 2)):
        rows = [{"id": query, "text": "z", "relevantDocId": "a"}]
        (tmp_path / "queries.json").write_text(json.dumps(rows))
        files = (tmp_path / "docs.json", tmp_path / "queries.json", "--no-save")
        done = command("retrieval", "run", *files, "--embedder", f"npz:{tmp_path / 'v.npz'}", root=tmp_path)
        assert done.code == code, done.err


@pytest.fixture
def dripping() -> Iterator[str]:
    """A server that sends its head a byte at a time, for ever."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(0.05)
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            try:
                there, _ = listening.accept()
            except TimeoutError:
                continue
            with there:
                try:
                    there.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                    while not stop.is_set():
                        there.sendall(b"x")
                        time.sleep(0.05)
                except OSError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    stop.set()
    thread.join()
    listening.close()


def test_a_server_that_drips_its_head_is_given_up(dripping: str) -> None:
    asked = embedder("openai:m", base_url=dripping, timeout=0.3, retries=1, longest_wait=0.0)
    with pytest.raises(BackendError, match=r"no answer within 0\.3 s; gave up after 2 attempts"):
        asked.embed(["a"], ["x"], what="documents")


@pytest.mark.parametrize(
    "wrong",
    [
        ("retrieval", "run", "--shift", "nothing.json"),
        ("retrieval", "run", "--shift", "best"),
        ("retrieval", "run", "--workflow", "../x"),
        ("retrieval", "run", "--run-id", "../x"),
        ("retrieval", "run", "--level", "7"),
        ("retrieval", "run", "--resamples", "-1"),
        ("shift", "train", "--folds", "1"),
        ("shift", "train", "--hard-negatives", "0"),
        ("shift", "train", "--epsilon", "-1"),
        ("shift", "train", "--max-norm", "nan"),
        ("shift", "train", "--max-norm", "-3"),
        ("shift", "train", "--scale", "inf"),
        ("shift", "train", "--workflow", "../x"),
        ("shift", "train", "--training-id", "../x"),
    ],
    ids=" ".join,
)
def test_nothing_is_paid_for_before_options_are_checked(wrong: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "docs.json").write_text(json.dumps([{"id": "a", "text": "x"}, {"id": "b", "text": "y"}]))
    (tmp_path / "queries.json").write_text(json.dumps([{"id": "q", "text": "z", "relevantDocId": "a"}]))
    files = (tmp_path / "docs.json", tmp_path / "queries.json")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        done = command(*wrong, *files, "--embedder", "openai:m", "--base-url", url, root=tmp_path)
        assert done.code in (2, 3), done.err
        with pytest.raises(TimeoutError):
            listening.accept()
