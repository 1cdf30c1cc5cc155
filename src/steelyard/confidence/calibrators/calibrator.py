"""A fitted calibrator as plain data: what it reads, its parameters, where its training rows came from.

Applied to other rows it checks that the features are on the scale it was trained on, and that the rows are not its own
training rows: in sample, every calibrator looks good.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from steelyard.confidence import signals
from steelyard.confidence.calibrators.contract import Floats, methods
from steelyard.errors import InputError, UsageError, printable
from steelyard.records.derive import ANSWERED
from steelyard.records.schema import KEY, kind_of
from steelyard.records.table import Records

TARGETS = ("correctness", "near_correct", "loss")
DIGEST = 8  # bytes kept of each training row's digest
_NEAR_CONSTANT = 1e-12
_FILL = "; --fill, when it is fitted, says what a missing value counts as"
_ENOUGH = 10  # values from which a shift against the training rows is told from chance


class Feature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One input of a calibrator: where it is read, how it is standardised, which values training saw.

    `fill` stands in for null; without one, a missing value is an error.
    """

    name: str
    source: Literal["signal", "variant", "column"]
    mean: float
    scale: float
    low: float
    q05: float
    q95: float
    high: float
    integral: bool
    fill: float | None = None

    def values(self, records: Records) -> Floats:
        """The feature of every answered row."""
        if self.source == "variant":
            return signals.confidence(records, self.name)
        name = f"signal.{self.name}" if self.source == "signal" else self.name
        if name not in records:
            have = ", ".join(printable(c.removeprefix("signal.")) for c in records.stated if c.startswith("signal."))
            raise InputError(
                f"the calibrator reads {printable(name)}, which is not there; signals here: {have or 'none'}",
                file=records.name,
            )
        return signals.column(records, name, needed_by="the calibrator", fill=self.fill, hint=_FILL)

    def check_scale(self, values: Floats, records: Records) -> None:
        """Refuse values on another scale than the one trained on: the curve would collapse without a word."""
        seen = values[~np.isnan(values)]
        if not len(seen):
            return
        width = self.high - self.low
        away = np.maximum(self.low - seen, seen - self.high)  # beyond what training saw
        halves = self.integral and bool((seen != np.round(seen)).any())
        several = len(seen) >= _ENOUGH
        aside = several and (seen.max() < self.q05 or seen.min() > self.q95)
        beyond = width > 0 and ((several and (away > width / 4).mean() > 0.5) or bool((away > width).all()))
        if halves or aside or beyond:
            raise InputError(
                f"the calibrator was trained on {self.name} from {self.low:g} to {self.high:g}"
                f"{' in whole numbers' if self.integral else ''}; here it lies from {seen.min():g} to {seen.max():g}. "
                "Bring both to the same scale, or fit a calibrator on data like these",
                file=records.name,
                field=self.name,
            )


class Provenance(msgspec.Struct, frozen=True):
    """Where a calibrator's training rows came from, and digests by which they are recognised."""

    inputs: list[dict[str, Any]]
    mode: str | None
    n: int
    clusters: int
    rows: bytes
    participants: bytes
    cluster: list[str]


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
    target: Literal["correctness", "near_correct", "loss"]
    features: list[Feature]
    parameters: dict[str, float | list[float]]
    provenance: Provenance
    metrics: Scores

    @property
    def name(self) -> str:
        return f"{self.method} on {', '.join(f.name for f in self.features)}"

    def confidence(self, records: Records) -> Floats:
        """The calibrated confidence of every answered row, NaN elsewhere."""
        found = np.full(len(records), np.nan)
        answered = records.outcome == ANSWERED
        columns = []
        for feature in self.features:
            values = feature.values(records)
            feature.check_scale(values, records)
            columns.append(values[answered])
        raw = np.column_stack(columns) if columns else np.empty((int(answered.sum()), 0))
        found[answered] = applied(self.method, self.features, self.parameters, raw)
        return found

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


def described(name: str, source: Literal["signal", "variant", "column"], values: Floats, fill: float | None) -> Feature:
    """A feature as the training rows have it. A near-constant column is centred and left unscaled."""
    mean, std = float(values.mean()), float(values.std())
    low, q05, q95, high = (float(q) for q in np.quantile(values, (0, 0.05, 0.95, 1)))
    flat = std <= _NEAR_CONSTANT * max(1.0, abs(mean))
    integral = bool((values == np.round(values)).all()) and high - low > 1
    return Feature(name, source, mean, 1.0 if flat else std, low, q05, q95, high, integral, fill)


def chosen(name: str, calibrators: Sequence[Calibrator]) -> Calibrator:
    """The calibrator that a variant's name means."""
    variant = name.partition(":")[2]
    if name == "verbalized_calibrated":
        wanted, fits = (
            "a temperature calibrator of verbalized",
            [c for c in calibrators if _is_temperature(c, "verbalized")],
        )
    elif variant:
        if variant not in signals.variants:
            raise UsageError(f"{printable(name)}: {signals.variants.unknown(variant)}")
        wanted = f"a calibrator fitted on {variant} alone"
        fits = [c for c in calibrators if [f.name for f in c.features] == [variant]]
    else:
        supervised = [c for c in calibrators if not methods[c.method].probability]
        wanted, fits = "a calibrator", supervised or list(calibrators)
    if len(fits) == 1:
        return fits[0]
    have = "; ".join(printable(c.name) for c in calibrators) or "none"
    problem = f"{len(fits)} of those given would do" if fits else f"given: {have}"
    raise UsageError(f"{printable(name)} needs --calibration FILE with {wanted}; {problem}")


def _is_temperature(calibrator: Calibrator, variant: str) -> bool:
    return methods[calibrator.method].probability and [f.name for f in calibrator.features] == [variant]


def row_digests(records: Records, features: Sequence[Feature]) -> bytes:
    """Eight bytes an answered row: of its key, its target, its answer and its features."""
    answered = np.flatnonzero(records.outcome == ANSWERED)
    names = [n for n in (*KEY, "target", "prediction") if n in records]
    columns = [records.column(n).to_pylist() for n in names if kind_of(records.column(n)) != "null"]
    columns += [feature.values(records).tolist() for feature in features]
    return b"".join(_digest([column[row] for column in columns]) for row in answered)


def cluster_digests(records: Records) -> bytes:
    """Eight bytes a cluster that has an answered row: of its id."""
    ids, cluster = records.cluster
    return b"".join(_digest(ids[i]) for i in np.unique(cluster[records.outcome == ANSWERED]))


def _digest(values: Sequence[Any]) -> bytes:
    text = json.dumps(list(values))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:DIGEST]


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
