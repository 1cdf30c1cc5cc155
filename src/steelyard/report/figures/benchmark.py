"""The figure of a benchmark: the combined score of every task with its interval, and over all of them."""

from __future__ import annotations

from steelyard.report.document import number, title_of
from steelyard.report.figures.figure import Figure, Level, Mark, Panel, Points, Whiskers
from steelyard.study.benchmark import Benchmark
from steelyard.uncertainty.number import Estimate


def task_figure(result: Benchmark) -> Figure:
    """The combined score of each task; a line shows what it is over all tasks."""
    combined = {str(e.slice.get("task", "")): e for e in result.evaluation if _is_combined(e)}
    whole = combined.get("")
    tasks = [task.name for task in result.suite.tasks if task.name in combined or len(result.suite.tasks) == 1]
    marks: list[Mark] = []
    if whole is not None and whole.value is not None:
        marks.append(Level("reference", whole.value))
    shown = [(place, e) for place, task in enumerate(tasks, 1) if (e := combined.get(task, whole)) is not None]
    spans = [(place, e.interval) for place, e in shown if e.interval is not None]
    if spans:
        label = f"{100 * result.evaluation.settings.level:g}% interval"
        x, low, high = [p for p, _ in spans], [ends[0] for _, ends in spans], [ends[1] for _, ends in spans]
        marks.append(Whiskers(series="whole", x=x, low=low, high=high, label=label))
    points = [(place, e.value) for place, e in shown if e.value is not None]
    marks.append(Points(series="whole", x=[p for p, _ in points], y=[v for _, v in points], label="one task"))
    panel = Panel(
        marks=tuple(marks),
        title=f"over all tasks {number(None if whole is None else whole.value)}",
        x_label="task, in the order of the suite",
        y_label=title_of(result.how.name),
        y_range=(0, 1),
        ticks=tuple((place, str(place)) for place in range(1, len(tasks) + 1)),
    )
    return Figure(
        name="benchmark-tasks",
        title=f"{title_of(result.how.name)} of {result.report.model_id} on {result.suite.name}",
        text="the combined score of each task, with its interval",
        panels=((panel,),),
    )


def _is_combined(e: Estimate) -> bool:
    return e.metric == "combined_score" and set(e.slice) <= {"task"}
