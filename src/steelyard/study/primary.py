"""Which comparisons decide: those about a metric, perhaps in one slice, that somebody asked about; the others explore.

A verdict is about a question. `primary` names the metrics that decide, each perhaps in a slice (`accuracy{task=a}`);
without it the first metric that was asked for decides, or of the default stack its first. It decides in every slice
that was asked for, on the questions as they are: cells of perturbations explore unless they are named, or unless the
metric is about perturbations. Where strategies are cells of a table, none of them is the reference, so all decide.
p-values are adjusted over what decides, and over what explores, apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from steelyard.errors import UsageError, counted, printable
from steelyard.metrics.definition import Definition, Metric, MetricLike, metric_of
from steelyard.naming import Expr, parse, slice_text
from steelyard.records.labels import value_name
from steelyard.records.schema import UNPERTURBED
from steelyard.records.table import Records
from steelyard.study.asking import asked_for, completed
from steelyard.study.measure import ComparedSlice
from steelyard.study.pairs import Pair
from steelyard.uncertainty.number import Delta

Primary = Sequence[MetricLike | Expr] | MetricLike | None
_SHOWN = 4  # names of metrics in one line


@dataclass(frozen=True)
class Question:
    """A metric that decides, in one slice or in all that were asked for."""

    metric: Metric | Expr
    slice: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.metric}{slice_text(self.slice)}"

    def is_about(self, slice_: Mapping[str, Any], metric: Metric) -> bool:
        """True if the metric, one of those that are meant, decides in this slice."""
        if self.slice:
            return all(c in slice_ and value_name(slice_[c]) == value for c, value in self.slice.items())
        return metric.perturbed_only or not is_perturbed(slice_)


def questions(primary: Primary) -> list[Question]:
    """What was named as deciding.

    >>> [question.name for question in questions(["accuracy{task=a}", "brier"])]
    ['accuracy{task=a}', 'brier']
    """
    named = [] if primary is None else [primary] if isinstance(primary, str | Definition | Metric) else primary
    found = []
    for each in named:
        expr = each if isinstance(each, Expr) else parse(each if isinstance(each, str) else str(metric_of(each)))
        (metric,) = asked_for([replace(expr, slice=())])
        found.append(Question(metric, dict(expr.slice)))
    return found


def answerable(
    named: Sequence[Question], asked: Sequence[Metric], records: Records
) -> tuple[list[Question], list[Metric]]:
    """The questions with what was left open of their metrics filled in from the table, and all metrics to compare."""
    metrics, _ = completed([question.metric for question in named], records)
    deciding = [replace(question, metric=metric) for question, metric in zip(named, metrics, strict=True)]
    return deciding, list(dict.fromkeys((*(m for m in metrics if m not in asked), *asked)))


def is_perturbed(slice_: Mapping[str, Any]) -> bool:
    """True if a slice holds altered questions."""
    return slice_.get("perturbation") not in (None, *UNPERTURBED)


def decided_by(
    slices: Sequence[ComparedSlice],
    named: Sequence[Question],
    first: Metric,
    members: Callable[[Metric, Pair], Sequence[Metric]] = lambda metric, _: [metric],
) -> list[ComparedSlice]:
    """The slices with the metrics that decide in them: those that were named, else the first that was asked for.

    `members` are what a family of metrics stands for. A named question that no slice answers is refused.
    """

    def deciding(question: Question, each: ComparedSlice) -> list[Metric]:
        assert isinstance(question.metric, Metric)
        meant = [m for m in members(question.metric, each.pair) if m in each.metrics]
        return [m for m in meant if (question.slice or each.is_asked) and question.is_about(each.slice, m)]

    asked = named or [Question(first)]
    found = [[deciding(question, each) for question in asked] for each in slices]
    for i, question in enumerate(named):
        if not any(row[i] for row in found):
            known = ", ".join(filter(None, (slice_text(_names(each.slice)) for each in slices[:_SHOWN])))
            there = f"there are {known}" if known else "there is the whole table only"
            raise UsageError(f"primary: no comparison is about {printable(question.name)}; {printable(there)}")
    if not any(map(any, found)):  # as where all questions are altered ones
        found = [[[m for m in members(first, each.pair) if m in each.metrics]] for each in slices]
    return [
        replace(each, primary=[m for metrics in row for m in metrics]) for each, row in zip(slices, found, strict=True)
    ]


def family_text(deltas: Sequence[Delta]) -> str:
    """What decides, and over how many comparisons p-values were adjusted; nothing of a single one."""
    if len(deltas) < 2:
        return ""
    deciding, exploring = ([d for d in deltas if d.role == role] for role in ("primary", "exploratory"))
    names = list(dict.fromkeys(d.metric for d in deciding))
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    over = counted(sum(d.p_adjusted is not None for d in deciding), "comparison")
    text = f"{shown} {'decides' if len(names) == 1 else 'decide'}: p adjusted over {over}"
    if not exploring:
        return text
    verb = "explores" if len(exploring) == 1 else "explore"
    return f"{text}; {counted(len(exploring), 'other')} {verb}, adjusted among themselves"


def _names(slice_: Mapping[str, Any]) -> dict[str, str]:
    return {column: value_name(value) for column, value in slice_.items()}
