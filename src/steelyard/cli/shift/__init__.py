"""`steelyard shift`: learn a shift of query embeddings, look at it, find the best, apply it."""

from __future__ import annotations

import typer

from steelyard.cli.shift.apply import apply
from steelyard.cli.shift.best import best
from steelyard.cli.shift.history import history
from steelyard.cli.shift.inspect import inspect
from steelyard.cli.shift.train import train
from steelyard.cli.words import Group

app = typer.Typer(cls=Group, no_args_is_help=True, help="Learned shifts of query embeddings, judged on unseen queries.")
for each in (train, inspect, history, best, apply):
    app.command()(each)
