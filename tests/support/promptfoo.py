"""Outputs of promptfoo, made up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SECRET = "SECRET-PATIENT"


def row(name: str = "q1", output: Any = "urgent", **changed: Any) -> dict[str, Any]:
    """A row as promptfoo writes it."""
    asked = {"question": f"{SECRET} {name}", "expected": "urgent"}
    return {
        "success": output == "urgent",
        "score": float(output == "urgent"),
        "promptIdx": 0,
        "promptId": "abcdef0123456789",
        "prompt": {"raw": SECRET, "label": "plain"},
        "provider": {"id": "echo", "label": "first"},
        "testIdx": 0,
        "vars": asked,
        "testCase": {"vars": asked, "assert": [{"type": "equals", "value": "{{expected}}", "metric": "exact"}]},
        "response": {"output": output, "cached": False, "tokenUsage": {"prompt": 9, "completion": 3}, "cost": 0.5},
        "gradingResult": {
            "pass": output == "urgent",
            "componentResults": [
                {
                    "pass": output == "urgent",
                    "assertion": {"type": "equals", "value": "{{expected}}", "metric": "exact"},
                }
            ],
        },
        "namedScores": {"exact": float(output == "urgent")},
        "failureReason": int(output != "urgent"),
        "latencyMs": 7,
        "cost": 0.5,
    } | changed


def document(rows: Sequence[Any], **changed: Any) -> dict[str, Any]:
    results = {"version": 3, "timestamp": "2026-01-01T00:00:00Z", "prompts": [], "results": list(rows)} | changed
    return {"evalId": "eval-1", "results": results, "config": {"description": "triage"}, "shareableUrl": None}


def written(folder: Path, content: Any, name: str = "run.json") -> Path:
    lines = isinstance(content, list)
    text = "".join(f"{json.dumps(each)}\n" for each in content) if lines else json.dumps(content)
    (folder / ("run.jsonl" if lines else name)).write_text(text)
    return folder / ("run.jsonl" if lines else name)
