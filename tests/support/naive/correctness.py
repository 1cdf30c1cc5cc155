"""How often answers are right, in plain loops (section 2)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tests.support.naive.table import (
    Oracle,
    Row,
    Table,
    Value,
    answered,
    asked,
    is_correct,
    mean,
    outcome,
    share,
    with_target,
)


def accuracy(table: Table) -> Value:
    rows = with_target(asked(table))
    return share(sum(is_correct(row) for row in rows), len(rows))


def selective_accuracy(table: Table) -> Value:
    rows = with_target(answered(table))
    return share(sum(is_correct(row) for row in rows), len(rows))


def outcome_rate(table: Table, *, of: str) -> Value:
    rows = asked(table)
    return share(sum(outcome(row) == of for row in rows), len(rows))


def failure_rate(table: Table) -> Value:
    return share(sum(outcome(row) == "failed" for row in table.rows), len(table.rows))


def balanced_accuracy(table: Table) -> Value:
    recalls = []
    rows = with_target(asked(table))
    for label in {row["target"] for row in rows}:
        of_label = [row for row in rows if row["target"] == label]
        recalls.append(sum(is_correct(row) for row in of_label) / len(of_label))
    return mean(recalls) if len(recalls) >= 2 else None


def class_counts(rows: list[Row], label: Any) -> tuple[int, int, int]:
    """True positives, support and predicted of one class; a non-answer is a miss and a false positive for none."""
    hits = support = predicted = 0
    for row in rows:
        says = outcome(row) == "answered" and row["prediction"] == label
        support += row["target"] == label
        predicted += says
        hits += says and row["target"] == label
    return hits, support, predicted


def class_rows(table: Table, answered_only: bool) -> list[Row]:
    return with_target(answered(table) if answered_only else asked(table))


def all_labels(table: Table, rows: list[Row], labels: tuple[Any, ...] | None) -> list[Any]:
    """Labels asked for, else the task's, else the union of targets and (answered) predictions."""
    if labels is not None:
        return list(labels)
    if table.labels is not None:
        return list(table.labels)
    found = {row["target"] for row in rows}
    found |= {row["prediction"] for row in rows if outcome(row) == "answered"}
    return sorted(found)


def f1_of(rows: list[Row], label: Any) -> Value:
    """Harmonic mean of precision and recall, 0 where neither hits, None where the class is nowhere."""
    hits, support, predicted = class_counts(rows, label)
    if support == 0 and predicted == 0:
        return None
    if hits == 0:
        return 0.0
    precision_, recall_ = hits / predicted, hits / support
    return 2 * precision_ * recall_ / (precision_ + recall_)


def f1_macro(table: Table, *, labels: tuple[Any, ...] | None = None, answered_only: bool = False) -> Value:
    rows = class_rows(table, answered_only)
    if not rows:
        return None
    return mean([f1_of(rows, label) or 0.0 for label in all_labels(table, rows, labels)])


def f1_weighted(table: Table, *, labels: tuple[Any, ...] | None = None, answered_only: bool = False) -> Value:
    rows = class_rows(table, answered_only)
    if not rows:
        return None
    terms = [
        class_counts(rows, label)[1] / len(rows) * (f1_of(rows, label) or 0.0)
        for label in all_labels(table, rows, labels)
    ]
    return math.fsum(terms)


def f1(table: Table, *, label: Any, answered_only: bool = False) -> Value:
    return f1_of(class_rows(table, answered_only), label)


def precision(table: Table, *, label: Any) -> Value:
    hits, _, predicted = class_counts(class_rows(table, False), label)
    return share(hits, predicted)


def recall(table: Table, *, label: Any) -> Value:
    hits, support, _ = class_counts(class_rows(table, False), label)
    return share(hits, support)


def auroc_of(positives: list[float], negatives: list[float]) -> Value:
    """The share of pairs ranked the right way, ties one half."""
    wins = 0.0
    for p in positives:
        for n in negatives:
            wins += 1.0 if p > n else 0.5 if p == n else 0.0
    return share(wins, len(positives) * len(negatives))


def auroc(table: Table) -> Value:
    rows = [row for row in with_target(answered(table)) if row["confidence"] is not None]
    return auroc_of(
        [row["confidence"] for row in rows if is_correct(row)],
        [row["confidence"] for row in rows if not is_correct(row)],
    )


def auroc_of_targets(table: Table, *, positive: Any, score: str) -> Value:
    rows = [row for row in with_target(asked(table)) if row[score] is not None]
    return auroc_of(
        [row[score] for row in rows if row["target"] == positive],
        [row[score] for row in rows if row["target"] != positive],
    )


def auprc_of(scored: list[tuple[float, bool]]) -> Value:
    """At every threshold, from the highest: the recall it gains times the precision of all at or above it."""
    positives = sum(hit for _, hit in scored)
    if not positives:
        return None
    area = before = 0.0
    for threshold in sorted({score for score, _ in scored}, reverse=True):
        taken = [hit for score, hit in scored if score >= threshold]
        recall_ = sum(taken) / positives
        area += (recall_ - before) * sum(taken) / len(taken)
        before = recall_
    return area


def auprc(table: Table) -> Value:
    rows = [row for row in with_target(answered(table)) if row["confidence"] is not None]
    return auprc_of([(row["confidence"], is_correct(row)) for row in rows])


def auprc_of_targets(table: Table, *, positive: Any, score: str) -> Value:
    rows = [row for row in with_target(asked(table)) if row[score] is not None]
    return auprc_of([(row[score], row["target"] == positive) for row in rows])


def mean_of(table: Table, *, column: str) -> Value:
    return mean([row[column] for row in asked(table) if row[column] is not None])


# -- by name ---------------------------------------------------------------------------------------------------------

OUTCOMES: dict[str, Oracle] = {
    "answer_rate": partial(outcome_rate, of="answered"),
    "abstention_rate": partial(outcome_rate, of="abstained"),
    "parse_failure_rate": partial(outcome_rate, of="unparsed"),
    "failure_rate": failure_rate,
    "n_predictions": lambda table: float(len(asked(table))),
}

CORRECTNESS: dict[str, Oracle] = {
    "accuracy": accuracy,
    "selective_accuracy": selective_accuracy,
    **OUTCOMES,
    "balanced_accuracy": balanced_accuracy,
    "f1_macro": f1_macro,
    "f1_weighted": f1_weighted,
    "f1_macro(answered_only=true)": partial(f1_macro, answered_only=True),
    "f1_weighted(answered_only=true)": partial(f1_weighted, answered_only=True),
    "f1_macro(labels=[A, B, C, Z])": partial(f1_macro, labels=("A", "B", "C", "Z")),
    "f1_weighted(labels=[C, B, A])": partial(f1_weighted, labels=("C", "B", "A")),
    "f1_macro(labels=[A, B, C], answered_only=true)": partial(f1_macro, labels=("A", "B", "C"), answered_only=True),
    "auroc": auroc,
    "auroc(positive=A, score=signal.x)": partial(auroc_of_targets, positive="A", score="signal.x"),
    "auprc": auprc,
    "auprc(positive=A, score=signal.x)": partial(auprc_of_targets, positive="A", score="signal.x"),
    **{f"f1.{x}": partial(f1, label=x) for x in "ABZ"},
    **{f"f1(answered_only=true).{x}": partial(f1, label=x, answered_only=True) for x in "AB"},
    **{f"precision.{x}": partial(precision, label=x) for x in "ABZ"},
    **{f"recall.{x}": partial(recall, label=x) for x in "ABZ"},
}

SCORES: dict[str, Oracle] = {
    "mean(score)": partial(mean_of, column="score"),
    "mean(score, better=higher)": partial(mean_of, column="score"),
}
