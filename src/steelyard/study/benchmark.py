"""benchmark(): a suite × a model's answers → every task's scores, categories and one combined score, with intervals.

    result = benchmark("suite.yaml", "answers/", weights={"diagnostics": 0.6, "safety": 0.4})
    result.report.overall_scores["combined_score"]
    result.evaluation["combined_score"].interval

Each metric is evaluated in each of its tasks; what is over all tasks is a composition of the same evidence, resampled
within tasks. Against a baseline's answers there are paired deltas.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steelyard.errors import counted
from steelyard.ground.arrays import Progress
from steelyard.metrics.by_task import lacks_column, rows_of
from steelyard.metrics.categories import COMBINED
from steelyard.metrics.collector import side_of
from steelyard.metrics.definition import Metric
from steelyard.metrics.questions.benchmark import category, combined_score, task_mean
from steelyard.records.cautions import Caution
from steelyard.records.conditions import Conditions
from steelyard.records.table import Records
from steelyard.study.answers import Answers, joined_answers
from steelyard.study.benchmark_report import BenchmarkReport
from steelyard.study.cells import slices
from steelyard.study.evaluation import listed
from steelyard.study.measure import ComparedSlice, MeasuredSlice, compared, measured, origin_of
from steelyard.study.primary import Question, decided_by
from steelyard.study.results import Comparison, Evaluation
from steelyard.study.row_pairs import UnmatchedRows, paired_slices
from steelyard.study.scored_rows import scored_rows
from steelyard.study.suite import Combining, Suite, SuiteTask, load_suite
from steelyard.uncertainty.number import Delta, Estimate
from steelyard.uncertainty.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What a benchmark came to: the report of a model, every estimate, and the deltas against a baseline if any."""

    suite: Suite
    how: Combining
    report: BenchmarkReport
    evaluation: Evaluation
    records: Records
    missing: Mapping[str, int]  # cases without an answer, by task
    baseline: str | None = None
    comparison: Comparison | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must be said with every number."""
        return self.evaluation.warnings

    def shown_name(self, estimate: Estimate | Delta) -> str:
        """What an estimate or a delta is called in reports: the metric, the category, or the combined score's name."""
        return shown_name(estimate, self.how.name)


def benchmark(
    suite: Suite | str | os.PathLike[str],
    answers: str | os.PathLike[str],
    *,
    baseline: str | os.PathLike[str] | None = None,
    weights: Mapping[str, float] | None = None,
    combined_name: str | None = None,
    categories: Mapping[str, str | None] | None = None,
    renormalize_missing: bool | None = None,
    model_id: str | None = None,
    tasks: Sequence[str] | str = (),
    by: Sequence[str] | str = (),
    lexicon: Sequence[str] | str = (),
    map: Mapping[str, str] | None = None,
    where: Conditions | None = None,
    settings: Settings | None = None,
    keep_evidence: bool = False,
    explain: bool = False,
    progress: Progress | None = None,
) -> Benchmark:
    """Measure a model's answers to a suite.

    suite       a file, or the name of a suite that comes with the program
    answers     a folder with one file per task, named after it, or one file with a column `task`; each row has the id
                of its case and a `prediction`. A case without an answer counts as failed
    baseline    another model's answers, against which paired deltas are taken
    weights     of the categories; by default as the suite says
    categories  further keys of the category map, or other categories for known ones; None takes a metric out
    tasks       those to measure; by default all
    by          columns: everything over all tasks also for each of their values
    lexicon     tables of clinical terms that metrics of texts know besides their own and the suite's
    map         columns of the answers under other names: {"item": "case_id", "prediction": "reply"}
    where       conditions for the answers to be read, such as "model=m1"; a case whose answer is not read has none
    explain     keep with each score of a text what matched, was missed and was extra: words of the texts
    """
    settings = settings or Settings()
    whole = suite if isinstance(suite, Suite) else load_suite(suite)
    loaded = whole.only(listed(tasks))
    how = loaded.combining(
        weights=weights, name=combined_name, categories=categories, renormalize_missing=renormalize_missing
    )
    plan = loaded.plan(how)
    terms = listed(lexicon)
    read: dict[str, Any] = {"lexicon": terms, "map": map, "where": where}
    given = joined_answers(loaded, answers, plan, model_id=model_id, **read)
    base = None if baseline is None else joined_answers(loaded, baseline, plan, **read)
    told = (lambda share: progress(share / 2)) if progress is not None and base is not None else progress
    evaluation, lacking = _evaluated(loaded, given, listed(by), settings, keep_evidence=keep_evidence, progress=told)
    if len(loaded.tasks) < len(whole.tasks):
        part = f"{len(loaded.tasks)} of the {counted(len(whole.tasks), 'task')} of the suite was measured"
        evaluation = replace(evaluation, cautions=(*evaluation.cautions, Caution("excerpt", part)))
    comparison = None if base is None else _compared(loaded, how, base, given, settings)
    return Benchmark(
        suite=loaded,
        how=how,
        report=_report(loaded, how, given, evaluation, lacking, with_words=explain),
        evaluation=evaluation,
        records=given.records,
        missing=given.missing,
        baseline=None if base is None else base.model,
        comparison=comparison,
    )


def shown_name(number: Estimate | Delta, combined: str = COMBINED) -> str:
    """What a number of a benchmark is called: over tasks, a metric has its own name."""
    metric = number.of
    if metric is None:
        return number.metric
    if metric.definition is combined_score:
        return combined
    if metric.definition is category:
        return str(metric.label)
    return metric.values["base"].name if metric.definition is task_mean else metric.name


# -- one model ---------------------------------------------------------------------------------------------------------


def _evaluated(
    suite: Suite,
    given: Answers,
    by: Sequence[str],
    settings: Settings,
    *,
    keep_evidence: bool,
    progress: Progress | None,
) -> tuple[Evaluation, dict[str, dict[str, str]]]:
    """Every estimate, and why metrics of a task could not be computed."""
    records = given.records
    parts: list[tuple[dict[str, Any], Records, list[Metric]]] = []
    lacking: dict[str, dict[str, str]] = {}
    overall = _overall(suite, records)
    for task in suite.tasks:
        table = records.take(rows_of(records, task.name))
        own, absent = _computable(task, table)
        if absent:
            lacking[task.name] = absent
        more = overall if len(suite.tasks) == 1 else _of_task(task, records)
        parts.append(({} if len(suite.tasks) == 1 else {"task": task.name}, table, [*own, *more]))
    if len(suite.tasks) > 1:
        parts.insert(0, ({}, records, overall))
    parts += [(s, table, overall) for s, table in slices(records, by, ("task",)) if s]
    evaluation = measured(
        [
            MeasuredSlice(slice=slice_, side=side_of(table), metrics=list(dict.fromkeys(metrics)), records=table)
            for slice_, table, metrics in parts
        ],
        origin_of(records, [metric for task in suite.tasks for metric in task.metrics]),
        settings,
        remarks=given.warnings,
        keep_evidence=keep_evidence,
        progress=progress,
    )
    return evaluation, lacking


def _overall(suite: Suite, records: Records) -> list[Metric]:
    """What is over all tasks: the combined score, the categories, and every metric averaged over its tasks."""
    each = dict.fromkeys(metric for task in suite.tasks for metric in task.metrics)
    return [*_combined(records), *(task_mean(metric) for metric in each)]


def _deciding(suite: Suite, how: Combining, records: Records, parts: Sequence[ComparedSlice]) -> list[Question]:
    """What the suite says decides, as it is measured here; what a part of the suite does not have is left out.

    A suite of one task has no slice of it, and the one category of a task is compared as its combined score.
    """
    known = {task.name: _of_task(task, records) for task in suite.tasks}
    found = []
    for question in suite.deciding(how):
        own = known.get(question.slice.get("task", ""), [])
        is_alone = len(own) == 2 and question.metric in own
        metric = combined_score() if is_alone and len(suite.tasks) > 1 else question.metric
        asked = Question(metric, question.slice if len(suite.tasks) > 1 else {})
        elsewhere = question.slice and not own
        if not elsewhere and any(metric in part.metrics for part in parts if part.slice == asked.slice):
            found.append(asked)
        elif len(suite.tasks) == len(suite.spec.tasks):
            found.append(asked)  # a category that no task has is refused
    return found


def _combined(records: Records) -> list[Metric]:
    """The combined score and the categories."""
    plan = records.task.benchmark
    assert plan is not None
    return [combined_score(), *(category(label=name) for name in plan.categories)]


def _of_task(task: SuiteTask, records: Records) -> list[Metric]:
    """What a task has beyond its metrics: its categories, and its combined score."""
    plan = records.task.benchmark
    assert plan is not None
    met = dict.fromkeys(each.category for each in plan.measures if each.task == task.name and each.category)
    categories = [category(label=name) for name in plan.categories if name in met]
    weighed = any(dict(plan.weights).get(name, 0) > 0 for name in met)
    return [*categories, *([combined_score()] if weighed else [])]


def _computable(task: SuiteTask, table: Records) -> tuple[list[Metric], dict[str, str]]:
    """The metrics of a task whose columns are there, and what the others lack."""
    own, absent = [], {}
    for metric in task.metrics:
        column = lacks_column(metric, table)
        if column is None:
            own.append(metric)
        else:
            absent[metric.name] = f"undefined: the answers have no column '{column}'"
    return own, absent


# -- two models --------------------------------------------------------------------------------------------------------


def _compared(suite: Suite, how: Combining, base: Answers, new: Answers, settings: Settings) -> Comparison:
    """Paired deltas over all tasks and in each of them; what the suite says decides, else the combined score alone."""
    tables = base.records, new.records
    pairing: dict[str, Any] = {"by": (), "versus": ("model",), "align": "strict", "unmatched": UnmatchedRows()}
    parts = [
        ComparedSlice(slice=slice_, pair=pair, metrics=_combined(new.records))
        for slice_, pair in paired_slices(*tables, pool=("task",), **pairing)
    ]
    if len(suite.tasks) > 1:
        known = {task.name: task for task in suite.tasks}
        for slice_, pair in paired_slices(*tables, pool=(), **pairing):
            own = _of_task(known[str(slice_["task"])], new.records)
            different = own[-1:] if len(own) == 2 else own  # of one category, the combined score is that category
            parts.append(ComparedSlice(slice=slice_, pair=pair, metrics=different, is_asked=False))
    asked = [metric for task in suite.tasks for metric in task.metrics]
    return compared(
        decided_by(parts, _deciding(suite, how, new.records, parts), combined_score()),
        origin_of(base.records, asked, paired=True),
        origin_of(new.records, asked, paired=True),
        settings,
        remarks=(*base.warnings, *new.warnings),
    )


# -- the report --------------------------------------------------------------------------------------------------------


def _report(
    suite: Suite,
    how: Combining,
    given: Answers,
    evaluation: Evaluation,
    lacking: Mapping[str, Mapping[str, str]],
    *,
    with_words: bool,
) -> BenchmarkReport:
    """The report of an evaluation: values where they are defined, reasons where they are not, intervals of both."""
    tasks: dict[str, dict[str, Estimate]] = {task.name: {} for task in suite.tasks}
    overall: dict[str, Estimate] = {}
    for e in evaluation:
        name = shown_name(e, how.name)
        if set(e.slice) - {"task"}:
            continue
        if "task" in e.slice:
            tasks[str(e.slice["task"])][name] = e
        elif e.of is not None and not e.of.over_tasks:
            tasks[suite.tasks[0].name][name] = e  # of a suite with one task
        else:
            overall[name] = e
            if len(suite.tasks) == 1:
                tasks[suite.tasks[0].name].setdefault(name, e)
    undefined = {task: {n: e.note for n, e in named.items() if e.value is None} for task, named in tasks.items()}
    undefined = {task: {**notes, **lacking.get(task, {})} for task, notes in undefined.items()}
    undefined[""] = {n: e.note for n, e in overall.items() if e.value is None}
    report = BenchmarkReport(
        model_id=given.model,
        metadata={
            "suite": {"name": suite.name, "version": suite.spec.version, "tasks": len(suite.tasks)},
            "combined": {
                how.name: {"weights": dict(how.weights), "renormalize_missing": how.renormalize_missing},
            },
            "categories": {"names": list(how.categories.names), "keys": dict(how.categories.keys)},
            "primary": {task.name: task.primary for task in suite.tasks},
            "types": {task.name: task.spec.type for task in suite.tasks},
            "population": dict(evaluation.population),
            "missing": dict(given.missing),
            "intervals": {
                "level": evaluation.settings.level,
                "overall": _intervals(overall),
                "tasks": {task: _intervals(named) for task, named in tasks.items()},
            },
            "undefined": {task: notes for task, notes in undefined.items() if notes},
            "warnings": list(evaluation.warnings),
        },
    )
    for task in suite.tasks:
        report.detailed_results += scored_rows(
            task, given.records.take(rows_of(given.records, task.name)), with_words=with_words
        )
    return report.with_scores(
        {task: {n: e.value for n, e in named.items()} for task, named in tasks.items()},
        {n: e.value for n, e in overall.items()},
    )


def _intervals(named: Mapping[str, Estimate]) -> dict[str, list[float]]:
    return {name: list(e.interval) for name, e in named.items() if e.interval is not None}


def rename(comparison: Comparison, combined: str) -> Comparison:
    """The comparison with metrics under the names of reports."""
    renamed = [replace(d, metric=shown_name(d, combined)) for d in comparison.deltas]
    return replace(comparison, deltas=tuple(renamed))
