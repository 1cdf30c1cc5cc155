"""Which run is active: one pointer per metric and profile, with its whole history.

A promotion puts a run on top, a rollback takes the topmost ones off again, step by step, as often as asked. Every
change is appended to the history; racing writers wait for each other, so that the history is one line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import EllipsisType
from typing import Any

from steelyard.errors import StorageError, UsageError, counted, printable
from steelyard.ground.digests import CHANGED, digest_of, is_sealed
from steelyard.ground.files import exclusive, write_atomic
from steelyard.ground.json import dumps, read_json, refusal
from steelyard.runs.attempts import last_verdict
from steelyard.runs.index import Index, Problem, RunEntry
from steelyard.runs.keys import same_but_case
from steelyard.runs.layout import Scope, View, access, checked, inside
from steelyard.runs.opening import open_run
from steelyard.runs.run_json import stamp
from steelyard.runs.saved import SavedRun

DEFAULT_PROFILE = "default"
PINNED = "pinned"  # the profile of runs that stay where they are, to gate against
ANY = "any"  # a pointer that is about no metric in particular


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

    @property
    def name(self) -> str | None:
        """The active run within its scope; ids are unique in a workflow only."""
        return entry_name(self.stack[-1]) if self.stack else None


def entry_name(entry: Mapping[str, Any]) -> str:
    """Which run an entry means, as `workflow/id`."""
    return f"{entry['Workflow']}/{entry['RunId']}"


class Pointers:
    """The pointers of one scope."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def all(self) -> list[Pointer]:
        """Every pointer there is."""
        return [_read(path) for path in pointer_files(self._scope)]

    def get(self, metric: str, profile: str = DEFAULT_PROFILE) -> Pointer:
        """The pointer of a metric and profile; an empty one where nothing was promoted."""
        path = self._path(metric, profile)
        return _read(path) if path.exists() else Pointer(metric, profile)

    def metric_key(self, metric: str | None, profile: str = DEFAULT_PROFILE) -> str:
        """The metric that is meant: the one named, else the only one that has a pointer, else none in particular.

        A name that no pointer has exactly means the one that differs in case only.
        """
        if metric is not None and self._path(metric, profile).exists():
            return metric
        if metric is not None:
            return same_but_case(metric, [p.metric for p in readable(self._scope)[0] if p.profile == profile]) or metric
        known = [pointer.metric for pointer in self.all() if pointer.profile == profile]
        if len(known) > 1 and ANY not in known:
            raise UsageError(f"several metrics have an active run; name one of {', '.join(map(printable, known))}")
        return known[0] if len(known) == 1 else ANY

    def promote(
        self,
        opened: SavedRun,
        metric: str,
        profile: str = DEFAULT_PROFILE,
        *,
        reason: str = "",
        instead_of: str | EllipsisType | None = ...,
        despite_gate: bool = False,
    ) -> Pointer:
        """Make a run active. One that is incomplete, changed or without the metric is refused.

        One whose last gate failed is made active `despite_gate` only, which the history says.

        `instead_of` is the name of the run that a decision found active: if another one is by now, nothing is changed.
        """
        run = opened.run
        if not run.complete:
            raise StorageError(f"run {opened.name} is not complete; it cannot be promoted")
        opened.verify()
        if last_verdict(self._scope, run.run_id, run.workflow) == "fail":
            if not despite_gate:
                raise UsageError(
                    f"the last gate of run {opened.name} failed; `despite_gate=True` makes it active all the same, and "
                    "the history says so"
                )
            reason = f"despite a failed gate{f': {reason}' if reason else ''}"
        key = same_but_case(metric, run.metrics)
        value = None if key is None else run.metrics[key]
        if value is None and metric != ANY:
            raise StorageError(f"run {opened.name} has no value of {printable(metric)}; it cannot be promoted")
        return self._put(opened, metric, profile, value, reason, instead_of)

    def _put(
        self,
        opened: SavedRun,
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
            if instead_of is not ... and pointer.name != instead_of:
                raise StorageError("another run became active meanwhile; decide again")
            if pointer.name == entry_name(entry):
                return pointer
            return _changed(pointer, (*pointer.stack, entry), "promote", reason)

        return self._change(metric, profile, change)

    def pin(self, opened: SavedRun, name: str, *, reason: str = "") -> Pointer:
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
                raise UsageError(f"{which} has {counted(past, 'earlier run')} to go back to, not {steps}")
            kept = pointer.stack[: len(pointer.stack) - steps]
            try:
                opened = self.opened(kept[-1])
                if not opened.run.complete:
                    raise StorageError(f"run {opened.name} is not complete any more; it cannot be active")
                opened.verify()
            except StorageError as problem:
                further = f"; {steps + 1} steps go back further" if len(kept) > 1 else ""
                raise StorageError(f"{problem}{further}") from None
            return _changed(pointer, kept, "rollback", reason)

        return self._change(metric, profile, change)

    def opened(self, entry: Mapping[str, Any]) -> SavedRun:
        """The run of an entry: where it was, or wherever in its scope the folder is now."""
        path = Path(str(entry["Folder"]))
        plain = not path.is_absolute() and ".." not in path.parts
        folder = self._scope.root / path
        if plain and folder.is_dir():
            saved = SavedRun.at(inside(self._scope.root, folder))
            if (saved.run.workflow, saved.run.run_id) == (entry["Workflow"], entry["RunId"]):
                return saved
        scope = self._scope
        with Index(scope.root, tenant=scope.tenant, domain=scope.domain) as index:
            moved = [run for run in index.runs() if run.name == entry_name(entry)]
        if len(moved) != 1:
            raise StorageError(f"run {printable(entry['RunId'])} is not here any more")
        return SavedRun.at(moved[0].folder)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Lock the pointers of the scope, so that none changes meanwhile; without any, there is nothing to lock."""
        if not self._scope.active.is_dir():
            yield
            return
        with exclusive(inside(self._scope.root, self._scope.active), access=access(self._scope.root)):
            yield

    def _change(self, metric: str, profile: str, change: Callable[[Pointer], Pointer]) -> Pointer:
        path = self._path(metric, profile)
        if not path.exists():
            change(Pointer(metric, profile))  # what is refused leaves no folder behind
        with exclusive(inside(self._scope.root, self._scope.active), access=access(self._scope.root)):
            before = _read(path) if path.exists() else Pointer(metric, profile)
            after = change(before)
            if after is not before:
                write_atomic(path, dumps(pointer_document(after)), access(self._scope.root))
        return after

    def _path(self, metric: str, profile: str) -> Path:
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", metric).strip("-.")[:60] or "metric"
        name = f"{plain}-{hashlib.sha256(metric.encode()).hexdigest()[:8]}.json"
        return inside(self._scope.root, self._scope.active / checked("profile", profile) / name)


def named_run(
    source: Any, view: View, kind: str, *, scope: Scope | None = None, profile: str = DEFAULT_PROFILE
) -> SavedRun:
    """The kept run that a name means: active, active:METRIC, pinned:NAME, or an id or a folder of a run."""
    state, _, name = source.partition(":") if isinstance(source, str) else ("", "", "")
    if state not in ("active", "pinned") or (state == "pinned" and not name):
        return open_run(source, view, kind)
    pointers = Pointers(scope or view.scope())
    profile = PINNED if state == "pinned" else profile
    pointer = pointers.get(pointers.metric_key(name or None, profile), profile)
    if not pointer.stack:
        known = [p.metric for p in pointers.all() if p.profile == profile and p.stack]
        hint = f"; there is {', '.join(map(printable, known[:5]))}" if known else "; promote or pin a run first"
        raise UsageError(f"nothing is {state} under '{printable(name or pointer.metric)}'{hint}")
    return pointers.opened(pointer.stack[-1])


def standing(runs: Sequence[RunEntry]) -> tuple[dict[str, list[str]], list[Problem]]:
    """What each run is active or pinned for, by its path, and the pointers that cannot be read."""
    paths = {(run.scope, run.name): run.path for run in runs}
    roles: dict[str, list[str]] = {}
    problems: list[Problem] = []
    for scope in dict.fromkeys(run.scope for run in runs):
        pointers, broken = readable(scope)
        problems += broken
        for pointer in pointers:
            path = paths.get((scope, pointer.name or ""))
            if path is not None:
                roles.setdefault(path, []).append(_described(pointer))
    return roles, problems


def readable(scope: Scope) -> tuple[list[Pointer], list[Problem]]:
    """The pointers of a scope, and those that cannot be read."""
    pointers, problems = [], []
    for file in pointer_files(scope):
        try:
            pointers.append(_read(file))
        except StorageError as problem:
            problems.append(Problem(file, str(problem)))
    return pointers, problems


def _described(pointer: Pointer) -> str:
    if pointer.profile == PINNED:
        return f"{PINNED}:{pointer.metric}"
    return pointer.metric if pointer.profile == DEFAULT_PROFILE else f"{pointer.metric} ({pointer.profile})"


def pointer_files(scope: Scope) -> list[Path]:
    """Where the pointers of a scope are."""
    return [path for path in sorted(scope.active.glob("*/*.json")) if not path.name.startswith(".")]


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
        if not is_sealed(document, document.get("Digest")):
            raise StorageError(f"{printable(path)}: {CHANGED}; restore it, or remove it")
        future = refusal(document)
        if future:
            raise StorageError(f"{printable(path)}: {future}")
        stack = tuple(dict(entry) for entry in document["Stack"])
        if not all({"RunId", "Workflow", "Folder", "Value"} <= set(entry) for entry in stack):
            raise KeyError
        return Pointer(str(document["Metric"]), str(document["Profile"]), stack, tuple(document["History"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise StorageError(f"{printable(path)}: not a pointer to an active run; restore it, or remove it") from None
