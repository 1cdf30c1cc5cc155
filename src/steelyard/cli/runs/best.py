"""`steelyard runs best`: the best complete run by a metric."""

from __future__ import annotations

from steelyard.cli.command import Shown, command
from steelyard.cli.options import store
from steelyard.errors import InputError, printable


@command()
def best(
    *,
    metric: store.OneMetric,
    workflow: store.OfWorkflow = None,
    better: store.Better = None,
    place: store.Place,
) -> Shown:
    """The best complete run by a metric. The best of many is optimistic, and this says so."""
    from steelyard.report.runs import best_report
    from steelyard.runs.metric_keys import known_key
    from steelyard.runs.standing import candidates
    from steelyard.runs.wire import best_document

    with place.index() as index:
        runs = store.usable(index, workflow=workflow)
    key = known_key(runs, metric)
    order = candidates(runs, key, better)
    if not order:
        raise InputError(f"no complete run has a value of {printable(key)}")
    note = f"the best of {len(order)} runs is optimistic: part of its lead is chance" if len(order) > 1 else ""
    return Shown(document=best_document(order, key, note), report=best_report(order[0], key, len(order), note))
