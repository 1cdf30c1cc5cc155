"""`steelyard runs promote`: make a run active."""

from __future__ import annotations

from steelyard.cli.command import Shown, command
from steelyard.cli.options import store


@command()
def promote(
    *,
    run: store.SavedRunId,
    metric: store.MetricKey = None,
    profile: store.Profile = "default",
    reason: store.Reason = "",
    despite_gate: store.DespiteGate = False,
    place: store.Place,
) -> Shown:
    """Make a run active. An incomplete, failed or tampered run is refused, and one whose last gate failed."""
    from steelyard.report.runs import pointer_report
    from steelyard.runs.metric_keys import known_key
    from steelyard.runs.pointers import ANY, Pointers
    from steelyard.runs.saved import SavedRun
    from steelyard.runs.wire import pointer_state

    with place.index() as index:
        listed = index.find(run)
        pointers = Pointers(listed.scope)
        key = metric if metric in (None, ANY) else known_key([listed, *index.runs()], metric)
    named, opened = pointers.metric_key(key, profile), SavedRun.at(listed.folder)
    pointer = pointers.promote(opened, named, profile, reason=reason, despite_gate=despite_gate)
    return Shown(document=pointer_state(pointer), report=pointer_report(pointer))
