"""`steelyard runs pin`: an anchor that gates can compare with."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import Shown, command
from steelyard.cli.options import store


@command()
def pin(
    *,
    run: store.SavedRunId,
    name: Annotated[str, typer.Option("--as", help="The anchor's name: gate with --baseline pinned:NAME.")],
    reason: store.Reason = "",
    place: store.Place,
) -> Shown:
    """Pin a run as an anchor that gates can compare with, whatever is promoted meanwhile."""
    from steelyard.report.runs import pointer_report
    from steelyard.runs.layout import checked
    from steelyard.runs.pointers import Pointers
    from steelyard.runs.saved import SavedRun
    from steelyard.runs.wire import pointer_state

    with place.index() as index:
        listed = index.find(run)
    pointer = Pointers(listed.scope).pin(SavedRun.at(listed.folder), checked("anchor", name), reason=reason)
    return Shown(document=pointer_state(pointer), report=pointer_report(pointer))
