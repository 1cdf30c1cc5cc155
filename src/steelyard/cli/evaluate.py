"""`steelyard evaluate`: every metric of a table with its interval."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from steelyard.cli.command import READS, Shown, command, say
from steelyard.cli.options import records as of
from steelyard.cli.options import store
from steelyard.cli.options.uncertainty import Uncertainty
from steelyard.cli.progress import progress


@command(writes="evaluation.json")
def evaluate(
    *,
    files: Annotated[
        list[str], typer.Argument(help="JSONL, CSV or Parquet files of answers; - for standard input."), READS
    ],
    metric: of.Metrics = None,
    by: of.By = None,
    pool: of.Pool = None,
    reading: of.TornReading,
    uncertainty: Uncertainty,
    explain: Annotated[
        int,
        typer.Option(
            "--explain",
            min=0,
            help="Of metrics of texts, also show this many of the worst rows, in words; they may be patient data.",
        ),
    ] = 0,
    save: Annotated[
        bool, typer.Option("--save", help="Keep the run: numbers, evidence and digests, under the root.")
    ] = False,
    save_records: Annotated[
        bool, typer.Option("--save-records", help="Keep the rows too; they may hold patient data.")
    ] = False,
    workflow: Annotated[
        str | None, typer.Option("--workflow", help="The kind of run. Default: STEELYARD_WORKFLOW, else evaluate.")
    ] = None,
    label: store.Label = None,
    run_id: store.RunId = None,
    place: store.Place,
) -> Shown:
    """Say how good the answers are, and how sure that is: every metric with its interval, per cell and slice."""
    labels = {**store.matrix_labels(), **of.pairs(label, "label")}
    from steelyard.report.details import asked_details
    from steelyard.report.evaluation import evaluation_report
    from steelyard.report.explained import explained_report
    from steelyard.runs.saved import Clock
    from steelyard.runs.saved import save as keep
    from steelyard.study.columns import columns_read
    from steelyard.study.evaluation import evaluate as evaluated
    from steelyard.study.wire import evaluation_document

    keeps, clock = save or save_records, Clock()
    scope = place.scope if keeps else None
    settings = uncertainty.settings
    table = reading.table(files, None if save_records else columns_read(metric or (), by or ()))
    of.say_unit_of(table)
    with progress("resampling") as bar:
        evaluation = evaluated(
            table,
            metric or of.default_metrics(table),
            by=by or (),
            pool=pool or (),
            settings=settings,
            keep_evidence=keeps,
            explain=explain,
            progress=bar,
        )
    document = evaluation_document(evaluation)
    if scope is not None:
        run, folder = keep(
            scope,
            evaluation,
            workflow=workflow or os.environ.get("STEELYARD_WORKFLOW") or "evaluate",
            clock=clock,
            labels=labels,
            run_id=run_id,
            records=table if save_records else None,
        )
        document = {**document, "run_id": run.run_id, "folder": str(folder)}
        say(f"saved run {run.run_id} in {folder}")
    report = [
        *evaluation_report(evaluation),
        *asked_details(evaluation, metric or ()),
        *explained_report(evaluation.explained),
    ]
    return Shown(document=document, report=report)
