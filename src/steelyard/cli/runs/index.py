"""`steelyard runs index`: bring the index in step with the folders."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import Shown, command
from steelyard.cli.options import store
from steelyard.cli.progress import progress


@command()
def index(
    *,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Throw the index away and read every folder again.")
    ] = False,
    place: store.Place,
) -> Shown:
    """Bring the index in step with the folders, or make it again; the folders are the truth."""
    from steelyard.report.runs import index_report
    from steelyard.runs.wire import index_document

    with progress("indexing") as bar, place.index(rebuild=rebuild, progress=bar) as runs_index:
        runs, problems = runs_index.runs(), runs_index.problems()
    return Shown(document=index_document(runs, problems), report=index_report(runs, problems))
