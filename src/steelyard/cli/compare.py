"""`steelyard compare`: two runs on the same questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli import completing
from steelyard.cli.command import READS, Shown, command
from steelyard.cli.options import records as of
from steelyard.cli.options import store
from steelyard.cli.options.uncertainty import Uncertainty
from steelyard.cli.progress import progress
from steelyard.errors import UsageError

if TYPE_CHECKING:
    from steelyard.study.results import Comparison


@command(writes="comparison.json")
def compare(
    *,
    files: Annotated[
        list[str],
        typer.Argument(
            autocompletion=completing.runs,
            help="The base run and the new run: files of answers, or a kept run's id, folder, active, active:METRIC, "
            "pinned:NAME. Or one file with --versus.",
        ),
        READS,
    ],
    metric: of.Metrics = None,
    primary: of.Primary = None,
    versus: of.Versus = None,
    align: of.Align = "strict",
    by: of.By = None,
    pool: of.Pool = None,
    reading: of.Reading,
    uncertainty: Uncertainty,
    unchanged: of.Unchanged = "say",
    keeping: store.Keeping,
    place: store.Place,
) -> Shown:
    """Say whether a new run is better than a base run on the same questions: paired deltas and verdicts."""
    column, *sides = of.versus_of(versus) if versus else ("",)
    if not versus and len(files) != 2:
        raise UsageError("compare takes two files, or --versus column=base,new to compare parts of one table")
    if files.count("-") > 1:
        raise UsageError("standard input can be read once only")
    from steelyard.report.comparison import comparison_report
    from steelyard.runs.opening import is_meant_as_answers
    from steelyard.study.columns import columns_read
    from steelyard.study.comparison import checked_align, checked_unchanged
    from steelyard.study.comparison import compare as compared
    from steelyard.study.defaults import listed_metrics
    from steelyard.study.evaluation import evaluate as evaluated
    from steelyard.study.primary import questions
    from steelyard.study.wire import comparison_document

    kept = keeping.request(place, "compare")
    settings, aligned, same = uncertainty.settings, checked_align(align), checked_unchanged(unchanged)
    asked = of.asked_metrics(metric)
    metrics_read = (*(asked or ()), *(question.metric for question in questions(primary)))
    columns = None if keeping.save_records else columns_read(metrics_read, by or (), column)
    how: dict[str, Any] = {"settings": settings, "unchanged": same, "align": aligned, "primary": primary}
    if not versus and not all(map(is_meant_as_answers, files)):
        of.only_for_files(save=keeping.wanted, pool=pool)
        comparison = _with_kept(files, reading, columns, place, metrics=asked, by=by or (), **how)
        return Shown(document=comparison_document(comparison), report=comparison_report(comparison))
    tables = [reading.table(paths, columns) for paths in ([files] if versus else [[path] for path in files])]
    of.say_unit_of(*tables)
    base, new = (tables[0].of_run(column, side) for side in sides) if versus else tables
    with progress("comparing") as bar:
        comparison = compared(
            base,
            new,
            asked,
            by=by or (),
            pool=pool or (),
            versus=(column,) if versus else (),
            progress=bar,
            **how,
        )
    of.say_chosen(comparison.chosen)
    document = comparison_document(comparison)
    if kept is not None:
        sliced = {"by": by or (), "pool": pool or (), "settings": settings, "keep_evidence": True}
        metrics = listed_metrics(comparison.chosen) if asked is None else asked
        document |= kept.keep(*store.sides([evaluated(side, metrics, **sliced) for side in (base, new)], (base, new)))
    return Shown(document=document, report=comparison_report(comparison))


def _with_kept(
    files: list[str], reading: Any, columns: list[str] | None, place: Any, *, by: Sequence[str], **how: Any
) -> Comparison:
    """The comparison of two runs, of which one at least was kept."""
    from steelyard.runs.opening import is_meant_as_answers
    from steelyard.runs.pointers import named_run
    from steelyard.runs.saved import SavedRun, compare_runs
    from steelyard.study.cells import columns_of

    one, two = (
        reading.table([path], columns) if is_meant_as_answers(path) else named_run(path, place.view, "run")
        for path in files
    )
    tables = [run for run in (one, two) if not isinstance(run, SavedRun)]
    if not tables:
        of.only_for_files(kept="a kept run knows its own", **reading.stated)
    of.say_unit_of(*tables)
    comparison = compare_runs(one, two, by=by, **how)
    for group in by:
        if not any(set(columns_of(group)) <= set(delta.slice) for delta in comparison):
            raise UsageError(f"`by={group}`: a kept run was evaluated in other slices, and kept no rows to slice")
    return comparison
