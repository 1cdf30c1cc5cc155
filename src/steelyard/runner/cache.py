"""Replies that were paid for once, kept in a SQLite file that only its owner can read.

    with ReplyCache(path) as cache:
        reply = cache.get(backend, request)
        ...
        cache.put(backend, request, reply)

A reply is found again under the digest of everything that changes an answer: the backend with its address and options,
the model, the messages, the settings, the schema. Only the first repeat of deterministic requests (temperature 0) is
kept and served, and only replies that are of use. One served has no latency and says that it is `cached`.

The cache is never in the way: a thread writes what has come together, in one transaction; what it cannot write is not
kept, with a warning. The write-ahead log keeps the file whole if the process is killed at any moment. A file that is
damaged is set aside under another name, a damaged row counts as not there.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import sqlite3
import threading
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from steelyard.errors import printable
from steelyard.ground.files import OWNER, PATIENCE, make_file, make_folders, reason
from steelyard.halves import mended
from steelyard.runner.backends.contract import Backend, Reply, Request, fingerprint

VERSION = 1
MUCH = 4_096  # replies in one transaction, at most
EVERY = 0.2  # seconds between two transactions, at least
_TABLE = "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, checksum INTEGER, reply BLOB) WITHOUT ROWID"
_READING = 1.0  # seconds that a reader waits for a lock, which in a write-ahead log hardly ever happens
_Entry = tuple[bytes, int, bytes]


class ReplyCache:
    """Replies by what was asked, for one event loop or thread; several processes may share the file.

    `hits` counts what was served, `damaged` the rows that could not be. `warnings` say what the cache could not do.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.warnings: list[str] = []
        self.hits = self.damaged = 0
        self._fresh: dict[bytes, bytes] = {}  # not written yet
        self._entries: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._spoiled = False
        self._reading = self._opened()
        self._writer = threading.Thread(target=self._write, name="cache", daemon=True)
        self._writer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what is left."""
        self._closing.set()
        self._entries.put(None)
        self._writer.join()
        if self._reading is not None:
            self._reading.close()
            self._reading = None
        if self._spoiled:
            self._spoiled = False
            self._set_aside()

    def get(self, backend: Backend, request: Request) -> Reply | None:
        """The reply to the same request from before, None where there is none or it must be asked for again."""
        key = _key(backend, request)
        data = None if key is None else self._fresh.get(key) or self._kept(key)
        if data is None:
            return None
        try:
            reply = Reply.of(json.loads(mended(data)))
        except ValueError:
            self.damaged += 1
            return None
        self.hits += 1
        return replace(reply, latency_ms=None, signals=None, retries=0, cached=True)

    def put(self, backend: Backend, request: Request, reply: Reply) -> None:
        """Keep a reply, if it is one that `get` may serve."""
        key = _key(backend, request)
        if key is None or reply.failure or reply.cached or reply.text is None:
            return
        data = json.dumps(reply.document(), separators=(",", ":")).encode()
        self._fresh[key] = data
        self._entries.put((key, zlib.crc32(data), data))

    def _kept(self, key: bytes) -> bytes | None:
        if self._reading is None:
            return None
        try:
            row = self._reading.execute("SELECT checksum, reply FROM replies WHERE key = ?", (key,)).fetchone()
        except sqlite3.OperationalError:  # locked
            return None
        except sqlite3.Error:
            self._spoiled = True
            self._reading.close()
            self._reading = None
            return None
        if row is None:
            return None
        checksum, data = row
        if not isinstance(data, bytes) or checksum != zlib.crc32(data):
            self.damaged += 1
            return None
        return data

    # -- the file ----------------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection | None:
        """The file, a new one if the one that is there cannot be used; None if none can be had."""
        try:
            return _connected(self.path, _READING)
        except sqlite3.OperationalError as problem:  # locked, or no place to write
            self.warnings.append(f"the cache {printable(self.path)} is not used ({problem})")
        except OSError as problem:
            self.warnings.append(f"the cache {printable(self.path)} is not used ({reason(problem)})")
        except sqlite3.DatabaseError:
            self._set_aside()
            with suppress(sqlite3.Error, OSError):
                return _connected(self.path, _READING)
        return None

    def _set_aside(self) -> None:
        aside = self.path.with_name(f"{self.path.name}.damaged-{secrets.token_hex(4)}")
        try:
            for suffix in ("-wal", "-shm", ""):
                with suppress(FileNotFoundError):
                    os.replace(f"{self.path}{suffix}", f"{aside}{suffix}")
        except OSError as problem:
            self.warnings.append(f"the cache {printable(self.path)} is damaged and stays so ({reason(problem)})")
            return
        self.warnings.append(
            f"the cache {printable(self.path)} was damaged or of another version; it is set aside as "
            f"{printable(aside.name)}, and a new one begins"
        )

    def _write(self) -> None:
        """What the thread does until the cache is closed: all that waits in one transaction, then a pause."""
        connection = None
        try:
            while (entry := self._entries.get()) is not None:
                if self._reading is None and connection is None:
                    continue
                self._closing.wait(EVERY)
                entries, ending = self._together(entry)
                connection = connection or _connected(self.path, PATIENCE)
                with connection:
                    connection.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", entries)
                for key, _, data in entries:
                    if self._fresh.get(key) is data:
                        del self._fresh[key]
                if ending:
                    return
        except (sqlite3.Error, OSError) as problem:
            self._spoiled |= isinstance(problem, sqlite3.Error) and not isinstance(problem, sqlite3.OperationalError)
            self.warnings.append(f"the cache {printable(self.path)} is not written any more ({problem})")
        finally:
            if connection is not None:
                connection.close()

    def _together(self, first: _Entry) -> tuple[list[_Entry], bool]:
        """What waits besides the first, and whether that is the end."""
        entries = [first]
        with suppress(queue.Empty):
            while len(entries) < MUCH:
                entry = self._entries.get_nowait()
                if entry is None:
                    return entries, True
                entries.append(entry)
        return entries, False


def _key(backend: Backend, request: Request) -> bytes | None:
    """The digest of all that changes an answer, None where a reply must not be kept."""
    if request.repeat != 1 or not request.inference.is_deterministic:
        return None
    identity = backend.identity()
    return None if identity is None else fingerprint({"backend": identity, "request": request.digest})


def _connected(path: Path, patience: float) -> sqlite3.Connection:
    """The file with its table; sqlite3.DatabaseError where it is something else."""
    make_folders(path.parent, OWNER)
    make_file(path, OWNER)
    connection = sqlite3.connect(path, timeout=patience, check_same_thread=False)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError("another version")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # what a power cut takes is asked for again
        connection.execute(_TABLE)
        if version == 0:
            connection.execute(f"PRAGMA user_version = {VERSION}")
        return connection
    except BaseException:
        connection.close()
        raise
