"""Options of commands that use the store, and which root, domain and tenant they mean."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli import completing
from steelyard.cli.command import Bundle, say

Root = Annotated[
    Path | None,
    typer.Option("--root", help="Where results are kept. Default: STEELYARD_ROOT, else the repository, else here."),
]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", help="Whose runs; - means no tenant. Default: STEELYARD_TENANT, else no tenant."),
]
Domain = Annotated[str | None, typer.Option("--domain", help="Which domain's runs. Default: STEELYARD_DOMAIN.")]
Profile = Annotated[str, typer.Option("--profile", help="The profile of the active pointer.")]
MetricKey = Annotated[
    str | None,
    typer.Option("--metric", "-m", autocompletion=completing.metrics, help="The metric's key, such as f1_macro."),
]
Label = Annotated[list[str] | None, typer.Option("--label", help="What to find it by: model=m1. Repeatable.")]
RunId = Annotated[str | None, typer.Option("--run-id", help="Its id; by default a new one is made.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, for the history.")]
SavedRunId = Annotated[str, typer.Argument(autocompletion=completing.runs, help="A run's id, or the beginning of it.")]
OfWorkflow = Annotated[str | None, typer.Option("--workflow", help="Only runs of this workflow.")]


@dataclass(frozen=True, kw_only=True)
class Place(Bundle):
    """Whose runs, and where they are."""

    tenant: Tenant = None
    domain: Domain = None
    root: Root = None

    @property
    def view(self) -> Any:
        """The runs to look at: one tenant's, of one domain where it is named."""
        from steelyard.runs.layout import View

        return View(*self._named())

    @property
    def scope(self) -> Any:
        """The scope to write to."""
        from steelyard.runs.layout import DOMAIN, Scope

        root, tenant, domain = self._named()
        return Scope(root, domain or DOMAIN, tenant)

    def index(self, **options: Any) -> Any:
        """The index of the runs that may be seen."""
        from steelyard.runs.index import Index

        return Index.within(self.view, **options)

    def _named(self) -> tuple[Path, str | None, str | None]:
        from steelyard.runs.environment import domain_of, root_of, tenant_of

        return (
            root_of(self.root, os.environ, say),
            tenant_of(self.tenant, os.environ, say),
            domain_of(self.domain, os.environ),
        )


def matrix_labels() -> dict[str, str]:
    """What a matrix that runs this command wants to find it by."""
    named = {"matrix": os.environ.get("STEELYARD_MATRIX"), "variant": os.environ.get("STEELYARD_VARIANT")}
    return {key: value for key, value in named.items() if value}


def usable(index: Any, *, workflow: str | None = None) -> Any:
    """The runs that can be used; those that cannot be are said, as a choice without them may be another one."""
    for problem in index.problems():
        say(f"cannot be used: {problem.problem}")
    return index.runs(workflow=workflow)
