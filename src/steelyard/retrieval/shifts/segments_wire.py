"""Segmentations on the wire: the segments file, which says for which queries a shift is applied and by which rule, and
the comparison of what that comes to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from steelyard.errors import InputError, counted, printable
from steelyard.ground.json import plain, read_strict
from steelyard.ground.structs import converted
from steelyard.uncertainty.wire import delta_document

if TYPE_CHECKING:
    from steelyard.retrieval.shifts.segments import SegmentComparison

Decision = Literal["ApplyShift", "SkipShift"]
METRICS = ("map@1", "ndcg@3")
APPLY: Decision = "ApplyShift"
SKIP: Decision = "SkipShift"
_SHOWN = 10  # ids that are named


class Segments(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    """Decisions by query id. The first five fields are documented; the others say how they came about."""

    metric: str
    eps: float = 0.0
    baseline_path: str
    pos_neg_path: str
    decisions: dict[str, Decision]
    rule: str | None = None
    tau: float | None = None
    folds: int | None = None
    seed: int | None = None
    note: str | None = None
    baseline_sha256: str | None = None
    pos_neg_sha256: str | None = None
    schema_version: str | None = None


def segments_document(segments: Segments) -> dict[str, Any]:
    """The file's content: documented fields always, the others where they are known."""
    fields: dict[str, Any] = msgspec.to_builtins(segments)
    documented = ("Metric", "Eps", "BaselinePath", "PosNegPath", "Decisions")
    return {key: value for key, value in fields.items() if key in documented or value is not None}


def read_segments(path: str | Path) -> Segments:
    """The decisions in a file; two ids that differ in capital letters only are an error."""
    document, _ = read_strict(path)
    segments = converted(document, Segments, str(path))
    if segments.metric.lower() not in METRICS:
        raise InputError(f"one of {', '.join(METRICS)} is expected", file=str(path), field="Metric")
    decided(segments, str(path))
    return segments


def decided(segments: Segments, name: str) -> dict[str, bool]:
    """True where the shift is applied, by the query's id in small letters; a duplicate id is an error."""
    decisions: dict[str, bool] = {}
    for id, decision in segments.decisions.items():
        if id.casefold() in decisions:
            raise InputError(
                f"the query '{printable(id)}' appears twice, capital letters aside", file=name, field="Decisions"
            )
        decisions[id.casefold()] = decision == APPLY
    return decisions


def sibling(segments_path: str | Path, path: str) -> Path:
    """A file that a segments file names: from here, else from the segments file's folder."""
    here = Path(path)
    there = Path(segments_path).parent / path
    return here if here.is_absolute() or here.exists() or not there.exists() else there


def compared_document(compared: SegmentComparison) -> dict[str, Any]:
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
            "notes": compared_remarks(compared),
        }
    )


def compared_remarks(compared: SegmentComparison) -> list[str]:
    """What must be said of a comparison: its notes, and which queries are left out or undecided."""
    remarks = list(compared.notes)
    for ids, where in ((compared.missing, "baseline"), (compared.extra, "shifted")):
        if ids:
            shown = ", ".join(printable(id, limit=40) for id in ids[:_SHOWN])
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            out = "stands in the {} file only and is" if len(ids) == 1 else "stand in the {} file only and are"
            remarks.append(f"{counted(len(ids), 'query')} {out.format(where)} left out: {shown}{more}")
    if compared.undecided:
        have, them = ("has", "it") if compared.undecided == 1 else ("have", "them")
        undecided = counted(compared.undecided, "query")
        remarks.append(f"{undecided} {have} no decision: the shift is skipped for {them}")
    if compared.unknown:
        about = "is about a query that is" if compared.unknown == 1 else "are about queries that are"
        remarks.append(f"{counted(compared.unknown, 'decision')} {about} not in both files")
    return remarks
