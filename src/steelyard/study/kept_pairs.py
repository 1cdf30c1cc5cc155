"""Two runs that kept their evidence, compared without their rows.

Their clusters must have been asked the same questions with the same targets and groups; else it is refused. A cluster
that lost other rows in one run than in the other, to failures or because a value is missing, leaves both: which of its
rows are left to compare, only the rows could say.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from steelyard.errors import InputError, counted
from steelyard.ground.arrays import Codes, Mask
from steelyard.metrics.definition import Metric, known_metric
from steelyard.metrics.evidence.sums import Draw, Evidence
from steelyard.metrics.options import Constants
from steelyard.records.digests import Digests
from steelyard.study.kept import DIGEST, KeptSlice, describes_question, told_by
from steelyard.study.pairs import ClustersLeft, MissingRows, Pair, check_judges


class KeptSide:
    """One run's kept evidence, read like a table's."""

    def __init__(self, kept: KeptSlice) -> None:
        self.kept, self.ids = kept, kept.ids

    @cached_property
    def unit(self) -> Draw:
        return Draw(np.ones((1, len(self.ids))))

    @property
    def counts(self) -> Mapping[str, int]:
        """The rows of the slice by outcome."""
        return self.kept.counts

    def evidence(self, metric: Metric, _: Constants) -> Evidence:
        return metric.today(self.kept.evidence[self._name(metric)])

    def constants(self, metric: Metric) -> Constants:
        return self.kept.constants[self._name(metric)]

    def has(self, metric: Metric) -> bool:
        """True if the metric can be read from what was kept."""
        return self.name(metric) is not None

    def lacking(self, metric: Metric) -> tuple[Digests, int]:
        """A digest per cluster of the rows that lack a value, and how many they are; earlier editions only counted."""
        name, none = self.name(metric) or "", np.zeros(len(self.ids), np.uint64)
        if self.kept.columns is None:
            lost = self.kept.evidence[name].excluded if name else {}
            return none, sum(count for reason, count in lost.items() if _is_lack(metric, reason))
        rows = self.kept.lacking_rows.get(name)
        return self.kept.lacking.get(name, none), 0 if rows is None else int(rows.sum())

    def missing_rows(self, metric: Metric, _: Constants) -> int:
        """How many rows lack a value that the metric reads."""
        return self.lacking(metric)[1]

    def _name(self, metric: Metric) -> str:
        name = self.name(metric)
        if name is None:
            kept = ", ".join(self.kept.evidence)
            raise InputError(
                f"the run kept no evidence of {metric}; it kept: {kept}. Evaluate it again with this metric"
            )
        return name

    def name(self, metric: Metric) -> str | None:
        """The kept metric that reads the same evidence: itself, one of its family, or the same under a condition."""
        if metric.name in self.kept.evidence:
            return metric.name
        for name, constants in self.kept.constants.items():
            kept = known_metric(name)
            if kept is not None and metric.key(constants) in (kept.key(constants), kept.unconditional.key(constants)):
                return name
        return None


class KeptPair(Pair):
    """Two runs' kept evidence on the same clusters."""

    def __init__(self, base: KeptSlice, new: KeptSlice) -> None:
        base, new = base.in_order, new.in_order
        self.base, self.new = base, new
        if base.ids != new.ids or base.asked != new.asked:
            raise InputError(
                f"the runs were asked different questions ({_differing(base, new)}); compare runs of the same data, "
                "or their records with `align=intersection`"
            )
        self._sides = KeptSide(base), KeptSide(new)

    @property
    def sides(self) -> tuple[KeptSide, KeptSide]:
        return self._sides

    def __len__(self) -> int:
        return int(self.base.asked_rows.sum())

    @property
    def whole(self) -> int:
        return sum(self.base.counts.values())

    @property
    def knows_columns(self) -> bool:  # type: ignore[override]
        """True where both runs kept digests of what their metrics read; an earlier edition did not."""
        return self.base.columns is not None and self.new.columns is not None

    @cached_property
    def without_failed(self) -> KeptPair:
        """The clusters that lost the same rows to failures in both runs."""
        mine, theirs = (np.frombuffer(k.failed, np.uint64) for k in (self.base, self.new))
        return self._where((mine == theirs) & ((self.base.asked_rows > 0) | (self.new.asked_rows > 0)))

    def _where(self, alike: Mask) -> KeptPair:
        if alike.all():
            return self
        clusters = np.flatnonzero(alike)
        return KeptPair(self.base.among(clusters), self.new.among(clusters))

    def failures(self, left: KeptPair) -> str:
        lost = len(self.base.ids) - len(left.base.ids)
        if not lost:
            return ""
        who = f"{counted(lost, 'cluster')} in which other rows failed left both"
        return f"{who} (with their records only those rows would)"

    def clusters_left(self, inner: KeptPair) -> ClustersLeft | None:
        if len(inner.base.ids) == len(self.base.ids):
            return None
        asked, left = (int(pair.base.asked_rows.sum()) for pair in (self, inner))
        return ClustersLeft(len(inner.base.ids), len(self.base.ids), 1 - left / max(asked, 1))

    @property
    def failed_alike(self) -> bool:
        return self.base.failed == self.new.failed

    def by_row(self) -> tuple[KeptSide, KeptSide] | None:
        alone = all((kept.asked_rows <= 1).all() for kept in (self.base, self.new))
        return self.sides if alone else None

    @property
    def rates(self) -> list[float]:
        return [self.base.answer_rate, self.new.answer_rate]

    @property
    def failure_rates(self) -> list[float]:
        return [k.counts["failed"] / max(sum(k.counts.values()), 1) for k in (self.base, self.new)]

    @property
    def same_answered(self) -> bool:
        return self.base.answered == self.new.answered

    def constants(self, metric: Metric) -> tuple[Constants, Constants]:
        """What each side knew of its table, with labels that only the other met added."""
        known = [(side.constants(metric), side.evidence(metric, {})) for side in self.sides]
        joint = metric.united(known)
        return _with_labels(known[0][0], joint), _with_labels(known[1][0], joint)

    def checked(self, metric: Metric) -> None:
        if self.base.columns is not None and self.new.columns is not None:
            known = [{"mark", "target"} & set(kept.columns or ()) for kept in (self.base, self.new)]
            if all(known):
                check_judges(metric, ["mark" in names for names in known])
        for name in dict.fromkeys((*metric.reads, *metric.grouped_by)):
            if not describes_question(name):
                continue
            one, two = (None if k.columns is None else k.columns.get(name) for k in (self.base, self.new))
            if one is not None and two is not None and (one != two).any():
                raise InputError(
                    f"differs from the base run in {counted(int((one != two).sum()), 'cluster')}; "
                    "the runs answered different questions",
                    field=name,
                )

    def countable(self, metric: Metric) -> tuple[KeptPair, MissingRows | None]:
        """The clusters whose rows lack the same values in both runs, and what was lost."""
        (mine, base), (theirs, new) = (side.lacking(metric) for side in self.sides)
        if self.knows_columns:
            alike = mine == theirs
        else:  # an earlier edition counted them, but not which they are
            alike = (self._counted(0, metric) == self._counted(1, metric)) | (base + new == 0)
        if alike.all() and base == new:
            return self, None
        lost = int((~alike).sum())
        return self._where(alike), MissingRows(base=base, new=new, lost=lost, unit="clusters", rows=max(len(self), 1))

    def lacking(self, metric: Metric) -> int:
        """How many rows lack a value in either run; where they are not the same rows, as many as there can be."""
        (mine, base), (theirs, new) = (side.lacking(metric) for side in self.sides)
        return base if base == new and bool((mine == theirs).all()) else min(base + new, len(self))

    def _counted(self, side: int, metric: Metric) -> Codes:
        return np.asarray(self.sides[side].evidence(metric, {}).rows)

    def lost_groups(self, metric: Metric, inner: KeptPair) -> list[str]:  # noqa: ARG002 - none is lost here
        """Groups stay in what was kept, with or without rows: those without a value are named where they are met."""
        return []

    def unchanged(self, metric: Metric) -> bool:
        """True if both runs gave the same answers, by every column that the metric reads; unknown counts as no."""
        one, two = self.base.columns, self.new.columns
        if one is None or two is None:
            return False
        names = dict.fromkeys((*told_by(metric, one), *told_by(metric, two)))
        return all(name in one and name in two and bool((one[name] == two[name]).all()) for name in names)


def _is_lack(metric: Metric, reason: str) -> bool:
    """True if rows left for this reason because they lack a value; where deferring counts, an unread reply is one."""
    return reason.startswith(("no ", "partner ")) or (reason == "unparsed" and "should_abstain" in metric.reads)


def _differing(base: KeptSlice, new: KeptSlice) -> str:
    mine, theirs = ({i: k.asked[DIGEST * n : DIGEST * (n + 1)] for n, i in enumerate(k.ids)} for k in (base, new))
    alone = len(set(mine) ^ set(theirs))
    other = sum(mine[i] != theirs[i] for i in set(mine) & set(theirs))
    are, differ = "is" if alone == 1 else "are", "differs" if other == 1 else "differ"
    return f"{counted(alone, 'cluster')} {are} in one run only, {other:,} {differ} in items or targets"


def _with_labels(own: Constants, joint: Constants) -> dict[str, Any]:
    """One side's constants, with the labels of both: sums keep their own scale, averages share their classes."""
    both = dict(own)
    if "labels" in own:
        both["labels"] = joint["labels"]
    if "parts" in own:
        both["parts"] = tuple(_with_labels(a, b) for a, b in zip(own["parts"], joint["parts"], strict=True))
    if "tasks" in own:
        both["tasks"] = {name: _with_labels(c, joint["tasks"][name]) for name, c in own["tasks"].items()}
    if "groups" in own:
        both["overall"] = _with_labels(own["overall"], joint["overall"])
        both["groups"] = {name: _with_labels(c, joint["groups"][name]) for name, c in own["groups"].items()}
    return both
