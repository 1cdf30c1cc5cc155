"""What the runs of a gate know by name, so that a wrong name is told from a number that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from steelyard.errors import UsageError, printable
from steelyard.metrics import metrics
from steelyard.metrics.definition import Metric, bound
from steelyard.metrics.vocabulary import FROM_ALL_GROUPS
from steelyard.naming import Rule
from steelyard.records.labels import value_name
from steelyard.records.schema import CELL
from steelyard.registry import closest
from steelyard.runs.keys import nearest_keys
from steelyard.study.asking import left_open


@dataclass(frozen=True, kw_only=True)
class KnownNames:
    """The names, labels and groups that either run has, and what the runs are called."""

    run: str = ""
    baseline: str = ""
    labels: Mapping[str, frozenset[str]] = field(default_factory=dict)  # of a metric's family: its members
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)  # of a column: its values in this run
    baseline_values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    classes: frozenset[str] = frozenset()  # the labels of targets and predictions, where they can be told
    kept: bool = False  # runs of a store, which have what was evaluated when they were saved
    lacking: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by metric: the runs without evidence of it

    @property
    def run_text(self) -> str:
        return printable(self.run) if self.run else "the run"

    def check(self, rule: Rule) -> None:
        """Refuse a label or a group that neither run has: it is misspelt, not missing."""
        metric = bound(replace(rule.metric, slice=()))
        if metric.label is not None and metric.definition.name in self.labels:
            known = self.labels[metric.definition.name]
            if value_name(metric.label) not in known:
                hint = _nearest(value_name(metric.label), known)
                raise UsageError(
                    f"'{printable(str(rule))}': neither run has the label '{printable(metric.label)}'{hint}"
                )
        positive = metric.values.get("positive")
        if positive is not None and self.classes and value_name(positive) not in self.classes:
            hint = _nearest(value_name(positive), self.classes)
            raise UsageError(f"'{printable(str(rule))}': neither run has the label '{printable(positive)}'{hint}")
        if self.kept and rule.each and rule.each != "cell":
            self._check_column(rule, rule.each)
        for column, _ in rule.metric.slice:
            if self.kept and column in CELL and column not in self.values and column not in self.baseline_values:
                raise UsageError(
                    f"'{printable(str(rule))}': the run is one {column}, or names none; leave {column}= out"
                )
            self._check_column(rule, column)

    def strangers(self, slice_: Mapping[str, str]) -> str:
        """Which values of a slice the run has nowhere, with the nearest that it has; nothing where it has them all."""
        for column, value in slice_.items():
            own = self.values.get(column, frozenset())
            seen = own | self.baseline_values.get(column, frozenset())
            if seen and value not in own:
                who = "neither run has" if self.baseline_values and value not in seen else "the run has no"
                hint = "" if value in seen else _nearest(value, seen)
                return f"{who} {printable(column)}={printable(value)}{hint}"
        return ""

    def _check_column(self, rule: Rule, column: str) -> None:
        """Refuse a column that is misspelt: one like it is known, itself is not."""
        known = [*self.values, *self.baseline_values]
        near = closest(column, [c for c in known if c not in CELL]) if column not in known else None
        if near:
            raise UsageError(f"'{printable(str(rule))}': neither run has {printable(column)}; did you mean '{near}'?")

    def lost(self, column: str, present: Sequence[str]) -> list[str]:
        """The values of a column that the baseline has and this run does not."""
        return sorted(self.baseline_values.get(column, frozenset()) - set(present))

    def lost_groups(self, metric: Metric) -> list[str]:
        """The groups that a gap or a worst group is over, which only the baseline has."""
        if metric.over_groups not in FROM_ALL_GROUPS:
            return []
        columns = [c for c in metric.grouped_by if c in self.values]
        return [name for c in columns for name in self.lost(c, sorted(self.values[c]))]

    def unknown(self, rule: Rule, keys: Sequence[str]) -> str:
        """What to say of a name that nobody knows."""
        written = str(replace(rule.metric, slice=()))
        near = closest(written, nearest_keys(written, keys))
        if near:
            return f"'{printable(str(rule))}': unknown metric '{printable(written)}'; did you mean '{printable(near)}'?"
        said = left_open(written) or _refusal(rule) or metrics.unknown(rule.metric.head)
        return f"'{printable(str(rule))}': {said}"

    def absent(self, name: str, where: str, *, delta: bool) -> str:
        """Why a number is not there though its name is known."""
        if not self.kept:
            return f"{self.run_text} has no value of {name}{where}"
        runs = list(self.lacking.get(name, ())) if delta else []
        who = " and ".join(map(printable, runs)) or self.run_text
        what = "evidence of it" if delta else f"{name}{where}"
        return f"{who} did not keep {what}"


def _refusal(rule: Rule) -> str:
    """Why the registry takes a rule's name for no metric."""
    try:
        bound(replace(rule.metric, slice=()))
    except UsageError as problem:
        return str(problem)
    return ""


_LONGEST = 40  # characters of a value that is shown


def _nearest(name: str, known: frozenset[str]) -> str:
    if any(len(each) > _LONGEST or each.count(" ") > 1 for each in known):  # texts, which may be a patient's
        return ""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    if near:
        return f"; did you mean '{printable(near[0])}'?"
    shown = ", ".join(printable(k) for k in sorted(known)) if len(known) <= 8 else f"{len(known)} others"
    return f"; there are {shown}"
