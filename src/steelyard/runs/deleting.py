"""A run is removed, or only the rows it kept: people must be able to take patient data out of a store.

The replies of models that a run was made from, in its journal, go in both cases. A run goes whole or not at all: its
folder is renamed out of the list first. What a crash left of one that was being removed or saved goes with the next
removal in the same scope, and with the next save next to it. The index forgets a run at once.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.errors import StorageError, UsageError, printable
from steelyard.ground.files import LEAVING, flush_folder, left_behind, remove_tree, sweep, write_atomic
from steelyard.ground.json import dumps
from steelyard.runs.index import Index, Problem
from steelyard.runs.layout import JOURNAL, Scope, View, access, folders, inside
from steelyard.runs.pointers import PINNED, Pointers, readable
from steelyard.runs.run_json import NAME, run_document
from steelyard.runs.saved import RECORDS, SavedRun

_STOPPED = "was stopped half-way; the next save in the same workflow removes what is left, and so does `leftovers=True`"


@dataclass(frozen=True)
class Removal:
    """A run to remove, usable or not: where it is, and what it is called."""

    scope: Scope
    folder: Path
    name: str

    @property
    def run_id(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def workflow(self) -> str:
        return self.name.rpartition("/")[0]


def doomed(view: View, name: str) -> Removal:
    """The run that is meant; one that cannot be read goes by the name of its folder."""
    with Index.within(view) as index:
        try:
            run = index.find(name)
            return Removal(run.scope, run.folder, run.name)
        except StorageError:
            broken = [p.folder for p in index.problems() if p.folder.name == name]
    if len(broken) != 1:
        raise UsageError(f"'{printable(name)}' means {len(broken)} folders that cannot be read; remove one by hand")
    (folder,) = broken
    (scope,) = (s for s in view.scopes() if s.runs in folder.parents)
    return Removal(scope, folder, f"{folder.parent.name}/{folder.name}")


def check_free(run: Removal) -> None:
    """Refuse a run that something points to; a pointer that cannot be read points to whatever it mentions."""
    pointers, broken = readable(run.scope)
    for pointer in pointers:
        if pointer.name != run.name:
            continue
        if pointer.profile == PINNED:
            raise UsageError(
                f"run {printable(run.name)} is pinned as {printable(pointer.metric)}; pin another run there"
            )
        where = f"{printable(pointer.metric)} ({printable(pointer.profile)})"
        raise UsageError(f"run {printable(run.name)} is active for {where}; promote another run, or roll back")
    for problem in broken:
        if run.run_id.encode() in problem.folder.read_bytes():
            raise UsageError(
                f"{printable(problem.folder)} cannot be read and mentions the run; restore or remove it first"
            )


def delete_run(run: Removal) -> list[str]:
    """Remove a run's folder; the names of the files that went."""
    folder = inside(run.scope.root, run.folder)
    try:
        files = sorted(os.listdir(folder))
        leaving = folder.with_name(f".{folder.name}{LEAVING}{secrets.token_hex(6)}")
        with Pointers(run.scope).unchanged():
            check_free(run)
            os.rename(folder, leaving)
        with suppress(FileNotFoundError):  # another process took the last run away, and the folder with it
            flush_folder(folder.parent)
            remove_tree(leaving)
            flush_folder(folder.parent)
        sweep_scopes([run.scope])
        files += _without_replies(run)
        with Index(run.scope.root) as index:
            index.settle()
    except OSError as problem:
        raise StorageError(f"cannot remove {printable(folder)}: {problem.strerror or type(problem).__name__}") from None
    return files


def delete_texts(run: Removal) -> list[str]:
    """Remove the rows that a run kept and leave its numbers; the names of the files that went."""
    folder = inside(run.scope.root, run.folder)
    rows = folder / RECORDS
    try:
        with suppress(StorageError):  # of a run that cannot be read, the rows go all the same
            opened = SavedRun.at(folder)
            left = {name: digest for name, digest in opened.run.files.items() if name != RECORDS}
            if left != dict(opened.run.files):
                write_atomic(
                    folder / NAME, dumps(run_document(replace(opened.run, files=left))), access(run.scope.root)
                )
        gone = [RECORDS] if rows.exists() else []
        rows.unlink(missing_ok=True)
        flush_folder(folder)
        gone += _without_replies(run)
    except OSError as problem:
        raise StorageError(f"cannot remove {printable(rows)}: {problem.strerror or type(problem).__name__}") from None
    return gone


def _without_replies(run: Removal) -> list[str]:
    """Remove the folder in which models were asked; the names of the files that went."""
    asked = inside(run.scope.root, run.scope.running / run.run_id)
    if not asked.is_dir():
        return []
    remove_tree(asked)
    flush_folder(asked.parent)
    return [JOURNAL]


def leftovers(scopes: Iterable[Scope]) -> list[Problem]:
    """What a process that was killed left half-made or half removed, and what is to be said of it."""
    found = (half for workflow in _workflows(scopes) for half in left_behind(workflow))
    return [
        Problem(half, f"{printable(half)}: a {'removal' if LEAVING in half.name else 'save'} {_STOPPED}")
        for half in found
    ]


def sweep_scopes(scopes: Iterable[Scope]) -> list[Path]:
    """Remove it; the folders that went. What another process is writing stays."""
    gone = []
    for workflow in _workflows(scopes):
        swept = sweep(workflow)
        with suppress(OSError):  # another process may have taken the folder away
            if swept:
                flush_folder(workflow)
        gone += swept
    return gone


def _workflows(scopes: Iterable[Scope]) -> list[Path]:
    """The folders in which runs and trainings are written."""
    kept = (place for scope in scopes for place in (scope.runs, scope.folder / "shifts"))
    return [place / name for place in kept for name in folders(place)]
