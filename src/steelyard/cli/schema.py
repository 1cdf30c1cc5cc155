"""`steelyard schema`: the JSON Schema of a document that Steelyard writes."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(name: Annotated[str, typer.Argument(help="selective, calibrator or gate-rules.")]) -> None:
    """Print the JSON Schema of a document: selective, calibrator, gate-rules."""
    from steelyard.report.schemas import schemas
    from steelyard.runs.artifact import dumps

    typer.echo(dumps(schemas[name]()), nl=False)
