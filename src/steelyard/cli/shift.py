"""`steelyard shift`: learn a shift of query embeddings, look at it, find the best, apply it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli import embedding_options as embedding
from steelyard.cli import options
from steelyard.cli import store_options as store
from steelyard.errors import UsageError, printable

app = typer.Typer(no_args_is_help=True, help="Learned shifts of query embeddings, judged on unseen queries.")
Workflow = Annotated[str | None, typer.Option("--workflow", help="Only trainings of this workflow.")]


@app.command()
def train(
    docs: embedding.Docs,
    queries: embedding.Queries,
    embedder: embedding.EmbedderName = None,
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
    base_url: embedding.BaseUrl = None,
    api_key_env: embedding.ApiKeyVariable = embedding.API_KEY,
    cache: embedding.Cache = None,
    chunk_size: embedding.ChunkSize = None,
    overlap: embedding.Overlap = 0,
    resamples: options.Resamples = 10_000,
    seed: options.Seed = 42,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: options.Format = "table",
) -> None:
    """Learn a shift from the queries whose relevant document is not first, and judge it on held-out queries."""
    options.check_format(format_)
    scope = store.scope(root, tenant, domain)
    from steelyard.report.figures.drawing import drawn as draw_all
    from steelyard.report.figures.retrieval import held_out_figure
    from steelyard.report.formats import markdown
    from steelyard.report.retrieval import training_report
    from steelyard.retrieval.shifts.kept import REPORT, free_training, new_id, save_training, training_document
    from steelyard.retrieval.shifts.training import Options
    from steelyard.retrieval.shifts.training import train as learn
    from steelyard.retrieval.wire import training_result
    from steelyard.uncertainty.settings import Settings

    chosen = Options(hard_negatives, max_norm or None, epsilon, scale, folds, seed)
    Settings(resamples=resamples, seed=seed)
    made, created = new_id()
    id = training_id or made
    free_training(scope, workflow, id)
    corpus = embedding.corpus(
        docs,
        queries,
        embedder,
        base_url=base_url,
        api_key_env=api_key_env,
        cache=cache,
        chunk_size=chunk_size,
        overlap=overlap,
    )
    with options.progress("training") as progress:
        trained = learn(corpus, chosen, resamples=resamples, progress=progress)
    result = training_result(
        trained, corpus, workflow=workflow, training_id=id, created=created, base_directory=str(scope.root)
    )
    figure = held_out_figure(result)
    drawn = draw_all([figure] if figure is not None else [])
    pictures = {f"{name}.{suffix}": data for name, each in drawn.items() for suffix, data in each.items()}
    shown = next((name for name in pictures if name.endswith(".png")), None)
    report = training_report(result, picture=shown)
    folder = save_training(scope, id, result, {REPORT: markdown.render(report).encode(), **pictures})
    options.say(f"saved training {id} in {folder}")
    options.show({**training_document(result), "Folder": str(folder)}, report, format_, None)


@app.command()
def inspect(
    training: Annotated[
        str, typer.Argument(help="A training's id, the beginning of it, best, best:WORKFLOW, or a file.")
    ],
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: options.Format = "table",
) -> None:
    """Show one training: what held-out queries say, what the learner saw, where the shift points."""
    options.check_format(format_)
    from steelyard.report.retrieval import training_report
    from steelyard.retrieval.shifts.kept import training_document
    from steelyard.retrieval.shifts.named import named_shift

    found = named_shift(training, scope=store.scope(root, tenant, domain), allow_cancelled=True)
    if found.training is None:
        raise UsageError(f"'{printable(training, limit=60)}' is a shift, but not a training's result")
    options.show(training_document(found.training), training_report(found.training), format_, None)


@app.command()
def history(
    workflow: Workflow = None,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: options.Format = "table",
) -> None:
    """List the trainings, the newest first, and which of them is best."""
    options.check_format(format_)
    from steelyard.report.retrieval import history_report
    from steelyard.retrieval.shifts.kept import best_training, trainings

    found, said = trainings(store.scope(root, tenant, domain), workflow)
    chosen, _ = best_training(found)
    best = None if chosen is None else chosen.id
    document = {"trainings": [_listed(stored) for stored in found], "best": best, "problems": said}
    options.show(document, history_report(found, said, best), format_, None)


@app.command()
def best(
    workflow: Workflow = None,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: options.Format = "table",
) -> None:
    """Name the training with the highest held-out score; cancelled ones and those that do not help are skipped.

    Exit code 1 where none can be chosen.
    """
    options.check_format(format_)
    from steelyard.report.document import Note
    from steelyard.report.retrieval import choice_notes, training_report
    from steelyard.retrieval.shifts.kept import best_training, trainings

    found, said = trainings(store.scope(root, tenant, domain), workflow)
    chosen, rejected = best_training(found)
    document = {
        "best": None if chosen is None else _listed(chosen),
        "rejected": [{"training": stored.id, "reason": reason} for stored, reason in rejected],
        "problems": said,
    }
    report: Any = [Note("no training can be chosen")] if chosen is None else training_report(chosen.result)
    report += [Note(f"not chosen: {stored.id}: {reason}") for stored, reason in rejected]
    report += [Note(text) for text in (*choice_notes(found), *said)]
    options.show(document, report, format_, None)
    if chosen is None:
        raise typer.Exit(1)


@app.command()
def apply(
    shift: Annotated[str, typer.Argument(help="none, best, a training's id, or a .json, .npy or .npz file.")],
    queries: Annotated[str, typer.Option("--queries", help="Vectors in .npz or .npy.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The .npz file to write: vectors, ids, gold.")],
    scale: embedding.Scale = None,
    allow_cancelled: embedding.AllowCancelled = False,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
) -> None:
    """Write shifted query vectors; documents are never shifted and nothing is normalised again."""
    if output.suffix.lower() != ".npz":
        raise UsageError("--output is a .npz file")
    options.check_outputs({"--output": output}, [queries, *embedding.files_of(shift)])
    from dataclasses import replace

    from steelyard.ground.files import write_atomic
    from steelyard.retrieval.shifts.named import named_shift
    from steelyard.retrieval.shifts.shift import applied
    from steelyard.retrieval.vectors import packed, read_vectors

    vectors = read_vectors(queries)
    named = named_shift(
        shift,
        scope=store.scope(root, tenant, domain),
        scale=scale,
        allow_cancelled=allow_cancelled,
    )
    moved = applied(named.shift, vectors.matrix)
    write_atomic(output, packed(replace(vectors, matrix=moved)))
    for note in named.notes:
        options.say(f"note: {note}")
    zero = int((~moved.any(axis=1)).sum())
    if zero:
        options.say(f"note: {zero} shifted queries have no direction left")
    options.say(f"wrote {output}: {len(vectors)} queries shifted by {named.name}")


def _listed(stored: Any) -> dict[str, Any]:
    result = stored.result
    held_out = result.held_out
    return {
        "training": stored.id,
        "workflow": result.workflow_name,
        "created": result.created_utc,
        "held_out_score": None if held_out is None else held_out.score,
        "interval": None if held_out is None or held_out.interval is None else list(held_out.interval),
        "norm": result.delta_norm,
        "cancelled": result.is_cancelled,
        "usable": result.usable,
        "why_not": result.why_not,
        "folder": str(stored.folder),
    }
