"""Segmentations for people: what applying a shift to some queries only comes to."""

from __future__ import annotations

from steelyard.errors import counted
from steelyard.report.document import Document, Heading, MetricName, Note, Row, Table, Value, number
from steelyard.report.rows import difference, judged, level_name
from steelyard.retrieval.shifts.segments import SegmentComparison
from steelyard.retrieval.shifts.segments_wire import APPLY, METRICS, Segments, compared_remarks


def proposal_report(segments: Segments) -> Document:
    """How many queries get the shift, and by which rule."""
    apply = sum(decision == APPLY for decision in segments.decisions.values())
    tau = "" if segments.tau is None else f", tau {number(segments.tau)}"
    document: Document = [
        Note(f"rule {segments.rule}{tau}: apply the shift to {apply} of {counted(len(segments.decisions), 'query')}")
    ]
    return document + ([Note(f"note: {segments.note}")] if segments.note else [])


def compared_report(compared: SegmentComparison) -> Document:
    """The three means, then the paired differences between them."""
    document: Document = [
        Note(
            f"{counted(compared.used, 'effective query')}: "
            f"shift applied to {compared.apply}, skipped for {compared.skip}"
        )
    ]
    means: tuple[Row, ...] = tuple(
        (MetricName(metric), *(Value(side[metric]) for side in compared.values.values())) for metric in METRICS
    )
    document.append(Table(("metric", "baseline", "shifted", "segmented"), means))
    rows = [
        (
            title.replace("posneg", "shifted"),
            MetricName(d.metric),
            *difference(d.delta, d.interval),
            Value(d.p_value),
            Value(d.p_adjusted),
            judged(d.verdict),
        )
        for title, deltas in compared.deltas.items()
        for d in deltas
    ]
    document += [
        Heading("paired differences"),
        Table(("difference", "metric", "delta", level_name(compared.level), "p", "p adjusted", "verdict"), tuple(rows)),
    ]
    return document + [Note(f"note: {text}") for text in compared_remarks(compared)]
