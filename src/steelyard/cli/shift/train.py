"""`steelyard shift train`: learn a shift, and judge it on held-out queries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.command import Shown, command, say
from steelyard.cli.options import embedding
from steelyard.cli.options.store import GroupReadable, Place
from steelyard.cli.options.uncertainty import Resampling
from steelyard.cli.progress import progress


@command()
def train(
    *,
    texts: embedding.Texts,
    hard_negatives: Annotated[
        int,
        typer.Option("--hard-negatives", help="How many wrong documents each mistake pushes away from."),
    ] = 1,
    max_norm: Annotated[float, typer.Option("--max-norm", help="The longest shift; 0 for no limit.")] = 1.5,
    epsilon: Annotated[float, typer.Option("--epsilon", help="A shift shorter than this is cancelled.")] = 1e-3,
    scale: Annotated[float, typer.Option("--scale", help="How far along the learned shift.")] = 1.0,
    folds: Annotated[int, typer.Option("--folds", help="Folds of queries that are held out in turn.")] = 5,
    workflow: Annotated[str, typer.Option("--workflow", help="The kind of run it is for.")] = "PosNeg",
    training_id: Annotated[
        str | None, typer.Option("--training-id", help="Its id; by default a new one is made from the time.")
    ] = None,
    group_readable: GroupReadable = False,
    how: embedding.Embedding,
    uncertainty: Resampling,
    place: Place,
) -> Shown:
    """Learn a shift from the queries whose relevant document is not first, and judge it on held-out queries."""
    from steelyard.cli.options.pictures import picture_files
    from steelyard.report.figures.retrieval import held_out_figure
    from steelyard.report.formats import render
    from steelyard.report.retrieval import training_report
    from steelyard.retrieval.shifts.kept import REPORT, free_training, new_id, save_training, training_document
    from steelyard.retrieval.shifts.training import Options
    from steelyard.retrieval.shifts.training import train as learn
    from steelyard.retrieval.wire import training_result
    from steelyard.runs.layout import share

    options = Options(hard_negatives, max_norm or None, epsilon, scale, folds, uncertainty.seed)
    settings, scope = uncertainty.settings, place.scope
    generated, created = new_id()
    id = training_id or generated
    free_training(scope, workflow, id)
    corpus = how.corpus(texts)
    with progress("training") as bar:
        trained = learn(corpus, options, settings=settings, progress=bar)
    result = training_result(
        trained, corpus, workflow=workflow, training_id=id, created=created, base_directory=str(scope.root)
    )
    figure = held_out_figure(result)
    files = picture_files([] if figure is None else [figure], Path())
    pictures = {str(path): data for path, data in files.items()}
    picture = next((name for name in pictures if name.endswith(".png")), None)
    report = training_report(result, picture=picture)
    if group_readable:
        share(scope)
    folder = save_training(scope, id, result, {REPORT: render("markdown", report).encode(), **pictures})
    say(f"saved training {id} in {folder}")
    return Shown(document={**training_document(result), "Folder": str(folder)}, report=report)
