"""Segmentations for people and on the wire: what applying a shift to some queries only comes to."""

from __future__ import annotations

from typing import Any

from steelyard.errors import printable
from steelyard.ground.json import plain
from steelyard.report.document import Document, Heading, Note, Table, interval_text, number
from steelyard.retrieval.shifts.segments import Compared
from steelyard.retrieval.shifts.segments_wire import APPLY, METRICS, Segments
from steelyard.uncertainty.wire import delta_document

_RIGHT = frozenset({"baseline", "shifted", "segmented", "delta", "p", "p adjusted"})
_SHOWN = 10  # ids that are named


def proposal_report(segments: Segments) -> Document:
    """How many queries get the shift, and by which rule."""
    apply = sum(decision == APPLY for decision in segments.decisions.values())
    tau = "" if segments.tau is None else f", tau {number(segments.tau)}"
    document: Document = [
        Note(f"rule {segments.rule}{tau}: apply the shift to {apply} of {len(segments.decisions)} queries")
    ]
    return document + ([Note(f"note: {segments.note}")] if segments.note else [])


def compared_report(compared: Compared) -> Document:
    """The three means, then the paired differences between them."""
    document: Document = [
        Note(f"{compared.used} effective queries: shift applied to {compared.apply}, skipped for {compared.skip}")
    ]
    means = tuple((metric, *(number(side[metric]) for side in compared.values.values())) for metric in METRICS)
    document.append(Table(("metric", "baseline", "shifted", "segmented"), means, _RIGHT))
    level = f"{100 * compared.level:g}% interval"
    rows = [
        (
            title.replace("posneg", "shifted"),
            d.metric,
            number(d.delta, signed=True),
            interval_text(d.interval, signed=True),
            number(d.p_value),
            number(d.p_adjusted),
            d.verdict,
        )
        for title, deltas in compared.deltas.items()
        for d in deltas
    ]
    document += [
        Heading("paired differences"),
        Table(("difference", "metric", "delta", level, "p", "p adjusted", "verdict"), tuple(rows), _RIGHT),
    ]
    return document + [Note(f"note: {text}") for text in _remarks(compared)]


def compared_document(compared: Compared) -> dict[str, Any]:
    """What `segment compare` prints as JSON."""
    return plain(
        {
            "schema_version": "1",
            "kind": "segment-comparison",
            "used": compared.used,
            "missing": len(compared.missing),
            "missing_ids": list(compared.missing),
            "extra_ids": list(compared.extra),
            "undecided": compared.undecided,
            "unknown_decisions": compared.unknown,
            "apply": compared.apply,
            "skip": compared.skip,
            **compared.values,
            "deltas": {title: [delta_document(d) for d in deltas] for title, deltas in compared.deltas.items()},
            "notes": _remarks(compared),
        }
    )


def _remarks(compared: Compared) -> list[str]:
    found = list(compared.notes)
    for ids, where in ((compared.missing, "baseline"), (compared.extra, "shifted")):
        if ids:
            shown = ", ".join(printable(id, limit=40) for id in ids[:_SHOWN])
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            found.append(f"{len(ids)} queries stand in the {where} file only and are left out: {shown}{more}")
    if compared.undecided:
        found.append(f"{compared.undecided} queries have no decision: the shift is skipped for them")
    if compared.unknown:
        found.append(f"{compared.unknown} decisions are about queries that are not in both files")
    return found
