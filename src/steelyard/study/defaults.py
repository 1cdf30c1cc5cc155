"""Which metrics suit a table? Chosen from its columns, each group with the reason, so that a user can disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from steelyard.errors import UsageError
from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import Metric
from steelyard.metrics.vocabulary import Situation
from steelyard.records.derive import combine
from steelyard.records.schema import FIELDS, PREFIXES, is_group, is_score, kind_of
from steelyard.records.table import Records

_FEW_LABELS = 20


@dataclass(frozen=True)
class Choice:
    """A few metrics and why they were chosen."""

    metrics: tuple[Metric, ...]
    why: str


def listed_metrics(choices: Sequence[Choice]) -> list[Metric]:
    """The metrics that were chosen, in their order."""
    return [metric for choice in choices for metric in choice.metrics]


def leading(metrics: Sequence[Metric]) -> Metric:
    """The metric that a comparison is about where nobody asked for one: the first with a direction."""
    return next((metric for metric in metrics if metric.better), metrics[0])


def choose(records: Records, *, comparable: bool = False) -> list[Choice]:
    """The metrics to compute where none was asked for, with the reasons; `comparable` ones have a delta."""
    choices = [Choice(tuple(m for m in c.metrics if not (comparable and m.no_delta)), c.why) for c in _suiting(records)]
    return [choice for choice in choices if choice.metrics]


def _suiting(records: Records) -> list[Choice]:
    """The metrics to compute where none was asked for: those that say of themselves that they suit what there is."""
    logged = "mark" in records.stated  # by whoever scored the answers, right and wrong or otherwise
    marked = logged and kind_of(records.column("mark")) != "null"
    graded = _graded(records)
    scored = marked or (not graded and not logged and {"target", "prediction"} <= set(records.stated))
    numbers = not marked and scored and records.is_numeric("target") and records.task.labels is None
    binary = numbers and _zeros_and_ones(records)
    numeric = numbers and not binary
    confident = scored and "confidence" in records and kind_of(records.column("confidence")) != "null"
    counts = records.counts()
    choices = []
    if numeric:
        choices.append(_of(("numbers",), "the targets are numbers"))
    elif scored:
        texts = _marks(records) if marked else _texts(records)
        labels = "the targets and predictions are 0 and 1" if binary else "the targets are labels"
        choices.append(_of(("labels",) if texts else ("labels", "classes"), texts or labels))
    if graded:
        choices.append(_of(("scores",), "the answers were scored, and not only as right or wrong", column="score"))
    if counts["unparsed"]:
        choices.append(_of(("unparsed replies",), "some replies could not be read"))
    if counts["failed"]:
        choices.append(_of(("failed rows",), "some rows have no reply"))
    if "should_abstain" in records:
        choices.append(_of(("labels to defer",), "should_abstain says where declining was right"))
    if confident and not numeric:
        two: list[Situation] = ["confidences of two labels"] if _two_labels(records) else []
        choices.append(_of(["confidences", *two], "there is a confidence"))
    if confident and _ranked(records):
        choices.append(_of(("ranked answers",), "every answer has a confidence to rank it"))
    if "latency_ms" in records:
        choices.append(_of(("latencies",), "there are latencies"))
    if not (scored or graded):
        names = [name for name in _scores(records) if not logged or is_score(name)]
        choices += [_of(("scores",), f"'{name}' is a score of another tool", column=name) for name in names]
    if not choices:
        raise UsageError(
            "no metric suits these columns; give target and prediction, or name one with `metric=` "
            "(`steelyard metrics`)"
        )
    return choices


def _two_labels(records: Records) -> bool:
    """True if the rows that were answered hold at most two labels, of answers and targets together."""
    answered = records.take(records.array("answered") == 1)
    names = [name for name in ("target", "prediction") if name in answered]
    return len({value for name in names for value in answered.labels(name).values}) <= 2


def _zeros_and_ones(records: Records) -> bool:
    """True if targets and predictions are 0 and 1: two classes, whatever else numbers may be."""
    met = {value for name in ("target", "prediction") for value in records.labels(name).values}
    return bool(met) and met <= {0, 1}


def _graded(records: Records) -> bool:
    """True if whoever scored the answers gave some a score that is no mark of right or wrong."""
    if not {"mark", "score"} <= set(records.stated) or kind_of(records.column("score")) not in ("int", "float"):
        return False
    unmarked = np.isnan(records.stated_numbers("mark"))
    return bool((unmarked & ~np.isnan(records.stated_numbers("score"))).any())


def _of(situations: Sequence[Situation], why: str, *, column: str = "") -> Choice:
    """The metrics that are meant for any of these situations, in their order; `column` is what they are about."""
    meant = [
        (default.place, known(column) if column else known(label=default.label, **default.options))
        for known in registry.values()
        for default in known.shown.default_for
        if default.situation in situations
    ]
    return Choice(tuple(metric for _, metric in sorted(meant, key=itemgetter(0))), why)


def _marks(records: Records) -> str:
    """Why marks are more than a comparison of labels, or nothing: then the targets may be classes."""
    said = "the answers were marked where they were scored, and not always by exact match; so they are no classes"
    if not {"target", "prediction"} <= set(records.stated):
        return said
    kinds = {kind_of(records.column(name)) for name in ("target", "prediction")}
    if "list" in kinds or len(kinds - {"null"}) != 1 or kind_of(records.column("target")) == "null":
        return said
    answered, correct = records.array("answered") == 1, records.array("correct")
    equal = records.labels("target") == records.labels("prediction")
    judged = answered & ~np.isnan(correct)
    return _texts(records) if (equal[judged] == (correct[judged] == 1)).all() else said


def _texts(records: Records) -> str:
    """Why the targets are no class labels, or nothing.

    A class is what several items share. Where most items have a target of their own, every class has one row or two,
    and a mean over classes says no more than accuracy. Twenty different targets may be labels on however few items.
    """
    if records.task.labels is not None or kind_of(records.column("target")) != "text":
        return ""
    names = [name for name in ("task", "item") if name in records]
    stated = ~records.labels("target").missing
    items = len(np.unique(combine([records.codes(name) for name in names], len(records))[stated]))
    different = len(records.labels("target").values)
    if different <= max(_FEW_LABELS, items / 2):
        return ""
    return (
        f"the targets are texts, {different} different ones on {items} items, so accuracy is exact match; these are no "
        "classes, so balanced_accuracy and f1_macro are left out (if they are, give the task's labels)"
    )


def _ranked(records: Records) -> bool:
    confidence = records.stated_numbers("confidence")
    answered = records.array("answered") == 1
    return bool(answered.any()) and not bool((confidence != confidence)[answered].any())


def _scores(records: Records) -> list[str]:
    """Numeric columns outside the vocabulary that do not describe the question."""
    known = (*FIELDS, *PREFIXES)
    return [
        name
        for name in records.stated
        if name.partition(".")[0] not in known
        and not is_group(name)
        and kind_of(records.column(name)) in ("int", "float", "bool")
    ]
