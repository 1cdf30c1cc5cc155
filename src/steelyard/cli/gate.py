"""`steelyard gate`: may this run pass? Exit 0 pass, 1 fail, 6 inconclusive."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli import completing
from steelyard.cli.command import DOCUMENT, PLUGINS, READS, Shown, Writes, allow_plugins, as_options, command, say
from steelyard.cli.options import records as of
from steelyard.cli.options import store
from steelyard.cli.options.spellings import at_most_one, one_of
from steelyard.errors import SteelyardError, UsageError, printable

if TYPE_CHECKING:
    from steelyard.decide.decision import Decision, Verdict
    from steelyard.decide.rules_file import GateRules
    from steelyard.records.cautions import Kind


@command(writes="acceptance_gate.json")
def gate(
    *,
    run: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completing.runs, help="The run to judge: an id, a run folder, or a file of answers."
        ),
        READS,
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completing.runs,
            help="What it is compared with: active, active:METRIC, pinned:NAME, an id, a run folder, or a file of "
            "answers.",
        ),
        READS,
    ] = None,
    run_named: Annotated[
        str | None,
        typer.Option("--run", autocompletion=completing.runs, help="The same as RUN."),
        READS,
    ] = None,
    baseline_named: Annotated[
        str | None,
        typer.Option("--baseline", autocompletion=completing.runs, help="The same as BASELINE."),
        READS,
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", help='A rule: "low(delta(accuracy)) >= -0.01". Repeatable.'),
        PLUGINS,
    ] = None,
    rules: Annotated[Path | None, typer.Option("--rules", help="A YAML file with rules."), READS] = None,
    gate_profile: Annotated[
        str | None, typer.Option("--gate-profile", help="Documented rules by name: rank, rank+cosine.")
    ] = None,
    inconclusive: Annotated[
        str | None,
        typer.Option("--inconclusive", help="An inconclusive gate: report (exit 6, the default), fail, pass or warn."),
    ] = None,
    primary: Annotated[
        list[str] | None,
        typer.Option(
            "--primary",
            help="The metrics that decide: rules about them are corrected among themselves, the others apart. a,b or "
            "repeat for more. Default: all rules together.",
            callback=of.split_metrics,
        ),
        PLUGINS,
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="KIND[=SHARE]",
            help="What bars no rule, up to a share of the rows: failed and missing (0.05 by default), marks (0.01), "
            "excerpt, sheets, cells, contradiction, repeats, conditions. Repeatable.",
        ),
    ] = None,
    allow_missing: Annotated[
        float | None, typer.Option("--allow-missing", hidden=True, help="write --allow missing=SHARE")
    ] = None,
    profile: store.Profile = "default",
    versus: of.Versus = None,
    by: Annotated[
        list[str] | None, typer.Option("--by", help="Judge every rule also per value of this column. Repeatable.")
    ] = None,
    pool: of.Pool = None,
    reading: of.Reading,
    align: of.Align = "strict",
    unchanged: of.Unchanged = "say",
    resamples: Annotated[int | None, typer.Option("--resamples", help="Bootstrap resamples.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the resamples. Default: 42.")] = None,
    level: Annotated[float | None, typer.Option("--level", help="Level of the intervals. Default: 0.95.")] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="A file for JUnit XML."), Writes()] = None,
    summary: Annotated[Path | None, typer.Option("--summary", help="A file for a Markdown summary."), Writes()] = None,
    output: Annotated[Path | None, typer.Option("--output", help="A file for acceptance_gate.json."), DOCUMENT] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Print annotations for GitHub; on by itself inside GitHub Actions.")
    ] = False,
    place: store.Place,
) -> Shown:
    """Judge a run by rules about its metrics and its paired deltas against a baseline.

    Exit codes: 0 pass, 1 fail, 6 inconclusive; 2 where a name or an option is wrong.
    """
    from steelyard.decide.decision import INCONCLUSIVE
    from steelyard.decide.request import Request, judge
    from steelyard.decide.rules_file import GateRules, load_rules
    from steelyard.decide.subject import NumberOptions
    from steelyard.decide.wire import acceptance_document
    from steelyard.report.formats import render
    from steelyard.report.gate import gate_report, github_commands
    from steelyard.report.gate import junit as junit_text
    from steelyard.study.comparison import checked_align, checked_unchanged

    loaded = load_rules(rules) if rules is not None else GateRules()
    allow_plugins(loaded.rules)
    whole = _gate(loaded, rules, rule, gate_profile)
    stated = {
        "inconclusive": inconclusive or loaded.inconclusive,
        "allow": _allowed(loaded, allow or [], allow_missing),
        "primary": tuple(primary or loaded.primary),
    }
    base = at_most_one(baseline, baseline_named, named="the baseline", option_named="--baseline")
    request = Request(
        run=one_of(run, run_named, named="a run", option_named="--run"),
        baseline=base or (loaded.baseline if versus is None else None),
        versus=of.versus_of(versus) if versus else None,
        view=place.view,
        profile=profile,
        reading=reading.stated,
        asked=NumberOptions(
            resamples=resamples,
            seed=seed,
            level=level,
            align=checked_align(align),
            pool=tuple(pool or ()),
            unchanged=checked_unchanged(unchanged),
        ),
    )
    asked = replace(whole, **{k: v for k, v in stated.items() if v is not None}).by(by or [])
    try:
        judged = judge(asked, request)
    except SteelyardError as problem:
        _say_error(problem, {"--junit": junit, "--summary": summary, "--output": output})
        raise
    of.say_unit(judged.unit)
    decision = _with_commands(judged.decision)
    report = gate_report(decision, judged.about)
    in_actions = os.environ.get("GITHUB_ACTIONS") == "true"
    step = os.environ.get("GITHUB_STEP_SUMMARY") if in_actions else None

    def afterwards(printed: str) -> None:
        judged.record()
        if github or in_actions:
            typer.echo(github_commands(decision), nl=False, err=printed != "table")
        if step:
            _append(Path(step), render("markdown", report))
        if decision.verdict == INCONCLUSIVE and decision.inconclusive == "warn":
            say(f"warning: the gate is inconclusive and lets the run pass: {decision.reason}")

    files: dict[str, dict[Path, str]] = {}
    if junit is not None:
        files["--junit"] = {junit: junit_text(decision)}
    if summary is not None:
        files["--summary"] = {summary: render("markdown", report)}
    return Shown(
        document=acceptance_document(decision, judged.about),
        report=report,
        exit_code=decision.exit_code,
        files=files,
        reads=(base or loaded.baseline,),
        also_writes={"the step summary": Path(step)} if step else {},
        afterwards=afterwards,
    )


def _say_error(problem: SteelyardError, files: Mapping[str, Path | None]) -> None:
    """Write the documents that were asked for, with one error that says why the gate could not be judged."""
    from steelyard.decide.wire import error_document
    from steelyard.ground.files import write_files
    from steelyard.ground.json import dumps
    from steelyard.report.formats import render
    from steelyard.report.gate import error_junit, error_report

    said = as_options(str(problem))
    texts = {
        "--junit": lambda: error_junit(said),
        "--summary": lambda: render("markdown", error_report(said)),
        "--output": lambda: dumps(error_document(said, problem.exit_code)),
    }
    write_files({path: texts[option]() for option, path in files.items() if path is not None})


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


def _allowed(loaded: GateRules, asked: list[str], missing: float | None) -> dict[Kind, float]:
    """What the options and the file allow; an option goes before the same kind in the file."""
    from steelyard.decide.allowing import allowed
    from steelyard.retired import deprecated

    if loaded.allow_missing is not None:
        say(deprecated("gate allow_missing=", "write `allow: [missing=SHARE]`", typed="allow_missing"))
    earlier = {} if loaded.allow_missing is None else {"missing": loaded.allow_missing}
    typed = {} if missing is None else {"missing": missing}
    return {**allowed(earlier), **allowed(loaded.allow), **allowed(typed), **allowed(asked)}


def _with_commands(decision: Decision) -> Decision:
    """The decision in words of the command line, and with the command that would add a number that was not kept."""

    def said(v: Verdict) -> Verdict:
        v = replace(v, reason=as_options(v.reason))
        if not v.number.would_add:
            return v
        name, *columns = v.number.would_add
        sliced = "".join(f" --by {column}" for column in columns)
        return replace(v, reason=f"{v.reason}; `steelyard evaluate FILE -m '{name}'{sliced} --save` adds it")

    return replace(decision, rules=tuple(map(said, decision.rules)))


def _append(file: Path, text: str) -> None:
    """Add the summary to the file that GitHub shows next to a step, after what other steps wrote."""
    try:
        before = file.read_bytes() if file.exists() else b""
        with file.open("a", encoding="utf-8", errors="backslashreplace") as summary:
            summary.write(text if before.endswith(b"\n") or not before else f"\n\n{text}")
        say(f"wrote {file}")
    except OSError as problem:
        say(f"the step summary cannot be written: {problem.strerror or type(problem).__name__}")
