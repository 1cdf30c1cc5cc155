"""`steelyard calibrate`: fit what turns a confidence into a probability, and say how good it is."""

from __future__ import annotations

import typer

from steelyard.cli.calibrate.fit import fit
from steelyard.cli.calibrate.temperature import temperature
from steelyard.cli.words import Group

app = typer.Typer(
    cls=Group, no_args_is_help=True, help="Fit a calibrator on a training run; apply it with `selective`."
)
app.command("temperature")(temperature)
app.command("fit")(fit)
