"""`steelyard runs compare`: runs by a metric, the better first."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from steelyard.cli import completing
from steelyard.cli.command import Shown, command
from steelyard.cli.options import records as of
from steelyard.cli.options import store
from steelyard.cli.options.uncertainty import Resampling
from steelyard.errors import UsageError


@command()
def compare(
    *,
    metric: store.Keys,
    top: Annotated[int, typer.Option("--top", help="How many to show.")] = 20,
    against: Annotated[
        str | None,
        typer.Option("--against", autocompletion=completing.runs, help="A run's id: paired deltas against it."),
    ] = None,
    primary: of.Primary = None,
    workflow: store.OfWorkflow = None,
    better: store.Better = None,
    resampling: Resampling,
    place: store.Place,
) -> Shown:
    """Sort runs by a metric, the better first, with intervals and paired deltas where the data match.

    By several metrics there is one table each. The first decides, or those that --primary names; the others explore:
    p-values are adjusted over the pairs of what decides, and apart over those of the others.
    """
    from steelyard.report.document import Note
    from steelyard.report.runs import ranking_report
    from steelyard.runs.metric_keys import direction, known_key
    from steelyard.runs.standing import compared_by, ranked, reference_of
    from steelyard.runs.wire import standings_document

    if top < 1:
        raise UsageError("--top is at least 1")
    with place.index() as index:
        runs = store.usable(index, workflow=workflow)
        reference = index.find(against) if against else None
        deciding = [known_key(runs, name, cells=True) for name in primary or ()]
        keys = dict.fromkeys((*deciding, *(known_key(runs, name, cells=True) for name in metric)))
    rows_of = {key: ranked(runs, key, better) for key in keys}
    standings, family = compared_by(rows_of, reference, primary=deciding, settings=resampling.settings)
    documents: list[dict[str, Any]] = []
    report: list[Any] = []
    for key, rows in standings.items():
        way = direction(key, runs, better)
        shown = reference or (reference_of(rows) if any(row.delta is not None for row in rows) else None)
        documents.append(standings_document(rows[:top], key, way, shown))
        report += ranking_report(rows[:top], key, shown, way)
    first, *further = documents
    report += [Note(family)] if family else []
    return Shown(document={**first, "further": further, "family": family}, report=report)
