"""reparse(): the replies of a run, read again as they would be read today; no model is asked.

    run = sy.reparse("ckd-1a2b3c4d-20260101T120000-abcdef")
    run.reparsed_from

For a better parser, or a task whose labels may be spelt in more ways than was known. It becomes a new run of the same
spec, with a journal of its own, and its manifest and labels name the old one, which stays as it was. Times, tokens and
costs are those of the old. What was asked must still be what the task and the data say; how it is asked may have
changed since, and so may the models.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.errors import InputError, StorageError, UsageError, printable
from steelyard.ground.journal import Journal, Rows
from steelyard.runner.asking import read
from steelyard.runner.backends import Reply
from steelyard.runner.folders import RunningFolder, begun, check_room
from steelyard.runner.plan import Plan, planned
from steelyard.runner.recorded import Standing
from steelyard.runner.run import How, Prepared, Run, Say, concluded, silent_models
from steelyard.runner.spec import SpecFile, load_spec
from steelyard.runs.environment import domain_of, root_of, tenant_of
from steelyard.runs.index import Index, RunEntry
from steelyard.runs.layout import View

if TYPE_CHECKING:
    from steelyard.uncertainty.settings import Settings

Row = Mapping[str, Any]


def reparse(
    run: str,
    *,
    root: Path | str | None = None,
    tenant: str | None = None,
    domain: str | None = None,
    settings: Settings | None = None,
    environment: Mapping[str, str] | None = None,
    say: Say = lambda _: None,
) -> Run:
    """Read the replies of a kept run again, by its id, and evaluate and keep what they say as a new run."""
    known = os.environ if environment is None else environment
    view = View(
        root_of(None if root is None else Path(root), known, say),
        tenant_of(tenant, known, say),
        domain_of(domain, known),
    )
    return read_again(run, view, How(settings=settings, say=say, command=("steelyard.reparse",)))


def read_again(run: str, view: View, how: How) -> Run:
    """The same, with everything that a command says."""
    from steelyard.runs.saved import Clock

    clock = Clock()
    with Index.within(view) as index:
        entry = index.find(run)
    old = _asked_before(entry)
    plan = _plan(entry, old)
    _check_texts(entry, old)
    prepared = Prepared(plan=plan, backends={}, scope=entry.scope, workflow=entry.workflow)
    check_room(entry.scope, plan)
    place = begun(entry.scope, plan, asked_as=old.document()["plan"])
    try:
        others = _copied(plan, old, place)
        standing = Standing.of(plan, place.journal)
        how.say(f"{others:,} of {standing.done:,} replies are read otherwise than in run {entry.run_id}")
        problems = silent_models(standing)
        return concluded(prepared, place, standing, problems, clock, replace(how, reparsed_from=entry.run_id))
    except BaseException:
        if not place.is_finished:  # it must not be taken for a run that was stopped
            shutil.rmtree(place.folder, ignore_errors=True)
        raise


def _copied(plan: Plan, old: RunningFolder, new: RunningFolder) -> int:
    """Write the journal again with what its replies say today; how many say something else."""
    others = 0
    with Journal(new.journal) as journal:
        for row in Rows(old.journal):
            again = _read_again(plan, row, old) if "key" in row else row
            others += "key" in row and _answer(again) != _answer(row)
            journal.append(again)
    return others


def _asked_before(entry: RunEntry) -> RunningFolder:
    """Where the replies of a run are."""
    folder = RunningFolder(entry.scope.running / entry.run_id)
    if not folder.journal.is_file():
        raise UsageError(
            f"there are no replies of run {printable(entry.run_id)}: it was not made by asking models, "
            "or they were deleted"
        )
    return folder


def _plan(entry: RunEntry, old: RunningFolder) -> Plan:
    """What was asked, planned again; refused where that is not the same any more."""
    try:
        document = old.document()
        stated, folder, items = document["spec"], Path(document["folder"]), document["items"]
    except (InputError, KeyError, TypeError):
        raise StorageError(
            f"{printable(old.folder)} does not say what was asked, or an older version wrote it; ask again instead"
        ) from None
    file: SpecFile = replace(load_spec(stated), source=f"the spec of run {entry.run_id}", folder=folder)
    plan = planned(file)
    if plan.items_digest != items:
        raise UsageError(
            f"the items of {printable(plan.task.name)} are not those of run {printable(entry.run_id)} any more: "
            "the data or the task have changed since. Restore them, or ask again"
        )
    return plan


def _check_texts(entry: RunEntry, old: RunningFolder) -> None:
    """Refuse a run that kept no replies."""
    rows = (row for row in Rows(old.journal) if "key" in row)
    if any(row["parsed"] is not None and row["reply"].get("text") is None for row in rows):
        raise UsageError(
            f"run {printable(entry.run_id)} kept no replies (`forget_replies=True`), so there is nothing to read again"
        )


def _read_again(plan: Plan, row: Row, old: RunningFolder) -> dict[str, Any]:
    """A row of the journal with what its reply says today."""
    if not plan.has_asked(row):
        raise _of_another_plan(old)
    place = plan.place(row["key"])
    try:
        reply = Reply.of(row["reply"])
    except ValueError:
        raise StorageError(f"{printable(old.journal)} holds a row that is no reply") from None
    kept = {name: value for name, value in row.items() if name not in ("parsed", "signals", "missing")}
    return {**kept, **read(plan, place.strategy, reply)}


def _of_another_plan(old: RunningFolder) -> StorageError:
    return StorageError(f"{printable(old.journal)} is the journal of another plan; ask again instead")


def _answer(row: Row) -> tuple[Any, Any]:
    parsed = row["parsed"] or {}
    return parsed.get("outcome"), parsed.get("prediction")
