"""`--save` wherever answers are measured: what was kept is listed, compared and gated under the ids that were said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import steelyard as sy
from tests.support.commands import command

QUERIES = range(12)


@pytest.fixture
def rankings(tmp_path: Path) -> Path:
    """Judgements, and two runs: the second finds the relevant document one place further up in every third query."""
    (tmp_path / "qrels").write_text("".join(f"q{q} 0 d2 1\n" for q in QUERIES))
    for name in ("old", "new"):
        (tmp_path / name).write_text(
            "".join(
                f"q{q} Q0 d{d} 0 {3.5 if name == 'new' and d == 2 and q % 3 == 0 else 4 - d} {name}\n"
                for q in QUERIES
                for d in (1, 2, 3)
            )
        )
    return tmp_path


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    """Two runs on the same questions: the second declines one and mends two."""
    for name, given in (("old", "aabbaabb" * 3), ("new", "aabbaaaa" * 3)):
        rows = [
            {"item": i, "model": name, "target": "a", "prediction": p, "confidence": 0.5 + (i % 5) / 10}
            for i, p in enumerate(given)
        ]
        rows[-1]["prediction"] = None
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_rankings_are_kept_and_gated(rankings: Path) -> None:
    root = rankings / "store"
    files = [rankings / name for name in ("qrels", "old", "new")]
    done = command("rank", *files, "-m", "ndcg@10,mrr", "--save", "--run-id", "it", "--format", "json", root=root)
    assert (done.json["run_id"], done.json["base_run_id"]) == ("it", "it-base")
    assert done.err.count("saved run") == 2
    gated = command("gate", "it", "it-base", "--rule", "low(delta(mrr)) >= -0.3", "--format", "json", root=root)
    assert gated.code == 0, gated.out
    direct = next(d for d in done.json["comparison"]["deltas"] if d["metric"] == "mrr")
    assert gated.json["rules"][0]["value"] == pytest.approx(direct["delta"], rel=1e-12)
    listed = command("runs", "list", "--format", "json", root=root).json["runs"]
    assert {run["run_id"]: (run["workflow"], run["labels"]) for run in listed} == {
        "it": ("rank", {"model": "new"}),
        "it-base": ("rank", {"model": "old"}),
    }


def test_one_ranking_is_one_run(rankings: Path) -> None:
    done = command("rank", rankings / "qrels", rankings / "old", "--save", "--run-id", "it", root=rankings)
    assert (done.code, done.err.count("saved run it in ")) == (0, 1)


@pytest.mark.parametrize("kept", ["--save", "--save-records"])
def test_both_runs_of_a_comparison_are_kept(answers: Path, kept: str) -> None:
    root, out = answers / "store", answers / "out"
    files = [answers / "old.jsonl", answers / "new.jsonl"]
    asked = ("-m", "accuracy,ece", kept, "--run-id", "it", "--label", "study=1")
    done = command("compare", *files, *asked, "--out", out, "--format", "json", root=root)
    assert (done.code, done.json["run_id"], done.json["base_run_id"]) == (0, "it", "it-base"), done.err
    assert sy.load(out / "comparison.json").to_dict()["deltas"] == done.json["deltas"]
    rows = command("runs", "compare", "-m", "accuracy", "--against", "it-base", "--format", "json", root=root).json
    delta = next(d for d in done.json["deltas"] if d["metric"] == "accuracy")
    second = next(run for run in rows["runs"] if run["run_id"] == "it")
    assert second["delta"] == pytest.approx(delta["delta"], rel=1e-12)
    labels = [run["labels"] for run in command("runs", "list", "--format", "json", root=root).json["runs"]]
    assert sorted(each["model"] for each in labels) == ["new", "old"]
    assert {each["study"] for each in labels} == {"1"}
    has_rows = (Path(done.json["folder"]) / "records.parquet").exists()
    assert has_rows == (kept == "--save-records")


def test_nothing_is_kept_where_one_run_cannot_be(answers: Path) -> None:
    root = answers / "store"
    command("evaluate", answers / "old.jsonl", "--save", "--run-id", "it", "--workflow", "compare", root=root)
    done = command("compare", answers / "old.jsonl", answers / "new.jsonl", "--save", "--run-id", "it", root=root)
    assert (done.code, "never written over" in done.err) == (5, True), done.err
    assert [run["run_id"] for run in command("runs", "list", "--format", "json", root=root).json["runs"]] == ["it"]


def test_runs_are_compared_by_the_first_metric_or_by_those_that_decide(answers: Path) -> None:
    root = answers / "store"
    files = [answers / "old.jsonl", answers / "new.jsonl"]
    command("compare", *files, "-m", "accuracy,answer_rate,brier", "--save", "--run-id", "it", root=root)
    asked = ("--against", "it-base", "--resamples", "200", "--format", "json")
    one = command("runs", "compare", "-m", "accuracy", *asked, root=root).json
    first_of_two = command("runs", "compare", "-m", "accuracy,BRIER", *asked, root=root).json
    several = command("runs", "compare", "-m", "accuracy,BRIER", "--primary", "accuracy,brier", *asked, root=root).json
    assert one["further"] == []
    both = [several, *several["further"]]
    assert [each["metric"] for each in both] == ["accuracy", "brier"]
    alone = next(run for run in one["runs"] if run["run_id"] == "it")
    first, second = (next(run for run in each["runs"] if run["run_id"] == "it") for each in both)
    assert alone["p_adjusted"] == alone["p_value"] == first["p_value"]
    smaller, larger = sorted((first["p_value"], second["p_value"]))
    adjusted = sorted((first["p_adjusted"], second["p_adjusted"]))
    apart = next(run for run in first_of_two["runs"] if run["run_id"] == "it")
    assert apart["p_adjusted"] == alone["p_value"]
    assert first_of_two["family"].startswith("accuracy decides: p adjusted over 1 comparison; 1 other explores")
    assert adjusted == pytest.approx([min(1, 2 * smaller), max(min(1, 2 * smaller), larger)])


@pytest.mark.parametrize("words", [("best",), ("decide",), ("active",)])
def test_commands_that_go_by_one_metric_say_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = command("runs", *words, "-m", "accuracy,ece(bins=15)", root=tmp_path)
    assert (done.code, "goes by one metric, and 2 are named" in done.err) == (2, True), done.err


def test_the_table_of_metrics_is_of_those_named(answers: Path) -> None:
    command("evaluate", answers / "old.jsonl", "-m", "accuracy,answer_rate,brier", "--save", root=answers)
    rows = command("runs", "metrics", "-m", "brier,Accuracy", "--format", "csv", root=answers).out.splitlines()
    assert [row.split(",")[1] for row in rows[1:]] == ["accuracy", "brier"]
    pivot = command("runs", "metrics", "--pivot", "-m", "brier,accuracy", "--format", "json", root=answers).json
    assert pivot["metrics"] == ["brier", "accuracy"]
