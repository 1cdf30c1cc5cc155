"""`steelyard evaluate`: every metric of a table with its interval."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli import options


def evaluate(
    files: Annotated[list[str], typer.Argument(help="JSONL, CSV or Parquet files of answers; - for standard input.")],
    metric: options.Metrics = None,
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
) -> None:
    """Say how good the answers are, and how sure that is: every metric with its interval, per cell and slice."""
    options.check_format(format_)
    options.allow_plugins(metric)
    from steelyard.evaluation import evaluate as run
    from steelyard.report.document import evaluation_report
    from steelyard.runs.artifact import evaluation_document

    records = options.table(
        files,
        cluster=cluster,
        map_=map_,
        where=where,
        task_file=task_file,
        input_format=input_format,
        salvage=salvage,
    )
    with options.progress("resampling") as progress:
        result = run(
            records,
            options.chosen(metric, records),
            by=by or (),
            pool=pool or (),
            resamples=resamples,
            seed=seed,
            level=level,
            method=method,
            stream=stream,
            progress=progress,
        )
    options.show(
        evaluation_document(result), evaluation_report(result), format_, out / "evaluation.json" if out else None
    )
