"""`steelyard compare`: two runs on the same questions."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli import options
from steelyard.cli.options import (
    By,
    Cluster,
    Format,
    InputFormat,
    Level,
    Map,
    Method,
    Metrics,
    Out,
    Resamples,
    Salvage,
    Seed,
    Stream,
    TaskFile,
    Where,
)
from steelyard.errors import UsageError


def compare(
    files: Annotated[list[str], typer.Argument(help="The base run and the new run; or one file with --versus.")],
    metric: Metrics = None,
    versus: Annotated[
        str | None, typer.Option("--versus", help="Compare two parts of one table: model=old,new.")
    ] = None,
    align: Annotated[
        str,
        typer.Option("--align", help="strict: unmatched rows are an error; intersection: left out and counted."),
    ] = "strict",
    by: By = None,
    cluster: Cluster = None,
    map_: Map = None,
    where: Where = None,
    task_file: TaskFile = None,
    input_format: InputFormat = None,
    salvage: Salvage = False,
    format_: Format = "table",
    out: Out = None,
    resamples: Resamples = 10_000,
    seed: Seed = 42,
    level: Level = 0.95,
    method: Method = "auto",
    stream: Stream = "counter",
) -> None:
    """Say whether a new run is better than a base run on the same questions: paired deltas and verdicts."""
    options.check_format(format_)
    options.allow_plugins(metric)
    column, sides = _versus(versus) if versus else ("", ())
    if not versus and len(files) != 2:
        raise UsageError("compare takes two files, or --versus column=base,new to compare parts of one table")
    if versus and files.count("-") > 1:
        raise UsageError("standard input can be read once only")
    from steelyard.comparison import compare as run
    from steelyard.metrics.contract import metric_of
    from steelyard.records.readers import read
    from steelyard.report.document import comparison_report
    from steelyard.runs.artifact import comparison_document
    from steelyard.stack import choose

    def table(paths: list[str], conditions: dict[str, str]):  # type: ignore[no-untyped-def]
        return read(
            paths,
            format=input_format,
            cluster=cluster,
            task=task_file,
            rename=options.pairs(map_, "map"),
            where=conditions,
            salvage=salvage,
        )

    conditions = options.pairs(where, "where")
    if versus:
        whole = table(files, conditions)
        base, new = (whole.filter({column: side}) for side in sides)
    else:
        base, new = (table([path], conditions) for path in files)
    if not metric:
        metric = []
        for choice in choose(base):
            kept = [m for m in choice.metrics if not metric_of(m).definition.no_delta]
            metric += kept
            options.say(f"chose {', '.join(kept)}: {choice.why}")
    with options.progress("comparing") as progress:
        result = run(
            base,
            new,
            metric,
            align=align,
            by=by or (),
            versus=(column,) if versus else (),
            resamples=resamples,
            seed=seed,
            level=level,
            method=method,
            stream=stream,
            progress=progress,
        )
    options.show(comparison_document(result), comparison_report(result), format_, out, "comparison.json")


def _versus(text: str) -> tuple[str, tuple[str, str]]:
    column, equals, values = text.partition("=")
    sides = tuple(v.strip() for v in values.split(","))
    if not equals or len(sides) != 2 or not all(sides) or sides[0] == sides[1]:
        raise UsageError("--versus takes a column and two values: model=old,new")
    return column.strip(), (sides[0], sides[1])
