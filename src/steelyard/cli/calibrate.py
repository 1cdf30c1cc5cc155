"""`steelyard calibrate`: fit what turns a confidence into a probability, and say how good it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli import options
from steelyard.errors import UsageError, printable

app = typer.Typer(no_args_is_help=True, help="Fit a calibrator on a training run; apply it with `selective`.")

Input = Annotated[str, typer.Option("--input", help="The training run: a run's JSON output, or a records file.")]
Mode = Annotated[str | None, typer.Option("--mode", help="The mode (strategy) to take.")]
Output = Annotated[Path, typer.Option("--output", help="The file to write the calibrator to.")]
Target = Annotated[
    str,
    typer.Option("--target", help="correctness, near_correct (off by at most 1) or loss (1 − |error|/range)."),
]
Plot = Annotated[Path | None, typer.Option("--plot", help="A folder for reliability diagrams as PNG, SVG and PDF.")]


@app.command()
def temperature(
    input_: Input,
    output: Output,
    mode: Mode = None,
    confidence: Annotated[
        str, typer.Option("--confidence", help="The variant or column to scale; a probability.")
    ] = "verbalized",
    target: Target = "correctness",
    cluster: options.Cluster = None,
    map_: options.Map = None,
    where: options.Where = None,
    task_file: options.TaskFile = None,
    input_format: options.InputFormat = None,
    seed: options.Seed = 42,
    plot: Plot = None,
    format_: options.Format = "table",
) -> None:
    """Temperature scaling of one confidence: sigmoid(logit(p)/T). It changes no ranking, so neither AURC nor AUGRC."""
    options.check_format(format_)
    options.check_outputs({"--output": output}, [input_, task_file])
    records = options.run_of(
        input_, mode, cluster=cluster, map_=map_, where=where, task_file=task_file, input_format=input_format
    )
    files = _Files(output, plot, [input_, task_file])
    _fit(records, "temperature", files, format_, confidence=confidence, target=target, seed=seed)


@app.command()
def fit(
    input_: Input,
    output: Output,
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
    mode: Mode = None,
    target: Target = "correctness",
    cluster: options.Cluster = None,
    map_: options.Map = None,
    where: options.Where = None,
    task_file: options.TaskFile = None,
    input_format: options.InputFormat = None,
    seed: options.Seed = 42,
    plot: Plot = None,
    format_: options.Format = "table",
) -> None:
    """A supervised calibrator on one or more signals, judged in sample and five-fold cross-fitted."""
    options.check_format(format_)
    names = options.names([features or ""])
    options.check_outputs({"--output": output}, [input_, task_file])
    records = options.run_of(
        input_, mode, cluster=cluster, map_=map_, where=where, task_file=task_file, input_format=input_format
    )
    _fit(
        records,
        method,
        _Files(output, plot, [input_, task_file]),
        format_,
        features=names,
        confidence=confidence,
        fill=_numbers(fill),
        target=target,
        seed=seed,
    )


@dataclass(frozen=True)
class _Files:
    """Where a calibrator and its diagrams go, and what is read."""

    output: Path
    plot: Path | None
    read: list[str | Path | None]


def _fit(records: Any, method: str, files: _Files, format_: str, **how: Any) -> None:
    from steelyard.confidence.calibrators.wire import calibration_document
    from steelyard.report.calibration import calibrator_report
    from steelyard.study.calibrating import calibrate

    found = calibrate(records, method, **how)
    drawn: dict[Path, bytes] = {}
    if files.plot is not None:
        if not found.reliability:
            raise UsageError("a reliability diagram needs a target that is right or wrong, and two clusters")
        from steelyard.report.figures.calibration import fit_figures
        from steelyard.report.figures.drawing import drawn as draw_all

        drawn = options.pictures(draw_all(fit_figures(found)), files.plot)
        options.check_outputs({"--output": files.output, "--plot": drawn}, files.read)
    options.show(calibration_document(found.calibrator), calibrator_report(found.calibrator), format_, files.output)
    options.write(drawn)


def _numbers(texts: list[str] | None) -> dict[str, float]:
    found = {}
    for name, text in options.pairs(texts, "fill").items():
        try:
            found[name] = float(text)
        except ValueError:
            raise UsageError(f"--fill takes name=number, not '{printable(text)}'") from None
    return found
