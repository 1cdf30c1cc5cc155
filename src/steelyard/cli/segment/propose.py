"""`steelyard segment propose`: decide for every query whether to apply a shift."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli import completing
from steelyard.cli.command import DOCUMENT, READS, Shown, command
from steelyard.cli.options.store import Place
from steelyard.cli.options.uncertainty import Seed


@command(writes="segments.json")
def propose(
    *,
    shifted: Annotated[
        str,
        typer.Argument(
            autocompletion=completing.runs,
            help="A run with a shift by its id or folder, or its eval.perQuery.posneg.json.",
        ),
        READS,
    ],
    baseline: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completing.runs,
            help="A run, or its eval.perQuery.baseline.json. Default: that of the run shifted.",
        ),
        READS,
    ] = None,
    output: Annotated[  # noqa: ARG001 - the decisions are written there
        Path | None, typer.Option("--output", "-o", help="The segments file to write."), DOCUMENT
    ] = None,
    rule: Annotated[str, typer.Option("--rule", help="oracle (an upper bound), gap, or learned.")] = "gap",
    tau: Annotated[
        float | None, typer.Option("--tau", help="gap: apply where the first two scores are closer than this.")
    ] = None,
    eps: Annotated[float, typer.Option("--eps", help="oracle: apply where the shift gains more than this.")] = 0.0,
    metric: Annotated[str, typer.Option("--metric", "-m", help="What to gain in: ndcg@3 or map@1.")] = "ndcg@3",
    folds: Annotated[int, typer.Option("--folds", help="learned: folds, each decided by the others.")] = 5,
    seed: Seed = 42,
    place: Place,
) -> Shown:
    """Decide for every query whether to apply the shift, and write the decisions."""
    from steelyard.report.segment import proposal_report
    from steelyard.retrieval.elsewhere import both_files
    from steelyard.retrieval.per_query import read_per_query
    from steelyard.retrieval.shifts.segments import propose as proposed
    from steelyard.retrieval.shifts.segments_wire import segments_document

    files = both_files(baseline, shifted, place.view)
    base, new = (read_per_query(path) for path in files)
    segments = proposed(
        base,
        new,
        rule=rule,
        metric=metric,
        eps=eps,
        tau=tau,
        folds=folds,
        seed=seed,
    )
    return Shown(
        document=segments_document(segments),
        report=proposal_report(segments),
        reads=files,
        unwritten="the decisions are written with --out FOLDER or --output FILE",
    )
