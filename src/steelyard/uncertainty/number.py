"""A number, how sure it is, and what must be said of it: the one shape that estimates, deltas and gates derive from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

from steelyard.errors import counted
from steelyard.metrics.definition import Better, Metric
from steelyard.uncertainty.intervals import Interval, Rule
from steelyard.uncertainty.scarcity import FEWEST_CLUSTERS

TOLERATED_UNDEFINED = 0.05  # share of the resamples in which a value may be undefined

SliceValue: TypeAlias = str | bool | int | float | None  # what a column may hold in a slice
Role = Literal["primary", "exploratory"]  # of a comparison: it decides, or it is shown next to what decides
Outcome = Literal["better", "worse", "differs", "unchanged", "inconclusive"]  # of a comparison

# What keeps a rule from reading a number as it stands; a closed vocabulary, written to artifacts.
Caution = Literal[
    "scarce",  # parts in few clusters carry the value: the interval is not usable
    "doubtful",  # undefined in too many resamples, or without one of the clusters: the interval is not usable
    "open low",  # nothing is known of this end
    "open high",
    "missing group",  # a group has no value: no rule passes
    "lost clusters",  # kept runs lost too many clusters with the rows that failed or lack values: no rule passes
    "unequal missing",  # the runs lack values in different shares of their rows: no rule passes
    "constant",  # every cluster differs by the same: there is no interval, and the test alone decides
    "twin worse",  # the metric that stands in for this one is shown to be worse: no rule passes
]

BARS: dict[Caution, str] = {  # cautions under which a number stands for nothing: no rule passes, no run is promoted
    "missing group": "a group has no value",
    "unequal missing": "the runs lack values in different shares of their rows",
    "lost clusters": "more than a fifth of the rows left with clusters in which others failed or lack values",
    "twin worse": "calibration_error2 is shown to be worse",
}
_UNUSABLE: dict[Caution, str] = {  # cautions under which an interval says nothing
    "scarce": "a part of it sits in too few clusters",
    "doubtful": "undefined in too many resamples",
    "constant": "every cluster differs by the same",
}


@dataclass(frozen=True, kw_only=True)
class Number:
    """A value with its interval, what it stands on, and what must be said with it."""

    value: float | None
    interval: Interval | None = None
    level: float = 0.95
    se: float | None = None
    method: str = "none"
    n: int | None = None  # what the value is taken over; None where nobody stated it
    clusters: int = 0
    clusters_scarcest: int | None = None
    undefined_resamples: int = 0
    better: Better | None = None
    notes: tuple[str, ...] = ()
    cautions: tuple[Caution, ...] = ()
    rule: Rule | None = field(default=None, compare=False, repr=False)  # the interval at other levels

    @property
    def note(self) -> str:
        """All notes as one text."""
        return "; ".join(self.notes)

    @property
    def in_short(self) -> str:
        """Value and interval as a `repr` shows them."""
        if self.value is None:
            return "undefined"
        return f"{self.value:.4g}" + ("" if self.interval is None else " [{:.4g}, {:.4g}]".format(*self.interval))

    def cautioned(self, caution: Caution) -> Self:
        """The number with a further caution."""
        return replace(self, cautions=tuple(dict.fromkeys((*self.cautions, caution))))

    def unusable(self, resamples: int, clusters: str = "") -> str:
        """Why no rule may read the interval, or nothing. `clusters` is their number in words."""
        if self.interval is None:
            return self.note or "there is none"
        if self.clusters < FEWEST_CLUSTERS:
            return f"only {clusters or counted(self.clusters, 'cluster')}"
        reason = next((reason for caution, reason in _UNUSABLE.items() if caution in self.cautions), "")
        undefined = self.undefined_resamples > TOLERATED_UNDEFINED * resamples
        return reason or ("undefined in too many resamples" if undefined else "")


@dataclass(frozen=True, kw_only=True)
class Estimate(Number):
    """A metric's value on a slice, how sure it is, and what it counted.

    `n` rows count in this metric. `n_predictions` are the rows of the slice with a reply (answered, abstained or
    unparsed), `n_abstained` those of them where the model declined, whether they count as wrong here or are left out;
    None where that is not known, as of an estimate that an earlier version wrote.

    >>> import steelyard as sy
    >>> rows = [{"item": 1, "target": "a", "prediction": "a"}, {"item": 2, "target": "a", "prediction": None}]
    >>> found = sy.evaluate(rows, "accuracy", resamples=0)["accuracy"]
    >>> found.value, found.n, found.n_abstained
    (0.5, 2, 1)
    """

    metric: str
    of: Metric | None = field(default=None, compare=False, repr=False)  # None where the name is of nothing known here
    n: int
    slice: Mapping[str, SliceValue] = field(default_factory=dict)
    excluded: Mapping[str, int] = field(default_factory=dict)
    unit: str = ""
    detail: Any = None
    n_abstained: int | None = None
    n_predictions: int | None = None
    n_missing: int | None = None  # rows whose outcome counts, but which lack a value that the metric reads

    @property
    def missing_share(self) -> float:
        """The share of the asked rows that lack a value that the metric reads; 0 where that is not known."""
        return self.n_missing / self.n_predictions if self.n_missing and self.n_predictions else 0.0

    @property
    def n_evaluated(self) -> int:
        """The rows that count, under the name that other documents know it by."""
        return self.n

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as in `evaluation.json`; `method` is the family's word, `variant` what exactly was done."""
        from steelyard.uncertainty.wire import estimate_document

        return estimate_document(self)

    @property
    def shown_method(self) -> str:
        """The method as people read it."""
        return shown_method(self.method)


def shown_method(method: str) -> str:
    """The method as people read it: Wilson's interval is the one with t for z."""
    return "wilson-t" if method == "wilson" else method


@dataclass(frozen=True, kw_only=True)
class Delta(Number):
    """A paired difference: `value` is new − base on the same rows.

    `companions` stand next to it: facts about both runs, and other forms of the same difference (on the rows that both
    answered, up to a coverage that both reach, of a twin that noise does not move). `verdict_from` names what the
    verdict rests on, `read_from` what gates and tables read of this very metric: "delta", a form, or "nothing".

    >>> import steelyard as sy
    >>> old = [{"item": 1, "target": "a", "prediction": "b"}]
    >>> new = [{"item": 1, "target": "a", "prediction": "a"}]
    >>> found = sy.compare(old, new, "accuracy", resamples=0)["accuracy"]
    >>> found.base, found.new, found.delta
    (0.0, 1.0, 1.0)
    """

    metric: str
    of: Metric | None = field(default=None, compare=False, repr=False)  # None where the name is of nothing known here
    n: int  # pairs of rows
    slice: Mapping[str, SliceValue] = field(default_factory=dict)
    base: float | None
    new: float | None
    n_base: int  # rows that count on each side
    n_new: int
    p_value: float | None = None
    p_adjusted: float | None = None
    verdict: Outcome = "inconclusive"
    verdict_from: str = "delta"
    role: Role = "primary"  # whether somebody asked this question; the others explore
    companions: Mapping[str, Any] = field(default_factory=dict)
    unchanged: bool = False  # both runs gave the same answers
    n_asked: int = 0  # pairs whose outcomes count, and of these those that lack what the metric reads in either run
    n_missing: int = 0
    n_failed: int = 0  # pairs that left because either failed
    read_from: str = field(default="delta", compare=False, repr=False)
    forms: Mapping[str, Delta] = field(default_factory=dict, compare=False, repr=False)
    grown: Callable[[int], Rule] | None = field(default=None, compare=False, repr=False)  # with more clusters

    @property
    def delta(self) -> float | None:
        """new − base."""
        return self.value

    @property
    def missing_share(self) -> float:
        """The share of the asked pairs that lack a value that the metric reads."""
        return self.n_missing / self.n_asked if self.n_asked else 0.0

    @property
    def decisive(self) -> Delta | None:
        """The delta that a verdict rests on: this one, another form of it, or none."""
        return self._form(self.verdict_from)

    @property
    def readable(self) -> Delta | None:
        """The delta of this very metric that gates and tables read; None where none can be."""
        return self._form(self.read_from)

    def _form(self, name: str) -> Delta | None:
        return self if name == "delta" else self.forms.get(name)


def barred_by(cautions: Sequence[Caution]) -> str:
    """Why a number stands for nothing, or nothing."""
    return next((reason for caution, reason in BARS.items() if caution in cautions), "")
