"""Where a run is while it is asked: its folder, its journal, and which one is to be taken up again.

    <scope>/running/<spec id>-<hash>-<time>-<random>/
        journal      what was answered, row by row, with the replies; only its owner can read it
        spec.json    the spec as it was meant, with what a command changed, its folder, and digests of the plan
        ended-N      the Nth time that it was asked came to its end, and nothing was on its way
        finished     the run is kept, and is not taken up again
    <scope>/cache.sqlite

The folder stays when the run is kept, because the replies are here only.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from steelyard.errors import InputError, StorageError, printable
from steelyard.ground.files import OWNER, make_folders, reason, write_atomic
from steelyard.ground.json import dumps, head, read_strict
from steelyard.runner.plan import Plan
from steelyard.runs.layout import JOURNAL, Scope, access, checked, folders, inside

SPEC, FINISHED, ENDED = "spec.json", "finished", "ended-"
KIND = "running"
_ROOM, _PER_ROW, _PER_ROW_WITH_LOGPROBS = 32 * 2**20, 4_096, 65_536  # bytes that should be free


@dataclass(frozen=True)
class RunningFolder:
    """A run that is asked, or was."""

    folder: Path

    @property
    def run_id(self) -> str:
        return self.folder.name

    @property
    def journal(self) -> Path:
        return self.folder / JOURNAL

    @property
    def is_finished(self) -> bool:
        return (self.folder / FINISHED).exists()

    def finish(self) -> None:
        """Let nobody take the run up again."""
        write_atomic(self.folder / FINISHED, "", OWNER)

    def end(self, session: int) -> None:
        """Remember that nothing was on its way when a session ended."""
        write_atomic(self.folder / f"{ENDED}{session}", "", OWNER)

    def killed(self, sessions: int) -> int:
        """How many of so many sessions did not come to their end, so that what was on its way may have been paid."""
        return sum(not (self.folder / f"{ENDED}{session}").exists() for session in range(1, sessions + 1))

    def remove(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def document(self) -> dict[str, Any]:
        return dict(read_strict(self.folder / SPEC)[0])


def cache_of(scope: Scope) -> Path:
    """The file of replies that were paid for once."""
    return inside(scope.root, scope.cache)


def begun(scope: Scope, plan: Plan, *, asked_as: str | None = None) -> RunningFolder:
    """The folder of a new run, with its spec in it; `asked_as` is the digest of the plan that was asked, if another."""
    spec = plan.spec
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    name = checked("run id", f"{spec.id}-{spec.hash}-{stamp}-{secrets.token_hex(3)}")
    folder = inside(scope.root, scope.running / name)
    try:
        make_folders(scope.running, access(scope.root))
        folder.mkdir(mode=0o700)
    except OSError as problem:
        raise StorageError(f"cannot write {printable(folder)}: {reason(problem)}") from None
    document = {
        **head(KIND),
        "run_id": name,
        "hash": spec.hash,
        "plan": asked_as or plan.digest,
        "items": plan.items_digest,
        "folder": str(plan.file.folder.resolve()),
        "requests": plan.count,
        "spec": msgspec.to_builtins(spec),
    }
    write_atomic(folder / SPEC, dumps(document), OWNER)
    return RunningFolder(folder)


def last(scope: Scope, plan: Plan) -> RunningFolder | None:
    """The newest run of the same spec, whatever its data and prompts were."""
    named = f"{plan.spec.id}-{plan.spec.hash}-"
    runs = [
        RunningFolder(inside(scope.root, scope.running / name))
        for name in folders(scope.running)
        if name.startswith(named)
    ]
    return max((run for run in runs if (run.folder / SPEC).exists()), key=_began, default=None)


def newest(scope: Scope, plan: Plan) -> RunningFolder | None:
    """The newest run of the same spec and plan, finished or not; None without one."""
    return max(_of_spec(scope, plan), key=_began, default=None)


def _of_spec(scope: Scope, plan: Plan) -> Iterator[RunningFolder]:
    for name in folders(scope.running):
        if not name.startswith(f"{plan.spec.id}-{plan.spec.hash}-"):
            continue
        run = RunningFolder(inside(scope.root, scope.running / name))
        try:
            document = run.document()
        except (InputError, StorageError):  # it was killed before it began
            continue
        if (document.get("hash"), document.get("plan")) == (plan.spec.hash, plan.digest):
            yield run


def _began(run: RunningFolder) -> tuple[str, float]:
    return run.run_id.split("-")[-2], os.stat(run.folder / SPEC).st_mtime


def check_room(scope: Scope, plan: Plan) -> None:
    """Refuse to begin where the disk would be full before the end."""
    per_row = _PER_ROW_WITH_LOGPROBS if plan.spec.inference.logprobs else _PER_ROW
    needed = _ROOM + plan.count * per_row
    there = next(folder for folder in (scope.folder, *scope.folder.parents) if folder.exists())
    if not os.access(there, os.W_OK):
        raise StorageError(f"cannot write to {printable(there)}: permission denied")
    free = shutil.disk_usage(there).free
    if free < needed:
        raise StorageError(
            f"{printable(there)} has {free / 2**20:,.0f} MB left; {plan.count:,} replies may take "
            f"{needed / 2**20:,.0f} MB. Make room, or name another `root=`"
        )
