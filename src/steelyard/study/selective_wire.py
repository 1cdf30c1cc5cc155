"""The selective-prediction metrics artifact: its shape, key for key as documented, and how a Selection fills it.

The shape is the Structs below: what is written is made of them, and the JSON Schema that is published comes from them.
Beyond the documented keys stand the digest of every input, intervals of the excess, optimal and achievable areas, the
deltas up to the coverage that both runs reach, and notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from steelyard.confidence.calibrators import Calibrator
from steelyard.confidence.calibrators.wire import calibration_document
from steelyard.ground.json import DIALECT, plain
from steelyard.ground.structs import schema_parts
from steelyard.records.table import Source
from steelyard.study.participants import Overlap
from steelyard.study.selection import Deltas, Reading, Selection
from steelyard.uncertainty.number import Delta, Estimate

Share = Annotated[float, Meta(ge=0, le=1)]
Interval = Annotated[
    list[float], Meta(min_length=2, max_length=2, description="[low, high]: 2.5% and 97.5% percentile")
]
Count = Annotated[int, Meta(ge=0)]
CoverageKey = Annotated[str, Meta(pattern=r"^[01]\.[0-9]{2}$")]


class Input(msgspec.Struct):
    path: str
    run_id: str | None
    git_commit: str | None
    mode: str | None
    sha256: str | UnsetType | None = UNSET


class Population(msgspec.Struct):
    participants_total: Count
    participants_included: Count
    participants_failed: Count
    items_total: Count


class Loss(msgspec.Struct):
    name: str
    definition: str
    raw_multiplier: float


class Interpretation(msgspec.Struct):
    aurc_gap_pct: float | None
    augrc_gap_pct: float | None
    achievable_gain_pct: float | None


class AreaAt(msgspec.Struct):
    requested: Share
    used: Share | None
    value: float | None


class RiskAt(msgspec.Struct):
    requested: Share
    achieved: Share
    value: float


class Intervals(msgspec.Struct):
    cmax: Interval | UnsetType | None = UNSET
    aurc_full: Interval | UnsetType | None = UNSET
    augrc_full: Interval | UnsetType | None = UNSET
    aurc_optimal: Interval | UnsetType | None = UNSET
    augrc_optimal: Interval | UnsetType | None = UNSET
    eaurc: Interval | UnsetType | None = UNSET
    eaugrc: Interval | UnsetType | None = UNSET
    aurc_achievable: Interval | UnsetType | None = UNSET
    aurc_at_c: Interval | UnsetType | None = UNSET
    augrc_at_c: Interval | UnsetType | None = UNSET
    mae_at_coverage: dict[CoverageKey, Interval | None] | UnsetType = UNSET


class DropRate(msgspec.Struct):
    """The share of resamples in which a number was undefined and left out; 1 where it is undefined in the data.

    Every requested coverage is listed; of the areas, those that were undefined somewhere.
    """

    mae_at_coverage: dict[CoverageKey, Share] | UnsetType = UNSET
    cmax: Share | UnsetType = UNSET
    aurc_full: Share | UnsetType = UNSET
    augrc_full: Share | UnsetType = UNSET
    aurc_optimal: Share | UnsetType = UNSET
    augrc_optimal: Share | UnsetType = UNSET
    eaurc: Share | UnsetType = UNSET
    eaugrc: Share | UnsetType = UNSET
    aurc_achievable: Share | UnsetType = UNSET
    aurc_at_c: Share | UnsetType = UNSET
    augrc_at_c: Share | UnsetType = UNSET


class Bootstrap(msgspec.Struct):
    seed: int
    n_resamples: Annotated[int, Meta(ge=1)]
    ci95: Intervals
    drop_rate: DropRate | UnsetType = UNSET
    stream: str | UnsetType = UNSET


class Curve(msgspec.Struct):
    coverage: list[Share]
    selective_risk: list[float]
    generalized_risk: list[float]
    threshold: list[float]


class Scored(msgspec.Struct):
    """A number with the interval of its own family."""

    value: float | None
    interval: Annotated[list[float], Meta(min_length=2, max_length=2)] | None
    method: str


class Variant(msgspec.Struct):
    cmax: Share | None
    aurc_full: float | None
    augrc_full: float | None
    aurc_optimal: float | None
    augrc_optimal: float | None
    eaurc: float | None
    eaugrc: float | None
    aurc_achievable: float | None
    interpretation: Interpretation
    aurc_at_c: AreaAt
    augrc_at_c: AreaAt
    mae_at_coverage: dict[CoverageKey, RiskAt | None]
    bootstrap: Bootstrap | None
    curve: Curve
    calibration: dict[str, Scored] | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET


class Pair(msgspec.Struct):
    input_0: Variant
    input_1: Variant


class PairedDelta(msgspec.Struct):
    """right − left, never sign-flipped."""

    delta: float | None
    ci95: Interval | None
    left: float | None
    right: float | None
    drop_rate: Share | UnsetType = UNSET


class AtCommonCmax(msgspec.Struct):
    """The areas up to the coverage that both runs reach: raw areas reward declining."""

    c: Share
    aurc_at_c: PairedDelta | UnsetType = UNSET
    augrc_at_c: PairedDelta | UnsetType = UNSET


class VariantDeltas(msgspec.Struct):
    cmax: PairedDelta
    aurc_full: PairedDelta
    augrc_full: PairedDelta
    aurc_optimal: PairedDelta
    augrc_optimal: PairedDelta
    eaurc: PairedDelta
    eaugrc: PairedDelta
    aurc_achievable: PairedDelta
    aurc_at_c: PairedDelta
    augrc_at_c: PairedDelta
    mae_at_coverage: dict[CoverageKey, PairedDelta]
    at_common_cmax: AtCommonCmax
    notes: list[str] | UnsetType = UNSET


class NoComparison(msgspec.Struct):
    enabled: bool
    intersection_only: bool
    deltas: None


class Comparison(msgspec.Struct):
    """Two runs: who is in both, and right − left for every variant."""

    enabled: bool
    intersection_only: bool
    participants_left_only: Count
    participants_right_only: Count
    participants_overlap_total: Count
    participants_overlap_included: Count
    participants_failed_left: Count
    participants_failed_right: Count
    deltas: dict[str, VariantDeltas]


class CalibratorUsed(msgspec.Struct):
    """Which calibrator a variant went through."""

    method: str
    target: str
    features: list[str]
    digest: str


class _Artifact(msgspec.Struct):
    schema_version: Literal["1"]
    created_at: str
    inputs: list[Input]
    population: Population
    loss: Loss


class OneRun(_Artifact):
    """Selective-prediction metrics of one run."""

    confidence_variants: dict[str, Variant]
    comparison: NoComparison
    calibrators: dict[str, CalibratorUsed] | UnsetType = UNSET
    left_out: dict[str, list[str]] | UnsetType = UNSET  # variants that `all` could not take, and what they lack
    warnings: list[str] | UnsetType = UNSET
    tool: dict[str, str] | UnsetType = UNSET


class TwoRuns(_Artifact):
    """Selective-prediction metrics of two runs on the same participants."""

    confidence_variants: dict[str, Pair]
    comparison: Comparison
    calibrators: dict[str, CalibratorUsed] | UnsetType = UNSET
    left_out: dict[str, list[str]] | UnsetType = UNSET  # variants that `all` could not take, and what they lack
    warnings: list[str] | UnsetType = UNSET
    tool: dict[str, str] | UnsetType = UNSET


def selective_schema() -> dict[str, Any]:
    """The artifact's JSON Schema."""
    shapes, parts = schema_parts(OneRun, TwoRuns)
    return {
        "$schema": DIALECT,
        "title": "Selective-prediction metrics",
        "oneOf": shapes,
        "$defs": parts,
    }


def selective_document(selection: Selection, *, created_at: datetime | None = None) -> dict[str, Any]:
    """The artifact as plain data."""
    from steelyard import __version__

    read = {name: [_variant(each, selection) for each in readings] for name, readings in selection.readings.items()}
    version: Literal["1"] = "1"
    head = (
        version,
        (created_at or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        [_input(sources, mode) for sources, mode in zip(selection.sources, selection.modes, strict=True)],
        Population(**selection.population),
        _loss(selection),
    )
    tail = (
        {name: _calibrator(used) for name, used in selection.calibrators.items()} or UNSET,
        dict(selection.lacking) or UNSET,
        list(selection.warnings) or UNSET,
        {"name": "steelyard", "version": __version__},
    )
    artifact: OneRun | TwoRuns
    if selection.overlap is None:
        artifact = OneRun(*head, {name: one for name, (one,) in read.items()}, NoComparison(False, False, None), *tail)
    else:
        pairs = {name: Pair(left, right) for name, (left, right) in read.items()}
        artifact = TwoRuns(*head, pairs, _comparison(selection, selection.overlap), *tail)
    return plain(msgspec.to_builtins(artifact))


def _calibrator(used: Calibrator) -> CalibratorUsed:
    digest = str(calibration_document(used)["digest"])
    return CalibratorUsed(used.method, used.target, [f.name for f in used.features], digest)


def _loss(selection: Selection) -> Loss:
    used = selection.loss
    return Loss(used.name, used.definition.replace("prediction", "pred").replace("target", "gt"), used.raw_multiplier)


def _input(sources: tuple[Source, ...], mode: str | None) -> Input:
    if not sources:
        return Input("records", None, None, mode)
    about = sources[0].about
    paths = " + ".join(source.name for source in sources)
    digest = sources[0].sha256 if len(sources) == 1 else None
    return Input(paths, about.get("run_id"), about.get("git_commit"), mode, digest)


def _variant(reading: Reading, selection: Selection) -> Variant:
    value = {key: estimate.value for key, estimate in reading.estimates.items()}
    return Variant(
        **{key: value[key] for key in value if not key.endswith("_at_c")},
        interpretation=Interpretation(**reading.interpretation),
        aurc_at_c=_area_at(reading.estimates["aurc_at_c"], selection.area_coverage),
        augrc_at_c=_area_at(reading.estimates["augrc_at_c"], selection.area_coverage),
        mae_at_coverage={key: _risk_at(estimate) for key, estimate in reading.risk_at.items()},
        bootstrap=_bootstrap(reading, selection),
        curve=Curve(**reading.curve),
        calibration={k: Scored(e.value, _interval(e), e.method) for k, e in reading.calibration.items()} or UNSET,
        notes=reading.notes or UNSET,
    )


def _area_at(estimate: Estimate, requested: float) -> AreaAt:
    return AreaAt(requested, (estimate.detail or {}).get("used"), estimate.value)


def _risk_at(estimate: Estimate) -> RiskAt | None:
    if estimate.value is None:
        return None
    return RiskAt(estimate.detail["requested"], estimate.detail["achieved"], estimate.value)


def _bootstrap(reading: Reading, selection: Selection) -> Bootstrap | None:
    settings = selection.settings
    if not settings.resamples:
        return None
    dropped = {key: _dropped(e, settings.resamples) for key, e in reading.estimates.items()}
    risks = {key: _dropped(e, settings.resamples) for key, e in reading.risk_at.items()}
    return Bootstrap(
        settings.seed,
        settings.resamples,
        Intervals(
            **{key: _interval(e) for key, e in reading.estimates.items()},
            mae_at_coverage={key: _interval(e) for key, e in reading.risk_at.items()},
        ),
        DropRate(mae_at_coverage=risks, **{key: share for key, share in dropped.items() if share}),
        settings.stream,
    )


def _dropped(number: Estimate | Delta, resamples: int) -> float:
    value = number.value if isinstance(number, Estimate) else number.delta
    return 1.0 if value is None else number.undefined_resamples / max(resamples, 1)


def _interval(number: Estimate | Delta) -> list[float] | None:
    return None if number.interval is None else list(number.interval)


def _comparison(selection: Selection, overlap: Overlap) -> Comparison:
    return Comparison(
        True,
        overlap.intersection_only,
        overlap.left_only,
        overlap.right_only,
        overlap.total,
        overlap.included,
        overlap.failed_left,
        overlap.failed_right,
        {name: _deltas(deltas, selection) for name, deltas in selection.deltas.items()},
    )


def _deltas(deltas: Deltas, selection: Selection) -> VariantDeltas:
    def written(by_metric: Mapping[str, Delta]) -> dict[str, PairedDelta]:
        return {key: _delta(d, selection.settings.resamples) for key, d in by_metric.items()}

    return VariantDeltas(
        **written(deltas.areas),
        mae_at_coverage=written(deltas.risk_at),
        at_common_cmax=AtCommonCmax(deltas.common_cmax, **written(deltas.at_common_cmax)),
        notes=deltas.notes or UNSET,
    )


def _delta(d: Delta, resamples: int) -> PairedDelta:
    return PairedDelta(d.delta, _interval(d), d.base, d.new, _dropped(d, resamples) or UNSET)
