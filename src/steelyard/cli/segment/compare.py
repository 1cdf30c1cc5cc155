"""`steelyard segment compare`: baseline, shift everywhere, and shift by segments."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import READS, Shown, command
from steelyard.cli.options.store import Place
from steelyard.cli.options.uncertainty import Resampling


@command(writes="segment-comparison.json")
def compare(
    *,
    segments: Annotated[str, typer.Argument(help="A segments file."), READS],
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="A file or a run, instead of its BaselinePath."), READS
    ] = None,
    shifted: Annotated[
        str | None, typer.Option("--shifted", help="A file or a run, instead of its PosNegPath."), READS
    ] = None,
    uncertainty: Resampling,
    place: Place,
) -> Shown:
    """Compare baseline, shift everywhere, and shift by segments: means and paired differences."""
    from steelyard.report.segment import compared_report
    from steelyard.retrieval.elsewhere import per_query_file
    from steelyard.retrieval.per_query import read_per_query
    from steelyard.retrieval.shifts.segments import compared
    from steelyard.retrieval.shifts.segments_wire import compared_document, read_segments, sibling
    from steelyard.runs.saved import BASELINE, SHIFTED

    decisions = read_segments(segments)
    named = ((baseline, BASELINE, decisions.baseline_path), (shifted, SHIFTED, decisions.pos_neg_path))
    paths = [
        per_query_file(given, file, place.view) if given else sibling(segments, stated) for given, file, stated in named
    ]
    base, new = (read_per_query(path) for path in paths)
    comparison = compared(decisions, base, new, segments, settings=uncertainty.settings)
    return Shown(document=compared_document(comparison), report=compared_report(comparison), reads=tuple(paths))
