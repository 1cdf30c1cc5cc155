"""What a matrix of runs came to, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from steelyard.ground.json import plain
from steelyard.runner.matrix import Result


def matrix_document(result: Result, standings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The variants, the runs that they left in order (`standings`, as data), and the decision if one was asked for."""
    choice = result.choice
    return plain(
        {
            "folder": str(result.folder),
            "variants": [{**asdict(v), "log": v.log.name if v.log else None} for v in result.variants],
            "metric": result.metric,
            "runs": list(standings),
            "decision": None
            if choice is None
            else {"action": choice.action, "run_id": choice.candidate.run_id, "reason": choice.reason},
            "problems": list(result.problems),
        }
    )
