"""The index of runs: an SQLite file that can be thrown away, because the folders are the truth.

Every use first looks at the folders: what is new or changed is read, what is gone is forgotten. A run that cannot be
read is remembered with its problem and hides no other.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from steelyard.errors import StorageError, UsageError, printable
from steelyard.naming import parse, slice_text
from steelyard.runs import run_json
from steelyard.runs.layout import Scope, results, run_folders, scopes
from steelyard.runs.run_json import Run, read_run
from steelyard.runs.store import PATIENCE

VERSION = 1
_CELL = ("model", "strategy", "task", "perturbation")
_SCHEMA = """
CREATE TABLE runs (
    path TEXT PRIMARY KEY, run_id TEXT, workflow TEXT, tenant TEXT, domain TEXT, started_at TEXT, completed_at TEXT,
    complete INTEGER, sealed INTEGER, labels TEXT, metrics TEXT, problem TEXT, state TEXT);
CREATE INDEX runs_by_id ON runs (run_id);
CREATE TABLE metrics (
    run_id TEXT, metric_name TEXT, value REAL, low REAL, high REAL, n INTEGER, model TEXT, strategy TEXT, task TEXT,
    perturbation TEXT, slice TEXT, computed_at TEXT, path TEXT);
CREATE INDEX metrics_by_path ON metrics (path);
CREATE INDEX metrics_by_name ON metrics (metric_name, slice);
CREATE TABLE labels (run_id TEXT, key TEXT, value TEXT, path TEXT);
CREATE INDEX labels_by_path ON labels (path);
"""


@dataclass(frozen=True)
class Listed:
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

    @property
    def folder(self) -> Path:
        return self.root / self.path

    @property
    def scope(self) -> Scope:
        return Scope(self.root, self.domain, self.tenant)

    @property
    def latest(self) -> str:
        return self.completed_at or self.started_at


@dataclass(frozen=True)
class Problem:
    """A run folder that cannot be used, and why."""

    folder: Path
    problem: str


class Index:
    """The runs under a root, in step with their folders."""

    def __init__(self, root: Path, *, rebuild: bool = False, progress: Callable[[float], None] | None = None) -> None:
        self.root = root
        self._connection = _opened(root, rebuild)
        self._sync(progress)

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def runs(
        self, *, tenant: str | None = None, domain: str | None = None, workflow: str | None = None
    ) -> list[Listed]:
        """Every usable run, the newest first."""
        wanted = {"tenant": tenant, "domain": domain, "workflow": workflow}
        given = {column: value for column, value in wanted.items() if value is not None}
        where = "".join(f" AND {column} = ?" for column in given)
        query = f"SELECT {_COLUMNS} FROM runs WHERE problem IS NULL{where} ORDER BY started_at DESC, run_id"
        return [_listed(self.root, row) for row in self._connection.execute(query, list(given.values()))]

    def problems(self) -> list[Problem]:
        query = "SELECT path, problem FROM runs WHERE problem IS NOT NULL ORDER BY path"
        return [Problem(self.root / path, problem) for path, problem in self._connection.execute(query)]

    def find(self, run_id: str, *, tenant: str | None = None, domain: str | None = None) -> Listed:
        """One run by its id, or by the beginning of it (four characters or more)."""
        runs = self.runs(tenant=tenant, domain=domain)
        found = [run for run in runs if run.run_id == run_id]
        broken = [p for p in self.problems() if p.folder.name == run_id]
        if broken and not found:
            raise StorageError(broken[0].problem)
        if not found and len(run_id) >= 4:
            found = [run for run in runs if run.run_id.startswith(run_id)]
        if len(found) == 1:
            return found[0]
        shown = ", ".join(printable(run.path) for run in found[:4])
        problem = f"means {len(found)} runs ({shown})" if found else "is no run here; see `steelyard runs list`"
        raise StorageError(f"'{printable(run_id, limit=60)}' {problem}")

    def pivot(self) -> tuple[list[str], list[tuple[str, dict[str, float]]]]:
        """The metrics of whole tables: their names, and every run's values."""
        values: dict[str, tuple[str, dict[str, float]]] = {}
        names: dict[str, None] = {}
        query = "SELECT path, run_id, metric_name, value FROM metrics WHERE slice = ''"
        for path, run_id, name, value in self._connection.execute(query):
            values.setdefault(path, (run_id, {}))[1][name] = value
            names[name] = None
        return sorted(names), list(values.values())

    def rows(self, metric: str | None = None) -> Iterator[tuple[Any, ...]]:
        """The table of metrics, a row a number."""
        where = "" if metric is None else " WHERE metric_name = ?"
        query = f"SELECT {', '.join(METRIC_COLUMNS)} FROM metrics{where} ORDER BY run_id, metric_name, slice"
        yield from self._connection.execute(query, () if metric is None else (metric,))

    # -- keeping in step ---------------------------------------------------------------------------------------------

    def _sync(self, progress: Callable[[float], None] | None) -> None:
        on_disk = {path: scope for scope in scopes(self.root) for path in run_folders(scope)}
        known = dict(self._connection.execute("SELECT path, state FROM runs"))
        states = {path: _state(f"{self.root}/{path}/{run_json.NAME}") for path in on_disk}
        stale = [path for path, state in states.items() if known.get(path) != state]
        gone = [path for path in known if path not in on_disk]
        if not stale and not gone:
            return
        with _transaction(self._connection):
            for path in (*gone, *stale):
                for table in ("runs", "metrics", "labels"):
                    self._connection.execute(f"DELETE FROM {table} WHERE path = ?", (path,))
            for done, path in enumerate(stale):
                self._add(path, on_disk[path], self.root / path, states[path])
                if progress is not None and done % 100 == 0:
                    progress(done / len(stale))

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
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?)",
            (
                path, run.run_id, run.workflow, scope.tenant, scope.domain, run.started_at,
                run.completed_at, run.complete, run.sealed, json.dumps(dict(run.labels)),
                json.dumps(dict(run.metrics)), state,
            ),
        )  # fmt: skip
        self._connection.executemany(
            f"INSERT INTO metrics VALUES ({', '.join('?' * 13)})",
            ((*row, path) for row in _metric_rows(run)),
        )
        labels = [(run.run_id, key, value, path) for key, value in run.labels.items()]
        self._connection.executemany("INSERT INTO labels VALUES (?, ?, ?, ?)", labels)


METRIC_COLUMNS = ("run_id", "metric_name", "value", "low", "high", "n", *_CELL, "slice", "computed_at")
_COLUMNS = "run_id, workflow, tenant, domain, started_at, completed_at, complete, sealed, labels, metrics, path"


def _listed(root: Path, row: tuple[Any, ...]) -> Listed:
    run_id, workflow, tenant, domain, started, completed, complete, sealed, labels, metrics, path = row
    known = msgspec.json.decode(labels), msgspec.json.decode(metrics)
    return Listed(
        run_id, workflow, tenant, domain, started, completed, bool(complete), bool(sealed), *known, root, path
    )


def _metric_rows(run: Run) -> Iterable[tuple[Any, ...]]:
    for key, value in run.metrics.items():
        name, slice_ = _split(key)
        low, high = run.intervals.get(key, (None, None))
        cell = [slice_.get(column) for column in _CELL]
        text = slice_text(slice_)
        yield (run.run_id, name, value, low, high, run.counts.get(key), *cell, text, run.completed_at or run.started_at)


def _split(key: str) -> tuple[str, dict[str, str]]:
    """A flat key as the metric's name and its slice; a key of another tool is a name of its own."""
    if not key.endswith("}"):
        return key, {}
    try:
        expr = parse(key)
    except UsageError:
        return key, {}
    return str(replace(expr, slice=())), dict(expr.slice)


def _state(path: str) -> str:
    """What changes when the file does, whoever changes it."""
    try:
        found = os.lstat(path)
    except OSError:
        return "missing"
    return f"{found.st_mtime_ns}-{found.st_ctime_ns}-{found.st_size}-{found.st_ino}"


def _opened(root: Path, rebuild: bool) -> sqlite3.Connection:
    """The index file, made anew where it is missing, of another version or damaged; in memory where none can be."""
    path = results(root) / ".index" / "runs.sqlite"
    for _ in range(2 if results(root).is_dir() and not path.parent.is_symlink() else 0):
        try:
            path.parent.mkdir(exist_ok=True)
            connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
            _prepare(connection, rebuild=rebuild)
            return connection
        except sqlite3.OperationalError as problem:
            if "locked" in str(problem):
                raise StorageError("the index of runs is locked by another process; try again") from None
            break
        except sqlite3.DatabaseError:
            _remove(path)
        except OSError:
            break
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _prepare(connection, rebuild=False)
    return connection


def _prepare(connection: sqlite3.Connection, *, rebuild: bool) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # the folders are the truth; the index may be lost
    with _transaction(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == VERSION and not rebuild:
            return
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            connection.execute(f'DROP TABLE "{name}"')
        for statement in filter(str.strip, _SCHEMA.split(";")):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


class _transaction:  # noqa: N801 - reads as a statement
    """All or nothing, one writer at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        self._connection.execute("COMMIT" if kind is None else "ROLLBACK")


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
