"""Which metrics suit a table? Chosen from its columns, each group with the reason, so that a user can disagree."""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.errors import UsageError
from steelyard.naming import column_text
from steelyard.records.schema import FIELDS, PREFIXES, kind_of
from steelyard.records.table import Records


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
        chosen.append(
            Choice(
                (
                    "accuracy",
                    "balanced_accuracy",
                    "f1_macro",
                    "selective_accuracy",
                    "answer_rate",
                    "abstention_rate",
                ),
                "the targets are labels",
            )
        )
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
            chosen.append(Choice(("ece(bins=15)", "ece_null", "brier", "auroc"), "there is a confidence"))
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
            "no metric suits these columns; give target and prediction, or name one with --metric (`steelyard metrics`)"
        )
    return chosen


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
