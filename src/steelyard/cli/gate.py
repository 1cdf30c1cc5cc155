"""`steelyard gate`: may this run pass? Exit 0 pass, 1 fail, 6 inconclusive."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli import options
from steelyard.cli import store_options as store
from steelyard.errors import UsageError, printable


def gate(
    run: Annotated[str, typer.Option("--run", help="The run to judge: an id, a run folder, or a file of answers.")],
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", help="active, active:METRIC, pinned:NAME, an id, a run folder, or a file of answers."
        ),
    ] = None,
    rule: Annotated[
        list[str] | None, typer.Option("--rule", help='A rule: "low(delta(accuracy)) >= -0.01". Repeatable.')
    ] = None,
    rules: Annotated[Path | None, typer.Option("--rules", help="A YAML file with rules.")] = None,
    gate_profile: Annotated[
        str | None, typer.Option("--gate-profile", help="Documented rules by name: rank, rank+cosine.")
    ] = None,
    profile: store.Profile = "default",
    cluster: options.Cluster = None,
    task_file: options.TaskFile = None,
    align: Annotated[str, typer.Option("--align", help="Files only: strict or intersection.")] = "strict",
    unchanged: options.Unchanged = "say",
    resamples: options.Resamples = 10_000,
    seed: options.Seed = 42,
    junit: Annotated[Path | None, typer.Option("--junit", help="A file for JUnit XML.")] = None,
    summary: Annotated[Path | None, typer.Option("--summary", help="A file for a Markdown summary.")] = None,
    output: Annotated[Path | None, typer.Option("--output", help="A file for acceptance_gate.json.")] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Print annotations for GitHub; on by itself inside GitHub Actions.")
    ] = False,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: store.Format = "table",
) -> None:
    """Judge a run by rules about its metrics and its paired deltas against a baseline."""
    options.check_format(format_, store=True)
    from steelyard.decide.gate import Gate
    from steelyard.decide.rules_file import GateRules, load_rules
    from steelyard.report import markdown
    from steelyard.report.gate import acceptance_document, gate_report, github_commands
    from steelyard.report.gate import junit as junit_text
    from steelyard.runs.store import write_atomic

    loaded = load_rules(rules) if rules is not None else GateRules()
    held = baseline or loaded.baseline
    for written in (output, junit, summary):
        options.check_output(written, [run, *([held] if held else []), *([str(rules)] if rules else [])])
    options.allow_plugins([*(rule or []), *loaded.rules])
    parts = [Gate.profile(gate_profile)] if gate_profile else []
    parts += [Gate.parse(rule)] if rule else []
    try:
        parts += [Gate.profile(loaded.profile)] if loaded.profile else []
        parts += [Gate.parse(loaded.rules)] if loaded.rules else []
    except UsageError as problem:
        raise UsageError(f"{printable(rules)}: {problem}") from None
    if not parts:
        raise UsageError("a gate needs rules: --rule, --rules or --gate-profile")
    whole = Gate(tuple(r for part in parts for r in part.rules))
    files = {"cluster": cluster, "task_file": task_file, "align": align, "resamples": resamples, "seed": seed}
    files["unchanged"] = options.check_unchanged(unchanged)
    subject, about = _subject(whole, run, held, profile, root, tenant, domain, files)
    decision = whole.check(subject)
    about = _counted(about, whole, decision.verdict)
    document = acceptance_document(decision, {k: v for k, v in about.items() if k != "scope"})
    report = gate_report(decision, about)
    if junit is not None:
        write_atomic(junit, junit_text(decision))
    if summary is not None:
        write_atomic(summary, markdown.render(report))
    options.show(document, report, format_, output)
    if github or os.environ.get("GITHUB_ACTIONS") == "true":
        typer.echo(github_commands(decision), nl=False, err=format_ != "table")
    raise typer.Exit(decision.exit_code)


def _subject(
    gate_: Any,
    run: str,
    baseline: str | None,
    profile: str,
    root: Path | None,
    tenant: str | None,
    domain: str | None,
    files: dict[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """What the gate looks at, and what to say of it."""
    if _is_answers(run):
        if baseline is not None and not _is_answers(baseline):
            raise UsageError("a file of answers is gated against a file of answers; save both to gate runs")
        return _of_files(gate_, run, baseline, files)
    from steelyard.decide.subject import of_runs
    from steelyard.runs.index import Index
    from steelyard.runs.keeping import Opened

    with Index(store.root(root)) as index:
        opened = Opened.at(Path(run)) if _is_run_folder(run) else Opened.at(index.find(run).folder)
        for option, given in (("--cluster", files["cluster"]), ("--task-file", files["task_file"])):
            if given is not None:
                raise UsageError(f"{option} is for files of answers; a kept run knows its own")
        scope = _scope(index, opened, tenant, domain)
        held = None if baseline is None else _baseline(index, scope, baseline, profile)
    about = {
        "run": opened.run.run_id,
        "baseline": None if held is None else held.run.run_id,
        "scope": scope,
        "data": opened.data if opened.run.files.get("evidence.npz") else None,
    }
    return of_runs(gate_, opened, held, unchanged=files["unchanged"]), about


def _of_files(gate_: Any, run: str, baseline: str | None, files: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from steelyard.decide.subject import of_records
    from steelyard.records.readers import read

    new, base = (
        None if path is None else read(path, cluster=files["cluster"], task=files["task_file"])
        for path in (run, baseline)
    )
    assert new is not None
    how = {name: files[name] for name in ("resamples", "seed", "align", "unchanged")}
    found = of_records(gate_, new, base, **how)
    return found, {"run": run, "baseline": baseline}


def _scope(index: Any, opened: Any, tenant: str | None, domain: str | None) -> Any:
    from steelyard.runs.layout import scopes

    for scope in scopes(index.root):
        if scope.runs in opened.folder.resolve().parents:
            return scope
    return store.scope(index.root, tenant, domain)


def _baseline(index: Any, scope: Any, text: str, profile: str) -> Any:
    """The run that a baseline's name means."""
    from steelyard.runs.keeping import Opened
    from steelyard.runs.pointers import PINNED, Pointers

    pointers = Pointers(scope)
    kind, _, name = text.partition(":")
    if kind not in ("active", "pinned") or (kind == "pinned" and not name):
        folder = Path(text) if _is_run_folder(text) else index.find(text).folder
        return Opened.at(folder)
    pointer = (
        pointers.get(name, PINNED)
        if kind == "pinned"
        else pointers.get(pointers.chosen(name or None, profile), profile)
    )
    if not pointer.stack:
        raise UsageError(
            f"nothing is {'pinned' if kind == 'pinned' else 'active'} under '{name or pointer.metric}' yet"
        )
    return pointers.opened(pointer.stack[-1])


def _counted(about: dict[str, Any], gate_: Any, verdict: str) -> dict[str, Any]:
    """The decision with how often it was tried; files that are not kept are not counted."""
    if about.get("scope") is None or about.get("baseline") is None or about.get("data") is None:
        return {k: v for k, v in about.items() if k not in ("scope", "data")}
    from steelyard.runs.attempts import counted

    rules = [str(rule) for rule in gate_.rules]
    scope = about["scope"]
    tries = counted(
        scope, baseline=about["baseline"], run=about["run"], data=about["data"], rules=rules, verdict=verdict
    )
    return {k: v for k, v in about.items() if k != "scope"} | {"attempt": len(tries)}


def _is_answers(text: str) -> bool:
    return os.path.isfile(text) and Path(text).name != "run.json"


def _is_run_folder(text: str) -> bool:
    return os.path.isfile(Path(text) / "run.json")
