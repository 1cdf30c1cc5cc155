"""`steelyard schema`: the JSON Schema of a document that Steelyard writes."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli import completing
from steelyard.cli.command import Shown, command


@command(prints=False)
def schema(
    *,
    name: Annotated[
        str,
        typer.Argument(
            autocompletion=completing.schemas,
            help="evaluation, comparison, run, acceptance-gate and others: see docs/schemas.",
        ),
    ],
) -> Shown:
    """Print the JSON Schema of a document that Steelyard reads or writes."""
    from steelyard.report.schemas import schemas

    return Shown(document=schemas[name]())
