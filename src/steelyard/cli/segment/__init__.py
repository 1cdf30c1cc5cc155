"""`steelyard segment`: for which queries a shift is worth applying."""

from __future__ import annotations

import typer

from steelyard.cli.segment.compare import compare
from steelyard.cli.segment.propose import propose
from steelyard.cli.words import Group

app = typer.Typer(cls=Group, no_args_is_help=True, help="Apply a shift to some queries only: propose and compare.")
app.command()(propose)
app.command()(compare)
