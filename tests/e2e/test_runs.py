"""`evaluate --save`, `runs` and `matrix` as a team meets them: the documented commands and what they print."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import answers, lines
from tests.support.commands import command


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two models on the same questions, the second one better."""
    base = answers(0, 0.5)
    better = [{**row, "prediction": row["target"] if i % 3 else row["prediction"]} for i, row in enumerate(base)]
    (tmp_path / "m1.jsonl").write_text(lines(base))
    (tmp_path / "m2.jsonl").write_text(lines(better))
    return tmp_path


def save(data: Path, model: str, *more: Any, **env: str) -> dict[str, Any]:
    done = command(
        "evaluate", data / f"{model}.jsonl", "--cluster", "patient", "-m", "accuracy", "-m", "aurc", "-m", "f1",
        "-m", "fairness_gap(accuracy, by=group.site)", "--by", "group.site", "--resamples", 200, "--save",
        "--workflow", "Triage", "--tenant", "acme", "--label", f"model={model}", "--root", data / "store",
        "--format", "json", *more, **env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def runs(data: Path, *arguments: Any, code: int = 0) -> dict[str, Any]:
    done = command("runs", *arguments, "--root", data / "store", "--tenant", "acme", "--format", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else {"error": done.stderr}


def test_a_run_is_kept_found_compared_promoted_and_rolled_back(data: Path) -> None:
    one, two = save(data, "m1"), save(data, "m2")
    folder = Path(one["folder"])
    assert folder.parts[-6:-1] == ("evaluation", "tenants", "acme", "runs", "Triage")
    assert sorted(p.name for p in folder.iterdir()) == ["evaluation.json", "evidence.npz", "run.json"]
    document = json.loads((folder / "run.json").read_text())
    assert {"RunId", "Workflow", "Tenant", "StartedAtUtc", "CompletedAtUtc", "Labels", "Metrics"} <= set(document)
    keys = set(document["Metrics"])
    assert {"accuracy", "aurc", "aurc_full", "f1.yes", "per_class.yes.f1", "accuracy{group.site=x}"} <= keys
    assert {"per_group.x.accuracy", "disparities.x", "global_metric"} <= keys
    listed = runs(data, "list")["runs"]
    assert [r["run_id"] for r in listed] == [two["run_id"], one["run_id"]]
    expected = {"run_id", "workflow", "tenant", "started_at", "labels", "metrics", "complete"}
    assert expected <= set(listed[0])
    assert listed[0]["labels"] == {"model": "m2"}
    ranking = runs(data, "compare", "--metric", "accuracy")
    assert [r["run_id"] for r in ranking["runs"]] == [two["run_id"], one["run_id"]]
    assert ranking["runs"][1]["delta"] < 0
    assert ranking["runs"][1]["verdict"] == "worse"
    assert runs(data, "compare", "--metric", "aurc")["better"] == "lower"
    against = runs(data, "compare", "--metric", "accuracy", "--against", one["run_id"])
    assert against["runs"][0]["delta"] == pytest.approx(-ranking["runs"][1]["delta"])
    assert runs(data, "best", "--metric", "accuracy")["run_id"] == two["run_id"]
    assert runs(data, "promote", one["run_id"], "--metric", "accuracy")["run_id"] == one["run_id"]
    decision = runs(data, "decide", "--metric", "accuracy", "--eps", "0.001", "--require-significant", "--apply")
    assert decision["action"] == "Promote"
    assert decision["applied"] is True
    assert runs(data, "active")["run_id"] == two["run_id"]
    assert [h["Action"] for h in runs(data, "history")["history"]] == ["promote", "promote"]
    assert runs(data, "rollback")["run_id"] == one["run_id"]
    assert "0 earlier runs" in runs(data, "rollback", code=2)["error"]
    assert runs(data, "active", "--all")["pointers"][0]["run_id"] == one["run_id"]
    shown = runs(data, "show", one["run_id"][:8])
    assert shown["RunId"] == one["run_id"]
    pivot = runs(data, "metrics", "--pivot")
    assert pivot["runs"][0]["values"]["accuracy"] > 0
    rows = runs(data, "metrics", "--metric", "accuracy")["rows"]
    assert {row["slice"] for row in rows} == {"", "{group.site=x}", "{group.site=y}"}
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)


@pytest.mark.parametrize("format_", ["table", "markdown", "csv"])
def test_every_list_has_every_format(data: Path, format_: str) -> None:
    save(data, "m1", "--label", "note==HYPERLINK(1)")
    for words in (["list"], ["compare", "-m", "accuracy"], ["metrics"], ["metrics", "--pivot"]):
        done = command("runs", *words, "--root", data / "store", "--format", format_, "--tenant", "acme")
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
        if format_ == "csv":
            cells = [cell for row in csv.reader(io.StringIO(done.stdout)) for cell in row]
            assert not any(cell.startswith("=") for cell in cells)


def test_the_root_comes_from_the_environment_the_option_or_the_repository(data: Path, tmp_path: Path) -> None:
    save(data, "m1")
    root, own = str(data / "store"), {"STEELYARD_TENANT": "acme"}
    assert "Triage" in command("runs", "list", STEELYARD_ROOT=root, **own).stdout
    assert "Triage" not in command("runs", "list", STEELYARD_ROOT=root).stdout
    assert "Triage" not in command("runs", "list", "--tenant", "other", STEELYARD_ROOT=root).stdout
    assert "Triage" not in command("runs", "list", STEELYARD_ROOT=root, STEELYARD_TENANT="b").stdout
    assert "Triage" in command("runs", "list", "--root", root, STEELYARD_ROOT=str(tmp_path / "x"), **own).stdout
    inner = data / "store" / "deep" / "er"
    inner.mkdir(parents=True)
    assert "Triage" in command("runs", "list", cwd=inner, **own).stdout


def test_a_failed_save_says_so_and_leaves_nothing(data: Path) -> None:
    save(data, "m1", "--run-id", "first")
    again = command("evaluate", data / "m1.jsonl", "-m", "accuracy", "--save", "--workflow", "Triage", "--tenant",
                      "acme", "--run-id", "first", "--root", data / "store", "--resamples", 100)  # fmt: skip
    assert again.returncode == 5
    assert "never written over" in again.stderr
    hostile = command("evaluate", data / "m1.jsonl", "-m", "accuracy", "--save", "--workflow", "../up",
                        "--root", data / "store", "--resamples", 100)  # fmt: skip
    assert hostile.returncode == 2
    assert not (data / "store" / "results" / "up").exists()


SPEC = """# which prompt is better?
workflow: Prompts
on_failure: {on_failure}
variants:
  - name: first
    evaluate: {{files: [m1.jsonl], cluster: patient, metrics: [accuracy], resamples: 200}}
  - name: broken
    command: ["sh", "-c", "echo secretly broken; exit 3"]
  - name: slow
    command: ["sleep", "600"]
    timeout: 0.3
  - name: second
    evaluate: {{files: [m2.jsonl], cluster: patient, metrics: [accuracy], resamples: 200}}
    labels: {{prompt: two}}
compare: {{metric: accuracy}}
promote: {{metric: accuracy, eps: 0.001}}
"""


def test_a_matrix_goes_on_compares_and_promotes(data: Path) -> None:
    (data / "m.yaml").write_text(SPEC.format(on_failure="continue"))
    dry = command("runs", "matrix", data / "m.yaml", "--dry", "--root", data / "store")
    assert dry.returncode == 0
    assert "then promote the best by accuracy" in dry.stdout
    assert not (data / "store").exists()
    done = command("runs", "matrix", data / "m.yaml", "--root", data / "store", "--format", "json")
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    assert [v["status"] for v in result["variants"]] == ["succeeded", "failed", "timed out", "succeeded"]
    folder = Path(result["folder"])
    assert (folder / "spec.yaml").read_text().startswith("# which prompt is better?")
    assert "secretly broken" in (folder / "02-broken.log").read_text()
    assert "secretly broken" not in done.stdout + done.stderr
    assert len(result["runs"]) == 2
    assert result["decision"]["action"] == "Promote"
    assert [run["variant"] for run in result["runs"]] == ["second", "first"]
    now = command("runs", "active", "--root", data / "store", "--format", "json")
    assert json.loads(now.stdout)["run_id"] == result["runs"][0]["run_id"]


def test_a_matrix_stops_at_the_first_failure_if_told_so(data: Path) -> None:
    (data / "m.yaml").write_text(SPEC.format(on_failure="stop"))
    done = command("runs", "matrix", data / "m.yaml", "--root", data / "store", "--format", "json")
    assert done.returncode == 1
    assert [v["status"] for v in json.loads(done.stdout)["variants"]] == ["succeeded", "failed", "skipped", "skipped"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("variants: []", "variants is empty"),
        ("variant: []", "did you mean 'variants'?"),
        ("variants: [{name: a, comand: [x]}]", "did you mean 'command'?"),
        ("variants: [{name: a}]", "needs either command or evaluate"),
        ("variants: [{name: a, command: [x]}, {name: a, command: [x]}]", "appears twice"),
        ("variants: [{name: ../a, command: [x]}]", "is not a plain name"),
        ("variants: [{name: a, command: [x], timeout: 0}]", "above 0 seconds"),
        ("variants: [{name: a, command: [x]}]\non_failure: maybe", "on_failure is stop or continue"),
        ("variants: 7", "a list is expected, this is a whole number"),
    ],
)
def test_a_spec_that_cannot_be_run_is_refused(data: Path, text: str, said: str) -> None:
    (data / "m.yaml").write_text(text)
    done = command("runs", "matrix", data / "m.yaml", "--root", data / "store")
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
