"""`steelyard calibrate fit`: a supervised calibrator on one or more signals."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import Shown, command
from steelyard.cli.options import calibration as of
from steelyard.cli.options.records import Reading, names, pairs
from steelyard.cli.options.spellings import one_of
from steelyard.cli.options.uncertainty import Seed
from steelyard.errors import UsageError, printable
from steelyard.naming import number_in


@command(writes="calibrator.json")
def fit(
    *,
    file: of.File = None,
    input_: of.Input = None,
    output: of.Output = None,  # noqa: ARG001 - the calibrator is written there
    method: Annotated[str, typer.Option("--method", help="logistic, linear (ridge, λ = 1), isotonic or temperature.")],
    features: Annotated[
        str | None, typer.Option("--features", help="Signals, separated by commas: token_msp,verbalized_confidence.")
    ] = None,
    confidence: Annotated[
        str | None, typer.Option("--confidence", help="Instead of features: one confidence variant or column.")
    ] = None,
    fill: Annotated[
        list[str] | None,
        typer.Option("--fill", help="What a missing feature counts as: retrieval_similarity_mean=0. Repeatable."),
    ] = None,
    mode: of.Mode = None,
    target: of.Target = "correctness",
    reading: Reading,
    seed: Seed = 42,
    plot: of.Plot = None,
) -> Shown:
    """A supervised calibrator on one or more signals, judged in sample and five-fold cross-fitted."""
    signals = names([features or ""])
    return of.fitted(
        reading.run(
            one_of(file, input_, named="a file", option_named="--input"),
            mode,
            [*signals, *([confidence] if confidence else [])],
        ),
        method,
        plot,
        features=signals,
        confidence=confidence,
        fill=_numbers(fill),
        target=target,
        seed=seed,
    )


def _numbers(texts: list[str] | None) -> dict[str, float]:
    numbers = {}
    for name, text in pairs(texts, "fill").items():
        try:
            numbers[name] = number_in(text)
        except ValueError:
            raise UsageError(f"--fill takes name=number, not '{printable(text)}'") from None
    return numbers
