"""A gate as a test: the fixture `steelyard_gate` asserts rules in one line and shows the table where they do not hold.

    def test_no_worse_than_before(steelyard_gate):
        steelyard_gate("new.jsonl", baseline="old.jsonl", rules=["low(delta(accuracy)) >= -0.01"], cluster="patient")

A run is a file of answers, `Records`, or a run folder that `steelyard evaluate --save` wrote. An inconclusive gate
fails the test too, unless `allow_inconclusive=True` says otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def steelyard_gate() -> Callable[..., Any]:
    """Assert that a run passes a gate; returns the decision."""
    return check


def check(
    run: Any,
    *,
    rules: Sequence[str] | str,
    baseline: Any = None,
    cluster: str | None = None,
    resamples: int = 10_000,
    seed: int = 42,
    align: str = "strict",
    allow_inconclusive: bool = False,
) -> Any:
    """The decision of a gate; a failed test with the table of rules where it does not pass."""
    from steelyard.decide.gate import INCONCLUSIVE, Gate
    from steelyard.decide.subject import of_records, of_runs
    from steelyard.report import text
    from steelyard.report.gate import gate_report

    __tracebackhide__ = True
    gate = Gate.parse(rules)
    new, base = (_opened(part, cluster) for part in (run, baseline))
    if _is_kept(new) != _is_kept(base) and base is not None:
        raise TypeError("a kept run is gated against a kept run, answers against answers")
    if _is_kept(new):
        subject = of_runs(gate, new, base)
    else:
        subject = of_records(gate, new, base, resamples=resamples, seed=seed, align=align)
    decision = gate.check(subject)
    if not decision.passed and not (allow_inconclusive and decision.verdict == INCONCLUSIVE):
        pytest.fail("\n" + text.render(gate_report(decision, {})), pytrace=False)
    return decision


def _opened(run: Any, cluster: str | None) -> Any:
    from steelyard.records.readers import read
    from steelyard.runs.keeping import Opened

    if not isinstance(run, str | os.PathLike):
        return run
    folder = Path(run)
    return Opened.at(folder) if (folder / "run.json").is_file() else read(folder, cluster=cluster)


def _is_kept(run: Any) -> bool:
    from steelyard.runs.keeping import Opened

    return isinstance(run, Opened)
