"""What does declining buy? Risk against coverage, and the areas under both curves.

The model answers, or declines, and says how sure it is; a user may accept only answers above a threshold. Raw AURC
rewards abstaining: between runs with unequal cmax, compare the area up to the common cmax.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard.errors import InputError, UsageError
from steelyard.ground.arrays import Floats
from steelyard.metrics.contract import compose, evidence, metric
from steelyard.metrics.evidence.curve import CurveReading, CurveTerms
from steelyard.metrics.evidence.kernels import GRID
from steelyard.metrics.evidence.sorted_rows import SortedRows
from steelyard.metrics.evidence.sums import Sums
from steelyard.metrics.options import CONFIDENCE, Column, Constant
from steelyard.metrics.vocabulary import Default
from steelyard.records.derive import ANSWERED, has_target, loss_name, loss_values
from steelyard.records.table import Records

LARGEST = 1e300  # losses beyond it cannot be added up
_SILENT = "nothing was answered"


def _answering(evidence: Any) -> tuple[Any, Floats]:
    """What the curve stands on: the clusters that answered."""
    answered = np.bincount(evidence.cluster, minlength=len(evidence.ids))
    return (answered > 0)[:, None], np.ones(1)


@evidence(
    reads=("target", "prediction"),
    reads_order=True,
    better="lower",
    bounds=(0, None),
    undefined=_SILENT,
    parts=_answering,
)
def curve(
    records: Records,
    *,
    rank: Column = CONFIDENCE,
    loss: str | None = None,
    range: float | None = None,
) -> CurveTerms:
    """Asked rows by what ranks them, with their loss. Its metrics read only the order of what ranks."""
    answered = records.outcome == ANSWERED
    losses = loss_values(records, str(loss), range)
    ranks = np.asarray(rank, float)
    no_target = ~has_target(records) | (answered & np.isnan(losses))
    if (losses > LARGEST).any():
        raise InputError("holds errors too large to be added up", file=records.name, field="prediction")
    silent = answered & np.isnan(ranks) & ~no_target
    if silent.any():
        file, line = records.where(int(np.flatnonzero(silent)[0]))
        raise InputError(
            f"{int(silent.sum())} answered rows have nothing to rank them by; every answered row needs a value",
            file=file,
            line=line,
        )
    return CurveTerms(ranks, losses, ~answered, missing={"no target": no_target})


@curve.summary
def _(table: Records, loss: str | None, range: float | None) -> dict[str, Any]:
    """The loss and range in use: as asked, else what the task and the kind of the targets imply."""
    if range is not None and range <= 0:
        raise UsageError("range is the width of the score range, above 0")
    return {"loss": loss_name(table, loss), "range": range if range is not None else table.task.range}


def _curve_detail(c: CurveReading, *, loss: Constant, range: Constant) -> dict[str, Any]:
    return {
        "loss": loss,
        **({"range": range} if loss == "abs_norm" else {}),
        "curve": {
            "coverage": c.coverage[0].tolist(),
            "selective_risk": c.risk[0].tolist(),
            "generalized_risk": c.generalized[0].tolist(),
            "threshold": c.thresholds.tolist(),
        },
    }


@metric(title="Largest Coverage", also=("maximum coverage",), bounds=(0, 1), formula="answered / N")
def cmax(
    answered: Floats,
    *,
    rank: Column | None = None,  # noqa: ARG001 - the curve's options: whatever ranks the answers, it is the same share
    loss: str | None = None,  # noqa: ARG001
    range: float | None = None,  # noqa: ARG001
) -> Floats:
    """The largest coverage the model allows: answered rows over asked rows.

    It reads outcomes alone, as answer_rate does: the options of the curve, which ends there, do not change it.

    >>> value("cmax", prediction=["a", None])
    0.5
    """
    return answered


@cmax.earlier
def _(evidence: Any) -> Sums:
    """The first editions read it off the curve: its asked rows, and those with a place in the order."""
    if isinstance(evidence, Sums):
        return evidence
    answered = np.bincount(evidence.cluster, minlength=len(evidence.ids))
    cells = np.stack([answered, evidence.rows], -1).astype(np.float64)
    return Sums(
        names=("total", "n"),
        keys=(),
        ids=evidence.ids,
        cells=cells,
        rows=evidence.rows,
        excluded=evidence.excluded,
        is_score=True,
        binary=True,
    )


@curve.metric(
    title="Area under the Risk-Coverage Curve",
    also=("risk coverage", "selective risk"),
    common_coverage="aurc_at",
    documented_as="aurc_full",
    default_for=(Default("ranked answers", 1),),
    formula="∫ selective risk d coverage over [0, cmax], risk(0) = first risk",
)
def aurc(c: CurveReading, *, ties: str = "plateau") -> Floats:
    """Area under the risk-coverage curve. Undefined if nothing was answered: silence must not look perfect.

    The trapezoid is generous to plateaus; `aurc(ties=exact)` takes the mean over the orders of tied rows.

    >>> value("aurc", target=["a", "b"], prediction=["a", "a"], confidence=[0.9, 0.4])
    0.125
    """
    if ties not in ("plateau", "exact"):
        raise UsageError("aurc: ties is plateau or exact")
    return c.exact if ties == "exact" else c.areas[0]


@curve.metric(
    title="Area under the Generalized Risk-Coverage Curve",
    also=("risk coverage", "selective risk"),
    common_coverage="augrc_at",
    documented_as="augrc_full",
    default_for=(Default("ranked answers", 2),),
    formula="∫ generalized risk d coverage over [0, cmax], 0 at 0",
)
def augrc(c: CurveReading) -> Floats:
    """Area under the generalized risk-coverage curve: the risk of an accepted wrong answer, averaged over coverage.

    >>> value("augrc", target=["a", "b"], prediction=["a", "a"], confidence=[0.9, 0.4])
    0.125
    """
    return c.areas[1]


@aurc.delta_note
def _(base: SortedRows, new: SortedRows) -> str:
    """That runs with unequally coarse ranks are not compared fairly."""
    coarse = [curve.points / max(len(curve.score), 1) for curve in (base, new)]
    if min(coarse) >= 0.9 * max(coarse):
        return ""
    return f"{base.points} and {new.points} plateaus: AURC favours the coarser, see aurc(ties=exact)"


aurc.detail(_curve_detail)
augrc.detail(_curve_detail)
aurc.up_to(lambda reading, c: reading.areas_at(c)[0])
augrc.up_to(lambda reading, c: reading.areas_at(c)[1])


@curve.metric(
    title="AURC of a Perfect Ranking",
    also=("oracle",),
    common_coverage="",
    formula="AURC if answered rows were ranked by their loss",
)
def aurc_optimal(c: CurveReading) -> Floats:
    """The AURC that a perfect ranking of the same answers would have.

    >>> value("aurc_optimal", target=["a", "b"], prediction=["a", "a"], confidence=[0.4, 0.9])
    0.125
    """
    return c.optimal[0]


@curve.metric(
    title="AUGRC of a Perfect Ranking",
    also=("oracle",),
    common_coverage="",
    formula="AUGRC if answered rows were ranked by their loss",
)
def augrc_optimal(c: CurveReading) -> Floats:
    """The AUGRC that a perfect ranking of the same answers would have.

    >>> value("augrc_optimal", target=["a", "b"], prediction=["a", "a"], confidence=[0.4, 0.9])
    0.125
    """
    return c.optimal[1]


@compose(
    aurc,
    aurc_optimal,
    title="Excess AURC",
    aliases=("e_aurc",),
    also=("risk coverage",),
    better="lower",
    undefined=_SILENT,
    common_coverage="",
    default_for=(Default("ranked answers", 3),),
    formula="aurc − aurc_optimal",
)
def eaurc(area: Floats, optimal: Floats) -> Floats:
    """Excess AURC: what the ranking loses. Can be slightly negative, because the trapezoid is generous to plateaus.

    >>> round(value("eaurc", target=["a", "b"], prediction=["a", "a"], confidence=[0.4, 0.9]), 6)
    0.75
    """
    return area - optimal


@compose(
    augrc,
    augrc_optimal,
    title="Excess AUGRC",
    aliases=("e_augrc",),
    also=("risk coverage",),
    better="lower",
    undefined=_SILENT,
    common_coverage="",
    formula="augrc − augrc_optimal",
)
def eaugrc(area: Floats, optimal: Floats) -> Floats:
    """Excess AUGRC: what the ranking loses.

    >>> round(value("eaugrc", target=["a", "b"], prediction=["a", "a"], confidence=[0.4, 0.9]), 6)
    0.25
    """
    return area - optimal


@curve.metric(
    title="Achievable AURC",
    also=("hull",),
    common_coverage="",
    formula="AURC of the lower convex hull of the working points (in sample, not attainable)",
    no_interval="an optimum chosen on the data it is computed from",
)
def aurc_achievable(c: CurveReading) -> Floats:
    """AURC of the in-sample hull, not attainable: the best working points, picked with the outcomes known.

    A nearly random ranking has lucky points too, so its hull may lie at half its AURC; new data will not.

    >>> value("aurc_achievable", target=["a", "b"], prediction=["a", "a"], confidence=[0.9, 0.4])
    0.125
    """
    return c.achievable


def _coverage(owner: str, c: float) -> float:
    if not 0 < c <= 1:
        raise UsageError(f"{owner}: c is a coverage in (0, 1]")
    return c


def _used(reading: CurveReading, *, c: float) -> dict[str, Any]:
    cmax = float(reading.cmax[0])
    return {"requested": c, "used": min(c, cmax) if cmax > 0 else None}


def _first_area(reading: CurveReading, coverage: Floats, *, c: float) -> Floats:
    return reading.areas_at(np.minimum(coverage, c))[0]


def _second_area(reading: CurveReading, coverage: Floats, *, c: float) -> Floats:
    return reading.areas_at(np.minimum(coverage, c))[1]


@curve.metric(
    title="AURC up to Coverage {c}",
    aliases=("aurc_at_c",),
    also=("risk coverage",),
    common_coverage="aurc_at",
    formula="∫ selective risk d coverage up to min(c, cmax)",
)
def aurc_at(reading: CurveReading, *, c: float = 0.5) -> Floats:
    """AURC up to coverage c, interpolated to land on it.

    >>> value("aurc_at(c=0.5)", target=["a", "b"], prediction=["a", "a"], confidence=[0.9, 0.4])
    0.0
    """
    return reading.areas_at(_coverage("aurc_at", c))[0]


@curve.metric(
    title="AUGRC up to Coverage {c}",
    aliases=("augrc_at_c",),
    also=("risk coverage",),
    common_coverage="augrc_at",
    formula="∫ generalized risk d coverage up to min(c, cmax)",
)
def augrc_at(reading: CurveReading, *, c: float = 0.5) -> Floats:
    """AUGRC up to coverage c, interpolated to land on it.

    >>> value("augrc_at(c=1)", target=["a", "b"], prediction=["a", "a"], confidence=[0.9, 0.4])
    0.125
    """
    return reading.areas_at(_coverage("augrc_at", c))[1]


aurc_at.detail(_used)
augrc_at.detail(_used)
aurc_at.up_to(_first_area)
augrc_at.up_to(_second_area)


@curve.metric(
    title="Risk at Coverage {c}",
    aliases=("mae_at_coverage", "risk_at_coverage"),
    also=("selective risk",),
    formula="selective risk at the first working point with coverage ≥ c",
    undefined="the model never answers that large a share",
    members=lambda _, c: [{"c": at} for at in GRID] if c is None else [{"c": c}],
    rewards_declining=True,
)
def risk_at(reading: CurveReading, *, c: float | None = None) -> Floats:
    """Risk when at least a share c must be answered: `risk_at(c=0.8)`; alone, at 0.1, 0.2, …, 0.9.

    It is read at the first working point with at least that coverage, so it may cover more: where many answers tie,
    `risk_at(c=0.5)` and `risk_at(c=0.6)` may be one point. Undefined where the model never answers that much.

    >>> value("risk_at(c=0.5)", target=["a", "b"], prediction=["a", "a"], confidence=[0.9, 0.4])
    0.0
    """
    return reading.risk_at(_coverage("risk_at", float(c or 0)))


@risk_at.parts
def _(evidence: Any, *, c: float) -> tuple[Any, Floats]:
    """Its denominator: the rows accepted at the first working point that covers so much."""
    reached = np.flatnonzero((evidence.ends + 1) / max(int(evidence.rows.sum()), 1) >= c)
    last = int(evidence.ends[reached[0]]) + 1 if len(reached) else len(evidence.cluster)
    return (np.bincount(evidence.cluster[:last], minlength=len(evidence.ids)) > 0)[:, None], np.ones(1)


@risk_at.detail
def _(reading: CurveReading, *, c: float) -> dict[str, Any]:
    achieved = float(reading.coverage_at(c)[0])
    return {"requested": c, "achieved": None if np.isnan(achieved) else achieved}
