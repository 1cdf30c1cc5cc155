"""Which shift is meant: a name, a training that was kept, or a file; and what to say of it.

none                                   no shift
best, best:WORKFLOW                    the best training on held-out queries
<training id>                          a training that was kept
<name>-training_<time>                 a training that another tool made, in a results tree
shift-training-result.json             a training's file
shift.json                             {"kind": "additive", "vector": [...], "scale": 1.0}, or the list alone
[additive:|multiplicative:]delta.npy   a vector alone, additive unless said otherwise
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from steelyard.errors import InputError, UsageError, printable
from steelyard.ground.json import read_strict
from steelyard.ground.structs import converted
from steelyard.retrieval.shifts.kept import (
    EmbedderResult,
    ShiftTrainingResult,
    StoredTraining,
    best_training,
    find_training,
    read_training,
    trainings,
)
from steelyard.retrieval.shifts.shift import Shift, shift_of, shifts
from steelyard.runs.layout import Scope, View
from steelyard.texts.vectors import read_row

_OTHER_NAMES = ("deltavector", "delta", "value")


class ShiftFile(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    """A shift written by hand. Keys in any case."""

    kind: str = "additive"
    vector: list[float] | None = None
    scale: float = 1.0


@dataclass(frozen=True)
class NamedShift:
    """A shift, its name for people, and what must be said of it."""

    shift: Shift
    name: str
    training: ShiftTrainingResult | None = None
    notes: tuple[str, ...] = field(default=())


def named_shift(
    text: str,
    *,
    scope: Scope | None = None,
    view: View | None = None,
    embedder: EmbedderResult | None = None,
    scale: float | None = None,
    allow_cancelled: bool = False,
) -> NamedShift:
    """The shift that a text means. A cancelled one is refused unless it is asked for by name.

    `scope` is where trainings are kept, `view` where those of other tools are looked for.
    """
    if text == "none":
        if scale is not None:
            raise UsageError("the shift 'none' has no scale")
        return NamedShift(shift_of("none"), "none")
    kind, _, rest = text.partition(":")
    if kind == "best":
        return _of_stored(_best(scope, rest or None, embedder), scale, embedder, allow_cancelled=False)
    stated = kind if rest and kind in shifts else None
    path = Path(rest if stated else text)
    if path.suffix.lower() in (".npy", ".npz"):
        return NamedShift(shift_of(stated or "additive", read_row(path), scale=_or_one(scale)), path.name)
    if path.suffix.lower() == ".json" or (text and path.is_file()):
        if stated:
            raise UsageError(f"'{stated}:' goes before a NumPy file; a .json file states its kind itself")
        return _of_file(path, scale, embedder, allow_cancelled=allow_cancelled)
    if scope is None or not text:
        raise UsageError(f"'{printable(text, limit=60)}' is no file; a shift is none or a .json, .npy or .npz file")
    return _of_stored(find_training(scope, text, view), scale, embedder, allow_cancelled=allow_cancelled)


def _or_one(scale: float | None) -> float:
    return 1.0 if scale is None else scale


def _best(scope: Scope | None, workflow: str | None, embedder: EmbedderResult | None) -> StoredTraining:
    if scope is None:
        raise UsageError("'best' is looked up among kept trainings; name a file here")
    entries, said = trainings(scope, workflow)
    best, rejected = best_training(entries, embedder=embedder)
    if best is not None:
        return best
    whose = f"tenant {scope.tenant}" if scope.tenant else "the scope without a tenant"
    where = f"workflow {printable(workflow)} of {whose}" if workflow else whose
    if not rejected and not said:
        raise UsageError(f"{where} has no training yet; `steelyard shift train` makes one")
    counts: dict[str, int] = {}
    for _, reason in rejected:
        counts[reason] = counts.get(reason, 0) + 1
    shown = [f"{n} {reason}" for reason, n in counts.items()] + ([f"{len(said)} damaged"] if said else [])
    raise UsageError(
        f"no training of {where} can be chosen as best: {', '.join(shown)}; use `shift=none`, or name one by its id"
    )


def _of_stored(
    stored: StoredTraining, scale: float | None, embedder: EmbedderResult | None, *, allow_cancelled: bool
) -> NamedShift:
    return _of_training(stored.result, stored.id, scale, embedder, allow_cancelled=allow_cancelled)


def _of_file(path: Path, scale: float | None, embedder: EmbedderResult | None, *, allow_cancelled: bool) -> NamedShift:
    document, _ = read_strict(path)
    names = {key.lower() for key in document} if isinstance(document, dict) else set()
    if {"deltavector", "workflowname"} <= names:
        return _of_training(read_training(path), path.name, scale, embedder, allow_cancelled=allow_cancelled)
    if isinstance(document, list):
        document = {"Vector": document}
    elif isinstance(document, dict) and "vector" not in names:  # what others call it
        document = {("Vector" if key.lower() in _OTHER_NAMES else key): value for key, value in document.items()}
    shift_file = converted(document, ShiftFile, str(path))
    if shift_file.kind not in shifts:
        raise InputError(f"one of {', '.join(shifts)} is expected", file=str(path), field="Kind")
    try:
        return NamedShift(
            shift_of(shift_file.kind, shift_file.vector, scale=shift_file.scale if scale is None else scale), path.name
        )
    except InputError as problem:
        raise InputError(problem.problem, file=str(path), field="Vector") from None
    except UsageError as problem:
        raise InputError(str(problem), file=str(path)) from None


def _of_training(
    training: ShiftTrainingResult,
    name: str,
    scale: float | None,
    embedder: EmbedderResult | None,
    *,
    allow_cancelled: bool,
) -> NamedShift:
    if training.is_cancelled and not allow_cancelled:
        raise UsageError(
            f"the shift {printable(name)} was cancelled when it was trained; "
            "`allow_cancelled=True` applies it all the same"
        )
    notes = [f"the shift {printable(name)} is {training.why_not}"] if training.why_not else []
    if training.embedder is not None and training.embedder.differs(embedder):
        notes.append(f"the shift {printable(name)} was learned from vectors of another embedder")
    elif training.embedder is not None and (
        embedder is None or "given" in (embedder.provider, training.embedder.provider)
    ):
        notes.append(f"whether the shift {printable(name)} was learned from vectors of this kind is not known")
    shift = shift_of("additive", training.delta_vector, scale=training.scale if scale is None else scale)
    return NamedShift(shift, name, training, tuple(notes))
