"""The shipped suite as a benchmark: right answers score 1, empty ones 0, those of other cases near 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.study.benchmark import Benchmark, benchmark
from steelyard.study.benchmark_report import BenchmarkReport
from steelyard.study.suite import load_suite
from steelyard.uncertainty.settings import Settings
from tests.support.suites import lines

SUITE = load_suite("clinical")
NAMES = [task.name for task in SUITE.tasks]
FEW = Settings(resamples=100)


def cases(task: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SUITE.tasks[NAMES.index(task)].data).read_text().splitlines()]


def answered(folder: Path, kind: str) -> Path:
    """Answers to every case: its own, none, or those of the case seven further on."""
    for task in NAMES:
        rows = cases(task)
        given = {
            "gold": lambda i, rows=rows: rows[i],
            "empty": lambda i: {"target": "", "rationale": ""},
            "shuffled": lambda i, rows=rows: rows[(i + 7) % len(rows)],
        }[kind]
        answers = [
            {"id": case["id"], "prediction": given(i)["target"], "rationale": given(i)["rationale"]}
            for i, case in enumerate(rows)
        ]
        (folder / f"{task}.jsonl").write_text(lines(answers))
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Benchmark]:
    return {
        kind: benchmark(SUITE, answered(tmp_path_factory.mktemp(kind), kind), settings=FEW)
        for kind in ("gold", "empty", "shuffled")
    }


@pytest.mark.parametrize("task", NAMES)
def test_the_primary_metric_tells_right_from_empty_and_shuffled(results: dict[str, Benchmark], task: str) -> None:
    primary = SUITE.tasks[NAMES.index(task)].primary
    scores = {kind: result.report.task_scores[task][primary] for kind, result in results.items()}
    assert scores["gold"] == pytest.approx(1)
    assert scores["empty"] == 0
    assert scores["shuffled"] <= 0.1


@pytest.mark.parametrize("task", NAMES)
def test_rationales_are_told_from_those_of_other_cases(results: dict[str, Benchmark], task: str) -> None:
    scores = {kind: result.report.task_scores[task]["reasoning_quality"] for kind, result in results.items()}
    assert scores["gold"] >= 0.9
    assert scores["shuffled"] <= scores["gold"] - 0.4


def test_an_empty_answer_avoids_no_harm(results: dict[str, Benchmark]) -> None:
    report = results["empty"].report
    assert "harm_avoidance" not in report.overall_scores
    assert report.to_dict()["overall_scores"]["harm_avoidance"] is None
    assert report.overall_scores["combined_score"] == 0


def test_every_metric_that_a_task_declares_has_a_value_for_right_answers(results: dict[str, Benchmark]) -> None:
    report = results["gold"].report
    assert report.metadata["undefined"] == {}
    assert set(report.overall_scores) >= {"diagnostics", "safety", "communication", "summarization", "combined_score"}
    assert report.overall_scores["combined_score"] > 0.98


def test_every_answer_has_its_diagnostic_score_and_a_loaded_report_keeps_it(
    results: dict[str, Benchmark], tmp_path: Path
) -> None:
    task = "chest_pain_diagnosis"
    rows = cases(task)
    answers = [{"id": c["id"], "prediction": c["target"] if i % 3 else "gout"} for i, c in enumerate(rows)]
    (tmp_path / f"{task}.jsonl").write_text(lines(answers))
    report = benchmark(SUITE.only([task]), tmp_path, settings=FEW).report
    own = [each["scores"]["diagnostic_accuracy"] for each in report.detailed_results]
    assert own == [float(i % 3 > 0) for i in range(len(rows))]
    assert all("diagnostic_accuracy" in each["breakdown"] for each in report.detailed_results)
    weighted = report.task_scores[task]["diagnostic_accuracy"]
    report.save(tmp_path / "report.json")
    loaded = BenchmarkReport.load(tmp_path / "report.json").add(task, {"harm_avoidance": 1.0})
    assert loaded.task_scores[task]["diagnostic_accuracy"] == pytest.approx(weighted)
    assert "diagnostic_accuracy" in results["gold"].report.detailed_results[0]["scores"]


def test_only_numbers_are_in_the_report(results: dict[str, Benchmark]) -> None:
    text = json.dumps(results["gold"].report.to_dict())
    for task in NAMES:
        for case in cases(task)[:3]:
            assert case["rationale"][:40] not in text
            assert f'"{case["target"]}"' not in text
