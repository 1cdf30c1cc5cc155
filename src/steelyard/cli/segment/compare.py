"""`steelyard segment compare`: baseline, shift everywhere, and shift by segments."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import READS, Shown, command
from steelyard.cli.options.uncertainty import Resampling


@command(writes="segment-comparison.json")
def compare(
    *,
    segments: Annotated[str, typer.Argument(help="A segments file."), READS],
    baseline: Annotated[str | None, typer.Option("--baseline", help="Instead of its BaselinePath."), READS] = None,
    shifted: Annotated[str | None, typer.Option("--shifted", help="Instead of its PosNegPath."), READS] = None,
    uncertainty: Resampling,
) -> Shown:
    """Compare baseline, shift everywhere, and shift by segments: means and paired differences."""
    from steelyard.report.segment import compared_report
    from steelyard.retrieval.per_query import read_per_query
    from steelyard.retrieval.shifts.segments import compared
    from steelyard.retrieval.shifts.segments_wire import compared_document, read_segments, sibling

    decisions = read_segments(segments)
    paths = [
        baseline or sibling(segments, decisions.baseline_path),
        shifted or sibling(segments, decisions.pos_neg_path),
    ]
    base, new = (read_per_query(path) for path in paths)
    comparison = compared(decisions, base, new, segments, settings=uncertainty.settings)
    return Shown(document=compared_document(comparison), report=compared_report(comparison), reads=tuple(paths))
