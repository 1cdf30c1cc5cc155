"""`steelyard runs show`: one run."""

from __future__ import annotations

from typing import Any

from steelyard.cli.command import Shown, command
from steelyard.cli.options import store
from steelyard.errors import UsageError


@command()
def show(*, run: store.SavedRunId, place: store.Place) -> Shown:
    """Show one run: what it is, its numbers with intervals; its files are verified.

    A folder …-run_<time> that another tool left in the results is shown too.
    """
    from steelyard.report.runs import run_report
    from steelyard.runs.elsewhere import find_other
    from steelyard.runs.run_json import run_document
    from steelyard.runs.saved import SavedRun

    with place.index() as index:
        try:
            opened = SavedRun.at(index.find(run).folder)
        except UsageError:
            other = find_other(place.view.scopes(), "run", run)
            if other is None:
                raise
            return _made_elsewhere(other)
    opened.verify()
    replies = {name.capitalize(): str(path) for name, path in opened.replies.items()}
    return Shown(document={**run_document(opened.run), **replies}, report=run_report(opened))


def _made_elsewhere(other: Any) -> Shown:
    from steelyard.report.retrieval import search_report
    from steelyard.retrieval.elsewhere import read_search

    search = read_search(other)
    return Shown(document=search.document(), report=search_report(search))
