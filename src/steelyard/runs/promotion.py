"""Which pointer is meant, and whether the best run takes the place of the active one."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.errors import StorageError, printable
from steelyard.runs.deciding import PROMOTE, Choice, decide
from steelyard.runs.index import Index, RunEntry
from steelyard.runs.layout import Scope, View
from steelyard.runs.metric_keys import known_key
from steelyard.runs.pointers import ANY, Pointers
from steelyard.runs.saved import SavedRun
from steelyard.uncertainty.settings import Settings


def pointed(view: View, metric: str | None, profile: str) -> str:
    """The metric that a pointer is asked for by; one that neither a pointer nor a run knows is an error."""
    pointers = Pointers(view.scope())
    named = pointers.metric_key(metric, profile)
    if metric is None or pointers.get(named, profile).stack or named == ANY:
        return named
    with Index.within(view) as index:
        return known_key(index.runs(), metric)


def decided(
    scope: Scope,
    runs: Sequence[RunEntry],
    metric: str,
    profile: str,
    *,
    among: Sequence[RunEntry] | None = None,
    eps: float,
    point: bool = False,
    apply: bool = False,
    better: str | None = None,
    despite_gate: bool = False,
    settings: Settings | None = None,
) -> tuple[Choice, str, bool]:
    """The choice between the best of some runs and the active one, the metric's key, and whether `apply` promoted it.

    `runs` are all of the scope; `among` those that may be promoted, where that is not all.
    """
    candidates = runs if among is None else among
    key = known_key(candidates, metric)
    pointers = Pointers(scope)
    name = pointers.metric_key(key, profile)
    before = pointers.get(name, profile).name
    active = next((run for run in runs if run.name == before), None)
    if before is not None and active is None:
        raise StorageError(f"the active run {printable(before)} cannot be used; promote another by hand, or roll back")
    choice = decide(candidates, key, active, eps=eps, point=point, better=better, settings=settings)
    applied = apply and choice.action == PROMOTE
    if applied:
        candidate = SavedRun.at(choice.candidate.folder)
        pointers.promote(candidate, name, profile, reason=choice.reason, instead_of=before, despite_gate=despite_gate)
    return choice, key, applied
