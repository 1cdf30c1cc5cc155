"""`steelyard prompts`: the exact messages that a run-spec would send."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import Shown, command
from steelyard.cli.options import asking
from steelyard.errors import UsageError


@command()
def prompts(
    *,
    spec: asking.Spec,
    number: Annotated[int, typer.Option("-n", "--number", help="Of how many items.")] = 3,
    limit: asking.Limit = None,
) -> Shown:
    """Show the exact messages about the first items, by strategy and perturbation. Nothing is sent."""
    from steelyard.report.plan import prompts_report
    from steelyard.runner.plan import planned
    from steelyard.runner.wire import prompts_document

    if number < 1:
        raise UsageError("--number is at least 1")
    plan = planned(asking.loaded(spec, limit=limit))
    return Shown(document=prompts_document(plan, number), report=prompts_report(plan, number))
