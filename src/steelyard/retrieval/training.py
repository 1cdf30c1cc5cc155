"""Does a learned shift help queries that it has not seen? Folds say, before anybody applies it.

The shift is learned anew without each fold, and judged on that fold's queries. What is kept is learned from all
queries; what is claimed of it comes from the held-out ones alone. A shift helps if its held-out gain is shown to be
above 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.comparison import Comparison, Delta, compare
from steelyard.errors import UsageError
from steelyard.records.table import Records
from steelyard.retrieval.corpus import Corpus, Progress
from steelyard.retrieval.search import Codes, Floats, gold_ranks
from steelyard.retrieval.shift import Additive, ShiftTraining, train_shift
from steelyard.runs.per_query import ap1, ndcg3
from steelyard.uncertainty.folds import held_out_folds

SELECTION = "mean(selection, better=higher)"
MAP_SHARE, NDCG_SHARE = 0.7, 0.3  # of the selection score


@dataclass(frozen=True)
class Fold:
    """One fold: how many queries were held out, and the mean selection score of them without and with the shift."""

    queries: int
    baseline: float
    shifted: float
    pairs: int
    cancelled: bool

    @property
    def gain(self) -> float:
        return self.shifted - self.baseline


@dataclass(frozen=True)
class HeldOut:
    """What folds say: paired deltas over all held-out queries, and fold by fold."""

    folds: tuple[Fold, ...]
    comparison: Comparison
    seed: int

    @property
    def score(self) -> Delta:
        """The gain in 0.7 · map@1 + 0.3 · ndcg@3 on held-out queries."""
        found: Delta = self.comparison[SELECTION]
        return found

    @property
    def helps(self) -> bool:
        """Whether the shift is shown to help queries that it has not seen."""
        return self.score.verdict == "better"


@dataclass(frozen=True)
class Trained:
    """A shift learned from all queries, what folds say of it, and the same on the training queries themselves."""

    training: ShiftTraining
    held_out: HeldOut
    in_sample: Mapping[str, float]  # judged on the queries it was learned from: optimistic
    options: Mapping[str, Any]

    @property
    def usable(self) -> bool:
        """Whether `best` may choose it: not cancelled, and shown to help."""
        return not self.training.cancelled and self.held_out.helps


def train(
    corpus: Corpus,
    *,
    hard_negatives: int = 1,
    max_norm: float | None = 1.5,
    epsilon: float = 1e-3,
    scale: float = 1.0,
    folds: int = 5,
    resamples: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
    progress: Progress | None = None,
) -> Trained:
    """Learn a shift and judge it on held-out queries."""
    if hard_negatives < 1:
        raise UsageError("at least 1 hard negative is needed")
    options: dict[str, Any] = {"hard_negatives": hard_negatives, "max_norm": max_norm, "epsilon": epsilon}
    assigned = held_out_folds(corpus.clusters or corpus.query_ids, folds, seed)
    before = gold_ranks(corpus.queries, corpus.docs.matrix, corpus.gold)
    after = np.zeros(len(corpus), np.int64)
    found = []
    for fold in range(int(assigned.max()) + 1):
        held = assigned == fold
        learned = train_shift(corpus.queries[~held], corpus.docs.matrix, corpus.gold[~held], **options)
        after[held] = _ranks(corpus, learned, scale, held)
        base, new = (float(selection(ranks[held]).mean()) for ranks in (before, after))
        found.append(Fold(int(held.sum()), base, new, learned.stats.pairs, learned.cancelled))
        if progress is not None:
            progress((fold + 1) / (folds + 1))
    settings: dict[str, Any] = {"resamples": resamples, "seed": seed, "level": level}
    comparison = compare(
        _records(corpus, before), _records(corpus, after), ["mrr", "ndcg@3", "hit@1", SELECTION], **settings
    )
    training = train_shift(corpus.queries, corpus.docs.matrix, corpus.gold, **options)
    everyone = np.ones(len(corpus), bool)
    in_sample = _in_sample(before, _ranks(corpus, training, scale, everyone))
    return Trained(
        training,
        HeldOut(tuple(found), comparison, seed),
        in_sample,
        {**options, "scale": scale, "folds": len(found), "seed": seed},
    )


def selection(ranks: Codes) -> Floats:
    """0.7 · map@1 + 0.3 · ndcg@3 of each query."""
    return np.array([MAP_SHARE * ap1(int(rank)) + NDCG_SHARE * ndcg3(int(rank)) for rank in ranks])


def _ranks(corpus: Corpus, learned: ShiftTraining, scale: float, rows: Any) -> Codes:
    """The ranks of some queries under a learned shift; as they are where it was cancelled."""
    queries = corpus.queries[rows]
    moved = queries if learned.cancelled else Additive(learned.delta, scale).applied(queries)
    return gold_ranks(moved, corpus.docs.matrix, corpus.gold[rows])


def _records(corpus: Corpus, ranks: Codes) -> Records:
    columns: dict[str, Any] = {
        "item": list(corpus.query_ids),
        "gold_rank": ranks.tolist(),
        "selection": selection(ranks).tolist(),
    }
    if corpus.clusters is not None:
        columns["cluster"] = list(corpus.clusters)
    return Records.from_columns(columns)


def _in_sample(before: Codes, after: Codes) -> dict[str, float]:
    """The selection numbers on the training queries, under their documented names."""
    maps = [float(np.mean([ap1(int(rank)) for rank in ranks])) for ranks in (before, after)]
    ndcgs = [float(np.mean([ndcg3(int(rank)) for rank in ranks])) for ranks in (before, after)]
    return {
        "SelectionMapAt1Baseline": maps[0],
        "SelectionMapAt1Shifted": maps[1],
        "SelectionNdcg3Baseline": ndcgs[0],
        "SelectionNdcg3Shifted": ndcgs[1],
        "SelectionScore": MAP_SHARE * (maps[1] - maps[0]) + NDCG_SHARE * (ndcgs[1] - ndcgs[0]),
    }
