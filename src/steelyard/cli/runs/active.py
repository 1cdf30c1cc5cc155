"""`steelyard runs active` and `runs history`: which run is active, and how it came to be."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import Shown, command
from steelyard.cli.options import store


@command()
def active(
    *,
    metric: store.MetricKey = None,
    profile: store.Profile = "default",
    all_: Annotated[bool, typer.Option("--all", help="Every pointer, of every domain that is not named.")] = False,
    place: store.Place,
) -> Shown:
    """Which run is active, for a metric and profile."""
    if not all_:
        return _pointer(metric, profile, place)
    from steelyard.report.runs import pointers_report
    from steelyard.runs.pointers import Pointers
    from steelyard.runs.wire import pointers_document

    pointers = [pointer for scope in place.view.scopes() for pointer in Pointers(scope).all()]
    return Shown(document=pointers_document(pointers), report=pointers_report(pointers))


@command()
def history(*, metric: store.MetricKey = None, profile: store.Profile = "default", place: store.Place) -> Shown:
    """Every promotion and rollback of a pointer."""
    return _pointer(metric, profile, place)


def _pointer(metric: str | None, profile: str, place: store.Place) -> Shown:
    from steelyard.report.runs import pointer_report
    from steelyard.runs.pointers import Pointers
    from steelyard.runs.promotion import pointed
    from steelyard.runs.wire import pointer_state

    view = place.view
    pointer = Pointers(view.scope()).get(pointed(view, metric, profile), profile)
    return Shown(document=pointer_state(pointer), report=pointer_report(pointer))
