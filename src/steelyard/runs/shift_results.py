"""`shift-training-result.json`: a learned shift as it is kept, found again, and chosen.

    <scope>/shifts/<workflow>/<training id>/shift-training-result.json

The best one has the highest score on held-out queries among those that are not cancelled and were shown to help; of
equal ones the newest. Files of other tools, which know no held-out score, are listed and never chosen.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from steelyard.errors import InputError, StorageError, UsageError, printable
from steelyard.runs.artifact import dumps
from steelyard.runs.layout import Scope, checked, folders, inside
from steelyard.runs.pascal import converted, read_strict
from steelyard.runs.run_json import digest_of, stamp
from steelyard.runs.store import write_folder

NAME = "shift-training-result.json"
REPORT = "shift-training-result.md"
_SUPPORTED = (None, "1")


class Stats(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    """What the learner saw."""

    pairs: int
    unique_pairs: int
    zero_directions: int
    clipped: bool
    norm_before_clip: float
    direction_norm_min: float
    direction_norm_mean: float
    direction_norm_max: float
    cancel_out_suspected: bool


class FoldResult(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    """One fold: its held-out queries without and with the shift that was learned from the others."""

    queries: int
    baseline: float
    shifted: float
    gain: float
    pairs: int
    cancelled: bool


class Gain(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    """A paired difference on held-out queries."""

    metric: str
    baseline: float | None
    shifted: float | None
    delta: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    verdict: str


class HeldOutResult(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    """What held-out queries say. `Score` is the gain in 0.7 · map@1 + 0.3 · ndcg@3."""

    score: float | None
    interval: tuple[float, float] | None
    level: float
    p_value: float | None
    helps: bool
    queries: int
    clusters: int
    seed: int
    folds: list[FoldResult]
    gains: list[Gain]
    note: str = ""


class EmbedderResult(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    """What made the vectors that the shift was learned from."""

    provider: str
    model: str
    dimension: int


class ShiftTrainingResult(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    """A training. The documented fields come first; those of another method that they name are 0 or as scored here."""

    workflow_name: str
    created_utc: str
    base_directory: str = ""
    comparison_runs: int = 0
    training_mode: str = "posneg-uniform"
    cancel_out_epsilon: float = 1e-3
    is_cancelled: bool = False
    cancel_reason: str | None = None
    delta_vector: list[float]
    delta_norm: float
    improvement_first: float = 0.0
    improvement_first_plus_delta: float = 0.0
    delta_improvement: float = 0.0
    schema_version: str | None = None
    training_id: str | None = None
    scale: float = 1.0
    options: dict[str, Any] = {}
    stats: Stats | None = None
    held_out: HeldOutResult | None = None
    in_sample: dict[str, float] = {}
    embedder: EmbedderResult | None = None
    inputs: list[dict[str, Any]] = []
    query_digests: list[str] = []
    notes: list[str] = []
    digest: str | None = None

    @property
    def usable(self) -> bool:
        """Whether it may be chosen: not cancelled, and shown to help on held-out queries."""
        return not self.is_cancelled and self.held_out is not None and self.held_out.helps

    @property
    def why_not(self) -> str:
        """Why it is not chosen, in words; nothing where it may be."""
        if self.is_cancelled:
            return "cancelled"
        if self.held_out is None:
            return "never judged on held-out queries"
        return "" if self.held_out.helps else "not shown to help on held-out queries"


@dataclass(frozen=True)
class Stored:
    """A training that was kept, and where."""

    id: str
    folder: Path
    result: ShiftTrainingResult


def training_document(result: ShiftTrainingResult) -> dict[str, Any]:
    """The document, with its own digest."""
    found = {key: value for key, value in msgspec.to_builtins(result).items() if key != "Digest"}
    return {**found, "Digest": digest_of(found)}


def read_training(path: str | Path) -> ShiftTrainingResult:
    """The training in a file, keys in any case; one that was written here must be as it was written."""
    document, _ = read_strict(path)
    found = converted(document, ShiftTrainingResult, str(path))
    if found.schema_version not in _SUPPORTED:
        raise InputError("this program reads version 1", file=str(path), field="SchemaVersion")
    if (found.schema_version is not None or found.digest is not None) and found.digest != digest_of(document):
        raise InputError("the file was changed after it was written", file=str(path), field="Digest")
    if not found.delta_vector:
        raise InputError("a list of numbers is expected", file=str(path), field="DeltaVector")
    return found


def query_digest(id: str) -> str:
    """What is kept of a query that a shift was learned from: enough to know it again."""
    return hashlib.sha256(id.casefold().encode()).hexdigest()[:16]


def new_id() -> tuple[str, str]:
    """An id that sorts by time, and the time itself."""
    now = datetime.now(UTC)
    return f"{now.strftime('%Y%m%d_%H%M%S')}_{now.microsecond // 1000:03d}_{secrets.token_hex(3)}", stamp(now)


def save_training(scope: Scope, id: str, result: ShiftTrainingResult, files: Mapping[str, bytes]) -> Path:
    """Write a training's folder, whole or not at all."""
    folder = inside(scope.root, trainings_folder(scope) / checked("workflow", result.workflow_name) / id)
    write_folder(folder, {NAME: dumps(training_document(result)).encode(), **files})
    return folder


def trainings_folder(scope: Scope) -> Path:
    return scope.folder / "shifts"


def trainings(scope: Scope, workflow: str | None = None) -> tuple[list[Stored], list[str]]:
    """The trainings of a scope, newest first; and what to say of folders that cannot be read."""
    found, said = [], []
    base = trainings_folder(scope)
    for name in folders(base) if workflow is None else [checked("workflow", workflow)]:
        for id in folders(base / name):
            folder = base / name / id
            try:
                found.append(Stored(id, folder, read_training(folder / NAME)))
            except InputError as problem:
                said.append(f"left out: {problem}")
    return sorted(found, key=lambda stored: (stored.result.created_utc, stored.id), reverse=True), said


def find_training(scope: Scope, text: str) -> Stored:
    """A training by its id, or by the beginning of it that no other has."""
    found, _ = trainings(scope)
    exact = [stored for stored in found if stored.id == text]
    alike = exact or [stored for stored in found if stored.id.startswith(text)]
    if len(alike) == 1:
        return alike[0]
    problem = "several trainings begin with" if alike else "there is no training"
    raise UsageError(f"{problem} '{printable(text, limit=60)}'; `steelyard shift history` lists them")


def best_training(
    found: Sequence[Stored], *, embedder: EmbedderResult | None = None
) -> tuple[Stored | None, list[tuple[Stored, str]]]:
    """The one to use, None if there is none; and for the others that might have been, why not."""
    left, rejected = [], []
    for stored in found:
        result = stored.result
        if embedder is not None and result.embedder not in (None, embedder):
            rejected.append((stored, "learned from vectors of another embedder"))
        elif not result.usable:
            rejected.append((stored, result.why_not))
        else:
            left.append(stored)
    chosen = max(left, key=lambda stored: (_score(stored), stored.result.created_utc, stored.id), default=None)
    return chosen, rejected


def _score(stored: Stored) -> float:
    held_out = stored.result.held_out
    if held_out is None or held_out.score is None:
        raise StorageError(f"training {printable(stored.id)} has no held-out score")
    return held_out.score
