"""Several replies to one question, as one answer: the commonest, and how common it was.

    prediction   the answer that most samples gave; where it is not settled, none comes first, then the smallest
    outcome      `abstained` where most samples have no answer and more of them declined than could not be read;
                 `unparsed` where most have none otherwise; `failed` only if every sample failed
    confidence   the mean of what the samples with that answer stated, and so are the signals of tokens
    tokens, cost, latency_ms, retries
                 sums over the samples that replied: what the answer took, asked one after another; null where one of
                 them does not say

Samples that failed have no vote. The signals are those of repeated answers (`confidence.repeats`):
consistency_modal_score, consistency_modal_count, consistency_modal_confidence, consistency_score_std and
consistency_na_rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import Any

from steelyard.confidence.repeats import consistency

Row = Mapping[str, Any]
_SUMMED = ("latency_ms", "input_tokens", "output_tokens")


def combined(rows: Sequence[Row]) -> Row:
    """One row of a journal for the samples of one answer."""
    replied = [row for row in rows if not row["reply"].get("failure")]
    cost = _sum(row["cost"] for row in replied)
    reply = {name: total for name in _SUMMED if (total := _sum(row["reply"].get(name) for row in replied)) is not None}
    reply["retries"] = sum(row["reply"].get("retries", 0) for row in rows)
    if not replied:
        failure = {**reply, "failure": rows[0]["reply"]["failure"]}
        return {**rows[0], "reply": failure, "parsed": None, "cost": cost, "signals": {}}
    read = [row["parsed"] or {} for row in replied]
    votes = consistency([parsed.get("prediction") if _answered(parsed) else None for parsed in read])
    agreeing = [row for row, parsed in zip(replied, read, strict=True) if _votes_for(parsed, votes.modal_score)]
    parsed = {
        "prediction": votes.modal_score,
        "outcome": "answered" if votes.modal_score is not None else _without_answer(read),
        "confidence": _mean((row["parsed"] or {}).get("confidence") for row in agreeing),
        "how": _how([row["parsed"] or {} for row in agreeing]),
        "reasoning_chars": sum(parsed.get("reasoning_chars", 0) for parsed in read),
    }
    signals = {**_signals(agreeing), **votes.signals()}
    return {**rows[0], "reply": reply, "parsed": parsed, "cost": cost, "signals": signals}


def _answered(parsed: Row) -> bool:
    return parsed.get("outcome") == "answered"


def _votes_for(parsed: Row, answer: Any) -> bool:
    return not _answered(parsed) if answer is None else _answered(parsed) and parsed["prediction"] == answer


def _without_answer(read: Sequence[Row]) -> str:
    declined = sum(parsed.get("outcome") == "abstained" for parsed in read)
    unread = sum(parsed.get("outcome", "unparsed") == "unparsed" for parsed in read)
    return "abstained" if declined > unread else "unparsed"


def _how(agreeing: Sequence[Row]) -> str:
    """How most of the samples that agree said what they say."""
    said = Counter(parsed.get("how", "") for parsed in agreeing if parsed.get("outcome") != "unparsed")
    return said.most_common(1)[0][0] if said else ""


def _signals(rows: Sequence[Row]) -> dict[str, float]:
    """The mean of every signal that some of the rows have."""
    signals = [row.get("signals") or {} for row in rows]
    names = dict.fromkeys(name for each in signals for name in each)
    means = {name: _mean(each.get(name) for each in signals) for name in names}
    return {name: mean for name, mean in means.items() if mean is not None}


def _sum(values: Iterable[Any]) -> Any:
    """The sum; None where a part is not known, because it would be too small."""
    parts = list(values)
    return sum(parts) if parts and None not in parts else None


def _mean(values: Iterable[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None
