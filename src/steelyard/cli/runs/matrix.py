"""`steelyard runs matrix`: every variant of a spec."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.command import READS, Shown, command, say
from steelyard.cli.options import store
from steelyard.cli.options.records import words_of
from steelyard.cli.progress import progress
from steelyard.ground.commas import pair_text

if TYPE_CHECKING:
    from steelyard.runner.matrix import Variant


@command()
def matrix(
    *,
    spec: Annotated[Path, typer.Argument(help="YAML with the variants to run."), READS],
    dry: Annotated[bool, typer.Option("--dry", help="Print the plan and run nothing.")] = False,
    place: store.Place,
) -> Shown:
    """Run every variant of a spec, keep logs, then compare and promote as the spec says."""
    from steelyard.report.matrix import matrix_report, plan_report
    from steelyard.runner.matrix import load, run
    from steelyard.runner.wire import matrix_document

    plan, scope = load(spec, command_line), place.scope
    if dry:
        return Shown(document=plan.document, report=plan_report(plan))
    with progress("variants") as bar:
        result = run(plan, scope, dict(os.environ), program=_program(), progress=bar, say=say)
    return Shown(document=matrix_document(result), report=matrix_report(result), exit_code=0 if result.succeeded else 1)


def command_line(variant: Variant, workflow: str, domain: str) -> list[str]:
    """The command that evaluates a variant and keeps its run."""
    asked = variant.evaluate
    assert asked is not None
    words = ["steelyard", "evaluate", *asked.files, *words_of(asked)]
    for option, values in (("--metric", asked.metrics), ("--by", asked.by), ("--pool", asked.pool)):
        words += [part for value in values for part in (option, value)]
    for option, number in (("--resamples", asked.resamples), ("--seed", asked.seed)):
        words += [option, str(number)] if number is not None else []
    labels = [part for pair in variant.labels.items() for part in ("--label", pair_text(*pair))]
    return [*words, "--save", "--workflow", workflow, "--domain", domain, *labels]


def _program() -> list[str]:
    """The command that this process is, so that a matrix needs nothing on the path."""
    script = Path(sys.executable).with_name("steelyard")
    if script.exists():
        return [str(script)]
    elsewhere = shutil.which("steelyard")
    return [elsewhere] if elsewhere else [sys.executable, "-P", "-m", "steelyard"]
