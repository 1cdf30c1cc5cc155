"""Files of other people, read as they are from the command line; skipped where they are not at hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from tests.support.commands import command
from tests.support.places import ROOT

DATA = ROOT.parent / "shared" / "data"


def file(*parts: str) -> Path:
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{'/'.join(parts)} is not at hand")
    return path


def test_tabs_in_cells_and_labels_with_a_tab_are_no_third_class() -> None:
    path = file("ckd", "kidney_disease.csv")
    names = ("--map", "item=id,target=classification")
    document = command("look", path, *names, "--labels", "strip", "--format", "json").json
    assert document["rows"] == 400
    assert document["labels"] == [
        {"label": "ckd", "targets": 250, "predictions": 0},
        {"label": "notckd", "targets": 150, "predictions": 0},
    ]
    done = command("evaluate", path, *names, "-m", "mean(age)", "--by", "target", "--resamples", 0, "--format", "json")
    assert done.code == 0, done.err
    counts = {e["slice"].get("target"): e["n"] + sum(e["excluded"].values()) for e in done.json["estimates"]}
    assert counts == {None: 400, "ckd": 250, "notckd": 150}
    records = sy.read(path, map={"item": "id", "target": "classification"})
    assert Counter(records.column("target").to_pylist()) == {"ckd": 250, "notckd": 150}
    exact = sy.read(path, map={"item": "id", "target": "classification"}, labels="exact")
    assert len(exact.labels("target").values) == 3


def test_scores_in_epochs_have_clustered_errors_and_a_paired_difference() -> None:
    path = file("gpqa", "gpqa_diamond_scores.csv")
    names = ("--map", "item=item_id,model=model_id,repeat=epoch")
    looked = command("look", path)
    assert "--map item=item_id,model=model_id,repeat=epoch" in looked.out
    done = command("evaluate", path, *names, "--format", "json", "--resamples", 1000)
    assert done.code == 0, done.err
    by_model = {e["slice"]["model"]: (round(e["value"], 4), round(e["se"], 4)) for e in done.json["estimates"]}
    nano, mini = sorted(by_model)
    assert by_model[nano] == (0.6758, 0.0276)
    assert by_model[mini] == (0.6172, 0.0296)
    versus = ("--versus", f"model={mini},{nano}", "-m", "mean(score)")
    delta: Any = command("compare", path, *names, *versus, "--format", "json").json["deltas"][0]
    assert (round(delta["delta"], 4), round(delta["se"], 4)) == (0.0586, 0.0278)


def test_texts_with_quotes_and_lines_in_cells() -> None:
    path = file("jira", "usergrid.csv")
    done = command("look", path, "--format", "json")
    assert (done.code, done.json["rows"]) == (0, 482)
    names = ("--map", "item=issuekey,target=storypoint")
    done = command("evaluate", path, *names, "-m", "mean(target)", "--by", "split_mark", "--resamples", 0)
    assert done.code == 0, done.err


def test_an_inspect_log_with_two_epochs_is_read_without_options() -> None:
    path = file("inspect", "two_epochs_logprobs_zstd.eval")
    done = command("evaluate", path, "--format", "json", "--resamples", 100)
    assert done.code == 0, done.err
    found = {each["metric"]: each for each in done.json["estimates"]}
    assert (found["accuracy"]["value"], found["accuracy"]["n"], found["accuracy"]["clusters"]) == (0.5, 12, 6)
    assert found["abstention_rate"]["value"] == 0.25
    records = sy.read(path)
    assert records.counts() == {"answered": 9, "abstained": 3, "unparsed": 0, "failed": 0}
    assert set(records.column("repeat").to_pylist()) == {1, 2}
    assert [(each.name, each.stated, each.recomputed) for each in records.sources[0].declared] == [
        ("choice/accuracy", 0.5, 0.5),
        ("choice/stderr", 0.0, 0.0),
    ]
    clustered = command("evaluate", path, "--cluster", "metadata.patient", "-m", "accuracy", "--format", "json")
    assert clustered.json["estimates"][0]["clusters"] == 3
    sliced = command("evaluate", path, "--by", "metadata.patient", "-m", "accuracy", "--format", "json")
    assert [each["n"] for each in sliced.json["estimates"]] == [12, 4, 4, 4]
    compared = command("compare", path, path, "-m", "accuracy", "--format", "json")
    assert compared.json["deltas"][0]["delta"] == 0


def test_the_choices_of_lm_eval_have_confidences_and_its_numbers_are_made_again() -> None:
    path = file("lm_eval", "samples_mini_mc_2026-11-15T18-02-22.160045.jsonl")
    done = command("evaluate", path, "--resamples", 200, "--format", "json")
    assert done.code == 0, done.err
    estimates = {each["metric"]: each for each in done.json["estimates"]}
    assert (estimates["accuracy"]["value"], estimates["accuracy"]["n"]) == (0.4, 5)
    assert round(estimates["accuracy"]["se"], 6) == 0.244949  # acc_stderr, as the log states it
    assert "aurc" in estimates
    declared = done.json["inputs"][0]["declared"]
    assert {each["metric"] for each in declared} >= {"acc,none", "acc_norm,none", "brier_score,none"}
    assert all(each["stated"] == pytest.approx(each["recomputed"]) for each in declared)
    confidence = sy.read(path).column("confidence").to_pylist()
    assert confidence[0] == pytest.approx(0.42923658)  # the first number of the log's own softmax
    normalised = command(
        "evaluate", path, "--scorer", "acc_norm", "-m", "accuracy", "--resamples", 0, "--format", "json"
    )
    assert normalised.json["estimates"][0]["value"] == 0.2


def test_the_means_of_a_helm_run_are_those_of_its_instances() -> None:
    path = file("helm", "mmlu-subject=philosophy,method=multiple_choice_joint,model=openai_gpt2")
    done = command("evaluate", path, "--by", "group.split", "-m", "accuracy", "--resamples", 200, "--format", "json")
    assert done.code == 0, done.err
    by_split = {each["slice"].get("group.split"): each["value"] for each in done.json["estimates"]}
    assert by_split == pytest.approx({"test": 1 / 9, "valid": 0.0})
    declared = done.json["inputs"][0]["declared"]
    again = [each for each in declared if each["recomputed"] is not None]
    assert len(again) == 58
    assert all(each["stated"] == pytest.approx(each["recomputed"]) for each in again)
    assert all("worst of" in each["metric"] for each in declared if each["recomputed"] is None)
