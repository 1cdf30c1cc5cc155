"""What retrieval leaves behind: the wire form of a search with a shift, of a training, and of the evaluators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from steelyard.errors import counted
from steelyard.ground.json import plain
from steelyard.retrieval.corpus import Corpus
from steelyard.retrieval.diagnosis import Diagnosis
from steelyard.retrieval.ranks import MAP_AT_1, Retrieval, Side
from steelyard.retrieval.shifts.kept import (
    EmbedderResult,
    FoldResult,
    Gain,
    HeldOutResult,
    ShiftTrainingResult,
)
from steelyard.retrieval.shifts.named import NamedShift
from steelyard.retrieval.shifts.training import LEVEL, TrainingOutcome
from steelyard.uncertainty.number import Delta
from steelyard.uncertainty.wire import delta_document

TIES = "equal cosines in document order"
TRAINING_MODE = "posneg-uniform"
_NEAR_ONE = 0.01  # how far from 1 the length of a normalised vector may be


def embedder_of(corpus: Corpus) -> EmbedderResult:
    """What made the corpus's vectors."""
    provider, model = corpus.embedder
    return EmbedderResult(provider=provider, model=model, dimension=corpus.docs.dimension)


def seen_in_training(queries: Sequence[str], named: NamedShift | None) -> int:
    """How many of these queries, by the digests of their vectors, the shift was learned from."""
    if named is None or named.training is None:
        return 0
    seen = set(named.training.query_digests)
    return sum(digest in seen for digest in queries)


def remarks(retrieval: Retrieval, corpus: Corpus, named: NamedShift | None) -> list[str]:
    """What must be said together with the numbers."""
    notes = [f"{counted(n, 'query')} left out: {reason}" for reason, n in corpus.reasons.items()]
    for title, side in (("", retrieval.baseline), ("shifted ", retrieval.shifted)):
        if side is not None and side.zero_queries:
            notes.append(
                f"{side.zero_queries} {title}queries have no direction: all their cosines are 0, "
                "so their ranks are the documents' order"
            )
    copies = len(corpus) - len(set(corpus.digests))
    if copies and corpus.clusters is None:
        them = (
            "is a copy of another, and intervals count it"
            if copies == 1
            else "are copies of others, and intervals count them"
        )
        notes.append(f"{counted(copies, 'query')} {them} as new; give copies one cluster")
    notes += corpus.notes
    if named is not None:
        notes += named.notes
    said = [w for side in (retrieval.baseline, retrieval.shifted) if side is not None for w in side.evaluation.warnings]
    return list(dict.fromkeys((*notes, *said)))


def retrieval_document(retrieval: Retrieval, corpus: Corpus, named: NamedShift | None) -> dict[str, Any]:
    """`metrics-posneg.json`, and what `retrieval run` prints: KPIs of both sides, deltas with paired intervals."""
    sides = {"baseline": retrieval.baseline, "posneg": retrieval.shifted}
    kpis = {name: _kpis(side) for name, side in sides.items() if side is not None}
    whole = (retrieval.shifted or retrieval.baseline).evaluation.to_dict()
    document: dict[str, Any] = {
        "schema_version": "1",
        "kind": "retrieval",
        "tool": whole["tool"],
        "inputs": whole["inputs"],
        "uncertainty": whole["uncertainty"],
        "ties": TIES,
        **({} if corpus.judged is None else {"depth": retrieval.depth}),
        "effective_queries": len(corpus),
        "left_out": corpus.reasons,
        "documents": len(corpus.doc_ids),
        "embedder": dict(zip(("provider", "model"), corpus.embedder, strict=True)),
        "zero_queries": {name: side.zero_queries for name, side in sides.items() if side is not None},
        **kpis,
        "estimates": {name: [e.to_dict() for e in side.evaluation] for name, side in sides.items() if side is not None},
    }
    if named is not None and retrieval.comparison is not None:
        document["shift"] = {
            "name": named.name,
            "kind": named.shift.kind,
            "queries_seen_in_training": seen_in_training(corpus.digests, named),
        }
        document["deltas"] = [delta_document(d) for d in retrieval.comparison]
    return plain({**document, "notes": remarks(retrieval, corpus, named)})


def _kpis(side: Side) -> dict[str, float | None]:
    return {e.metric: e.value for e in side.evaluation}


def training_result(
    trained: TrainingOutcome, corpus: Corpus, *, workflow: str, training_id: str, created: str, base_directory: str
) -> ShiftTrainingResult:
    """A training as it is kept, every statistic included."""
    training, held_out = trained.training, trained.held_out
    score = held_out.score.delta
    return ShiftTrainingResult(
        workflow_name=workflow,
        created_utc=created,
        base_directory=base_directory,
        training_mode=TRAINING_MODE,
        cancel_out_epsilon=trained.options.epsilon,
        is_cancelled=training.cancelled,
        cancel_reason=training.cancel_reason,
        delta_vector=[float(x) for x in training.delta],
        delta_norm=training.norm,
        improvement_first_plus_delta=score,
        delta_improvement=score,
        schema_version="1",
        training_id=training_id,
        scale=trained.options.scale,
        options=asdict(trained.options),
        stats=training.stats,
        held_out=_held_out(trained),
        in_sample=dict(trained.in_sample),
        embedder=embedder_of(corpus),
        inputs=[{"Path": s.name, "Sha256": s.sha256} for s in corpus.sources],
        query_digests=sorted(corpus.digests),
        notes=training_notes(trained, corpus),
    )


def training_notes(trained: TrainingOutcome, corpus: Corpus) -> list[str]:
    """What must be said of a training."""
    notes = [f"{counted(n, 'query')} left out: {reason}" for reason, n in corpus.reasons.items()]
    training = trained.training
    notes += _unlike_one(trained, corpus)
    if training.stats.pairs == 0:
        notes.append("every relevant document already stands first, or no direction leads to it: nothing to learn")
    if training.stats.cancel_out_suspected:
        notes.append("the directions of the pairs cancel each other out: there is no shared drift to undo")
    if training.cancelled:
        notes.append(f"cancelled: {training.cancel_reason}; it is not applied")
    elif not trained.usable:
        notes.append("not shown to help on held-out queries: `best` will not choose it")
    notes.append("in-sample numbers are judged on the queries the shift was learned from: optimistic")
    return notes


def _unlike_one(trained: TrainingOutcome, corpus: Corpus) -> list[str]:
    """What to say where a longest norm meets vectors that it was not meant for."""
    longest = trained.options.max_norm
    lengths = {
        "documents": np.linalg.norm(corpus.docs.matrix, axis=1),
        "queries": np.linalg.norm(corpus.queries, axis=1),
    }
    odd = {what: each for what, each in lengths.items() if (np.abs(each - 1) > _NEAR_ONE).any()}
    if not longest or not odd:
        return []
    shown = " and ".join(f"{what} have lengths from {each.min():.3g} to {each.max():.3g}" for what, each in odd.items())
    stats = trained.training.stats
    what = f"the shift was clipped to it from {stats.norm_before_clip:.3g}" if stats.clipped else "nothing was clipped"
    return [
        f"the vectors are not normalised: {shown}, and a longest shift of {longest:.3g} is meant for vectors of "
        f"length 1 ({what}); normalise them, or choose a norm of their scale"
    ]


def _held_out(trained: TrainingOutcome) -> HeldOutResult:
    held_out = trained.held_out
    score = held_out.score
    return HeldOutResult(
        score=score.delta,
        baseline=score.base,
        shifted=score.new,
        interval=score.interval,
        level=LEVEL,
        p_value=score.p_value,
        helps=held_out.helps,
        queries=score.n,
        clusters=score.clusters,
        seed=trained.options.seed,
        folds=[FoldResult(**asdict(fold), gain=fold.gain) for fold in held_out.folds],
        gains=[_gain(d) for d in held_out.parts],
        note=score.note,
    )


def _gain(delta: Delta) -> Gain:
    return Gain(
        metric=MAP_AT_1 if delta.metric == "mrr" else delta.metric,
        baseline=delta.base,
        shifted=delta.new,
        delta=delta.delta,
        interval=delta.interval,
        p_value=delta.p_value,
        verdict=delta.verdict,
        note=delta.note,
    )


def diagnosis_document(diagnosis: Diagnosis, about: Mapping[str, Any]) -> dict[str, Any]:
    """What `retrieval eval` prints and keeps: documented keys under `metrics`, intervals next to them."""
    whole = diagnosis.evaluation.to_dict()
    document = {
        "schema_version": "1",
        "kind": "retrieval-evaluators",
        "tool": whole["tool"],
        "inputs": whole["inputs"],
        **about,
        "queries": diagnosis.queries,
        "references": diagnosis.references,
        "zero_queries": diagnosis.zero_queries,
        "notes": list(diagnosis.notes),
        "metrics": dict(diagnosis.metrics),
        "uncertainty": whole["uncertainty"],
        "estimates": whole["estimates"],
    }
    if diagnosis.comparison is not None:
        document["deltas"] = [delta_document(d) for d in diagnosis.comparison]
    return plain(document)
