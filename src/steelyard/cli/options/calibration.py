"""Options of commands that fit a calibrator, and what they show of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli.command import DOCUMENT, READS, Shown
from steelyard.cli.options.records import say_unit_of
from steelyard.errors import UsageError

File = Annotated[str | None, typer.Argument(help="The training run: a run's JSON output, or a records file."), READS]
Input = Annotated[str | None, typer.Option("--input", help="The same as FILE."), READS]
Mode = Annotated[str | None, typer.Option("--mode", help="The mode (strategy) to take.")]
Output = Annotated[Path | None, typer.Option("--output", help="The file to write the calibrator to."), DOCUMENT]
Target = Annotated[
    str,
    typer.Option("--target", help="correctness, near_correct (off by at most 1) or loss (1 − |error|/range)."),
]
Plot = Annotated[Path | None, typer.Option("--plot", help="A folder for reliability diagrams as PNG, SVG and PDF.")]


def fitted(records: Any, method: str, plot: Path | None, **how: Any) -> Shown:
    """The calibrator that is fitted, its judgement, and its diagrams where they are asked for."""
    from steelyard.confidence.calibrators.wire import calibration_document
    from steelyard.report.calibration import calibrator_report
    from steelyard.study.calibrating import calibrate

    say_unit_of(records)
    calibration = calibrate(records, method, **how)
    files = {}
    if plot is not None:
        if not calibration.reliability:
            raise UsageError("a reliability diagram needs a target that is right or wrong, and two clusters")
        from steelyard.cli.options.pictures import picture_files
        from steelyard.report.figures.calibration import fit_figures

        files["--plot"] = picture_files(fit_figures(calibration), plot)
    calibrator = calibration.calibrator
    return Shown(
        document=calibration_document(calibrator),
        report=calibrator_report(calibrator),
        files=files,
        unwritten="the calibrator is written with --out FOLDER or --output FILE",
    )
