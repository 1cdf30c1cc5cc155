"""A file of answers against the active run: what a save would have said, without the save."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import lines
from tests.support.commands import Done, command

RUNS = "results/evaluation/runs/evaluate"
RULES = ("--rule", "low(delta(accuracy)) >= -0.1", "--rule", "accuracy >= 0.5", "--rule", "high(delta(brier)) <= 0.05")


def answers(wrong: int, *, first: int = 0) -> list[dict[str, Any]]:
    return [
        {"item": i, "patient": i // 2, "target": "y", "prediction": "n" if i < wrong else "y", "confidence": 0.8}
        for i in range(first, 120)
    ]


@pytest.fixture(params=["--save", "--save-records"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    for name, wrong in (("old", 20), ("new", 18)):
        (tmp_path / f"{name}.jsonl").write_text(lines(answers(wrong)))
        asked = ("-m", "accuracy,brier", "--cluster", "patient", "--resamples", 200, "--save", request.param)
        done = command("evaluate", tmp_path / f"{name}.jsonl", *asked, "--run-id", name, root=tmp_path)
        assert done.code == 0, done.err
    assert command("runs", "promote", "old", "-m", "accuracy", root=tmp_path).code == 0
    return tmp_path


def gated(store: Path, *words: Any) -> Done:
    return command("gate", *words, "--format", "json", root=store, cwd=store)


def test_a_file_says_what_the_same_run_says_that_was_kept(store: Path) -> None:
    kept = gated(store, "new", "active", *RULES)
    for name in ("active", "active:accuracy", "old"):
        file = gated(store, "new.jsonl", name, "--cluster", "patient", "--resamples", 200, *RULES)
        assert (file.code, file.json["baseline"]) == (kept.code, "old"), file.err
        for mine, theirs in zip(file.json["rules"], kept.json["rules"], strict=True):
            assert {k: mine[k] for k in ("rule", "verdict", "value", "n", "clusters")} == {
                k: theirs[k] for k in ("rule", "verdict", "value", "n", "clusters")
            }
            assert [mine["low"], mine["high"]] == pytest.approx([theirs["low"], theirs["high"]], abs=1e-9)


def test_rows_that_were_read_alike_are_and_others_are_not(store: Path) -> None:
    asked = ("-m", "accuracy,brier", "--cluster", "patient", "--resamples", 200, "--where", "item<=200")
    keep = "--save-records" if (store / RUNS / "old/records.parquet").exists() else "--save"
    done = command("evaluate", store / "old.jsonl", *asked, "--save", keep, "--run-id", "some", root=store)
    assert done.code == 0, done.err
    words = ("new.jsonl", "some", "--cluster", "patient", "--resamples", 200, *RULES[:2])
    alike = gated(store, *words, "--where", "item<=200")
    assert (alike.code, "not read alike" in alike.out) == (0, False), alike.out
    apart = gated(store, *words)
    assert (apart.code, "not read alike: where (item<=200; none)" in apart.out) == (6, True), apart.out


def test_other_questions_are_refused(store: Path) -> None:
    (store / "part.jsonl").write_text(lines(answers(18, first=20)))
    refused = gated(store, "part.jsonl", "active", "--cluster", "patient", *RULES)
    assert refused.code in (3, 6), refused.out
    nowhere = gated(store, "new.jsonl", "active:brier", "--cluster", "patient", *RULES)
    assert (nowhere.code, "nothing is active under 'brier'" in nowhere.err) == (2, True), nowhere.err
    typo = gated(store, "new.jsonl", "odl.jsonl", "--cluster", "patient", *RULES)
    assert (typo.code, "did you mean 'old.jsonl'" in typo.err) == (2, True), typo.err
