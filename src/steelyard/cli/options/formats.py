"""Options of how a result is shown, which every command has that prints one."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.completing import report_formats

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        autocompletion=report_formats,
        help="table, json, markdown, csv, latex or html. Default: table. With --out several: csv,latex.",
    ),
]
Wide = Annotated[bool, typer.Option("--wide", help="Show every column, however wide the terminal is.")]
Titles = Annotated[bool, typer.Option("--titles", help="Show metrics by their titles, not their names.")]
NoPager = Annotated[
    bool, typer.Option("--no-pager", help="Do not page long output; STEELYARD_PAGER set to nothing does the same.")
]
