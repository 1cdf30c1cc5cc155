"""A calibrator for people: what it learnt, and how good it is before, in sample and cross-fitted."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.confidence.calibrators import Calibrator, Scores
from steelyard.confidence.calibrators.temperature import HIGHEST, LOWEST
from steelyard.errors import counted
from steelyard.report.document import Document, MetricName, Note, Table, Value, number
from steelyard.report.figures.figure import Figure
from steelyard.report.rows import known


def calibrator_report(calibrator: Calibrator, figures: Sequence[Figure] = ()) -> Document:
    """Parameters and scores, and figures of them if any."""
    where = calibrator.provenance
    scores = calibrator.metrics
    document: Document = [
        Note(
            f"{calibrator.name}; target {calibrator.target}; {counted(where.n, 'answered row')} "
            f"of {counted(where.clusters, 'cluster')}"
            f"{f', {where.mode}' if where.mode else ''}"
        )
    ]
    temperature = calibrator.parameters.get("temperature")
    if isinstance(temperature, float | int):
        document.append(Note(f"temperature {number(temperature)}: {_meaning(float(temperature), scores)}"))
    coefficients = calibrator.parameters.get("coefficients")
    if isinstance(coefficients, list):
        learnt = [
            (f.name, Value(w, signed=True), Value(f.mean), Value(f.scale), known(f.fill))
            for f, w in zip(calibrator.features, coefficients, strict=True)
        ]
        document.append(Table(("feature", "coefficient", "mean", "scale", "if missing"), tuple(learnt)))
    crossed = scores.cross_fitted or {}
    before = scores.before or {}
    rows = [
        (
            MetricName(name),
            Value(before.get(name)) if before else "",
            Value(value),
            Value(crossed.get(name)) if crossed else "",
        )
        for name, value in scores.in_sample.items()
    ]
    document.append(Table(("score", "before", "in sample", "cross-fitted"), tuple(rows)))
    document.append(
        Note(scores.note)
        if scores.note
        else Note(f"cross-fitted: {scores.folds} folds of whole clusters; the honest column of the two")
    )
    return [*document, *figures]


def _meaning(temperature: float, scores: Scores) -> str:
    """What a temperature says of the confidences: only what held-out rows bear out."""
    if temperature == 1:
        return "none is better than leaving the confidences as they are"
    before, crossed = (side.get("nll") for side in (scores.before or {}, scores.cross_fitted or {}))
    if before is None or crossed is None:
        return "fitted in sample; no held-out rows say whether it helps"
    if crossed >= before:
        return f"no temperature helps on held-out rows (NLL {number(before)} before, {number(crossed)} cross-fitted)"
    if not 1.001 * LOWEST < temperature < 0.999 * HIGHEST:
        return "at the limit of its range: the confidence hardly tells right from wrong, or always does"
    return "confidences were too extreme" if temperature > 1 else "confidences were too timid"
