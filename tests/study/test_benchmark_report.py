"""A benchmark's report: means of results and tasks, categories and combined scores, as independent numbers say."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.errors import InputError, UsageError
from steelyard.ground.structs import schema
from steelyard.study.benchmark_report import BenchmarkReport
from steelyard.study.benchmark_wire import ReportFile
from tests.support.oracles import oracle

ORACLE = oracle("benchmark")
WEIGHTS = {"diagnostics": 0.4, "safety": 0.3, "communication": 0.2, "summarization": 0.1}


def near(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: near(part) for key, part in value.items()}
    return None if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)


def usable(weights: dict[str, float]) -> bool:
    return any(weights.values()) and all(weight >= 0 for weight in weights.values())


@pytest.mark.parametrize("case", ORACLE["combined_score"])
def test_combined_scores_are_those_of_an_independent_implementation(case: dict[str, Any]) -> None:
    report = BenchmarkReport(model_id="m", task_scores=case["task_scores"])
    if not usable(case["weights"]):  # the oracle divides by what there is; here it is refused
        with pytest.raises(UsageError, match="weight"):
            report.add_combined_score(case["weights"])
        return
    report.add_combined_score(case["weights"], renormalize_missing=case["renormalize_missing"])
    wanted = case["result"]
    assert {task: scores.get("combined_score") for task, scores in report.task_scores.items()} == near(wanted["task"])
    assert report.overall_scores.get("combined_score") == near(wanted["overall"])


@pytest.mark.parametrize("case", ORACLE["category_aggregates_then_combined"])
def test_categories_are_those_of_an_independent_implementation(case: dict[str, Any]) -> None:
    report = BenchmarkReport(model_id="m", task_scores=case["raw_task_metrics"])
    report.add_category_scores().add_combined_score(case["weights"])
    assert report.task_scores == {task: near(scores) for task, scores in case["task_scores"].items()}
    assert report.overall_scores == near(case["overall_scores"])


@pytest.mark.parametrize("case", ORACLE["benchmark_report_incremental"])
def test_results_are_added_one_by_one(case: dict[str, Any]) -> None:
    report = BenchmarkReport(model_id="m")
    for task, scores in case["adds"]:
        report.add(task, scores)
    assert report.task_scores == {task: near(scores) for task, scores in case["task_scores"].items()}
    assert report.overall_scores == near(case["overall_scores"])
    assert report.summary() == {name: near(numbers) for name, numbers in case["summary"].items()}
    assert [(each["task_id"], each["scores"]) for each in report.detailed_results] == [tuple(a) for a in case["adds"]]


def naive(scores: dict[str, float], weights: dict[str, float], renormalize: bool) -> float | None:
    present = [name for name in weights if name in scores]
    whole = sum(weights[name] for name in (present if renormalize else weights))
    if not present or whole == 0:
        return None
    return sum(weights[name] / whole * scores[name] for name in present)


NAMES = st.sampled_from(list(WEIGHTS))


@given(
    st.dictionaries(st.sampled_from("abc"), st.dictionaries(NAMES, st.floats(0, 1)), max_size=3),
    st.dictionaries(NAMES, st.floats(0, 5), min_size=1).filter(lambda w: sum(w.values()) > 1e-9),
    st.booleans(),
)
@example({"a": {"communication": 0.5}}, {"diagnostics": 1.0, "communication": 5e-324}, True)
def test_the_combined_score_is_its_definition(
    tasks: dict[str, dict[str, float]], weights: dict[str, float], renormalize: bool
) -> None:
    report = BenchmarkReport(model_id="m", task_scores=tasks)
    report.add_combined_score(weights, "index", renormalize)
    wanted = {task: naive(scores, weights, renormalize) for task, scores in tasks.items()}
    assert {task: scores.get("index") for task, scores in report.task_scores.items()} == near(wanted)
    known = [value for value in wanted.values() if value is not None]
    assert report.overall_scores.get("index") == near(math.fsum(known) / len(known) if known else None)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"diagnostics": -0.1, "safety": 1}, "at least 0"),
        ({"diagnostics": math.nan}, "finite"),
        ({"diagnostics": math.inf}, "finite"),
        ({"diagnostics": True}, "finite number"),
        ({"diagnostics": "0.4"}, "finite number"),
        ({"diagnostic": 1}, "unknown category 'diagnostic'; did you mean 'diagnostics'"),
        ({"diagnostics": 0, "safety": 0.0}, "above 0"),
        ({}, "above 0"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weights: dict[str, Any], said: str) -> None:
    report = BenchmarkReport(model_id="m", task_scores={"t": {"diagnostics": 0.5}})
    with pytest.raises(UsageError, match=said):
        report.add_combined_score(weights)
    assert "combined_score" not in report.overall_scores


@pytest.mark.parametrize("name", ["accuracy", "safety", "a b", "", "1st"])
def test_a_name_that_is_taken_or_no_word_is_refused(name: str) -> None:
    report = BenchmarkReport(model_id="m", task_scores={"t": {"accuracy": 0.5}}).add_category_scores()
    with pytest.raises(UsageError):
        report.add_combined_score(WEIGHTS, name)


def test_a_score_of_the_tasks_may_be_weighed() -> None:
    report = BenchmarkReport(model_id="m", task_scores={"t": {"f1": 0.5, "x": 1.0}})
    assert report.add_combined_score({"f1": 1, "x": 3}).overall_scores["combined_score"] == near(0.875)


def test_results_added_later_move_what_was_made_of_the_earlier_ones() -> None:
    report = BenchmarkReport(model_id="m").add("a", {"accuracy": 1.0}).add_category_scores()
    report.add_combined_score(WEIGHTS, "index")
    report.add("a", {"accuracy": 0.0}).add("b", {"harm_avoidance": 0.2})
    assert report.task_scores["a"] == {"accuracy": 0.5, "diagnostics": 0.5, "index": 0.5}
    assert report.task_scores["b"] == {"harm_avoidance": 0.2, "safety": 0.2, "index": 0.2}
    assert report.overall_scores["index"] == near(0.35)


def test_another_model_is_refused() -> None:
    report = BenchmarkReport(model_id="birch").add("a", {"f1": 0.5}, model_id="birch")
    with pytest.raises(UsageError, match="birch"):
        report.add("a", {"f1": 0.5}, model_id="alder")
    with pytest.raises(UsageError, match="birch"):
        report.merge(BenchmarkReport(model_id="alder", task_scores={"b": {"f1": 1}}))
    report.merge(BenchmarkReport(model_id="birch", task_scores={"b": {"f1": 1.0}}))
    assert report.overall_scores == {"f1": 0.75}
    with pytest.raises(UsageError, match="both reports"):
        report.merge(BenchmarkReport(model_id="birch", task_scores={"b": {"f1": 1}}))


def test_keys_of_any_category_may_be_given_and_taken() -> None:
    report = BenchmarkReport(model_id="m", task_scores={"t": {"f1": 0.4, "accuracy": 1.0, "polite": 0.2}})
    report.add_category_scores({"F1": "diagnostics", "accuracy": None, "polite": "manners"})
    assert report.task_scores["t"]["diagnostics"] == 0.4
    assert report.task_scores["t"]["manners"] == 0.2
    assert report.add_combined_score({"manners": 1}).overall_scores["combined_score"] == 0.2


def full() -> BenchmarkReport:
    report = BenchmarkReport(model_id="m").add("a", {"accuracy": 1.0}, breakdown={"matched": 2}).add("b", {"f1": 0.5})
    return report.add_category_scores().add_combined_score(WEIGHTS, "index")


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    report = full()
    report.save(tmp_path / "report.json")
    document = json.loads((tmp_path / "report.json").read_text())
    jsonschema.Draft202012Validator(schema(ReportFile, "report")).validate(document)
    assert list(document) == [
        "schema_version", "model_id", "timestamp", "overall_scores", "task_scores", "detailed_results", "metadata"
    ]  # fmt: skip
    assert document["task_scores"]["b"]["index"] is None
    assert document["overall_scores"]["index"] == 1.0
    loaded = BenchmarkReport.load(tmp_path / "report.json")
    assert loaded == report
    assert loaded.to_dict() == document
    loaded.add("b", {"harm_avoidance": 0.0})
    assert loaded.overall_scores["index"] == near(0.5)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("schema_version", "9", "version 9"),
        ("task_scores", {"a": {"accuracy": "high"}}, "task_scores"),
        ("model_id", "", "model"),
        ("model_id", None, "model_id"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, field: str, value: Any, said: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**full().to_dict(), field: value}))
    with pytest.raises(InputError, match=said):
        BenchmarkReport.load(path)


@pytest.mark.parametrize("score", ["x", True, math.inf])
def test_a_score_that_is_no_number_is_refused(score: Any) -> None:
    with pytest.raises(UsageError, match="score"):
        BenchmarkReport(model_id="m").add("a", {"f1": score})
