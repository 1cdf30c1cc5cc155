"""`steelyard retrieval run`: search all documents for every query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from steelyard.cli.command import Shown, Writes, command, say
from steelyard.cli.options import embedding, store
from steelyard.cli.options.records import pairs
from steelyard.cli.options.retrieval import run_files
from steelyard.cli.options.uncertainty import Intervals
from steelyard.cli.progress import progress


@command()
def run(
    *,
    texts: embedding.Texts,
    shift: embedding.ShiftName = None,
    scale: embedding.Scale = None,
    allow_cancelled: embedding.AllowCancelled = False,
    workflow: Annotated[str, typer.Option("--workflow", help="The kind of run.")] = "retrieval",
    label: store.Label = None,
    run_id: store.RunId = None,
    save: Annotated[bool, typer.Option("--save/--no-save", help="Keep the run under the root.")] = True,
    out: Annotated[
        Path | None, typer.Option("--out", help="A folder for the same files outside the store."), Writes(run_files)
    ] = None,
    how: embedding.Embedding,
    uncertainty: Intervals,
    place: store.Place,
) -> Shown:
    """Search all documents for every query; write run.json, per-query files and, with a shift, what it did.

    KPIs: map@1 (1/rank of the one relevant document), ndcg@3, mrr, hit@1, each with an interval.
    """
    labels = {**store.matrix_labels(), **pairs(label, "label")}
    from steelyard.report.formats import render
    from steelyard.report.retrieval import retrieval_report
    from steelyard.retrieval.jobs import learned_from, retrieval_files, run_labels
    from steelyard.retrieval.ranks import retrieve
    from steelyard.retrieval.shifts.named import named_shift
    from steelyard.retrieval.wire import embedder_of, retrieval_document
    from steelyard.runs.saved import Clock, free_place
    from steelyard.runs.saved import save as keep

    clock, run_id, settings, scope = Clock(), run_id or str(uuid4()), uncertainty.settings, place.scope
    asked: dict[str, Any] = {"scope": scope, "scale": scale, "allow_cancelled": allow_cancelled}
    wanted = shift if shift not in (None, "none") else None
    if wanted is not None:
        named_shift(wanted, **asked)  # what is wrong with it is better said before documents are embedded
    if save:
        free_place(scope, workflow, run_id)
    corpus = how.corpus(texts)
    named = None if wanted is None else named_shift(wanted, embedder=embedder_of(corpus), **asked)
    with progress("searching") as bar:
        retrieval = retrieve(
            corpus,
            named.shift if named is not None else None,
            seen=learned_from(named),
            settings=settings,
            progress=bar,
        )
    document = retrieval_document(retrieval, corpus, named)
    report = retrieval_report(retrieval, corpus, named)
    files = retrieval_files(retrieval, corpus, document, render("markdown", report))
    if save:
        saved, folder = keep(
            scope,
            (retrieval.shifted or retrieval.baseline).evaluation,
            workflow=workflow,
            clock=clock,
            labels={**labels, **run_labels(corpus, named)},
            run_id=run_id,
            more_files=files,
        )
        document = {**document, "run_id": saved.run_id, "folder": str(folder)}
        say(f"saved run {saved.run_id} in {folder}")
    outside = {} if out is None else {"--out": {out / name: data for name, data in files.items()}}
    return Shown(document=document, report=report, files=outside)
