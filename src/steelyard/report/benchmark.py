"""A benchmark for people: the combined score first, with its weights; then categories, tasks and every metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from steelyard.errors import counted
from steelyard.metrics.categories import CategoryMap
from steelyard.report.document import (
    Count,
    Document,
    Heading,
    Note,
    Row,
    Table,
    interval_text,
    number,
)
from steelyard.report.evaluation import population
from steelyard.report.formats.csv import safe
from steelyard.report.rows import (
    DELTA_DROPS,
    ESTIMATE_DROPS,
    delta_columns,
    delta_row,
    estimate_columns,
    estimate_row,
    in_families,
    known,
    level_name,
    measured,
    sliced,
)
from steelyard.study.benchmark import Benchmark, rename
from steelyard.study.benchmark_report import BenchmarkReport
from steelyard.uncertainty.number import Estimate
from steelyard.uncertainty.wire import delta_document


def benchmark_report(result: Benchmark) -> Document:
    """The report of a benchmark."""
    report, how = result.report, result.how
    overall = [e for e in result.evaluation if not e.slice]
    best = next(e for e in overall if result.shown_name(e) == how.name)
    interval = f" {interval_text(best.interval)}" if best.interval is not None else ""
    clusters = f"{counted(result.evaluation.clusters, 'cluster')} ({', '.join(result.evaluation.cluster)})"
    document: Document = [
        Heading(f"{how.name} {number(best.value)}{interval}"),
        Note(f"weights: {weights_text(how.weights)}; {_missing(how.renormalize_missing)}"),
        Note(
            f"{report.model_id} on {result.suite.name}: {counted(len(result.suite.tasks), 'task')}, "
            f"{population(result.evaluation.population)}; {clusters}"
        ),
        *_overall(result, overall),
        *_tasks(result),
    ]
    if result.comparison is not None:
        document += _compared(result)
    parts = [e for e in result.evaluation if e.slice]
    document += [Heading("in parts"), *_listed(result, parts)] if parts else []
    document += [Note(f"warning: {w}") for w in result.warnings]
    of_both = () if result.comparison is None else result.comparison.warnings
    return document + [Note(f"warning: {result.baseline}: {w}") for w in of_both if w not in result.warnings]


def weights_text(weights: Mapping[str, float]) -> str:
    """The weights of categories, as people read them."""
    return ", ".join(f"{name} {weight:g}" for name, weight in weights.items())


def _missing(renormalized: bool) -> str:
    return (
        "where a task lacks a category, the others share its weight"
        if renormalized
        else "a category that a task lacks adds 0"
    )


def _listed(result: Benchmark, estimates: Sequence[Estimate]) -> Document:
    shown = [replace(e, metric=result.shown_name(e)) for e in estimates]
    return sliced(estimate_columns(result.evaluation.settings.level), shown, estimate_row, drops=ESTIMATE_DROPS)


def _overall(result: Benchmark, overall: Sequence[Estimate]) -> Document:
    if len(result.suite.tasks) == 1:
        return [Heading("overall"), *_listed(result, [e for e in overall if not _is_mean(e)])]
    return [Heading("overall: means over tasks"), *_listed(result, overall)]


def _is_mean(e: Estimate) -> bool:
    return e.metric.startswith("task_mean(")


def _tasks(result: Benchmark) -> Document:
    """One line per task: its primary metric and its combined score."""
    if len(result.suite.tasks) == 1:
        return []
    level = level_name(result.evaluation.settings.level)
    by_task: dict[str, dict[str, Estimate]] = {task.name: {} for task in result.suite.tasks}
    for e in result.evaluation:
        if set(e.slice) == {"task"}:
            by_task[str(e.slice["task"])][result.shown_name(e)] = e
    rows: list[Row] = []
    for task in result.suite.tasks:
        primary, combined = (by_task[task.name].get(name) for name in (task.primary, result.how.name))
        rows.append(
            (
                task.name,
                task.spec.type,
                task.primary,
                *_cells(primary),
                *_cells(combined),
                Count(0 if primary is None else primary.n),
                Count(result.missing.get(task.name, 0)),
            )
        )
    columns = ("task", "type", "primary", "value", level, result.how.name, level, "n", "unanswered")
    return [Heading("tasks"), Table(columns, tuple(rows))]


def _cells(e: Estimate | None) -> Row:
    return measured(None, None) if e is None else measured(e.value, e.interval)


def _compared(result: Benchmark) -> Document:
    assert result.comparison is not None
    comparison = rename(result.comparison, result.how.name)
    columns = delta_columns(comparison.settings.level)
    return [
        Heading(f"{result.report.model_id} against {result.baseline}"),
        *in_families(comparison.deltas, lambda deltas: sliced(columns, deltas, delta_row, drops=DELTA_DROPS)),
    ]


# -- categories --------------------------------------------------------------------------------------------------------


def categories_report(categories: CategoryMap, weights: Mapping[str, float]) -> Document:
    """The map from metrics to categories, and what the categories weigh."""
    rows = [(name, known(weights.get(name)), ", ".join(categories.members(name))) for name in categories.names]
    return [
        Table(("category", "weight", "metrics"), tuple(rows)),
        Note("A category's own name is a metric of it. Metrics that are not listed are reported, and not combined."),
    ]


# -- tables ------------------------------------------------------------------------------------------------------------


def benchmark_tables(result: Benchmark) -> dict[str, str]:
    """A benchmark as tables in CSV: those of its report, and the comparison with its baseline."""
    tables = report_tables(result.report)
    if result.comparison is None:
        return tables
    deltas = map(delta_document, rename(result.comparison, result.how.name).deltas)
    rows = [
        [
            delta["metric"],
            " ".join(f"{name}={value}" for name, value in delta["slice"].items()),
            *("" if delta[key] is None else delta[key] for key in ("base", "new", "delta")),
            *(delta["interval"] or ("", "")),
            delta["verdict"],
        ]
        for delta in deltas
    ]
    columns = ["metric", "slice", "baseline", "model", "delta", "low", "high", "verdict"]
    return {**tables, "comparison.csv": _csv(columns, rows)}


def report_tables(report: BenchmarkReport) -> dict[str, str]:
    """A report as tables in CSV, by the name of their file."""
    intervals = report.metadata.get("intervals", {})
    names = list(dict.fromkeys(name for scores in report.task_scores.values() for name in scores))
    overall = intervals.get("overall", {})
    scored = list(dict.fromkeys(name for each in report.detailed_results for name in each["scores"]))
    about = [key for key in ("item", "outcome") if any(key in each for each in report.detailed_results)]
    combined = report.metadata.get("combined", {})
    return {
        "overall_scores.csv": _csv(
            ["metric", "value", "low", "high"],
            [[name, value, *overall.get(name, ["", ""])] for name, value in report.overall_scores.items()],
        ),
        "task_scores.csv": _csv(
            ["task", "metric", "value", "low", "high"],
            [
                [task, name, scores[name], *intervals.get("tasks", {}).get(task, {}).get(name, ["", ""])]
                for task, scores in report.task_scores.items()
                for name in names
                if name in scores
            ],
        ),
        "detailed_results.csv": _csv(
            ["task", *about, *scored],
            [
                [each["task_id"], *(each.get(key, "") for key in about), *(each["scores"].get(n, "") for n in scored)]
                for each in report.detailed_results
            ],
        ),
        "weights.csv": _csv(
            ["combined", "category", "weight"],
            [[name, *pair] for name, how in combined.items() for pair in how["weights"].items()],
        ),
    }


def _csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([safe(str(cell)) for cell in row] for row in ([*columns], *rows))
    return buffer.getvalue()
