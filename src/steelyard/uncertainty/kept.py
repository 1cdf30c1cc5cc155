"""What a table leaves behind when its rows are gone: the evidence of every metric, and digests of who was asked what.

Two runs that kept their evidence can be compared without their rows, if their clusters were asked the same questions
with the same targets; else it is refused. A cluster that lost other rows to failures in one run than in the other
leaves both: which of its rows are left to compare, only the rows could say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError
from steelyard.metrics.definition import Metric, metric_of
from steelyard.metrics.evidence import Draw, Evidence, Ids, some, sortable
from steelyard.metrics.options import Constants
from steelyard.records.derive import ANSWERED, FAILED
from steelyard.records.schema import KEY, kind_of, texts
from steelyard.records.table import Records
from steelyard.uncertainty.estimate import Sample

DIGEST = 8  # bytes kept of each digest
_PAIRED = tuple(name for name in KEY if name not in ("model", "strategy"))


@dataclass(frozen=True)
class Kept:
    """One slice of a table: its clusters, what they were asked, and the evidence of every metric by its name.

    `asked`, `failed` and `answered` hold one digest a cluster: of the questions with their targets, of those that
    failed, of those that were answered.
    """

    slice: Mapping[str, Any]
    ids: Ids
    asked: bytes
    failed: bytes
    answered: bytes
    counts: Mapping[str, int]
    asked_rows: npt.NDArray[np.int64]  # a cluster, without those that failed
    answered_rows: npt.NDArray[np.int64]
    constants: Mapping[str, Constants] = field(default_factory=dict)
    evidence: Mapping[str, Evidence] = field(default_factory=dict)

    @property
    def answer_rate(self) -> float:
        asked = int(self.asked_rows.sum())
        return int(self.answered_rows.sum()) / asked if asked else float("nan")

    def among(self, clusters: npt.NDArray[np.int64]) -> Kept:
        """The same with some clusters only."""
        asked, failed, answered = (
            b"".join(digests[DIGEST * i : DIGEST * (i + 1)] for i in clusters)
            for digests in (self.asked, self.failed, self.answered)
        )
        return replace(
            self,
            ids=some(self.ids, clusters),
            asked=asked,
            failed=failed,
            answered=answered,
            asked_rows=self.asked_rows[clusters],
            answered_rows=self.answered_rows[clusters],
            evidence={name: evidence.among(clusters) for name, evidence in self.evidence.items()},
        )


def keep(records: Records, slice_: Mapping[str, Any], samples: Sequence[Sample]) -> Kept:
    """What this table leaves behind."""
    ids, cluster = records.cluster
    rows = _row_texts(records)
    outcome = records.outcome
    everyone = np.ones(len(records), bool)
    return Kept(
        dict(slice_),
        ids,
        _digests(rows, cluster, everyone, len(ids)),
        _digests(rows, cluster, outcome == FAILED, len(ids)),
        _digests(rows, cluster, outcome == ANSWERED, len(ids)),
        records.counts(),
        np.bincount(cluster[outcome != FAILED], minlength=len(ids)).astype(np.int64),
        np.bincount(cluster[outcome == ANSWERED], minlength=len(ids)).astype(np.int64),
        {s.metric.name: s.constants for s in samples},
        {s.metric.name: s.evidence for s in samples},
    )


def _row_texts(records: Records) -> list[bytes]:
    """Each row's question and target, as bytes; numbers count by value."""
    columns = []
    for name in (*_PAIRED, "target"):
        if name in records and kind_of(records.column(name)) != "null":
            column = records.column(name)
            numeric = name == "target" and kind_of(column) in ("int", "float")
            text = kind_of(column) == "text"
            columns.append(
                records.stated_numbers(name).tolist() if numeric else texts(column) if text else column.to_pylist()
            )
    return [json.dumps(row).encode("utf-8", "surrogatepass") for row in zip(*columns, strict=True)]


def _digests(rows: Sequence[bytes], cluster: npt.NDArray[np.int64], inside: npt.NDArray[np.bool_], size: int) -> bytes:
    parts: list[list[bytes]] = [[] for _ in range(size)]
    for row in np.flatnonzero(inside).tolist():
        parts[cluster[row]].append(rows[row])
    return b"".join(hashlib.sha256(b"\n".join(sorted(part))).digest()[:DIGEST] for part in parts)


class KeptSide:
    """One run's kept evidence, read like a table's."""

    def __init__(self, kept: Kept) -> None:
        self.kept, self.ids = kept, kept.ids

    @cached_property
    def unit(self) -> Draw:
        return Draw(np.ones((1, len(self.ids))))

    def evidence(self, metric: Metric, _: Constants) -> Evidence:
        return self.kept.evidence[self._name(metric)]

    def constants(self, metric: Metric) -> Constants:
        return self.kept.constants[self._name(metric)]

    def has(self, metric: Metric) -> bool:
        return self._found(metric) is not None

    def _name(self, metric: Metric) -> str:
        found = self._found(metric)
        if found is None:
            kept = ", ".join(self.kept.evidence)
            raise InputError(
                f"the run kept no evidence of {metric}; it kept: {kept}. Evaluate it anew with this metric"
            )
        return found

    def _found(self, metric: Metric) -> str | None:
        """The kept metric that reads the same evidence: itself, or one of its family."""
        if metric.name in self.kept.evidence:
            return metric.name
        for name, constants in self.kept.constants.items():
            if metric_of(name).key(constants) == metric.key(constants):
                return name
        return None


class KeptPair:
    """Two runs' kept evidence on the same clusters."""

    def __init__(self, base: Kept, new: Kept) -> None:
        self.base, self.new = base, new
        if base.ids != new.ids or base.asked != new.asked:
            raise InputError(
                f"the runs were asked different questions ({_differing(base, new)}); compare runs of the same data, "
                "or their records with --align intersection"
            )
        self.collectors = KeptSide(base), KeptSide(new)

    def __len__(self) -> int:
        return int(self.base.asked_rows.sum())

    @cached_property
    def without_failed(self) -> KeptPair:
        """The clusters that lost the same rows to failures in both runs."""
        mine, theirs = (np.frombuffer(k.failed, np.uint64) for k in (self.base, self.new))
        if (mine == theirs).all():
            return self
        alike = np.flatnonzero(mine == theirs)
        return KeptPair(self.base.among(alike), self.new.among(alike))

    @property
    def same_answered(self) -> bool:
        return self.base.answered == self.new.answered

    def constants(self, metric: Metric) -> tuple[Constants, Constants]:
        """What each side knew of its table, with labels that only the other met added."""
        one, two = (side.constants(metric) for side in self.collectors)
        mine, theirs = (side.evidence(metric, {}) for side in self.collectors)
        return _united(one, two, mine, theirs), _united(two, one, theirs, mine)


def _differing(base: Kept, new: Kept) -> str:
    mine, theirs = ({i: k.asked[DIGEST * n : DIGEST * (n + 1)] for n, i in enumerate(k.ids)} for k in (base, new))
    alone = len(set(mine) ^ set(theirs))
    other = sum(mine[i] != theirs[i] for i in set(mine) & set(theirs))
    return f"{alone} clusters are in one run only, {other} differ in items or targets"


def _united(own: Constants, other: Constants, mine: Any, theirs: Any) -> dict[str, Any]:
    """The constants of one side, where a set of labels is that of both, as it is when two tables are compared."""
    found = dict(own)
    if "labels" in own:
        both = (own["labels"] or _met(mine)), (other["labels"] or _met(theirs))
        found["labels"] = tuple(sorted({*both[0], *both[1]}, key=sortable)) if set(both[0]) != set(both[1]) else both[0]
    if "parts" in own:
        parts = zip(own["parts"], other["parts"], mine.parts, theirs.parts, strict=True)
        found["parts"] = tuple(_united(*each) for each in parts)
    if "groups" in own:
        found["overall"] = _united(own["overall"], other["overall"], mine.overall, theirs.overall)
        ours, others = (dict(zip(e.names, e.groups, strict=True)) for e in (mine, theirs))
        shared = set(ours) & set(others)
        found["groups"] = {
            name: _united(c, other["groups"][name], ours[name], others[name]) if name in shared else c
            for name, c in own["groups"].items()
        }
    return found


def _met(evidence: Any) -> tuple[Any, ...]:
    """The labels that stand among the keys of keyed sums."""
    seen = {label for part in evidence.keys for label in part.tolist() if label is not None}
    return tuple(sorted(seen, key=sortable))
