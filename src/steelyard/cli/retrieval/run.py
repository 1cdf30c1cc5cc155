"""`steelyard retrieval run`: search all documents for every query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from steelyard.cli.command import READS, Shown, Writes, command, say
from steelyard.cli.options import embedding, store
from steelyard.cli.options.records import pairs
from steelyard.cli.options.retrieval import run_files
from steelyard.cli.options.uncertainty import Intervals
from steelyard.cli.progress import progress
from steelyard.errors import UsageError


@command()
def run(
    *,
    texts: embedding.Texts,
    shift: embedding.ShiftName = None,
    scale: embedding.Scale = None,
    allow_cancelled: embedding.AllowCancelled = False,
    qrels: Annotated[
        str | None,
        typer.Option("--qrels", help="Judgements, several relevant documents a query: TREC lines or JSON."),
        READS,
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option("--depth", min=1, help="Documents of each query for --qrels and --trec-run; 1000 by default."),
    ] = None,
    trec_run: Annotated[
        Path | None, typer.Option("--trec-run", help="A file for the rankings, as TREC lines."), Writes()
    ] = None,
    workflow: Annotated[str, typer.Option("--workflow", help="The kind of run.")] = "retrieval",
    label: store.Label = None,
    run_id: store.RunId = None,
    group_readable: store.GroupReadable = False,
    save: Annotated[
        bool, typer.Option("--save/--no-save", help="Keep the run: numbers, evidence and digests, under the root.")
    ] = True,
    baseline_run: Annotated[
        bool,
        typer.Option(
            "--baseline-run/--no-baseline-run",
            help="With a shift, also keep the run without it: WORKFLOW-Baseline, with the same label pair.",
        ),
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A folder to write the result document to, with the files of the run."),
        Writes(run_files),
    ] = None,
    how: embedding.Embedding,
    uncertainty: Intervals,
    place: store.Place,
) -> Shown:
    """Search all documents for every query; write run.json, per-query files and, with a shift, what it did.

    KPIs: map@1 (1/rank of the one relevant document), ndcg@3, mrr, hit@1, each with an interval. With --qrels, ndcg@10,
    mrr, map, precision@10, recall@100, hit@10 and rprec as trec_eval computes them.
    """
    labels = pairs(label, "label")
    if depth is not None and qrels is None and trec_run is None:
        raise UsageError("--depth is for --qrels and --trec-run; give one of them")
    from steelyard.report.formats import render
    from steelyard.report.retrieval import retrieval_report
    from steelyard.retrieval.jobs import RunPlan, learned_from
    from steelyard.retrieval.ranks import DEPTH, retrieve
    from steelyard.retrieval.shifts.named import named_shift
    from steelyard.retrieval.trec import check_ids
    from steelyard.retrieval.trec import trec_run as trec_text
    from steelyard.retrieval.wire import embedder_of, retrieval_document
    from steelyard.runs.layout import share
    from steelyard.runs.saved import Clock, keep

    settings, scope = uncertainty.settings, place.scope
    wanted = shift if shift not in (None, "none") else None
    baseline_id = str(uuid4()) if run_id is None else f"{run_id}-baseline"
    plan = RunPlan(
        workflow=workflow,
        run_id=run_id or str(uuid4()),
        baseline_id=baseline_id if baseline_run and wanted is not None else None,
        tenant=scope.tenant,
        clock=Clock(),
        labels=labels,
        own_labels=store.matrix_labels(),
    )
    asked: dict[str, Any] = {
        "scope": scope,
        "view": place.view,
        "scale": scale,
        "allow_cancelled": allow_cancelled,
    }
    if wanted is not None:
        named_shift(wanted, **asked)  # what is wrong with it is better said before documents are embedded
    if save:
        plan.check(scope)
    corpus = how.corpus(texts, qrels=qrels, check=None if trec_run is None else check_ids)
    named = None if wanted is None else named_shift(wanted, embedder=embedder_of(corpus), **asked)
    with progress("searching") as bar:
        retrieval = retrieve(
            corpus,
            named.shift if named is not None else None,
            seen=learned_from(named),
            depth=depth or (None if trec_run is None else DEPTH),
            settings=settings,
            progress=bar,
        )
    document = retrieval_document(retrieval, corpus, named)
    report = retrieval_report(retrieval, corpus, named)
    runs = plan.folders(retrieval, corpus, named, document=document, markdown=render("markdown", report))
    if save:
        if group_readable:
            share(scope)
        *before, folder = keep(scope, *runs)
        for each, where in zip(runs, (*before, folder), strict=True):
            say(f"saved run {each.run.run_id} in {where}")
        document = {**document, "run_id": plan.run_id, "folder": str(folder)}
        if before:
            document |= {"baseline_run_id": plan.baseline_id, "baseline_folder": str(before[0])}
    files: dict[str, dict[Path, str | bytes]] = {}
    if out is not None:
        files["--out"] = {out / name: data for name, data in runs[-1].files.items()}
    if trec_run is not None:
        hits = (retrieval.shifted or retrieval.baseline).hits
        files["--trec-run"] = {trec_run: trec_text(corpus, hits, depth=depth or DEPTH, tag=workflow)}
    return Shown(document=document, report=report, files=files)
