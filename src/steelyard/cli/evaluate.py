"""`steelyard evaluate`: every metric of a table with its interval."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from steelyard.cli import options
from steelyard.cli import store_options as store


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
    save: Annotated[
        bool, typer.Option("--save", help="Keep the run: numbers, evidence and digests, under the root.")
    ] = False,
    save_records: Annotated[
        bool, typer.Option("--save-records", help="Keep the rows too; they may hold patient data.")
    ] = False,
    workflow: Annotated[
        str | None, typer.Option("--workflow", help="The kind of run. Default: STEELYARD_WORKFLOW, else evaluate.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", help="What to find it by: model=m1. Repeatable.")
    ] = None,
    run_id: Annotated[str | None, typer.Option("--run-id", help="Its id; by default a new one is made.")] = None,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
) -> None:
    """Say how good the answers are, and how sure that is: every metric with its interval, per cell and slice."""
    options.check_format(format_)
    options.allow_plugins(metric)
    settings = options.settings(resamples, seed, level, method, stream)
    target = out / "evaluation.json" if out is not None else None
    options.check_outputs({"--out": target}, [*files, task_file])
    labels = {**store.matrix_labels(), **options.pairs(label, "label")}
    save = save or save_records
    clock: Any = _clock() if save else None
    scope: Any = store.scope(root, tenant, domain) if save else None
    from steelyard.report.details import asked_details
    from steelyard.report.evaluation import evaluation_report
    from steelyard.study.evaluation import evaluate as run

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
            settings=settings,
            keep_evidence=save,
            progress=progress,
        )
    document = result.to_dict()
    if save:
        from steelyard.runs.saved import save as keep

        run_, folder = keep(
            scope,
            result,
            workflow=workflow or os.environ.get("STEELYARD_WORKFLOW") or "evaluate",
            clock=clock,
            labels=labels,
            run_id=run_id,
            records=records if save_records else None,
        )
        document = {**document, "run_id": run_.run_id, "folder": str(folder)}
        options.say(f"saved run {run_.run_id} in {folder}")
    report = [*evaluation_report(result), *asked_details(result, metric or ())]
    options.show(document, report, format_, target)


def _clock() -> Any:
    from steelyard.runs.saved import Clock

    return Clock()
