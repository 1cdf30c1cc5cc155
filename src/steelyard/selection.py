"""selective(): one run, or two on the same participants, ranked by one or more confidence variants → Selection.

Every number is a metric of the curve family with a plain percentile interval, participants resampled whole. Failed rows
are counted and left out; between two runs, a row that failed in either leaves both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from steelyard.comparison import Delta, compare
from steelyard.confidence import signals
from steelyard.confidence.calibrators import Calibrator
from steelyard.errors import InputError, UsageError, printable
from steelyard.evaluation import cells, evaluate
from steelyard.metrics.definition import Metric, metric_of
from steelyard.metrics.kernels import GRID
from steelyard.pairing import Unmatched, paired_slices, unpaired
from steelyard.records.derive import ANSWERED, FAILED, has_target, loss_name, losses
from steelyard.records.table import Records
from steelyard.uncertainty.estimate import Estimate, Progress, Settings

RANK = "confidence variant"  # the column that a variant's values stand in while it is read
AREA_COVERAGE = 0.5
SEEN_SHARE = 0.1  # of rows equal to training rows, from which it is no coincidence
AREAS = {
    "cmax": "cmax",
    "aurc_full": "aurc",
    "augrc_full": "augrc",
    "aurc_optimal": "aurc_optimal",
    "augrc_optimal": "augrc_optimal",
    "eaurc": "eaurc",
    "eaugrc": "eaugrc",
    "aurc_achievable": "aurc_achievable",
}
CALIBRATION = ("ece", "ece_null", "nll", "brier", "auroc")
TRUNCATED = {"aurc_at_c": "aurc_at", "augrc_at_c": "augrc_at"}


@dataclass(frozen=True)
class Loss:
    """The loss in use, and what a risk is multiplied with to be in the units of the scores."""

    name: str
    definition: str
    raw_multiplier: float


@dataclass(frozen=True)
class Reading:
    """One run ranked by one variant: the areas by key, and the risk at each requested coverage."""

    records: Records
    estimates: Mapping[str, Estimate]
    risk_at: Mapping[str, Estimate]
    calibration: Mapping[str, Estimate] = field(default_factory=dict)  # of a calibrated variant, against correctness

    @property
    def curve(self) -> Mapping[str, list[float]]:
        detail = self.estimates["aurc_full"].detail or {}
        return detail.get("curve") or {k: [] for k in ("coverage", "selective_risk", "generalized_risk", "threshold")}

    @property
    def notes(self) -> list[str]:
        """What the estimates say of themselves: each remark once, with the keys that it is about unless it is all."""
        named = {**self.estimates, **{f"mae_at_coverage {key}": e for key, e in self.risk_at.items()}}
        keys: dict[str, list[str]] = {}
        for key, estimate in named.items():
            for note in filter(None, estimate.note.split("; ")):
                keys.setdefault(note, []).append(key)
        return [note if len(about) == len(named) else f"{', '.join(about)}: {note}" for note, about in keys.items()]


@dataclass(frozen=True)
class Deltas:
    """Two runs ranked by one variant: right − left, by key; the areas up to the coverage that both reach."""

    areas: Mapping[str, Delta]
    risk_at: Mapping[str, Delta]
    common_cmax: float
    at_common_cmax: Mapping[str, Delta]


@dataclass(frozen=True)
class Overlap:
    """Which participants two runs share."""

    intersection_only: bool
    left_only: int
    right_only: int
    total: int
    included: int
    failed_left: int
    failed_right: int


@dataclass(frozen=True)
class Selection:
    """What declining buys: per variant one reading a run, and the deltas between two."""

    sources: tuple[tuple[Any, ...], ...]
    modes: tuple[str | None, ...]
    population: Mapping[str, int]
    loss: Loss
    range: float | None
    settings: Settings
    area_coverage: float
    readings: Mapping[str, tuple[Reading, ...]]
    deltas: Mapping[str, Deltas] = field(default_factory=dict)
    overlap: Overlap | None = None
    lacking: Mapping[str, list[str]] = field(default_factory=dict)
    calibrators: Mapping[str, Calibrator] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def selective(
    *runs: Records,
    confidence: Sequence[str] = ("default",),
    loss: str | None = None,
    coverage: Sequence[float] = GRID,
    area_coverage: float = AREA_COVERAGE,
    calibrators: Sequence[Calibrator] = (),
    allow_in_sample: bool = False,
    allow_other_scale: bool = False,
    intersection_only: bool = False,
    resamples: int = 10_000,
    seed: int = 42,
    stream: str = "counter",
    progress: Progress | None = None,
) -> Selection:
    """Risk against coverage of one run, or of two paired ones.

    confidence         variants by name, `default` (llm), `all` (every one whose signals are there)
    loss               abs, abs_norm or zero_one; by default abs for numbers, zero_one for labels
    coverage           where the risk is read off; area_coverage is where the truncated areas end
    calibrators        what calibrated variants go through; refused on rows they were fitted on unless allow_in_sample,
                       and on features that lie elsewhere than in training unless allow_other_scale
    intersection_only  two runs with different participants: compare those that both have
    """
    if len(runs) not in (1, 2):
        raise UsageError("selective takes one run, or two to compare")
    settings = Settings(resamples, seed, method="plain", stream=stream)
    keys = coverage_keys(coverage)
    if not 0 < area_coverage <= 1:
        raise UsageError("the area's coverage is above 0 and at most 1")
    for run in runs:
        several = cells(run)
        if several:
            raise UsageError(f"the rows differ in {', '.join(several)}; choose one with --mode or --where")
    width = _range(runs)
    used = _loss(runs[0], loss, width)
    if used.name != "zero_one" or "correct" not in runs[0]:
        for run in runs:
            if "target" not in run:
                raise InputError(run.lacks("target", "this"), file=run.name)
    asked, lacking = _asked(runs, confidence, calibrators)
    warnings = [w for run in runs for w in (*run.warnings, *_left_out(run))]
    used_calibrators = {name: signals.calibrator_of(name, calibrators) for name in asked if signals.is_calibrated(name)}
    for name, calibrator in used_calibrators.items():
        warnings += [w for run in runs for w in _seen(name, run, calibrator, allow_in_sample)]
        if not allow_other_scale:
            for run in runs:
                calibrator.check_scale(run)
    tables, population, overlap = _included(runs, intersection_only)
    ranked = {name: [_ranked(table, name, calibrators) for table in tables] for name in asked}
    found: dict[str, tuple[Reading, ...]] = {}
    deltas: dict[str, Deltas] = {}
    for done, (name, pair) in enumerate(ranked.items()):
        judged = name in used_calibrators and used_calibrators[name].target == "correctness"
        found[name] = tuple(
            _reading(table, used.name, width, keys, area_coverage, settings, judged=judged) for table in pair
        )
        if overlap is not None and overlap.included:
            deltas[name] = _deltas(pair, found[name], used.name, width, keys, area_coverage, settings)
        if progress is not None:
            progress((done + 1) / len(ranked))
    warnings += _plateaus(found)
    if overlap is not None and not overlap.included:
        warnings.append("no participant succeeded in both runs: nothing can be compared")
    return Selection(
        tuple(run.sources for run in runs),
        tuple(_mode(run) for run in runs),
        population,
        used,
        width,
        settings,
        area_coverage,
        found,
        deltas,
        overlap,
        lacking,
        used_calibrators,
        tuple(dict.fromkeys(warnings)),
    )


def coverage_keys(coverage: Sequence[float]) -> dict[str, float]:
    """The requested coverages by their two-decimal keys; two that would share a key are an error."""
    keys: dict[str, float] = {}
    for c in coverage:
        if not 0 < c <= 1:
            raise UsageError("a coverage is above 0 and at most 1")
        key = f"{c:.2f}"
        if key in keys:
            raise UsageError(f"two requested coverages would both be written as {key}; keep one of them")
        keys[key] = float(c)
    if not keys:
        raise UsageError("at least one coverage is needed")
    return keys


def curve_metric(head: str, loss: str, width: float | None, **more: float) -> Metric:
    """A metric of the curve family, ranked by the variant."""
    given: dict[str, Any] = {"rank": RANK, "loss": loss, **({"range": width} if loss == "abs_norm" else {}), **more}
    return metric_of(head).definition(**given)


def _range(runs: Sequence[Records]) -> float | None:
    """The width of the score range, which two runs must share."""
    stated = {run.task.range for run in runs} - {None}
    if len(stated) > 1:
        raise UsageError("the two runs state different score ranges in their tasks; make them agree")
    return next(iter(stated), None)


# -- the parts ---------------------------------------------------------------------------------------------------------


def _loss(records: Records, asked: str | None, width: float | None) -> Loss:
    name = loss_name(records, asked)
    if name != "abs_norm":
        return Loss(name, losses[name].definition, 1)
    if width is None:
        raise UsageError("the loss abs_norm needs the width of the score range: `range` in the task file")
    shown = int(width) if width == int(width) else width
    return Loss(name, losses[name].definition.replace("range", f"{shown}"), shown)


def _asked(
    runs: Sequence[Records], names: Sequence[str], calibrators: Sequence[Calibrator]
) -> tuple[list[str], dict[str, list[str]]]:
    """The variants in the order asked for, and those that `all` leaves out with what they lack."""
    found: dict[str, None] = {}
    lacking: dict[str, list[str]] = {}
    for name in names:
        if name == "default":
            found[signals.DEFAULT] = None
        elif name == "all":
            for each in signals.variants:
                missing = list(dict.fromkeys(need for run in runs for need in _unusable(run, each)))
                if missing:
                    lacking[each] = missing
                else:
                    found[each] = None
            found.update(dict.fromkeys(_calibrated_names(calibrators)))
        else:
            found[name] = None
    if not found:
        raise InputError("the table has no signal.* columns that a confidence variant reads", file=runs[0].name)
    return list(found), lacking


def _unusable(run: Records, name: str) -> list[str]:
    """The signals of a variant that are absent, or null where an answer needs them."""
    chosen = signals.variants[name]
    absent = signals.lacking(run, name)
    held = [need for need in chosen.needs if need not in absent and need not in chosen.nullable]
    answered = run.array("answered") == 1
    return absent + [need for need in held if np.asarray(run.column(f"signal.{need}").is_null())[answered].any()]


def _calibrated_names(calibrators: Sequence[Calibrator]) -> list[str]:
    """The names under which the given calibrators can be asked for."""
    found: list[tuple[str, Calibrator]] = []
    for name in ("verbalized_calibrated", *(f"calibrated:{v}" for v in signals.variants), "calibrated"):
        try:
            chosen = signals.calibrator_of(name, calibrators)
        except UsageError:
            continue
        if all(chosen is not earlier for _, earlier in found):
            found.append((name, chosen))
    return [name for name, _ in found]


def _seen(name: str, run: Records, calibrator: Calibrator, allowed: bool) -> list[str]:
    """Refuse a calibrator on the rows it was fitted on (unless asked for), and warn of what comes near."""
    own = calibrator.seen_rows(run)
    answered = int((run.outcome == ANSWERED).sum())
    several = own > SEEN_SHARE * min(answered, calibrator.provenance.n)
    if several and not allowed:
        raise InputError(
            f"{own} of these rows trained the calibrator ({printable(calibrator.name)}); in sample every calibrator "
            "looks good. Judge it on other rows, or say --allow-in-sample",
            file=run.name,
        )
    if own:
        flatter = "; the numbers are in-sample and flatter it" if several else ""
        return [f"{name}: {own} rows are equal to training rows of the calibrator{flatter}"]
    known = calibrator.seen_participants(run)
    trained, here = calibrator.provenance.mode, _mode(run)
    found = [f"{name}: {known} of these participants are in its training rows too"] if known else []
    if trained and here and trained != here:
        found.append(f"{name}: fitted on {printable(trained)}, applied to {printable(here)}")
    return found


def _included(runs: Sequence[Records], intersection_only: bool) -> tuple[list[Records], dict[str, int], Overlap | None]:
    """The rows that count, and who was left out. Both tables of a pair hold the same rows in the same order."""
    who = [_participants(run) for run in runs]
    if len(runs) == 1:
        (total, answered), table = who[0], _not_failed(runs[0])
        return [table], _population(len(total), len(answered), len(table)), None
    (left, left_ok), (right, right_ok) = who
    both = left & right
    if not both:
        raise InputError("the two runs have no participant in common; nothing can be compared", file=runs[1].name)
    if left != right and not intersection_only:
        raise InputError(
            f"{len(left - right)} participants are in the first run only and {len(right - left)} in the second only; "
            "--intersection-only compares the others",
            file=runs[1].name,
        )
    if not left_ok & right_ok:
        tables = [_not_failed(run).take(np.zeros(0, np.int64)) for run in runs]
    else:
        tables = _paired(runs, intersection_only)
    included = len(_participants(tables[0])[0])
    overlap = Overlap(
        intersection_only,
        len(left - right),
        len(right - left),
        len(both),
        included,
        len(both - left_ok),
        len(both - right_ok),
    )
    return tables, _population(len(both), included, len(tables[0])), overlap


def _paired(runs: Sequence[Records], intersection_only: bool) -> list[Records]:
    alone = [int((rows & (run.outcome != FAILED)).sum()) for rows, run in zip(unpaired(*runs), runs, strict=True)]
    if max(alone) and not intersection_only:
        raise InputError(
            f"{max(alone)} items have no partner in the other run; --intersection-only compares the others",
            file=runs[0 if alone[0] else 1].name,
        )
    left, right = (_not_failed(run) for run in runs)
    ((_, pair),) = paired_slices(left, right, by=(), pool=(), versus=(), align="intersection", unmatched=Unmatched())
    return list(pair.tables)


def _left_out(run: Records) -> list[str]:
    """Rows that count nowhere although their participant does: no number would show them."""
    ids, cluster = run.cluster
    failed = run.outcome == FAILED
    counting = np.zeros(len(ids), bool)
    counting[cluster[~failed]] = True
    lost = int((failed & counting[cluster]).sum())
    found = [f"{lost} failed rows of participants that count are left out"] if lost else []
    unknown = int((~has_target(run) & ~failed).sum())
    return found + ([f"{unknown} rows without a target are left out"] if unknown else [])


def _not_failed(run: Records) -> Records:
    return run.take(run.outcome != FAILED)


def _participants(run: Records) -> tuple[set[Any], set[Any]]:
    """Every participant, and those with a row that did not fail."""
    ids, cluster = run.cluster
    kept = np.unique(cluster[run.outcome != FAILED])
    return set(ids), {ids[i] for i in kept}


def _population(total: int, included: int, items: int) -> dict[str, int]:
    return {
        "participants_total": total,
        "participants_included": included,
        "participants_failed": total - included,
        "items_total": items,
    }


def _mode(run: Records) -> str | None:
    return str(run.labels("strategy").values[0]) if "strategy" in run and run.labels("strategy").values else None


def _ranked(records: Records, name: str, calibrators: Sequence[Calibrator]) -> Records:
    values = signals.confidence(records, name, calibrators)
    return records.with_columns({RANK: pa.array(values, mask=np.isnan(values))})


def _metrics(
    loss: str, width: float | None, keys: Mapping[str, float], area_coverage: float
) -> tuple[dict[str, Metric], dict[str, Metric]]:
    areas = {key: curve_metric(head, loss, width) for key, head in AREAS.items()}
    areas |= {key: curve_metric(head, loss, width, c=area_coverage) for key, head in TRUNCATED.items()}
    return areas, {key: curve_metric("risk_at", loss, width, c=c) for key, c in keys.items()}


def _reading(
    records: Records,
    loss: str,
    width: float | None,
    keys: Mapping[str, float],
    area_coverage: float,
    settings: Settings,
    *,
    judged: bool,
) -> Reading:
    areas, risks = _metrics(loss, width, keys, area_coverage)
    found = _evaluated(records, [*areas.values(), *risks.values()], settings)
    return Reading(
        records,
        dict(zip(areas, found, strict=False)),
        dict(zip(risks, found[len(areas) :], strict=True)),
        _calibration(records, settings) if judged else {},
    )


def _calibration(records: Records, settings: Settings) -> dict[str, Estimate]:
    """How far a calibrated confidence can be taken at its word, with intervals of each metric's own family."""
    table = records.with_columns({"confidence": records.column(RANK)})
    resamples = settings.resamples
    return {e.metric: e for e in evaluate(table, CALIBRATION, resamples=resamples, seed=settings.seed)}


def _evaluated(records: Records, metrics: Sequence[Metric], settings: Settings) -> list[Estimate]:
    return list(
        evaluate(
            records,
            metrics,
            resamples=settings.resamples,
            seed=settings.seed,
            method=settings.method,
            stream=settings.stream,
        )
    )


def _plateaus(found: Mapping[str, Sequence[Reading]]) -> list[str]:
    """A warning where variants differ in how many working points they have: AURC is kind to few."""
    points = {name: len(readings[0].curve["coverage"]) for name, readings in found.items()}
    flat = [name for name, count in points.items() if count == 1 and found[name][0].estimates["cmax"].n > 1]
    if flat:
        return [
            f"{', '.join(flat)}: every answer has the same confidence, so it ranks nothing; check the signal's scale"
        ]
    if not points or min(points.values()) >= 0.9 * max(points.values()):
        return []
    few, many = min(points, key=points.__getitem__), max(points, key=points.__getitem__)
    return [
        f"{few} has {points[few]} working points and {many} {points[many]}: AURC favours the coarser, "
        "compare variants by AUGRC or aurc(ties=exact)"
    ]


def _deltas(
    pair: Sequence[Records],
    readings: Sequence[Reading],
    loss: str,
    width: float | None,
    keys: Mapping[str, float],
    area_coverage: float,
    settings: Settings,
) -> Deltas:
    areas, risks = _metrics(loss, width, keys, area_coverage)
    common = min((r.estimates["cmax"].value or 0.0) for r in readings)
    shared = {key: curve_metric(head, loss, width, c=common) for key, head in TRUNCATED.items()} if common else {}
    wanted = [*areas.values(), *risks.values(), *shared.values()]
    left, right = pair
    found = compare(
        left,
        right,
        wanted,
        resamples=settings.resamples,
        seed=settings.seed,
        method=settings.method,
        stream=settings.stream,
    )
    by_name = {d.metric: d for d in found}
    return Deltas(
        {key: by_name[m.name] for key, m in areas.items()},
        {key: by_name[m.name] for key, m in risks.items()},
        common,
        {key: by_name[m.name] for key, m in shared.items()},
    )
