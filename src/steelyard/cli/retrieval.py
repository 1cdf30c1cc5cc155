"""`steelyard retrieval`: search with embeddings, with and without a shift of the queries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from steelyard.cli import embedding_options as embedding
from steelyard.cli import options
from steelyard.cli import store_options as store
from steelyard.errors import UsageError, printable

app = typer.Typer(no_args_is_help=True, help="Embedding retrieval: ranks of the relevant documents, and shifts.")


@app.command()
def run(
    docs: embedding.Docs,
    queries: embedding.Queries,
    embedder: embedding.EmbedderName = None,
    shift: embedding.ShiftName = None,
    scale: embedding.Scale = None,
    allow_cancelled: embedding.AllowCancelled = False,
    workflow: Annotated[str, typer.Option("--workflow", help="The kind of run.")] = "retrieval",
    label: Annotated[
        list[str] | None, typer.Option("--label", help="What to find it by: model=m1. Repeatable.")
    ] = None,
    run_id: Annotated[str | None, typer.Option("--run-id", help="Its id; by default a new one is made.")] = None,
    save: Annotated[bool, typer.Option("--save/--no-save", help="Keep the run under the root.")] = True,
    out: Annotated[Path | None, typer.Option("--out", help="A folder for the same files outside the store.")] = None,
    base_url: embedding.BaseUrl = None,
    api_key_env: embedding.ApiKeyVariable = embedding.API_KEY,
    cache: embedding.Cache = None,
    chunk_size: embedding.ChunkSize = None,
    overlap: embedding.Overlap = 0,
    resamples: options.Resamples = 10_000,
    seed: options.Seed = 42,
    level: options.Level = 0.95,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: options.Format = "table",
) -> None:
    """Search all documents for every query; write run.json, per-query files and, with a shift, what it did.

    KPIs: map@1 (1/rank of the one relevant document), ndcg@3, mrr, hit@1, each with an interval.
    """
    options.check_format(format_)
    labels = {**store.matrix_labels(), **options.pairs(label, "label")}
    scope = store.scope(root, tenant, domain)
    _check_folder(out, [docs, queries, cache, *embedding.files_of(shift), *embedding.files_of(embedder)])
    from steelyard.report.retrieval import retrieval_report
    from steelyard.retrieval.ranks import retrieve
    from steelyard.retrieval.shifts.named import named_shift
    from steelyard.retrieval.wire import embedder_of, retrieval_document, seen_in_training
    from steelyard.runs.saved import SEEN, Clock, free_place
    from steelyard.runs.saved import save as keep
    from steelyard.uncertainty.settings import Settings

    clock, run_id = Clock(), run_id or str(uuid4())
    Settings(resamples=resamples, seed=seed, level=level)
    chosen: dict[str, Any] = {"scope": scope, "scale": scale, "allow_cancelled": allow_cancelled}
    wanted = shift if shift not in (None, "none") else None
    if wanted is not None:
        named_shift(wanted, **chosen)  # what is wrong with it is better said before documents are embedded
    if save:
        free_place(scope, workflow, run_id)
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
    named = None if wanted is None else named_shift(wanted, embedder=embedder_of(corpus), **chosen)
    learned_from = () if named is None or named.training is None else frozenset(named.training.query_digests)
    with options.progress("searching") as progress:
        found = retrieve(
            corpus,
            named.shift if named is not None else None,
            seen=learned_from,
            resamples=resamples,
            seed=seed,
            level=level,
            progress=progress,
        )
    document = retrieval_document(found, corpus, named)
    report = retrieval_report(found, corpus, named)
    files = _files(found, corpus, document, report)
    if save:
        about = {"embedder": " ".join(corpus.embedder).strip(), "shift": named.name if named is not None else "none"}
        seen = seen_in_training(corpus.digests, named)
        if seen:
            about[SEEN] = f"{seen} of {len(corpus)} queries"
        kept, folder = keep(
            scope,
            (found.shifted or found.baseline).evaluation,
            workflow=workflow,
            clock=clock,
            labels={**labels, **about},
            run_id=run_id,
            beside=files,
        )
        document = {**document, "run_id": kept.run_id, "folder": str(folder)}
        options.say(f"saved run {kept.run_id} in {folder}")
    if out is not None:
        options.write({out / name: data for name, data in files.items()})
    options.show(document, report, format_, None)


def _check_folder(out: Path | None, inputs: list[str | Path | None]) -> None:
    """Refuse a folder in which a file of the run would replace an input."""
    from steelyard.runs.saved import FILES

    if out is None:
        return
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out is a folder; {printable(out)} is a file")
    if any(name is not None and not Path(name).is_file() and options.same_file(out, name) for name in inputs):
        raise UsageError("--out is a folder that is read: what is written there would be read next time")
    options.check_outputs({"--out": [out / name for name in FILES]}, inputs)


def _files(found: Any, corpus: Any, document: dict[str, Any], report: Any) -> dict[str, bytes]:
    """What lies beside run.json."""
    from steelyard.ground.json import dumps
    from steelyard.report.formats import markdown
    from steelyard.retrieval.per_query import per_query_text
    from steelyard.runs.saved import BASELINE, INGEST, METRICS, METRICS_REPORT, SHIFTED

    files = {
        BASELINE: per_query_text(found.baseline.entries).encode(),
        INGEST: dumps(corpus.ingest.document()).encode(),
    }
    if found.shifted is not None:
        files[SHIFTED] = per_query_text(found.shifted.entries).encode()
        files[METRICS] = dumps(document).encode()
        files[METRICS_REPORT] = markdown.render(report).encode()
    return files


@app.command("eval")
def eval_(
    refs: Annotated[str, typer.Option("--refs", help="The references, shared by all queries: a .npz or .npy file.")],
    queries: Annotated[str, typer.Option("--queries", help="The queries: a .npz or .npy file.")],
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
        Path | None, typer.Option("--out", help="A folder for evaluators.json and, with rules, acceptance_gate.json.")
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Keep it as a run: workflow evaluation, or evaluation+baseline.")
    ] = False,
    resamples: options.Resamples = 10_000,
    seed: options.Seed = 42,
    level: options.Level = 0.95,
    tenant: store.Tenant = None,
    domain: store.Domain = None,
    root: store.Root = None,
    format_: options.Format = "table",
) -> None:
    """Run the four evaluators over one shared set of references; with rules, decide whether the shift may pass.

    Exit code with rules: 0 pass, 1 fail, 6 inconclusive.
    """
    options.check_format(format_)
    gate = _gate(gate_profile, rule, baseline)
    from steelyard.ground.json import dumps
    from steelyard.records.table import Source
    from steelyard.report.retrieval import diagnosis_report
    from steelyard.retrieval.corpus import vector_digests
    from steelyard.retrieval.diagnosis import Relevance, diagnose
    from steelyard.retrieval.ranks import seen_remark
    from steelyard.retrieval.shifts.named import named_shift
    from steelyard.retrieval.vectors import read_vectors, same_dimension
    from steelyard.retrieval.wire import diagnosis_document, seen_in_training
    from steelyard.runs.saved import ACCEPTANCE, EVALUATORS, SEEN, Clock
    from steelyard.runs.saved import save as keep

    clock, scope = Clock(), store.scope(root, tenant, domain)
    relevance = Relevance(_indices(relevant), k, mrr_index)
    _check_folder(out, [refs, queries, *embedding.files_of(shift)])
    references, asked = read_vectors(refs), read_vectors(queries)
    same_dimension(references, asked)
    named = named_shift(
        shift or "none",
        scope=scope,
        scale=scale,
        allow_cancelled=allow_cancelled,
    )
    found = diagnose(
        asked.matrix,
        references.matrix,
        named.shift,
        baseline=baseline,
        relevance=relevance,
        sources=[Source(each.name, each.sha256, 0) for each in (asked, references)],
        resamples=resamples,
        seed=seed,
        level=level,
    )
    document = diagnosis_document(found, {"shift": {"name": named.name, "kind": named.shift.kind}})
    document["notes"] += named.notes
    seen = seen_in_training(vector_digests(asked.matrix), named)
    if seen:
        document["notes"].append(seen_remark(seen, len(asked)))
    report = diagnosis_report(found, document["notes"])
    decision = None
    if gate is not None:
        decision, document["gate"], judged = _decided(gate, found, named.name)
        report += judged
    files = {EVALUATORS: dumps(document).encode()}
    if decision is not None:
        files[ACCEPTANCE] = dumps(document["gate"]).encode()
    if save:
        kept, folder = keep(
            scope,
            found.evaluation,
            workflow="evaluation+baseline" if baseline else "evaluation",
            clock=clock,
            labels={"shift": named.name, **({SEEN: f"{seen} of {len(asked)} queries"} if seen else {})},
            beside=files,
            numbers=_measured(found),
        )
        options.say(f"saved run {kept.run_id} in {folder}")
    if out is not None:
        options.write({out / name: data for name, data in files.items()})
    options.show(document, report, format_, None)
    if decision is not None:
        raise typer.Exit(decision.exit_code)


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


def _decided(gate: Any, found: Any, name: str) -> tuple[Any, dict[str, Any], Any]:
    from steelyard.decide.numbers import Subject
    from steelyard.report.gate import acceptance_document, gate_report

    known = _measured(found)
    subject = Subject(
        evaluation=tuple(found.evaluation),
        comparison=found.comparison,
        metrics=known,
        baseline=found.comparison is not None,
        remarks=found.notes,
    )
    decision = gate.check(subject)
    about = {"run": name, "baseline": "none" if found.comparison is not None else None}
    document = {**acceptance_document(decision, about), "metrics": known}
    return decision, document, gate_report(decision, about)


def _measured(found: Any) -> dict[str, float]:
    """The numbers that measure something, by their documented keys."""
    named = {key: value for key, value in found.metrics.items() if key.partition(".")[0] not in found.idle}
    return {key: value for key, value in named.items() if value is not None}


def _indices(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise UsageError("--relevant takes indices from 0: 0,3,7")
    return tuple(int(part) for part in parts)
