"""run(): a run-spec → questions asked, records, a kept and evaluated run.

    run = sy.run("spec.yaml")
    run.records, run.evaluation, run.comparisons, run.decision, run.folder

The runner makes records and scores nothing: what is said of them is what `evaluate`, `compare` and a gate say.
Everything that can be checked is checked before the first question. What was answered is in the journal at once: a run
that was stopped goes on with `resume=True`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from steelyard.errors import BackendError, SteelyardError, UsageError, counted, printable
from steelyard.ground.arrays import Progress
from steelyard.ground.journal import Journal, Rows
from steelyard.ground.keys import is_variable
from steelyard.ground.loops import Loop
from steelyard.runner.asking import Asking, Tallies, opened_backends, without_texts
from steelyard.runner.backends import Backend
from steelyard.runner.cache import ReplyCache
from steelyard.runner.energy import Meter, meter_of
from steelyard.runner.folders import RunningFolder, begun, cache_of, check_room, last, newest
from steelyard.runner.plan import Plan, planned
from steelyard.runner.recorded import Standing, recorded
from steelyard.runner.rehearsal import rehearse
from steelyard.runner.spec import RunSpec, SpecFile, load_spec, variable_of
from steelyard.runs.environment import domain_of, root_of, tenant_of
from steelyard.runs.layout import DOMAIN, Scope, View, checked

if TYPE_CHECKING:
    from steelyard.decide.decision import Decision
    from steelyard.decide.request import Judgement
    from steelyard.records.table import Records
    from steelyard.runs.saved import Clock
    from steelyard.study.results import Comparison, Evaluation
    from steelyard.uncertainty.settings import Settings

WORKFLOW = "run"
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run that was asked and evaluated. `folder` is where it is kept, None for one that is not complete.

    `problems` say why it is not complete, or which model gave no reply at all; then `failed` is true.
    """

    run_id: str
    spec: RunSpec
    records: Records
    evaluation: Evaluation
    comparisons: Mapping[tuple[str, str], Comparison]
    judgement: Judgement | None
    tallies: Tallies
    seconds: float
    is_complete: bool
    problems: tuple[str, ...]
    folder: Path | None
    journal: Path
    cache: Path
    reparsed_from: str | None = None  # the run whose replies were read again

    @property
    def decision(self) -> Decision | None:
        """What the spec's gate decided, None where it has none."""
        return None if self.judgement is None else self.judgement.decision

    @property
    def failed(self) -> bool:
        """True if something went wrong that the problems name."""
        return bool(self.problems)

    @property
    def exit_code(self) -> int:
        """What the command line ends with: 4 where models gave no answers, else what the gate says."""
        if self.failed:
            return BackendError.exit_code
        return 0 if self.judgement is None else self.judgement.decision.exit_code


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A spec of which everything was checked: its plan, its backends, and where the run goes."""

    plan: Plan
    backends: Mapping[str, Backend]
    scope: Scope
    workflow: str = WORKFLOW
    meter: Meter | None = None


@dataclass(frozen=True, kw_only=True)
class How:
    """How a prepared run is carried out. `command` is what its manifest says that it was started with."""

    resume: bool = False
    retry_failed: bool = False
    forget_replies: bool = False
    settings: Settings | None = None
    watch: Callable[[Tallies], None] | None = None
    progress: Progress | None = None  # of evaluating and comparing, from 0 to 1 each time
    say: Say = lambda _: None
    command: tuple[str, ...] = ("steelyard.run",)
    labels: Mapping[str, str] = field(default_factory=dict)  # what the run can be found by, besides what the spec says
    reparsed_from: str | None = None


def run(
    spec: Path | str | Mapping[str, object],
    *,
    resume: bool = False,
    retry_failed: bool = False,
    forget_replies: bool = False,
    concurrency: int | None = None,
    limit: int | None = None,
    max_cost: float | None = None,
    root: Path | str | None = None,
    tenant: str | None = None,
    domain: str | None = None,
    settings: Settings | None = None,
    environment: Mapping[str, str] | None = None,
    say: Say = lambda _: None,
) -> Run:
    """Ask what a run-spec says, and evaluate, compare and judge the answers. The run is kept under `root`.

    `resume=True` goes on where a run of the same spec stopped, or starts; `retry_failed=True` does too, and asks again
    what failed. `forget_replies=True` keeps no texts. `concurrency`, `limit`, how many items, and `max_cost`, after
    which nothing more is asked, win over the spec. Keys are looked up in `environment`, by default the process's own.
    `say` is told what happens.
    """
    file = load_spec(spec, concurrency=concurrency, limit=limit, max_cost=max_cost)
    known = os.environ if environment is None else environment
    prepared = prepare(file, known, root=root, tenant=tenant, domain=domain, say=say)
    how = How(resume=resume, retry_failed=retry_failed, forget_replies=forget_replies, settings=settings, say=say)
    return carried_out(prepared, how)


def prepare(
    file: SpecFile,
    environment: Mapping[str, str],
    *,
    root: Path | str | None = None,
    tenant: str | None = None,
    domain: str | None = None,
    say: Say = lambda _: None,
    needs_keys: bool = True,
) -> Prepared:
    """Check everything that can be known before the first question: keys, files, columns, folders, disk."""
    save = file.spec.save
    if not needs_keys:
        named = [name for model in file.spec.models if (name := variable_of(model)) and is_variable(name, environment)]
        environment = {**environment, **{name: environment.get(name) or "none" for name in named}}
    scope = Scope(
        root_of(None if root is None else Path(root), environment, say),
        domain or save.domain or domain_of(None, environment) or DOMAIN,
        tenant_of(tenant or save.tenant, environment, say),
    )
    plan = planned(file)
    opened = opened_backends(plan, environment)
    meter = meter_of(file)
    workflow = checked("workflow", save.workflow or environment.get("STEELYARD_WORKFLOW") or WORKFLOW)
    check_room(scope, plan)
    rehearse(plan)
    _ = plan.digest  # every message is rendered for it
    return Prepared(plan=plan, backends=opened, scope=scope, workflow=workflow, meter=meter)


def carried_out(prepared: Prepared, how: How) -> Run:
    """Ask, evaluate, keep."""
    from steelyard.runs.saved import Clock

    if how.forget_replies and prepared.plan.spec.keep_replies:
        raise UsageError("the spec has keep_replies: true, and `forget_replies=True` keeps none; leave one out")
    clock, place = Clock(), _place(prepared, how)
    asking = _asked(prepared, place, cache_of(prepared.scope), how)
    standing = Standing.of(prepared.plan, place.journal)
    try:
        run = concluded(prepared, place, standing, _problems(asking, standing), clock, how)
    except SteelyardError:  # as where the replies cannot give a metric, which no rehearsal foresaw
        if standing.done:
            how.say(_how_to_resume(standing))
        else:
            place.remove()
        raise
    if not standing.is_complete:
        how.say(_how_to_resume(standing, " and a higher `max_cost=`" if asking.spent else ""))
    return run


def concluded(
    prepared: Prepared, place: RunningFolder, standing: Standing, problems: tuple[str, ...], clock: Clock, how: How
) -> Run:
    """Evaluate and keep what was asked, as far as it got."""
    plan, scope = prepared.plan, prepared.scope
    if next(standing.answers(), None) is None:
        raise BackendError("; ".join(problems) or "no request has ended")
    records = recorded(standing)
    how.say(f"evaluating {counted(len(records), 'answer')}")
    try:
        evaluation, comparisons = _evaluated(plan, records, how)
    except SteelyardError:  # nothing can be said of no reply, whatever was asked
        if any(tally.replied for tally in standing.tallies.values()):
            raise
        raise BackendError("; ".join(problems)) from None
    judgement, unjudged = _judged(plan, records, scope, problems) if standing.is_complete else (None, ())
    return Run(
        run_id=place.run_id,
        spec=plan.spec,
        records=records,
        evaluation=evaluation,
        comparisons=comparisons,
        judgement=judgement,
        tallies=standing.tallies,
        seconds=sum(standing.seconds.values()),
        is_complete=standing.is_complete,
        problems=(*problems, *unjudged),
        folder=_kept(prepared, place, (evaluation, records), clock, how) if standing.is_complete else None,
        journal=place.journal,
        cache=cache_of(scope),
        reparsed_from=how.reparsed_from,
    )


def _place(prepared: Prepared, how: How) -> RunningFolder:
    """The folder of the run that is taken up again, or of a new one."""
    plan, scope = prepared.plan, prepared.scope
    found = None
    if how.resume or how.retry_failed:
        found = newest(scope, plan)
    if found is None:
        if how.resume or how.retry_failed:
            how.say(_why_anew(last(scope, plan)))
        return begun(scope, plan)
    if found.is_finished and not (how.retry_failed and Standing.of(plan, found.journal).failed):
        how.say(f"run {found.run_id} is complete: nothing is missing, and nothing is asked")
        return found
    if not found.is_finished:
        how.say(f"going on with run {found.run_id}")
        if how.forget_replies:
            how.say(
                "note: what it was answered before was kept with its texts; `runs delete` with texts_only removes them"
            )
        return found
    place = begun(scope, plan)
    how.say(f"run {found.run_id} is kept already; what failed there is asked again as run {place.run_id}")
    with Journal(place.journal) as journal:
        for row in Rows(found.journal):
            if "energy" in row or ("key" in row and not row["reply"].get("failure")):
                journal.append(without_texts(row) if how.forget_replies and "key" in row else row)
    return place


def _why_anew(last_one: RunningFolder | None) -> str:
    """Why a run is begun where one was to be taken up again."""
    if last_one is None:
        return "there is no run of this spec yet; one begins"
    ended = "is complete" if last_one.is_finished else "stopped"
    return (
        f"run {last_one.run_id} of this spec {ended}, but its data, prompts or programs were others; a new one begins"
    )


def _asked(prepared: Prepared, place: RunningFolder, cache: Path, how: How) -> Asking:
    """Ask what is left to ask; what was answered is in the journal whatever happens."""
    plan = prepared.plan
    with ExitStack() as open_:
        journal = open_.enter_context(Journal(place.journal))
        standing = Standing.of(plan, place.journal)
        if how.retry_failed and not place.is_finished:
            standing.forget_failed()
        kept = open_.enter_context(ReplyCache(cache))
        asking = Asking(
            plan=plan,
            backends=prepared.backends,
            journal=journal,
            cache=kept,
            is_done=standing.is_done,
            tallies=standing.tallies,
            session=standing.sessions + 1,
            in_doubt=place.killed(standing.sessions) * plan.spec.limits.concurrency,
            keeps_texts=not how.forget_replies,
            watch=how.watch,
            meter=prepared.meter,
        )
        if standing.is_complete:
            return asking
        said_before = {name: tally.said for name, tally in standing.tallies.items()}
        try:
            with Loop() as loop:
                loop.run(asking.run())
        except BaseException as problem:
            if not isinstance(problem, Exception):
                journal.flush()
                how.say(_how_to_resume(Standing.of(plan, place.journal)))
            raise
        place.end(asking.session)
        for warning in kept.warnings:
            how.say(f"warning: {warning}")
        for name, tally in standing.tallies.items():
            if tally.said and tally.said != said_before.get(name):
                how.say(f"note: {printable(name)}: with the first error of its own, the server said: {tally.said}")
        for backend in {id(each): each for each in prepared.backends.values()}.values():
            for remark, count in backend.counts().items():
                how.say(f"note: {counted(count, 'request')} {'was' if count == 1 else 'were'} {remark}")
    return asking


def _how_to_resume(standing: Standing, more: str = "") -> str:
    ended = "has ended and is" if len(standing.places) == 1 else "have ended and are"
    return (
        f"{standing.done:,} of {counted(len(standing.places), 'request')} {ended} kept in {standing.path}; "
        f"the same command with `resume=True`{more} goes on from there"
    )


def _problems(asking: Asking, standing: Standing) -> tuple[str, ...]:
    """Why a run is not complete, and which models never replied."""
    found = list(dict.fromkeys(asking.broken.values()))
    if asking.spent and not standing.is_complete:
        most = asking.plan.spec.limits.max_cost
        found.append(f"the limit of cost, {most:g}, is reached; nothing more is asked")
    return (*found, *silent_models(standing, asking.broken))


def silent_models(standing: Standing, others: Container[str] = ()) -> tuple[str, ...]:
    """Which models never replied, and why; `others` are spoken of already."""
    found = []
    for name, tally in standing.tallies.items():
        if tally.done and not tally.replied and name not in others:
            (why, _), *_ = tally.failures.most_common(1)
            found.append(f"{printable(name)} gave no reply to any of {counted(tally.done, 'request')}: {why}")
    return tuple(found)


def _judged(
    plan: Plan, records: Records, scope: Scope, problems: Sequence[str]
) -> tuple[Judgement | None, tuple[str, ...]]:
    """What the gate says, or why it can say nothing: where models gave no answers, a rule may ask for theirs."""
    from steelyard.decide.gate import Gate
    from steelyard.decide.request import Request, judge

    if not plan.spec.rules:
        return None, ()
    request = Request(run=records, view=View(scope.root, scope.tenant, scope.domain))
    try:
        return judge(Gate.parse(plan.spec.rules), request), ()
    except UsageError as problem:
        if not problems:
            raise
        return None, (f"the gate cannot be judged: {problem}",)


def _evaluated(plan: Plan, records: Records, asked_how: How) -> tuple[Evaluation, dict[tuple[str, str], Comparison]]:
    """The evaluation, and every two models compared."""
    from steelyard.runner.comparing import compared_models
    from steelyard.study.asking import asked_for
    from steelyard.study.evaluation import evaluate
    from steelyard.study.measure import together

    spec = plan.spec
    how: dict[str, Any] = {"settings": asked_how.settings, "progress": asked_how.progress}
    evaluation = evaluate(records, asked_for(spec.metrics) or None, keep_evidence=True, **how)
    comparisons = {}
    answered = set(records.labels("model").values)
    for base, new in combinations([model.name for model in spec.models if model.name in answered], 2):
        found = compared_models(spec, records, base, new, **how)
        if found is not None:
            comparisons[base, new] = found
    return evaluation, together(comparisons)


def _kept(prepared: Prepared, place: RunningFolder, made: tuple[Evaluation, Records], clock: Clock, how: How) -> Path:
    """Keep a complete run; where it is."""
    from steelyard.runs.manifest import RunManifest
    from steelyard.runs.saved import save

    plan, spec, scope = prepared.plan, prepared.plan.spec, prepared.scope
    folder = scope.run(prepared.workflow, place.run_id)
    if not folder.exists():  # else it was killed right after it was kept
        linked = {} if how.reparsed_from is None else {"reparsed_from": how.reparsed_from}
        manifest = RunManifest(
            command=list(how.command),
            inputs=[source.to_dict() for source in plan.sources],
            shift={},
            settings={"spec": msgspec.to_builtins(spec), "hash": spec.hash, "plan": plan.digest, **linked},
        )
        save(
            scope,
            made[0],
            workflow=prepared.workflow,
            clock=clock,
            labels={"spec": spec.id, "spec_hash": spec.hash, **linked, **how.labels, **spec.save.labels},
            run_id=place.run_id,
            records=made[1],
            manifest=manifest,
        )
    place.finish()
    return folder
