"""`steelyard segment`: for which queries a shift is worth applying."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli import options

app = typer.Typer(no_args_is_help=True, help="Apply a shift to some queries only: propose and compare.")


@app.command()
def propose(
    baseline: Annotated[str, typer.Option("--baseline", help="eval.perQuery.baseline.json of a run.")],
    shifted: Annotated[str, typer.Option("--shifted", help="eval.perQuery.posneg.json of the same run.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The segments file to write.")],
    rule: Annotated[str, typer.Option("--rule", help="oracle (an upper bound), gap, or learned.")] = "gap",
    tau: Annotated[
        float | None, typer.Option("--tau", help="gap: apply where the first two scores are closer than this.")
    ] = None,
    eps: Annotated[float, typer.Option("--eps", help="oracle: apply where the shift gains more than this.")] = 0.0,
    metric: Annotated[str, typer.Option("--metric", "-m", help="What to gain in: ndcg@3 or map@1.")] = "ndcg@3",
    folds: Annotated[int, typer.Option("--folds", help="learned: folds, each decided by the others.")] = 5,
    seed: options.Seed = 42,
    format_: options.Format = "table",
) -> None:
    """Decide for every query whether to apply the shift, and write the decisions."""
    options.check_format(format_)
    options.check_outputs({"--output": output}, [baseline, shifted])
    from steelyard.report.segment import proposal_report
    from steelyard.retrieval.per_query import read_per_query
    from steelyard.retrieval.shifts.segments import propose as decide
    from steelyard.retrieval.shifts.segments_wire import segments_document

    found = decide(
        read_per_query(baseline),
        read_per_query(shifted),
        rule=rule,
        metric=metric,
        eps=eps,
        tau=tau,
        folds=folds,
        seed=seed,
    )
    options.show(segments_document(found), proposal_report(found), format_, output)


@app.command()
def compare(
    segments: Annotated[str, typer.Argument(help="A segments file.")],
    baseline: Annotated[str | None, typer.Option("--baseline", help="Instead of its BaselinePath.")] = None,
    shifted: Annotated[str | None, typer.Option("--shifted", help="Instead of its PosNegPath.")] = None,
    out: options.Out = None,
    resamples: options.Resamples = 10_000,
    seed: options.Seed = 42,
    format_: options.Format = "table",
) -> None:
    """Compare baseline, shift everywhere, and shift by segments: means and paired differences."""
    options.check_format(format_)
    from steelyard.report.segment import compared_report
    from steelyard.retrieval.per_query import read_per_query
    from steelyard.retrieval.shifts.segments import compared
    from steelyard.retrieval.shifts.segments_wire import beside, compared_document, read_segments

    target = out / "segment-comparison.json" if out is not None else None
    decisions = read_segments(segments)
    paths = [baseline or beside(segments, decisions.baseline_path), shifted or beside(segments, decisions.pos_neg_path)]
    options.check_outputs({"--out": target}, [segments, *paths])
    base, new = (read_per_query(path) for path in paths)
    found = compared(decisions, base, new, segments, resamples=resamples, seed=seed)
    options.show(compared_document(found), compared_report(found), format_, target)
