"""`steelyard runs`: what was kept, which is best, which is active."""

from __future__ import annotations

import os
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
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """List the runs, the newest first; folders that cannot be used are named below."""
    options.check_format(format_, store=True)
    from steelyard.report.runs import list_report, listed_document

    with _index(root) as index:
        runs = index.runs(tenant=store.tenant(tenant), domain=domain, workflow=workflow)
        problems = index.problems()
    options.show(listed_document(runs, problems), list_report(runs, problems), format_, None)


@app.command()
def show(run: RunId, root: store.Root = None, format_: store.Format = "table") -> None:
    """Show one run: what it is, its numbers with intervals; its files are verified."""
    options.check_format(format_, store=True)
    from steelyard.report.runs import run_report
    from steelyard.runs.keeping import Opened
    from steelyard.runs.run_json import run_document

    with _index(root) as index:
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
    from dataclasses import asdict

    from steelyard.report.runs import ranking_report
    from steelyard.runs.artifact import plain
    from steelyard.runs.ranking import compared, direction, ranked, reference_of

    if top < 1:
        raise UsageError("--top is at least 1")
    with _index(root) as index:
        runs = index.runs(tenant=store.tenant(tenant), domain=domain, workflow=workflow)
        reference = index.find(against) if against else None
    rows = compared(ranked(runs, metric), metric, reference)
    better = direction(metric, runs)
    shown = reference or (reference_of(rows) if any(row.delta is not None for row in rows) else None)
    named = shown.run_id if shown else None
    document = {
        "metric": metric,
        "better": better,
        "against": named,
        "runs": [
            {
                "run_id": row.run.run_id,
                "workflow": row.run.workflow,
                **{k: v for k, v in asdict(row).items() if k != "run"},
            }
            for row in rows[:top]
        ],
    }
    options.show(plain(document), ranking_report(rows[:top], metric, named, better), format_, None)


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
    from steelyard.report.document import Note, number
    from steelyard.runs.ranking import candidates

    with _index(root) as index:
        order = candidates(index.runs(tenant=store.tenant(tenant), domain=domain, workflow=workflow), metric)
    if not order:
        raise InputError(f"no complete run has a value of {printable(metric)}")
    first, value = order[0].run, order[0].value
    judged = order[0].judged
    note = f"the best of {len(order)} runs is optimistic: part of its lead is chance" if len(order) > 1 else ""
    document = {
        "metric": metric,
        "run_id": first.run_id,
        "value": value,
        "judged": judged,
        "of": len(order),
        "note": note,
    }
    report = [
        Note(f"{first.run_id}  {first.workflow}  {metric} {number(value)}"),
        *([Note(note)] if note else []),
    ]
    options.show(document, report, format_, None)


@app.command()
def decide(
    metric: Annotated[str, typer.Option("--metric", "-m", help="The metric's key.")],
    eps: Annotated[float, typer.Option("--eps", help="By how much the best must be better.")] = 1e-6,
    require_significant: Annotated[
        bool, typer.Option("--require-significant", help="Only if the paired interval excludes 0.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Promote if that is the decision.")] = False,
    profile: store.Profile = "default",
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Say whether the best run should replace the active one: only if better by more than eps."""
    options.check_format(format_, store=True)
    from steelyard.report.runs import choice_report
    from steelyard.runs.artifact import plain
    from steelyard.runs.keeping import Opened
    from steelyard.runs.pointers import Pointers
    from steelyard.runs.ranking import PROMOTE
    from steelyard.runs.ranking import decide as chosen

    with _index(root) as index:
        scope = store.scope_of(index, tenant, domain)
        runs = [run for run in index.runs(domain=scope.domain) if run.tenant == scope.tenant]
        pointers = Pointers(scope)
        held = pointers.get(metric, profile).run_id
        active = next((run for run in runs if run.run_id == held), None)
    if held is not None and active is None:
        raise StorageError(f"the active run {held} cannot be used; promote another by hand, or roll back")
    choice = chosen(runs, metric, active, eps=eps, require_significant=require_significant)
    applied = apply and choice.action == PROMOTE
    if applied:
        candidate = Opened.at(choice.candidate.folder)
        pointers.promote(candidate, metric, profile, reason=choice.reason, instead_of=held)
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
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Make a run active. An incomplete, failed or tampered run is refused."""
    options.check_format(format_, store=True)
    from steelyard.runs.keeping import Opened
    from steelyard.runs.pointers import Pointers

    with _index(root) as index:
        listed = index.find(run)
        pointers = Pointers(listed.scope)
    found = pointers.promote(Opened.at(listed.folder), pointers.chosen(metric, profile), profile, reason=reason)
    _show_pointer(found, format_)


@app.command()
def pin(
    run: RunId,
    name: Annotated[str, typer.Option("--as", help="The anchor's name: gate with --baseline pinned:NAME.")],
    reason: Reason = "",
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Pin a run as an anchor that gates can compare with, whatever is promoted meanwhile."""
    options.check_format(format_, store=True)
    from steelyard.runs.keeping import Opened
    from steelyard.runs.layout import checked
    from steelyard.runs.pointers import Pointers

    with _index(root) as index:
        listed = index.find(run)
        pointers = Pointers(listed.scope)
    _show_pointer(pointers.pin(Opened.at(listed.folder), checked("anchor", name), reason=reason), format_)


@app.command()
def active(
    metric: store.MetricOption = None,
    profile: store.Profile = "default",
    all_: Annotated[bool, typer.Option("--all", help="Every pointer of every scope.")] = False,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Which run is active, for a metric and profile."""
    options.check_format(format_, store=True)
    from steelyard.report.runs import pointer_report
    from steelyard.runs.layout import scopes
    from steelyard.runs.pointers import Pointers, pointer_document

    if all_:
        found = [pointer for scope in scopes(store.root(root)) for pointer in Pointers(scope).all()]
        report = [part for pointer in found for part in pointer_report(pointer)]
        options.show({"pointers": [_lower(pointer_document(p)) for p in found]}, report, format_, None)
        return
    with _index(root) as index:
        pointers = Pointers(store.scope_of(index, tenant, domain))
    _show_pointer(pointers.get(pointers.chosen(metric, profile), profile), format_)


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

    with _index(root) as index:
        pointers = Pointers(store.scope_of(index, tenant, domain))
    found = pointers.rollback(pointers.chosen(metric, profile), profile, steps=steps, reason=reason)
    _show_pointer(found, format_)


@app.command()
def index(
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Throw the index away and read every folder anew.")
    ] = False,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Bring the index in step with the folders, or make it anew; the folders are the truth."""
    options.check_format(format_, store=True)
    from steelyard.report.document import Note
    from steelyard.runs.index import Index

    with options.progress("indexing") as progress, Index(store.root(root), rebuild=rebuild, progress=progress) as found:
        runs, problems = found.runs(), found.problems()
    document = {"runs": len(runs), "problems": [{"run": p.folder.name, "problem": p.problem} for p in problems]}
    report = [Note(f"{len(runs):,} runs, {len(problems):,} folders that cannot be used")]
    options.show(document, [*report, *(Note(p.problem) for p in problems)], format_, None)


@app.command()
def metrics(
    pivot: Annotated[bool, typer.Option("--pivot", help="Runs as rows, metrics as columns.")] = False,
    metric: store.MetricOption = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """The table of metrics: a row a number, or pivoted."""
    options.check_format(format_, store=True)
    from steelyard.report.document import Table, number
    from steelyard.report.runs import pivot_report
    from steelyard.runs.index import METRIC_COLUMNS

    with _index(root) as index:
        if pivot:
            names, rows = index.pivot()
            document: Any = {
                "metrics": names,
                "runs": [{"run_id": run, "values": values} for run, values in rows],
            }
            report = pivot_report(names, rows) if format_ != "json" else []
        else:
            found = list(index.rows(metric))
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
    from steelyard.report.matrix import matrix_document, matrix_report, plan_report
    from steelyard.runs.matrix import load, run

    plan = load(spec)
    scope = store.scope(root, tenant, domain)
    if dry:
        options.show(plan.document, plan_report(plan), format_, None)
        return
    with options.progress("variants") as progress:
        result = run(plan, scope, dict(os.environ), progress=progress, say=options.say)
    options.show(matrix_document(result), matrix_report(result), format_, None)
    if not result.succeeded:
        raise typer.Exit(1)


def _index(root: Path | None) -> Any:
    from steelyard.runs.index import Index

    return Index(store.root(root))


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
