"""The documented keys and Details of a kept run: every slice has its own, with intervals, and nothing is mixed."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InputError, StorageError
from steelyard.ground.digests import digest_of
from steelyard.records.table import Records
from steelyard.report.details import WIDEST, details_report
from steelyard.report.formats import markdown, text
from steelyard.report.runs import run_report
from steelyard.runs.documented import details, documented
from steelyard.runs.index import Index
from steelyard.runs.layout import Scope
from steelyard.runs.run_json import read_run, run_document
from steelyard.runs.saved import Clock, SavedRun, compare_runs, save
from steelyard.study.evaluation import evaluate
from steelyard.study.results import Evaluation
from tests.support.answers import lines
from tests.support.commands import command


def rows(**more: Any) -> dict[str, list[Any]]:
    """Two models on forty items, three labels; some decline, some cannot be read, some fail."""
    rng = np.random.default_rng(3)
    count = 80
    target = [str(rng.choice(["low", "high", "very bad"])) for _ in range(count)]
    said = [t if rng.random() < 0.6 else str(rng.choice(["low", "high", "very bad"])) for t in target]
    outcome = [str(rng.choice(["answered"] * 6 + ["abstained", "unparsed", "failed"])) for _ in range(count)]
    return {
        "model": ["m1"] * 40 + ["m2"] * 40,
        "item": [*range(40)] * 2,
        "target": target,
        "prediction": [s if o == "answered" else None for s, o in zip(said, outcome, strict=True)],
        "outcome": outcome,
        "confidence": [round(float(rng.random()), 2) if o == "answered" else None for o in outcome],
        "should_abstain": [bool(rng.random() < 0.3) for _ in range(count)],
        "group.site": ["x", "y"] * 40,
        "group.sex": [*["x"] * 20, *["y"] * 20] * 2,
        **more,
    }


def found(names: list[str], *, by: tuple[str, ...] = (), columns: dict[str, Any] | None = None) -> Evaluation:
    return evaluate(Records.from_columns(columns or rows()), names, by=by, resamples=100, keep_evidence=True)


def kept(folder: Path, result: Evaluation, run_id: str = "one") -> tuple[dict[str, Any], SavedRun]:
    """The document of a run that was kept, and the run."""
    _, place = save(Scope(folder), result, workflow="Triage", clock=Clock(), run_id=run_id)
    return json.loads((place / "run.json").read_text(), parse_constant=pytest.fail), SavedRun.at(place)


def of_model(model: str) -> list[dict[str, Any]]:
    table = rows()
    return [
        r for r in (dict(zip(table, v, strict=True)) for v in zip(*table.values(), strict=True)) if r["model"] == model
    ]


# -- counts ------------------------------------------------------------------------------------------------------------


def test_counts_of_a_run_say_what_was_evaluated_declined_and_replied(tmp_path: Path) -> None:
    document, opened = kept(tmp_path, found(["accuracy", "selective_accuracy"], by=("group.site",)))
    for model in ("m1", "m2"):
        outcomes = Counter(row["outcome"] for row in of_model(model))
        asked = 40 - outcomes["failed"]
        counts = {"n_abstained": outcomes["abstained"], "n_predictions": asked}
        assert document["Counts"][f"accuracy{{model={model}}}"] == {"n_evaluated": asked, **counts}
        answered = {"n_evaluated": outcomes["answered"], **counts}
        assert document["Counts"][f"selective_accuracy{{model={model}}}"] == answered
        assert document["Metrics"][f"n_predictions{{model={model}}}"] == asked
        assert isinstance(document["Metrics"][f"n_predictions{{model={model}}}"], int)
        assert opened.run.counts[f"accuracy{{model={model}}}"] == asked
    with Index(tmp_path) as index:
        indexed = {(row[1], row[10]): row[5] for row in index.rows("selective_accuracy")}
    assert indexed["selective_accuracy", "{model=m1}"] == opened.run.counts["selective_accuracy{model=m1}"]


def test_a_run_reads_back_as_it_was_written(tmp_path: Path) -> None:
    document, opened = kept(tmp_path, found(["accuracy", "f1_macro", "ece"], by=("group.site",)))
    assert run_document(opened.run) == document


@pytest.mark.parametrize("counts", [{"accuracy": 12}, {"accuracy": 12.0}, {"accuracy": {"n_evaluated": 12}}])
def test_counts_are_read_as_numbers_and_as_objects(tmp_path: Path, counts: dict[str, Any]) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"RunId": "one", "Metrics": {"accuracy": 0.5}, "Counts": counts}))
    run = read_run(folder)
    assert run.counts == {"accuracy": 12}
    assert run.counted["accuracy"].n_abstained is None
    assert run_document(run)["Counts"] == {"accuracy": 12}
    assert run.details is None
    assert "Details" not in run_document(run)


@pytest.mark.parametrize(
    "count", ["12", True, -1, {"n": 12}, {"n_evaluated": "12"}, {"n_evaluated": 3, "n_abstained": []}]
)
def test_a_count_that_is_none_is_named(tmp_path: Path, count: Any) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"RunId": "one", "Metrics": {}, "Counts": {"accuracy": count}}))
    with pytest.raises(StorageError, match=r"Counts\.accuracy: a number of rows"):
        read_run(folder)


# -- numbers under other names -----------------------------------------------------------------------------------------


def test_every_cell_and_slice_has_its_documented_keys(tmp_path: Path) -> None:
    names = ["accuracy", "f1_macro", "brier", "fairness_gap(accuracy, by=group.sex)"]
    document, _ = kept(tmp_path, found(names, by=("group.site",)))
    metrics = document["Metrics"]
    for slice_ in ("{model=m1}", "{model=m2}", "{model=m1,group.site=x}", "{model=m2,group.site=y}"):
        for key in ("brier_score", "n_predictions", "global_metric", "per_group.x.accuracy", "disparities.y"):
            assert key + slice_ in metrics
        for label in ("low", "high", '"very bad"'):
            assert {f"per_class.{label}.{name}{slice_}" for name in ("precision", "recall", "f1")} <= set(metrics)
    with Index(tmp_path) as index:
        where = {(row[6], row[10]) for row in index.rows("per_class.low.f1")}
    assert ("m1", "{model=m1,group.site=x}") in where


def test_classes_are_counted_by_hand(tmp_path: Path) -> None:
    document, _ = kept(tmp_path, found(["f1_macro"]))
    asked = [row for row in of_model("m1") if row["outcome"] != "failed"]
    for label in ("low", "high", "very bad"):
        hits = sum(row["prediction"] == label == row["target"] for row in asked)
        said = sum(row["prediction"] == label for row in asked)
        true = sum(row["target"] == label for row in asked)
        shown = label if " " not in label else f'"{label}"'
        values = [document["Metrics"][f"per_class.{shown}.{n}{{model=m1}}"] for n in ("precision", "recall", "f1")]
        assert values == pytest.approx([hits / said, hits / true, 2 * hits / (said + true)])
        assert document["Better"][f"per_class.{shown}.f1{{model=m1}}"] == "higher"


def test_the_classes_of_f1_macro_are_those_asked_for_one_by_one() -> None:
    """The same numbers, with intervals where the class is an estimate of its own; 0 where one is undefined."""
    columns = {"item": [*range(12)], "target": list("aabb") * 3, "prediction": ["a", "a", "a", "c"] * 3}
    alone = documented(found(["f1", "precision", "recall"], columns=columns))
    beside = documented(found(["f1_macro"], columns=columns))
    assert {k: v.value for k, v in alone.items()} == pytest.approx({k: v.value for k, v in beside.items()})
    assert beside["per_class.b.precision"].value == 0
    assert alone["per_class.a.f1"].estimate is not None
    both = documented(found(["f1_macro", "f1"], columns=columns))
    assert both["per_class.a.f1"].estimate is not None
    assert both["per_class.a.recall"].estimate is None


def test_classes_are_of_one_reading() -> None:
    """Recall among the answered rows, and among all, are two numbers: the first asked for is written everywhere."""
    first = documented(found(["f1_macro(answered_only=true)", "recall", "f1_macro"], by=("group.site",)))
    only = documented(found(["f1_macro(answered_only=true)"], by=("group.site",)))
    assert {k: v.value for k, v in first.items()} == {k: v.value for k, v in only.items()}
    assert first["per_class.low.recall{model=m1}"].estimate is None
    other = documented(found(["recall", "f1_macro(answered_only=true)"]))
    assert other["per_class.low.recall{model=m1}"].value != only["per_class.low.recall{model=m1}"].value


def test_a_number_under_another_name_has_the_interval_of_its_estimate(tmp_path: Path) -> None:
    names = ["accuracy", "brier", "aurc", "augrc", "worst_group(accuracy, by=group.site)"]
    names += ["disparity(accuracy, by=group.site)"]
    document, _ = kept(tmp_path, found(names, by=("group.site",)))
    same = {
        "brier_score": "brier",
        "aurc_full": "aurc",
        "augrc_full": "augrc",
        "global_metric": "accuracy",
        "disparities.x": "disparity(accuracy, by=group.site).x",
    }
    for key, metric in same.items():
        for part in ("Metrics", "Intervals", "Counts"):
            one, two = (document[part][f"{name}{{model=m2}}"] for name in (key, metric))
            assert one == pytest.approx(two), (part, key)
        better = [document["Better"].get(f"{name}{{model=m2}}") for name in (key, metric)]
        assert better[0] == better[1]
    for part in ("Metrics", "Intervals", "Counts"):
        assert document[part]["per_group.x.accuracy{model=m2}"] == document[part]["accuracy{model=m2,group.site=x}"]


def test_an_area_compared_up_to_a_common_coverage_is_not_given_the_interval_of_the_whole_one() -> None:
    numbers = documented(found(["aurc", "fairness_gap(aurc, by=group.site)"], by=("group.site",)))
    for key, number in numbers.items():
        if key.startswith("per_group") and number.estimate is not None:
            assert number.estimate.value == pytest.approx(number.value)


@pytest.mark.parametrize("names", [["brier"], ["brier(binary=true)"], ["brier(binary=true)", "brier"]])
def test_the_brier_score_is_that_of_either_reading(names: list[str], tmp_path: Path) -> None:
    columns = {"item": [*range(12)], "target": list("ab") * 6, "prediction": list("aab") * 4, "confidence": [0.8] * 12}
    document, _ = kept(tmp_path, found(names, columns=columns))
    for part in ("Metrics", "Intervals", "Counts", "Better"):
        assert document[part]["brier_score"] == document[part][names[0]]
    three = {**columns, "prediction": list("abc") * 4}
    found_ = documented(found(names, columns=three))
    assert ("brier_score" in found_) == ("brier" in names)


def test_groups_are_of_one_column_and_one_metric_in_every_slice() -> None:
    first, second = "fairness_gap(f1_macro, by=group.site)", "worst_group(accuracy, by=group.sex)"
    third = "fairness_gap(accuracy, by=group.site)"
    result = found([first, second, third, "accuracy", "f1_macro"], by=("group.site",))
    numbers = documented(result)
    groups = {name: result[f"{name}{{model=m1}}"].detail for name in (first, second, third)}
    assert numbers["per_group.x.f1_macro{model=m1}"].value == groups[first]["per_group"]["x"]
    assert numbers["per_group.x.accuracy{model=m1}"].value == groups[third]["per_group"]["x"]
    assert numbers["per_group.x.accuracy{model=m1}"].value != groups[second]["per_group"]["x"]
    assert numbers["global_metric{model=m1}"].value == groups[first]["overall"]
    gap = groups[first]["per_group"]["x"] - groups[first]["overall"]
    assert numbers["disparities.x{model=m1}"].value == pytest.approx(gap)
    inside = [key for key in numbers if "group.site=" in key and key.startswith(("per_group", "global", "dispar"))]
    assert inside == []  # there only the other column was compared


def test_keys_of_a_whole_table_are_as_documented(tmp_path: Path) -> None:
    columns = {name: values[:40] for name, values in rows().items() if name != "model"}
    names = ["f1_macro", "worst_group(accuracy, by=group.site)"]
    document, _ = kept(tmp_path, found(names, columns=columns))
    wanted = {"per_class.very bad.f1", "per_class.low.recall", "n_predictions", "global_metric", "disparities.x"}
    assert wanted <= set(document["Metrics"])


# -- details -----------------------------------------------------------------------------------------------------------


def test_details_are_counted_by_hand(tmp_path: Path) -> None:
    names = ["f1_macro", "deferral_alignment", "ece(bins=4)", "worst_group(accuracy, by=group.site)"]
    document, opened = kept(tmp_path, found(names))
    asked = [row for row in of_model("m1") if row["outcome"] != "failed"]
    labels = ("high", "low", "very bad")
    matrix = {
        true: {said: sum(r["target"] == true and r["prediction"] == said for r in asked) for said in labels}
        | {"no_answer": sum(r["target"] == true and r["prediction"] is None for r in asked)}
        for true in labels
    }
    assert document["Details"]["confusion_matrix{model=m1}"] == matrix
    read = [row for row in asked if row["outcome"] != "unparsed"]
    cells = Counter((row["should_abstain"], row["outcome"] == "abstained") for row in read)
    assert document["Details"]["deferral{model=m1}"] == {
        "defer_when_needed": cells[True, True],
        "answer_when_safe": cells[False, False],
        "answer_when_should_defer": cells[True, False],
        "abstain_when_should_answer": cells[False, True],
    }
    bins = document["Details"]["ece_bins{model=m1}"]
    assert sum(b["n"] for b in bins) == sum(row["confidence"] is not None for row in asked)
    right = {
        site: np.mean([r["prediction"] == r["target"] for r in asked if r["group.site"] == site]) for site in ("x", "y")
    }
    assert document["Details"]["worst_group{model=m1}"] == min(right, key=right.__getitem__)
    assert opened.run.details == document["Details"]
    assert document["Digest"] == digest_of(document) != digest_of({**document, "Details": {}})


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("deferral_balanced", 4),
        ("unsafe_answer_rate", 2),
        ("over_deferral_rate", 2),
    ],
)
def test_deferral_metrics_agree_on_their_cells(name: str, cells: int) -> None:
    whole = details(found(["deferral_alignment"]))["deferral{model=m2}"]
    part = details(found([name]))["deferral{model=m2}"]
    assert len(part) == cells
    assert part.items() <= whole.items()
    both = details(found(["unsafe_answer_rate", "over_deferral_rate"]))
    assert both["deferral{model=m2}"] == whole


def test_further_details_of_a_kind_stand_under_their_metrics_name() -> None:
    names = ["ece(bins=15)", "ece", "worst_group(accuracy, by=group.site)", "worst_group(accuracy, by=group.sex)"]
    result = found(names, by=("group.site",))
    shown = details(result)
    assert shown["ece_bins{model=m1}"] == result["ece(bins=15){model=m1}"].detail["bins"]
    assert shown["ece_bins.ece{model=m1}"] == result["ece{model=m1}"].detail["bins"]
    other = 'worst_group."worst_group(accuracy, by=group.sex)"{model=m1,group.site=x}'
    assert shown[other] == result["worst_group(accuracy, by=group.sex){model=m1,group.site=x}"].detail["group"]
    assert "worst_group{model=m1,group.site=x}" not in shown


def test_a_label_called_no_answer_is_not_the_rows_without_one() -> None:
    columns = {
        "item": [*range(4)],
        "target": ["a", "no_answer"] * 2,
        "prediction": ["no_answer", "no_answer", None, "a"],
    }
    matrix = details(found(["f1_macro"], columns=columns))["confusion_matrix"]
    assert matrix["a"] == {"a": 0, "no_answer": 1, "no_answer_": 1}
    (column,) = {said for counts in matrix.values() for said in counts} - set(matrix)
    assert column == "no_answer_"
    shown = text.render(details_report({"confusion_matrix": matrix}))
    assert "a  no_answer  no answer" in shown


def test_answers_outside_the_labels_are_answers() -> None:
    columns = {"item": [*range(6)], "target": list("ababab"), "prediction": ["a", "b", "c", None, "a", "c"]}
    names = ["f1_macro(labels=[a, b])", "recall.a"]
    matrix = details(found(names, columns=columns))["confusion_matrix"]
    assert matrix["a"] == {"a": 2, "b": 0, "outside_labels": 1, "no_answer": 0}
    assert matrix["b"] == {"a": 0, "b": 1, "outside_labels": 1, "no_answer": 1}


def test_matrices_that_would_make_a_run_unreadable_are_left_to_evaluation_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.runs.saved.MOST_COUNTS", 9)
    document, opened = kept(tmp_path, found(["f1_macro"]))
    assert list(document["Details"]) == ["confusion_matrix{model=m1}"]
    assert all(e.detail["confusion_matrix"] for e in opened.evaluation)


def many(labels: int) -> dict[str, list[Any]]:
    names = [f"c{i:03d}" for i in range(labels)]
    return {"item": [*range(labels)], "target": names, "prediction": [*names[1:], names[0]]}


def test_classes_of_every_label_are_kept_and_no_matrix_above_two_hundred(tmp_path: Path) -> None:
    document, _ = kept(tmp_path, found(["f1_macro"], columns=many(201)))
    assert document["Details"] == {}
    assert sum(key.startswith("per_class.") for key in document["Metrics"]) == 3 * 201


# -- for people --------------------------------------------------------------------------------------------------------


def test_a_run_is_shown_with_its_details(tmp_path: Path) -> None:
    names = ["f1_macro", "deferral_alignment", "ece", "worst_group(accuracy, by=group.site)"]
    _, opened = kept(tmp_path, found(names, by=("group.sex",)))
    shown = text.render(run_report(opened))
    for said in (
        "confusion_matrix{model=m1}",
        "no answer",
        "defer when needed",
        "mean confidence",
        "worst_group{model=m2}",
    ):
        assert said in shown
    assert "confusion_matrix{model=m1,group.sex=x}" not in shown
    assert "16 details of further slices" in shown


def test_labels_of_a_matrix_are_escaped() -> None:
    matrix = {"<b>|x\x1b[31m": {"<b>|x\x1b[31m": 1, "no_answer": 0}}
    shown = markdown.render(details_report({"confusion_matrix": matrix}))
    assert "\x1b" not in shown
    assert "<b>" not in shown.replace("\\<b\\>", "")
    assert "\x1b" not in text.render(details_report({"confusion_matrix": matrix}))


def test_of_many_labels_the_largest_confusions_are_shown() -> None:
    matrix = details(found(["f1_macro"], columns=many(WIDEST + 1)))
    shown = text.render(details_report(matrix))
    assert f"the 20 largest of {WIDEST + 1} confusions among {WIDEST + 1} labels" in shown


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, {"a": 3}, [3], {"a": {"b": None}}, {"a": {"b": "c"}}])
@pytest.mark.parametrize("key", ["confusion_matrix", "deferral", "ece_bins", "worst_group", "other"])
def test_whatever_stands_in_details_can_be_shown(key: str, value: Any) -> None:
    assert isinstance(text.render([*details_report({key: value}), *details_report({})]), str)


def test_the_command_shows_a_confusion_matrix_where_it_is_asked_for(tmp_path: Path) -> None:
    columns = rows()
    table = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    (tmp_path / "run.jsonl").write_text(lines(table))
    asked = ("evaluate", tmp_path / "run.jsonl", "--where", "model=m1", "--resamples", "100", "-m")
    out = command(*asked, "confusion_matrix").stdout
    assert out.index("f1_macro") < out.index("confusion_matrix") < out.index("no answer")
    assert "no answer" not in command(*asked, "f1_macro").stdout
    out = command(*asked, "confusion_matrix(answered_only=true)", "--format", "json").stdout
    (estimate,) = json.loads(out)["estimates"]
    assert estimate["metric"] == "f1_macro(answered_only=true)"
    assert len(estimate["detail"]["confusion_matrix"]) == 3


# -- intervals and comparisons -----------------------------------------------------------------------------------------


def test_an_interval_with_an_unknown_end_is_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    numbers = {name: rng.normal(size=40).tolist() for name in ("target", "prediction")}
    columns = {"item": [*range(40)], **numbers, "group.site": ["x"] * 38 + ["y"] * 2}
    document, opened = kept(tmp_path, found(["worst_group(mae, by=group.site)"], columns=columns))
    assert document["Intervals"]["worst_group(mae, by=group.site)"][1] is None
    assert opened.run.intervals["worst_group(mae, by=group.site)"][1] == math.inf


def test_the_largest_coverage_of_a_run_that_kept_a_curve_compares_with_one_of_today(tmp_path: Path) -> None:
    """What earlier versions kept of cmax is the curve that aurc keeps today, inside groups too."""
    columns = {name: values[:40] for name, values in rows().items() if name != "model"}
    names = ["cmax", "aurc", "fairness_gap(cmax, by=group.site)", "fairness_gap(aurc, by=group.site)"]
    result = found(names, columns=columns)
    (part,) = result.kept
    as_then = {"cmax": "aurc", "fairness_gap(cmax, by=group.site)": "fairness_gap(aurc, by=group.site)"}
    evidence = {name: part.evidence[as_then.get(name, name)] for name in names}
    constants = {name: part.constants[as_then.get(name, name)] for name in names}
    _, then = kept(tmp_path, replace(result, kept=(replace(part, evidence=evidence, constants=constants),)), "then")
    _, now = kept(tmp_path, result, "now")
    for base, new in ((then, now), (now, then), (then, then)):
        for delta in compare_runs(base, new, list(as_then)):
            assert delta.delta == pytest.approx(0)
            assert delta.base == pytest.approx(result[delta.metric].value)


def test_a_brier_score_pairs_whichever_of_its_readings_was_kept(tmp_path: Path) -> None:
    columns = {"item": [*range(12)], "target": list("ab") * 6, "prediction": list("aab") * 4, "confidence": [0.8] * 12}
    _, base = kept(tmp_path, found(["brier"], columns=columns), "base")
    surer = {**columns, "confidence": [0.9] * 12}
    _, new = kept(tmp_path, found(["brier(binary=true)"], columns=surer), "new")
    wanted = new.run.metrics["brier_score"] - base.run.metrics["brier_score"]
    assert compare_runs(base, new, ["brier"])["brier"].delta == pytest.approx(wanted)
    with pytest.raises(InputError, match="kept no evidence"):  # how many labels there were, brier alone did not ask
        compare_runs(base, new, ["brier(binary=true)"])
