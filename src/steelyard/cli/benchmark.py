"""`steelyard benchmark`: a suite of tasks, categories and one combined score."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.command import READS, Shown, command
from steelyard.cli.options import records as of
from steelyard.cli.options import store
from steelyard.cli.options.uncertainty import Intervals
from steelyard.cli.progress import progress
from steelyard.errors import UsageError, printable
from steelyard.ground.commas import pair_of, split_commas
from steelyard.naming import number_in

TABLES = "benchmark-tables"  # the folder of what is CSV


@command(writes="benchmark.json")
def benchmark(
    *,
    suite: Annotated[
        str | None, typer.Argument(help="A suite file, or the name of a suite that comes with the program."), READS
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Argument(help="A model's answers: a folder with one file per task, or one file with a column task."),
        READS,
    ] = None,
    baseline: Annotated[Path | None, typer.Argument(help="Another model's answers, to compare with."), READS] = None,
    combined_weights: Annotated[
        str | None, typer.Option("--combined-weights", help="Weights of categories: diagnostics=0.6,safety=0.4.")
    ] = None,
    combined_name: Annotated[
        str | None, typer.Option("--combined-name", help="What the combined score is called. Default: combined_score.")
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option("--category", help="Where metrics count: f1_macro=diagnostics,accuracy=none. Repeatable."),
    ] = None,
    no_renormalize: Annotated[
        bool,
        typer.Option("--no-renormalize", help="A category that a task lacks adds 0 instead of leaving its weight."),
    ] = False,
    categories: Annotated[bool, typer.Option("--categories", help="Print which metric counts where, and end.")] = False,
    model_id: Annotated[
        str | None, typer.Option("--model-id", help="The model's name. Default: as the answers say, else their folder.")
    ] = None,
    task: Annotated[list[str] | None, typer.Option("--task", help="Only this task of the suite. Repeatable.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Keep with each score which words matched or were missed: patient data.")
    ] = False,
    by: of.By = None,
    reading: of.SuiteReading,
    uncertainty: Intervals,
    plot: Annotated[Path | None, typer.Option("--plot", help="A folder for pictures as PNG, SVG and PDF.")] = None,
    keeping: store.Keeping,
    place: store.Place,
) -> Shown:
    """Measure a model in every task of a suite: scores by task, categories, and one combined score with its interval.

    `steelyard gate --run ID --rule "low(combined_score) >= 0.7"` judges a run that was kept with --save.
    """
    from steelyard.metrics.categories import WEIGHTS, CategoryMap, checked_weights
    from steelyard.report.benchmark import benchmark_report, benchmark_tables, categories_report
    from steelyard.study.benchmark import benchmark as measured
    from steelyard.study.benchmark_wire import benchmark_document, categories_document
    from steelyard.study.suite import load_suite

    weights = None if combined_weights is None else _weights(combined_weights)
    moved = _moved(category)
    loaded = None if suite is None else load_suite(suite)
    if categories:
        if loaded is None:
            known = CategoryMap().with_keys(CategoryMap().checked(moved, weights or ()))
            weighed = dict(WEIGHTS) if weights is None else checked_weights(weights, known.names)
        else:
            how = loaded.combining(weights=weights, categories=moved)
            known, weighed = how.categories, dict(how.weights)
        return Shown(document=categories_document(known, weighed), report=categories_report(known, weighed))
    if loaded is None:
        raise UsageError("name a suite: a file, or one that comes with the program")
    if answers is None:
        raise UsageError("name a model's answers after the suite: a folder with one file per task, or one file")
    from steelyard.runs.saved import COMBINED_NAME

    kept = keeping.request(place, "benchmark")
    with progress("resampling") as bar:
        result = measured(
            loaded,
            answers,
            baseline=baseline,
            weights=weights,
            combined_name=combined_name,
            categories=moved,
            renormalize_missing=False if no_renormalize else None,
            model_id=model_id,
            tasks=task or (),
            by=by or (),
            settings=uncertainty.settings,
            keep_evidence=keeping.wanted,
            explain=explain,
            progress=bar,
            **reading.stated,
        )
    document = benchmark_document(result)
    if kept is not None:
        about = {"model": result.report.model_id, "suite": loaded.name, COMBINED_NAME: result.how.name}
        kept.keep(store.Measured(evaluation=result.evaluation, records=result.records, labels=about))
    files = {}
    if plot is not None:
        from steelyard.cli.options.pictures import picture_files
        from steelyard.report.figures.benchmark import task_figure

        files["--plot"] = picture_files([task_figure(result)], plot)
    return Shown(
        document=document,
        report=lambda: benchmark_report(result),
        tables=lambda path: {path.parent / TABLES / name: text for name, text in benchmark_tables(result).items()},
        files=files,
        reads=(loaded.source, *(task.data for task in loaded.tasks)),
    )


def _weights(text: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for part in split_commas(text):
        pair = pair_of(part)
        if pair is None:
            raise UsageError("--combined-weights takes pairs such as diagnostics=0.6,safety=0.4")
        name, value = pair
        try:
            weight = number_in(value)
        except ValueError:
            raise UsageError(f"--combined-weights: the weight of '{printable(name)}' is no number") from None
        if name in weights:
            raise UsageError(f"--combined-weights: '{printable(name)}' is given twice")
        weights[name] = weight
    return weights


def _moved(given: list[str] | None) -> dict[str, str | None]:
    """Metrics and the categories that they count in; `none` takes one out."""
    return {name: None if value == "none" else value for name, value in of.pairs(given, "category").items()}
