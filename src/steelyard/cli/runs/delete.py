"""`steelyard runs delete`: remove a run, only the rows it kept, or what a killed process left."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from steelyard.cli import completing
from steelyard.cli.command import Shown, command
from steelyard.cli.options import store
from steelyard.errors import UsageError, printable


@command()
def delete(
    *,
    run: Annotated[
        str | None, typer.Argument(autocompletion=completing.runs, help="A run's id, or the beginning of it.")
    ] = None,
    texts_only: Annotated[
        bool,
        typer.Option(
            "--texts-only",
            help="Remove only the rows that were kept (records.parquet); numbers, labels and groups stay.",
        ),
    ] = False,
    leftovers: Annotated[
        bool,
        typer.Option("--leftovers", help="Instead of a run: what killed processes left of runs that they were saving."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    place: store.Place,
) -> Shown:
    """Remove a run, only the rows it kept, or what was left of none. A run that is active or pinned is refused."""
    from steelyard.report.runs import leftovers_report, removal_report
    from steelyard.runs.deleting import check_free, delete_run, delete_texts, doomed, sweep_scopes
    from steelyard.runs.wire import leftovers_document, removal_document

    if leftovers:
        if run is not None or texts_only:
            raise UsageError("--leftovers belong to no run; leave the run and --texts-only out")
        gone = sweep_scopes(place.view.scopes())
        return Shown(document=leftovers_document(gone), report=leftovers_report(gone))
    if run is None:
        raise UsageError("name the run to remove, or --leftovers for what killed processes left")
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
