"""A gate is asked for: which run, against which baseline, under which rules. The command and pytest ask alike.

A run is a file of answers, records, a run folder, or a run's id; a baseline may also be `active`, `active:METRIC` or
`pinned:NAME`. A file is gated against a kept run, too. Gates of kept runs are counted: the tenth try on the same data
is no evidence.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from steelyard.decide.decision import Decision
from steelyard.decide.gate import Gate
from steelyard.decide.subject import NumberOptions, against_kept, called, of_records, of_runs
from steelyard.decide.wanted import columns_asked
from steelyard.errors import UsageError
from steelyard.records.in_memory import is_frame
from steelyard.records.readers import read
from steelyard.records.reading import Reading
from steelyard.records.table import Records
from steelyard.records.unit import Unit, likely_unit
from steelyard.runs.attempts import counted, tried
from steelyard.runs.layout import Scope, View, scopes
from steelyard.runs.opening import check_walls, is_answers, looks_like_file, no_file, open_run
from steelyard.runs.pointers import named_run
from steelyard.runs.run_json import NAME
from steelyard.runs.saved import EVIDENCE, SavedRun

Source = str | os.PathLike[str] | Records | SavedRun


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be judged. `reading` says how files are read, `asked` how their numbers are made."""

    run: Source
    baseline: Source | None = None
    versus: tuple[str, str, str] | None = None  # a column and its values of baseline and run, in one file
    view: View
    profile: str = "default"
    reading: Reading = field(default_factory=lambda: Reading())
    asked: NumberOptions = field(default_factory=NumberOptions)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A decision, what it is about, and how often it was tried where that is counted."""

    decision: Decision
    run: str
    baseline: str | None = None
    data: str | None = None
    attempt: int | None = None
    unit: Unit | None = None  # the column that looks like a forgotten cluster, where rows were judged
    record: Callable[[], Any] = lambda: None  # remember the attempt; after what is written about it was written

    @property
    def about(self) -> dict[str, Any]:
        """What to say of it, without what is not known."""
        named = {"run": self.run, "baseline": self.baseline, "data": self.data, "attempt": self.attempt}
        return {k: v for k, v in named.items() if v is not None or k == "baseline"}


def judge(gate: Gate, request: Request) -> Judgement:
    """The decision of a gate."""
    _check_baseline(gate.checked(), request)
    new = _of_answers(request.run, gate, request)
    if new is not None:
        return _judged_records(gate, request, new)
    if request.versus is not None:
        raise UsageError("versus compares two parts of one file of answers, not of a kept run")
    run = open_run(request.run, request.view, "run")
    for_files = {**request.reading, "align": request.asked.align != "strict", "pool": request.asked.pool}
    unusable = next((name for name, given in for_files.items() if given), None)
    if unusable is not None:
        raise UsageError(f"`{unusable}=` is for files of answers; a kept run knows its own")
    baseline = None if request.baseline is None else _baseline(request, _scope(run, request.view))
    gate = called(gate, run)
    decision = gate.check(of_runs(gate, run, baseline, request.asked))
    data = run.data if EVIDENCE in run.run.files else None
    scope = _scope(run, request.view)
    named = None if baseline is None else baseline.run.run_id
    judged = Judgement(decision=decision, run=run.run.run_id, baseline=named, data=data)
    if scope is None:
        return judged
    rules = [str(rule) for rule in gate.rules]
    workflow = "" if baseline is None else baseline.run.workflow
    tries = {"baseline": named or "", "workflow": workflow, "data": data or ""}
    own = {"run": run.run.run_id, "of_workflow": run.run.workflow, "verdict": decision.verdict}
    record = partial(counted, scope, **tries, **own, rules=rules)
    if baseline is None or data is None:
        return replace(judged, record=record)
    return replace(judged, record=record, attempt=tried(scope, **tries, rules=rules) + 1)


def _check_baseline(gate: Gate, request: Request) -> None:
    compares = next((rule for rule in gate.rules if rule.delta), None)
    if compares is not None and request.baseline is None and request.versus is None:
        raise UsageError(f"'{compares}' compares with a baseline, and none was given; name one")
    if request.baseline is not None and request.versus is not None:
        raise UsageError("versus takes the baseline from the same file; leave the other baseline out")


# -- files of answers --------------------------------------------------------------------------------------------------


def _judged_records(gate: Gate, request: Request, new: Records) -> Judgement:
    if request.versus is not None:
        column, old, own = request.versus
        if column not in new:
            raise UsageError(new.lacks(column, "versus"))
        base: Records | None = new.of_run(column, old)
        asked = replace(request.asked, versus=(column,))
        decision = gate.check(of_records(gate, new.of_run(column, own), base, asked))
        return Judgement(
            decision=decision,
            run=f"{_name(request.run)} ({column}={own})",
            baseline=f"{column}={old}",
            unit=likely_unit(new),
        )
    base = None
    if request.baseline is not None:
        base = _of_answers(request.baseline, gate, request)
        if base is None:
            if not isinstance(request.baseline, SavedRun) and looks_like_file(request.baseline):
                raise UsageError(f"the baseline {no_file(request.baseline)}")
            kept = _baseline(request, request.view.scope())
            return Judgement(
                decision=gate.check(against_kept(gate, new, kept, request.asked)),
                run=_name(request.run),
                baseline=kept.run.run_id,
                unit=likely_unit(new),
            )
    decision = gate.check(of_records(gate, new, base, request.asked))
    baseline = None if base is None else _name(request.baseline)
    return Judgement(decision=decision, run=_name(request.run), baseline=baseline, unit=likely_unit(new))


def _of_answers(source: Any, gate: Gate, request: Request) -> Records | None:
    """The records of a file, or those given; None where it is none."""
    if isinstance(source, Records):
        return source
    versus = [] if request.versus is None else [request.versus[0]]
    columns = [*columns_asked(gate), *versus]
    if is_frame(source):
        return read(source, columns=columns, **request.reading)
    if not isinstance(source, str | os.PathLike | SavedRun):
        raise UsageError("a run is a file of answers, a frame, records, a run folder, or a run's id")
    if not isinstance(source, SavedRun):
        check_walls(Path(source), request.view)
    if isinstance(source, SavedRun) or not is_answers(source):
        return None
    return read(source, columns=columns, **request.reading)


def _name(source: Any) -> str:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else "records"


# -- kept runs ---------------------------------------------------------------------------------------------------------


def _scope(run: SavedRun, view: View) -> Scope | None:
    """The scope that a run's folder lies in; None outside the store."""
    return next((s for s in scopes(view.root) if s.runs.resolve() in run.folder.resolve().parents), None)


def _baseline(request: Request, scope: Scope | None) -> SavedRun:
    """The run that a baseline's name means, in this scope."""
    source = request.baseline
    if isinstance(source, str) and os.path.isfile(source) and Path(source).name != NAME:
        raise UsageError("a kept run is gated against a kept run; save both")
    return named_run(source, request.view, "baseline", scope=scope, profile=request.profile)
