"""`steelyard evaluate`: every metric of a table with its interval."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import READS, Shown, command
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
    reading: of.Reading,
    uncertainty: Uncertainty,
    explain: Annotated[
        int,
        typer.Option(
            "--explain",
            min=0,
            help="Of metrics of texts, also show this many of the worst rows, in words; they may be patient data.",
        ),
    ] = 0,
    keeping: store.Keeping,
    place: store.Place,
) -> Shown:
    """Say how good the answers are, and how sure that is: every metric with its interval, per cell and slice."""
    from steelyard.report.details import asked_details
    from steelyard.report.evaluation import evaluation_report
    from steelyard.report.explained import explained_report
    from steelyard.study.columns import columns_read
    from steelyard.study.evaluation import evaluate as evaluated
    from steelyard.study.wire import evaluation_document

    kept, settings = keeping.request(place, "evaluate"), uncertainty.settings
    asked = of.asked_metrics(metric)
    table = reading.table(files, None if keeping.save_records else columns_read(asked or (), by or ()))
    of.say_unit_of(table)
    with progress("resampling") as bar:
        evaluation = evaluated(
            table,
            asked,
            by=by or (),
            pool=pool or (),
            settings=settings,
            keep_evidence=keeping.wanted,
            explain=explain,
            progress=bar,
        )
    of.say_chosen(evaluation.chosen)
    document = evaluation_document(evaluation)
    if kept is not None:
        document = {**document, **kept.keep(store.Measured(evaluation=evaluation, records=table))}
    report = [
        *evaluation_report(evaluation),
        *asked_details(evaluation, metric or ()),
        *explained_report(evaluation.explained),
    ]
    return Shown(document=document, report=report)
