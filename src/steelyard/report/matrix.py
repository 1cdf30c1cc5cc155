"""A matrix of runs for people: the plan before, the outcome after."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Any

from steelyard.ground.json import plain
from steelyard.report.document import Document, Note, Table
from steelyard.report.runs import choice_report, ranking_report
from steelyard.runner.matrix import Plan, Result
from steelyard.runs.standing import direction
from steelyard.runs.wire import standing_document


def plan_report(plan: Plan) -> Document:
    """What would be run."""
    rows = tuple(
        (v.name, shlex.join(plan.arguments(v)), "" if v.timeout is None else f"{v.timeout:g} s")
        for v in plan.spec.variants
    )
    document: Document = [Note(f"workflow {plan.spec.workflow}; on failure: {plan.spec.on_failure}")]
    document.append(Table(("variant", "command", "timeout"), rows))
    if plan.spec.compare is not None:
        document.append(Note(f"then compare by {plan.spec.compare.metric}"))
    if plan.spec.promote is not None:
        document.append(
            Note(
                f"then promote the best by {plan.spec.promote.metric} if better by more than {plan.spec.promote.eps:g}"
            )
        )
    return document


def matrix_report(result: Result) -> Document:
    """What came of it."""
    rows = tuple(
        (
            v.name,
            v.status,
            "" if v.exit_code is None else str(v.exit_code),
            f"{v.seconds:.1f}",
            v.log.name if v.log else "",
        )
        for v in result.variants
    )
    document: Document = [Table(("variant", "status", "exit", "seconds", "log"), rows, frozenset({"exit", "seconds"}))]
    document.append(Note(f"logs and spec: {result.folder}"))
    if result.metric and result.rows:
        runs = [row.run for row in result.rows]
        reference = runs[0] if any(row.delta is not None for row in result.rows) else None
        document += ranking_report(result.rows, result.metric, reference, direction(result.metric, runs))
    if result.choice is not None:
        document += choice_report(result.choice, result.promoted_by)
    return document + [Note(f"problem: {p}") for p in result.problems]


def matrix_document(result: Result) -> dict[str, Any]:
    """The same as data."""
    ranking = [standing_document(row) for row in result.rows]
    choice = result.choice
    return plain(
        {
            "folder": str(result.folder),
            "variants": [{**asdict(v), "log": v.log.name if v.log else None} for v in result.variants],
            "metric": result.metric,
            "runs": ranking,
            "decision": None
            if choice is None
            else {"action": choice.action, "run_id": choice.candidate.run_id, "reason": choice.reason},
            "problems": list(result.problems),
        }
    )
