"""calibrate(): records → a fitted calibrator, with how good it is in sample and on rows that it was not fitted on.

In-sample scores flatter. The cross-fitted ones come from five fits, each judged on the clusters that it did not see.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steelyard.confidence import signals
from steelyard.confidence.by_name import is_calibrated
from steelyard.confidence.calibrators import Calibrator, Feature, Input, Method, Provenance, Scores, Target, methods
from steelyard.confidence.calibrators.calibrator import (
    TARGETS,
    answered_rows,
    applied,
    cluster_digests,
    described,
    row_digests,
    standardised,
)
from steelyard.errors import InputError, UsageError, counted, printable
from steelyard.ground.arrays import Floats
from steelyard.metrics.questions.calibration import bin_of
from steelyard.records.derive import loss_values
from steelyard.records.table import Records
from steelyard.study.cells import one_cell
from steelyard.study.evaluation import evaluate, values
from steelyard.uncertainty.folds import fold_of
from steelyard.uncertainty.settings import Settings

FOLDS = 5
BINS = 10
FILLS = {"retrieval_similarity_mean": 0.0, "retrieval_similarity_max": 0.0, "verbalized_confidence": 3.0}
FEWEST_ROWS = 2


@dataclass(frozen=True, kw_only=True)
class Bin:
    """The rows of one confidence bin: how sure the model was, how often it was right."""

    low: float
    high: float
    confidence: float
    accuracy: float
    interval: tuple[float, float] | None
    n: int


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """Confidence against outcome, bin by bin."""

    title: str
    outcome: str
    bins: tuple[Bin, ...]
    ece: float | None
    n: int


@dataclass(frozen=True)
class Fit:
    """A calibrator and its reliability in training: before it, where that is a probability, and cross-fitted."""

    calibrator: Calibrator
    reliability: tuple[Reliability, ...]


def calibrate(
    records: Records,
    method: str,
    *,
    features: Sequence[str] = (),
    confidence: str | None = None,
    target: Target = "correctness",
    fill: Mapping[str, float] | None = None,
    seed: int = 42,
) -> Fit:
    """Fit a calibrator on the answered rows of a table.

    features    signals by name, each a column `signal.<name>`
    confidence  instead of features: one confidence variant, or the column `confidence`
    target      correctness, near_correct (off by at most 1) or loss (1 − |error|/range, for linear and isotonic)
    fill        what stands in for a feature that is null. Nothing retrieved counts as 0 and nothing said as the
                middle of the scale; any other null is an error unless a fill is given

    >>> import steelyard as sy
    >>> rows = [
    ...     {"item": i, "target": "a", "prediction": "a" if i % 3 else "b", "confidence": i / 40} for i in range(40)
    ... ]
    >>> fit = sy.calibrate(sy.read(rows), "isotonic", confidence="confidence")
    >>> fit.calibrator.method, fit.calibrator.target
    ('isotonic', 'correctness')
    """
    fitter = methods[method]
    if target not in TARGETS:
        raise UsageError(f"target is one of {', '.join(TARGETS)}")
    one_cell(records)
    if target == "loss" and records.task.range is None:
        raise UsageError("the target loss needs the width of the score range: `range` in the task file")
    Settings(seed=seed)  # refuses what is no seed
    if fitter.binary and target == "loss":
        raise UsageError(f"{fitter.name} needs a target that is right or wrong; take linear or isotonic for loss")
    rows = records.take(answered_rows(records))
    if len(rows) < FEWEST_ROWS:
        raise InputError(
            f"{counted(len(rows), 'answered row')} with a target: too few to fit anything", file=records.name
        )
    described_, raw = _features(rows, [f.removeprefix("signal.") for f in features], confidence, fill or {}, fitter)
    y, binary = target_values(rows, target), target != "loss"
    parameters = _fitted(fitter, described_, raw, y)
    p = applied(fitter.name, described_, parameters, raw)
    ids, cluster = rows.cluster
    folds = min(FOLDS, len(ids))
    crossed, note = _cross_fitted(fitter, described_, raw, y, fold_of(len(ids), folds, seed)[cluster], folds)
    before = np.clip(raw[:, 0], 0.0, 1.0) if _is_probability(described_, fitter) else None
    calibrator = Calibrator(
        "1",
        "calibrator",
        fitter.name,
        target,
        described_,
        parameters,
        Provenance(
            [{"path": s.name, "sha256": s.sha256, **s.about} for s in records.sources],
            records.only("strategy"),
            len(rows),
            len(ids),
            row_digests(rows, described_),
            cluster_digests(rows),
        ),
        Scores(
            None if before is None else scores(before, y, binary=binary),
            scores(p, y, binary=binary),
            None if crossed is None else scores(crossed, y, binary=binary),
            folds,
            note,
        ),
    )
    judged = {"before": before, "cross-fitted": crossed}
    return Fit(
        calibrator,
        tuple(_reliability(k, p, y, rows, target) for k, p in judged.items() if p is not None and binary),
    )


def reliability_of(calibrator: Calibrator, records: Records) -> tuple[Reliability, ...]:
    """A calibrator's reliability on other rows: before it, where its feature is a probability, and after."""
    rows = records.take(answered_rows(records))
    if not len(rows):
        return ()
    y = target_values(rows, calibrator.target)
    before = []
    if _is_probability(calibrator.features, methods[calibrator.method]):
        before.append(_reliability("before", calibrator.features[0].values(rows), y, rows, calibrator.target))
    return *before, _reliability("after", calibrator.confidence(rows), y, rows, calibrator.target)


def _is_probability(features: Sequence[Feature], method: Method) -> bool:
    """True for one feature that says how likely the answer is right, calibrated or not."""
    return len(features) == 1 and (method.probability or features[0].name in signals.PROBABILITIES)


def _reliability(title: str, p: Floats, y: Floats, rows: Records, target: str) -> Reliability:
    p = np.clip(p, 0.0, 1.0)
    table = _judged(p, y, rows.cluster[1])
    bins = []
    place = bin_of(p, BINS)
    for b in np.unique(place).tolist():
        inside = table.take(place == b)
        (share,) = evaluate(inside, ["selective_accuracy"])
        assert share.value is not None
        mean = float(p[place == b].mean())
        bins.append(
            Bin(
                low=b / BINS,
                high=(b + 1) / BINS,
                confidence=mean,
                accuracy=share.value,
                interval=share.interval,
                n=share.n,
            )
        )
    outcome = "share right" if target == "correctness" else "share right or off by one"
    return Reliability(title=title, outcome=outcome, bins=tuple(bins), ece=scores(p, y)["ece"], n=len(y))


def _judged(p: Floats, y: Floats, cluster: npt.NDArray[np.int64]) -> Records:
    """Confidences and outcomes as a table that metrics read."""
    size = len(y)
    columns = {"item": np.arange(size), "target": np.ones(size, int), "prediction": y.astype(int), "confidence": p}
    return Records.from_columns({**columns, "cluster": cluster})


def target_values(rows: Records, target: str) -> Floats:
    """What a calibrator is to predict, higher for better answers: in [0, 1]."""
    if target == "correctness":
        return np.asarray(rows.array("correct"), float)
    if target == "near_correct":
        return (loss_values(rows, "abs", None) <= 1).astype(float)
    y = 1 - loss_values(rows, "abs_norm", rows.task.range)
    if (y < 0).any():
        raise InputError("an error exceeds the task's range", file=rows.name, field="prediction")
    return y


def scores(p: Floats, y: Floats, *, binary: bool = True) -> dict[str, float | None]:
    """ECE, NLL, Brier score and AUROC of confidences against right or wrong; of continuous outcomes MAE and MSE."""
    if not binary:
        return {"mae": float(np.abs(p - y).mean()), "mse": float(((p - y) ** 2).mean())}
    numbers = values(["ece", "nll", "brier", "auroc"], _judged(p, y, np.arange(len(y))))
    return {name: None if math.isnan(value) else value for name, value in numbers.items()}


def _cross_fitted(
    method: Method, features: list[Feature], raw: Floats, y: Floats, fold: npt.NDArray[np.int64], folds: int
) -> tuple[Floats | None, str]:
    """The confidence of every row from a fit that left its cluster out, or why there is none."""
    if folds < 2:
        return None, "one cluster only: nothing can be left out"
    crossed = np.empty(len(y))
    for k in range(folds):
        out = fold == k
        inside = [described(f, raw[~out, i]) for i, f in enumerate(features)]
        try:
            parameters = _fitted(method, inside, raw[~out], y[~out])
        except InputError as problem:
            return None, f"not cross-fitted: without one fold, {problem.problem}"
        crossed[out] = applied(method.name, inside, parameters, raw[out])
    return crossed, ""


def _fitted(method: Method, features: list[Feature], raw: Floats, y: Floats) -> dict[str, float | list[float]]:
    return dict(method.fit(standardised(features, raw) if method.scaled else raw, y))


def _features(
    rows: Records, names: list[str], confidence: str | None, fill: Mapping[str, float], method: Method
) -> tuple[list[Feature], Floats]:
    """The features as the training rows have them, and their values."""
    if bool(names) == (confidence is not None):
        raise UsageError("name either features or one confidence")
    if len(set(names)) < len(names):
        raise UsageError("a feature is named twice")
    if method.one_feature and len(names) > 1:
        raise UsageError(f"{method.name} takes one feature, not {len(names)}")
    for name, instead in fill.items():
        if name not in names:
            raise UsageError(f"a fill is given for '{printable(name)}', which is not among the features")
        if not math.isfinite(instead):
            raise UsageError(f"the fill of '{printable(name)}' is a finite number")
    features, columns = [], []
    for input_ in [_input(name, fill) for name in names] or [_confidence(str(confidence), rows)]:
        values_ = input_.values(rows)
        if method.probability and not ((values_ >= 0) & (values_ <= 1)).all():
            raise InputError(
                f"{method.name} scales probabilities, and {printable(input_.name)} goes beyond [0, 1]", file=rows.name
            )
        features.append(described(input_, values_))
        columns.append(values_)
    return features, np.column_stack(columns)


def _input(name: str, fill: Mapping[str, float]) -> Input:
    return Input(name, "signal", fill.get(name, FILLS.get(name)))


def _confidence(name: str, rows: Records) -> Input:
    """A confidence variant, or a column of the table."""
    if is_calibrated(name):
        raise UsageError(f"{printable(name)} is calibrated already")
    column = name in rows and name not in signals.variants
    return Input(name, "column" if column else "variant", None)
