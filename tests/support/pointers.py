"""Runs that were promoted, and the line of a pointer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steelyard.runs.attempts import counted
from steelyard.runs.layout import Scope
from steelyard.runs.pointers import Pointer, Pointers
from steelyard.runs.saved import SavedRun
from tests.support.stores import kept

ACTIVE = Path("results/evaluation/active")


def promoted(root: Path, *run_ids: str, metric: str = "accuracy") -> Pointers:
    """Runs that were kept and promoted one after the other."""
    found = Pointers(Scope(root))
    for run_id in run_ids:
        folder = root / "results/evaluation/runs/Triage" / run_id
        found.promote(SavedRun.at(folder if folder.exists() else kept(root, run_id)), metric)
    return found


def in_line(pointer: Pointer) -> None:
    """The history is one line: numbered without gaps, every step from the run that the step before led to."""
    history = pointer.history
    assert [entry["Seq"] for entry in history] == list(range(1, len(history) + 1))
    before = [None, *(entry["RunId"] for entry in history)]
    assert [entry["PreviousRunId"] for entry in history] == before[:-1]
    assert pointer.run_id == before[-1]


def file_of(root: Path) -> Path:
    """The only pointer's file."""
    (found,) = (root / ACTIVE).glob("*/*.json")
    return found


def attempt(root: Path) -> Any:
    """Count one attempt at a gate."""
    return counted(Scope(root), baseline="one", run="two", data="d", rules=["accuracy >= 0"], verdict="pass")
