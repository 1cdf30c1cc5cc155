"""The segments file: for which queries a shift is applied, and by which rule that was decided."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from steelyard.errors import InputError, printable
from steelyard.ground.json import read_strict
from steelyard.ground.structs import converted

Decision = Literal["ApplyShift", "SkipShift"]
METRICS = ("map@1", "ndcg@3")
APPLY: Decision = "ApplyShift"
SKIP: Decision = "SkipShift"


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
    found: dict[str, Any] = msgspec.to_builtins(segments)
    documented = ("Metric", "Eps", "BaselinePath", "PosNegPath", "Decisions")
    return {key: value for key, value in found.items() if key in documented or value is not None}


def read_segments(path: str | Path) -> Segments:
    """The decisions in a file; two ids that differ in capital letters only are an error."""
    document, _ = read_strict(path)
    found = converted(document, Segments, str(path))
    if found.metric.lower() not in METRICS:
        raise InputError(f"one of {', '.join(METRICS)} is expected", file=str(path), field="Metric")
    decided(found, str(path))
    return found


def decided(segments: Segments, name: str) -> dict[str, bool]:
    """Whether the shift is applied, by the id in small letters."""
    found: dict[str, bool] = {}
    for id, decision in segments.decisions.items():
        if id.casefold() in found:
            raise InputError(
                f"the query '{printable(id)}' stands twice, capital letters aside", file=name, field="Decisions"
            )
        found[id.casefold()] = decision == APPLY
    return found


def beside(segments_path: str | Path, path: str) -> Path:
    """A file that a segments file names: from here, else from the segments file's folder."""
    here = Path(path)
    there = Path(segments_path).parent / path
    return here if here.is_absolute() or here.exists() or not there.exists() else there
