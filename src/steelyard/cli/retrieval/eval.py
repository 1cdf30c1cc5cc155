"""`steelyard retrieval eval`: the four evaluators over one shared set of references."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from steelyard.cli.command import READS, Shown, Writes, command, say
from steelyard.cli.options import embedding, store
from steelyard.cli.options.records import pairs
from steelyard.cli.options.retrieval import run_files
from steelyard.cli.options.uncertainty import Intervals
from steelyard.errors import UsageError
from steelyard.ground.commas import split_commas


@command()
def eval_(
    *,
    refs: Annotated[str, typer.Argument(help="The references, shared by all queries: a .npz or .npy file."), READS],
    queries: Annotated[str, typer.Argument(help="The queries: a .npz or .npy file."), READS],
    shift: embedding.ShiftName = None,
    scale: embedding.Scale = None,
    allow_cancelled: embedding.AllowCancelled = False,
    baseline: Annotated[bool, typer.Option("--baseline", help="Also without the shift, and the difference.")] = False,
    relevant: Annotated[
        str, typer.Option("--relevant", help="Indices of the relevant references for NdcgEvaluator: 0,3,7.")
    ] = "0",
    k: Annotated[int, typer.Option("--k", help="How deep NdcgEvaluator looks.")] = 10,
    mrr_index: Annotated[int, typer.Option("--mrr-index", help="The relevant reference for MrrEvaluator.")] = 0,
    gate_profile: Annotated[
        str | None, typer.Option("--gate-profile", help="Judge by documented rules: rank or rank+cosine.")
    ] = None,
    rule: Annotated[
        list[str] | None, typer.Option("--rule", help='A rule of your own: "NdcgEvaluator.delta >= 0". Repeatable.')
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A folder to write the result document to, with the files of the run."),
        Writes(run_files),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save/--no-save", help="Keep the run: numbers, evidence and digests, under the root.")
    ] = True,
    label: store.Label = None,
    run_id: store.RunId = None,
    group_readable: store.GroupReadable = False,
    uncertainty: Intervals,
    place: store.Place,
) -> Shown:
    """Run the four evaluators over one shared set of references; with rules, decide whether the shift may pass.

    Exit code with rules: 0 pass, 1 fail, 6 inconclusive.
    """
    gate, labels = _gate(gate_profile, rule, baseline), pairs(label, "label")
    from steelyard.ground.json import dumps
    from steelyard.records.table import Source
    from steelyard.report.gate import gate_report
    from steelyard.report.retrieval import diagnosis_report
    from steelyard.retrieval.corpus import vector_digests
    from steelyard.retrieval.diagnosis import Relevance, diagnose
    from steelyard.retrieval.jobs import eval_manifest, gated, measured, seen_label
    from steelyard.retrieval.ranks import seen_remark
    from steelyard.retrieval.shifts.named import named_shift
    from steelyard.retrieval.wire import diagnosis_document, seen_in_training
    from steelyard.runs.layout import share
    from steelyard.runs.saved import ACCEPTANCE, EVALUATORS, Clock, free_place, keep, run_folder
    from steelyard.texts.vectors import read_vectors, same_dimension

    clock, scope, settings = Clock(), place.scope, uncertainty.settings
    workflow, run_id = "evaluation+baseline" if baseline else "evaluation", run_id or str(uuid4())
    if save:
        free_place(scope, workflow, run_id)
    relevance = Relevance(_indices(relevant), k, mrr_index)
    references, asked = read_vectors(refs), read_vectors(queries)
    same_dimension(references, asked)
    named = named_shift(shift or "none", scope=scope, view=place.view, scale=scale, allow_cancelled=allow_cancelled)
    diagnosis = diagnose(
        asked.matrix,
        references.matrix,
        named.shift,
        baseline=baseline,
        relevance=relevance,
        sources=[Source(each.name, each.sha256, 0) for each in (asked, references)],
        settings=settings,
    )
    document = diagnosis_document(diagnosis, {"shift": {"name": named.name, "kind": named.shift.kind}})
    document["notes"] += named.notes
    seen = seen_in_training(vector_digests(asked.matrix), named)
    if seen:
        document["notes"].append(seen_remark(seen, len(asked)))
    report = diagnosis_report(diagnosis, document["notes"])
    files, decision = {}, None
    if gate is not None:
        decision, about, document["gate"] = gated(gate, diagnosis, named.name)
        report += gate_report(decision, about)
        files[ACCEPTANCE] = dumps(document["gate"]).encode()
    files = {EVALUATORS: dumps(document).encode(), **files}
    kept = run_folder(
        diagnosis.evaluation,
        tenant=scope.tenant,
        workflow=workflow,
        clock=clock,
        labels={**store.matrix_labels(), **labels, "shift": named.name, **seen_label(seen, len(asked))},
        run_id=run_id,
        more_files=files,
        numbers=measured(diagnosis),
        manifest=eval_manifest(
            diagnosis,
            named,
            relevance,
            command=["steelyard", *sys.argv[1:]],
            baseline=baseline,
            rules=[] if gate is None else [str(rule) for rule in gate.rules],
        ),
    )
    if save:
        if group_readable:
            share(scope)
        (folder,) = keep(scope, kept)
        document = {**document, "run_id": run_id, "folder": str(folder)}
        say(f"saved run {run_id} in {folder}")
    return Shown(
        document=document,
        report=report,
        exit_code=0 if decision is None else decision.exit_code,
        files={} if out is None else {"--out": {out / name: data for name, data in kept.files.items()}},
    )


def _gate(profile: str | None, rules: list[str] | None, baseline: bool) -> Any:
    """The rules to judge by, None where there are none."""
    if profile is None and not rules:
        return None
    from steelyard.decide.gate import Gate

    parts = [Gate.profile(profile)] if profile is not None else []
    parts += [Gate.parse(rules)] if rules else []
    if profile is not None and not baseline:
        raise UsageError("the rules of --gate-profile are about differences; add --baseline")
    return Gate(tuple(rule for part in parts for rule in part.rules))


def _indices(text: str) -> tuple[int, ...]:
    parts = split_commas(text)
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise UsageError("--relevant takes indices from 0: 0,3,7")
    return tuple(int(part) for part in parts)
