"""How often was this tried? Gates on the same data against the same baseline, counted: the tenth try is no evidence.

Looking again raises the chance of a false pass: 5% becomes 8, 14 and 20% at 2, 5 and 10 looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steelyard.errors import StorageError, printable
from steelyard.ground.files import exclusive, write_atomic
from steelyard.ground.json import dumps, read_json, refusal
from steelyard.runs.layout import Scope, access, inside
from steelyard.runs.run_json import stamp


def counted(
    scope: Scope, *, baseline: str, run: str, data: str, rules: Sequence[str], verdict: str, workflow: str = ""
) -> list[Mapping[str, Any]]:
    """Record one attempt, and return all against this baseline (of this workflow) on these data, this one last."""
    folder = inside(scope.root, scope.folder / "gates")
    path = folder / "attempts.json"
    allowed = access(scope.root)
    with exclusive(folder, access=allowed):
        known = _read(path)
        entry = {
            "AtUtc": stamp(datetime.now(UTC)),
            "Baseline": baseline,
            **({"BaselineWorkflow": workflow} if workflow else {}),
            "RunId": run,
            "Data": data,
            "Rules": list(rules),
            "Verdict": verdict,
        }
        write_atomic(path, dumps({"SchemaVersion": "1", "Attempts": [*known, entry]}), allowed)
    return [a for a in (*known, entry) if a["Data"] == data and _is_against(a, baseline, workflow)]


def tried(scope: Scope, *, baseline: str, workflow: str, data: str) -> int:
    """How many attempts against this baseline on these data there were."""
    known = _read(inside(scope.root, scope.folder / "gates") / "attempts.json")
    return len([a for a in known if a["Data"] == data and _is_against(a, baseline, workflow)])


def _is_against(attempt: Mapping[str, Any], baseline: str, workflow: str) -> bool:
    """True if an attempt was against this run; an earlier version noted its id and not its workflow."""
    return bool(attempt["Baseline"] == baseline and attempt.get("BaselineWorkflow", workflow) == workflow)


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        document = read_json(path)
        future = refusal(document)
        if future:
            raise StorageError(f"{printable(path)}: {future}")
        attempts = [dict(a) for a in document["Attempts"]]
        if not all({"Baseline", "Data"} <= set(a) for a in attempts):
            raise KeyError
        return attempts
    except (OSError, ValueError, KeyError, TypeError):
        raise StorageError(f"{printable(path)}: not a list of gate attempts; restore it, or remove it") from None
