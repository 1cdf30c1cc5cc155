"""A matrix of runs for people: the plan before, the outcome after."""

from __future__ import annotations

import shlex

from steelyard.report.document import Count, Document, Note, Table, Value
from steelyard.report.runs import choice_report, ranking_report
from steelyard.runner.matrix import Plan, Result
from steelyard.runs.metric_keys import direction


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
            "" if v.exit_code is None else Count(v.exit_code, grouped=False),
            Value(v.seconds, spec=".1f"),
            v.log.name if v.log else "",
        )
        for v in result.variants
    )
    document: Document = [Table(("variant", "status", "exit", "seconds", "log"), rows)]
    document.append(Note(f"logs and spec: {result.folder}"))
    if result.metric and result.rows:
        runs = [row.run for row in result.rows]
        reference = runs[0] if any(row.delta is not None for row in result.rows) else None
        document += ranking_report(result.rows, result.metric, reference, direction(result.metric, runs, result.better))
    if result.choice is not None:
        document += choice_report(result.choice, result.promoted_by)
    return document + [Note(f"problem: {p}") for p in result.problems]
