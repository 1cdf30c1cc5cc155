"""`steelyard shift inspect`: one training."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import Shown, command
from steelyard.cli.options.store import Place
from steelyard.errors import UsageError, printable


@command()
def inspect(
    *,
    training: Annotated[
        str, typer.Argument(help="A training's id or folder, the beginning of it, best, best:WORKFLOW, or a file.")
    ],
    place: Place,
) -> Shown:
    """Show one training: what held-out queries say, what the learner saw, where the shift points."""
    from steelyard.report.retrieval import training_report
    from steelyard.retrieval.shifts.kept import training_document
    from steelyard.retrieval.shifts.named import named_shift

    shift = named_shift(training, scope=place.scope, view=place.view, allow_cancelled=True)
    if shift.training is None:
        raise UsageError(f"'{printable(training, limit=60)}' is a shift, but not a training's result")
    return Shown(document=training_document(shift.training), report=training_report(shift.training))
