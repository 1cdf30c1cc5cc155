"""A benchmark's report: the scores of one model, task by task and overall, with its categories and combined score.

Results are added one by one or as whole tasks. A task's score is the mean of its results, the overall score the mean of
the tasks that have it. Nothing here holds a text that a model wrote or was asked.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np

from steelyard.errors import UsageError, printable
from steelyard.metrics.categories import COMBINED, CategoryMap, checked_name, checked_weights, combined_of, mean_of

SCHEMA_VERSION = "1"

Scores = dict[str, float]


@dataclass(kw_only=True)
class BenchmarkReport:
    """What a benchmark says of one model.

    `task_scores[task][metric]` and `overall_scores[metric]` hold numbers that are defined; the document holds null for
    the others. `detailed_results` are the results that were added: scores, counts and parts of scores, never texts.

    >>> report = BenchmarkReport(model_id="m1", task_scores={"notes": {"accuracy": 0.5}})
    >>> report.task_scores["notes"]["accuracy"]
    0.5
    """

    model_id: str
    task_scores: dict[str, Scores] = field(default_factory=dict)
    overall_scores: Scores = field(default_factory=dict)
    detailed_results: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    timestamp: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    schema_version: str = SCHEMA_VERSION
    _measured: dict[str, Scores] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.model_id:
            raise UsageError("a report is of one model: model_id is its name")
        self.task_scores = {str(task): _numbers(scores) for task, scores in self.task_scores.items()}
        self._measured = {task: self._without_made(scores) for task, scores in self.task_scores.items()}
        self._average()

    def add(
        self,
        task: str,
        scores: Mapping[str, float | None],
        *,
        model_id: str | None = None,
        breakdown: Mapping[str, object] | None = None,
        **about: object,
    ) -> Self:
        """Add one result of a task: its scores, and what they are made of. Another model's result is refused.

        >>> report = BenchmarkReport(model_id="m1")
        >>> report.add("notes", {"accuracy": 1.0}).add("notes", {"accuracy": 0.0}).task_scores
        {'notes': {'accuracy': 0.5}}
        """
        self.check_model(model_id)
        result: dict[str, Any] = {"task_id": task, **about, "scores": _numbers(scores)}
        if breakdown is not None:
            result["breakdown"] = dict(breakdown)
        self.detailed_results.append(result)
        mine = [each for each in self.detailed_results if each["task_id"] == task and "scores" in each]
        names = dict.fromkeys(name for each in mine for name in each["scores"])
        self._measured[task] = {name: _mean_of_rows(mine, name) for name in names}
        self._made_again()
        return self

    def with_scores(self, tasks: Mapping[str, Mapping[str, float | None]], overall: Mapping[str, float | None]) -> Self:
        """The report with the scores of an evaluation, which measured categories and combined scores itself."""
        self.task_scores = {task: _numbers(scores) for task, scores in tasks.items()}
        self._measured = {task: self._without_made(scores) for task, scores in self.task_scores.items()}
        self.overall_scores = _numbers(overall)
        return self

    def check_model(self, model_id: str | None) -> None:
        """Refuse what is another model's."""
        if model_id is not None and model_id != self.model_id:
            raise UsageError(f"this is the report of '{printable(self.model_id)}'; make another one for another model")

    def merge(self, other: BenchmarkReport) -> Self:
        """Add the tasks of another report of the same model."""
        self.check_model(other.model_id)
        shared = set(self.task_scores) & set(other.task_scores)
        if shared:
            raise UsageError(f"both reports have the task '{printable(sorted(shared)[0])}'")
        self._measured |= other._measured
        self.detailed_results += other.detailed_results
        self._made_again()
        return self

    def add_category_scores(self, categories: CategoryMap | Mapping[str, str | None] | None = None) -> Self:
        """Add each task's categories: the mean of its metrics of each, by the map, or the usual map with these keys."""
        known = categories if isinstance(categories, CategoryMap) else CategoryMap().with_keys(categories or {})
        self.metadata["categories"] = {"names": list(known.names), "keys": dict(known.keys)}
        for task, scores in self.task_scores.items():
            stated = self._measured[task]
            by_key = {name.lower(): (name, value) for name, value in stated.items()}  # the last of equal keys counts
            for category in known.names:
                mine = [value for name, value in by_key.values() if known.of(name) == category]
                if mine:
                    scores[category] = sum(mine) / len(mine)
        self._average()
        return self

    def add_combined_score(
        self,
        weights: Mapping[str, float],
        metric_name: str = COMBINED,
        renormalize_missing: bool = True,
    ) -> Self:
        """Add the weighted mean of each task's categories, and overall the mean of the tasks that have it.

        >>> report = BenchmarkReport(model_id="m1", task_scores={"notes": {"safety": 1.0, "diagnostics": 0.5}})
        >>> report.add_combined_score({"safety": 0.25, "diagnostics": 0.75}).overall_scores["combined_score"]
        0.625
        """
        known = [*CategoryMap().names, *self.metadata.get("categories", {}).get("names", ())]
        scored = [name for scores in self.task_scores.values() for name in scores]
        checked = checked_weights(weights, [*known, *scored])
        self._check_name(checked_name(metric_name, "the combined score's name"))
        combined = self.metadata.setdefault("combined", {})
        combined[metric_name] = {"weights": checked, "renormalize_missing": bool(renormalize_missing)}
        for scores in self.task_scores.values():
            scores.pop(metric_name, None)
            categories = {name: np.array([value]) for name, value in scores.items()}
            value = combined_of(categories, checked, 1, renormalize_missing=renormalize_missing)[0]
            if not math.isnan(value):
                scores[metric_name] = float(value)
        self._average()
        return self

    def summary(self) -> dict[str, dict[str, float]]:
        """Of every metric: in how many tasks it is, its mean, and its smallest and largest value."""
        by_name: dict[str, list[float]] = {}
        for scores in self.task_scores.values():
            for name, value in scores.items():
                by_name.setdefault(name, []).append(value)
        return {
            name: {"count": float(len(v)), "mean": _mean(v), "min": min(v), "max": max(v)}
            for name, v in by_name.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the document that `save` writes."""
        from steelyard.study.benchmark_wire import report_document

        return report_document(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON; what was there stays whole until all of it is written.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     BenchmarkReport(model_id="m1").save(f"{folder}/report.json")
        ...     BenchmarkReport.load(f"{folder}/report.json").model_id
        'm1'
        """
        from steelyard.study.benchmark_wire import save_report

        save_report(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BenchmarkReport:
        """The report in a file that `save` wrote."""
        from steelyard.study.benchmark_wire import load_report

        return load_report(path)

    @property
    def combined_names(self) -> tuple[str, ...]:
        """The names of the combined scores."""
        return tuple(self.metadata.get("combined", {}))

    @property
    def undefined(self) -> dict[str, dict[str, str]]:
        """Why scores have no value, by task and name; overall ones stand under the empty text."""
        return self.metadata.get("undefined", {})

    @property
    def _made(self) -> set[str]:
        """The names of scores that are made of others."""
        return {*self.combined_names, *self.metadata.get("categories", {}).get("names", ())}

    def _without_made(self, scores: Scores) -> Scores:
        return {name: value for name, value in scores.items() if name not in self._made}

    def _made_again(self) -> None:
        """Categories and combined scores as they follow from what was measured up to now."""
        self.task_scores = {task: dict(scores) for task, scores in self._measured.items()}
        self._average()
        categories = self.metadata.get("categories")
        if categories is not None:
            self.add_category_scores(CategoryMap(categories["keys"], tuple(categories["names"])))
        for name, how in dict(self.metadata.get("combined", {})).items():
            self.add_combined_score(how["weights"], name, how["renormalize_missing"])

    def _check_name(self, name: str) -> None:
        """Refuse a name that a metric or a category has."""
        taken = {key for scores in self._measured.values() for key in scores} | set(CategoryMap().names)
        if name in taken:
            raise UsageError(f"'{printable(name)}' is the name of another score; call the combined score otherwise")

    def _average(self) -> None:
        names = dict.fromkeys(name for scores in self.task_scores.values() for name in scores)
        self.overall_scores = {name: _mean([s[name] for s in self.task_scores.values() if name in s]) for name in names}


def _numbers(scores: Mapping[str, Any]) -> Scores:
    """Scores that are defined; anything that is no number is refused."""
    numbers: Scores = {}
    for name, value in scores.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise UsageError(f"the score '{printable(name)}' is no number")
        if not math.isnan(value):
            if math.isinf(value):
                raise UsageError(f"the score '{printable(name)}' is not finite")
            numbers[str(name)] = float(value)
    return numbers


def _mean(values: list[float]) -> float:
    return float(mean_of([np.array([value]) for value in values], 1)[0])


def _mean_of_rows(results: Sequence[Mapping[str, Any]], name: str) -> float:
    """The mean of a score over results, weighted where their breakdowns say how much each of them weighs."""
    rows = [each for each in results if name in each["scores"]]
    weights = [_weight(each, name) for each in rows]
    return math.fsum(w * each["scores"][name] for w, each in zip(weights, rows, strict=True)) / math.fsum(weights)


def _weight(result: Mapping[str, Any], name: str) -> float:
    try:
        weight = result["breakdown"][name]["components"]["weight"]
    except (KeyError, TypeError):
        return 1.0
    return float(weight) if isinstance(weight, int | float) and 0 < weight < math.inf else 1.0
