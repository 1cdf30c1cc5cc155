"""Answers to questions, as rows of a table and as the lines of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def answers(seed: int = 0, share: float = 0.7, patients: int = 25) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "item": f"q{p}-{i}",
            "patient": f"p{p}",
            "target": "yes" if rng.random() < 0.5 else "no",
            "prediction": None if rng.random() < 0.1 else ("yes" if rng.random() < share else "no"),
            "confidence": round(float(rng.random()), 2),
            "group": {"site": "x" if p % 2 else "y"},
        }
        for p in range(patients)
        for i in range(4)
    ]


def rows(seed: int = 1, share: float = 0.8, patients: int = 40, **more: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "item": f"q{p}-{i}",
            "patient": f"p{p}",
            "target": "yes" if (p + i) % 2 else "no",
            "prediction": ("yes" if (p + i) % 2 else "no") if rng.random() < share else "maybe",
            "confidence": round(float(rng.random()), 3),
            "latency_ms": 100 + p,
            "group": {"site": "xyz"[p % 3]},
            **more,
        }
        for p in range(patients)
        for i in range(4)
    ]


def rows_of(seed: int, share: float, *, patients: int = 25, **more: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "item": f"q{p}-{i}",
            "patient": f"p{p}",
            "target": "yes",
            "prediction": "yes" if rng.random() < share else "no",
            "confidence": round(float(rng.random()), 2),
            "group": {"site": "x" if p % 2 else "y"},
            **more,
        }
        for p in range(patients)
        for i in range(4)
    ]


def answer_files(folder: Path) -> Path:
    """A folder with answers of every kind that a gate may meet, and with rules for them."""
    for name, rows in {
        "old": rows_of(1, 0.6),
        "new": rows_of(2, 0.8),
        "few": rows_of(2, 0.8, patients=5),
        "other": rows_of(1, 0.6, patients=24),
    }.items():
        (folder / f"{name}.jsonl").write_text(lines(rows))
    failing = [{**r, "outcome": "failed", "prediction": None} if i < 5 else r for i, r in enumerate(rows_of(2, 0.8))]
    (folder / "failing.jsonl").write_text(lines(failing))
    (folder / "torn.jsonl").write_text(lines(rows_of(2, 0.8))[:-9])
    (folder / "empty.jsonl").write_text("")
    (folder / "gate.yaml").write_text("rules:\n  - low(delta(accuracy)) >= -0.01\nbaseline: old.jsonl\n")
    (folder / "typo.yaml").write_text("rule: [accuracy >= 1]\n")
    return folder
