"""Options of commands that use the store, and which root, domain and tenant they mean."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli import completing
from steelyard.cli.command import Bundle, say
from steelyard.cli.options.records import pairs, split_metrics
from steelyard.errors import UsageError
from steelyard.ground.commas import split_commas


def one_metric(given: str | None) -> str | None:
    """The metric that was asked for, where only one can be."""
    named = [name for name in split_commas(given or "") if name]
    if len(named) > 1:
        raise UsageError(f"-m: this command goes by one metric, and {len(named)} are named; name one")
    return given


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
OneMetric = Annotated[
    str,
    typer.Option(
        "--metric",
        "-m",
        autocompletion=completing.metrics,
        help="The metric's key, such as ndcg@3.",
        callback=one_metric,
    ),
]
MetricKey = Annotated[
    str | None,
    typer.Option(
        "--metric",
        "-m",
        autocompletion=completing.metrics,
        help="The metric's key, such as f1_macro.",
        callback=one_metric,
    ),
]
_KEYS = typer.Option(
    "--metric",
    "-m",
    autocompletion=completing.metrics,
    help="A metric's key, such as f1_macro; a,b or repeat for more.",
    callback=split_metrics,
)
Keys = Annotated[list[str], _KEYS]
MetricKeys = Annotated[list[str] | None, _KEYS]
Label = Annotated[list[str] | None, typer.Option("--label", help="What to find it by: model=m1. Repeatable.")]
RunId = Annotated[str | None, typer.Option("--run-id", help="Its id; by default a new one is made.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, for the history.")]
SavedRunId = Annotated[str, typer.Argument(autocompletion=completing.runs, help="A run's id, or the beginning of it.")]
DespiteGate = Annotated[
    bool, typer.Option("--despite-gate", help="Also a run whose last gate failed; the history says so.")
]
Better = Annotated[
    str | None,
    typer.Option("--better", help="higher or lower: what is better of a metric that has no direction of its own."),
]
OfWorkflow = Annotated[str | None, typer.Option("--workflow", help="Only runs of this workflow.")]
Save = Annotated[
    bool,
    typer.Option("--save", help="Keep the run: numbers, evidence and digests, under the root; of two runs, both."),
]
SaveRecords = Annotated[bool, typer.Option("--save-records", help="Keep the rows too; they may hold patient data.")]
GroupReadable = Annotated[
    bool,
    typer.Option(
        "--group-readable",
        help="Share the root: its group may read what is kept there from now on, not its owner alone.",
    ),
]
Workflow = Annotated[
    str | None,
    typer.Option("--workflow", help="The kind of run. Default: STEELYARD_WORKFLOW, else the command's name."),
]


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


@dataclass(frozen=True, kw_only=True)
class Measured:
    """An evaluation to keep, its rows, and what it is found by besides what was asked for."""

    evaluation: Any
    records: Any
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""  # of the id that was asked for, where several runs are kept


def sides(evaluations: Sequence[Any], tables: Sequence[Any]) -> list[Measured]:
    """One run to keep, or two: the base run, and after it the new one."""
    suffixes = ["-base", ""][-len(evaluations) :]
    return [
        Measured(evaluation=evaluation, records=table, labels=_model_of(table), suffix=suffix)
        for evaluation, table, suffix in zip(evaluations, tables, suffixes, strict=True)
    ]


def _model_of(table: Any) -> dict[str, str]:
    """The model as a label, where all rows are of one."""
    model = table.only("model")
    return {} if model is None else {"model": str(model)}


@dataclass(frozen=True, kw_only=True)
class Keeping(Bundle):
    """Whether what was measured is kept as a run, and what it is found by."""

    save: Save = False
    save_records: SaveRecords = False
    workflow: Workflow = None
    label: Label = None
    run_id: RunId = None
    group_readable: GroupReadable = False

    @property
    def wanted(self) -> bool:
        return self.save or self.save_records

    def request(self, place: Place, command: str) -> KeepingRequest | None:
        """What is to be kept, settled before anything is measured; None where nothing is."""
        from steelyard.runs.saved import Clock

        labels = {**matrix_labels(), **pairs(self.label, "label")}
        if not self.wanted:
            return None
        workflow = self.workflow or os.environ.get("STEELYARD_WORKFLOW") or command
        return KeepingRequest(self, place.scope, workflow, labels, Clock())


@dataclass(frozen=True)
class KeepingRequest:
    """Runs that are going to be kept: where, since when, and what they are found by."""

    asked: Keeping
    scope: Any
    workflow: str
    labels: Mapping[str, str]
    clock: Any

    def keep(self, *measured: Measured) -> dict[str, Any]:
        """Keep the runs, all or none, and say so; what the document says of the last of them."""
        from steelyard.runs.layout import share
        from steelyard.runs.saved import keep, run_folder

        folders = [
            run_folder(
                each.evaluation,
                workflow=self.workflow,
                clock=self.clock,
                tenant=self.scope.tenant,
                labels={**each.labels, **self.labels},
                run_id=None if self.asked.run_id is None else self.asked.run_id + each.suffix,
                records=each.records if self.asked.save_records else None,
            )
            for each in measured
        ]
        if self.asked.group_readable:
            share(self.scope)
        places = keep(self.scope, *folders)
        for folder, place in zip(folders, places, strict=True):
            say(f"saved run {folder.run.run_id} in {place}")
        about: dict[str, Any] = {"run_id": folders[-1].run.run_id, "folder": str(places[-1])}
        if len(folders) > 1:
            about |= {"base_run_id": folders[0].run.run_id, "base_folder": str(places[0])}
        return about


def matrix_labels() -> dict[str, str]:
    """What a matrix that runs this command wants to find it by."""
    named = {"matrix": os.environ.get("STEELYARD_MATRIX"), "variant": os.environ.get("STEELYARD_VARIANT")}
    return {key: value for key, value in named.items() if value}


def usable(index: Any, *, workflow: str | None = None) -> Any:
    """The runs that can be used; those that cannot be are said, as a choice without them may be another one."""
    for problem in index.problems():
        say(f"cannot be used: {problem.problem}")
    return index.runs(workflow=workflow)
