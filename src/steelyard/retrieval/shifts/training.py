"""Does a learned shift help queries that it has not seen? Folds say, before anybody applies it.

The shift is learned again without each fold, and judged on that fold's queries. What is kept is learned from all
queries; what is claimed of it comes from the held-out ones alone. A shift helps if its held-out gain is shown to be
above 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.records.table import Records
from steelyard.retrieval.corpus import Corpus, Progress
from steelyard.retrieval.per_query import ap1, ndcg3
from steelyard.retrieval.ranks import KPIS
from steelyard.retrieval.search import Codes, Floats, gold_ranks
from steelyard.retrieval.shifts.shift import (
    Additive,
    NoShift,
    Shift,
    ShiftTraining,
    applied,
    check_options,
    learned,
    mistakes,
)
from steelyard.study.comparison import compare
from steelyard.study.results import Comparison
from steelyard.uncertainty.folds import held_out_folds
from steelyard.uncertainty.number import Delta
from steelyard.uncertainty.settings import Settings

SELECTION = "mean(selection, better=higher)"
MAP_SHARE, NDCG_SHARE = 0.7, 0.3  # of the selection score


LEVEL = 0.95  # a claim that a shift helps is always made at this level


@dataclass(frozen=True)
class Options:
    """How to learn and how to judge; checked before anything costly is done."""

    hard_negatives: int = 1
    max_norm: float | None = 1.5
    epsilon: float = 1e-3
    scale: float = 1.0
    folds: int = 5
    seed: int = 42

    def __post_init__(self) -> None:
        check_options(self.max_norm, self.epsilon)
        if self.hard_negatives < 1:
            raise UsageError("at least 1 hard negative is needed")
        if not np.isfinite(self.scale):
            raise UsageError("the scale of a shift is a finite number")
        if self.folds < 2:
            raise UsageError("at least 2 folds are needed: what is learned on some is judged on the others")


@dataclass(frozen=True, kw_only=True)
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
    """What folds say: the gain that decides, what it is made of, and fold by fold."""

    folds: tuple[Fold, ...]
    score: Delta  # in 0.7 · map@1 + 0.3 · ndcg@3, over all held-out queries
    parts: Comparison  # its parts, to look at

    @property
    def helps(self) -> bool:
        """True if the shift is shown to help queries that it has not seen."""
        return self.score.verdict == "better"


@dataclass(frozen=True)
class TrainingOutcome:
    """A shift learned from all queries, what folds say of it, and the same on the training queries themselves."""

    training: ShiftTraining
    held_out: HeldOut
    in_sample: Mapping[str, float]  # judged on the queries it was learned from: optimistic
    options: Options

    @property
    def usable(self) -> bool:
        """True if `best` may choose it: not cancelled, and shown to help."""
        return not self.training.cancelled and self.held_out.helps


def train(
    corpus: Corpus,
    options: Options | None = None,
    *,
    resamples: int = 10_000,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> TrainingOutcome:
    """Learn a shift and judge it on held-out queries; `settings` has the seed of the options where it is not given."""
    options = options or Options()
    docs = corpus.docs.matrix
    units = _together(corpus)
    assigned = held_out_folds(units, options.folds, options.seed)
    before = gold_ranks(corpus.queries, docs, corpus.gold)
    pairs = mistakes(corpus.queries, docs, corpus.gold, options.hard_negatives)
    limits: dict[str, Any] = {"max_norm": options.max_norm, "epsilon": options.epsilon}
    after = np.zeros(len(corpus), np.int64)
    count = int(assigned.max()) + 1
    folds = []
    for fold in range(count):
        held_out = assigned == fold
        without = learned(pairs.of(~held_out), docs, **limits)
        after[held_out] = _ranks(
            corpus, NoShift() if without.cancelled else Additive(without.delta, options.scale), held_out
        )
        base, new = (float(selection(ranks[held_out]).mean()) for ranks in (before, after))
        folds.append(
            Fold(
                queries=int(held_out.sum()),
                baseline=base,
                shifted=new,
                pairs=without.stats.pairs,
                cancelled=without.cancelled,
            )
        )
        if progress is not None:
            progress((fold + 1) / (count + 1))
    settings = settings or Settings(resamples=resamples, seed=options.seed, level=LEVEL)
    base_table, new_table = (_records(corpus, ranks, units) for ranks in (before, after))
    score: Delta = compare(base_table, new_table, SELECTION, settings=settings)[SELECTION]
    parts = compare(base_table, new_table, KPIS, settings=settings)
    training = learned(pairs, docs, **limits)
    everyone = np.ones(len(corpus), bool)
    in_sample = _in_sample(before, _ranks(corpus, Additive(training.delta, options.scale), everyone))
    return TrainingOutcome(training, HeldOut(tuple(folds), score, parts), in_sample, options)


def _together(corpus: Corpus) -> tuple[str, ...]:
    """What is held out and resampled as one: queries of a cluster, or with the same vector, and so on from these.

    A copy of a query tells nothing new: parted by folds it would be seen in training, and counted twice it would
    make chance look like a finding. Each unit is named after the first of its clusters or queries.
    """
    unit: dict[str, str] = {}  # of a cluster or a vector, one that it belongs with

    def root(name: str) -> str:
        while unit.setdefault(name, name) != name:
            unit[name] = unit[unit[name]]
            name = unit[name]
        return name

    names = corpus.clusters or corpus.query_ids
    for name, digest in zip(names, corpus.digests, strict=True):
        unit[root(f"vector {digest}")] = root(f"cluster {name}")
    first: dict[str, str] = {}
    for name in sorted(names):
        first.setdefault(root(f"cluster {name}"), name)
    return tuple(first[root(f"cluster {name}")] for name in names)


def selection(ranks: Codes) -> Floats:
    """0.7 · map@1 + 0.3 · ndcg@3 of each query."""
    return np.array([MAP_SHARE * ap1(int(rank)) + NDCG_SHARE * ndcg3(int(rank)) for rank in ranks])


def _ranks(corpus: Corpus, shift: Shift, rows: Any) -> Codes:
    """The ranks of some queries under a shift."""
    return gold_ranks(applied(shift, corpus.queries[rows]), corpus.docs.matrix, corpus.gold[rows])


def _records(corpus: Corpus, ranks: Codes, units: tuple[str, ...]) -> Records:
    columns: dict[str, Any] = {
        "item": list(corpus.query_ids),
        "gold_rank": ranks.tolist(),
        "selection": selection(ranks).tolist(),
        "cluster": list(units),
    }
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
