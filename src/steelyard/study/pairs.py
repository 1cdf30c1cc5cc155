"""Two runs on the same questions, side by side: what every comparison asks of a pair, whatever the runs kept.

`RowPair` has the rows of both runs, `KeptPair` only their evidence. Some questions need single rows; a pair without
rows answers them with None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from steelyard.errors import UsageError, counted
from steelyard.metrics.collector import Side
from steelyard.metrics.definition import Metric
from steelyard.metrics.options import Constants

UNEQUAL_MISSING = 0.01


@dataclass(frozen=True, kw_only=True)
class MissingRows:
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
        lack = "lacks" if self.base + self.new == 1 else "lack"
        one = f"{counted(self.base, 'row')} of the base run and {self.new:,} of the new one {lack} what it reads"
        return f"{one}: {counted(self.lost, self.unit.removesuffix('s'))} left both"


@dataclass(frozen=True)
class ClustersLeft:
    """How many clusters of a pair a comparison still stands on, and the share of the asked rows that left."""

    left: int
    of: int
    lost: float


def check_judges(metric: Metric, marked: Sequence[bool]) -> None:
    """Refuse runs of which one is judged by marks and the other by its labels, where the metric reads what is right."""
    reads = set(metric.reads)
    if marked[0] == marked[1] or not ("correct" in reads or {"target", "prediction"} < reads):
        return
    how = ["by the mark that whoever scored it left" if each else "by comparing labels" for each in marked]
    raise UsageError(
        f"{metric}: the base run is judged {how[0]}, the new one {how[1]}, so a difference may be one of the judges; "
        "read both with `correct=mark` or `correct=labels`"
    )


class Pair(ABC):
    """Two sides whose questions belong together, on one list of clusters."""

    knows_columns = True  # whether it can be told which rows lack values, and which answers are the same

    @property
    @abstractmethod
    def sides(self) -> tuple[Side, Side]:
        """The base run and the new one."""

    @property
    @abstractmethod
    def whole(self) -> int:
        """All pairs of rows, those that failed included."""

    @abstractmethod
    def __len__(self) -> int:
        """The pairs of rows."""

    @property
    def rows(self) -> int | None:
        """The pairs of rows where there are rows; None where only their evidence is left."""
        return None

    @abstractmethod
    def constants(self, metric: Metric) -> tuple[Constants, Constants]:
        """What each side must know of the whole."""

    @abstractmethod
    def checked(self, metric: Metric) -> None:
        """Refuse runs whose groups or labels to defer differ, where the metric reads them."""

    @abstractmethod
    def countable(self, metric: Metric) -> tuple[Self, MissingRows | None]:
        """What both runs can count for a metric, and what was lost because one of them lacks a value."""

    @abstractmethod
    def lacking(self, metric: Metric) -> int:
        """How many rows lack a value in either run."""

    @abstractmethod
    def lost_groups(self, metric: Metric, inner: Self) -> list[str]:
        """The groups that a gap is over and of which no row is left to compare."""

    @abstractmethod
    def unchanged(self, metric: Metric) -> bool:
        """True if both runs are known to have given the same answers, by every column that the metric reads."""

    @property
    @abstractmethod
    def failed_alike(self) -> bool:
        """True if the same rows failed in both runs."""

    @abstractmethod
    def by_row(self) -> tuple[Side, Side] | None:
        """Both sides with every row as a cluster of its own; None where single rows are not known."""

    @property
    @abstractmethod
    def rates(self) -> Sequence[float]:
        """The answer rates of both runs."""

    @property
    @abstractmethod
    def failure_rates(self) -> Sequence[float]:
        """The shares of rows that failed, of both runs."""

    @property
    @abstractmethod
    def same_answered(self) -> bool:
        """True if both runs answered the same questions."""

    @property
    @abstractmethod
    def without_failed(self) -> Self:
        """The pair without what failed on either side."""

    @abstractmethod
    def failures(self, left: Self) -> str:
        """What to say of what failed on either side and left both, or nothing."""

    @property
    def failed_as_wrong(self) -> Self | None:
        """Failed rows as if a reply had come that nobody could read: wrong end to end."""
        return None

    @property
    def answered_by_both(self) -> Self | None:
        """The rows that both runs answered."""
        return None

    def clusters_left(self, inner: Self) -> ClustersLeft | None:  # noqa: ARG002 - with rows, rows leave one by one
        """How many clusters an inner pair still has, where whole clusters had to leave."""
        return None
