"""`shift-training-result.json`: a learned shift as it is kept, found again, and chosen.

    <scope>/shifts/<workflow>/<training id>/shift-training-result.json
    <scope>/<name>-training_<time>/shift-training-result.json            left there by another tool

The best one has the highest score on held-out queries among those that are not cancelled and were shown to help; of
equal ones the newest. Trainings of other tools are listed and never chosen.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from steelyard.errors import InputError, StorageError, UsageError, printable
from steelyard.ground.digests import CHANGED, digest_of, is_sealed
from steelyard.ground.files import read_plain, write_folder
from steelyard.ground.json import LARGEST, dumps, read_strict, strict
from steelyard.ground.structs import converted
from steelyard.runs.elsewhere import other_folders
from steelyard.runs.layout import Scope, View, access, checked, folders, inside
from steelyard.runs.run_json import stamp

NAME = "shift-training-result.json"
REPORT = "shift-training-result.md"


class TrainingStats(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    """What the learner saw. `stats.pairs` and `stats["pairs"]` are the same."""

    pairs: int
    unique_pairs: int
    zero_directions: int
    clipped: bool
    norm_before_clip: float
    direction_norm_min: float
    direction_norm_mean: float
    direction_norm_max: float
    cancel_out_suspected: bool

    def __getitem__(self, name: str) -> Any:
        return msgspec.structs.asdict(self)[name]


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
    note: str = ""


class HeldOutResult(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    """What held-out queries say. `Score` is the gain in 0.7 · map@1 + 0.3 · ndcg@3."""

    score: float | None
    baseline: float | None = None
    shifted: float | None = None
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

    def differs(self, other: EmbedderResult | None) -> bool:
        """True if the vectors are surely of another kind; of vectors that were given, only the dimension is known."""
        if other is None:
            return False
        if "given" in (self.provider, other.provider):
            return self.dimension != other.dimension
        return self != other


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
    improvement_first: float | None = 0.0
    improvement_first_plus_delta: float | None = 0.0
    delta_improvement: float | None = 0.0
    schema_version: str | None = None
    training_id: str | None = None
    scale: float = 1.0
    options: dict[str, Any] = {}
    stats: TrainingStats | None = None
    held_out: HeldOutResult | None = None
    in_sample: dict[str, float] = {}
    embedder: EmbedderResult | None = None
    inputs: list[dict[str, Any]] = []
    query_digests: list[str] = []
    notes: list[str] = []
    digest: str | None = None

    @property
    def usable(self) -> bool:
        """True if it may be chosen: not cancelled, and shown to help on held-out queries."""
        return not self.why_not

    @property
    def why_not(self) -> str:
        """Why it is not chosen, in words; nothing where it may be."""
        if self.is_cancelled:
            return "cancelled"
        if self.held_out is None or self.held_out.score is None:
            return "never judged on held-out queries"
        return "" if self.held_out.helps else "not shown to help on held-out queries"


@dataclass(frozen=True)
class StoredTraining:
    """A training that was kept, and where; or one that another tool made, which is known by its folder's name."""

    id: str
    folder: Path
    result: ShiftTrainingResult
    elsewhere: bool = False

    @property
    def why_not(self) -> str:
        """Why it is not chosen as best, in words; nothing where it may be."""
        if not self.elsewhere:
            return self.result.why_not
        return f"made elsewhere, {self.result.why_not}" if self.result.why_not else "made elsewhere"


def training_document(result: ShiftTrainingResult) -> dict[str, Any]:
    """The document, with its own digest."""
    document = {key: value for key, value in msgspec.to_builtins(result).items() if key != "Digest"}
    return {**document, "Digest": digest_of(document)}


def read_training(path: str | Path) -> ShiftTrainingResult:
    """The training in a file, keys in any case; one that was written here must be as it was written."""
    document, _ = read_strict(path)
    return _checked(document, str(path))


def _checked(document: Any, name: str) -> ShiftTrainingResult:
    training = converted(document, ShiftTrainingResult, name)
    ours = training.schema_version is not None or training.digest is not None or training.held_out is not None
    if ours and not is_sealed(document, training.digest):  # what is claimed of held-out queries rests on it
        raise InputError(f"the file {CHANGED}", file=name, field="Digest")
    if not training.delta_vector:
        raise InputError("a list of numbers is expected", file=name, field="DeltaVector")
    return training


def new_id() -> tuple[str, str]:
    """An id that sorts by time, and the time itself."""
    now = datetime.now(UTC)
    return f"{now.strftime('%Y%m%d_%H%M%S')}_{now.microsecond // 1000:03d}_{secrets.token_hex(3)}", stamp(now)


def free_training(scope: Scope, workflow: str, id: str) -> Path:
    """Where a training would be kept; an error where its names are not plain or it is there already."""
    folder = trainings_folder(scope) / checked("workflow", workflow) / checked("training id", id)
    if inside(scope.root, folder).exists():
        raise StorageError(f"{printable(folder)} is there already; a training is never written over")
    return folder


def save_training(scope: Scope, id: str, result: ShiftTrainingResult, files: Mapping[str, bytes]) -> Path:
    """Write a training's folder, whole or not at all."""
    folder = free_training(scope, result.workflow_name, id)
    named = msgspec.structs.replace(result, training_id=id)
    write_folder(folder, {NAME: dumps(training_document(named)).encode(), **files}, access(scope.root))
    return folder


def trainings_folder(scope: Scope) -> Path:
    return scope.folder / "shifts"


def trainings(
    scope: Scope, workflow: str | None = None, view: View | None = None
) -> tuple[list[StoredTraining], list[str]]:
    """The trainings of a scope, newest first; and what to say of folders that cannot be read.

    Those that other tools made are listed too: of all that `view` shows, by default of the scope.
    """
    entries, said = [], []
    base = trainings_folder(scope)
    for name in folders(base) if workflow is None else [checked("workflow", workflow)]:
        for id in folders(base / name):
            folder = base / name / id
            try:
                entries.append(StoredTraining(id, folder, _kept(folder, name, id)))
            except (InputError, StorageError) as problem:
                said.append(f"left out: {name}/{id}: {getattr(problem, 'problem', problem)}")
    for other in other_folders([scope] if view is None else view.scopes(), "training"):
        try:
            training = _read(other.folder)
        except (InputError, StorageError) as problem:
            said.append(f"left out: {other.name}: {getattr(problem, 'problem', problem)}")
            continue
        if workflow in (None, training.workflow_name):
            entries.append(StoredTraining(other.name, other.folder, training, elsewhere=True))
    return sorted(entries, key=lambda stored: (stored.result.created_utc, stored.id), reverse=True), said


def _kept(folder: Path, workflow: str, id: str) -> ShiftTrainingResult:
    """The training in a folder of the store, if it is no copy of one that was kept elsewhere."""
    training = _read(folder)
    if training.digest is not None and (training.workflow_name, training.training_id) != (workflow, id):
        raise InputError("the training was kept under another name", file=NAME, field="TrainingId")
    return training


def _read(folder: Path) -> ShiftTrainingResult:
    """The training in a folder: a plain file, no link."""
    try:
        raw = read_plain(folder / NAME, LARGEST)
    except OSError as problem:
        reason = (problem.strerror or type(problem).__name__).lower()
        raise StorageError(f"{NAME} cannot be read ({reason})") from None
    return _checked(strict(raw, NAME), NAME)


def find_training(scope: Scope, text: str, view: View | None = None) -> StoredTraining:
    """A training by its id, or by the beginning of it that no other has."""
    entries, said = trainings(scope, view=view)
    exact = [stored for stored in entries if stored.id == text]
    alike = exact or [stored for stored in entries if text and stored.id.startswith(text)]
    if len(alike) == 1:
        return alike[0]
    damaged = [line for line in said if f"/{text}:" in line or line.startswith(f"left out: {text}:")]
    if damaged:
        raise StorageError(damaged[0])
    problem = "several trainings begin with" if alike else "there is no training"
    raise UsageError(f"{problem} '{printable(text, limit=60)}'; `steelyard shift history` lists them")


def best_training(
    candidates: Sequence[StoredTraining], *, embedder: EmbedderResult | None = None
) -> tuple[StoredTraining | None, list[tuple[StoredTraining, str]]]:
    """The one to use, None if there is none; and for the others that might have been, why not."""
    left, rejected = [], []
    for stored in candidates:
        result = stored.result
        if result.embedder is not None and result.embedder.differs(embedder):
            rejected.append((stored, "learned from vectors of another embedder"))
        elif stored.why_not:
            rejected.append((stored, stored.why_not))
        else:
            left.append(stored)
    return max(left, key=_order, default=None), rejected


def _order(stored: StoredTraining) -> tuple[float, str, str]:
    """By held-out score, then by age."""
    held_out = stored.result.held_out
    score = held_out.score if held_out is not None else None
    return (-math.inf if score is None else score), stored.result.created_utc, stored.id


def same_queries(entries: Sequence[StoredTraining]) -> bool:
    """True if these trainings were judged on the same queries, so that their scores can be compared."""
    return len({tuple(stored.result.query_digests) for stored in entries}) <= 1


def history_document(stored: Sequence[StoredTraining], best: str | None, problems: Sequence[str]) -> dict[str, Any]:
    """What `shift history` prints for programs."""
    return {"trainings": [_entry(training) for training in stored], "best": best, "problems": list(problems)}


def best_document(
    best: StoredTraining | None, rejected: Sequence[tuple[StoredTraining, str]], problems: Sequence[str]
) -> dict[str, Any]:
    """What `shift best` prints for programs."""
    return {
        "best": None if best is None else _entry(best),
        "rejected": [{"training": stored.id, "reason": reason} for stored, reason in rejected],
        "problems": list(problems),
    }


def _entry(stored: StoredTraining) -> dict[str, Any]:
    result = stored.result
    held_out = result.held_out
    return {
        "training": stored.id,
        "workflow": result.workflow_name,
        "created": result.created_utc,
        "held_out_score": None if held_out is None else held_out.score,
        "interval": None if held_out is None or held_out.interval is None else list(held_out.interval),
        "norm": result.delta_norm,
        "cancelled": result.is_cancelled,
        "usable": not stored.why_not,
        "why_not": stored.why_not,
        "elsewhere": stored.elsewhere,
        "folder": str(stored.folder),
    }
