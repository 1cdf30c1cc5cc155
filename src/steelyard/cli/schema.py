"""`steelyard schema`: the JSON Schema of a document that Steelyard writes."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(
    name: Annotated[
        str, typer.Argument(help="selective, calibrator, gate-rules, per-query, segments or shift-training-result.")
    ],
) -> None:
    """Print the JSON Schema of a document that Steelyard reads or writes."""
    from steelyard.ground.json import dumps
    from steelyard.report.schemas import schemas

    typer.echo(dumps(schemas[name]()), nl=False)
