"""What `runs` prints for programs: lists, standings, choices, pointers and pivots, key by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard.ground.json import plain
from steelyard.records.schema import CELL
from steelyard.runs.deciding import Choice
from steelyard.runs.elsewhere import OtherFolder
from steelyard.runs.index import METRIC_COLUMNS, Cell, Problem, RunEntry
from steelyard.runs.pointers import Pointer, pointer_document
from steelyard.runs.standing import Standing
from steelyard.uncertainty.number import Number


def pivot_document(names: Sequence[str], cells: Sequence[Cell]) -> dict[str, Any]:
    """The same as data."""
    rows = [
        {"run_id": c.run_id, "workflow": c.workflow, **{column: c.cell.get(column) for column in CELL}}
        | {"values": {name: c.values[name] for name in names if name in c.values}}
        for c in cells
    ]
    return {"metrics": list(names), "runs": rows}


def listed_document(
    runs: Sequence[RunEntry],
    problems: Sequence[Problem],
    active: Mapping[str, Sequence[str]],
    others: Sequence[OtherFolder] = (),
) -> dict[str, Any]:
    """`runs list` as data; `elsewhere` are folders that other tools left, where there are any."""
    return {
        "runs": [
            {
                "run_id": run.run_id,
                "workflow": run.workflow,
                "tenant": run.tenant,
                "domain": run.domain,
                "started_at": run.started_at,
                "completed_at": run.completed_at,
                "labels": dict(run.labels),
                **({"reading": dict(run.reading)} if run.reading else {}),
                "active_for": list(active.get(run.path, ())),
                "metrics": dict(run.metrics),
                "complete": run.complete,
            }
            for run in runs
        ],
        "problems": _problems(problems),
        **({"elsewhere": [{"run": other.name, "folder": str(other.folder)} for other in others]} if others else {}),
    }


def standing_document(row: Standing) -> dict[str, Any]:
    """One row of a ranking as data."""
    low, high = row.number.interval or (None, None)
    delta = row.delta or Number(value=None)
    delta_low, delta_high = delta.interval or (None, None)
    variant = row.run.labels.get("variant")
    return {
        "run_id": row.run.run_id,
        "workflow": row.run.workflow,
        **({} if variant is None else {"variant": variant}),
        "value": row.value,
        "cell": dict(row.cell),
        "judged": row.judged,
        "low": low,
        "high": high,
        "delta": delta.value,
        "delta_low": delta_low,
        "delta_high": delta_high,
        "p_value": row.p_value,
        "p_adjusted": row.p_adjusted,
        "verdict": row.verdict,
        "note": row.note,
    }


def standings_document(
    rows: Sequence[Standing], metric: str, better: str, reference: RunEntry | None
) -> dict[str, Any]:
    """Runs from best to worst by a metric."""
    against = reference.run_id if reference else None
    said = list(dict.fromkeys(warning for row in rows for warning in row.warnings))
    return plain(
        {
            "metric": metric,
            "better": better,
            "against": against,
            "runs": [standing_document(row) for row in rows],
            **({"warnings": said} if said else {}),
        }
    )


def best_document(order: Sequence[Standing], metric: str, note: str) -> dict[str, Any]:
    """The best run by a metric, and of how many."""
    first = order[0]
    return {
        "metric": metric,
        "run_id": first.run.run_id,
        "workflow": first.run.workflow,
        "value": first.value,
        "judged": first.judged,
        "of": len(order),
        "note": note,
    }


def choice_document(choice: Choice, metric: str, profile: str, *, applied: bool) -> dict[str, Any]:
    """What to do about the best run, and whether it was done."""
    return plain(
        {
            "action": choice.action,
            "metric": metric,
            "profile": profile,
            "candidate": choice.candidate.run_id,
            "value": choice.value,
            "active": choice.active_run_id,
            "active_value": choice.active_value,
            "delta": choice.lead.value,
            "interval": choice.lead.interval,
            "eps": choice.eps,
            "reason": choice.reason,
            "applied": applied,
            **({"warnings": list(choice.warnings)} if choice.warnings else {}),
        }
    )


def pointer_state(pointer: Pointer) -> dict[str, Any]:
    """A pointer as `runs active` prints it."""
    document = pointer_document(pointer)
    keys = {"metric": "Metric", "profile": "Profile", "run_id": "RunId", "stack": "Stack", "history": "History"}
    return {key: document[written] for key, written in keys.items()}


def pointers_document(pointers: Sequence[Pointer]) -> dict[str, Any]:
    """Every pointer."""
    return {"pointers": [pointer_state(pointer) for pointer in pointers]}


def removal_document(run_id: str, workflow: str, removed: Sequence[str]) -> dict[str, Any]:
    """What was removed of a run."""
    return {"run_id": run_id, "workflow": workflow, "removed": list(removed)}


def leftovers_document(removed: Sequence[Path]) -> dict[str, Any]:
    """What was removed of what killed processes left."""
    return {"removed": [folder.name for folder in removed]}


def index_document(runs: Sequence[RunEntry], problems: Sequence[Problem]) -> dict[str, Any]:
    """How many runs the index holds, and which folders cannot be used."""
    return {"runs": len(runs), "problems": _problems(problems)}


def metrics_document(rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """The table of metrics, one row per number."""
    return {"rows": [dict(zip(METRIC_COLUMNS, row, strict=True)) for row in rows]}


def _problems(problems: Sequence[Problem]) -> list[dict[str, str]]:
    return [{"run": p.folder.name, "problem": p.problem} for p in problems]
