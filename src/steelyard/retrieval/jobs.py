"""What commands that search keep and judge: the files next to a run, its labels, and the gate of the evaluators."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.decide.decision import Decision
from steelyard.decide.gate import Gate
from steelyard.decide.numbers import Subject
from steelyard.decide.wire import acceptance_document
from steelyard.ground.json import dumps
from steelyard.retrieval.corpus import Corpus
from steelyard.retrieval.diagnosis import Diagnosis, Relevance
from steelyard.retrieval.per_query import per_query_text
from steelyard.retrieval.ranks import Retrieval
from steelyard.retrieval.shifts.named import NamedShift
from steelyard.retrieval.wire import seen_in_training
from steelyard.runs.layout import Scope
from steelyard.runs.manifest import RunManifest
from steelyard.runs.saved import (
    BASELINE,
    INGEST,
    METRICS,
    METRICS_REPORT,
    SEEN,
    SHIFTED,
    Clock,
    RunFolder,
    free_place,
    run_folder,
)

PAIR = "pair"  # the label that a run with a shift and the same without it share: the id of the former


def learned_from(named: NamedShift | None) -> frozenset[str]:
    """The digests of the queries that a shift was learned from."""
    return frozenset() if named is None or named.training is None else frozenset(named.training.query_digests)


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What a search is kept as. `baseline_id`: the same without the shift is kept too, under this id.

    `labels` are of both runs, `own_labels` of the one that was asked for alone.
    """

    workflow: str
    run_id: str
    baseline_id: str | None
    tenant: str | None
    clock: Clock
    labels: Mapping[str, str]
    own_labels: Mapping[str, str]

    def check(self, scope: Scope) -> None:
        """Refuse names that are not plain, and runs that are there already."""
        free_place(scope, self.workflow, self.run_id)
        if self.baseline_id is not None:
            free_place(scope, _baseline_of(self.workflow), self.baseline_id)

    def folders(
        self,
        retrieval: Retrieval,
        corpus: Corpus,
        named: NamedShift | None,
        *,
        document: Mapping[str, Any],
        markdown: str,
    ) -> list[RunFolder]:
        """The runs: the one that was asked for is the last."""
        common: dict[str, Any] = {"tenant": self.tenant, "clock": self.clock}
        pair = {} if self.baseline_id is None else {PAIR: self.run_id}
        asked = run_folder(
            (retrieval.shifted or retrieval.baseline).evaluation,
            workflow=self.workflow,
            run_id=self.run_id,
            labels={**self.own_labels, **self.labels, **run_labels(corpus, named), **pair},
            more_files=_files(retrieval, corpus, document, markdown),
            **common,
        )
        if self.baseline_id is None:
            return [asked]
        without = run_folder(
            retrieval.baseline.evaluation,
            workflow=_baseline_of(self.workflow),
            run_id=self.baseline_id,
            labels={**self.labels, **run_labels(corpus, None), **pair},
            more_files=_baseline_files(retrieval, corpus),
            **common,
        )
        return [without, asked]


def _baseline_of(workflow: str) -> str:
    """The workflow of the runs without a shift that belong to runs with one."""
    return f"{workflow}-Baseline"


def _files(retrieval: Retrieval, corpus: Corpus, document: Mapping[str, Any], markdown: str) -> dict[str, bytes]:
    """What lies next to the run.json of a search; with a shift, what it did, for programs and for people."""
    files = _baseline_files(retrieval, corpus)
    if retrieval.shifted is not None:
        if corpus.judged is None:
            files[SHIFTED] = per_query_text(retrieval.shifted.entries).encode()
        files[METRICS] = dumps(document).encode()
        files[METRICS_REPORT] = markdown.encode()
    return files


def _baseline_files(retrieval: Retrieval, corpus: Corpus) -> dict[str, bytes]:
    """What lies next to the run.json of a search with the queries as they are."""
    ingest = {INGEST: dumps(corpus.ingest.document()).encode()}
    if corpus.judged is not None:
        return ingest
    return {BASELINE: per_query_text(retrieval.baseline.entries).encode(), **ingest}


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


def eval_manifest(
    diagnosis: Diagnosis,
    named: NamedShift,
    relevance: Relevance,
    *,
    command: Sequence[str],
    baseline: bool,
    rules: Sequence[str],
) -> RunManifest:
    """How a run of the evaluators came about."""
    whole = diagnosis.evaluation.to_dict()
    vector, scale = (getattr(named.shift, name, None) for name in ("vector", "scale"))
    digest = None if vector is None else hashlib.sha256(np.asarray(vector, "<f8").tobytes()).hexdigest()
    return RunManifest(
        command=list(command),
        inputs=whole["inputs"],
        shift={"name": named.name, "kind": named.shift.kind, "scale": scale, "vector_sha256": digest},
        settings={
            "baseline": baseline,
            "relevant": list(relevance.indices),
            "k": relevance.k,
            "mrr_index": relevance.mrr_index,
            "rules": list(rules),
            "uncertainty": whole["uncertainty"],
        },
    )


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
