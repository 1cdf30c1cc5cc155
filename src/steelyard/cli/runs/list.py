"""`steelyard runs list`: the runs that were kept."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import Shown, command, say
from steelyard.cli.options import store
from steelyard.errors import UsageError


@command()
def list_(
    *,
    workflow: store.OfWorkflow = None,
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="The runs of every tenant, and of none.")] = False,
    place: store.Place,
) -> Shown:
    """List the runs, the newest first, with their main numbers and what is active; unusable folders are named below."""
    from steelyard.report.runs import list_report
    from steelyard.runs.deleting import leftovers
    from steelyard.runs.elsewhere import other_folders
    from steelyard.runs.layout import scopes
    from steelyard.runs.pointers import standing
    from steelyard.runs.wire import listed_document

    if all_tenants and place.tenant is not None:
        raise UsageError("--all-tenants looks at every tenant; leave --tenant out")
    with place.index(all_tenants=all_tenants) as index:
        runs, problems = index.runs(workflow=workflow), index.problems()
    active, broken = standing(runs)
    seen = list(scopes(place.view.root) if all_tenants else place.view.scopes())
    problems = [*problems, *broken, *leftovers(seen)]
    others = other_folders(seen, "run") if workflow is None else []
    if not runs and not problems:
        of = f" of the workflow {workflow}" if workflow is not None else ""
        say(f"no runs{of} in {place.view.root}; `steelyard evaluate FILE --save` keeps one")
    return Shown(
        document=listed_document(runs, problems, active, others), report=list_report(runs, problems, active, others)
    )
