"""`steelyard runs`: what was kept, which is best, which is active."""

from __future__ import annotations

import typer

from steelyard.cli.runs.active import active, history
from steelyard.cli.runs.best import best
from steelyard.cli.runs.compare import compare
from steelyard.cli.runs.decide import decide
from steelyard.cli.runs.delete import delete
from steelyard.cli.runs.index import index
from steelyard.cli.runs.list import list_
from steelyard.cli.runs.matrix import matrix
from steelyard.cli.runs.metrics import metrics
from steelyard.cli.runs.pin import pin
from steelyard.cli.runs.promote import promote
from steelyard.cli.runs.rollback import rollback
from steelyard.cli.runs.show import show
from steelyard.cli.words import Group

app = typer.Typer(cls=Group, no_args_is_help=True, help="Runs that were kept: list, compare, promote, roll back.")
app.command("list")(list_)
for each in (
    show, compare, best, decide, promote, pin, active, history, rollback, delete, index, metrics, matrix,
):  # fmt: skip
    app.command()(each)
