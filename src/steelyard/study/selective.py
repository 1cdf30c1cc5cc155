"""selective(): one run, or two on the same participants, ranked by one or more confidence variants → Selection.

Every number is a metric of the curve family with a plain percentile interval, participants resampled whole. Who counts
is settled in `participants.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from steelyard.confidence import signals
from steelyard.confidence.by_name import calibrator_of, is_calibrated, named
from steelyard.confidence.by_name import confidence as by_name
from steelyard.confidence.calibrators import Calibrator, Feature
from steelyard.errors import InputError, UsageError, counted, printable
from steelyard.ground.arrays import Progress
from steelyard.metrics.definition import Metric, metric_of
from steelyard.metrics.evidence.kernels import GRID
from steelyard.records.derive import ANSWERED, loss_name, losses
from steelyard.records.table import Records
from steelyard.study.cells import one_cell
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate, listed
from steelyard.study.participants import included, left_out
from steelyard.study.selection import RANK, Deltas, Loss, Reading, Selection
from steelyard.study.warnings import ranked_by_class
from steelyard.uncertainty.number import Estimate
from steelyard.uncertainty.settings import Settings, Stream

AREA_COVERAGE = 0.5
SEEN_SHARE = 0.4  # of rows equal to training rows: above it, no coincidence of answers and signals
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


def selective(
    *runs: Records,
    confidence: Sequence[str] | str | None = None,
    loss: str | None = None,
    coverage: Sequence[float] = GRID,
    area_coverage: float = AREA_COVERAGE,
    calibrators: Sequence[Calibrator] = (),
    allow_in_sample: bool = False,
    allow_other_scale: bool = False,
    intersection_only: bool = False,
    resamples: int = 10_000,
    seed: int = 42,
    stream: Stream = "counter",
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Selection:
    """Risk against coverage of one run, or of two paired ones.

    confidence         variants by name, `default` (llm), `all` (every one whose signals are there); by default llm, or
                       the column `confidence` of a table that lacks the signal of llm
    loss               abs, abs_norm or zero_one; by default abs for numbers, zero_one for labels
    coverage           where the risk is read off; area_coverage is where the truncated areas end
    calibrators        what calibrated variants go through; refused on rows they were fitted on unless allow_in_sample,
                       and on features that lie elsewhere than in training unless allow_other_scale
    intersection_only  two runs with different participants: compare those that both have

    >>> import steelyard as sy
    >>> said = {"target": ["a"] * 4, "prediction": ["a", "a", "a", "b"], "confidence": [0.9, 0.8, 0.7, 0.6]}
    >>> records = sy.Records.from_columns({"item": [1, 2, 3, 4], **said})
    >>> sy.selective(records, confidence="confidence", resamples=0)
    Selection: one run, 4 items, loss zero_one
      confidence: aurc 0.03125
    """
    if len(runs) not in (1, 2):
        raise UsageError("selective takes one run, or two to compare")
    for run in runs:
        one_cell(run)
    settings = settings or Settings(resamples=resamples, seed=seed, method="plain", stream=stream)
    question = _question(runs, loss, coverage, area_coverage, settings)
    asked, lacking = _asked(runs, _ranking(runs) if confidence is None else listed(confidence), calibrators)
    used = {name: calibrator_of(name, calibrators) for name in asked if is_calibrated(name)}
    sides = [""] if len(runs) == 1 else ["left: ", "right: "]
    warnings = [f"{side}{w}" for side, run in zip(sides, runs, strict=True) for w in (*run.warnings, *left_out(run))]
    for name, calibrator in used.items():
        for side, run in zip(sides, runs, strict=True):
            warnings += [f"{side}{name}: {w}" for w in _seen(run, calibrator, allow_in_sample)]
            if not allow_other_scale:
                calibrator.check_scale(run)
    idle = [printable(c.name) for c in calibrators if all(c is not other for other in used.values())]
    warnings += [f"not used: the calibrator {name}" for name in idle]
    if "confidence" in asked:
        for side, run in zip(sides, runs, strict=True):
            warnings += [f"{side}{w}" for w in ranked_by_class(run)]
    tables, population, overlap = included(runs, intersection_only)
    readings: dict[str, tuple[Reading, ...]] = {}
    deltas: dict[str, Deltas] = {}
    for done, name in enumerate(asked):
        pair = [_ranked(table, name, calibrators) for table in tables]
        judged = name in used and used[name].target == "correctness"
        readings[name] = tuple(_reading(table, question, judged=judged) for table in pair)
        if overlap is not None and overlap.included:
            deltas[name] = _deltas(pair, readings[name], question)
        if progress is not None:
            progress((done + 1) / len(asked))
    for place, side in enumerate(sides):
        warnings += [f"{side}{w}" for w in _plateaus({name: own[place] for name, own in readings.items()})]
    if overlap is not None and not overlap.included:
        warnings.append("no participant succeeded in both runs: nothing can be compared")
    return Selection(
        sources=tuple(run.sources for run in runs),
        modes=tuple(run.only("strategy") for run in runs),
        population=population,
        loss=question.loss,
        range=question.width,
        settings=question.settings,
        area_coverage=area_coverage,
        readings=readings,
        deltas=deltas,
        overlap=overlap,
        lacking=lacking,
        calibrators=used,
        warnings=tuple(warnings),
    )


@dataclass(frozen=True, kw_only=True)
class _Question:
    """What is asked of every variant: the loss, the coverages, and how intervals are made."""

    loss: Loss
    width: float | None
    coverages: Mapping[str, float]
    area_coverage: float
    settings: Settings

    def metric(self, head: str, **more: float) -> Metric:
        return curve_metric(head, self.loss.name, self.width, **more)

    @property
    def areas(self) -> dict[str, Metric]:
        whole = {key: self.metric(head) for key, head in AREAS.items()}
        return whole | self.areas_up_to(self.area_coverage)

    def areas_up_to(self, c: float) -> dict[str, Metric]:
        return {key: self.metric(head, c=c) for key, head in TRUNCATED.items()}

    @property
    def risks(self) -> dict[str, Metric]:
        return {key: self.metric("risk_at", c=c) for key, c in self.coverages.items()}


def _question(
    runs: Sequence[Records], loss: str | None, coverage: Sequence[float], area_coverage: float, settings: Settings
) -> _Question:
    if not 0 < area_coverage <= 1:
        raise UsageError("the area's coverage is above 0 and at most 1")
    width = _range(runs)
    used = _loss(runs[0], loss, width)
    for run in runs:
        if "target" not in run and (used.name != "zero_one" or not {"mark", "correct"} & {*run.stated}):
            raise InputError(run.lacks("target", "this"), file=run.name)
    return _Question(
        loss=used,
        width=width,
        coverages=coverage_keys(coverage),
        area_coverage=area_coverage,
        settings=settings,
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


def _ranking(runs: Sequence[Records]) -> list[str]:
    """What ranks where nobody says: the documented default, else the column `confidence` of a plain table."""
    plain = any(signals.lacking(run, signals.DEFAULT) for run in runs) and all("confidence" in run for run in runs)
    return ["confidence" if plain else signals.DEFAULT]


def _asked(
    runs: Sequence[Records], names: Sequence[str], calibrators: Sequence[Calibrator]
) -> tuple[list[str], dict[str, list[str]]]:
    """The variants in the order asked for, and those that `all` leaves out with what they lack."""
    variants: dict[str, None] = {}
    lacking: dict[str, list[str]] = {}
    for name in names:
        if name == "default":
            variants[signals.DEFAULT] = None
        elif name == "all":
            known, alike = named(calibrators)
            for each in (*signals.variants, *known):
                needs = known[each].features if each in known else None
                missing = dict.fromkeys(
                    n for run in runs for n in (_unreadable(run, needs) if needs else _unusable(run, each))
                )
                if missing:
                    lacking[each] = list(missing)
                else:
                    variants[each] = None
            lacking |= {printable(c.name): ["a name of its own: another calibrator is called the same"] for c in alike}
        elif name:
            variants[name] = None
    if not variants and not lacking:
        raise UsageError("name at least one confidence")
    if not variants:
        raise InputError("the table has no signal.* columns that a confidence variant reads", file=runs[0].name)
    return list(variants), lacking


def _unreadable(run: Records, features: Sequence[Feature]) -> list[str]:
    """The columns of a calibrator's features that are absent."""
    return [column for feature in features for column in feature.columns if column not in run]


def _unusable(run: Records, name: str) -> list[str]:
    """The signals of a variant that are absent, or null where an answer needs them."""
    variant = signals.variants[name]
    absent = signals.lacking(run, name)
    present = [need for need in variant.needs if need not in absent and need not in variant.nullable]
    answered = run.outcome == ANSWERED
    return absent + [need for need in present if np.asarray(run.column(f"signal.{need}").is_null())[answered].any()]


def _seen(run: Records, calibrator: Calibrator, allowed: bool) -> list[str]:
    """Refuse a calibrator on the rows it was fitted on (unless asked for), and warn of what comes near."""
    own = calibrator.seen_rows(run)
    several = own > SEEN_SHARE * min(int((run.outcome == ANSWERED).sum()), calibrator.provenance.n)
    if several and not allowed:
        raise InputError(
            f"{own} of these rows trained the calibrator ({printable(calibrator.name)}); in sample every calibrator "
            "looks good. Judge it on other rows, or say `allow_in_sample=True`",
            file=run.name,
        )
    flatter = "; the numbers are in-sample and flatter it" if several else ""
    warnings = [f"{counted(own, 'row')} equal to training rows of the calibrator{flatter}"] if own else []
    known = calibrator.seen_participants(run)
    if known and not several:
        warnings.append(f"{known} of these participants are in its training rows too")
    trained, here = calibrator.provenance.mode, run.only("strategy")
    if trained and here and trained != here:
        warnings.append(f"fitted on {printable(trained)}, applied to {printable(here)}")
    return warnings


def _ranked(records: Records, name: str, calibrators: Sequence[Calibrator]) -> Records:
    values = by_name(records, name, calibrators)
    return records.with_columns({RANK: pa.array(values, mask=np.isnan(values))})


def _reading(records: Records, question: _Question, *, judged: bool) -> Reading:
    areas, risks = question.areas, question.risks
    settings = question.settings
    estimates = list(
        evaluate(
            records,
            [*areas.values(), *risks.values()],
            resamples=settings.resamples,
            seed=settings.seed,
            method=settings.method,
            stream=settings.stream,
        )
    )
    return Reading(
        records,
        dict(zip(areas, estimates, strict=False)),
        dict(zip(risks, estimates[len(areas) :], strict=True)),
        _calibration(records, settings) if judged else {},
    )


def _calibration(records: Records, settings: Settings) -> dict[str, Estimate]:
    """How far a calibrated confidence can be taken at its word, with intervals of each metric's own family."""
    table = records.with_columns({"confidence": records.column(RANK)})
    resamples = settings.resamples
    return {e.metric: e for e in evaluate(table, CALIBRATION, resamples=resamples, seed=settings.seed)}


def _plateaus(readings: Mapping[str, Reading]) -> list[str]:
    """Warnings about variants that rank nothing, or whose curves are not equally fine: AURC is kind to few points."""
    points = {name: len(r.curve["coverage"]) for name, r in readings.items() if r.estimates["aurc_full"].n > 1}
    flat = [name for name, count in points.items() if count == 1]
    warnings = [
        f"{name} ranks nothing: every answer has the same confidence; check the signal's scale" for name in flat
    ]
    points = {name: count for name, count in points.items() if count > 1}
    if points and min(points.values()) < 0.9 * max(points.values()):
        few, many = min(points, key=points.__getitem__), max(points, key=points.__getitem__)
        warnings.append(
            f"{few} has {points[few]} working points and {many} {points[many]}: AURC favours the coarser, "
            "compare variants by AUGRC or aurc(ties=exact)"
        )
    return warnings


def _deltas(pair: Sequence[Records], readings: Sequence[Reading], question: _Question) -> Deltas:
    areas, risks, settings = question.areas, question.risks, question.settings
    common = min(max(r.curve["coverage"], default=0.0) for r in readings)
    shared = question.areas_up_to(common) if common else {}
    left, right = pair
    comparison = compare(
        left,
        right,
        [*areas.values(), *risks.values(), *shared.values()],
        resamples=settings.resamples,
        seed=settings.seed,
        method=settings.method,
        stream=settings.stream,
    )
    by_metric = {d.metric: d for d in comparison}
    return Deltas(
        {key: by_metric[m.name] for key, m in areas.items()},
        {key: by_metric[m.name] for key, m in risks.items()},
        common,
        {key: by_metric[m.name] for key, m in shared.items()},
    )
