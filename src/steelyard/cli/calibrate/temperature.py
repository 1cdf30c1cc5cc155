"""`steelyard calibrate temperature`: temperature scaling of one confidence."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import Shown, command
from steelyard.cli.options import calibration as of
from steelyard.cli.options.records import Reading
from steelyard.cli.options.spellings import one_of
from steelyard.cli.options.uncertainty import Seed


@command(writes="calibrator.json")
def temperature(
    *,
    file: of.File = None,
    input_: of.Input = None,
    output: of.Output = None,  # noqa: ARG001 - the calibrator is written there
    mode: of.Mode = None,
    confidence: Annotated[
        str, typer.Option("--confidence", help="The variant or column to scale; a probability.")
    ] = "verbalized",
    target: of.Target = "correctness",
    reading: Reading,
    seed: Seed = 42,
    plot: of.Plot = None,
) -> Shown:
    """Temperature scaling of one confidence: sigmoid(logit(p)/T). It changes no ranking, so neither AURC nor AUGRC."""
    records = reading.run(one_of(file, input_, named="a file", option_named="--input"), mode, [confidence])
    return of.fitted(records, "temperature", plot, confidence=confidence, target=target, seed=seed)
