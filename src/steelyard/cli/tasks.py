"""`steelyard tasks`: what can be run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli import completing
from steelyard.cli.command import Reads, Shown, command
from steelyard.errors import UsageError


@command()
def tasks(
    *,
    name: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completing.tasks, help="Show this one, or the one in a file, with a prompt as it is sent."
        ),
        Reads(),
    ] = None,
    strategy: Annotated[str, typer.Option("--strategy", help="How to ask.")] = "zero-shot",
) -> Shown:
    """List the tasks that models can be asked. With a name, or a file that describes one, show a prompt."""
    from steelyard.report.asking import task_report, tasks_report
    from steelyard.runner.strategies import strategy_named
    from steelyard.runner.tasks import known_tasks, task_named
    from steelyard.runner.wire import task_document, tasks_document

    if name is None:
        every = known_tasks()
        return Shown(document=tasks_document(every), report=tasks_report(every))
    asked, how = task_named(name, Path()), strategy_named(strategy)
    if how.examples:
        raise UsageError("examples come from a run's own items; `steelyard prompts SPEC` shows them")
    items = asked.items(None, size=None, seed=0).items
    return Shown(document=task_document(asked, items[0], how), report=task_report(asked, items[0], how, len(items)))
