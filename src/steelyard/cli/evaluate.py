"""`steelyard evaluate`: every metric of a table with its interval."""

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


def evaluate(
    files: Annotated[list[str], typer.Argument(help="JSONL, CSV or Parquet files of answers; - for standard input.")],
    metric: Metrics = None,
    by: By = None,
    pool: Annotated[
        list[str] | None,
        typer.Option("--pool", help="Cell columns to pool over: model, strategy, task, perturbation."),
    ] = None,
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
    """Say how good the answers are, and how sure that is: every metric with its interval, per cell and slice."""
    options.check_format(format_)
    options.allow_plugins(metric)
    from steelyard.evaluation import evaluate as run
    from steelyard.records.readers import read
    from steelyard.report.document import evaluation_report
    from steelyard.runs.artifact import evaluation_document
    from steelyard.stack import choose

    records = read(
        files,
        format=input_format,
        cluster=cluster,
        task=task_file,
        rename=options.pairs(map_, "map"),
        where=options.pairs(where, "where"),
        salvage=salvage,
    )
    if not metric:
        metric = []
        for choice in choose(records):
            metric += choice.metrics
            options.say(f"chose {', '.join(choice.metrics)}: {choice.why}")
    with options.progress("resampling") as progress:
        result = run(
            records,
            metric,
            by=by or (),
            pool=pool or (),
            resamples=resamples,
            seed=seed,
            level=level,
            method=method,
            stream=stream,
            progress=progress,
        )
    options.show(evaluation_document(result), evaluation_report(result), format_, out, "evaluation.json")
