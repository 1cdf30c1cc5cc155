"""How `retrieval`, `shift` and `segment` fail: exit codes, and nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.commands import command
from tests.support.retrieval import FAST, World


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
    docs, fast = (world.folder / "docs.json",), (*FAST, "--no-save")
    run, train = ("retrieval", "run", *world.files, *fast), ("shift", "train", *world.files, *FAST)
    evaluate = ("retrieval", "eval", *FAST, tmp_path / "two.npz", tmp_path / "two.npz")
    base, new = world.per_query[1], world.per_query[0]
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
        (3, ("retrieval", "run", *docs, tmp_path / "zero.json", *fast)),
        (3, ("retrieval", "run", *docs, tmp_path / "nobody.json", *fast)),
        (3, ("retrieval", "run", *docs, tmp_path / "short.json", *fast)),
        (3, ("retrieval", "run", *docs, tmp_path / "missing.json", *fast)),
        (2, (*train, "--folds", 1)),
        (2, (*train, "--hard-negatives", 0)),
        (2, (*train, "--epsilon", "nan")),
        (2, (*train, "--epsilon", -1)),
        (2, (*train, "--scale", "nan")),
        (2, (*train, "--max-norm", "nan")),
        (2, (*train, "--workflow", "../x")),
        (3, ("shift", "train", *docs, tmp_path / "one.json", *FAST)),
        (2, ("shift", "inspect", "nothing")),
        (2, ("shift", "inspect", tmp_path / "three.json")),
        (2, ("shift", "history", "--workflow", "../x")),
        (3, ("retrieval", "eval", tmp_path / "two.npz", tmp_path / "three.npz")),
        (2, (*evaluate, "--relevant", "x")),
        (2, (*evaluate, "--relevant", "-1")),
        (2, (*evaluate, "--mrr-index", -1)),
        (2, (*evaluate, "--gate-profile", "rank")),
        (2, (*evaluate, "--baseline", "--gate-profile", "nothing")),
        (2, (*evaluate, "--baseline", "--rule", "NdcgEvaluator.delta == 0")),
        (3, (*evaluate, "--shift", tmp_path / "three.json")),
        (3, ("retrieval", "eval", tmp_path / "broken.npz", tmp_path / "two.npz")),
        (2, (*propose, "--rule", "gap")),
        (2, (*propose, "--rule", "magic")),
        (2, (*propose, "--rule", "oracle", "-m", "hit@1")),
        (2, (*propose, "--rule", "learned", "--folds", 1)),
        (2, ("segment", "propose", *world.per_query, "-o", base, "--rule", "oracle")),
        (3, ("segment", "propose", tmp_path / "broken.json", base, "-o", tmp_path / "s")),
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
