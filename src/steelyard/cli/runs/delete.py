"""`steelyard runs delete`: remove a run, or only the rows it kept."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from steelyard.cli.command import Shown, command
from steelyard.cli.options import store
from steelyard.errors import UsageError, printable


@command()
def delete(
    *,
    run: store.SavedRunId,
    texts_only: Annotated[
        bool,
        typer.Option(
            "--texts-only",
            help="Remove only the rows that were kept (records.parquet); numbers, labels and groups stay.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    place: store.Place,
) -> Shown:
    """Remove a run, or only the rows it kept. A run that is active or pinned is refused."""
    from steelyard.report.runs import removal_report
    from steelyard.runs.deleting import check_free, delete_run, delete_texts, doomed
    from steelyard.runs.wire import removal_document

    leaving = doomed(place.view, run)
    check_free(leaving)
    name = printable(leaving.name)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("nothing was removed: there is no terminal to ask at; add --yes")
        what = f"the rows that run {name} kept" if texts_only else f"run {name}"
        typer.confirm(f"Remove {what}? This cannot be undone", abort=True, err=True)
    removed = delete_texts(leaving) if texts_only else delete_run(leaving)
    about = leaving.run_id, leaving.workflow, removed
    return Shown(document=removal_document(*about), report=removal_report(*about))
