"""`steelyard schema`: the JSON Schema of a document that Steelyard writes."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(name: Annotated[str, typer.Argument(help="selective or calibrator.")]) -> None:
    """Print the JSON Schema of a document: selective, calibrator."""
    from steelyard.runs.artifact import dumps
    from steelyard.runs.schemas import schemas

    typer.echo(dumps(schemas[name]()), nl=False)
