"""Tables that differ in how often they are right, a shelf of runs that were made of them, and gates on both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.decide.gate import Decision, Gate
from steelyard.decide.subject import NumberOptions, of_records, of_runs
from steelyard.records.table import Records
from steelyard.runs.layout import Scope
from steelyard.runs.saved import Clock, SavedRun, save
from steelyard.study.evaluation import evaluate
from steelyard.study.kept_wire import packed, unpacked


def answers(size: int, share: float, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return ["yes" if rng.random() < share else "no" for _ in range(size)]


def table(predictions: Sequence[Any], *, rows: int = 4, **more: Any) -> Records:
    size = len(predictions)
    rng = np.random.default_rng(0)
    return Records.from_columns(
        {
            "item": [f"q{i}" for i in range(size)],
            "cluster": [f"p{i // rows}" for i in range(size)],
            "target": ["yes"] * size,
            "prediction": list(predictions),
            "confidence": [round(float(c), 2) for c in rng.random(size)],
            **more,
        }
    )


def cells(shares: Mapping[str, float], seed: int, *, column: str = "task", size: int = 80) -> Records:
    """One cell a key, the same questions in each."""
    predictions = [p for i, share in enumerate(shares.values()) for p in answers(size, share, seed + i)]
    return Records.from_columns(
        {
            column: [name for name in shares for _ in range(size)],
            "item": [f"q{i}" for _ in shares for i in range(size)],
            "cluster": [f"p{i // 4}" for _ in shares for i in range(size)],
            "target": ["yes"] * (size * len(shares)),
            "prediction": predictions,
        }
    )


class Shelf:
    """Keeps tables as runs, and opens them again."""

    def __init__(self, root: Path) -> None:
        self.root, self._count = root, 0

    def keep(
        self, records: Records, metrics: Sequence[str] = ("accuracy",), *, rows: bool = False, **how: Any
    ) -> SavedRun:
        self._count += 1
        found = evaluate(records, list(metrics), keep_evidence=True, resamples=200, **how)
        kept = records if rows else None
        _, folder = save(
            Scope(self.root), found, workflow="w", clock=Clock(), run_id=f"run-{self._count}", records=kept
        )
        return SavedRun.at(folder)


def through_disk(records: Records, metrics: list[str], **how: Any) -> Any:
    """What a run keeps of these metrics, written and read again."""
    return unpacked(packed(evaluate(records, metrics, keep_evidence=True, resamples=100, **how).kept))


def gated(rules: str | Sequence[str], run: SavedRun, baseline: SavedRun | None = None) -> Decision:
    gate = Gate.parse(rules)
    return gate.check(of_runs(gate, run, baseline))


def gated_rows(rules: str | Sequence[str], new: Records, base: Records | None = None) -> Decision:
    gate = Gate.parse(rules)
    return gate.check(of_records(gate, new, base, NumberOptions(resamples=200)))


def foreign_run(folder: Path, metrics: Mapping[str, float], run_id: str | None = None) -> Path:
    """A run.json as another tool writes it."""
    folder.mkdir(parents=True)
    document = {
        "RunId": run_id or folder.name,
        "Workflow": "Evaluation",
        "Tenant": "",
        "StartedAtUtc": "2026-01-01T00:00:00Z",
        "CompletedAtUtc": "2026-01-01T00:00:01Z",
        "Labels": {},
        "Metrics": dict(metrics),
    }
    (folder / "run.json").write_text(json.dumps(document))
    return folder
