"""`steelyard benchmark` from end to end: a suite, answers, a report in every form, runs that are kept and gated."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from steelyard.report.schemas import schemas
from steelyard.study.benchmark_report import BenchmarkReport
from tests.support.commands import Done, command
from tests.support.suites import write_answers, write_suite

FEW = ("--resamples", "400")


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    suite = write_suite(tmp_path / "suite")
    write_answers(tmp_path / "birch", suite, right=0.85)
    write_answers(tmp_path / "alder", suite, right=0.3, seed=2, model="alder")
    return tmp_path


def run(ward: Path, *arguments: Any) -> Done:
    return command("benchmark", *arguments, root=ward / "store")


def usual(ward: Path, *more: Any, model: str = "birch") -> Done:
    return run(ward, ward / "suite/suite.yaml", ward / model, *more, *FEW)


def test_every_format_is_written_and_the_combined_score_comes_first(ward: Path) -> None:
    done = usual(
        ward, ward / "alder", "--combined-weights", "diagnostics=0.7,safety=0.3",
        "--combined-name", "index", "--format", "json,md,html,csv", "--out", ward / "out", "--plot", ward / "pictures",
    )  # fmt: skip
    assert done.code == 0, done.err
    written = sorted(path.relative_to(ward / "out").as_posix() for path in (ward / "out").rglob("*") if path.is_file())
    assert written == [
        "benchmark-tables/comparison.csv",
        "benchmark-tables/detailed_results.csv", "benchmark-tables/overall_scores.csv",
        "benchmark-tables/task_scores.csv", "benchmark-tables/weights.csv",
        "benchmark.html", "benchmark.json", "benchmark.md",
    ]  # fmt: skip
    document = json.loads((ward / "out/benchmark.json").read_text())
    assert document == json.loads(done.out)
    jsonschema.Draft202012Validator(schemas["benchmark"]()).validate(document)
    value = document["overall_scores"]["index"]
    assert "combined_score" not in document["overall_scores"]
    assert document["metadata"]["combined"]["index"]["weights"] == {"diagnostics": 0.7, "safety": 0.3}
    assert {d["metric"] for d in document["metadata"]["comparison"]["deltas"]} == {"index", "diagnostics", "safety"}
    compared = list(csv.DictReader((ward / "out/benchmark-tables/comparison.csv").read_text().splitlines()))
    deltas = document["metadata"]["comparison"]["deltas"]
    assert [(row["metric"], float(row["delta"])) for row in compared] == [(d["metric"], d["delta"]) for d in deltas]
    assert "" in {row["slice"] for row in compared}
    lines = (ward / "out/benchmark.md").read_text().splitlines()
    assert lines[0].startswith("#")
    assert f"index {value:.4f}" in lines[0].replace("\\", "")
    assert "weights: diagnostics 0.7, safety 0.3" in "\n".join(lines[:4])
    page = (ward / "out/benchmark.html").read_text()
    assert page.index(f"index {value:.4f}") < page.index("weights: diagnostics 0.7") < page.index("accuracy")
    rows = list(csv.DictReader((ward / "out/benchmark-tables/overall_scores.csv").read_text().splitlines()))
    assert float(next(row["value"] for row in rows if row["metric"] == "index")) == value
    assert len((ward / "out/benchmark-tables/detailed_results.csv").read_text().splitlines()) == 1 + 74
    assert sorted(path.suffix for path in (ward / "pictures").iterdir()) == [".pdf", ".png", ".svg"]
    assert BenchmarkReport.load(ward / "out/benchmark.json").overall_scores["index"] == value


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--combined-weights", "diagnostics=-1"), "at least 0"),
        (("--combined-weights", "diagnostics=nan"), "finite"),
        (("--combined-weights", "diagnostics=inf"), "finite"),
        (("--combined-weights", "diagnostics=0,safety=0"), "above 0"),
        (("--combined-weights", "diagnostic=1"), "did you mean 'diagnostics'?"),
        (("--combined-weights", "diagnostics"), "takes pairs"),
        (("--combined-weights", "diagnostics=a"), "is no number"),
        (("--combined-weights", "safety=1,safety=2"), "given twice"),
        (("--combined-name", "accuracy"), "a metric or a category"),
        (("--combined-name", "my index"), "plain word"),
        (("--category", "parse_failure_rate=safety"), "cannot count in safety"),
        (("--by", "group.sight"), "group.sight"),
        (("--format", "json,md"), "--out"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(ward: Path, more: tuple[str, ...], said: str) -> None:
    done = usual(ward, *more)
    assert done.code == 2, done.err
    assert said in done.err
    assert not (ward / "store").exists()


def test_a_suite_and_answers_are_needed(ward: Path) -> None:
    assert run(ward).code == 2
    done = run(ward, ward / "suite/suite.yaml")
    assert done.code == 2
    assert "name a model's answers after the suite" in done.err
    done = run(ward, "clincal", ward / "birch")
    assert done.code == 2
    assert "did you mean 'clinical'?" in done.err


def test_outputs_never_land_among_what_is_read(ward: Path) -> None:
    for folder in (ward / "birch", ward / "birch/inside", ward / "suite/triage.jsonl"):
        done = usual(ward, "--out", folder)
        assert done.code in (2, 5), folder
    (ward / "suite" / "benchmark.json").write_text("{}")
    assert json.loads((ward / "suite/benchmark.json").read_text()) == {}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--category", "accuracy=diagnostic"), "did you mean 'diagnostics'?"),
        (("--category", "acuracy=diagnostics"), "accuracy"),
        (("--combined-weights", "diagnostics=1e308,safety=1e308"), "their total cannot be held"),
        (("--combined-weights", "diagnostics=5e-324"), "their total cannot be held"),
    ],
)
def test_slips_in_categories_and_weights_are_refused(ward: Path, options: tuple[str, str], problem: str) -> None:
    done = usual(ward, *options)
    assert done.code == 2
    assert problem in done.err


def test_the_category_map_is_printed(ward: Path) -> None:
    shown = json.loads(run(ward, "--categories", "--format", "json").out)
    assert shown["categories"]["safety"] == ["harm_avoidance"]
    assert shown["weights"]["diagnostics"] == 0.4
    own = run(ward, ward / "suite/suite.yaml", "--categories", "--category", "brier=manners,accuracy=none")
    assert own.code == 0
    assert "manners" in own.out
    row = next(line for line in own.out.splitlines() if line.startswith("diagnostics"))
    assert "f1_macro" in row
    assert " accuracy" not in row


def test_columns_of_answers_are_renamed_and_rows_chosen(ward: Path) -> None:
    usual_document = usual(ward, "--format", "json").json
    rows = []
    for path in sorted((ward / "birch").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            case = {"case": row.pop("id"), "reply": row.pop("prediction"), "task": path.stem, **row}
            rows += [{**case, "model": "birch"}, {**case, "model": "other", "reply": "nothing"}]
    both = ward / "both.jsonl"
    both.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = (ward / "suite/suite.yaml", both, "--map", "item=case,prediction=reply", *FEW, "--format", "json")
    refused = run(ward, *asked)
    assert (refused.code, "of 2 models; a benchmark is of one: choose it with --where model=NAME" in refused.err) == (
        2,
        True,
    ), refused.err
    chosen = run(ward, *asked, "--where", "model=birch").json
    assert chosen["overall_scores"] == usual_document["overall_scores"]
    assert chosen["task_scores"] == usual_document["task_scores"]


def test_missing_answers_are_said_and_a_gate_does_not_pass_on_the_rest(ward: Path) -> None:
    (ward / "birch/recall.jsonl").unlink()
    done = usual(ward, "--save", "--run-id", "short")
    assert done.code == 0
    assert "warning: task recall: there are no answers: 24 rows counted as failed" in done.out
    rule = "low(combined_score) >= 0.1"
    gate = command("gate", "--run", "short", "--rule", rule, root=ward / "store")
    assert gate.code == 6, gate.out
    assert command("gate", "--run", "short", "--rule", "combined_score >= 0.1", root=ward / "store").code == 1


def test_kept_runs_are_compared_and_gated(ward: Path) -> None:
    for model in ("birch", "alder"):
        kept = usual(ward, "--save", "--run-id", model, "--combined-name", "index", model=model)
        assert kept.code == 0, kept.err

    def gate(*rules: str) -> Done:
        asked = [part for rule in rules for part in ("--rule", rule)]
        return command("gate", "--run", "birch", "--baseline", "alder", *asked, *FEW, root=ward / "store")

    assert gate("low(combined_score) >= 0.5", "low(delta(combined_score)) >= 0").code == 0
    assert gate("low(index) >= 0.5", "index >= 0.5", "low(delta(index)) >= 0").code == 0
    assert gate("low(category.safety) >= 0.3", "combined_score{task=notes} >= 0.4").code == 0
    assert gate("low(combined_score) >= 0.99").code == 1
    assert gate("low(combined_score) >= 0.75 for each task").code in (1, 6)
    assert gate("low(category.safty) >= 0.3").code == 2
    assert gate("high(combined_score) <= 0.5").code == 2  # it asks the score to be worse
    compared = command("runs", "compare", "-m", "combined_score", "--against", "alder", root=ward / "store")
    assert compared.code == 0, compared.err
    assert "better" in compared.out


def test_only_scores_are_kept_unless_words_are_asked_for(ward: Path) -> None:
    suite = (ward / "suite/suite.yaml").read_text().replace("- f1_macro", "- clinical_accuracy")
    suite = suite.replace("    f1_macro: diagnostics\n", "")
    (ward / "suite/suite.yaml").write_text(suite)
    cases = [json.loads(line) for line in (ward / "suite/triage.jsonl").read_text().splitlines()]
    cases = [{**case, "target": "pneumonia with fever"} for case in cases]
    (ward / "suite/triage.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    answers = [{"id": case["id"], "prediction": "pneumonia"} for case in cases]
    (ward / "birch/triage.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    plain, explained = usual(ward, "--format", "json"), usual(ward, "--format", "json", "--explain")
    first = json.loads(plain.out)["detailed_results"][0]["breakdown"]["clinical_accuracy"]
    assert first["counts"]["matched"] == 1
    assert "pneumonia" not in plain.out
    assert json.loads(explained.out)["detailed_results"][0]["breakdown"]["clinical_accuracy"]["missed"] == ["fever"]
