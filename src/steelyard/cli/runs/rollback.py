"""`steelyard runs rollback`: back to the run that was active before."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import Shown, command
from steelyard.cli.options import store


@command()
def rollback(
    *,
    steps: Annotated[int, typer.Option("--steps", help="How many promotions to go back.")] = 1,
    metric: store.MetricKey = None,
    profile: store.Profile = "default",
    reason: store.Reason = "",
    place: store.Place,
) -> Shown:
    """Go back to the run that was active before, step by step, as often as asked."""
    from steelyard.report.runs import pointer_report
    from steelyard.runs.pointers import Pointers
    from steelyard.runs.promotion import pointed
    from steelyard.runs.wire import pointer_state

    view = place.view
    key = pointed(view, metric, profile)
    pointer = Pointers(view.scope()).rollback(key, profile, steps=steps, reason=reason)
    return Shown(document=pointer_state(pointer), report=pointer_report(pointer))
