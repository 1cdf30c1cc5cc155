"""Which run is active: one pointer per metric and profile, with its whole history.

A promotion puts a run on top, a rollback takes the topmost ones off again, step by step, as often as asked. Every
change is appended to the history; racing writers wait for each other, so that the history is one line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import EllipsisType
from typing import Any

from steelyard.errors import StorageError, UsageError, printable
from steelyard.runs.artifact import dumps
from steelyard.runs.index import Index
from steelyard.runs.keeping import Opened
from steelyard.runs.layout import Scope, checked, inside
from steelyard.runs.run_json import digest_of, stamp
from steelyard.runs.store import exclusive, read_json, write_atomic

DEFAULT_PROFILE = "default"
PINNED = "pinned"  # the profile of runs that stay where they are, to gate against
ANY = "any"  # a pointer that is about no metric in particular
SUPPORTED = ("1",)


@dataclass(frozen=True)
class Pointer:
    """The active run of a metric and profile. `stack`: the promoted runs that were not rolled back, newest last."""

    metric: str
    profile: str
    stack: tuple[Mapping[str, Any], ...] = ()
    history: tuple[Mapping[str, Any], ...] = ()

    @property
    def run_id(self) -> str | None:
        return str(self.stack[-1]["RunId"]) if self.stack else None


class Pointers:
    """The pointers of one scope."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def all(self) -> list[Pointer]:
        """Every pointer there is."""
        return [_read(path) for path in sorted(self._scope.active.glob("*/*.json")) if not path.name.startswith(".")]

    def get(self, metric: str, profile: str = DEFAULT_PROFILE) -> Pointer:
        """The pointer of a metric and profile; an empty one where nothing was promoted."""
        path = self._path(metric, profile)
        return _read(path) if path.exists() else Pointer(metric, profile)

    def chosen(self, metric: str | None, profile: str = DEFAULT_PROFILE) -> str:
        """The metric that is meant: the one named, else the only one that has a pointer, else none in particular."""
        if metric is not None:
            return metric
        known = [pointer.metric for pointer in self.all() if pointer.profile == profile]
        if len(known) > 1 and ANY not in known:
            raise UsageError(f"several metrics have an active run; choose one with --metric: {', '.join(known)}")
        return known[0] if len(known) == 1 else ANY

    def promote(
        self,
        opened: Opened,
        metric: str,
        profile: str = DEFAULT_PROFILE,
        *,
        reason: str = "",
        instead_of: str | EllipsisType | None = ...,
    ) -> Pointer:
        """Make a run active. One that is incomplete, changed or without the metric is refused.

        `instead_of` is the run that a decision found active: if another one is by now, nothing is changed.
        """
        run = opened.run
        if not run.complete:
            raise StorageError(f"run {opened.name} is not complete; it cannot be promoted")
        opened.verify()
        value = run.value(metric)
        if value is None and metric != ANY:
            raise StorageError(f"run {opened.name} has no value of {printable(metric)}; it cannot be promoted")
        return self._put(opened, metric, profile, value, reason, instead_of)

    def _put(
        self,
        opened: Opened,
        metric: str,
        profile: str,
        value: float | None,
        reason: str,
        instead_of: str | EllipsisType | None = ...,
    ) -> Pointer:
        run = opened.run
        entry = {
            "RunId": run.run_id,
            "Workflow": run.workflow,
            "Folder": str(opened.folder.relative_to(self._scope.root)),
            "Value": value,
        }

        def change(pointer: Pointer) -> Pointer:
            if instead_of is not ... and pointer.run_id != instead_of:
                raise StorageError("another run became active meanwhile; decide again")
            if pointer.run_id == run.run_id:
                return pointer
            return _changed(pointer, (*pointer.stack, entry), "promote", reason)

        return self._change(metric, profile, change)

    def pin(self, opened: Opened, name: str, *, reason: str = "") -> Pointer:
        """Pin a run under a name, to gate against."""
        if not opened.run.complete:
            raise StorageError(f"run {opened.name} is not complete; it cannot be pinned")
        opened.verify()
        return self._put(opened, name, PINNED, None, reason)

    def rollback(self, metric: str, profile: str = DEFAULT_PROFILE, *, steps: int = 1, reason: str = "") -> Pointer:
        """Go back to the run that was active before, `steps` promotions ago."""
        if steps < 1:
            raise UsageError("a rollback takes at least one step")

        def change(pointer: Pointer) -> Pointer:
            if len(pointer.stack) <= steps:
                past = max(len(pointer.stack) - 1, 0)
                which = f"{printable(metric)} ({printable(profile)})"
                raise StorageError(f"{which} has {past} earlier runs to go back to, not {steps}")
            kept = pointer.stack[: len(pointer.stack) - steps]
            opened = self.opened(kept[-1])
            if not opened.run.complete:
                raise StorageError(f"run {opened.name} is not complete any more; it cannot be active")
            opened.verify()
            return _changed(pointer, kept, "rollback", reason)

        return self._change(metric, profile, change)

    def opened(self, entry: Mapping[str, Any]) -> Opened:
        """The run of an entry: where it was, or wherever a folder with its id is now."""
        path = Path(str(entry["Folder"]))
        plain = not path.is_absolute() and ".." not in path.parts
        folder = self._scope.root / path
        if plain and folder.is_dir():
            found = Opened.at(inside(self._scope.root, folder))
            if found.run.run_id == entry["RunId"]:
                return found
        with Index(self._scope.root) as index:
            moved = [r for r in index.runs(domain=self._scope.domain) if r.run_id == entry["RunId"]]
        mine = [run for run in moved if run.tenant == self._scope.tenant]
        if len(mine) != 1:
            raise StorageError(f"run {printable(entry['RunId'])} is not here any more")
        return Opened.at(mine[0].folder)

    def _change(self, metric: str, profile: str, change: Callable[[Pointer], Pointer]) -> Pointer:
        path = self._path(metric, profile)
        with exclusive(inside(self._scope.root, self._scope.active)):
            before = _read(path) if path.exists() else Pointer(metric, profile)
            after = change(before)
            if after is not before:
                write_atomic(path, dumps(pointer_document(after)))
        return after

    def _path(self, metric: str, profile: str) -> Path:
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", metric).strip("-.")[:60] or "metric"
        name = f"{plain}-{hashlib.sha256(metric.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.json"
        return inside(self._scope.root, self._scope.active / checked("profile", profile) / name)


def _changed(pointer: Pointer, stack: Sequence[Mapping[str, Any]], action: str, reason: str) -> Pointer:
    entry = {
        "Seq": len(pointer.history) + 1,
        "Action": action,
        "RunId": stack[-1]["RunId"],
        "PreviousRunId": pointer.run_id,
        "Value": stack[-1]["Value"],
        "AtUtc": stamp(datetime.now(UTC)),
        "Reason": reason,
    }
    return replace(pointer, stack=tuple(stack), history=(*pointer.history, entry))


def pointer_document(pointer: Pointer) -> dict[str, Any]:
    """The pointer as plain data."""
    document = {
        "SchemaVersion": "1",
        "Metric": pointer.metric,
        "Profile": pointer.profile,
        "RunId": pointer.run_id,
        "Stack": [dict(entry) for entry in pointer.stack],
        "History": [dict(entry) for entry in pointer.history],
    }
    return {**document, "Digest": digest_of(document)}


def _read(path: Path) -> Pointer:
    try:
        document = read_json(path)
        if document.get("Digest") != digest_of(document):
            raise StorageError(f"{printable(path)}: was changed after it was written; restore it, or remove it")
        if document["SchemaVersion"] not in SUPPORTED:
            raise StorageError(
                f"{printable(path)}: version {printable(document['SchemaVersion'], limit=20)} is not supported"
            )
        stack = tuple(dict(entry) for entry in document["Stack"])
        if not all({"RunId", "Folder", "Value"} <= set(entry) for entry in stack):
            raise KeyError
        return Pointer(str(document["Metric"]), str(document["Profile"]), stack, tuple(document["History"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise StorageError(f"{printable(path)}: not a pointer to an active run; restore it, or remove it") from None
