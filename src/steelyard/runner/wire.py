"""What a matrix of runs came to, as data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from steelyard.ground.json import plain
from steelyard.runner.matrix import Result
from steelyard.runs.wire import standing_document


def matrix_document(result: Result) -> dict[str, Any]:
    """The variants, the runs that they left in order, and the decision if one was asked for."""
    choice = result.choice
    return plain(
        {
            "folder": str(result.folder),
            "variants": [{**asdict(v), "log": v.log.name if v.log else None} for v in result.variants],
            "metric": result.metric,
            "runs": [standing_document(row) for row in result.rows],
            "decision": None
            if choice is None
            else {"action": choice.action, "run_id": choice.candidate.run_id, "reason": choice.reason},
            "problems": list(result.problems),
        }
    )
