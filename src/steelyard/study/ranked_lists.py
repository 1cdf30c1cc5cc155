"""Rankings of one run or two: every metric with its interval, paired deltas, and the values query by query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import CUTOFF, Metric, metric_of
from steelyard.metrics.evidence.sums import Terms
from steelyard.metrics.sources import RowSource
from steelyard.records.labels import value_name
from steelyard.records.table import Records
from steelyard.study.comparison import Align, checked_align, compare
from steelyard.study.evaluation import evaluate
from steelyard.study.measure import united
from steelyard.study.results import Comparison, Evaluation

STACK = ("ndcg@10", "mrr", "map", "precision@10", "recall@100", "hit@10", "rprec")


@dataclass(frozen=True)
class Ranking:
    """The estimates of all runs; of two, how the second differs from the first."""

    evaluation: Evaluation
    comparison: Comparison | None
    runs: tuple[Evaluation, ...]  # each run's own


def rank(
    runs: Sequence[Records],
    metrics: Sequence[str] = STACK,
    *,
    relevance_level: int = 1,
    align: Align = "strict",
    keep_evidence: bool = False,
    **settings: Any,
) -> Ranking:
    """Evaluate the rankings of one run, or of two and compare them query by query."""
    if not 1 <= len(runs) <= 2:
        raise UsageError(f"one run is evaluated or two are compared, these are {len(runs)}")
    checked_align(align)  # of one run too, which does not need it
    asked = ranking_metrics(metrics, relevance_level)
    evaluations = tuple(evaluate(run, asked, keep_evidence=keep_evidence, **settings) for run in runs)
    if len(runs) == 1:
        return Ranking(evaluations[0], None, evaluations)
    base, new = runs
    clusters = len({id for run in runs for id in run.cluster[0]})
    together = united(evaluations, [str(run.only("model")) for run in runs], "model", clusters)
    return Ranking(together, compare(base, new, asked, align=align, **settings), evaluations)


def ranking_metrics(metrics: Sequence[str], relevance_level: int = 1) -> list[Metric]:
    """The metrics asked for, at this relevance level; one that reads no rankings says which does."""
    rankers = [at_level(metric_of(name), relevance_level) for name in metrics]
    for metric in rankers:
        if set(metric.reads) != {"gains", "judged"}:
            with_cutoff = f"{metric.definition.name}{CUTOFF}" in registry
            hint = f"; did you mean {metric.definition.name}@10?" if with_cutoff else f": try {', '.join(STACK)}"
            raise UsageError(f"{metric} is not about rankings{hint}")
    return rankers


def at_level(metric: Metric, level: int) -> Metric:
    """The metric with this grade counting as relevant, where it has such a level and its own is the usual 1."""
    if level < 1:
        raise UsageError("the relevance level is a whole number from 1")
    has = any(param.name == "level" for param in metric.definition.params)
    if level == 1 or not has or metric.values["level"] != 1:
        return metric
    return metric.definition(**{**metric.values, "level": level})


def by_query(run: Records, metrics: Sequence[str], *, relevance_level: int = 1) -> list[dict[str, Any]]:
    """Every query's own values: one mapping per row. As JSON lines they can be evaluated again: `mean("ndcg@10")`."""
    asked = ranking_metrics(metrics, relevance_level)
    scores = {metric.name: _scores(metric, run) for metric in asked}
    labels = {name: run.labels(name) for name in ("model", "item") if name in run}
    return [
        {
            **{name: value_name(column.values[column.codes[row]]) for name, column in labels.items()},
            **{name: None if np.isnan(values[row]) else float(values[row]) for name, values in scores.items()},
        }
        for row in range(len(run))
    ]


def _scores(metric: Metric, run: Records) -> Any:
    source = metric.definition.source
    terms = source.function(run, **metric.values) if isinstance(source, RowSource) else None
    if not isinstance(terms, Terms) or not terms.score:
        raise UsageError(f"{metric} has no value for a single query")
    return np.asarray(terms.values["total"], np.float64)
