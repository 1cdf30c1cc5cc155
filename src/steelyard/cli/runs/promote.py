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
    place: store.Place,
) -> Shown:
    """Make a run active. An incomplete, failed or tampered run is refused."""
    from steelyard.report.runs import pointer_report
    from steelyard.runs.metric_keys import known_key
    from steelyard.runs.pointers import ANY, Pointers
    from steelyard.runs.saved import SavedRun
    from steelyard.runs.wire import pointer_state

    with place.index() as index:
        listed = index.find(run)
        pointers = Pointers(listed.scope)
        key = metric if metric in (None, ANY) else known_key([listed, *index.runs()], metric)
    pointer = pointers.promote(SavedRun.at(listed.folder), pointers.metric_key(key, profile), profile, reason=reason)
    return Shown(document=pointer_state(pointer), report=pointer_report(pointer))
