"""A fitted calibrator as plain data: what it reads, its parameters, where its training rows came from.

It knows whether rows are its own training rows, or features on another scale than in training; whoever applies it
asks, because in sample every calibrator looks good.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from steelyard.confidence import signals
from steelyard.confidence.calibrators.contract import methods
from steelyard.errors import InputError, printable
from steelyard.ground.arrays import Floats
from steelyard.records.derive import ANSWERED
from steelyard.records.schema import kind_of
from steelyard.records.table import Records

Target = Literal["correctness", "near_correct", "loss"]
TARGETS: tuple[Target, ...] = get_args(Target)
DIGEST = 8  # bytes kept of each training row's digest
_NEAR_CONSTANT = 1e-12
_FILL = "; `fill=`, when it is fitted, says what a missing value counts as"
_ENOUGH = 10  # values from which another scale is told from chance
_SOME, _TIMES = 0.1, 20


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where one input of a calibrator is read. `fill` stands in for null; without one, a missing value is an error."""

    name: str
    source: Literal["signal", "variant", "column"]
    fill: float | None

    @property
    def columns(self) -> list[str]:
        return signals.columns_of(self.name) if self.source == "variant" else [self._column]

    @property
    def _column(self) -> str:
        return f"signal.{self.name}" if self.source == "signal" else self.name

    def values(self, records: Records) -> Floats:
        """The input of every answered row."""
        if self.source == "variant":
            return signals.uncalibrated(records, self.name)
        if self._column not in records:
            have = ", ".join(printable(c.removeprefix("signal.")) for c in records.stated if c.startswith("signal."))
            raise InputError(
                f"the calibrator reads {printable(self._column)}, which is not there; signals here: {have or 'none'}",
                file=records.name,
            )
        if self.name == "verbalized_confidence":
            signals.check_verbalized(records)
        return signals.column(records, self._column, needed_by="the calibrator", fill=self.fill, hint=_FILL)


class Feature(Input, frozen=True, forbid_unknown_fields=True):
    """An input, how it is standardised, and which values training saw."""

    mean: float
    scale: float
    low: float
    high: float
    typical: float  # median size of the values that were not filled in
    integral: bool

    def off_scale(self, values: Floats) -> str:
        """Why values cannot be on the scale that was trained on, or nothing. One odd value is no other scale."""
        seen = values[~np.isnan(values)]
        if self.fill is not None:
            seen = seen[seen != self.fill]
        if not len(seen):
            return ""
        width = self.high - self.low
        away = np.maximum(self.low - seen, seen - self.high)  # beyond what training saw
        several = len(seen) >= _ENOUGH
        if self.integral and (np.abs(seen - np.round(seen)) > 1e-6).mean() > _SOME:
            return "fractions, where training saw whole numbers"
        if width > 0 and ((several and (away > width / 4).mean() > 0.5) or (away > width).all()):
            return "values beyond those of the training"
        size = float(np.median(np.abs(seen)))
        if several and min(size, self.typical) > 0 and max(size / self.typical, self.typical / size) > _TIMES:
            return f"values {_TIMES} times larger or smaller than in the training"
        return ""


class Provenance(msgspec.Struct, frozen=True):
    """Where a calibrator's training rows came from, and digests by which they are recognised."""

    inputs: list[dict[str, Any]]
    mode: str | None
    n: int
    clusters: int
    rows: bytes
    participants: bytes


class Scores(msgspec.Struct, frozen=True):
    """How good the calibrated confidences are: before calibration, on the training rows, and cross-fitted."""

    before: dict[str, float | None] | None
    in_sample: dict[str, float | None]
    cross_fitted: dict[str, float | None] | None
    folds: int
    note: str = ""


class Calibrator(msgspec.Struct, frozen=True):
    """A fitted calibrator: all that is needed to apply it, and to judge it."""

    schema_version: Literal["1"]
    kind: Literal["calibrator"]
    method: str
    target: Target
    features: list[Feature]
    parameters: dict[str, float | list[float]]
    provenance: Provenance
    metrics: Scores

    @property
    def name(self) -> str:
        return f"{self.method} on {', '.join(f.name for f in self.features)}"

    def confidence(self, records: Records) -> Floats:
        """The calibrated confidence of every answered row, NaN elsewhere."""
        confidences = np.full(len(records), np.nan)
        answered = records.outcome == ANSWERED
        raw = np.column_stack([feature.values(records)[answered] for feature in self.features])
        confidences[answered] = applied(self.method, self.features, self.parameters, raw)
        return confidences

    def check_scale(self, records: Records) -> None:
        """Refuse features on another scale than the one trained on: the curve would collapse without a word."""
        for feature in self.features:
            reason = feature.off_scale(feature.values(records))
            if reason:
                raise InputError(
                    f"the calibrator was trained on another scale; here are {reason}. Bring both to one scale, "
                    "fit a calibrator on data like these, or say `allow_other_scale=True`",
                    file=records.name,
                    field=feature.name,
                )

    def seen_rows(self, records: Records) -> int:
        """How many of these rows the calibrator was fitted on."""
        return _common(self.provenance.rows, row_digests(records, self.features))

    def seen_participants(self, records: Records) -> int:
        """How many of these clusters were among the training rows, whatever they answered then."""
        return _common(self.provenance.participants, cluster_digests(records))


def applied(
    method: str, features: Sequence[Feature], parameters: dict[str, float | list[float]], raw: Floats
) -> Floats:
    """Calibrated confidences from rows × raw features."""
    chosen_ = methods[method]
    values = standardised(features, raw) if chosen_.scaled else raw
    return chosen_.apply(parameters, values)


def standardised(features: Sequence[Feature], raw: Floats) -> Floats:
    """(x − mean)/scale, as in training."""
    return (raw - np.array([f.mean for f in features])) / np.array([f.scale for f in features])


def described(input_: Input, values: Floats) -> Feature:
    """An input as the training rows have it. A near-constant column is centred and left unscaled."""
    name, fill = input_.name, input_.fill
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std = float(values.mean()), float(values.std())
    if not np.isfinite(mean) or not np.isfinite(std):
        raise InputError("holds numbers too large to be standardised", field=name)
    flat = std <= _NEAR_CONSTANT * max(1.0, abs(mean))
    given = values[values != fill] if fill is not None and (values != fill).any() else values
    low, high = float(given.min()), float(given.max())
    integral = bool((given == np.round(given)).all()) and high - low > 1
    typical = float(np.median(np.abs(given)))
    return Feature(name, input_.source, fill, mean, 1.0 if flat else std, low, high, typical, integral)


def row_digests(records: Records, features: Sequence[Input]) -> bytes:
    """Eight bytes an answered row: of its item, its target, its answer and what the features read.

    Numbers count by value and columns that name the run not at all, so that a row is known again however it was saved.
    """
    answered = np.flatnonzero(records.outcome == ANSWERED)
    read = sorted({column for feature in features for column in feature.columns})
    names = [n for n in ("item", "repeat", "perturbation", "target", "prediction", *read) if n in records]
    columns = [_comparable(records, n) for n in names if kind_of(records.column(n)) not in ("null", "list")]
    return b"".join(_digest([column[row] for column in columns]) for row in answered)


def _comparable(records: Records, name: str) -> list[Any]:
    if kind_of(records.column(name)) in ("int", "float"):
        return [None if np.isnan(x) else x for x in records.stated_numbers(name).tolist()]
    column = records.column(name)
    return list(column.to_pylist())


def cluster_digests(records: Records) -> bytes:
    """Eight bytes a cluster that has an answered row: of its id."""
    ids, cluster = records.cluster
    return b"".join(_digest(ids[i]) for i in np.unique(cluster[records.outcome == ANSWERED]))


def _digest(values: Sequence[Any]) -> bytes:
    return hashlib.sha256(json.dumps(list(values)).encode()).digest()[:DIGEST]


def _common(one: bytes, other: bytes) -> int:
    """How many digests two strings of them share."""
    return len(
        {one[i : i + DIGEST] for i in range(0, len(one), DIGEST)}
        & {other[i : i + DIGEST] for i in range(0, len(other), DIGEST)}
    )


def answered_rows(records: Records) -> npt.NDArray[np.bool_]:
    """The rows that can train: answered, with a target."""
    if "target" not in records:
        raise InputError(records.lacks("target", "a calibrator"), file=records.name)
    return np.asarray((records.outcome == ANSWERED) & ~np.asarray(records.column("target").is_null()))
