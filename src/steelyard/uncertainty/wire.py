"""Estimates and deltas as documents hold them: written, read and described here, key by key.

The keys and their order are those of the structs below; the classes in `number` are free to change. Numbers that are
not finite are null, and an end of an interval that is null is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from steelyard.ground.json import plain
from steelyard.uncertainty.number import Delta, Estimate, Number

Ends = tuple[float | None, float | None] | None
N = TypeVar("N", bound=Number)
_FORM = ("base", "new", "delta", "se", "interval", "p_value", "n", "clusters", "clusters_scarcest", "method", "note")


class EstimateDocument(msgspec.Struct):
    """One estimate of `evaluation.json`."""

    metric: str
    slice: dict[str, Any]
    value: float | None
    se: float | None
    interval: Ends
    level: float
    method: str
    n: int
    clusters: int
    excluded: dict[str, int]
    undefined_resamples: int
    better: str | None
    unit: str
    note: str
    detail: Any = None
    clusters_scarcest: int | None = None
    cautions: list[str] = []
    n_abstained: int | None = None
    n_predictions: int | None = None
    n_missing: int | None = None
    n_evaluated: int | None = None
    variant: str | None = None


class DeltaDocument(msgspec.Struct):
    """One delta of `comparison.json`."""

    metric: str
    slice: dict[str, Any]
    base: float | None
    new: float | None
    delta: float | None
    se: float | None
    interval: Ends
    p_value: float | None
    p_adjusted: float | None
    better: str | None
    verdict: str
    verdict_from: str
    n: int
    n_base: int
    n_new: int
    clusters: int
    method: str
    undefined_resamples: int
    note: str
    companions: dict[str, Any]
    clusters_scarcest: int | None = None
    cautions: list[str] = []
    unchanged: bool = False
    n_asked: int = 0
    n_missing: int = 0
    n_failed: int = 0


def estimate_document(estimate: Estimate) -> dict[str, Any]:
    """An estimate as plain data."""
    derived = {"variant": estimate.shown_method}
    return plain({name: derived.get(name, getattr(estimate, name, None)) for name in _keys(EstimateDocument)})


def delta_document(delta: Delta) -> dict[str, Any]:
    """A delta as plain data, with its companions."""
    return plain({name: getattr(delta, name) for name in _keys(DeltaDocument)})


def form_document(delta: Delta) -> dict[str, Any]:
    """Another form of a delta, as it stands among the companions."""
    return {name: getattr(delta, name) for name in _FORM}


def read_estimate(document: Mapping[str, Any]) -> Estimate:
    """The estimate that a document holds; what an earlier version did not write has its default.

    A ValueError, KeyError or TypeError says that the document holds none.
    """
    return _read(Estimate, msgspec.convert(dict(document), EstimateDocument), without=("n_evaluated", "variant"))


def read_delta(document: Mapping[str, Any]) -> Delta:
    """The delta that a document holds: its numbers, not its interval at other levels."""
    struct = msgspec.convert(dict(document), DeltaDocument)
    return _read(Delta, struct, without=("delta",), value=struct.delta)


def _read(kind: type[N], struct: EstimateDocument | DeltaDocument, *, without: tuple[str, ...], **also: Any) -> N:
    known = {name: getattr(struct, name) for name in struct.__struct_fields__ if name not in (*without, "note")}
    ends = struct.interval
    known["interval"] = None if ends is None else (_end(ends[0], -math.inf), _end(ends[1], math.inf))
    known["cautions"] = tuple(struct.cautions)
    return kind(**known, **also, notes=(struct.note,) if struct.note else ())


def _end(value: float | None, unknown: float) -> float:
    return unknown if value is None else value


def _keys(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return kind.__struct_fields__
