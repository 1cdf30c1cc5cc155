"""Answers to questions, as rows of a table and as the lines of a file."""

from __future__ import annotations

import json
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
