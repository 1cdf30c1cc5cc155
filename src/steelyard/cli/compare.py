"""`steelyard compare`: two runs on the same questions."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli import options
from steelyard.errors import UsageError

Versus = Annotated[str | None, typer.Option("--versus", help="Two parts of one table: model=old,new.")]


def compare(
    files: Annotated[list[str], typer.Argument(help="The base run and the new run; or one file with --versus.")],
    metric: options.Metrics = None,
    versus: Versus = None,
    align: Annotated[
        str, typer.Option("--align", help="strict: unmatched rows are an error; intersection: left out and counted.")
    ] = "strict",
    by: options.By = None,
    pool: options.Pool = None,
    cluster: options.Cluster = None,
    map_: options.Map = None,
    where: options.Where = None,
    task_file: options.TaskFile = None,
    input_format: options.InputFormat = None,
    salvage: options.Salvage = False,
    format_: options.Format = "table",
    out: options.Out = None,
    resamples: options.Resamples = 10_000,
    seed: options.Seed = 42,
    level: options.Level = 0.95,
    method: options.Method = "auto",
    stream: options.Stream = "counter",
    unchanged: options.Unchanged = "say",
) -> None:
    """Say whether a new run is better than a base run on the same questions: paired deltas and verdicts."""
    options.check_format(format_)
    options.allow_plugins(metric)
    settings = options.settings(resamples, seed, level, method, stream)
    column, *sides = versus_of(versus) if versus else ("",)
    if not versus and len(files) != 2:
        raise UsageError("compare takes two files, or --versus column=base,new to compare parts of one table")
    target = out / "comparison.json" if out is not None else None
    options.check_outputs({"--out": target}, [*files, task_file])
    if files.count("-") > 1:
        raise UsageError("standard input can be read once only")
    from steelyard.report.comparison import comparison_report
    from steelyard.study.comparison import checked_align, checked_unchanged
    from steelyard.study.comparison import compare as run
    from steelyard.study.wire import comparison_document

    tables = [
        options.table(
            paths,
            cluster=cluster,
            map_=map_,
            where=where,
            task_file=task_file,
            input_format=input_format,
            salvage=salvage,
        )
        for paths in ([files] if versus else [[path] for path in files])
    ]
    base, new = (tables[0].filter({column: side}) for side in sides) if versus else tables
    with options.progress("comparing") as progress:
        result = run(
            base,
            new,
            options.chosen(metric, base, comparable=True),
            align=checked_align(align),
            by=by or (),
            pool=pool or (),
            versus=(column,) if versus else (),
            settings=settings,
            unchanged=checked_unchanged(unchanged),
            progress=progress,
        )
    options.show(comparison_document(result), comparison_report(result), format_, target)


def versus_of(text: str) -> tuple[str, str, str]:
    """A column, and the values of it that are the base run and the new one."""
    column, equals, values = text.partition("=")
    sides = tuple(v.strip() for v in values.split(","))
    if not equals or len(sides) != 2 or not all(sides) or sides[0] == sides[1]:
        raise UsageError("--versus takes a column and two values: model=old,new")
    return column.strip(), sides[0], sides[1]
