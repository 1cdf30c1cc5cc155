"""Runs of several models and perturbations in the store: a row per run and cell, and keys in the case people write."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.ground.digests import digest_of
from tests.support.commands import command

MODELS, KINDS = ("m1", "m 2"), (None, "typos", "upper")


def rows(shift: float = 0.0, models: tuple[str, ...] = MODELS) -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    found = []
    for m, model in enumerate(models):
        for k, kind in enumerate(KINDS):
            for i in range(60):
                right = rng.random() < 0.6 + 0.1 * m - 0.05 * k + shift
                found.append({"item": i, "cluster": i // 2, "model": model, "perturbation": kind, "target": "a",
                              "prediction": "a" if right else "b", "confidence": 0.5 + i / 200,
                              "group": {"site": "xy"[i % 2]}})  # fmt: skip
    return found


def save(root: Path, name: str, found: list[dict[str, Any]], *metrics: str, more: tuple[Any, ...] = ()) -> None:
    (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    asked = [word for metric in metrics or ("accuracy", "f1_macro", "brier") for word in ("-m", metric)]
    done = command("evaluate", root / f"{name}.jsonl", *asked, "--cluster", "cluster", "--resamples", 200, "--save",
                   "--workflow", "W", "--run-id", name, "--root", root, *more)  # fmt: skip
    assert done.returncode == 0, done.stderr


def runs(root: Path, *words: Any, code: int = 0, format_: str = "json") -> Any:
    done = command("runs", *words, "--root", root, "--format", format_)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else json.loads(done.stdout) if format_ == "json" else done.stdout


@pytest.fixture
def store(tmp_path: Path) -> Path:
    save(tmp_path, "many", rows())
    save(tmp_path, "better", rows(0.25))
    save(tmp_path, "single", [row for row in rows(models=("m1",)) if row["perturbation"] is None])
    return tmp_path


def test_a_pivot_has_a_row_per_run_and_cell_and_omits_none(store: Path) -> None:
    folder = store / "results/evaluation/runs/W/empty"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"RunId": "empty", "Workflow": "W", "Metrics": {}}))
    document = runs(store, "metrics", "--pivot")
    cells = [(r["run_id"], r["model"], r["perturbation"]) for r in document["runs"]]
    expected = {(run, model, kind or "none") for run in ("many", "better") for model in MODELS for kind in KINDS}
    assert set(cells) == expected | {("single", None, None), ("empty", None, None)}
    assert len(cells) == len(set(cells))
    for row in document["runs"]:
        if row["run_id"] != "empty":
            assert {"accuracy", "f1_macro", "brier", "brier_score", "per_class.a.f1", "n_predictions"} <= set(
                row["values"]
            )
            assert row["values"]["n_predictions"] == 60
    table = list(csv.reader(io.StringIO(runs(store, "metrics", "--pivot", format_="csv"))))
    assert table[0][:6] == ["run", "workflow", "model", "strategy", "task", "perturbation"]
    assert len(table) == 1 + len(cells)


def test_a_comparison_of_runs_with_cells_lists_the_cells(store: Path) -> None:
    document = runs(store, "compare", "-m", "accuracy", "--against", "many")
    listed = {(r["run_id"], r["cell"].get("model"), r["cell"].get("perturbation")): r for r in document["runs"]}
    assert len(listed) == len(document["runs"]) == 13
    values = [r["value"] for r in document["runs"]]
    assert values == sorted(values, reverse=True)
    for (run, model, kind), row in listed.items():
        assert row["low"] <= row["value"] <= row["high"]
        if run == "better":
            other = listed["many", model, kind]
            assert row["delta"] == pytest.approx(row["value"] - other["value"])
            assert row["verdict"] in ("better", "inconclusive")
        elif run == "many":
            assert row["delta"] is None
    shown = runs(store, "compare", "-m", "accuracy", format_="table")
    assert "perturbation" in shown
    assert "the best of 13 cells is optimistic" in shown
    one = runs(store, "compare", "-m", "accuracy{model=m1,perturbation=typos}")
    assert [r["run_id"] for r in one["runs"] if r["value"] is not None] == ["better", "many"]
    assert one["runs"][1]["delta"] is not None


def test_documented_keys_are_paired_as_the_metrics_they_are(store: Path) -> None:
    save(store, "rows1", rows(models=("m1",))[:60], "f1_macro", more=("--save-records",))
    save(store, "rows2", rows(0.3, models=("m1",))[:60], "f1_macro", more=("--save-records",))
    found = runs(store, "compare", "-m", "per_class.a.recall", "--against", "rows1")["runs"]
    (row,) = (row for row in found if row["run_id"] == "rows2")
    assert row["delta"] == pytest.approx(row["value"] - next(r["value"] for r in found if r["run_id"] == "rows1"))
    for run in ("many", "better", "single"):
        runs(store, "delete", run, "--yes")
    runs(store, "promote", "rows1", "-m", "per_class.a.recall")
    assert "chance" in runs(store, "decide", "-m", "per_class.a.recall")["reason"]
    assert "by eps alone" not in runs(store, "decide", "-m", "per_class.a.recall")["reason"]
    counts = runs(store, "compare", "-m", "n_predictions", "--against", "rows1", "--better", "higher")["runs"]
    notes = {row["note"] for row in counts if row["note"]}
    assert notes == {"n_predictions cannot be compared: counts grow with the rows"}


def test_a_list_shows_main_metrics_labels_and_what_is_active(store: Path) -> None:
    save(store, "named", rows(models=("m1",))[:60], more=("--label", "prompt=two"))
    runs(store, "promote", "named", "-m", "accuracy")
    runs(store, "pin", "single", "--as", "anchor")
    lines = {line.split()[0]: line for line in runs(store, "list", format_="table").splitlines() if line.strip()}
    assert "main metrics" in lines["run"]
    numbers = {run["run_id"]: run["metrics"] for run in runs(store, "list")["runs"]}
    assert f"accuracy {numbers['named']['accuracy']:.4f}, f1_macro {numbers['named']['f1_macro']:.4f}" in lines["named"]
    assert "prompt=two" in lines["named"]
    assert "  accuracy  " in lines["named"]  # what it is active for
    assert "pinned:anchor" in lines["single"]
    cells = [value for key, value in numbers["many"].items() if key.startswith("accuracy{")]
    assert f"accuracy {min(cells):.4f} to {max(cells):.4f}" in lines["many"]
    assert "n_predictions" not in "".join(lines.values())


def test_a_table_of_a_metric_that_no_run_has_is_refused(store: Path) -> None:
    for more in ((), ("--pivot",)):
        assert "the nearest are accuracy" in runs(store, "metrics", "-m", "acuracy", *more, code=2)
        assert runs(store, "metrics", "-m", "ACCURACY", *more)


def test_a_single_value_must_be_chosen_where_there_are_several(store: Path) -> None:
    for words in (("best", "-m", "f1_macro"), ("decide", "-m", "f1_macro")):
        assert runs(store, *words)  # one run has it as a whole
    (store / "results/evaluation/runs/W/single/run.json").unlink()
    for words in (("best", "-m", "accuracy"), ("decide", "-m", "accuracy"), ("promote", "many", "-m", "accuracy")):
        said = runs(store, *words, code=2)
        assert "known for each cell only; choose one: accuracy{model=" in said
    assert runs(store, "best", "-m", 'accuracy{model="m 2",perturbation=upper}')["run_id"] == "better"


# -- keys in the case people write -------------------------------------------------------------------------------------


def foreign(root: Path, run_id: str, metrics: dict[str, float], day: int = 1, *, version: Any = None) -> Path:
    folder = root / "results/evaluation/runs/Other" / run_id
    folder.mkdir(parents=True)
    time = f"2026-01-{day:02d}T00:00:00Z"
    document = {"RunId": run_id, "Workflow": "Other", "StartedAtUtc": time, "CompletedAtUtc": time, "Metrics": metrics}
    (folder / "run.json").write_text(json.dumps({**document, **(version or {})}))
    return folder


def test_a_key_is_found_whatever_its_case_and_kept_as_the_run_spells_it(tmp_path: Path) -> None:
    foreign(tmp_path, "one", {"NDCG@3": 0.5, "Map@1": 0.2})
    foreign(tmp_path, "two", {"NDCG@3": 0.7, "Map@1": 0.3}, 2)
    assert runs(tmp_path, "compare", "-m", "ndcg@3")["metric"] == "NDCG@3"
    assert runs(tmp_path, "best", "-m", "ndcg@3")["run_id"] == "two"
    assert runs(tmp_path, "promote", "one", "-m", "ndcg@3")["metric"] == "NDCG@3"
    assert runs(tmp_path, "active", "-m", "Ndcg@3")["run_id"] == "one"
    assert runs(tmp_path, "decide", "-m", "nDCG@3", "--apply")["applied"] is True
    assert [h["RunId"] for h in runs(tmp_path, "history", "-m", "ndcg@3")["history"]] == ["one", "two"]
    assert runs(tmp_path, "rollback", "-m", "ndcg@3")["run_id"] == "one"
    assert command("gate", "--run", "two", "--baseline", "active:ndcg@3", "--rule", "delta(ndcg@3) >= 0.1", "--root",
                   tmp_path).returncode == 0  # fmt: skip
    assert runs(tmp_path, "active", "-m", "map@1")["run_id"] is None
    for words in (("compare",), ("best",), ("decide",), ("active",), ("history",), ("rollback",), ("promote", "one")):
        said = runs(tmp_path, *words, "-m", "nddcg@3", code=2)
        assert "no run has a value of 'nddcg@3'; the nearest are NDCG@3" in said


def test_a_key_that_may_mean_two_is_not_guessed(tmp_path: Path) -> None:
    foreign(tmp_path, "one", {"precision.Yes": 0.5, "precision.YES": 0.6})
    assert "may mean precision.Yes, precision.YES" in runs(tmp_path, "best", "-m", "precision.yes", code=2)
    assert runs(tmp_path, "best", "-m", "precision.YES")["value"] == 0.6


def test_a_metric_may_be_written_with_its_defaults(store: Path) -> None:
    assert runs(store, "best", "-m", "brier( binary = false )")["metric"] in ("brier", "brier(binary=false)")


# -- versions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["SchemaVersion", "schema_version", "schemaVersion", "SCHEMA_VERSION"])
@pytest.mark.parametrize(
    ("version", "read"), [("1", True), (1, True), (None, True), ("2", False), (7, False), (True, False), (["1"], False)]
)
def test_both_spellings_of_the_version_are_read_and_a_future_one_is_refused(
    tmp_path: Path, key: str, version: Any, read: bool
) -> None:
    foreign(tmp_path, "good", {"accuracy": 0.5})
    foreign(tmp_path, "this", {"accuracy": 0.6}, version={key: version})
    document = runs(tmp_path, "list")
    assert sorted(run["run_id"] for run in document["runs"]) == (["good", "this"] if read else ["good"])
    assert len(document["problems"]) == (not read)
    if not read:
        assert "this program reads 1" in document["problems"][0]["problem"]
        assert "this program reads 1" in runs(tmp_path, "show", "this", code=5)


@pytest.mark.parametrize("key", ["SchemaVersion", "schema_version"])
def test_a_future_version_is_refused_in_every_file_of_the_store(store: Path, key: str) -> None:
    runs(store, "promote", "single", "-m", "accuracy")
    (store / "results/evaluation/gates").mkdir(exist_ok=True)
    gate = ("gate", "--run", "single", "--baseline", "active", "--rule", "delta(accuracy) >= 0", "--root", store)
    assert command(*gate).returncode == 0

    def changed(path: Path) -> str:
        before = path.read_text()
        document = {k: v for k, v in json.loads(before).items() if k.lower().replace("_", "") != "schemaversion"}
        document[key] = "9"
        if "Digest" in document:
            document["Digest"] = digest_of(document)
        path.write_text(json.dumps(document))
        return before

    for path, words in {
        next((store / "results/evaluation/active").glob("*/*.json")): ("runs", "active"),
        store / "results/evaluation/gates/attempts.json": gate,
        store / "results/evaluation/runs/W/single/run.json": ("runs", "show", "single"),
    }.items():
        before = changed(path)
        done = command(*words) if words is gate else command(*words, "--root", store)
        assert done.returncode == 5, (path, done.stdout)
        assert "version 9; this program reads 1" in done.stderr
        path.write_text(before)
