"""Who counts: the participants of one run, or those that two runs share, and the rows that are left of them.

Failed rows and rows without a target are counted and left out; between two runs, a row that failed in either leaves
both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.errors import InputError, counted
from steelyard.records.derive import FAILED, has_target
from steelyard.records.table import Records
from steelyard.study.row_pairs import UnmatchedRows, paired_slices, unpaired


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Which participants two runs share."""

    intersection_only: bool
    left_only: int
    right_only: int
    total: int
    included: int
    failed_left: int
    failed_right: int


def included(runs: Sequence[Records], intersection_only: bool) -> tuple[list[Records], dict[str, int], Overlap | None]:
    """The rows that count, and who was left out. Both tables of a pair hold the same rows in the same order."""
    who = [_participants(run) for run in runs]
    if len(runs) == 1:
        (total, succeeded), table = who[0], _counting(runs[0])
        return [table], _population(len(total), len(total - succeeded), table), None
    (left, left_ok), (right, right_ok) = who
    both = left & right
    if not both:
        raise InputError("the two runs have no participant in common; nothing can be compared", file=runs[1].name)
    if left != right and not intersection_only:
        raise InputError(
            f"{counted(len(left - right), 'participant')} {'is' if len(left - right) == 1 else 'are'} in the first run "
            f"only and {len(right - left):,} in the second only; "
            "`intersection_only=True` compares the others",
            file=runs[1].name,
        )
    succeeded = left_ok & right_ok
    nobody = [run.take(np.zeros(0, np.int64)) for run in runs]
    tables = _paired(runs, intersection_only) if succeeded else nobody
    overlap = Overlap(
        intersection_only=intersection_only,
        left_only=len(left - right),
        right_only=len(right - left),
        total=len(both),
        included=len(_participants(tables[0])[0]),
        failed_left=len(both - left_ok),
        failed_right=len(both - right_ok),
    )
    return tables, _population(len(both), len(both - succeeded), tables[0]), overlap


def _paired(runs: Sequence[Records], intersection_only: bool) -> list[Records]:
    alone = [int((rows & (run.outcome != FAILED)).sum()) for rows, run in zip(unpaired(*runs), runs, strict=True)]
    if max(alone) and not intersection_only:
        have = "has" if max(alone) == 1 else "have"
        raise InputError(
            f"{counted(max(alone), 'item')} {have} no partner in the other run; "
            "`intersection_only=True` compares the others",
            file=runs[0 if alone[0] else 1].name,
        )
    left, right = (_counting(run) for run in runs)
    ((_, pair),) = paired_slices(
        left, right, by=(), pool=(), versus=(), align="intersection", unmatched=UnmatchedRows()
    )
    return list(pair.tables)


def left_out(run: Records) -> list[str]:
    """Rows that count nowhere although their participant does: no number would show them."""
    ids, cluster = run.cluster
    failed = run.outcome == FAILED
    counting = np.zeros(len(ids), bool)
    counting[cluster[~failed]] = True
    lost = int((failed & counting[cluster]).sum())
    notes = (
        [f"{counted(lost, 'failed row')} of participants that count {'is' if lost == 1 else 'are'} left out"]
        if lost
        else []
    )
    unknown = int((~has_target(run) & ~failed).sum())
    return notes + ([f"left out: {counted(unknown, 'row')} without a target"] if unknown else [])


def _counting(run: Records) -> Records:
    """The rows that did not fail and whose right answer is known."""
    return run.take((run.outcome != FAILED) & has_target(run))


def _participants(run: Records) -> tuple[set[Any], set[Any]]:
    """Every participant, and those with a row that did not fail."""
    ids, cluster = run.cluster
    kept = np.unique(cluster[run.outcome != FAILED])
    return set(ids), {ids[i] for i in kept}


def _population(total: int, failed: int, table: Records) -> dict[str, int]:
    return {
        "participants_total": total,
        "participants_included": len(_participants(table)[0]),
        "participants_failed": failed,
        "items_total": len(table),
    }
