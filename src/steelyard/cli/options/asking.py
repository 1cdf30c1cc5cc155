"""Options of commands that are about a run-spec, and the spec that they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli.command import READS, allow_plugins

Spec = Annotated[Path, typer.Argument(help="The run-spec, a YAML file."), READS]
Concurrency = Annotated[int | None, typer.Option("--concurrency", help="Requests in flight per server.")]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", help="Ask nothing more once so much is spent, by the prices in the spec.")
]
Limit = Annotated[int | None, typer.Option("--limit", help="Ask about so many items only.")]


def loaded(path: Path, **changes: Any) -> Any:
    """The spec in a file, with what options change; what it names may be in the working folder."""
    from steelyard.runner.spec import load_spec

    file = load_spec(path, **changes)
    functions = [str(model.options.get("function", "")) for model in file.spec.models]
    allow_plugins([*file.spec.metrics, *file.spec.rules], functions)
    return file
