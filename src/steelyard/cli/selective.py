"""`steelyard selective`: risk against coverage, of one run or of two on the same participants."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.command import DOCUMENT, READS, Shown, command
from steelyard.cli.options import records as of
from steelyard.cli.options.spellings import one_of
from steelyard.cli.options.uncertainty import Resamples, Seed, Stream, settings
from steelyard.cli.progress import progress
from steelyard.errors import UsageError, printable
from steelyard.ground.commas import split_commas
from steelyard.naming import number_in


@command(writes="selective.json")
def selective(
    *,
    files: Annotated[
        list[str] | None,
        typer.Argument(help="A run's JSON output, or a records file; a second one is compared with it."),
        READS,
    ] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option("--input", help="The same as FILES. Repeatable."),
        READS,
    ] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option("--mode", help="The mode (strategy) to take; once for all inputs, or once per input."),
    ] = None,
    confidence: Annotated[
        list[str] | None,
        typer.Option(
            "--confidence",
            help="What ranks: a variant such as llm or token_msp, all, or a column. Default: llm, else the column "
            "confidence. Repeatable.",
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
        READS,
    ] = None,
    allow_in_sample: Annotated[
        bool, typer.Option("--allow-in-sample", help="Apply a calibrator even to rows that it was fitted on.")
    ] = False,
    allow_other_scale: Annotated[
        bool, typer.Option("--allow-other-scale", help="Apply a calibrator even to features of another size.")
    ] = False,
    intersection_only: Annotated[
        bool, typer.Option("--intersection-only", help="Two runs: the same as --align intersection.")
    ] = False,
    align: of.Align = "strict",
    resamples: Resamples = 10_000,
    bootstrap_resamples: Annotated[
        int | None, typer.Option("--bootstrap-resamples", help="The same as --resamples.")
    ] = None,
    seed: Seed = 42,
    stream: Stream = "counter",
    reading: of.Reading,
    output: Annotated[  # noqa: ARG001 - the artifact is written there
        Path | None, typer.Option("--output", help="The file to write the metrics artifact to."), DOCUMENT
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="A folder for the curves as PNG, SVG and PDF.")] = None,
) -> Shown:
    """Say what declining buys: risk-coverage curves, their areas and intervals, for each confidence variant."""
    paths = one_of(files, input_, named="a file", option_named="--input")
    if len(paths) > 2:
        raise UsageError("selective takes one run, or two to compare")
    if paths.count("-") > 1:
        raise UsageError("standard input can be read only once")
    how = settings(
        resamples if bootstrap_resamples is None else bootstrap_resamples, seed, method="plain", stream=stream
    )
    modes, grid = _per_input(mode, len(paths)), _grid(coverage_grid)
    from steelyard.confidence.calibrators.wire import read_calibrator
    from steelyard.metrics.evidence.kernels import GRID
    from steelyard.report.selective import selection_report
    from steelyard.study.comparison import checked_align
    from steelyard.study.selective import selective as selection_of
    from steelyard.study.selective_wire import selective_document

    aligned = checked_align(align)
    calibrators = [read_calibrator(path) for path in calibration or []]
    variants = None if confidence is None else of.names(confidence)
    columns = variants or ["default", "confidence"]
    runs = [reading.run(path, one, columns) for path, one in zip(paths, modes, strict=True)]
    of.say_unit_of(*runs)
    with progress("resampling") as bar:
        selection = selection_of(
            *runs,
            confidence=variants,
            loss=loss,
            coverage=grid or GRID,
            area_coverage=area_coverage,
            calibrators=calibrators,
            allow_in_sample=allow_in_sample,
            allow_other_scale=allow_other_scale,
            intersection_only=intersection_only or aligned == "intersection",
            settings=how,
            progress=bar,
        )
    pictures = {}
    if plot is not None:
        from steelyard.cli.options.pictures import picture_files
        from steelyard.report.figures.selective import selection_figures

        pictures["--plot"] = picture_files(selection_figures(selection), plot)
    return Shown(
        document=selective_document(selection),
        report=selection_report(selection),
        files=pictures,
        unwritten="the metrics artifact is written with --out FOLDER or --output FILE",
    )


def _per_input(modes: list[str] | None, inputs: int) -> list[str | None]:
    if not modes:
        return [None] * inputs
    if len(modes) == 1:
        return [modes[0]] * inputs
    if len(modes) != inputs:
        raise UsageError(f"--mode is given once for all inputs, or once per input; there are {len(modes)} for {inputs}")
    return list(modes)


def _grid(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [number_in(part) for part in split_commas(text)]
    except ValueError:
        raise UsageError(f"--coverage-grid takes numbers such as 0.1,0.25,0.5, not '{printable(text)}'") from None
