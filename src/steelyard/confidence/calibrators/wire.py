"""Calibrator artifacts on disk: written as plain JSON, read back strictly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from steelyard.confidence.calibrators import Calibrator, Method, methods
from steelyard.confidence.calibrators.calibrator import DIGEST
from steelyard.errors import InputError, StorageError, UsageError, counted, printable
from steelyard.ground.digests import CHANGED, digest_of, is_sealed
from steelyard.ground.json import DIALECT, plain, refusal, strict
from steelyard.ground.structs import schema_parts

_QUOTING = {  # beginnings of messages that go on with what stands in the file
    "Invalid enum value": "one of the documented words is expected",
    "Object contains unknown field": "there is a field that is not known",
}


class Artifact(Calibrator, frozen=True):
    """A calibrator with the digest of everything else in it, by which a hand edit is noticed."""

    digest: str


def calibration_document(calibrator: Calibrator) -> dict[str, Any]:
    """The artifact as plain data."""
    document = plain(msgspec.to_builtins(calibrator))
    return {**document, "digest": digest_of(document)}


def calibrator_schema() -> dict[str, Any]:
    """The artifact's JSON Schema."""
    (shape,), parts = schema_parts(Artifact)
    return {"$schema": DIALECT, "title": "Calibrator", **shape, "$defs": parts}


def read_calibrator(path: Path) -> Calibrator:
    """A calibrator from its file; anything that is not one is an error that names the field."""
    try:
        raw = strict(path.read_bytes(), str(path))
    except OSError as problem:
        raise UsageError(f"cannot read {printable(path)}: {(problem.strerror or 'no reason given').lower()}") from None
    except (InputError, UnicodeDecodeError, RecursionError):
        raise StorageError(f"{printable(path)}: not valid JSON; a calibrator artifact is expected") from None
    if not isinstance(raw, dict) or raw.get("kind") != "calibrator":
        raise UsageError(f"{printable(path)}: not a calibrator artifact; make one with `steelyard calibrate`")
    future = refusal(raw)
    if future:
        raise StorageError(f"{printable(path)}: {future}")
    try:
        calibrator = msgspec.convert(raw, Calibrator)
        _check(calibrator)
        if not is_sealed(raw, raw.get("digest")):
            raise UsageError(f"{CHANGED}; fit it again")
    except msgspec.ValidationError as problem:
        raise StorageError(f"{printable(path)}: {_said(str(problem))}") from None
    except UsageError as problem:
        raise StorageError(f"{printable(path)}: {problem}") from None
    return calibrator


def _check(calibrator: Calibrator) -> None:
    """Refuse what does not fit the method, so that applying never fails half-way."""
    method, count = _method(calibrator.method), len(calibrator.features)
    if not count or (method.one_feature and count != 1):
        raise UsageError(f"{method.name} does not take {counted(count, 'feature')}")
    problem = method.problem(calibrator.parameters, count)
    if problem:
        raise UsageError(f"parameters of {method.name}: {problem}")
    where = calibrator.provenance
    if len(where.rows) != DIGEST * where.n or len(where.participants) != DIGEST * where.clusters:
        raise UsageError("provenance does not hold one digest a training row and a cluster")
    if any(not feature.scale > 0 for feature in calibrator.features):
        raise UsageError("a feature's scale is above 0")


def _method(name: str) -> Method:
    try:
        return methods[name]
    except UsageError:
        raise UsageError(f"method is one of {', '.join(methods)}") from None


def _said(problem: str) -> str:
    """What does not fit, and where, without what stands there."""
    _, at, place = problem.rpartition(" - at ")
    for beginning, instead in _QUOTING.items():
        if problem.startswith(beginning):
            return printable(instead + at + place if at else instead)
    return printable(problem)
