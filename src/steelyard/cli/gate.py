"""`steelyard gate`: may this run pass? Exit 0 pass, 1 fail, 6 inconclusive."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli import options
from steelyard.cli import store_options as store
from steelyard.cli.compare import Versus, versus_of
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
    inconclusive: Annotated[
        str | None,
        typer.Option("--inconclusive", help="An inconclusive gate: report (exit 6, the default), fail, pass or warn."),
    ] = None,
    allow_missing: Annotated[
        float | None,
        typer.Option("--allow-missing", help="The share of rows that may lack what a metric reads. Default: 0.05."),
    ] = None,
    profile: store.Profile = "default",
    versus: Versus = None,
    by: Annotated[
        list[str] | None, typer.Option("--by", help="Judge every rule also per value of this column. Repeatable.")
    ] = None,
    pool: options.Pool = None,
    cluster: options.Cluster = None,
    map_: options.Map = None,
    where: options.Where = None,
    task_file: options.TaskFile = None,
    input_format: options.InputFormat = None,
    salvage: options.Salvage = False,
    align: Annotated[str, typer.Option("--align", help="Files only: strict or intersection.")] = "strict",
    unchanged: options.Unchanged = "say",
    resamples: Annotated[int | None, typer.Option("--resamples", help="Bootstrap resamples. Default: 10000.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the resamples. Default: 42.")] = None,
    level: Annotated[float | None, typer.Option("--level", help="Level of the intervals. Default: 0.95.")] = None,
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
    """Judge a run by rules about its metrics and its paired deltas against a baseline.

    Exit codes: 0 pass, 1 fail, 6 inconclusive; 2 where a name or an option is wrong.
    """
    options.check_format(format_, store=True)
    from steelyard.decide.gate import INCONCLUSIVE
    from steelyard.decide.request import Request, judge
    from steelyard.decide.rules_file import GateRules, load_rules
    from steelyard.decide.subject import Asked
    from steelyard.report.formats import markdown
    from steelyard.report.gate import acceptance_document, gate_report, github_commands
    from steelyard.report.gate import junit as junit_text
    from steelyard.study.comparison import checked_align, checked_unchanged

    loaded = load_rules(rules) if rules is not None else GateRules()
    held = baseline or (loaded.baseline if versus is None else None)
    step = os.environ.get("GITHUB_STEP_SUMMARY") if os.environ.get("GITHUB_ACTIONS") == "true" else None
    outputs = {"--output": output, "--junit": junit, "--summary": summary}
    options.check_outputs({**outputs, "the step summary": Path(step) if step else None}, [run, held, rules, task_file])
    options.allow_plugins([*(rule or []), *loaded.rules])
    whole = _gate(loaded, rules, rule, gate_profile)
    stated = {"inconclusive": inconclusive or loaded.inconclusive, "allow_missing": _first(allow_missing, loaded)}
    whole = replace(whole, **{k: v for k, v in stated.items() if v is not None}).by(by or [])
    reading = {
        "format": input_format,
        "cluster": cluster,
        "task": task_file,
        "rename": options.pairs(map_, "map"),
        "where": options.pairs(where, "where"),
        "salvage": salvage,
    }
    asked = Asked(
        resamples=resamples,
        seed=seed,
        level=level,
        align=checked_align(align),
        pool=tuple(pool or ()),
        unchanged=checked_unchanged(unchanged),
    )
    request = Request(
        run=run,
        baseline=held,
        versus=versus_of(versus) if versus else None,
        view=store.view(root, tenant, domain),
        profile=profile,
        reading={name: value for name, value in reading.items() if value},
        asked=asked,
    )
    judged = judge(whole, request)
    decision, about = judged.decision, judged.about
    report = gate_report(decision, about)
    made = {junit: junit_text(decision), summary: markdown.render(report)}
    options.write({path: content for path, content in made.items() if path is not None})
    options.show(acceptance_document(decision, about), report, format_, output)
    judged.record()
    if github or os.environ.get("GITHUB_ACTIONS") == "true":
        typer.echo(github_commands(decision), nl=False, err=format_ != "table")
    if step:
        _append(Path(step), markdown.render(report))
    if decision.verdict == INCONCLUSIVE and decision.inconclusive == "warn":
        options.say(f"warning: the gate is inconclusive and lets the run pass: {decision.reason}")
    raise typer.Exit(decision.exit_code)


def _gate(loaded: Any, file: Path | None, rule: list[str] | None, profile: str | None) -> Any:
    """The rules of the options and of the file, as one gate."""
    from steelyard.decide.gate import Gate

    parts = [Gate.profile(profile)] if profile else []
    parts += [Gate.parse(rule)] if rule else []
    try:
        parts += [Gate.profile(loaded.profile)] if loaded.profile else []
        parts += [Gate.parse(loaded.rules)] if loaded.rules else []
    except UsageError as problem:
        raise UsageError(f"{printable(file)}: {problem}") from None
    if not parts:
        raise UsageError("a gate needs rules: --rule, --rules or --gate-profile")
    return Gate(tuple(r for part in parts for r in part.rules))


def _first(given: float | None, loaded: Any) -> float | None:
    return loaded.allow_missing if given is None else given


def _append(file: Path, text: str) -> None:
    """Add the summary to the file that GitHub shows beside a step, after what other steps wrote."""
    try:
        before = file.read_bytes() if file.exists() else b""
        with file.open("a", encoding="utf-8", errors="backslashreplace") as summary:
            summary.write(text if before.endswith(b"\n") or not before else f"\n\n{text}")
        options.say(f"wrote {file}")
    except OSError as problem:
        options.say(f"the step summary cannot be written: {problem.strerror or type(problem).__name__}")
