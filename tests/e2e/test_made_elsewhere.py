"""A results tree that another tool made: its trainings and searches are found and looked at, and never chosen."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Done, command
from tests.support.retrieval import FAST, World

RUN, TRAINING = "mini-insurance-posneg-run_20260125_101500_123", "mini-insurance-posneg-training_20260125_101400_042"
LATER = "mini-insurance-posneg-training_20260126_090000_001"


def entry(i: int, rank: int) -> dict[str, Any]:
    return {
        "QueryId": f"q{i}", "RelevantDocId": f"d{i}", "Rank": rank, "Ap1": 1 / rank,
        "Ndcg3": {1: 1.0, 2: 0.6309297, 3: 0.5}.get(rank, 0.0),
        "TopDocId": "d0", "TopScore": 0.9, "Top2DocId": "d1", "Top2Score": 0.8 + 0.01 * i,
    }  # fmt: skip


class Tree:
    """The documented layout, with a tenant or without."""

    def __init__(self, root: Path, tenant: str | None) -> None:
        self.root, self.tenant = root, () if tenant is None else ("--tenant", tenant)
        base = root / "results" / "insurance"
        self.base = base if tenant is None else base / "tenants" / tenant
        for workflow, value in (("MiniInsurance-PosNeg-Baseline", 0.5), ("MiniInsurance-PosNeg", 0.75)):
            self.write(f"runs/{workflow}/{workflow[-6:].lower()}-1/run.json", {
                "RunId": f"{workflow[-6:].lower()}-1", "Workflow": workflow, "Tenant": tenant or "",
                "StartedAtUtc": "2026-01-25T10:15:00Z", "CompletedAtUtc": "2026-01-25T10:15:01Z", "Labels": {},
                "Metrics": {"map@1": value, "ndcg@3": value},
            })  # fmt: skip
        self.write(f"{RUN}/eval.perQuery.baseline.json", [entry(i, 2) for i in range(8)])
        self.write(f"{RUN}/eval.perQuery.posneg.json", [entry(i, 1 + i % 2) for i in range(8)])
        self.write(f"{RUN}/metrics-posneg.json", {"baseline": {"map@1": 0.5}, "posneg": {"map@1": 0.75}, "n": "eight"})
        (self.base / RUN / "metrics-posneg.md").write_text("# metrics")
        for name, day, cancelled in ((TRAINING, 25, False), (LATER, 26, True)):
            self.write(f"{name}/shift-training-result.json", {
                "WorkflowName": "mini-insurance-posneg", "CreatedUtc": f"2026-01-{day}T10:14:00.0420000Z",
                "BaseDirectory": "/elsewhere", "ComparisonRuns": 0, "TrainingMode": "posneg-uniform",
                "CancelOutEpsilon": 0.001, "IsCancelled": cancelled, "CancelReason": "small" if cancelled else None,
                "DeltaVector": [-3.0] + [0.0] * 7, "DeltaNorm": 3.0,
                "ImprovementFirst": 0, "ImprovementFirstPlusDelta": 0, "DeltaImprovement": 0,
            })  # fmt: skip

    def write(self, name: str, document: Any) -> None:
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))

    def __call__(self, *arguments: Any) -> Done:
        return command(*arguments, *self.tenant, root=self.root)

    def ok(self, *arguments: Any) -> Any:
        done = self(*arguments, "--format", "json")
        assert done.code == 0, done.err
        return done.json


@pytest.fixture(params=[None, "acme"])
def tree(tmp_path: Path, request: pytest.FixtureRequest) -> Tree:
    return Tree(tmp_path / "root", request.param)


def test_trainings_are_listed_and_never_best(tree: Tree) -> None:
    history = tree.ok("shift", "history")
    assert [entry["training"] for entry in history["trainings"]] == [LATER, TRAINING]
    assert [entry["why_not"] for entry in history["trainings"]] == [
        "made elsewhere, cancelled",
        "made elsewhere, never judged on held-out queries",
    ]
    assert all(entry["elsewhere"] and not entry["usable"] for entry in history["trainings"])
    assert (history["best"], history["problems"]) == (None, [])
    assert [e["training"] for e in tree.ok("shift", "history", "--domain", "insurance")["trainings"]] == [
        LATER,
        TRAINING,
    ]
    assert tree.ok("shift", "history", "--domain", "other")["trainings"] == []
    assert tree.ok("shift", "history", "--workflow", "other")["trainings"] == []
    assert len(tree.ok("shift", "history", "--workflow", "mini-insurance-posneg")["trainings"]) == 2
    best = tree("shift", "best", "--format", "json")
    assert best.code == 1
    assert {entry["training"] for entry in best.json["rejected"]} == {LATER, TRAINING}
    assert "made elsewhere" in tree("shift", "history").out
    assert command("shift", "history", "--tenant", "nobody", "--format", "json", root=tree.root).json["trainings"] == []


def test_one_training_is_shown_and_applied_by_name(tree: Tree, world: World) -> None:
    assert tree.ok("shift", "inspect", TRAINING)["DeltaNorm"] == 3.0
    assert tree.ok("shift", "inspect", TRAINING[:-8])["DeltaNorm"] == 3.0
    assert tree("shift", "inspect", "mini-insurance").code == 2, "two begin so"
    assert "never judged" in tree("shift", "inspect", TRAINING).out
    run = ("retrieval", "run", *world.files, *FAST, "--no-save", "--shift")
    done = tree(*run, TRAINING, "--format", "json")
    assert done.code == 0, done.err
    assert any("never judged on held-out queries" in note for note in done.json["notes"])
    assert tree(*run, LATER).code == 2, "cancelled"
    assert tree(*run, "best").code == 2


def test_a_sealed_training_in_such_a_folder_is_not_chosen_either(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "results" / "evaluation" / TRAINING
    shutil.copytree(world.training["Folder"], folder)
    history = command("shift", "history", "--format", "json", root=tmp_path).json
    assert [entry["why_not"] for entry in history["trainings"]] == ["made elsewhere"]
    assert history["best"] is None
    assert command("shift", "best", root=tmp_path).code == 1
    text = (folder / "shift-training-result.json").read_text()
    (folder / "shift-training-result.json").write_text(text.replace('"Helps": true', '"Helps": false'))
    history = command("shift", "history", "--format", "json", root=tmp_path).json
    assert history["trainings"] == []
    assert TRAINING in history["problems"][0]
    assert command("shift", "inspect", TRAINING, root=tmp_path).code == 5


def test_a_search_is_listed_and_shown(tree: Tree) -> None:
    listed = tree.ok("runs", "list")
    assert {run["workflow"] for run in listed["runs"]} == {"MiniInsurance-PosNeg", "MiniInsurance-PosNeg-Baseline"}
    assert [other["run"] for other in listed["elsewhere"]] == [RUN]
    assert f"made elsewhere: {RUN}" in tree("runs", "list").out
    shown = tree.ok("runs", "show", RUN)
    assert shown["kind"] == "run-made-elsewhere"
    assert shown["queries"] == {"baseline": 8, "posneg": 8}
    assert shown["values"]["baseline"]["map@1"] == 0.5
    assert shown["values"]["posneg"]["map@1"] == 0.75
    assert shown["numbers"] == {"baseline.map@1": 0.5, "posneg.map@1": 0.75}
    assert len(shown["files"]) == 4
    for style in ("table", "markdown", "csv"):
        done = tree("runs", "show", RUN[:-4], "--format", style)
        assert done.code == 0, done.err
        assert "0.75" in done.out
    assert tree("runs", "show", "nothing-run_20260125_101500_123").code == 2
    assert command("runs", "show", RUN, "--tenant", "nobody", root=tree.root).code == 2
    assert tree("runs", "best", "-m", "map@1").code == 0
    (tree.base / RUN / "eval.perQuery.posneg.json").write_text("[{}]")
    assert tree("runs", "show", RUN).code == 3


def test_segments_take_runs_by_name(tree: Tree, tmp_path: Path) -> None:
    out = tmp_path / "segments.json"
    assert tree("segment", "propose", RUN, "--rule", "oracle", "-o", out).code == 0
    document = json.loads(out.read_text())
    assert document["BaselinePath"] == str(tree.base / RUN / "eval.perQuery.baseline.json")
    assert document["PosNegPath"] == str(tree.base / RUN / "eval.perQuery.posneg.json")
    assert sum(word == "ApplyShift" for word in document["Decisions"].values()) == 4
    compared = tree.ok("segment", "compare", out, *FAST)
    assert compared["segmented"]["map@1"] == 0.75
    assert tree.ok("segment", "compare", out, *FAST, "--baseline", RUN, "--shifted", RUN) == compared


def test_segments_take_ids_of_kept_runs(world: World, tmp_path: Path) -> None:
    files, ids = tmp_path / "files.json", tmp_path / "ids.json"
    run, base = world.shifted["run_id"], world.shifted["baseline_run_id"]
    assert world("segment", "propose", *world.per_query, "--tau", 0.1, "-o", files).code == 0
    for given in ((run,), (run, base), (f"PosNeg/{run}",)):
        assert world("segment", "propose", *given, "--tau", 0.1, "-o", ids).code == 0
        one, two = (json.loads(path.read_text()) for path in (files, ids))
        assert one["Decisions"] == two["Decisions"]
    assert world.ok("segment", "compare", ids, *FAST, "--shifted", run, "--format", "json")["used"] == 80


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("nothing",), 2, "is no file, and no run"),
        (("BASE",), 5, "has no eval.perQuery.posneg.json"),
        (("none.json",), 3, "none.json"),
        (("FILE",), 2, "name the baseline, too"),
        ((), 2, "Missing argument 'shifted'"),
    ],
)
def test_what_is_no_run_with_a_shift(
    world: World, tmp_path: Path, given: tuple[str, ...], code: int, said: str
) -> None:
    known = {"BASE": world.shifted["baseline_run_id"], "FILE": world.per_query[0]}
    words = [known.get(word, word) for word in given]
    done = world("segment", "propose", *words, "--tau", 0.1, "-o", tmp_path / "o.json")
    assert done.code == code, done.err
    assert said in done.err
    assert not (tmp_path / "o.json").exists()


def test_a_changed_per_query_file_of_a_kept_run_is_noticed(tmp_path: Path) -> None:
    small = World(tmp_path)
    path = Path(small.shifted["folder"]) / "eval.perQuery.posneg.json"
    path.write_text(path.read_text().replace('"Rank": 1,', '"Rank": 1 ,', 1))
    done = small("segment", "propose", small.shifted["run_id"], "--tau", 0.1, "-o", tmp_path / "o.json")
    assert done.code == 5
    assert "changed" in done.err


def test_links_are_not_followed(tree: Tree, tmp_path: Path) -> None:
    away = tmp_path / "away"
    shutil.move(tree.base / RUN, away)
    (tree.base / RUN).symlink_to(away)
    assert "elsewhere" not in tree.ok("runs", "list")
    assert tree("runs", "show", RUN).code == 2
    (tree.base / RUN).unlink()
    shutil.move(away, tree.base / RUN)
    shutil.move(tree.base / RUN / "eval.perQuery.posneg.json", away)
    (tree.base / RUN / "eval.perQuery.posneg.json").symlink_to(away)
    assert set(tree.ok("runs", "show", RUN)["queries"]) == {"baseline"}
    done = tree("segment", "propose", RUN, "--rule", "oracle", "-o", tmp_path / "o.json")
    assert done.code == 3
