"""What a benchmark measures in each of its tasks, and how its categories are weighed: a fact of the table.

tasks: {chest_pain: {accuracy: diagnostics, f1_macro: null}}     # a metric, and the category that it counts in
weights: {diagnostics: 0.4, safety: 0.3}
renormalize_missing: true
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

from steelyard.errors import UsageError, printable


class Measure(NamedTuple):
    """One metric of one task; the category is empty where it counts in none."""

    task: str
    metric: str
    category: str = ""


@dataclass(frozen=True)
class Plan:
    """The measures of a benchmark, and the weights of their categories."""

    measures: tuple[Measure, ...]
    weights: tuple[tuple[str, float], ...] = ()
    renormalize_missing: bool = True

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, in their order."""
        return tuple(dict.fromkeys(each.task for each in self.measures))

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories that a metric of some task counts in: weighed ones first, in the order of their weights."""
        met = dict.fromkeys(each.category for each in self.measures if each.category)
        return (*(name for name, _ in self.weights if name in met), *(n for n in met if n not in dict(self.weights)))

    @classmethod
    def of(cls, document: Any, *, source: str) -> Plan | None:
        """The plan that a mapping states, checked."""
        if document is None or isinstance(document, Plan):
            return document
        where = f"{printable(source)}: benchmark"
        if not isinstance(document, Mapping) or not isinstance(document.get("tasks"), Mapping):
            raise UsageError(f"{where} is a mapping with tasks and weights")
        measures = []
        for task, metrics in document["tasks"].items():
            if not isinstance(metrics, Mapping) or not all(isinstance(c, str | None) for c in metrics.values()):
                raise UsageError(f"{where}: tasks is a mapping from each task to its metrics with their categories")
            measures += [Measure(str(task), str(metric), category or "") for metric, category in metrics.items()]
        weights = document.get("weights") or {}
        if not isinstance(weights, Mapping) or not all(_is_weight(weight) for weight in weights.values()):
            raise UsageError(f"{where}: weights is a mapping from categories to numbers, at least 0")
        pairs = tuple((str(name), float(weight)) for name, weight in weights.items())
        return cls(tuple(measures), pairs, bool(document.get("renormalize_missing", True)))

    def to_dict(self) -> dict[str, Any]:
        """The plan as a mapping that `of` reads."""
        tasks: dict[str, dict[str, str | None]] = {task: {} for task in self.tasks}
        for task, metric, category in self.measures:
            tasks[task][metric] = category or None
        return {"tasks": tasks, "weights": dict(self.weights), "renormalize_missing": self.renormalize_missing}


def _is_weight(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0
