"""`steelyard shift apply`: shifted query vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.command import READS, Output, Shown, Writes, command, say
from steelyard.cli.options import embedding
from steelyard.cli.options.store import Place
from steelyard.errors import UsageError, counted


@command(prints=False)
def apply(
    *,
    shift: embedding.ShiftToApply,
    queries: Annotated[str, typer.Argument(help="The queries: vectors in .npz or .npy."), READS],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The .npz file to write: vectors, ids, gold."), Writes()
    ],
    scale: embedding.Scale = None,
    allow_cancelled: embedding.AllowCancelled = False,
    place: Place,
) -> Shown:
    """Write shifted query vectors; documents are never shifted and nothing is normalised again."""
    if output.suffix.lower() != ".npz":
        raise UsageError("--output is a .npz file")
    from dataclasses import replace

    from steelyard.retrieval.shifts.named import named_shift
    from steelyard.retrieval.shifts.shift import applied
    from steelyard.texts.vectors import packed, read_vectors

    vectors = read_vectors(queries)
    named = named_shift(shift, scope=place.scope, view=place.view, scale=scale, allow_cancelled=allow_cancelled)
    moved = applied(named.shift, vectors.matrix)
    for note in named.notes:
        say(f"note: {note}")
    zero = int((~moved.any(axis=1)).sum())
    if zero:
        say(f"note: {counted(zero, 'shifted query')} {'has' if zero == 1 else 'have'} no direction left")
    about = f": {counted(len(vectors), 'query')} shifted by {named.name}"
    return Shown(files={"--output": {output: Output(packed(replace(vectors, matrix=moved)), about)}})
