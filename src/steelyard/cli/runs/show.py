"""`steelyard runs show`: one run."""

from __future__ import annotations

from steelyard.cli.command import Shown, command
from steelyard.cli.options import store


@command()
def show(*, run: store.SavedRunId, place: store.Place) -> Shown:
    """Show one run: what it is, its numbers with intervals; its files are verified."""
    from steelyard.report.runs import run_report
    from steelyard.runs.run_json import run_document
    from steelyard.runs.saved import SavedRun

    with place.index() as index:
        opened = SavedRun.at(index.find(run).folder)
    opened.verify()
    return Shown(document=run_document(opened.run), report=run_report(opened))
