"""What was asked of a model so far, counted: requests, failures, tokens, cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.runner.spec import Price

CONFIDENCE_REFUSED = "a confidence was stated that is none"


@dataclass
class Tally:
    """The counts of one model, over all the times that its run was taken up."""

    total: int
    done: int = 0
    failed: int = 0
    cached: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None  # None where nobody knows
    remarks: Counter[str] = field(default_factory=Counter)  # what a reader of the results should know, how often
    failures: Counter[str] = field(default_factory=Counter)  # why there was no reply
    declined: Counter[str] = field(default_factory=Counter)  # by what a reply was known to decline
    said: str = ""  # what the server wrote with the first failure that it explained

    def add(self, row: Mapping[str, Any], times: int = 1) -> None:
        """Count a row of the journal; `times=-1` takes back one that another replaces. What was spent stays spent."""
        reply, parsed = row["reply"], row["parsed"]
        failure = reply.get("failure", "")
        self.done += times
        self.failed += times * bool(failure)
        self.cached += times * bool(reply.get("cached"))
        for remark in (row.get("missing"), CONFIDENCE_REFUSED if parsed and parsed.get("confidence_refused") else None):
            if remark:
                self.remarks[remark] += times
        for remark in reply.get("remarks", ()):
            self.remarks[remark] += times
        if failure:
            self.failures[failure] += times
            self.said = self.said or reply.get("said", "")
        elif parsed and parsed.get("outcome") == "abstained":
            self.declined[parsed.get("how", "")] += times
        if times < 0:
            return
        self.retries += reply.get("retries", 0)
        if not reply.get("cached"):
            self.input_tokens += reply.get("input_tokens") or 0
            self.output_tokens += reply.get("output_tokens") or 0
        if row.get("cost") is not None:
            self.cost = (self.cost or 0.0) + row["cost"]

    def forget_failed(self) -> None:
        """Count what failed as not asked; what it cost stays spent."""
        self.done -= self.failed
        self.failed = 0
        self.failures.clear()

    @property
    def usual_cost(self) -> float:
        """What a reply cost so far, on average; 0 where nobody knows."""
        paid = self.replied - self.cached
        return (self.cost or 0.0) / paid if paid > 0 else 0.0

    @property
    def replied(self) -> int:
        """How many requests got a reply."""
        return self.done - self.failed


def cost_of(price: Price | None, reply: Mapping[str, Any]) -> float | None:
    """What a reply cost; None where the price or the tokens are not known."""
    read, written = reply.get("input_tokens"), reply.get("output_tokens")
    if price is None or read is None or written is None:
        return None
    return 0.0 if reply.get("cached") else (read * price.input + written * price.output) / 1e6
