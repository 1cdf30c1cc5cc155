"""Which metrics suit a table? Chosen from its columns, each group with the reason, so that a user can disagree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steelyard.errors import UsageError
from steelyard.naming import column_text
from steelyard.records.derive import combine
from steelyard.records.schema import FIELDS, PREFIXES, kind_of
from steelyard.records.table import Records

_FEW_LABELS = 20


@dataclass(frozen=True)
class Choice:
    """A few metrics and why they were chosen."""

    metrics: tuple[str, ...]
    why: str


def choose(records: Records) -> list[Choice]:
    """The metrics to compute where none was asked for."""
    chosen = []
    scored = {"target", "prediction"} <= set(records.stated)
    numeric = scored and records.is_numeric("target") and records.task.labels is None
    if numeric:
        chosen.append(Choice(("mae", "rmse", "bias", "answer_rate"), "the targets are numbers"))
    elif scored:
        texts = _texts(records)
        classes = () if texts else ("balanced_accuracy", "f1_macro")
        rates = ("selective_accuracy", "answer_rate", "abstention_rate")
        chosen.append(Choice(("accuracy", *classes, *rates), texts or "the targets are labels"))
    counts = records.counts()
    if counts["unparsed"]:
        chosen.append(Choice(("parse_failure_rate",), "some replies could not be read"))
    if counts["failed"]:
        chosen.append(Choice(("failure_rate",), "some rows have no reply"))
    if "should_abstain" in records:
        chosen.append(
            Choice(
                ("deferral_alignment", "deferral_balanced", "unsafe_answer_rate", "over_deferral_rate"),
                "should_abstain says where declining was right",
            )
        )
    if scored and "confidence" in records and kind_of(records.column("confidence")) != "null":
        if not numeric:
            chosen.append(Choice(("ece(bins=15)", "ece_null", "brier(binary=true)", "auroc"), "there is a confidence"))
        if _ranked(records):
            chosen.append(Choice(("aurc", "augrc", "eaurc"), "every answer has a confidence to rank it"))
    if "latency_ms" in records:
        chosen.append(Choice(("latency.p50", "latency.p95"), "there are latencies"))
    if not scored:
        chosen += [
            Choice((f"mean({column_text(name)})",), f"'{name}' is a score of another tool") for name in _scores(records)
        ]
    if not chosen:
        raise UsageError(
            "no metric suits these columns; give target and prediction, or name one with `metric=` "
            "(`steelyard metrics`)"
        )
    return chosen


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
    """Numeric columns outside the vocabulary."""
    known = (*FIELDS, *PREFIXES)
    return [
        name
        for name in records.stated
        if name.partition(".")[0] not in known and kind_of(records.column(name)) in ("int", "float", "bool")
    ]
