"""`steelyard selective`: risk against coverage, of one run or of two on the same participants."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli import options
from steelyard.errors import UsageError, printable


def selective(
    input_: Annotated[
        list[str],
        typer.Option("--input", help="A run's JSON output, or a records file; a second one is compared with it."),
    ],
    mode: Annotated[
        list[str] | None,
        typer.Option("--mode", help="The mode (strategy) to take; once for all inputs, or one an input."),
    ] = None,
    confidence: Annotated[
        list[str] | None,
        typer.Option(
            "--confidence",
            help="What ranks: a variant such as llm or token_msp, default, all, or a column. Repeatable.",
        ),
    ] = None,
    loss: Annotated[
        str | None, typer.Option("--loss", help="abs, abs_norm or zero_one; default: abs for numbers.")
    ] = None,
    coverage_grid: Annotated[
        str | None, typer.Option("--coverage-grid", help="Coverages to read the risk at; default 0.1,0.2,…,0.9.")
    ] = None,
    area_coverage: Annotated[float, typer.Option("--area-coverage", help="Where the truncated areas end.")] = 0.5,
    calibration: Annotated[
        list[Path] | None,
        typer.Option("--calibration", help="A calibrator artifact, for calibrated variants. Repeatable."),
    ] = None,
    allow_in_sample: Annotated[
        bool, typer.Option("--allow-in-sample", help="Apply a calibrator even to rows that it was fitted on.")
    ] = False,
    allow_other_scale: Annotated[
        bool, typer.Option("--allow-other-scale", help="Apply a calibrator even to features of another size.")
    ] = False,
    intersection_only: Annotated[
        bool, typer.Option("--intersection-only", help="Two runs: compare the participants that both have.")
    ] = False,
    resamples: Annotated[
        int, typer.Option("--bootstrap-resamples", help="Bootstrap resamples of participants; 0 for no intervals.")
    ] = 10_000,
    seed: options.Seed = 42,
    stream: options.Stream = "counter",
    cluster: options.Cluster = None,
    map_: options.Map = None,
    where: options.Where = None,
    task_file: options.TaskFile = None,
    input_format: options.InputFormat = None,
    output: Annotated[Path | None, typer.Option("--output", help="The file to write the metrics artifact to.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="A folder to write selective.json to.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="A folder for the curves as PNG, SVG and PDF.")] = None,
    format_: options.Format = "table",
) -> None:
    """Say what declining buys: risk-coverage curves, their areas and intervals, for each confidence variant."""
    options.check_format(format_)
    if len(input_) > 2:
        raise UsageError("--input takes one run, or two to compare")
    if input_.count("-") > 1:
        raise UsageError("standard input can be read only once")
    if output is not None and out is not None:
        raise UsageError("--output names a file, --out a folder: give one of them")
    target = output or (out / "selective.json" if out else None)
    written, read = "--output" if output else "--out", [*input_, *(calibration or []), task_file]
    options.check_outputs({written: target}, read)
    settings = options.settings(resamples, seed, method="plain", stream=stream)
    modes = _per_input(mode, len(input_))
    grid = _grid(coverage_grid)
    from steelyard.confidence.calibrators.wire import read_calibrator
    from steelyard.metrics.evidence.kernels import GRID
    from steelyard.report.selective import selection_report
    from steelyard.study.selective import selective as run
    from steelyard.study.selective_wire import selective_document

    calibrators = [read_calibrator(path) for path in calibration or []]
    runs = [
        options.run_of(
            path,
            chosen,
            cluster=cluster,
            map_=map_,
            where=where,
            task_file=task_file,
            input_format=input_format,
        )
        for path, chosen in zip(input_, modes, strict=True)
    ]
    with options.progress("resampling") as progress:
        found = run(
            *runs,
            confidence=options.names(confidence or ["default"]),
            loss=loss,
            coverage=grid or GRID,
            area_coverage=area_coverage,
            calibrators=calibrators,
            allow_in_sample=allow_in_sample,
            allow_other_scale=allow_other_scale,
            intersection_only=intersection_only,
            settings=settings,
            progress=progress,
        )
    drawn: dict[Path, bytes] = {}
    if plot is not None:
        from steelyard.report.figures.drawing import drawn as draw_all
        from steelyard.report.figures.selective import selection_figures

        drawn = options.pictures(draw_all(selection_figures(found)), plot)
        options.check_outputs({written: target, "--plot": drawn}, read)
    options.show(selective_document(found), selection_report(found), format_, target)
    options.write(drawn)


def _per_input(modes: list[str] | None, inputs: int) -> list[str | None]:
    if not modes:
        return [None] * inputs
    if len(modes) == 1:
        return [modes[0]] * inputs
    if len(modes) != inputs:
        raise UsageError(f"--mode is given once for all inputs, or once an input; there are {len(modes)} for {inputs}")
    return list(modes)


def _grid(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--coverage-grid takes numbers such as 0.1,0.25,0.5, not '{printable(text)}'") from None
