"""What a table leaves behind when its rows are gone: every metric's evidence, and digests of who was asked what."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.metrics.definition import Metric
from steelyard.metrics.evidence.sums import Evidence
from steelyard.metrics.options import Constants
from steelyard.records.clusters import Clusters
from steelyard.records.derive import ANSWERED, FAILED
from steelyard.records.digests import Digests, column_digests, row_digests
from steelyard.records.schema import KEY, PAIRED, is_group, kind_of
from steelyard.records.table import Records
from steelyard.uncertainty.sampling import Sample

DIGEST = 8  # bytes kept of each digest

_FOLLOWS = {  # what derived columns follow from
    "correct": ("mark", "correct", "target", "prediction"),
    **dict.fromkeys(("answered", "abstained", "unparsed", "failed"), ("outcome",)),
}


@dataclass(frozen=True, kw_only=True)
class KeptSlice:
    """One slice of a table: its clusters, what they were asked, and the evidence of every metric by its name.

    `asked`, `failed` and `answered` hold one digest per cluster: of the questions with their targets, of those that
    failed, of those that were answered.
    """

    slice: Mapping[str, Any]
    ids: Clusters
    asked: bytes
    failed: bytes
    answered: bytes
    counts: Mapping[str, int]
    asked_rows: npt.NDArray[np.int64]  # a cluster, without those that failed
    answered_rows: npt.NDArray[np.int64]
    constants: Mapping[str, Constants] = field(default_factory=dict)
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    # a digest per cluster of every column that metrics read, and of the outcome; None in what the first edition kept
    columns: Mapping[str, Digests] | None = None
    lacking: Mapping[str, Digests] = field(default_factory=dict)  # by metric: the rows that lack a value it reads
    lacking_rows: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)

    @property
    def answer_rate(self) -> float:
        asked = int(self.asked_rows.sum())
        return int(self.answered_rows.sum()) / asked if asked else float("nan")

    def among(self, clusters: npt.NDArray[np.int64]) -> KeptSlice:
        """The same with some clusters only."""
        asked, failed, answered = (
            b"".join(digests[DIGEST * i : DIGEST * (i + 1)] for i in clusters)
            for digests in (self.asked, self.failed, self.answered)
        )
        return replace(
            self,
            ids=self.ids.at(clusters),
            asked=asked,
            failed=failed,
            answered=answered,
            asked_rows=self.asked_rows[clusters],
            answered_rows=self.answered_rows[clusters],
            evidence=_each_once(self.evidence, clusters),
            columns=None if self.columns is None else {name: d[clusters] for name, d in self.columns.items()},
            lacking={name: d[clusters] for name, d in self.lacking.items()},
            lacking_rows={name: n[clusters] for name, n in self.lacking_rows.items()},
        )

    @property
    def asked_by_value(self) -> bytes:
        """The digests of what was asked, clusters sorted by value: the order that every edition can make."""
        return b"".join(self.asked[DIGEST * i : DIGEST * (i + 1)] for i in self.ids.by_value)

    @property
    def in_order(self) -> KeptSlice:
        """The same with the clusters in the order that random numbers meet them: by their text."""
        order = self.ids.by_text
        return self if (order == np.arange(len(order))).all() else self.among(order)


def _each_once(evidence: Mapping[str, Evidence], clusters: npt.NDArray[np.int64]) -> dict[str, Evidence]:
    """Some clusters of every evidence; what metrics share stays shared."""
    parts: dict[int, Evidence] = {}
    for each in evidence.values():
        if id(each) not in parts:
            parts[id(each)] = each.among(clusters)
    return {name: parts[id(each)] for name, each in evidence.items()}


def describes_question(column: str) -> bool:
    """True for columns that describe the question, not the answer: both runs of a comparison must state them alike."""
    return column in ("should_abstain", "note", "contraindicated", "target_rationale") or is_group(column)


def keep(records: Records, slice_: Mapping[str, Any], samples: Sequence[Sample]) -> KeptSlice:
    """What this table leaves behind."""
    ids, cluster = records.cluster
    rows = _row_texts(records)
    outcome = records.outcome
    everyone = np.ones(len(records), bool)
    missing = {s.metric.name: s.side.missing(s.metric, s.constants) for s in samples if s.side is not None}
    lost = {name: mask for name, mask in missing.items() if mask.any()}
    return KeptSlice(
        slice=dict(slice_),
        ids=ids,
        asked=_digests(rows, cluster, everyone, len(ids)),
        failed=_digests(rows, cluster, outcome == FAILED, len(ids)),
        answered=_digests(rows, cluster, outcome == ANSWERED, len(ids)),
        counts=records.counts(),
        asked_rows=np.bincount(cluster[outcome != FAILED], minlength=len(ids)).astype(np.int64),
        answered_rows=np.bincount(cluster[outcome == ANSWERED], minlength=len(ids)).astype(np.int64),
        constants={s.metric.name: s.constants for s in samples},
        evidence={s.metric.name: s.evidence for s in samples},
        columns={name: column_digests(records, name, cluster, len(ids)) for name in read_columns(records, samples)},
        lacking={name: row_digests(records, mask, cluster, len(ids)) for name, mask in lost.items()},
        lacking_rows={
            name: np.bincount(cluster[mask], minlength=len(ids)).astype(np.int64) for name, mask in lost.items()
        },
    )


def read_columns(records: Records, samples: Sequence[Sample]) -> list[str]:
    """The columns by which later runs are told to have given the same answers."""
    return list(dict.fromkeys(column for s in samples for column in told_by(s.metric, records.stated)))


def told_by(metric: Metric, stated: Collection[str]) -> list[str]:
    """The columns that tell whether two runs gave the same answers as far as a metric reads them.

    Its own, by what they follow from, and what was answered. Where one of its own is not among the columns, the metric
    finds what it reads elsewhere (a ranking has several forms), and every column but the questions' counts.
    """
    own = [_FOLLOWS.get(name, (name,)) for name in metric.reads]
    known = [*KEY, "cluster"]
    if any("outcome" not in names and not any(name in stated for name in names) for names in own):
        return ["outcome", *(name for name in stated if name not in (*known, "outcome"))]
    names_read = ("outcome", "prediction", *(name for names in own for name in names))
    return [name for name in dict.fromkeys(names_read) if name == "outcome" or name in stated]


def _row_texts(records: Records) -> list[bytes]:
    """Each row's question and target, as bytes; numbers count by value."""
    columns = []
    for name in (*PAIRED, "target"):
        if name in records and kind_of(records.column(name)) != "null":
            column = records.column(name)
            numeric = name == "target" and kind_of(column) in ("int", "float")
            columns.append(records.stated_numbers(name).tolist() if numeric else column.to_pylist())
    return [json.dumps(row).encode() for row in zip(*columns, strict=True)]


def _digests(rows: Sequence[bytes], cluster: npt.NDArray[np.int64], inside: npt.NDArray[np.bool_], size: int) -> bytes:
    parts: list[list[bytes]] = [[] for _ in range(size)]
    for row in np.flatnonzero(inside).tolist():
        parts[cluster[row]].append(rows[row])
    return b"".join(hashlib.sha256(b"\n".join(sorted(part))).digest()[:DIGEST] for part in parts)
