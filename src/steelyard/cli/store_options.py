"""Options of commands that use the store, and which root, domain and tenant they mean."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

Root = Annotated[
    Path | None,
    typer.Option("--root", help="Where results are kept. Default: STEELYARD_ROOT, else the repository, else here."),
]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Whose runs. Default: STEELYARD_TENANT.")]
Domain = Annotated[str | None, typer.Option("--domain", help="Which domain's runs.")]
Profile = Annotated[str, typer.Option("--profile", help="The profile of the active pointer.")]
MetricOption = Annotated[str | None, typer.Option("--metric", "-m", help="The metric's key, such as f1_macro.")]
Format = Annotated[str, typer.Option("--format", help="table, json, markdown or csv.")]


def root(given: Path | None) -> Path:
    """The root that holds `results`."""
    from steelyard.runs.layout import found_root

    named = given or (Path(text) if (text := os.environ.get("STEELYARD_ROOT")) else None)
    return named.resolve() if named is not None else found_root(Path.cwd())


def tenant(given: str | None) -> str | None:
    return given or os.environ.get("STEELYARD_TENANT") or None


def matrix_labels() -> dict[str, str]:
    """What a matrix that runs this command wants to find it by."""
    named = {"matrix": os.environ.get("STEELYARD_MATRIX"), "variant": os.environ.get("STEELYARD_VARIANT")}
    return {key: value for key, value in named.items() if value}


def scope(given: Path | None, tenant_: str | None, domain: str | None) -> Any:
    """The scope to write to."""
    from steelyard.runs.layout import DOMAIN, Scope

    return Scope(root(given), domain or DOMAIN, tenant(tenant_))


def scope_of(index: Any, tenant_: str | None, domain: str | None) -> Any:
    """The scope that pointers are meant in: as given, else the only one that has runs."""
    from steelyard.errors import UsageError
    from steelyard.runs.layout import DOMAIN, Scope

    wanted = tenant(tenant_)
    found = dict.fromkeys((run.domain, run.tenant) for run in index.runs(tenant=wanted, domain=domain))
    if len(found) > 1:
        shown = ", ".join(f"{d}{f'/{t}' if t else ''}" for d, t in found)
        raise UsageError(f"there are runs of several scopes ({shown}); choose with --tenant and --domain")
    chosen_domain, chosen_tenant = next(iter(found), (domain or DOMAIN, wanted))
    return Scope(index.root, chosen_domain, chosen_tenant)
