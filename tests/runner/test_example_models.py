"""The example's physicians: their replies can be read, and they differ in caution as they say."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.runner.parsing import parse
from steelyard.runner.tasks import tasks
from steelyard.uncertainty.settings import Settings
from tests.support.places import EXAMPLES

MODELS: dict[str, Any] = runpy.run_path(str(EXAMPLES / "ckd" / "models.py"))


def shares(model: str, name: str) -> tuple[float, float, float]:
    """How many cases a physician answers, how many of those rightly, and how often he declines when he should."""
    task = tasks[name]
    items = task.items(None, size=400, seed=0).items
    replies = [parse(MODELS[model](task.shown(item), task.question(item)), task) for item in items]
    assert {reply.outcome for reply in replies} <= {"answered", "abstained"}
    assert all(reply.confidence is not None and not reply.confidence_refused for reply in replies)
    both = list(zip(items, replies, strict=True))
    answered = [(item, reply) for item, reply in both if reply.outcome == "answered"]
    right = sum(item.target == reply.prediction for item, reply in answered)
    aligned = sum((reply.outcome == "abstained") == item.should_abstain for item, reply in both)
    return len(answered) / len(items), right / len(answered), aligned / len(items)


@pytest.mark.parametrize("name", list(tasks))
def test_who_is_more_cautious_answers_less_and_the_careful_one_is_aligned_best(name: str) -> None:
    bold, careful, timid = (shares(model, name) for model in ("bold", "careful", "timid"))
    assert bold[0] == 1
    assert bold[0] > careful[0] > timid[0] > 0.05
    assert bold[1] <= careful[1] <= timid[1] + 1e-12
    assert careful[2] > bold[2]
    assert careful[2] > timid[2]


def test_the_recorded_answers_are_those_of_the_script(tmp_path: Path) -> None:
    folder = EXAMPLES / "ckd"
    subprocess.run([sys.executable, folder / "make.py", tmp_path], check=True)
    assert (tmp_path / "recorded.jsonl").read_bytes() == (folder / "recorded.jsonl").read_bytes()


def test_the_example_runs_offline(tmp_path: Path) -> None:
    run = sy.run(EXAMPLES / "ckd" / "spec.yaml", root=tmp_path, settings=Settings(resamples=200))
    assert run.exit_code == 0
    assert run.records.counts()["failed"] == 0
    assert run.records.counts()["unparsed"] > 0
    best = max(
        ("bold", "careful", "timid", "recorded"), key=lambda m: run.evaluation[f"deferral_alignment{{model={m}}}"].value
    )
    assert best == "careful"
    assert len(run.comparisons) == 6
