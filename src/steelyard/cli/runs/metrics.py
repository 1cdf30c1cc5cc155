"""`steelyard runs metrics`: the table of metrics."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from steelyard.cli.command import Shown, command
from steelyard.cli.options import store


@command()
def metrics(
    *,
    pivot: Annotated[bool, typer.Option("--pivot", help="Runs and their cells as rows, metrics as columns.")] = False,
    metric: store.MetricKeys = None,
    place: store.Place,
) -> Shown:
    """The table of metrics: one row per number, or pivoted to a row per run and cell."""
    from steelyard.report.runs import metrics_report, pivot_report
    from steelyard.runs.keys import checked_key
    from steelyard.runs.metric_keys import canonical
    from steelyard.runs.wire import metrics_document, pivot_document

    def meant(key: str, known: list[str]) -> str:
        return checked_key(key if key in known else canonical(key), known)

    with place.index() as index:
        if pivot:
            names, cells = index.cells()
            names = list(dict.fromkeys(meant(key, names) for key in metric)) if metric else names
            return Shown(document=pivot_document(names, cells), report=partial(pivot_report, names, cells))
        known = index.names()
        rows = list(index.rows(*(meant(key, known) for key in metric or ())))
    return Shown(document=metrics_document(rows), report=partial(metrics_report, rows))
