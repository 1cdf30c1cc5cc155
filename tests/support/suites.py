"""Small suites and answers to them, in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

SIZES = {"triage": 30, "recall": 24, "notes": 20}
SUITE: dict[str, Any] = {
    "name": "clinic",
    "tasks": [
        {
            "name": "triage",
            "type": "diagnostic_reasoning",
            "data": "triage.jsonl",
            "fields": {"item": "id", "target": "target", "group.site": "site"},
            "metrics": ["accuracy", "f1_macro"],
            "primary": "accuracy",
        },
        {
            "name": "recall",
            "type": "qa",
            "data": "recall.jsonl",
            "fields": {"group.site": "site"},
            "metrics": ["accuracy"],
        },
        {
            "name": "notes",
            "type": "summarization",
            "data": "notes.jsonl",
            "fields": {"group.site": "site"},
            "metrics": ["selective_accuracy", "accuracy", "parse_failure_rate"],
        },
    ],
    "combined": {
        "weights": {"diagnostics": 0.6, "safety": 0.4},
        "map": {"selective_accuracy": "safety", "f1_macro": "diagnostics"},
    },
}


def lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_suite(folder: Path, suite: Mapping[str, Any] = SUITE, sizes: Mapping[str, int] = SIZES) -> Path:
    """A suite with its cases."""
    rng = np.random.default_rng(5)
    folder.mkdir(parents=True, exist_ok=True)
    for task, size in sizes.items():
        cases = [
            {"id": f"{task}-{i}", "question": "PATIENT TEXT", "target": "ab"[int(rng.integers(2))], "site": "xy"[i % 2]}
            for i in range(size)
        ]
        (folder / f"{task}.jsonl").write_text(lines(cases))
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump(dict(suite), sort_keys=False))
    return path


def write_answers(
    folder: Path, suite: Path, *, right: float, seed: int = 1, model: str = "birch", sizes: Mapping[str, int] = SIZES
) -> Path:
    """A model's answers to every case: right as often as asked."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for task in sizes:
        cases = [json.loads(line) for line in (suite.parent / f"{task}.jsonl").read_text().splitlines()]
        rows = [
            {"id": case["id"], "model": model, "prediction": case["target"] if rng.random() < right else "c"}
            for case in cases
        ]
        (folder / f"{task}.jsonl").write_text(lines(rows))
    return folder
