"""A benchmark: answers joined to cases, every number with its interval, nothing lost and no text kept."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.decide.gate import Gate
from steelyard.errors import InputError, UsageError
from steelyard.metrics import definition
from steelyard.naming import parse
from steelyard.study.benchmark import Benchmark, benchmark
from steelyard.study.benchmark_report import BenchmarkReport
from steelyard.study.evaluation import evaluate
from steelyard.uncertainty.settings import Settings
from tests.support.suites import SUITE, lines, write_answers, write_suite

FEW = Settings(resamples=400)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path / "suite")


@pytest.fixture
def answers(tmp_path: Path, suite: Path) -> Path:
    return write_answers(tmp_path / "birch", suite, right=0.8)


def run(suite: Path, answers: Path, **more: Any) -> Benchmark:
    return benchmark(suite, answers, settings=FEW, **more)


def test_scores_are_what_they_are_by_hand(suite: Path, answers: Path) -> None:
    result = run(suite, answers)
    scores: dict[str, list[bool]] = {}
    for task in ("triage", "recall", "notes"):
        cases = [json.loads(line) for line in (suite.parent / f"{task}.jsonl").read_text().splitlines()]
        given = [json.loads(line) for line in (answers / f"{task}.jsonl").read_text().splitlines()]
        scores[task] = [c["target"] == g["prediction"] for c, g in zip(cases, given, strict=True)]
    means = {task: sum(right) / len(right) for task, right in scores.items()}
    report = result.report
    assert {task: report.task_scores[task]["accuracy"] for task in means} == pytest.approx(means)
    assert report.overall_scores["accuracy"] == pytest.approx(sum(means.values()) / 3)
    notes = report.task_scores["notes"]
    assert notes["combined_score"] == pytest.approx(0.6 * notes["accuracy"] + 0.4 * notes["selective_accuracy"])
    triage = report.task_scores["triage"]
    assert triage["combined_score"] == pytest.approx((triage["accuracy"] + triage["f1_macro"]) / 2)
    assert report.overall_scores["combined_score"] == pytest.approx(
        sum(report.task_scores[task]["combined_score"] for task in means) / 3
    )
    rows = [each["scores"]["accuracy"] for each in report.detailed_results if each["task_id"] == "triage"]
    assert rows == [float(right) for right in scores["triage"]]


def test_a_report_made_of_its_numbers_agrees(suite: Path, answers: Path) -> None:
    result = run(suite, answers)
    measured = {
        task: {n: v for n, v in scores.items() if n in ("accuracy", "f1_macro", "selective_accuracy")}
        for task, scores in result.report.task_scores.items()
    }
    again = BenchmarkReport(model_id="birch", task_scores=measured)
    again.add_category_scores(SUITE["combined"]["map"]).add_combined_score(SUITE["combined"]["weights"])
    for name in ("combined_score", "diagnostics", "safety"):
        assert again.overall_scores[name] == pytest.approx(result.report.overall_scores[name], abs=1e-12)


def test_every_number_has_an_interval_that_holds_it(suite: Path, answers: Path) -> None:
    result = run(suite, answers, by="group.site")
    assert {"combined_score", "category.diagnostics", "category.safety"} <= {e.metric for e in result.evaluation}
    for e in result.evaluation:
        assert e.value is not None
        assert e.interval is not None, e
        assert e.interval[0] <= e.value <= e.interval[1]
    assert {tuple(e.slice) for e in result.evaluation} == {(), ("task",), ("group.site",)}
    intervals = result.report.metadata["intervals"]
    assert intervals["overall"]["combined_score"] == list(result.evaluation["combined_score"].interval or ())
    assert set(intervals["tasks"]["notes"]) == set(result.report.task_scores["notes"])


def test_a_task_of_one_metric_is_as_sure_as_that_metric(suite: Path, answers: Path) -> None:
    result = run(suite, answers)
    one, two, three = (
        result.evaluation[f"{m}{{task=recall}}"] for m in ("accuracy", "combined_score", "category.diagnostics")
    )
    assert one.interval == two.interval == three.interval
    assert one.method == two.method


def test_one_file_with_a_column_task_is_the_same(suite: Path, answers: Path, tmp_path: Path) -> None:
    rows = [
        {**json.loads(line), "task": task}
        for task in ("notes", "triage", "recall")
        for line in (answers / f"{task}.jsonl").read_text().splitlines()
    ]
    (tmp_path / "all.jsonl").write_text(lines(rows))
    assert run(suite, tmp_path / "all.jsonl").report.task_scores == run(suite, answers).report.task_scores


def test_rows_without_an_answer_are_said_and_counted(suite: Path, answers: Path) -> None:
    short = (answers / "triage.jsonl").read_text().splitlines()[:20]
    (answers / "triage.jsonl").write_text("\n".join(short) + "\n")
    (answers / "recall.jsonl").unlink()
    result = run(suite, answers)
    assert result.missing == {"triage": 10, "recall": 24}
    assert result.evaluation.population["failed"] == 34
    assert result.warnings == (
        "task triage: 10 cases have no answer: 10 rows counted as failed",
        "task recall: there are no answers: 24 rows counted as failed",
        "1 predicted label is never a target, in 10 rows; check for misspelt or unclean labels",
    )
    assert result.evaluation["accuracy{task=triage}"].n == 20
    assert "accuracy" not in result.report.task_scores["recall"]
    assert result.report.to_dict()["task_scores"]["recall"]["accuracy"] is None
    combined = result.evaluation["combined_score"]
    assert "accuracy of recall left out" in combined.note
    decision = Gate.parse("low(combined_score) >= 0.1").check(result.evaluation)
    assert decision.verdict == "inconclusive"  # a missing task must not help a model to pass
    assert Gate.parse("combined_score >= 0.1").check(result.evaluation).verdict == "fail"


def test_whatever_evaluate_says_of_the_same_rows_is_said(suite: Path, answers: Path) -> None:
    rows = [json.loads(line) for line in (answers / "triage.jsonl").read_text().splitlines()]
    (answers / "triage.jsonl").write_text(lines([{**row, "prediction": f"{row['prediction']}x"} for row in rows]))
    result = run(suite, answers)
    asked = list(dict.fromkeys(metric for task in result.suite.tasks for metric in task.metrics))
    said = evaluate(result.records, asked, settings=FEW).warnings
    assert any("never a target" in warning for warning in said)
    assert [warning for warning in said if warning not in result.warnings] == []


@pytest.mark.parametrize("with_baseline", [False, True])
def test_names_are_read_at_the_door_only(suite: Path, answers: Path, monkeypatch: Any, with_baseline: bool) -> None:
    """Once per metric and category that the suite names, however many tasks, slices and resamples follow."""
    read: list[str] = []
    monkeypatch.setattr(definition, "parse", lambda text: read.append(text) or parse(text))
    run(suite, answers, baseline=answers if with_baseline else None)
    assert 0 < len(read) < 40


def test_a_metric_without_its_column_is_left_out_and_said(suite: Path, answers: Path) -> None:
    changed = copy.deepcopy(SUITE)
    changed["tasks"][1]["metrics"] = ["accuracy", "brier"]
    result = run(write_suite(suite.parent, changed), answers)
    assert "confidence" in result.report.metadata["undefined"]["recall"]["brier"]
    assert "brier" not in result.report.overall_scores
    assert result.report.to_dict()["overall_scores"]["brier"] is None


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "triage-999", "prediction": "a"}, r"triage.jsonl:31: id: is no case of the task triage"),
        ({"id": "triage-3", "prediction": "a"}, r"triage.jsonl:31: id: answers a case again that line 4 answers"),
        ({"id": "triage-3", "prediction": "a", "confidence": 7}, r"again"),
    ],
)
def test_an_answer_to_no_case_or_twice_is_refused(suite: Path, answers: Path, row: dict[str, Any], said: str) -> None:
    with (answers / "triage.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    with pytest.raises(InputError, match=said):
        run(suite, answers)


def test_a_bad_value_is_told_with_file_and_line(suite: Path, answers: Path) -> None:
    rows = [json.loads(line) for line in (answers / "notes.jsonl").read_text().splitlines()]
    rows[6]["confidence"] = 7
    (answers / "notes.jsonl").write_text(lines(rows))
    with pytest.raises(InputError, match=r"notes.jsonl:7: confidence"):
        run(suite, answers)


@pytest.mark.parametrize("column", ["target", "mark", "group.site", "patient", "note", "contraindicated", "cluster"])
def test_answers_cannot_bring_what_is_right(suite: Path, answers: Path, column: str) -> None:
    """Whatever a column of the answers says of the question or the right answer, the scores are the suite's."""
    suite.write_text(suite.read_text().replace("group.site: site", "group.site: site\n    patient: site"))
    honest = run(suite, answers, by="group.site")
    for path in answers.iterdir():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        values = {"target": [row["prediction"] for row in rows], "mark": [1] * len(rows)}.get(column, ["c"] * len(rows))
        path.write_text(lines([{**row, column: value} for row, value in zip(rows, values, strict=True)]))
    result = run(suite, answers, by="group.site")
    assert result.report.overall_scores == honest.report.overall_scores
    assert [e.interval for e in result.evaluation] == [e.interval for e in honest.evaluation]
    said = [warning for warning in result.warnings if f"'{column}'" in warning]
    assert len(said) == 3
    assert said[0].startswith("task triage: 1 column of the answers not used in 30 rows: ")
    assert "the suite says what is asked and what is right" in said[0]


def test_a_rationale_of_the_reference_is_the_suites(suite: Path, answers: Path) -> None:
    changed = copy.deepcopy(SUITE)
    changed["tasks"][1]["metrics"] = ["reasoning_quality"]
    changed["tasks"][1]["fields"]["rationale"] = "site"
    path = write_suite(suite.parent, changed)
    rows = [json.loads(line) for line in (answers / "recall.jsonl").read_text().splitlines()]
    same = {"rationale": "Pneumonia with fever.", "target_rationale": "Pneumonia with fever."}
    (answers / "recall.jsonl").write_text(lines([{**row, **same} for row in rows]))
    result = run(path, answers)
    assert result.report.task_scores["recall"]["reasoning_quality"] == 0
    assert "'target_rationale' (differs in 24)" in result.warnings[0]


@pytest.mark.parametrize("column", ["id", "prediction", "rationale", "confidence"])
def test_a_column_of_two_kinds_is_told_with_its_line(suite: Path, answers: Path, column: str) -> None:
    rows = [{**json.loads(line), "rationale": "x"} for line in (answers / "recall.jsonl").read_text().splitlines()]
    rows = [{**row, "confidence": 0.5} for row in rows]
    rows[0][column] = 7 if column != "confidence" else "much"
    (answers / "recall.jsonl").write_text(lines(rows))
    with pytest.raises(InputError, match=rf"recall.jsonl:[12]: {column}: "):
        run(suite, answers)


def test_repeats_of_a_case_are_answers_too(suite: Path, answers: Path) -> None:
    for task in ("triage", "recall", "notes"):
        rows = [json.loads(line) for line in (answers / f"{task}.jsonl").read_text().splitlines()]
        (answers / f"{task}.jsonl").write_text(lines([{**row, "repeat": r} for row in rows for r in (1, 2)]))
    result = run(suite, answers)
    assert result.evaluation["accuracy{task=triage}"].n == 60
    assert result.evaluation["accuracy{task=triage}"].clusters == 30


def test_two_models_are_refused(suite: Path, answers: Path, tmp_path: Path) -> None:
    write_answers(tmp_path / "mixed", suite, right=0.5, model="alder")
    (answers / "notes.jsonl").write_text((tmp_path / "mixed" / "notes.jsonl").read_text())
    with pytest.raises(UsageError, match="2 models"):
        run(suite, answers)


def test_files_that_are_no_tasks_are_said(suite: Path, answers: Path) -> None:
    (answers / "recal.jsonl").write_text((answers / "recall.jsonl").read_text())
    (answers / ".hidden").write_text("")
    assert "recal.jsonl is no task of the suite, and was not read; did you mean recall?" in run(suite, answers).warnings


@pytest.mark.parametrize("where", ["gone", "empty", "plain.jsonl", "other.jsonl"])
def test_answers_that_are_not_there_are_refused(suite: Path, tmp_path: Path, where: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "plain.jsonl").write_text(lines([{"id": "triage-1", "prediction": "a"}]))
    (tmp_path / "other.jsonl").write_text(lines([{"id": "triage-1", "prediction": "a", "task": "triag"}]))
    with pytest.raises((UsageError, InputError), match=r"triage|column 'task'|no such file|did you mean"):
        run(suite, tmp_path / where)


def test_the_model_is_named_as_the_answers_say(suite: Path, answers: Path) -> None:
    assert run(suite, answers).report.model_id == "birch"
    assert run(suite, answers, model_id="other").report.model_id == "other"
    for path in answers.iterdir():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text(lines([{k: v for k, v in row.items() if k != "model"} for row in rows]))
    assert run(suite, answers).report.model_id == "birch"  # after the folder


def test_no_text_of_a_case_or_an_answer_is_in_the_report(suite: Path, answers: Path) -> None:
    for path in answers.iterdir():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text(lines([{**row, "prediction": "SECRET REPLY", "rationale": "SECRET WHY"} for row in rows]))
    text = json.dumps(run(suite, answers).report.to_dict())
    assert "SECRET" not in text
    assert "PATIENT" not in text


# -- two models --------------------------------------------------------------------------------------------------------


def test_deltas_are_paired_and_over_what_both_runs_have(suite: Path, answers: Path, tmp_path: Path) -> None:
    old = write_answers(tmp_path / "alder", suite, right=0.2, seed=2, model="alder")
    result = benchmark(suite, answers, baseline=old, settings=Settings(resamples=4000))
    before = run(suite, old)
    assert result.baseline == "alder"
    assert result.comparison is not None
    delta = result.comparison["combined_score"]
    assert delta.base == pytest.approx(before.report.overall_scores["combined_score"])
    assert delta.new == pytest.approx(result.report.overall_scores["combined_score"])
    assert delta.interval is not None
    assert delta.interval[0] <= delta.value <= delta.interval[1]
    assert delta.verdict == "better"
    names = {(d.metric, *d.slice.values()) for d in result.comparison}
    assert names == {
        ("combined_score",), ("category.diagnostics",), ("category.safety",),
        ("combined_score", "triage"), ("combined_score", "recall"),
        ("combined_score", "notes"), ("category.diagnostics", "notes"), ("category.safety", "notes"),
    }  # fmt: skip


def test_a_category_that_one_run_lacks_is_in_neither_side_of_a_delta(
    suite: Path, answers: Path, tmp_path: Path
) -> None:
    old = write_answers(tmp_path / "alder", suite, right=0.6, seed=2, model="alder")
    rows = [json.loads(line) for line in (old / "notes.jsonl").read_text().splitlines()]
    (old / "notes.jsonl").write_text(lines([{**row, "prediction": None} for row in rows]))  # nothing is answered there
    result = run(suite, answers, baseline=old)
    assert result.comparison is not None
    notes = result.comparison["combined_score{task=notes}"]
    assert notes.base == 0.0  # accuracy alone: selective accuracy has no value in one run
    assert notes.new == pytest.approx(result.report.task_scores["notes"]["accuracy"])
    assert "selective_accuracy of notes left out: without a value in one run, or in both" in notes.note
    assert "missing group" in notes.cautions
    assert result.comparison["category.safety{task=notes}"].value is None


def test_kept_runs_compare_as_their_rows_do(suite: Path, answers: Path, tmp_path: Path) -> None:
    from steelyard.study.comparison import compare_kept
    from steelyard.study.kept_wire import packed, unpacked

    old = write_answers(tmp_path / "alder", suite, right=0.5, seed=2, model="alder")
    rows = run(suite, answers, baseline=old, keep_evidence=True)
    base = run(suite, old, keep_evidence=True)
    kept = [unpacked(packed(each.evaluation.kept)) for each in (base, rows)]
    asked = ["combined_score", "category.diagnostics", "category.safety"]
    compared = compare_kept(*kept, asked, settings=FEW)
    assert rows.comparison is not None
    for name in asked:
        one, two = compared[name], rows.comparison[name]
        assert (one.delta, one.p_value) == pytest.approx((two.delta, two.p_value))
        assert one.interval == pytest.approx(two.interval)


def test_runs_with_other_weights_are_not_compared(suite: Path, answers: Path) -> None:
    from steelyard.study.comparison import compare_kept

    one, two = (
        run(suite, answers, keep_evidence=True, weights={"diagnostics": w, "safety": 1}).evaluation.kept for w in (1, 2)
    )
    with pytest.raises(InputError, match="weigh their categories differently"):
        compare_kept(one, two, ["combined_score"], settings=FEW)


def test_the_scores_are_metrics_of_the_records(suite: Path, answers: Path) -> None:
    result = run(suite, answers)
    again = evaluate(result.records, ["combined_score", "category"], pool="task", settings=FEW)
    assert again["combined_score"].interval == result.evaluation["combined_score"].interval
    assert [e.metric for e in again] == ["combined_score", "category.diagnostics", "category.safety"]


def test_a_suite_of_one_task(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "one", {**SUITE, "tasks": SUITE["tasks"][:1]}, {"triage": 30})
    answers = write_answers(tmp_path / "birch", suite, right=0.8, sizes={"triage": 30})
    report = run(suite, answers / "triage.jsonl").report
    assert report.task_scores["triage"]["combined_score"] == report.overall_scores["combined_score"]
    assert set(report.task_scores["triage"]) == {"accuracy", "f1_macro", "diagnostics", "combined_score"}
    assert set(report.overall_scores) == {"accuracy", "f1_macro", "diagnostics", "combined_score"}


def test_patients_that_tasks_share_are_drawn_together(tmp_path: Path) -> None:
    """Where a patient is in every task, resampling keeps them together; where each has their own, tasks are apart."""
    suite = write_suite(tmp_path / "s", {**copy.deepcopy(SUITE), "cluster": "patient"})
    for task in ("triage", "recall", "notes"):
        cases = [json.loads(line) for line in (suite.parent / f"{task}.jsonl").read_text().splitlines()]
        shared = [{**case, "patient": f"p{i % 20}"} for i, case in enumerate(cases)]
        (suite.parent / f"{task}.jsonl").write_text(lines(shared))
    changed = suite.read_text().replace("group.site: site", "group.site: site\n    patient: patient")
    suite.write_text(changed)
    answers = write_answers(tmp_path / "birch", suite, right=0.7)
    result = run(suite, answers, keep_evidence=True)
    assert result.evaluation.clusters == 20
    evidence = result.evaluation.kept[0].evidence["combined_score"]
    assert evidence.strata is None


def test_some_tasks_only(suite: Path, answers: Path, tmp_path: Path) -> None:
    whole, some = run(suite, answers), run(suite, answers, tasks=["notes", "triage"])
    assert list(some.report.task_scores) == ["triage", "notes"]
    assert some.report.task_scores["notes"] == whole.report.task_scores["notes"]
    assert not any("recall" in warning for warning in (*some.warnings, *some.missing))
    rows = [{**json.loads(line), "task": p.stem} for p in answers.iterdir() for line in p.read_text().splitlines()]
    (tmp_path / "all.jsonl").write_text(lines(rows))
    assert run(suite, tmp_path / "all.jsonl", tasks="notes").report.task_scores == {
        "notes": some.report.task_scores["notes"]
    }
    with pytest.raises(UsageError, match="did you mean 'notes'"):
        run(suite, answers, tasks="note")


def test_a_suite_may_bring_terms_of_its_own(suite: Path, answers: Path) -> None:
    changed = copy.deepcopy(SUITE)
    changed["lexicon"] = ["ward.tsv"]
    changed["tasks"][1]["metrics"] = ["clinical_accuracy"]
    path = write_suite(suite.parent, changed)
    (suite.parent / "ward.tsv").write_text("zorbles\tdiagnoses\tthe zorbles|zorblitis\n")
    cases = [{"id": f"recall-{i}", "target": "the zorbles and cough", "site": "x"} for i in range(24)]
    (suite.parent / "recall.jsonl").write_text(lines(cases))
    (answers / "recall.jsonl").write_text(lines([{"id": case["id"], "prediction": "zorblitis"} for case in cases]))
    with_terms = run(path, answers).report.task_scores["recall"]["clinical_accuracy"]
    changed.pop("lexicon")
    assert with_terms == pytest.approx(0.75)  # three of four parts: the diagnosis weighs 3, the symptom 1
    path = write_suite(suite.parent, changed)
    (suite.parent / "recall.jsonl").write_text(lines(cases))
    assert run(path, answers).report.task_scores["recall"]["clinical_accuracy"] == 0
    given = run(path, answers, lexicon=str(suite.parent / "ward.tsv")).report
    assert given.task_scores["recall"]["clinical_accuracy"] == pytest.approx(0.75)


def test_what_decides_may_be_about_a_task_that_was_not_measured(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "suite", {**SUITE, "decides": ["combined_score{task=recall}"]})
    one, two = (write_answers(tmp_path / name, suite, right=0.8, seed=seed) for name, seed in (("one", 1), ("two", 2)))
    found = run(suite, one, baseline=two, tasks=["triage", "notes"]).comparison
    assert found is not None
    assert [d.metric for d in found if d.role == "primary"] == ["combined_score"]


@pytest.mark.parametrize(
    ("decides", "tasks", "primary"),
    [
        (["diagnostics{task=recall}"], (), {("combined_score", "recall")}),  # its only category
        (["diagnostics{task=notes}"], (), {("diagnostics", "notes")}),
        (["safety", "combined_score"], (), {("safety", ""), ("combined_score", "")}),
        (["diagnostics{task=triage}"], ("triage",), {("diagnostics", "")}),  # the only task
        (["safety"], ("triage",), {("combined_score", "")}),  # which it does not have
    ],
)
def test_what_decides_is_found_as_it_is_measured(
    tmp_path: Path, decides: list[str], tasks: tuple[str, ...], primary: set[tuple[str, str]]
) -> None:
    suite = write_suite(tmp_path / "suite", {**SUITE, "decides": decides})
    one, two = (write_answers(tmp_path / name, suite, right=0.8, seed=seed) for name, seed in (("one", 1), ("two", 2)))
    found = run(suite, one, baseline=two, tasks=tasks).comparison
    assert found is not None
    deciding = {(d.metric.removeprefix("category."), d.slice.get("task", "")) for d in found if d.role == "primary"}
    assert deciding == primary
