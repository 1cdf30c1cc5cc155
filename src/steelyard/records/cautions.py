"""What keeps a gate from believing a table: its rows are not what was asked, or do not agree with what is said of them.

A caution is a warning with a kind. No confirming rule passes next to one unless its kind is allowed, up to the share of
rows that it is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal[
    "failed",  # rows that failed, which leave every metric
    "missing",  # asked rows that lack what a metric reads
    "excerpt",  # a part of what was to be run: a limit, an end that is torn, samples that are not there
    "sheets",  # sheets of a workbook that were not read
    "cells",  # cells of a workbook that hold no value
    "contradiction",  # what a file states of itself, and its rows do not give
    "marks",  # marks that contradict the labels next to them
    "repeats",  # items that were asked more often than others
    "conditions",  # two runs whose rows were not chosen and read alike
]
KINDS: tuple[Kind, ...] = get_args(Kind)
USUAL: Mapping[Kind, float] = {"failed": 0.05, "missing": 0.05, "marks": 0.01}  # without asking; of other kinds nothing
FAILURE_MARGIN = 0.01  # by which the failure rate of a run may be above its baseline's


@dataclass(frozen=True)
class Caution:
    """One reason, in words, and the share of the rows that it is about; 1 where it is about all of them."""

    kind: Kind
    text: str
    share: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": self.kind, "text": self.text, "share": self.share}


def within(caution: Caution, allow: Mapping[Kind, float] = USUAL) -> bool:
    """True if a caution is of a kind that is allowed, and about no more rows than that."""
    return caution.share <= allow.get(caution.kind, USUAL.get(caution.kind, 0.0)) + 1e-12


def each_once(cautions: Iterable[Caution]) -> tuple[Caution, ...]:
    """The cautions in their order, without those that were given before."""
    return tuple(dict.fromkeys(cautions))


def of_pairs(*cautions: Iterable[Caution]) -> tuple[Caution, ...]:
    """Those of two runs that are compared: a row that failed in either leaves both, and counts with the deltas."""
    return each_once(caution for some in cautions for caution in some if caution.kind != "failed")
