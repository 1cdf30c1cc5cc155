"""`steelyard runs decide`: should the best run replace the active one?"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from steelyard.cli.command import Shown, command
from steelyard.cli.options import store
from steelyard.cli.options.uncertainty import Resampling
from steelyard.errors import UsageError


@command()
def decide(
    *,
    metric: store.OneMetric,
    eps: Annotated[float, typer.Option("--eps", help="By how much the best must be better.")] = 1e-6,
    point: Annotated[bool, typer.Option("--point", help="Decide by eps alone, with no allowance for chance.")] = False,
    require_significant: Annotated[
        bool, typer.Option("--require-significant", hidden=True, help="it is what is done anyway")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Promote if that is the decision.")] = False,
    profile: store.Profile = "default",
    better: store.Better = None,
    despite_gate: store.DespiteGate = False,
    resampling: Resampling,
    place: store.Place,
) -> Shown:
    """Say whether the best run should replace the active one: if better by more than eps, and by more than chance.

    Chance is considered where both runs kept evidence; runs of other tools are decided by eps, and it is said.
    """
    from steelyard.report.runs import choice_report
    from steelyard.runs.promotion import decided
    from steelyard.runs.wire import choice_document

    if point and require_significant:
        raise UsageError("--point and --require-significant contradict each other")
    scope = place.view.scope()
    with replace(place, domain=scope.domain).index() as index:
        runs = store.usable(index)
    choice, key, applied = decided(
        scope,
        runs,
        metric,
        profile,
        eps=eps,
        point=point,
        apply=apply,
        better=better,
        despite_gate=despite_gate,
        settings=resampling.settings,
    )
    return Shown(
        document=choice_document(choice, key, profile, applied=applied),
        report=choice_report(choice, key, applied=applied),
    )
