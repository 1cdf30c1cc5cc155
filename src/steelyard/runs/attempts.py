"""How often was this tried? Gates with the same rules on the same data, counted: the tenth try is no evidence.

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
    scope: Scope,
    *,
    baseline: str,
    run: str,
    data: str,
    rules: Sequence[str],
    verdict: str,
    workflow: str = "",
    of_workflow: str = "",
) -> list[Mapping[str, Any]]:
    """Record one attempt, and return all with these rules on these data against this baseline, this one last.

    `workflow` is the baseline's, where there is one, `of_workflow` that of the run.
    """
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
            **({"RunWorkflow": of_workflow} if of_workflow else {}),
            "Data": data,
            "Rules": list(rules),
            "Verdict": verdict,
        }
        write_atomic(path, dumps({"SchemaVersion": "1", "Attempts": [*known, entry]}), allowed)
    return [a for a in (*known, entry) if _is_same(a, data, rules, baseline, workflow)]


def tried(scope: Scope, *, baseline: str, workflow: str, data: str, rules: Sequence[str]) -> int:
    """How many attempts with these rules on these data against this baseline there were."""
    return sum(_is_same(attempt, data, rules, baseline, workflow) for attempt in _read(_path(scope)))


def last_verdict(scope: Scope, run: str, workflow: str) -> str:
    """What the last gate of a run came to; nothing where it was never gated."""
    own = [
        attempt["Verdict"]
        for attempt in _read(_path(scope))
        if attempt.get("RunId") == run and attempt.get("RunWorkflow", workflow) == workflow
    ]
    return str(own[-1]) if own else ""


def _path(scope: Scope) -> Path:
    return inside(scope.root, scope.folder / "gates") / "attempts.json"


def _is_same(attempt: Mapping[str, Any], data: str, rules: Sequence[str], baseline: str, workflow: str) -> bool:
    """True if an attempt asked the same; an earlier version noted the baseline's id and not its workflow."""
    against = attempt["Baseline"] == baseline and attempt.get("BaselineWorkflow", workflow) == workflow
    return bool(against and attempt["Data"] == data and sorted(attempt.get("Rules", ())) == sorted(rules))


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
