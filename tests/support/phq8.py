"""Runs of the PHQ-8 as they are written to files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ITEMS = ("NoInterest", "Depressed", "Sleep", "Tired", "Appetite", "Failure", "Concentrating", "Moving")
Run = dict[str, Any]


def small(
    people: range = range(300, 306),
    modes: tuple[str, ...] = ("few_shot",),
    change: Callable[[Run], Any] = lambda run: None,
) -> Run:
    def person(who: int) -> Run:
        return {
            "participant_id": who,
            "success": True,
            "error": None,
            "ground_truth_items": {item: (who + i) % 4 for i, item in enumerate(ITEMS)},
            "predicted_items": {item: None if i == 7 else (who * i) % 4 for i, item in enumerate(ITEMS)},
            "item_signals": {
                item: {"llm_evidence_count": (who + 2 * i) % 5, "token_msp": ((who * i) % 10) / 10, "token_pe": None}
                for i, item in enumerate(ITEMS)
            },
        }

    run = {
        "run_metadata": {"run_id": "r1", "timestamp": "2026-01-03T00:00:00Z", "git_commit": "abc"},
        "experiments": [
            {"provenance": {"mode": mode}, "results": {"mode": mode, "results": [person(p) for p in people]}}
            for mode in modes
        ],
    }
    change(run)
    return run
