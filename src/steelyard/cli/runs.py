"""`steelyard runs`: what was kept, which is best, which is active."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli import options
from steelyard.cli import store_options as store
from steelyard.errors import InputError, StorageError, UsageError, printable

app = typer.Typer(no_args_is_help=True, help="Runs that were kept: list, compare, promote, roll back.")
RunId = Annotated[str, typer.Argument(help="A run's id, or the beginning of it.")]
Workflow = Annotated[str | None, typer.Option("--workflow", help="Only runs of this workflow.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, for the history.")]


@app.command("list")
def list_(
    workflow: Workflow = None,
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="The runs of every tenant, and of none.")] = False,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """List the runs, the newest first, with their main numbers and what is active; unusable folders are named below."""
    options.check_format(format_, store=True)
    from steelyard.report.runs import list_report, listed_document
    from steelyard.runs.index import Index
    from steelyard.runs.pointers import standing

    if all_tenants and tenant is not None:
        raise UsageError("--all-tenants looks at every tenant; leave --tenant out")
    view = store.view(root, tenant, domain)
    with Index.within(view, all_tenants=all_tenants) as index:
        runs, problems = index.runs(workflow=workflow), index.problems()
    active, broken = standing(runs)
    problems = [*problems, *broken]
    options.show(listed_document(runs, problems, active), list_report(runs, problems, active), format_, None)


@app.command()
def show(
    run: RunId,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Show one run: what it is, its numbers with intervals; its files are verified."""
    options.check_format(format_, store=True)
    from steelyard.report.runs import run_report
    from steelyard.runs.run_json import run_document
    from steelyard.runs.saved import Opened

    with _index(root, tenant, domain) as index:
        opened = Opened.at(index.find(run).folder)
    opened.verify()
    options.show(run_document(opened.run), run_report(opened), format_, None)


@app.command()
def compare(
    metric: Annotated[str, typer.Option("--metric", "-m", help="The metric's key, such as ndcg@3.")],
    top: Annotated[int, typer.Option("--top", help="How many to show.")] = 20,
    against: Annotated[str | None, typer.Option("--against", help="A run's id: paired deltas against it.")] = None,
    workflow: Workflow = None,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Sort runs by a metric, the better first, with intervals and paired deltas where the data match."""
    options.check_format(format_, store=True)
    from steelyard.ground.json import plain
    from steelyard.report.runs import ranking_report, standing_document
    from steelyard.runs.standing import compared, direction, known_key, ranked, reference_of

    if top < 1:
        raise UsageError("--top is at least 1")
    with _index(root, tenant, domain) as index:
        runs = index.runs(workflow=workflow)
        reference = index.find(against) if against else None
        metric = known_key(runs, metric, cells=True)
    rows = compared(ranked(runs, metric), metric, reference)
    better = direction(metric, runs)
    shown = reference or (reference_of(rows) if any(row.delta is not None for row in rows) else None)
    document = {
        "metric": metric,
        "better": better,
        "against": shown.run_id if shown else None,
        "runs": [standing_document(row) for row in rows[:top]],
    }
    options.show(plain(document), ranking_report(rows[:top], metric, shown, better), format_, None)


@app.command()
def best(
    metric: Annotated[str, typer.Option("--metric", "-m", help="The metric's key.")],
    workflow: Workflow = None,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """The best complete run by a metric. The best of many is optimistic, and this says so."""
    options.check_format(format_, store=True)
    from steelyard.report.document import Note, Table, number
    from steelyard.runs.standing import candidates, known_key

    with _index(root, tenant, domain) as index:
        runs = index.runs(workflow=workflow)
        metric = known_key(runs, metric)
        order = candidates(runs, metric)
    if not order:
        raise InputError(f"no complete run has a value of {printable(metric)}")
    first, value = order[0].run, order[0].value
    judged = order[0].judged
    note = f"the best of {len(order)} runs is optimistic: part of its lead is chance" if len(order) > 1 else ""
    document = {
        "metric": metric,
        "run_id": first.run_id,
        "workflow": first.workflow,
        "value": value,
        "judged": judged,
        "of": len(order),
        "note": note,
    }
    row = (
        first.run_id,
        first.workflow,
        metric,
        number(value),
        "" if judged is None else number(judged),
        str(len(order)),
    )
    columns = ("run", "workflow", "metric", "value", "up to common cmax", "of runs")
    report = [Table(columns, (row,), frozenset({"value", "of runs"})), *([Note(note)] if note else [])]
    options.show(document, report, format_, None)


@app.command()
def decide(
    metric: Annotated[str, typer.Option("--metric", "-m", help="The metric's key.")],
    eps: Annotated[float, typer.Option("--eps", help="By how much the best must be better.")] = 1e-6,
    point: Annotated[bool, typer.Option("--point", help="Decide by eps alone, with no allowance for chance.")] = False,
    require_significant: Annotated[
        bool, typer.Option("--require-significant", hidden=True, help="What is done anyway.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Promote if that is the decision.")] = False,
    profile: store.Profile = "default",
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Say whether the best run should replace the active one: if better by more than eps, and by more than chance.

    Chance is considered where both runs kept evidence; runs of other tools are decided by eps, and it is said.
    """
    options.check_format(format_, store=True)
    from steelyard.ground.json import plain
    from steelyard.report.runs import choice_report
    from steelyard.runs.pointers import Pointers
    from steelyard.runs.saved import Opened
    from steelyard.runs.standing import PROMOTE, known_key
    from steelyard.runs.standing import decide as chosen

    if point and require_significant:
        raise UsageError("--point and --require-significant contradict each other")
    if require_significant:
        options.say("--require-significant is what is done anyway; --point decides by eps alone")
    scope = store.view(root, tenant, domain).scope()
    with _index(root, tenant, scope.domain) as index:
        runs = index.runs()
        metric = known_key(runs, metric)
    pointers = Pointers(scope)
    pointed = pointers.chosen(metric, profile)
    held = pointers.get(pointed, profile).name
    active = next((run for run in runs if run.name == held), None)
    if held is not None and active is None:
        raise StorageError(f"the active run {printable(held)} cannot be used; promote another by hand, or roll back")
    choice = chosen(runs, metric, active, eps=eps, point=point)
    applied = apply and choice.action == PROMOTE
    if applied:
        candidate = Opened.at(choice.candidate.folder)
        pointers.promote(candidate, pointed, profile, reason=choice.reason, instead_of=held)
    document = {
        "action": choice.action,
        "metric": metric,
        "profile": profile,
        "candidate": choice.candidate.run_id,
        "value": choice.value,
        "active": choice.active_run_id,
        "active_value": choice.active_value,
        "delta": choice.delta,
        "interval": choice.interval,
        "eps": choice.eps,
        "reason": choice.reason,
        "applied": applied,
    }
    options.show(plain(document), choice_report(choice, metric), format_, None)


@app.command()
def promote(
    run: RunId,
    metric: store.MetricOption = None,
    profile: store.Profile = "default",
    reason: Reason = "",
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Make a run active. An incomplete, failed or tampered run is refused."""
    options.check_format(format_, store=True)
    from steelyard.runs.pointers import ANY, Pointers
    from steelyard.runs.saved import Opened
    from steelyard.runs.standing import known_key

    with _index(root, tenant, domain) as index:
        listed = index.find(run)
        pointers = Pointers(listed.scope)
        named = metric if metric in (None, ANY) else known_key([listed, *index.runs()], metric)
    found = pointers.promote(Opened.at(listed.folder), pointers.chosen(named, profile), profile, reason=reason)
    _show_pointer(found, format_)


@app.command()
def pin(
    run: RunId,
    name: Annotated[str, typer.Option("--as", help="The anchor's name: gate with --baseline pinned:NAME.")],
    reason: Reason = "",
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Pin a run as an anchor that gates can compare with, whatever is promoted meanwhile."""
    options.check_format(format_, store=True)
    from steelyard.runs.layout import checked
    from steelyard.runs.pointers import Pointers
    from steelyard.runs.saved import Opened

    with _index(root, tenant, domain) as index:
        listed = index.find(run)
        pointers = Pointers(listed.scope)
    _show_pointer(pointers.pin(Opened.at(listed.folder), checked("anchor", name), reason=reason), format_)


@app.command()
def active(
    metric: store.MetricOption = None,
    profile: store.Profile = "default",
    all_: Annotated[bool, typer.Option("--all", help="Every pointer, of every domain that is not named.")] = False,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Which run is active, for a metric and profile."""
    options.check_format(format_, store=True)
    from steelyard.report.runs import pointer_report
    from steelyard.runs.pointers import Pointers, pointer_document

    view = store.view(root, tenant, domain)
    if all_:
        found = [pointer for scope in view.scopes() for pointer in Pointers(scope).all()]
        report = [part for pointer in found for part in pointer_report(pointer)]
        options.show({"pointers": [_lower(pointer_document(p)) for p in found]}, report, format_, None)
        return
    pointers = Pointers(view.scope())
    _show_pointer(pointers.get(_pointed(pointers, metric, profile, view), profile), format_)


@app.command()
def history(
    metric: store.MetricOption = None,
    profile: store.Profile = "default",
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Every promotion and rollback of a pointer."""
    active(metric, profile, False, tenant, domain, root, format_)


@app.command()
def rollback(
    steps: Annotated[int, typer.Option("--steps", help="How many promotions to go back.")] = 1,
    metric: store.MetricOption = None,
    profile: store.Profile = "default",
    reason: Reason = "",
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Go back to the run that was active before, step by step, as often as asked."""
    options.check_format(format_, store=True)
    from steelyard.runs.pointers import Pointers

    view = store.view(root, tenant, domain)
    pointers = Pointers(view.scope())
    metric = _pointed(pointers, metric, profile, view)
    found = pointers.rollback(metric, profile, steps=steps, reason=reason)
    _show_pointer(found, format_)


@app.command()
def delete(
    run: RunId,
    texts_only: Annotated[
        bool,
        typer.Option(
            "--texts-only",
            help="Remove only the rows that were kept (records.parquet); numbers, labels and groups stay.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Remove a run, or only the rows it kept. A run that is active or pinned is refused."""
    options.check_format(format_, store=True)
    from steelyard.report.document import Note, Table
    from steelyard.runs.deleting import check_free, delete_run, delete_texts, doomed

    listed = doomed(store.view(root, tenant, domain), run)
    check_free(listed)
    name = printable(listed.name)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("nothing was removed: there is no terminal to ask at; add --yes")
        what = f"the rows that run {name} kept" if texts_only else f"run {name}"
        typer.confirm(f"Remove {what}? This cannot be undone", abort=True, err=True)
    removed = delete_texts(listed) if texts_only else delete_run(listed)
    document = {"run_id": listed.run_id, "workflow": listed.workflow, "removed": removed}
    table = Table(("run", "workflow", "removed"), ((listed.run_id, listed.workflow, ", ".join(removed)),))
    options.show(document, [table] if removed else [table, Note("the run kept no rows")], format_, None)


@app.command()
def index(
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Throw the index away and read every folder anew.")
    ] = False,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Bring the index in step with the folders, or make it anew; the folders are the truth."""
    options.check_format(format_, store=True)
    from steelyard.report.document import Note, Table
    from steelyard.runs.index import Index

    view = store.view(root, tenant, domain)
    with options.progress("indexing") as progress, Index.within(view, rebuild=rebuild, progress=progress) as found:
        runs, problems = found.runs(), found.problems()
    document = {"runs": len(runs), "problems": [{"run": p.folder.name, "problem": p.problem} for p in problems]}
    table = Table(("runs", "cannot be used"), ((f"{len(runs):,}", f"{len(problems):,}"),), frozenset({"runs"}))
    options.show(document, [table, *(Note(p.problem) for p in problems)], format_, None)


@app.command()
def metrics(
    pivot: Annotated[bool, typer.Option("--pivot", help="Runs and their cells as rows, metrics as columns.")] = False,
    metric: store.MetricOption = None,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """The table of metrics: a row a number, or pivoted to a row per run and cell."""
    options.check_format(format_, store=True)
    from steelyard.report.document import Table, number
    from steelyard.report.runs import pivot_document, pivot_report
    from steelyard.runs.index import METRIC_COLUMNS

    with _index(root, tenant, domain) as index:
        if pivot:
            names, cells = index.cells()
            names = names if metric is None else [_known(metric, names)]
            document: Any = pivot_document(names, cells)
            report = pivot_report(names, cells) if format_ != "json" else []
        else:
            found = list(index.rows(None if metric is None else _known(metric, index.names())))
            document = {"rows": [dict(zip(METRIC_COLUMNS, row, strict=True)) for row in found]}
            texts = tuple(
                tuple("" if cell is None else number(cell) if isinstance(cell, float) else str(cell) for cell in row)
                for row in found
            )
            report = [Table(METRIC_COLUMNS, texts, frozenset({"value", "low", "high", "n"}))]
    options.show(document, report, format_, None)


@app.command()
def matrix(
    spec: Annotated[Path, typer.Option("--spec", help="YAML with the variants to run.")],
    dry: Annotated[bool, typer.Option("--dry", help="Print the plan and run nothing.")] = False,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Run every variant of a spec, keep logs, then compare and promote as the spec says."""
    options.check_format(format_, store=True)
    from steelyard.report.matrix import matrix_report, plan_report
    from steelyard.report.runs import standing_document
    from steelyard.runner.matrix import load, run
    from steelyard.runner.wire import matrix_document

    plan = load(spec)
    scope = store.scope(root, tenant, domain)
    if dry:
        options.show(plan.document, plan_report(plan), format_, None)
        return
    with options.progress("variants") as progress:
        result = run(plan, scope, dict(os.environ), progress=progress, say=options.say)
    document = matrix_document(result, [standing_document(row) for row in result.rows])
    options.show(document, matrix_report(result), format_, None)
    if not result.succeeded:
        raise typer.Exit(1)


def _index(root: Path | None, tenant: str | None, domain: str | None) -> Any:
    from steelyard.runs.index import Index

    return Index.within(store.view(root, tenant, domain))


def _known(metric: str, names: list[str]) -> str:
    """The metric that is meant, among the names there are."""
    from steelyard.runs.run_json import no_such_key, same_but_case

    found = same_but_case(metric, names)
    if found is None:
        raise no_such_key(metric, names)
    return found


def _pointed(pointers: Any, metric: str | None, profile: str, view: Any) -> str:
    """The metric that a pointer is asked for by; one that neither a pointer nor a run knows is an error."""
    from steelyard.runs.index import Index
    from steelyard.runs.pointers import ANY
    from steelyard.runs.standing import known_key

    named = str(pointers.chosen(metric, profile))
    if metric is None or pointers.get(named, profile).stack or named == ANY:
        return named
    with Index.within(view) as index:
        return known_key(index.runs(), metric)


def _show_pointer(pointer: Any, format_: str) -> None:
    from steelyard.report.runs import pointer_report
    from steelyard.runs.pointers import pointer_document

    options.show(_lower(pointer_document(pointer)), pointer_report(pointer), format_, None)


def _lower(document: dict[str, Any]) -> dict[str, Any]:
    return {
        "metric": document["Metric"],
        "profile": document["Profile"],
        "run_id": document["RunId"],
        "stack": document["Stack"],
        "history": document["History"],
    }
