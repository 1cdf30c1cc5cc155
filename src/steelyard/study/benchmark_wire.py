"""The report of a benchmark as a document: written, read back and described here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from steelyard.errors import InputError, UsageError
from steelyard.ground.files import write_atomic
from steelyard.ground.json import dumps, plain, read_strict, refusal
from steelyard.ground.structs import refused
from steelyard.metrics.categories import CategoryMap
from steelyard.study.benchmark import Benchmark, rename
from steelyard.study.benchmark_report import BenchmarkReport
from steelyard.study.primary import family_text
from steelyard.uncertainty.wire import delta_document


class DetailedResult(msgspec.Struct, forbid_unknown_fields=False):
    """One result: the scores of one answer or of one task, and what they are made of."""

    task_id: str
    scores: dict[str, float | None]
    breakdown: dict[str, Any] = {}


class ReportFile(msgspec.Struct):
    """A benchmark's report: the scores of one model, task by task and overall. A score that is not defined is null.

    `metadata` holds the weights of each combined score under `combined`, the map of categories under `categories`, and
    under `intervals` the intervals of the scores, where rows were resampled.
    """

    schema_version: str
    model_id: str
    timestamp: str
    overall_scores: dict[str, float | None]
    task_scores: dict[str, dict[str, float | None]]
    detailed_results: list[DetailedResult]
    metadata: dict[str, Any]


def report_document(report: BenchmarkReport) -> dict[str, Any]:
    """The document of a report."""
    wanted = {task: (*report.undefined.get(task, ()), *report.combined_names) for task in report.task_scores}
    return {
        "schema_version": report.schema_version,
        "model_id": report.model_id,
        "timestamp": report.timestamp,
        "overall_scores": _with_nulls(report.overall_scores, (*report.undefined.get("", ()), *report.combined_names)),
        "task_scores": {task: _with_nulls(s, wanted[task]) for task, s in report.task_scores.items()},
        "detailed_results": plain(report.detailed_results),
        "metadata": plain(report.metadata),
    }


def benchmark_document(result: Benchmark) -> dict[str, Any]:
    """The report of a benchmark, with the deltas against its baseline where there is one."""
    document = report_document(result.report)
    if result.comparison is not None:
        named = rename(result.comparison, result.how.name)
        deltas = [delta_document(delta) for delta in named.deltas]
        family = family_text(named.deltas)
        document["metadata"]["comparison"] = {"baseline": result.baseline, "deltas": deltas, "family": family}
    return document


def categories_document(categories: CategoryMap, weights: Mapping[str, float]) -> dict[str, Any]:
    """The map from metrics to categories, and what the categories weigh."""
    members = {name: categories.members(name) for name in categories.names}
    return {"categories": members, "weights": dict(weights)}


def _with_nulls(scores: dict[str, float], names: tuple[str, ...]) -> dict[str, float | None]:
    return {**scores, **{name: None for name in names if name not in scores}}


def save_report(report: BenchmarkReport, path: str | os.PathLike[str]) -> None:
    """Write a report's document."""
    write_atomic(Path(path), dumps(report_document(report)))


def load_report(path: str | os.PathLike[str]) -> BenchmarkReport:
    """The report that a file holds."""
    name = os.fspath(path)
    document = read_strict(name)[0]
    future = refusal(document)
    if future:
        raise InputError(future, file=name, field="schema_version")
    try:
        file = msgspec.convert(document, ReportFile)
    except msgspec.ValidationError as problem:
        raise refused(problem, name) from None
    try:
        return read_report(file, document)
    except UsageError as problem:
        raise InputError(str(problem), file=name) from None


def read_report(file: ReportFile, document: dict[str, Any]) -> BenchmarkReport:
    """The report of a document that is as it must be."""
    report = BenchmarkReport(
        model_id=file.model_id,
        timestamp=file.timestamp,
        schema_version=file.schema_version,
        metadata=file.metadata,
        detailed_results=document["detailed_results"],
        task_scores={task: {k: v for k, v in s.items() if v is not None} for task, s in file.task_scores.items()},
    )
    report.overall_scores = {k: v for k, v in file.overall_scores.items() if v is not None}
    return report
