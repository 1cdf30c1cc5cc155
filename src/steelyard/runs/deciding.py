"""May the best run by a metric take the place of the active one? If it is better, and by more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from steelyard.errors import InputError, UsageError, printable
from steelyard.records.cautions import FAILURE_MARGIN, USUAL, within
from steelyard.runs.index import RunEntry
from steelyard.runs.metric_keys import direction, expression, metric_of_expression, value_of
from steelyard.runs.pairing import found_delta, is_better, lead_of, paired
from steelyard.runs.saved import EVIDENCE, RECORDS, SavedRun
from steelyard.runs.standing import candidates, sorted_by
from steelyard.study.kept_pairs import KeptSide
from steelyard.study.results import Comparison
from steelyard.uncertainty.number import Delta, Number, barred_by
from steelyard.uncertainty.settings import Settings

PROMOTE, KEEP = "Promote", "KeepActive"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The decision whether a candidate replaces the active run, why, and by how much it is ahead."""

    action: str
    candidate: RunEntry
    value: float
    active_run_id: str | None
    active_value: float | None
    lead: Number  # candidate − active
    eps: float
    reason: str
    warnings: tuple[str, ...] = ()  # what was said of both runs' rows


def decide(
    runs: Sequence[RunEntry],
    key: str,
    active: RunEntry | None,
    *,
    eps: float,
    point: bool = False,
    better: str | None = None,
    settings: Settings | None = None,
) -> Choice:
    """The choice to promote the best run, if it beats the active one by more than eps and by more than chance, or not.

    Chance is considered where both runs kept evidence of the metric; `point` decides by eps alone. `better` is the
    direction of a metric that has none of its own.
    """
    if not eps >= 0:
        raise UsageError("eps is a number of at least 0")
    order = candidates(runs, key, better)
    if not order:
        raise InputError(f"no complete run has a value of {printable(key)}")
    best, value = order[0].run, sorted_by(order[0])
    common = ", by the areas up to the common cmax" if order[0].judged is not None else ""
    choice = Choice(
        action=PROMOTE,
        candidate=best,
        value=value,
        active_run_id=None,
        active_value=None,
        lead=Number(value=0.0),
        eps=eps,
        reason="nothing is active yet",
        warnings=SavedRun.at(best.folder).run.warnings if best.sealed else (),
    )
    if active is None:
        barred = _own(best)
        return replace(choice, action=KEEP, reason=f"{choice.reason}, but {barred}") if barred else choice
    active_value = next((sorted_by(row) for row in order if row.run.path == active.path), value_of(active, key))
    if active_value is None:
        return replace(choice, active_run_id=active.run_id, reason="the active run has no such value")
    kept = replace(choice, action=KEEP, active_run_id=active.run_id, active_value=active_value)
    if best.path == active.path:
        return replace(kept, reason="the best run is active already")
    delta = value - active_value
    kept = replace(kept, lead=Number(value=delta), reason=f"not better by more than eps{common}")
    higher = direction(key, runs, better) == "higher"
    if not (delta if higher else -delta) > eps:
        return kept
    action, reason, lead, said = _against_chance(active, best, key, higher=higher, point=point, settings=settings)
    reason = f"better by more than eps{common}{reason}"
    return replace(kept, action=action, reason=reason, lead=lead or kept.lead, warnings=said or kept.warnings)


def _against_chance(
    active: RunEntry, best: RunEntry, key: str, *, higher: bool, point: bool, settings: Settings | None
) -> tuple[str, str, Number | None, tuple[str, ...]]:
    """What follows for a run that is better by more than eps: the action, why, the paired difference, and warnings."""
    missing = [run for run in (active, best) if not _has_evidence(run, key)]
    if missing and not all(_has_rows(run, key) for run in (active, best)):
        none = "neither run" if len(missing) > 1 else f"run {printable(missing[0].run_id)}"
        kept = "kept evidence" if len(missing) > 1 else "kept no evidence"
        barred = _own(best)
        if barred:
            return KEEP, f", but {barred}", None, ()
        return PROMOTE, f"; decided by eps alone: {none} {kept} of it, so chance is not considered", None, ()
    comparison = paired(SavedRun.at(active.folder), best, key, settings)
    said = () if isinstance(comparison, str) else comparison.warnings
    delta = found_delta(comparison, key)
    barred = _own(best)
    if not barred and not isinstance(comparison, str) and not isinstance(delta, str):
        barred = _between(comparison, delta)
    if barred:
        return KEEP, f", but {barred}", None if isinstance(delta, str) else lead_of(delta), said
    if point:
        return PROMOTE, "; decided by eps alone, as asked: chance is not considered", None, said
    if isinstance(delta, str):
        return KEEP, f", but the runs cannot be paired: {delta}", None, said
    sure = is_better(delta, settings or Settings(), higher=higher)
    reason = ", and by more than chance" if sure else ", but it may be chance"
    return PROMOTE if sure else KEEP, reason, lead_of(delta), said


def _own(run: RunEntry) -> str:
    """Why no confirming rule would pass on the rows of a run, or nothing."""
    evaluation = SavedRun.at(run.folder).evaluation if run.sealed else None
    about = [caution for caution in (evaluation.cautions if evaluation else ()) if not within(caution)]
    return f"{about[0].text}: judge it by a gate that allows it, and promote it by hand" if about else ""


def _between(comparison: Comparison, delta: Delta) -> str:
    """Why no confirming rule would pass on the difference of two runs, or nothing."""
    barred = barred_by(delta.cautions)
    about = [caution for caution in comparison.cautions if not within(caution)]
    failed, rates = comparison.failed_share(delta), comparison.failure_rates
    if barred or about:
        return barred or about[0].text
    if failed > USUAL["failed"]:
        return f"{100 * failed:.3g}% of the pairs failed in either run"
    if rates[1] - rates[0] > FAILURE_MARGIN + 1e-9:
        return f"{100 * rates[1]:.1f}% of its rows failed, {100 * rates[0]:.1f}% before"
    if delta.missing_share > USUAL["missing"]:
        return f"{100 * delta.missing_share:.3g}% of the asked rows lack what it reads"
    return ""


def _has_evidence(run: RunEntry, key: str) -> bool:
    """True if the run kept what a paired difference of this metric needs."""
    if not run.sealed:
        return False
    opened = SavedRun.at(run.folder)
    expr = expression(key)
    metric = None if expr is None else metric_of_expression(expr)
    return metric is not None and EVIDENCE in opened.run.files and any(KeptSide(k).has(metric) for k in opened.kept)


def _has_rows(run: RunEntry, key: str) -> bool:
    """True if the run kept its rows, from which any metric can be paired."""
    expr = expression(key)
    known = expr is not None and metric_of_expression(expr) is not None
    return known and run.sealed and RECORDS in SavedRun.at(run.folder).run.files
