"""Small runs in a store, what another tool writes there, and what is left of it all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from steelyard.cli.main import app
from steelyard.errors import SteelyardError
from steelyard.ground.digests import digest_of
from steelyard.records.table import Records
from steelyard.runs.index import Cell, Index
from steelyard.runs.layout import Scope
from steelyard.runs.saved import Clock, save
from steelyard.study.evaluation import evaluate
from steelyard.study.results import Evaluation
from tests.support.commands import command

RUNS = Path("results/evaluation/runs")
INDEX = Path("results/.index/runs.sqlite")
FOREIGN = {
    "RunId": "b7c1",
    "Workflow": "Retrieval",
    "StartedAtUtc": "2026-01-03T00:00:00Z",
    "CompletedAtUtc": "2026-01-03T00:00:05Z",
    "Metrics": {"ndcg@3": 0.5},
}


@cache
def small(no_every: int = 3) -> Evaluation:
    """A small table, evaluated: 12 questions, every so many-th answered with no."""
    columns = {
        "item": [f"q{i}" for i in range(12)],
        "target": ["yes" if i % 2 else "no" for i in range(12)],
        "prediction": ["yes" if i % no_every else "no" for i in range(12)],
    }
    return evaluate(Records.from_columns(columns), ["accuracy"], resamples=100, keep_evidence=True)


def kept(root: Path, run_id: str, workflow: str = "Triage", *, tenant: str | None = None, no_every: int = 3) -> Path:
    """A run folder under this root."""
    return save(Scope(root, tenant=tenant), small(no_every), workflow=workflow, clock=Clock(), run_id=run_id)[1]


def foreign(root: Path, document: Any, name: str = "theirs", workflow: str = "Retrieval") -> Path:
    """A run folder as another tool writes it: nothing but a run.json, as data or as it is."""
    folder = root / RUNS / workflow / name
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(document if isinstance(document, str) else json.dumps(document))
    return folder


def edit(folder: Path, change: Callable[[dict[str, Any]], Any], *, sealed: bool = False) -> None:
    """Edit a run.json by hand; sealed: by someone who also knows how to write the digest."""
    document = json.loads((folder / "run.json").read_text())
    change(document)
    if sealed:
        document["Digest"] = digest_of(document)
    (folder / "run.json").write_text(json.dumps(document))


def listed(root: Path) -> list[str]:
    with Index(root, all_tenants=True) as index:
        return sorted(run.run_id for run in index.runs())


def problems(root: Path) -> dict[str, str]:
    """What is wrong, by run folder."""
    with Index(root, all_tenants=True) as index:
        return {problem.folder.name: problem.problem for problem in index.problems()}


def by_run(cells: list[Cell]) -> dict[str, dict[str, float]]:
    """The numbers of runs that have one cell each."""
    return {cell.run_id: cell.values for cell in cells}


def found(root: Path, run_id: str) -> Path:
    with Index(root, all_tenants=True) as index:
        return index.find(run_id).folder


def call(*arguments: Any) -> Any:
    """A command, in this process: its exit code where it ends with one; errors are raised."""
    return app([str(a) for a in arguments], standalone_mode=False)


def printed(*arguments: Any) -> Any:
    """What a command prints, as data."""
    return command(*arguments, "--format", "json").json


def raised(action: Callable[[], Any]) -> BaseException | None:
    """The error that an action ends with, of the kinds that are meant to be seen."""
    try:
        action()
    except (SteelyardError, KeyboardInterrupt) as problem:
        return problem
    return None


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder and what is in it; without the index and locks, which may come and go."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock" and ".index" not in path.parts
    }


def leftovers(root: Path) -> list[Path]:
    """Hidden files and folders that a writer should have taken away."""
    return [p for p in root.rglob(".*") if p.name not in (".index", ".lock") and ".index" not in p.parts]


PARTS = (
    "results",
    "results/evaluation",
    "results/evaluation/tenants",
    "results/evaluation/tenants/acme",
    "results/evaluation/tenants/acme/runs",
    "results/evaluation/tenants/acme/runs/Triage",
    "results/evaluation/tenants/acme/runs/Triage/run",
)


def linked(root: Path, part: str) -> Path:
    """Put a link in the place of a folder; where the folder is now."""
    away = root.with_name(f"{root.name}-away")
    os.rename(root / part, away)
    (root / part).symlink_to(away)
    return away


def with_records(root: Path, run_id: str = "run", **options: Any) -> Path:
    columns = {
        "item": [f"q{i}" for i in range(12)],
        "target": ["yes" if i % 2 else "no" for i in range(12)],
        "prediction": ["yes" if i % 3 else "no" for i in range(12)],
    }
    records = Records.from_columns(columns)
    return save(Scope(root), small(), workflow="Triage", clock=Clock(), run_id=run_id, records=records, **options)[1]
