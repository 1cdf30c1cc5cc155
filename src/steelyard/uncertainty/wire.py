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
from steelyard.metrics.definition import Better, Metric
from steelyard.uncertainty.intervals import Interval
from steelyard.uncertainty.number import Caution, Delta, Estimate, Number, Outcome, Role

Ends = tuple[float | None, float | None] | None
N = TypeVar("N", bound=Number)


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
    better: Better | None
    unit: str
    note: str
    detail: Any = None
    clusters_scarcest: int | None = None
    cautions: list[Caution] = []
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
    better: Better | None
    verdict: Outcome
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
    cautions: list[Caution] = []
    unchanged: bool = False
    n_asked: int = 0
    n_missing: int = 0
    n_failed: int = 0
    role: Role = "primary"


class _FormDocument(msgspec.Struct):
    """Another form of a delta, among its companions."""

    base: float | None
    new: float | None
    delta: float | None
    se: float | None
    interval: Ends
    p_value: float | None
    n: int
    clusters: int
    clusters_scarcest: int | None
    method: str
    note: str


_FORM = _FormDocument.__struct_fields__


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


def read_estimate(document: Mapping[str, Any], of: Metric | None = None) -> Estimate:
    """The estimate that a document holds of a metric; what an earlier version did not write has its default.

    A ValueError, KeyError or TypeError says that the document holds none.
    """
    return _read(Estimate, msgspec.convert(dict(document), EstimateDocument), without=("n_evaluated", "variant"), of=of)


def read_delta(
    document: Mapping[str, Any], of: Metric | None = None, *, level: float, read_from: str = "delta"
) -> Delta:
    """The delta that a document holds, with its forms: their numbers, not their intervals at other levels.

    `level` and `read_from` are what the document says elsewhere: of all deltas, and of which form rules may read.
    """
    struct = msgspec.convert(dict(document), DeltaDocument)
    forms = {
        name: form for name, form in struct.companions.items() if isinstance(form, dict) and form.keys() >= {*_FORM}
    }
    return _read(
        Delta,
        struct,
        without=("delta",),
        value=struct.delta,
        level=level,
        read_from=read_from,
        forms={name: _read_form(form, struct, level) for name, form in forms.items()},
        of=of,
    )


def _read_form(document: Mapping[str, Any], of: DeltaDocument, level: float) -> Delta:
    """Another form of a delta, as the companions hold it."""
    form = msgspec.convert({name: document[name] for name in _FORM}, _FormDocument)
    return Delta(
        metric=of.metric,
        slice=of.slice,
        base=form.base,
        new=form.new,
        value=form.delta,
        se=form.se,
        interval=_interval(form.interval),
        level=level,
        p_value=form.p_value,
        better=of.better,
        n=form.n,
        n_base=min(form.n, of.n_base),  # its pairs, or those of its rows that count
        n_new=min(form.n, of.n_new),
        clusters=form.clusters,
        clusters_scarcest=form.clusters_scarcest,
        method=form.method,
        notes=(form.note,) if form.note else (),
    )


def _read(kind: type[N], struct: EstimateDocument | DeltaDocument, *, without: tuple[str, ...], **also: Any) -> N:
    known = {name: getattr(struct, name) for name in struct.__struct_fields__ if name not in (*without, "note")}
    known["interval"] = _interval(struct.interval)
    known["cautions"] = tuple(struct.cautions)
    return kind(**known, **also, notes=(struct.note,) if struct.note else ())


def _interval(ends: Ends) -> Interval | None:
    """The interval that two ends are; one that is null is unknown."""
    if ends is None:
        return None
    return (-math.inf if ends[0] is None else ends[0], math.inf if ends[1] is None else ends[1])


def _keys(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return kind.__struct_fields__
