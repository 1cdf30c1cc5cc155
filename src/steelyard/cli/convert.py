"""`steelyard convert`: a file of answers in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.command import READS, Shown, Writes, command, say
from steelyard.cli.options import records as of
from steelyard.errors import counted


@command()
def convert(
    *,
    source: Annotated[str, typer.Argument(help="A file of any format that is read; - for standard input."), READS],
    target: Annotated[
        Path,
        typer.Argument(help="The file to write: .parquet .arrow .jsonl .csv .tsv (text also as .gz), .inspect.json."),
        Writes(),
    ],
    reading: of.ReadingAsIs,
    verbatim: Annotated[
        bool, typer.Option("--verbatim", help="Leave texts in CSV that a spreadsheet would run as formulas.")
    ] = False,
) -> Shown:
    """Write a file of answers in another format, with all its columns as they are. Nothing is scored or refused.

    A log for Inspect (.inspect.json) is of one task and one model, and says which answers are right.
    """
    from steelyard.cli.command import as_options
    from steelyard.cli.progress import progress
    from steelyard.records.converting import convert as converted
    from steelyard.report.document import Note

    with progress("converting") as told:
        done = converted(
            source,
            target,
            verbatim=verbatim,
            progress=told,
            **reading.stated,
        )
    for remark in done.warnings:
        say(as_options(remark))
    document = {"path": str(target), "format": done.format, "rows": done.rows, "columns": list(done.columns)}
    return Shown(
        document=document,
        report=[Note(f"wrote {target}: {counted(done.rows, 'row')}, {counted(len(done.columns), 'column')}")],
    )
