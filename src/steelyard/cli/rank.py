"""`steelyard rank`: rankings against judgements, as trec_eval computes them, with intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli import completing
from steelyard.cli.command import PLUGINS, READS, Shown, Writes, command
from steelyard.cli.options import store
from steelyard.cli.options.records import Align, split_metrics
from steelyard.cli.options.uncertainty import MethodIntervals
from steelyard.errors import UsageError


@command(writes="evaluation.json")
def rank(
    *,
    qrels: Annotated[
        str, typer.Argument(help="Judgements: TREC lines (topic iteration document grade) or JSON."), READS
    ],
    runs: Annotated[
        list[str],
        typer.Argument(help="One run, or two to compare: TREC lines (topic Q0 document rank score tag) or JSON."),
        READS,
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            autocompletion=completing.metrics,
            help="A ranking metric, such as ndcg@10; a,b or repeat for more.",
            callback=split_metrics,
        ),
        PLUGINS,
    ] = None,
    relevance_level: Annotated[
        int, typer.Option("--relevance-level", "-l", help="The grade from which a document counts as relevant.")
    ] = 1,
    complete: Annotated[
        bool, typer.Option("--complete", "-c", help="Count judged topics that are not in the run as 0.")
    ] = False,
    align: Align = "strict",
    per_query: Annotated[
        Path | None,
        typer.Option("--per-query", help="A file for every query's own values: JSON lines, or CSV by its suffix."),
        Writes(),
    ] = None,
    uncertainty: MethodIntervals,
    keeping: store.Keeping,
    place: store.Place,
) -> Shown:
    """Say how good a ranking is, and how sure that is; of two rankings, whether the second is better.

    Queries are the units of resampling. Metrics: ndcg@k, mrr, map, map@k, precision@k, recall@k, hit@k, rprec,
    bpref, rbp, err@k, judged@k; trec_eval's and ir_measures' spellings (P_5, nDCG@10) are read too.
    """
    if len(runs) > 2:
        raise UsageError(f"rank takes one run or two, not {len(runs)}")
    if [qrels, *runs].count("-") > 1:
        raise UsageError("standard input can be read once only")
    from steelyard.metrics.definition import metric_of
    from steelyard.records.readers.trec import TIES, read_rankings
    from steelyard.report.comparison import by_query_csv, ranking_report, ranking_tables
    from steelyard.study.comparison import checked_align
    from steelyard.study.ranked_lists import STACK, by_query
    from steelyard.study.ranked_lists import rank as ranked
    from steelyard.study.wire import ranking_document

    kept = keeping.request(place, "rank")
    metrics, settings, aligned = metric or list(STACK), uncertainty.settings, checked_align(align)
    for name in metrics:
        metric_of(name)  # a wrong name is said before large files are read
    tables = read_rankings(qrels, runs, complete=complete, relevance_level=relevance_level)
    ranking = ranked(
        tables, metrics, relevance_level=relevance_level, align=aligned, keep_evidence=keeping.wanted, settings=settings
    )
    files = {}
    if per_query is not None:
        rows = [row for table in tables for row in by_query(table, metrics, relevance_level=relevance_level)]
        as_table = per_query.suffix.lower() == ".csv"
        lines = by_query_csv(rows) if as_table else "".join(json.dumps(row) + "\n" for row in rows)
        files["--per-query"] = {per_query: lines}
    document = ranking_document(ranking, ties=TIES, complete=complete, relevance_level=relevance_level)
    if kept is not None:
        document |= kept.keep(*store.sides(ranking.runs, tables))
    return Shown(
        document=document,
        report=ranking_report(ranking),
        files=files,
        tables=lambda path: {path.with_name(name): text for name, text in ranking_tables(ranking).items()},
    )
