"""The index of runs: an SQLite file that can be thrown away, because the folders are the truth.

Every use first looks at the folders: what is new or changed is read, what is gone is forgotten. A run that cannot be
read is remembered with its problem and hides no other.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from steelyard.errors import StorageError, UsageError, printable
from steelyard.halves import mended
from steelyard.naming import slice_text, split_slice
from steelyard.records.schema import CELL, SPLIT
from steelyard.registry import closest
from steelyard.runs import run_json
from steelyard.runs.database import TABLES, in_memory, is_lock, opened, transaction
from steelyard.runs.layout import Scope, View, access, results, run_folders, scopes
from steelyard.runs.run_json import Run, read_run

_made_here: list[Path] = []  # indexes that were not there before


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """A run as the index knows it, and where it is."""

    run_id: str
    workflow: str
    tenant: str | None
    domain: str
    started_at: str
    completed_at: str | None
    complete: bool
    sealed: bool
    labels: Mapping[str, str]
    metrics: Mapping[str, float]
    root: Path
    path: str
    better: Mapping[str, str] = field(default_factory=dict)  # which direction is, as the run recorded it
    reading: Mapping[str, Any] = field(default_factory=dict)  # how its rows were chosen and read

    @property
    def folder(self) -> Path:
        return self.root / self.path

    @property
    def scope(self) -> Scope:
        return Scope(self.root, self.domain, self.tenant)

    @property
    def name(self) -> str:
        """The run within its scope: ids are unique in a workflow only."""
        return f"{self.workflow}/{self.run_id}"

    @property
    def latest(self) -> str:
        return self.completed_at or self.started_at


@dataclass(frozen=True)
class Cell:
    """The numbers of one cell of a run: of one model, strategy, task and perturbation where it has several.

    `path` tells runs apart: ids repeat in other workflows, domains and tenants.
    """

    path: str
    run_id: str
    workflow: str
    domain: str
    cell: Mapping[str, str]
    values: dict[str, float]


@dataclass(frozen=True)
class Problem:
    """A run folder that cannot be used, and why."""

    folder: Path
    problem: str


class Index:
    """The runs under a root, in step with their folders.

    Tenants are walls: an index shows the runs of one tenant, or of none, in one domain or in all. Only one that was
    opened for `all_tenants` sees across.
    """

    def __init__(
        self,
        root: Path,
        *,
        tenant: str | None = None,
        domain: str | None = None,
        all_tenants: bool = False,
        rebuild: bool = False,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self.root, self._progress = root, progress
        self._seen, self._values = _walls(tenant, domain, all_tenants=all_tenants)
        path = results(root) / ".index" / "runs.sqlite"
        if not results(root).is_dir() or path.parent.is_symlink():
            self._connection = in_memory()
            return  # nothing was ever kept here, and looking makes nothing
        if not path.parent.exists():
            _made_here.append(path)
        for _ in range(2):
            try:
                self._connection = opened(path, access(root))
                try:
                    self._sync(rebuild=rebuild)
                except BaseException:
                    self._connection.close()
                    raise
                return
            except (sqlite3.Error, OSError) as problem:
                if is_lock(problem):
                    raise StorageError("the index of runs is locked by another process; try again") from None
                _remove(path)
        self._connection = in_memory()
        self._sync()

    @classmethod
    def within(cls, view: View, **options: Any) -> Index:
        """The index of what a view may see."""
        return cls(view.root, tenant=view.tenant, domain=view.domain, **options)

    def _without_file(self) -> None:
        """Build the index in memory, where none can be kept or trusted."""
        self._connection.close()
        self._connection = in_memory()
        self._sync()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _asked(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query; what a damaged file cannot say, the folders can."""
        try:
            return self._connection.execute(query, list(values)).fetchall()
        except sqlite3.DatabaseError:
            _remove(results(self.root) / ".index" / "runs.sqlite")
            self._without_file()
            return self._connection.execute(query, list(values)).fetchall()

    def settle(self) -> None:
        """Leave no trace of what is gone: freed pages are overwritten, and the journal is emptied."""
        self._asked("PRAGMA wal_checkpoint(TRUNCATE)")

    def runs(self, *, workflow: str | None = None) -> list[RunEntry]:
        """Every usable run, the newest first."""
        where, values = ("", []) if workflow is None else (" AND workflow = ?", [workflow])
        query = f"SELECT {_COLUMNS} FROM runs WHERE problem IS NULL AND {self._seen}{where}"
        rows = self._asked(f"{query} ORDER BY started_at DESC, run_id", [*self._values, *values])
        return [_listed(self.root, row) for row in rows]

    def problems(self) -> list[Problem]:
        query = f"SELECT path, problem FROM runs WHERE problem IS NOT NULL AND {self._seen} ORDER BY path"
        return [Problem(self.root / path, problem) for path, problem in self._asked(query, self._values)]

    def find(self, name: str) -> RunEntry:
        """One run by its id or the beginning of it (four characters or more); `workflow/id` where ids repeat."""
        runs = self.runs()
        matches = [run for run in runs if name in (run.run_id, run.name)] or [run for run in runs if run.path == name]
        broken = [p for p in self.problems() if p.folder.name == name]
        if broken and not matches:
            raise StorageError(broken[0].problem)
        if not matches and len(name) >= 4:
            matches = [run for run in runs if run.run_id.startswith(name)]
        if len(matches) == 1:
            return matches[0]
        shown = printable(name, limit=60)
        if matches:
            names = [run.name for run in matches]
            several = names if len(set(names)) > 1 else [run.path for run in matches]
            raise UsageError(
                f"'{shown}' means {len(matches)} runs; choose one: {', '.join(map(printable, several[:4]))}"
            )
        near = closest(name, [run.run_id for run in runs])
        hint = f"did you mean '{printable(near)}'?" if near else "see `steelyard runs list`"
        raise UsageError(f"'{shown}' is no run here; {hint}")

    def cells(self) -> tuple[list[str], list[Cell]]:
        """The metrics of every run and cell: their names, and a row per run and cell; a run without any has one."""
        query = f"SELECT path, run_id, workflow, domain FROM runs WHERE problem IS NULL AND {self._seen}"
        who = {path: names for path, *names in self._asked(f"{query} ORDER BY started_at DESC, run_id", self._values)}
        whole: dict[str, dict[str, float]] = {path: {} for path in who}
        for path, name, value in self._asked("SELECT path, metric_name, value FROM metrics WHERE slice = ''"):
            if path in whole:
                whole[path][name] = value
        parts: dict[str, dict[tuple[str | None, ...], dict[str, float]]] = {path: {} for path in who}
        columns = ", ".join(map(_quoted, CELL))
        query = f"SELECT path, metric_name, value, slice, {columns} FROM metrics WHERE slice != ''"
        for path, name, value, slice_, *cell in self._asked(query):
            if path in parts and slice_ == slice_text(_named(cell)):  # else it is a part of a cell
                parts[path].setdefault(tuple(cell), {})[name] = value
        rows = []
        for path, (run_id, workflow, domain) in who.items():
            if whole[path] or not parts[path]:
                rows.append(Cell(path, run_id, workflow, domain, {}, whole[path]))
            rows += [Cell(path, run_id, workflow, domain, _named(cell), values) for cell, values in parts[path].items()]
        return sorted({name for row in rows for name in row.values}), rows

    def names(self) -> list[str]:
        """The names of all metrics that may be seen."""
        query = f"SELECT DISTINCT m.metric_name FROM metrics m JOIN runs r ON r.path = m.path WHERE {self._seen}"
        return [name for (name,) in self._asked(query, self._values)]

    def rows(self, *metrics: str, of_runs: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
        """The table of metrics, one row per number, and behind it columns `of_runs`, such as their workflow."""
        where = f" AND m.metric_name IN ({', '.join('?' * len(metrics))})" if metrics else ""
        columns = ", ".join((*(f"m.{_quoted(c)}" for c in METRIC_COLUMNS), *(f"r.{c}" for c in of_runs)))
        query = f"SELECT {columns} FROM metrics m JOIN runs r ON r.path = m.path WHERE {self._seen}{where}"
        yield from self._asked(f"{query} ORDER BY m.run_id, m.metric_name, m.slice", [*self._values, *metrics])

    # -- keeping in step ---------------------------------------------------------------------------------------------

    def _sync(self, *, rebuild: bool = False) -> None:
        if not rebuild and not any(self._changes()[:2]):
            return
        with transaction(self._connection):  # looked at again: another process may have been here
            if rebuild:
                for table in TABLES:
                    self._connection.execute(f"DELETE FROM {table}")
            stale, gone, on_disk, states = self._changes()
            for path in (*gone, *stale):
                for table in TABLES:
                    self._connection.execute(f"DELETE FROM {table} WHERE path = ?", (path,))
            for done, path in enumerate(stale):
                self._add(path, on_disk[path], self.root / path, states[path])
                if self._progress is not None and done % 100 == 0:
                    self._progress(done / len(stale))

    def _changes(self) -> tuple[list[str], list[str], dict[str, Scope], dict[str, str]]:
        """Folders that are new or changed, and those that are gone."""
        on_disk = {path: scope for scope in scopes(self.root) for path in run_folders(scope)}
        states = {path: _state(f"{self.root}/{path}/{run_json.NAME}") for path in on_disk}
        known = dict(self._connection.execute("SELECT path, state FROM runs"))
        stale = [path for path, state in states.items() if known.get(path) != state]
        return stale, [path for path in known if path not in on_disk], on_disk, states

    def _add(self, path: str, scope: Scope, folder: Path, state: str) -> None:
        try:
            run = read_run(folder)
            if run.sealed and run.tenant != scope.tenant:
                raise StorageError(f"run {printable(folder.name)}: Tenant: the run lies in another tenant's folder")
        except StorageError as error:
            self._connection.execute(
                "INSERT INTO runs (path, run_id, domain, tenant, problem, state) VALUES (?, NULL, ?, ?, ?, ?)",
                (path, scope.domain, scope.tenant, str(error), state),
            )
            return
        self._connection.execute(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?)",
            (
                path, run.run_id, run.workflow, scope.tenant, scope.domain, run.started_at,
                run.completed_at, run.complete, run.sealed, json.dumps(dict(run.labels)),
                json.dumps(dict(run.metrics)), json.dumps(dict(run.better) if run.sealed else {}), state,
                json.dumps(dict(run.reading)),
            ),
        )  # fmt: skip
        self._connection.executemany(
            f"INSERT INTO metrics VALUES ({', '.join('?' * (len(METRIC_COLUMNS) + 1))})",
            ((*row, path) for row in _metric_rows(run)),
        )
        labels = [(run.run_id, key, value, path) for key, value in run.labels.items()]
        self._connection.executemany("INSERT INTO labels VALUES (?, ?, ?, ?)", labels)


def _quoted(column: str) -> str:
    return f'"{column}"'


def _named(cell: Sequence[str | None]) -> dict[str, str]:
    return {column: text for column, text in zip(CELL, cell, strict=True) if text is not None}


def _walls(tenant: str | None, domain: str | None, *, all_tenants: bool) -> tuple[str, list[str]]:
    """What may be seen, as a condition on the table of runs and its values."""
    if all_tenants:
        return "1 = 1", []
    condition, values = ("tenant IS NULL", []) if tenant is None else ("tenant = ?", [tenant])
    return (condition, values) if domain is None else (f"{condition} AND domain = ?", [*values, domain])


METRIC_COLUMNS = ("run_id", "metric_name", "value", "low", "high", "n", *CELL[:-1], "slice", "computed_at", SPLIT)
_COLUMNS = """
    run_id, workflow, tenant, domain, started_at, completed_at, complete, sealed, labels, metrics, better, reading, path
"""


def _listed(root: Path, row: tuple[Any, ...]) -> RunEntry:
    run_id, workflow, tenant, domain, started, completed, complete, sealed, labels, metrics, better, reading, path = row
    return RunEntry(
        run_id=run_id,
        workflow=workflow,
        tenant=tenant,
        domain=domain,
        started_at=started,
        completed_at=completed,
        complete=bool(complete),
        sealed=bool(sealed),
        labels=_decoded(labels),
        metrics=_decoded(metrics),
        root=root,
        path=path,
        better=_decoded(better),
        reading=_decoded(reading),
    )


def _decoded(text: str) -> Any:
    return msgspec.json.decode(mended(text.encode()))


def _metric_rows(run: Run) -> Iterable[tuple[Any, ...]]:
    for key, value in run.metrics.items():
        name, slice_ = split_slice(key)
        low, high = run.intervals.get(key, (None, None))
        *cell, split = [slice_.get(column) for column in CELL]
        when = run.completed_at or run.started_at
        yield (run.run_id, name, value, low, high, run.counts.get(key), *cell, slice_text(slice_), when, split)


def _state(path: str) -> str:
    """What changes when the file does, whoever changes it."""
    try:
        status = os.lstat(path)
    except OSError:
        return "missing"
    return f"{status.st_mtime_ns}-{status.st_ctime_ns}-{status.st_size}-{status.st_ino}"


def take_back() -> None:
    """Remove the indexes that were not there before this process: what fails leaves nothing behind."""
    for path in _made_here:
        _remove(path)
        with suppress(OSError):
            path.parent.rmdir()
    _made_here.clear()


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
