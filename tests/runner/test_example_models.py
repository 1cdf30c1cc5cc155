"""The example's physicians: their replies can be read, and they differ in caution as they say."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.report.document import Heading, Table, interval_text, number, text_of
from steelyard.report.run import run_report
from steelyard.runner.parsing import parse
from steelyard.runner.tasks import tasks
from steelyard.runs.index import Index
from steelyard.runs.layout import View
from steelyard.uncertainty.settings import Settings
from tests.support.places import EXAMPLES

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize("name", [name for name in tasks if name.startswith("ckd")])
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


def test_the_recorded_answers_to_issues_are_those_of_the_script(tmp_path: Path) -> None:
    folder = EXAMPLES / "triage_jira"
    subprocess.run([sys.executable, folder / "make.py", tmp_path], check=True)
    assert (tmp_path / "recorded.csv").read_bytes() == (folder / "recorded.csv").read_bytes()


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> sy.Run:
    root = tmp_path_factory.mktemp("study")
    return sy.run(EXAMPLES / "triage_jira" / "spec.yaml", root=root, settings=Settings(resamples=100))


def test_the_study_runs_offline_and_has_every_cell(study: sy.Run) -> None:
    assert study.exit_code == 0
    assert study.records.counts()["failed"] == 0
    assert study.records.counts()["unparsed"] > 0
    spec = study.spec
    assert (len(spec.models), len(spec.adaptation.strategy), len(spec.perturbations), spec.repeat) == (3, 4, 5, 3)
    assert len(study.records) == 3 * 4 * 6 * 32 * 3
    with Index.within(View(study.folder.parents[4], None, None)) as index:  # type: ignore[union-attr]
        _, cells = index.cells()
        assert len(list(cells)) == 3 * 4 * 6
    cell = "{model=keywords,strategy=zero-shot,perturbation=upper}"
    assert study.evaluation[f"robustness_score(accuracy){cell}"].value < 0.6  # type: ignore[operator]


def test_a_study_is_shown_metric_by_metric(study: sy.Run) -> None:
    document = run_report(study)
    headings = [part.text for part in document if isinstance(part, Heading)]
    assert [heading.partition(",")[0] for heading in headings][:2] == ["asked", "evaluation"]
    for name in (
        "accuracy",
        "robustness_score(accuracy)",
        "consistency_rate",
        "flip_rate",
        "stability_score(accuracy)",
    ):
        at = next(
            number
            for number, part in enumerate(document)
            if isinstance(part, Heading) and part.text.startswith(f"{name}, ")
        )
        table = document[at + 1]
        assert isinstance(table, Table)
        across = ("name_prefix", "noise_words", "truncation", "typos", "upper")
        unperturbed = ("none",) if name in ("accuracy", "stability_score(accuracy)") else ()
        assert table.columns == ("model", "strategy", *unperturbed, *across)
        assert len(table.rows) == 12
        for row in table.rows:
            for column, cell in zip(table.columns[2:], row[2:], strict=True):
                found = study.evaluation[f"{name}{{model={row[0]},strategy={row[1]},perturbation={column}}}"]
                assert text_of(cell).split(" (")[0] == f"{number(found.value)} {interval_text(found.interval)}".strip()
    compared = [part for part in document if isinstance(part, Table) and part.columns[:2] == ("base", "new")]
    assert len(compared[0].rows) == 3 * (4 + 1)  # accuracy under every strategy, and the cell that a rule names
