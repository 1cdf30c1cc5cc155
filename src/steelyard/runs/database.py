"""The SQLite file behind the index of runs: its tables, how it is opened, and one writer at a time."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from steelyard.ground.files import OWNER, PATIENCE, Access, make_file, make_folders

VERSION = 4
TABLES = ("runs", "metrics", "labels")
_SCHEMA = """
CREATE TABLE runs (
    path TEXT PRIMARY KEY, run_id TEXT, workflow TEXT, tenant TEXT, domain TEXT, started_at TEXT, completed_at TEXT,
    complete INTEGER, sealed INTEGER, labels TEXT, metrics TEXT, better TEXT, problem TEXT, state TEXT, reading TEXT);
CREATE INDEX runs_by_id ON runs (run_id);
CREATE TABLE metrics (
    run_id TEXT, metric_name TEXT, value REAL, low REAL, high REAL, n INTEGER, model TEXT, strategy TEXT, task TEXT,
    perturbation TEXT, slice TEXT, computed_at TEXT, "group.split" TEXT, path TEXT);
CREATE INDEX metrics_by_path ON metrics (path);
CREATE INDEX metrics_by_name ON metrics (metric_name, slice);
CREATE TABLE labels (run_id TEXT, key TEXT, value TEXT, path TEXT);
CREATE INDEX labels_by_path ON labels (path);
"""


def opened(path: Path, access: Access = OWNER) -> sqlite3.Connection:
    """The index file; its tables are made where they are missing or of another version."""
    make_folders(path.parent, access)
    make_file(path, access)
    end = time.monotonic() + PATIENCE
    while True:
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA secure_delete = ON")  # what is deleted may be patient data
            connection.execute("PRAGMA synchronous = NORMAL")  # the folders are the truth; the index may be lost
            _prepare(connection)
            return connection
        except sqlite3.OperationalError as problem:
            connection.close()
            if not is_lock(problem) or time.monotonic() > end:
                raise
            time.sleep(0.02)  # a change of the journal does not wait by itself
        except BaseException:
            connection.close()
            raise


def in_memory() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _prepare(connection)
    return connection


def is_lock(problem: Exception) -> bool:
    return isinstance(problem, sqlite3.OperationalError) and ("locked" in str(problem) or "busy" in str(problem))


def _prepare(connection: sqlite3.Connection) -> None:
    if _is_prepared(connection):
        return
    with transaction(connection):
        if _is_prepared(connection):
            return
        for kind, name in connection.execute(
            "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view')"
        ).fetchall():
            connection.execute(f'DROP {kind} "{name}"')
        for statement in filter(str.strip, _SCHEMA.split(";")):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _is_prepared(connection: sqlite3.Connection) -> bool:
    """True if the tables are those of this version."""
    if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        return False
    stated = {text.strip() for text in _SCHEMA.split(";") if text.strip()}
    present = {text for (text,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    return stated <= present


class transaction:  # noqa: N801 - reads as a statement
    """All or nothing, one writer at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
