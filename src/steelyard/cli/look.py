"""`steelyard look`: what is in a file. Nothing is scored."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import READS, Shown, command
from steelyard.cli.options import records as of


@command()
def look(
    *,
    files: Annotated[list[str], typer.Argument(help="Files of answers, of any format; - for standard input."), READS],
    reading: of.Reading,
) -> Shown:
    """Say what is in a file: what each column would be, what can be computed, what is odd. Nothing is scored."""
    from steelyard.report.look import look_document, look_report
    from steelyard.study.looking import look as looked

    seen = looked(files, **reading.stated)
    return Shown(document=look_document(seen), report=look_report(seen))
