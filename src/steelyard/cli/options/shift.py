"""Options of commands about trainings."""

from __future__ import annotations

from typing import Annotated

import typer

OfWorkflow = Annotated[str | None, typer.Option("--workflow", help="Only trainings of this workflow.")]
