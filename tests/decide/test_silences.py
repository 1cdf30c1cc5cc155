"""Ways in which gates and `runs decide` once let runs pass in silence."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import lines
from tests.support.commands import Done, command
from tests.support.suites import write_answers, write_suite

Row = dict[str, Any]
LOSS = "low(delta(accuracy)) >= 0"


def rows(n: int, right: float, seed: int) -> list[Row]:
    chance = random.Random(seed)
    found = []
    for i in range(n):
        target = ("yes", "no")[i % 2]
        answer = target if chance.random() < right else ("no", "yes")[i % 2]
        found.append({"item": f"q{i}", "target": target, "prediction": answer})
    return found


def is_right(row: Row) -> bool:
    return row["prediction"] == row["target"]


OLD, NEW = rows(300, 0.6, 3), rows(300, 0.75, 8)
FAILING = [{**row, "outcome": "answered" if is_right(row) else "failed"} for row in OLD]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def write(folder: Path, **tables: Iterable[Row]) -> None:
    for name, table in tables.items():
        (folder / f"{name}.jsonl").write_text(lines(list(table)))


def gate(folder: Path, *arguments: str) -> Done:
    return command("gate", *arguments, "--resamples", "400", cwd=folder, root=folder / "store")


def keep(folder: Path, name: str, *more: str, metrics: str = "accuracy,failure_rate") -> None:
    done = command(
        "evaluate", folder / f"{name}.jsonl", "-m", metrics, "--save", "--workflow", "w", "--run-id", name, *more,
        "--resamples", "400", root=folder / "store",
    )  # fmt: skip
    assert done.code == 0, done.err


def decided(folder: Path, metric: str = "accuracy") -> dict[str, Any]:
    done = command("runs", "decide", "-m", metric, "--apply", "--format", "json", root=folder / "store")
    assert done.code == 0, done.err
    return done.json


# -- runs decide -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("active", [False, True])
def test_a_run_that_failed_where_it_was_wrong_is_not_promoted(folder: Path, records: bool, active: bool) -> None:
    write(folder, old=NEW, cheat=FAILING)
    if active:
        keep(folder, "old", *(["--save-records"] if records else []))
        assert command("runs", "promote", "old", "--metric", "accuracy", root=folder / "store").code == 0
    keep(folder, "cheat", *(["--save-records"] if records else []))
    found = decided(folder)
    assert (found["action"], found["applied"]) == ("KeepActive", False)
    assert "of the rows failed" in found["reason"]


def test_a_run_that_lacks_its_targets_is_not_promoted(folder: Path) -> None:
    better = [{**row, "prediction": row["target"] if i % 2 else row["prediction"]} for i, row in enumerate(OLD)]
    blind = [{**row, "target": None if i % 3 == 0 else row["target"]} for i, row in enumerate(better)]
    base = [{**row, "target": None if i % 3 == 0 else row["target"]} for i, row in enumerate(OLD)]
    write(folder, old=base, new=blind)
    for name in ("old", "new"):
        keep(folder, name, metrics="accuracy")
    assert command("runs", "promote", "old", "--metric", "accuracy", root=folder / "store").code == 0
    found = decided(folder)
    assert (found["action"], found["applied"]) == ("KeepActive", False)


# -- failed rows of both sides -----------------------------------------------------------------------------------------


def test_as_many_failures_of_other_rows_are_no_gain(folder: Path) -> None:
    lost = set(random.Random(1).sample(range(300), sum(not is_right(row) for row in OLD)))
    other = [{**row, "outcome": "failed" if i in lost else "answered"} for i, row in enumerate(NEW)]
    write(folder, old=FAILING, new=other)
    done = gate(folder, "old.jsonl", "new.jsonl", "--rule", LOSS)
    assert done.code == 6, done.out
    assert "failed in either run" in done.out
    assert gate(folder, "old.jsonl", "new.jsonl", "--rule", LOSS, "--allow", "failed").code == 0


@pytest.mark.parametrize("better", [False, True])
def test_what_was_never_seen_is_not_unchanged(folder: Path, better: bool) -> None:
    few = [{**row, "outcome": "answered" if i < 10 else "failed"} for i, row in enumerate(OLD)]
    new = [{**row, "prediction": row["target"]} for row in few] if better else few
    write(folder, old=few, new=new)
    done = gate(folder, "new.jsonl", "old.jsonl", "--rule", "low(delta(accuracy)) >= -0.02")
    assert done.code == 6, done.out
    for name in ("old", "new"):
        keep(folder, name)
    kept = gate(folder, "new", "old", "--rule", "low(delta(accuracy)) >= -0.02")
    assert kept.code == 6, kept.out


# -- rules that cannot fail --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("watch", ["failure_rate <= 1", "!failure_rate >= 0", "low(failure_rate) <= 0.9"])
def test_a_rule_that_cannot_fail_watches_nothing(folder: Path, watch: str) -> None:
    write(folder, new=FAILING)
    assert gate(folder, "new.jsonl", "--rule", "low(accuracy) >= 0.8", "--rule", watch).code == 6
    assert gate(folder, "new.jsonl", "--rule", "low(accuracy) >= 0.8", "--rule", "failure_rate <= 0.5").code == 0


def test_declining_is_watched_by_a_rule_that_can_fail(folder: Path) -> None:
    write(folder, new=[{**row, "prediction": row["prediction"] if is_right(row) else None} for row in NEW])
    rule = "low(selective_accuracy) >= 0.9"
    said = "can be met by declining more"
    assert said in gate(folder, "new.jsonl", "--rule", rule, "--rule", "answer_rate >= 0").out
    assert said not in gate(folder, "new.jsonl", "--rule", rule, "--rule", "answer_rate >= 0.1").out


def test_the_same_rule_again_dilutes_nothing(folder: Path) -> None:
    write(folder, new=rows(60, 0.72, 2))
    once = gate(folder, "new.jsonl", "--rule", "low(accuracy) >= 0.9")
    again = [word for _ in range(40) for word in ("--rule", "low(accuracy) >= 0.9")]
    always = ("accuracy", "recall.yes", "precision.yes", "f1_macro", "f1.no", "balanced_accuracy", "answer_rate")
    idle = [word for name in always for word in ("--rule", f"low({name}) >= 0")]
    assert once.code == gate(folder, "new.jsonl", *again).code == 1
    assert gate(folder, "new.jsonl", "--rule", "low(accuracy) >= 0.9", *idle).code == 1


# -- how a run was made ------------------------------------------------------------------------------------------------


def test_how_a_run_was_evaluated_does_not_judge_it(folder: Path) -> None:
    base = rows(60, 0.85, 4)
    write(
        folder,
        new=[{**row, "prediction": row["target"] if i < 50 else row["prediction"]} for i, row in enumerate(base)],
    )
    for name, more in {"usual": (), "plain": ("--method", "plain"), "half": ("--level", "0.5")}.items():
        (folder / f"{name}.jsonl").write_text((folder / "new.jsonl").read_text())
        keep(folder, name, *more)
        assert gate(folder, name, "--rule", "low(accuracy) >= 0.93").code == 6, name


def test_another_range_is_another_reading(folder: Path) -> None:
    def table(name: str, answer: Any, most: int) -> None:
        (folder / name).mkdir()
        found = [
            {"item": i, "target": i % 10, "prediction": answer(i), "confidence": 0.5 + (i % 7) / 20} for i in range(200)
        ]
        (folder / name / "a.jsonl").write_text(lines(found))
        (folder / name / "a.task.yaml").write_text(f"range: [0, {most}]\n")
        done = command(
            "evaluate", folder / name / "a.jsonl", "--task-file", folder / name / "a.task.yaml", "-m",
            "aurc(loss=abs_norm)", "--save", "--run-id", name, "--resamples", "400", root=folder / "store",
        )  # fmt: skip
        assert done.code == 0, done.err

    table("wide", lambda i: 9 - i % 10, 1_000_000)
    table("usual", lambda i: i % 10 + ((i % 5) - 2) / 2, 10)
    done = gate(folder, "wide", "usual", "--rule", "high(delta(aurc(loss=abs_norm))) <= 0")
    assert done.code == 6, done.out
    assert "task_range" in done.out


def test_a_part_of_a_suite_is_an_excerpt(folder: Path) -> None:
    suite = write_suite(folder / "suite")
    answers = write_answers(folder / "birch", suite, right=0.9)
    kept = ("--save", "--resamples", "400")
    whole = command("benchmark", suite, answers, *kept, "--run-id", "whole", root=folder / "store")
    part = command("benchmark", suite, answers, "--task", "recall", *kept, "--run-id", "part", root=folder / "store")
    assert (whole.code, part.code) == (0, 0), part.err
    rule = ("--rule", "low(combined_score) >= 0.3")
    assert gate(folder, "whole", *rule).code == 0
    done = gate(folder, "part", *rule)
    assert done.code == 6
    assert "1 of the 3 tasks of the suite was measured" in done.out


# -- rows --------------------------------------------------------------------------------------------------------------


def test_marks_that_call_another_word_right_are_counted(folder: Path) -> None:
    other = [{**row, "mark": 1, "prediction": row["prediction"] if is_right(row) else "maybe"} for row in OLD]
    write(folder, new=other)
    assert gate(folder, "new.jsonl", "--rule", "low(accuracy) >= 0.8").code == 6
    spelt = [
        {**row, "mark": 1, "prediction": row["target"].title() + ("." if i % 3 else "")} for i, row in enumerate(OLD)
    ]
    exact = [{**row, "mark": 1, "prediction": row["target"]} for row in OLD]
    write(folder, spelt=[*exact[:200], *spelt[200:]])
    assert gate(folder, "spelt.jsonl", "--rule", "low(accuracy) >= 0.8").code == 0


def test_another_cluster_than_the_rows_name_is_said(folder: Path) -> None:
    write(folder, new=[{**row, "cluster": f"p{i // 30}"} for i, row in enumerate(NEW)])
    done = gate(folder, "new.jsonl", "--rule", "low(accuracy) >= 0.6", "--cluster", "item", "--format", "json")
    assert any("the rows name a cluster of their own (10 of them)" in note for note in done.json["notes"])


def test_a_slice_by_what_the_model_did_is_said(folder: Path) -> None:
    write(folder, new=[{**row, "prediction": row["prediction"] if is_right(row) else None} for row in NEW])
    done = gate(folder, "new.jsonl", "--rule", "low(accuracy{outcome=answered}) >= 0.9", "--format", "json")
    assert any("chosen by what the model did (outcome)" in note for note in done.json["notes"])


def test_texts_of_rows_are_not_shown_as_what_might_be_meant(folder: Path) -> None:
    texts = [{**row, "group.note": f"Jane Doe has a secret {i % 3}"} for i, row in enumerate(NEW)]
    write(folder, new=texts, free=[{**row, "prediction": f"Jane Doe said {i % 3} things"} for i, row in enumerate(NEW)])
    for file, rule in (("new", "accuracy{group.note=z} >= 0.1"), ("free", "precision.Jane >= 0.1")):
        done = gate(folder, f"{file}.jsonl", "--rule", rule)
        assert done.code in (1, 2)
        assert "Doe" not in done.err + json.dumps(done.out)


def test_clusters_that_leave_with_a_few_failures_are_not_all_failures(folder: Path) -> None:
    def table(seed: int, lost: int) -> list[Row]:
        found = [{**row, "cluster": f"p{i // 6}"} for i, row in enumerate(rows(300, 0.8, seed))]
        return [{**row, "outcome": "failed" if i == lost * 6 else "answered"} for i, row in enumerate(found)]

    write(folder, old=table(1, 3), new=table(1, 7))
    keep(folder, "old")
    done = gate(folder, "new.jsonl", "old", "--rule", "low(delta(accuracy)) >= -0.1")
    assert done.code == 0, done.out  # one row of 300 failed in each run, and twelve rows left with them
