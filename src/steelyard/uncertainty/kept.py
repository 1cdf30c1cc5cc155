"""What a table leaves behind when its rows are gone: the evidence of every metric, and digests of who was asked what.

Two runs that kept their evidence can be compared without their rows, if their clusters were asked the same questions
with the same targets and groups; else it is refused. A cluster that lost other rows in one run than in the other, to
failures or because a value is missing, leaves both: which of its rows are left to compare, only the rows could say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError
from steelyard.metrics.definition import Metric, metric_of
from steelyard.metrics.evidence import Draw, Evidence, Ids, id_order, some, sortable
from steelyard.metrics.options import Constants
from steelyard.records.derive import ANSWERED, FAILED
from steelyard.records.digests import Digests, column_digests, row_digests
from steelyard.records.schema import KEY, kind_of, texts
from steelyard.records.table import Records
from steelyard.uncertainty.sampling import Sample

DIGEST = 8  # bytes kept of each digest
UNEQUAL_MISSING = 0.01
_PAIRED = tuple(name for name in KEY if name not in ("model", "strategy"))
_FOLLOWS = {  # what derived columns follow from
    "correct": ("correct", "target", "prediction"),
    **dict.fromkeys(("answered", "abstained", "unparsed", "failed"), ("outcome",)),
}
AGREEING = ("should_abstain", "group.")  # columns that describe the question: both runs must state them alike


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
    # a digest a cluster of every column that metrics read, and of the outcome; None in what the first edition kept
    columns: Mapping[str, Digests] | None = None
    lacking: Mapping[str, Digests] = field(default_factory=dict)  # by metric: the rows that lack a value it reads
    lacking_rows: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)

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
            evidence=_each_once(self.evidence, clusters),
            columns=None if self.columns is None else {name: d[clusters] for name, d in self.columns.items()},
            lacking={name: d[clusters] for name, d in self.lacking.items()},
            lacking_rows={name: n[clusters] for name, n in self.lacking_rows.items()},
        )

    @property
    def asked_by_value(self) -> bytes:
        """The digests of what was asked, clusters sorted by value: the order that every edition can make."""
        order = sorted(range(len(self.ids)), key=lambda i: tuple(map(sortable, self.ids[i])))
        return b"".join(self.asked[DIGEST * i : DIGEST * (i + 1)] for i in order)

    @property
    def in_order(self) -> Kept:
        """The same with the clusters in the order that random numbers meet them: by their text."""
        order = sorted(range(len(self.ids)), key=lambda i: id_order(self.ids[i]))
        return self if order == list(range(len(order))) else self.among(np.array(order, np.int64))


def _each_once(evidence: Mapping[str, Evidence], clusters: npt.NDArray[np.int64]) -> dict[str, Evidence]:
    """Some clusters of every evidence; what metrics share stays shared."""
    made: dict[int, Evidence] = {}
    for each in evidence.values():
        if id(each) not in made:
            made[id(each)] = each.among(clusters)
    return {name: made[id(each)] for name, each in evidence.items()}


def keep(records: Records, slice_: Mapping[str, Any], samples: Sequence[Sample]) -> Kept:
    """What this table leaves behind."""
    ids, cluster = records.cluster
    rows = _row_texts(records)
    outcome = records.outcome
    everyone = np.ones(len(records), bool)
    missing = {s.metric.name: s.side.missing(s.metric, s.constants) for s in samples if s.side is not None}
    lost = {name: mask for name, mask in missing.items() if mask.any()}
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
        {name: column_digests(records, name, cluster, len(ids)) for name in read_columns(records, samples)},
        {name: row_digests(records, mask, cluster, len(ids)) for name, mask in lost.items()},
        {name: np.bincount(cluster[mask], minlength=len(ids)).astype(np.int64) for name, mask in lost.items()},
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
    found = ("outcome", "prediction", *(name for names in own for name in names))
    return [name for name in dict.fromkeys(found) if name == "outcome" or name in stated]


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
        return metric.today(self.kept.evidence[self._name(metric)])

    def constants(self, metric: Metric) -> Constants:
        return self.kept.constants[self._name(metric)]

    def has(self, metric: Metric) -> bool:
        return self.name(metric) is not None

    def lacking(self, metric: Metric) -> tuple[Digests, int]:
        """A digest a cluster of the rows that lack a value, and how many there are; an earlier edition counted only."""
        name, none = self.name(metric) or "", np.zeros(len(self.ids), np.uint64)
        if self.kept.columns is None:
            lost = self.kept.evidence[name].excluded if name else {}
            defers = "should_abstain" in metric.reads  # there an unreadable reply is what cannot be counted
            reasons = [r for r in lost if r.startswith(("no ", "partner ")) or (r == "unparsed" and defers)]
            return none, sum(lost[reason] for reason in reasons)
        rows = self.kept.lacking_rows.get(name)
        return self.kept.lacking.get(name, none), 0 if rows is None else int(rows.sum())

    def missing_rows(self, metric: Metric, _: Constants) -> int:
        """How many rows lack a value that the metric reads."""
        return self.lacking(metric)[1]

    def _name(self, metric: Metric) -> str:
        found = self.name(metric)
        if found is None:
            kept = ", ".join(self.kept.evidence)
            raise InputError(
                f"the run kept no evidence of {metric}; it kept: {kept}. Evaluate it anew with this metric"
            )
        return found

    def name(self, metric: Metric) -> str | None:
        """The kept metric that reads the same evidence: itself, one of its family, or the same under a condition."""
        if metric.name in self.kept.evidence:
            return metric.name
        for name, constants in self.kept.constants.items():
            kept = metric_of(name)
            if metric.key(constants) in (kept.key(constants), kept.unconditional.key(constants)):
                return name
        return None


class KeptPair:
    """Two runs' kept evidence on the same clusters."""

    by_rows = False

    def __init__(self, base: Kept, new: Kept) -> None:
        base, new = base.in_order, new.in_order
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
        return self._where((mine == theirs) & ((self.base.asked_rows > 0) | (self.new.asked_rows > 0)))

    def _where(self, alike: npt.NDArray[np.bool_]) -> KeptPair:
        if alike.all():
            return self
        clusters = np.flatnonzero(alike)
        return KeptPair(self.base.among(clusters), self.new.among(clusters))

    def lost(self, inner: KeptPair) -> float:
        """The share of the asked rows whose clusters are not in an inner pair."""
        rows = max(int(self.base.asked_rows.sum()), 1)
        return 1 - int(inner.base.asked_rows.sum()) / rows

    @property
    def rates(self) -> list[float]:
        """The answer rates of both runs."""
        return [self.base.answer_rate, self.new.answer_rate]

    @property
    def failure_rates(self) -> list[float]:
        return [k.counts["failed"] / max(sum(k.counts.values()), 1) for k in (self.base, self.new)]

    @property
    def same_answered(self) -> bool:
        return self.base.answered == self.new.answered

    def constants(self, metric: Metric) -> tuple[Constants, Constants]:
        """What each side knew of its table, with labels that only the other met added."""
        sides = [(side.constants(metric), side.evidence(metric, {})) for side in self.collectors]
        joint = metric.united(sides)
        return _with_labels(sides[0][0], joint), _with_labels(sides[1][0], joint)

    def checked(self, metric: Metric) -> None:
        """Refuse runs whose groups or labels to defer differ, where the metric reads them."""
        for name in metric.reads:
            if not name.startswith(AGREEING):
                continue
            one, two = (None if k.columns is None else k.columns.get(name) for k in (self.base, self.new))
            if one is not None and two is not None and (one != two).any():
                raise InputError(
                    f"differs from the base run in {int((one != two).sum())} clusters; the runs answered different "
                    "questions",
                    field=name,
                )

    def countable(self, metric: Metric) -> tuple[KeptPair, Missing | None]:
        """The clusters whose rows lack the same values in both runs, and what was lost."""
        sides = [side.lacking(metric) for side in self.collectors]
        (mine, base), (theirs, new) = sides
        if self.knows_columns:
            alike = mine == theirs
        else:  # an earlier edition counted them, but not which they are
            alike = (self._counted(0, metric) == self._counted(1, metric)) | (base + new == 0)
        if alike.all() and base == new:
            return self, None
        lost = int((~alike).sum())
        return self._where(alike), Missing(base, new, lost, "clusters", max(len(self), 1))

    def lacking(self, metric: Metric) -> int:
        """How many rows lack a value in either run; where they are not the same rows, as many as there can be."""
        (mine, base), (theirs, new) = (side.lacking(metric) for side in self.collectors)
        return base if base == new and bool((mine == theirs).all()) else min(base + new, len(self))

    def _counted(self, side: int, metric: Metric) -> npt.NDArray[np.int64]:
        return np.asarray(self.collectors[side].evidence(metric, {}).rows)

    @property
    def knows_columns(self) -> bool:
        """True where both runs kept digests of what their metrics read; an earlier edition did not."""
        return self.base.columns is not None and self.new.columns is not None

    def lost_groups(self, _metric: Metric, _inner: KeptPair) -> list[str]:
        """Groups stay in what was kept, with or without rows: those without a value are named where they are met."""
        return []

    def unchanged(self, metric: Metric) -> bool:
        """True if both runs gave the same answers, by every column that the metric reads; unknown counts as no."""
        one, two = self.base.columns, self.new.columns
        if one is None or two is None:
            return False
        names = dict.fromkeys((*told_by(metric, one), *told_by(metric, two)))
        return all(name in one and name in two and bool((one[name] == two[name]).all()) for name in names)


@dataclass(frozen=True)
class Missing:
    """Rows that one run cannot count because a value is missing: how many on each side, and what left both."""

    base: int
    new: int
    lost: int
    unit: str  # rows, or the clusters that hold them
    rows: int

    @property
    def unequal(self) -> bool:
        """True where the runs lack values in shares that differ so much that the comparison says little."""
        return abs(self.base - self.new) / self.rows > UNEQUAL_MISSING + 1e-12

    def __str__(self) -> str:
        one = f"{self.base} rows of the base run and {self.new} of the new one lack what it reads"
        return f"{one}: {self.lost} {self.unit} left both"


def _differing(base: Kept, new: Kept) -> str:
    mine, theirs = ({i: k.asked[DIGEST * n : DIGEST * (n + 1)] for n, i in enumerate(k.ids)} for k in (base, new))
    alone = len(set(mine) ^ set(theirs))
    other = sum(mine[i] != theirs[i] for i in set(mine) & set(theirs))
    return f"{alone} clusters are in one run only, {other} differ in items or targets"


def _with_labels(own: Constants, joint: Constants) -> dict[str, Any]:
    """One side's constants, with the labels of both: sums keep their own scale, averages share their classes."""
    found = dict(own)
    if "labels" in own:
        found["labels"] = joint["labels"]
    if "parts" in own:
        found["parts"] = tuple(_with_labels(a, b) for a, b in zip(own["parts"], joint["parts"], strict=True))
    if "groups" in own:
        found["overall"] = _with_labels(own["overall"], joint["overall"])
        found["groups"] = {name: _with_labels(c, joint["groups"][name]) for name, c in own["groups"].items()}
    return found
