"""`steelyard metrics`: what can be measured."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli import options


def metrics(
    name: Annotated[str | None, typer.Argument(help="Explain this one: formula, edge cases, example.")] = None,
    format_: Annotated[str, typer.Option("--format", help="table, json or markdown.")] = "table",
) -> None:
    """List every metric: what it reads, which direction is better, its bounds. With a name, explain one."""
    options.check_format(format_)
    options.allow_plugins([name] if name else None)
    from steelyard.ground.json import dumps
    from steelyard.report.catalogue import catalogue_document, catalogue_report, explanation

    if format_ == "json":
        typer.echo(dumps(catalogue_document(name)), nl=False)
        return
    from steelyard.report.formats import markdown, text

    renderer = markdown if format_ == "markdown" else text
    typer.echo(renderer.render(explanation(name) if name else catalogue_report()), nl=False)
