"""The same rows give the same verdict, whichever command is asked; what decides is said, and the rest explores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import steelyard as sy
from tests.support.answers import lines
from tests.support.commands import command

ITEMS = range(32)
LOST, GAINED = (
    (0, 1),
    range(2, 18),
)  # of the old model's twelve right answers two are lost, sixteen wrong ones are mended
RIGHT = {"old": {*LOST, *range(18, 28)}, "new": {*GAINED, *range(18, 28)}}
FEW = ("--resamples", "400", "--format", "json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models' answers to the same questions: 12 and 26 of 32 are right; as files, replies, and a benchmark's."""
    where = tmp_path_factory.mktemp("rows")
    target = {i: "yes" if i % 2 else "no" for i in ITEMS}
    said = {
        name: {i: target[i] if i in right else ("no" if i % 2 else "yes") for i in ITEMS}
        for name, right in RIGHT.items()
    }
    rows = {
        name: [
            {
                "model": name,
                "item": i,
                "target": target[i],
                "prediction": given[i],
                "confidence": 0.5 + (i * 7 % 32) / 64,
            }
            for i in ITEMS
        ]
        for name, given in said.items()
    }
    for name, own in rows.items():
        (where / f"{name}.jsonl").write_text(lines(own))
        (where / f"{name}-answers").mkdir()
        (where / f"{name}-answers" / "odd.jsonl").write_text(
            lines([{"id": str(row["item"]), "prediction": row["prediction"], "model": name} for row in own])
        )
    (where / "both.jsonl").write_text(lines([row for own in rows.values() for row in own]))
    (where / "replies.jsonl").write_text(
        lines(
            [
                {"model": name, "item": row["item"], "reply": json.dumps({"answer": row["prediction"]})}
                for name, own in rows.items()
                for row in own
            ]
        )
    )
    cases = [
        {
            "id": str(i),
            "question": f"Here is a number, please say whether it is an odd one: {i}",
            "target": target[i],
            "site": "ab"[i % 3 > 0],
        }
        for i in ITEMS
    ]
    (where / "cases.jsonl").write_text(lines(cases))
    task = {
        "name": "odd", "data": "cases.jsonl", "id": "id", "question": "question", "target": "target",
        "labels": ["yes", "no"], "groups": ["site"], "prompt": "{{ question }}",
    }  # fmt: skip
    (where / "odd.task.yaml").write_text(yaml.safe_dump(task))
    spec = {
        "id": "odd", "task": "odd.task.yaml", "perturbations": ["typos", "upper"],
        "metrics": ["accuracy", "f1_macro", "balanced_accuracy", "answer_rate", "robustness_score(accuracy)"],
        "models": [{"name": name, "backend": "replay", "options": {"file": "replies.jsonl"}} for name in RIGHT],
    }  # fmt: skip
    (where / "spec.yaml").write_text(yaml.safe_dump(spec))
    suite = {
        "name": "odd",
        "tasks": [{"name": "odd", "type": "qa", "data": "cases.jsonl", "metrics": ["accuracy"]}],
    }
    (where / "suite.yaml").write_text(yaml.safe_dump(suite))
    compared = ("-m", "accuracy,f1_macro,ece,answer_rate", "--save", "--run-id", "it")
    assert command("compare", where / "old.jsonl", where / "new.jsonl", *compared, root=where / "store").code == 0
    return where


def _said(document: Any, metric: str = "accuracy") -> tuple[str, float]:
    """The verdict and the adjusted p-value of a metric, on the questions as they are."""
    deltas = [d for d in document["deltas"] if d["metric"] == metric and d["role"] == "primary"]
    (delta,) = deltas
    return delta["verdict"], delta["p_adjusted"]


def by_files(folder: Path) -> tuple[str, float]:
    return _said(command("compare", folder / "old.jsonl", folder / "new.jsonl", *FEW).json)


def by_many_metrics(folder: Path) -> tuple[str, float]:
    asked = "accuracy,f1_macro,balanced_accuracy,ece,brier,aurc,augrc,answer_rate,kappa,mcc"
    files = (folder / "old.jsonl", folder / "new.jsonl")
    return _said(command("compare", *files, "-m", asked, *FEW).json)


def by_models_of_one_file(folder: Path) -> tuple[str, float]:
    return _said(command("compare", folder / "both.jsonl", "--versus", "model=old,new", *FEW).json)


def by_two_that_decide_alike(folder: Path) -> tuple[str, float]:
    files = (folder / "old.jsonl", folder / "new.jsonl")
    return _said(command("compare", *files, "-m", "ece", "--primary", "accuracy", *FEW).json)


def by_asking(folder: Path) -> tuple[str, float]:
    done = command("run", folder / "spec.yaml", *FEW, root=folder / "asked")
    assert done.code == 0, done.err
    (pair,) = done.json["comparisons"]
    assert (pair["base"], pair["new"]) == ("old", "new")
    return _said(pair["comparison"])


def by_kept_runs(folder: Path) -> tuple[str, float]:
    asked = ("runs", "compare", "-m", "accuracy,f1_macro", "--against", "it-base", *FEW)
    new = next(run for run in command(*asked, root=folder / "store").json["runs"] if run["run_id"] == "it")
    return new["verdict"], new["p_adjusted"]


def by_a_file_against_a_kept_run(folder: Path) -> tuple[str, float]:
    done = command("compare", "it-base", folder / "new.jsonl", *FEW, root=folder / "store")
    assert done.code == 0, done.err
    assert done.json["names"] == {"base": "run it-base"}
    return _said(done.json)


def by_a_kept_run_against_a_file(folder: Path) -> tuple[str, float]:
    assert command("runs", "pin", "it", "--as", "best", root=folder / "store").code == 0
    return _said(command("compare", folder / "old.jsonl", "pinned:best", *FEW, root=folder / "store").json)


def by_kept_runs_named(folder: Path) -> tuple[str, float]:
    return _said(command("compare", "it-base", "it", "-m", "accuracy,ece", *FEW, root=folder / "store").json)


def by_benchmark(folder: Path) -> tuple[str, float]:
    suite, new, old = (folder / name for name in ("suite.yaml", "new-answers", "old-answers"))
    done = command("benchmark", suite, new, old, *FEW)
    assert done.code == 0, done.err
    return _said(done.json["metadata"]["comparison"], "combined_score")


def by_python(folder: Path) -> tuple[str, float]:
    comparison = sy.compare(folder / "old.jsonl", folder / "new.jsonl", resamples=400)
    delta = comparison["accuracy"]
    return delta.verdict, delta.p_adjusted


WAYS: list[Callable[[Path], tuple[str, float]]] = [
    by_files, by_many_metrics, by_models_of_one_file, by_two_that_decide_alike, by_asking, by_kept_runs, by_python,
    by_a_file_against_a_kept_run, by_a_kept_run_against_a_file, by_kept_runs_named,
]  # fmt: skip


def test_every_command_says_the_same_of_the_same_rows(folder: Path) -> None:
    said = {way.__name__: way(folder) for way in WAYS}
    assert set(said.values()) == {("better", said["by_files"][1])}, said
    assert said["by_files"][1] < 0.01
    # of one task the combined score is accuracy; its interval is a bootstrap's, so its p is another, its verdict is not
    assert by_benchmark(folder)[0] == "better"


def test_deciding_agrees_with_comparing(folder: Path) -> None:
    promoted = command("runs", "promote", "it-base", root=folder / "store")
    assert promoted.code == 0, promoted.err
    decided = command("runs", "decide", "-m", "accuracy", "--format", "json", root=folder / "store").json
    assert (decided["action"], decided["candidate"]) == ("Promote", "it")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("old.jsonl", "it", "--save"), "--save is for files of answers; one of these is a kept run"),
        (("old.jsonl", "it", "--pool", "model"), "--pool is for files of answers; one of these is a kept run"),
        (("it", "it-base", "--where", "item=3"), "--where is for files of answers"),
        (("old.jsonl", "nobody"), "'nobody' is no run here"),
        (("old.jsonl", "pinned:nobody"), "nothing is pinned"),
        (("old.jsonl", "it", "--by", "confidence"), "--by confidence: a kept run was evaluated in other slices"),
    ],
)
def test_what_a_kept_run_cannot_do_is_said(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    done = command("compare", *arguments, "--resamples", "100", root=folder / "store", cwd=folder)
    assert done.code == 2, done.out
    assert said in done.err


@pytest.mark.parametrize("runs", [("new.jsonl", "old.jsonl"), ("it", "it-base")])
def test_gates_agree_with_comparing(folder: Path, runs: tuple[str, str]) -> None:
    names = [folder / name if name.endswith("l") else name for name in runs]
    for rule, code in (
        ("low(delta(accuracy)) > 0", 0),
        ("low(delta(accuracy)) >= 0.5", 6),
        ("high(delta(accuracy)) < 0", 1),
    ):
        rule = f"!{rule}" if rule.startswith("high") else rule
        done = command("gate", *names, "--rule", rule, root=folder / "store")
        assert done.code == code, (rule, done.out, done.err)


def test_cells_of_altered_questions_explore_unless_they_are_named(folder: Path) -> None:
    def roles(*more: str, **spec: Any) -> dict[tuple[str, str], str]:
        document = yaml.safe_load((folder / "spec.yaml").read_text()) | spec
        (folder / "more.yaml").write_text(yaml.safe_dump(document))
        done = command("run", folder / "more.yaml", *FEW, *more, root=folder / "cells")
        assert done.code == 0, done.err
        (pair,) = done.json["comparisons"]
        return {(d["metric"], d["slice"].get("perturbation", "")): d["role"] for d in pair["comparison"]["deltas"]}

    as_asked = roles()
    assert {cell for cell, role in as_asked.items() if role == "primary"} == {("accuracy", "none")}
    named = roles(primary=["f1_macro", "accuracy{perturbation=typos}"])
    assert {cell for cell, role in named.items() if role == "primary"} == {("f1_macro", "none"), ("accuracy", "typos")}
    ruled = roles(gate=["accuracy{model=new,perturbation=typos} >= 0.1"])
    assert {cell for cell, role in ruled.items() if role == "primary"} == {("accuracy", "none"), ("accuracy", "typos")}


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("accuracy{perturbation=typos}", "no comparison is about accuracy{perturbation=typos}"),
        ("acuracy", "accuracy"),
        ("accuracy{group.site=a}", "no comparison is about"),
    ],
)
def test_what_nothing_answers_cannot_decide(folder: Path, named: str, said: str) -> None:
    done = command("compare", folder / "old.jsonl", folder / "new.jsonl", "--primary", named)
    assert done.code == 2
    assert said in done.err


def test_what_explores_has_a_heading_of_its_own(folder: Path) -> None:
    files = (folder / "old.jsonl", folder / "new.jsonl")
    shown = command("compare", *files, "-m", "accuracy,f1_macro,ece", "--resamples", "200", "--wide").out
    family = "accuracy decides: p adjusted over 1 comparison; 2 others explore, adjusted among themselves"
    assert family in shown
    decides, explores = shown.split("\nexploratory\n")
    assert "accuracy ↑" in decides
    assert "f1_macro" not in decides
    assert "f1_macro ↑" in explores
    alone = command("compare", *files, "-m", "accuracy", "--resamples", "200").out
    assert "explor" not in alone
    assert "decides" not in alone
