"""What commands that search keep and judge: the files next to a run, its labels, and the gate of the evaluators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.decide.decision import Decision
from steelyard.decide.gate import Gate
from steelyard.decide.numbers import Subject
from steelyard.decide.wire import acceptance_document
from steelyard.ground.json import dumps
from steelyard.retrieval.corpus import Corpus
from steelyard.retrieval.diagnosis import Diagnosis
from steelyard.retrieval.per_query import per_query_text
from steelyard.retrieval.ranks import Retrieval
from steelyard.retrieval.shifts.named import NamedShift
from steelyard.retrieval.wire import seen_in_training
from steelyard.runs.saved import BASELINE, INGEST, METRICS, METRICS_REPORT, SEEN, SHIFTED


def learned_from(named: NamedShift | None) -> frozenset[str]:
    """The digests of the queries that a shift was learned from."""
    return frozenset() if named is None or named.training is None else frozenset(named.training.query_digests)


def retrieval_files(
    retrieval: Retrieval, corpus: Corpus, document: Mapping[str, Any], markdown: str
) -> dict[str, bytes]:
    """What lies next to the run.json of a search; with a shift, what it did, for programs and for people."""
    files = {
        BASELINE: per_query_text(retrieval.baseline.entries).encode(),
        INGEST: dumps(corpus.ingest.document()).encode(),
    }
    if retrieval.shifted is not None:
        files[SHIFTED] = per_query_text(retrieval.shifted.entries).encode()
        files[METRICS] = dumps(document).encode()
        files[METRICS_REPORT] = markdown.encode()
    return files


def run_labels(corpus: Corpus, named: NamedShift | None) -> dict[str, str]:
    """What a search can be found by."""
    seen = seen_in_training(corpus.digests, named)
    return {
        "embedder": " ".join(corpus.embedder).strip(),
        "shift": named.name if named is not None else "none",
        **seen_label(seen, len(corpus)),
    }


def seen_label(seen: int, queries: int) -> dict[str, str]:
    """The label of a run whose shift was learned from its own queries."""
    return {SEEN: f"{seen} of {queries} queries"} if seen else {}


def measured(diagnosis: Diagnosis) -> dict[str, float]:
    """The numbers that measure something, by their documented keys."""
    named = {key: value for key, value in diagnosis.metrics.items() if key.partition(".")[0] not in diagnosis.idle}
    return {key: value for key, value in named.items() if value is not None}


def gated(gate: Gate, diagnosis: Diagnosis, name: str) -> tuple[Decision, dict[str, Any], dict[str, Any]]:
    """The decision about a shift by what the evaluators measured, what it is about, and its document."""
    numbers = measured(diagnosis)
    subject = Subject(
        evaluation=tuple(diagnosis.evaluation),
        comparison=diagnosis.comparison,
        metrics=numbers,
        baseline=diagnosis.comparison is not None,
        remarks=diagnosis.notes,
    )
    decision = gate.check(subject)
    about = {"run": name, "baseline": "none" if diagnosis.comparison is not None else None}
    return decision, about, {**acceptance_document(decision, about), "metrics": numbers}
