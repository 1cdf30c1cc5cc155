"""`steelyard metrics`: what can be measured."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from steelyard.cli import completing
from steelyard.cli.command import PLUGINS, Shown, command


@command()
def metrics(
    *,
    name: Annotated[
        str | None,
        typer.Argument(autocompletion=completing.metrics, help="Explain this one: formula, edge cases, example."),
        PLUGINS,
    ] = None,
) -> Shown:
    """List every metric: what it reads, which direction is better, its bounds. With a name, explain one."""
    from steelyard.report.catalogue import catalogue_document, catalogue_report, explanation

    report = partial(explanation, name) if name else catalogue_report
    return Shown(document=catalogue_document(name), report=report)
