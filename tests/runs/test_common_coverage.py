"""Areas reward declining: runs are sorted, compared and promoted by what they reach in common."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.records.table import Records
from steelyard.runs.deciding import KEEP, decide
from steelyard.runs.index import Index
from steelyard.runs.layout import Scope
from steelyard.runs.saved import Clock, save
from steelyard.runs.standing import candidates, compared, ranked
from steelyard.study.evaluation import evaluate, value

SIZE = 120


def answers(declines: float, right: float, seed: int) -> Records:
    """The same questions; a model that answers less of them, and is right more or less often."""
    rng = np.random.default_rng(seed)
    target = (np.arange(SIZE) % 3).astype(str)
    said = [None if rng.random() < declines else t if rng.random() < right else "wrong" for t in target.tolist()]
    columns = {
        "item": np.arange(SIZE),
        "cluster": np.arange(SIZE) // 4,
        "target": target,
        "prediction": said,
        "confidence": rng.random(SIZE).round(2),
        "group.site": np.where(np.arange(SIZE) % 2, "x", "y"),
    }
    return Records.from_columns(columns)


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    return Scope(tmp_path)


def keep(scope: Scope, records: Records, name: str) -> None:
    found = evaluate(records, ["aurc", "accuracy", "answer_rate"], by=["group.site"], resamples=100, keep_evidence=True)
    save(scope, found, workflow="w", clock=Clock(), run_id=name)


@pytest.mark.parametrize("key", ["aurc", "aurc_full", "aurc{group.site=x}"])
def test_a_run_that_declines_most_is_not_best_for_that(scope: Scope, key: str) -> None:
    shy, bold = answers(0.85, 0.3, 1), answers(0.05, 0.75, 2)
    keep(scope, shy, "shy")
    keep(scope, bold, "bold")
    with Index(scope.root) as index:
        runs = index.runs()
    rows = ranked(runs, key)
    by_value = sorted(rows, key=lambda row: row.value or 0.0)
    assert by_value[0].run.run_id == "shy"  # the raw area is smaller only because it ends early
    assert rows[0].run.run_id == "bold"
    assert candidates(runs, key)[0].run.run_id == "bold"
    tables = [t if "{" not in key else t.filter({"group.site": "x"}) for t in (shy, bold)]
    common = min(value("answer_rate", table) for table in tables)
    for row, table in zip(sorted(rows, key=lambda r: r.run.run_id, reverse=True), tables, strict=True):
        assert row.judged == pytest.approx(value(f"aurc_at(c={common})", table))


def test_promotion_looks_at_the_common_coverage_too(scope: Scope) -> None:
    keep(scope, answers(0.05, 0.75, 2), "bold")
    keep(scope, answers(0.85, 0.5, 1), "shy")
    with Index(scope.root) as index:
        runs = index.runs()
    active = next(run for run in runs if run.run_id == "bold")
    assert decide(runs, "aurc", active, eps=0.0).action == KEEP


def test_deltas_beside_are_those_that_a_verdict_rests_on(scope: Scope) -> None:
    shy, bold = answers(0.4, 0.5, 1), answers(0.05, 0.75, 2)
    keep(scope, shy, "shy")
    keep(scope, bold, "bold")
    with Index(scope.root) as index:
        rows = compared(ranked(index.runs(), "aurc"), "aurc", index.find("shy"))
    row = next(r for r in rows if r.run.run_id == "bold")
    common = min(value("answer_rate", t) for t in (shy, bold))
    wanted = value(f"aurc_at(c={common})", bold) - value(f"aurc_at(c={common})", shy)
    assert row.delta.value == pytest.approx(wanted)
    assert "common cmax" in row.note


def test_runs_that_answer_alike_or_kept_no_evidence_are_sorted_by_their_values(scope: Scope) -> None:
    keep(scope, answers(0.0, 0.5, 1), "one")
    keep(scope, answers(0.0, 0.8, 2), "two")
    with Index(scope.root) as index:
        assert all(row.judged is None for row in ranked(index.runs(), "aurc"))
        assert all(row.judged is None for row in ranked(index.runs(), "accuracy"))
    (scope.runs / "w" / "foreign").mkdir()
    (scope.runs / "w" / "foreign" / "run.json").write_text(
        '{"RunId": "foreign", "Workflow": "w", "CompletedAtUtc": "2026-01-01T00:00:00Z", "Metrics": {"AURC": 0.1}}'
    )
    keep(scope, answers(0.9, 0.8, 3), "shy")
    with Index(scope.root) as index:
        rows = ranked(index.runs(), "aurc")
    assert rows[-1].run.run_id == "foreign"  # it cannot be judged, so it cannot lead
    assert all(row.judged is not None for row in rows[:-1])
