"""Diagnostic evaluators: every query against one shared set of references, with and without a shift.

    CosineSimilarityEvaluator   mean cosine of the query to all references
    MarginEvaluator             first cosine − second cosine; null with fewer than two references
    NdcgEvaluator               nDCG@k of the relevant references, binary
    MrrEvaluator                1 / rank of the one relevant reference; 0 where the index is beyond the references

The relevant references are the same for every query: alignment, not retrieval quality. Equal cosines stand in the
references' order, so a shift that makes all cosines equal gives a perfect rank to the first reference: read the cosine
together with the ranks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.errors import UsageError
from steelyard.records.table import Records, Source
from steelyard.registry import Registry
from steelyard.retrieval.search import Floats, Matrix, gold_ranks, search
from steelyard.retrieval.shifts.shift import Shift, applied
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate
from steelyard.study.results import Comparison, Evaluation
from steelyard.texts.vectors import directions
from steelyard.uncertainty.settings import Settings


@dataclass(frozen=True)
class Relevance:
    """Which references are relevant, and how deep nDCG looks."""

    indices: tuple[int, ...] = (0,)
    k: int = 10
    mrr_index: int = 0

    def __post_init__(self) -> None:
        if any(index < 0 for index in (*self.indices, self.mrr_index)):
            raise UsageError("indices of relevant references count from 0")


Evaluator = Callable[[Matrix, Matrix, Relevance], Floats]
evaluators: Registry[Evaluator] = Registry("evaluator")


def cosine_similarity(queries: Matrix, refs: Matrix, _: Relevance) -> Floats:
    """The mean cosine of each query to all references: one product with the mean of their directions."""
    return np.clip(directions(queries) @ directions(refs).mean(axis=0), -1.0, 1.0)


def margin(queries: Matrix, refs: Matrix, _: Relevance) -> Floats:
    """The first cosine minus the second."""
    if len(refs) < 2:
        return np.full(len(queries), np.nan)
    scores = search(queries, refs, k=2).scores
    return scores[:, 0] - scores[:, 1]


def ndcg(queries: Matrix, refs: Matrix, relevance: Relevance) -> Floats:
    """nDCG@k with the relevant indices that are references; a k below 1 is 1."""
    k = max(relevance.k, 1)
    inside = sorted({index for index in relevance.indices if index < len(refs)})
    gained = np.zeros(len(queries))
    for index in inside:
        rank = gold_ranks(queries, refs, np.full(len(queries), index))
        gained += np.where(rank <= k, 1 / np.log2(rank + 1.0), 0.0)
    best = sum(1 / np.log2(place + 2.0) for place in range(min(len(inside), k)))
    return gained / best if best else gained


def mrr(queries: Matrix, refs: Matrix, relevance: Relevance) -> Floats:
    """The reciprocal rank of the relevant reference."""
    if relevance.mrr_index >= len(refs):
        return np.zeros(len(queries))
    return 1 / gold_ranks(queries, refs, np.full(len(queries), relevance.mrr_index))


evaluators.add("CosineSimilarityEvaluator", cosine_similarity)
evaluators.add("MarginEvaluator", margin)
evaluators.add("NdcgEvaluator", ndcg)
evaluators.add("MrrEvaluator", mrr)


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The evaluators' numbers under their documented keys (None: undefined), together with intervals."""

    metrics: Mapping[str, float | None]
    evaluation: Evaluation
    comparison: Comparison | None
    queries: int
    references: int
    zero_queries: int  # of the queries as they were judged, after the shift
    notes: tuple[str, ...]
    idle: frozenset[str]  # evaluators that had nothing to measure: 0 by definition, not by merit


def diagnose(
    queries: Matrix,
    refs: Matrix,
    shift: Shift,
    *,
    baseline: bool = False,
    relevance: Relevance | None = None,
    sources: Sequence[Source] = (),
    resamples: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
    settings: Settings | None = None,
) -> Diagnosis:
    """Run every evaluator on the shifted queries, and with `baseline` on the queries as they are."""
    relevance = relevance or Relevance()
    moved = applied(shift, queries)
    started = time.perf_counter()
    new, durations = _scored(moved, refs, relevance)
    base = _scored(queries, refs, relevance)[0] if baseline else None
    durations["evaluation.duration_ms"] = _since(started)
    metrics = {name: _mean(scores) for name, scores in new.items()}
    if base is not None:
        for name, scores in new.items():
            before, after = _mean(base[name]), _mean(scores)
            delta = None if before is None or after is None else after - before
            metrics |= {f"{name}.baseline": before, f"{name}.shift": after, f"{name}.delta": delta}
    idle = _idle(relevance, len(refs))
    for side in (new, base or {}):
        side.update({name: np.full(len(queries), np.nan) for name in idle if name in side})
    asked = [f"mean({name}, better=higher)" for name in new]
    settings = settings or Settings(resamples=resamples, seed=seed, level=level)
    table = _records(new, sources)
    comparison = None if base is None else compare(_records(base, sources), table, asked, settings=settings)
    return Diagnosis(
        metrics={**metrics, **durations},
        evaluation=evaluate(table, asked, keep_evidence=True, settings=settings),
        comparison=comparison,
        queries=len(queries),
        references=len(refs),
        zero_queries=int((~moved.any(axis=1)).sum()),
        notes=tuple(_notes(idle, shift, baseline)),
        idle=frozenset(idle),
    )


def _idle(relevance: Relevance, references: int) -> list[str]:
    """The evaluators whose relevant references are none of the references."""
    names = []
    if all(index >= references for index in relevance.indices):
        names.append("NdcgEvaluator")
    if relevance.mrr_index >= references:
        names.append("MrrEvaluator")
    return names


def _notes(idle: Sequence[str], shift: Shift, baseline: bool) -> list[str]:
    notes = [f"{name}: no relevant index is one of the references, so it is 0 and measures nothing" for name in idle]
    if baseline and shift.kind == "none":
        notes.append("there is no shift: both sides are the same")
    return notes


def _scored(queries: Matrix, refs: Matrix, relevance: Relevance) -> tuple[dict[str, Floats], dict[str, float | None]]:
    scores, durations = {}, {}
    for name in evaluators:
        started = time.perf_counter()
        scores[name] = np.asarray(evaluators[name](queries, refs, relevance), np.float64)
        durations[f"{name}.duration_ms"] = _since(started)
    return scores, durations


def _since(started: float) -> float | None:
    return (time.perf_counter() - started) * 1000


def _mean(scores: Floats) -> float | None:
    return None if np.isnan(scores).any() else float(scores.mean())


def _records(scores: Mapping[str, Floats], sources: Sequence[Source]) -> Records:
    size = len(next(iter(scores.values())))
    columns = {"item": [str(i) for i in range(size)]}
    named = {name: [None if np.isnan(x) else float(x) for x in values] for name, values in scores.items()}
    return Records.from_columns({**columns, **named}, sources=sources)
