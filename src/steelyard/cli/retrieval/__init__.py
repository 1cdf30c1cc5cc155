"""`steelyard retrieval`: search with embeddings, with and without a shift of the queries."""

from __future__ import annotations

import typer

from steelyard.cli.retrieval.eval import eval_
from steelyard.cli.retrieval.run import run
from steelyard.cli.words import Group

app = typer.Typer(
    cls=Group, no_args_is_help=True, help="Embedding retrieval: ranks of the relevant documents, and shifts."
)
app.command("run")(run)
app.command("eval")(eval_)
