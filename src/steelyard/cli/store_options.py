"""Options of commands that use the store, and which root, domain and tenant they mean."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli import options

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
MetricOption = Annotated[str | None, typer.Option("--metric", "-m", help="The metric's key, such as f1_macro.")]
Format = Annotated[str, typer.Option("--format", help="table, json, markdown or csv.")]


def root(given: Path | None) -> Path:
    """The root that holds `results`."""
    from steelyard.runs.environment import root_of

    return root_of(given, os.environ, options.say)


def tenant(given: str | None) -> str | None:
    """Whose runs; None is the scope of no tenant."""
    from steelyard.runs.environment import tenant_of

    return tenant_of(given, os.environ, options.say)


def matrix_labels() -> dict[str, str]:
    """What a matrix that runs this command wants to find it by."""
    named = {"matrix": os.environ.get("STEELYARD_MATRIX"), "variant": os.environ.get("STEELYARD_VARIANT")}
    return {key: value for key, value in named.items() if value}


def scope(given: Path | None, tenant_: str | None, domain: str | None) -> Any:
    """The scope to write to."""
    from steelyard.runs.environment import domain_of
    from steelyard.runs.layout import DOMAIN, Scope

    return Scope(root(given), domain_of(domain, os.environ) or DOMAIN, tenant(tenant_))


def view(given: Path | None, tenant_: str | None, domain: str | None) -> Any:
    """The runs to look at: one tenant's, of one domain where it is named."""
    from steelyard.runs.environment import domain_of
    from steelyard.runs.layout import View

    return View(root(given), tenant(tenant_), domain_of(domain, os.environ))
