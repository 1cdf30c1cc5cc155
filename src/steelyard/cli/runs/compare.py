"""`steelyard runs compare`: runs by a metric, the better first."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli import completing
from steelyard.cli.command import Shown, command
from steelyard.cli.options import store
from steelyard.errors import UsageError


@command()
def compare(
    *,
    metric: Annotated[
        str, typer.Option("--metric", "-m", autocompletion=completing.metrics, help="The metric's key, such as ndcg@3.")
    ],
    top: Annotated[int, typer.Option("--top", help="How many to show.")] = 20,
    against: Annotated[
        str | None,
        typer.Option("--against", autocompletion=completing.runs, help="A run's id: paired deltas against it."),
    ] = None,
    workflow: store.OfWorkflow = None,
    place: store.Place,
) -> Shown:
    """Sort runs by a metric, the better first, with intervals and paired deltas where the data match."""
    from steelyard.report.runs import ranking_report
    from steelyard.runs.metric_keys import direction, known_key
    from steelyard.runs.standing import compared, ranked, reference_of
    from steelyard.runs.wire import standings_document

    if top < 1:
        raise UsageError("--top is at least 1")
    with place.index() as index:
        runs = store.usable(index, workflow=workflow)
        reference = index.find(against) if against else None
        key = known_key(runs, metric, cells=True)
    rows = compared(ranked(runs, key), key, reference)
    better = direction(key, runs)
    shown = reference or (reference_of(rows) if any(row.delta is not None for row in rows) else None)
    return Shown(
        document=standings_document(rows[:top], key, better, shown),
        report=ranking_report(rows[:top], key, shown, better),
    )
