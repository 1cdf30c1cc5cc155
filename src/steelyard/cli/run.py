"""`steelyard run`: ask models what a run-spec says; records, a kept and evaluated run."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from steelyard.cli.command import Shown, as_options, command, say
from steelyard.cli.options import asking, store
from steelyard.cli.options.uncertainty import Intervals
from steelyard.errors import UsageError, counted


@command(writes="run-result.json")
def run(
    *,
    spec: asking.Spec,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Say what would be asked and what it would take; ask and write nothing. No key."
        ),
    ] = False,
    show: Annotated[
        str | None, typer.Option("--show", help="With --dry-run, prompts: the exact messages about the first item.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a run of the same spec stopped, or start.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="The same, and ask again what failed before.")
    ] = False,
    forget_replies: Annotated[
        bool, typer.Option("--forget-replies", help="Keep no text of any reply, only what was read of it.")
    ] = False,
    concurrency: asking.Concurrency = None,
    limit: asking.Limit = None,
    max_cost: asking.MaxCost = None,
    group_readable: store.GroupReadable = False,
    uncertainty: Intervals,
    place: store.Place,
) -> Shown:
    """Ask models what a run-spec says, then evaluate, compare and judge their answers; the run is kept.

    Exit codes: 0 every request ended, 4 a model gave no reply or refused the key; a gate in the spec sets 1 or 6.
    """
    from steelyard.cli.asking_line import asking_line, evaluating
    from steelyard.report.plan import plan_report, prompts_report
    from steelyard.report.run import run_report
    from steelyard.runner.run import How, carried_out, prepare
    from steelyard.runner.wire import plan_document, run_result
    from steelyard.runs.layout import share

    if show not in (None, "prompts") or (show and not dry_run):
        raise UsageError("--show takes prompts, and goes with --dry-run")
    file = asking.loaded(spec, concurrency=concurrency, limit=limit, max_cost=max_cost)
    prepared = prepare(
        file, os.environ, root=place.root, tenant=place.tenant, domain=place.domain, say=_say, needs_keys=not dry_run
    )
    if group_readable and not dry_run:
        share(prepared.scope)
    if dry_run:
        plan, shown = prepared.plan, int(show == "prompts")
        report = [*plan_report(plan), *prompts_report(plan, shown)]
        return Shown(document=plan_document(plan, shown), report=report)
    with asking_line() as watch:
        how = How(
            resume=resume,
            retry_failed=retry_failed,
            forget_replies=forget_replies,
            settings=uncertainty.settings,
            watch=watch,
            progress=evaluating(),
            say=_say,
            command=("steelyard", *sys.argv[1:]),
            labels=store.matrix_labels(),
        )
        done = carried_out(prepared, how)
    _say(f"asked {counted(sum(tally.done for tally in done.tallies.values()), 'request')} in {done.seconds:.1f} s")
    if done.folder is not None:
        kept = "what was read of its replies is" if forget_replies else "its replies are"
        _say(f"saved run {done.run_id} in {done.folder}; {kept} in {done.journal}, the cache is {done.cache}")
    for problem in done.problems:
        _say(f"error: {problem}")
    return Shown(document=run_result(done), report=lambda: run_report(done), exit_code=done.exit_code)


def _say(message: str) -> None:
    say(as_options(message))
