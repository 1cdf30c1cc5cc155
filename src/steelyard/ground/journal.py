"""An append-only file of rows, of which each is there whole or not at all.

    with Journal(path) as journal:
        journal.append({"item": "q1", "reply": "..."})    # handed to the system; never waits for the disk
        journal.flush()                                    # what was appended is on disk now

A row is a line: the checksum of a JSON document, and the document.

    5d0c41b2 {"item":"q1","reply":"..."}

A row is written when it is appended, so that a process that is killed loses none. A thread syncs what has come
together, every fifth of a second, or as soon as it is much: a machine that stops loses at most what was not synced, and
leaves at most half a row at the end, which readers pass over and the next writer takes away. A row in the middle that
was damaged is refused: it may have been anything.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec

from steelyard.errors import StorageError, printable
from steelyard.ground.files import exclusive, flush_folder, reason
from steelyard.halves import mended

EVERY = 0.2  # seconds between two syncs, at most
MUCH = 512  # rows that are not left waiting
LONGEST = 2**28  # bytes of a row
PATIENCE = 1.0  # seconds to wait for another writer: it may write for hours
_OPEN = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Journal:
    """The one writer of a journal. `torn` is how many bytes of half a row it found at the end, and took away."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.torn = 0
        self._news = threading.Condition()
        self._appended = self._written = self._synced = self._wanted = 0
        self._closing = False
        self._problem = ""
        self._closed = ExitStack()
        with ExitStack() as opening:
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                opening.enter_context(exclusive(self.path.parent, patience=PATIENCE))
                self._file = os.open(self.path, _OPEN, 0o600)
                opening.callback(os.close, self._file)
                self._size = self._synced_size = self._repaired()
            except OSError as problem:
                raise StorageError(f"cannot write {printable(self.path)}: {reason(problem)}") from None
            self._closed = opening.pop_all()
        self._writer = threading.Thread(target=self._sync, name="journal", daemon=True)
        self._writer.start()

    def _repaired(self) -> int:
        """The length of the whole rows, once nothing else is in the file."""
        os.fchmod(self._file, 0o600)
        rows = Rows(self.path)
        for _ in rows.raw():
            pass
        self.torn = rows.torn
        if rows.torn:
            os.ftruncate(self._file, rows.whole)
        os.fsync(self._file)
        flush_folder(self.path.parent)
        return rows.whole

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StorageError:
            if kind is None:
                raise

    @property
    def synced(self) -> int:
        """How many of the rows appended here are on disk."""
        return self._synced

    def append(self, payload: Mapping[str, Any]) -> None:
        """Add a row, from any thread; it is on disk soon, and for sure after `flush`."""
        line = _line(payload)
        with self._news:
            self._refuse()
            if self._closing:
                raise StorageError(f"{printable(self.path)} is closed; no row can be added")
            self._problem = self._write_down(line)
            self._appended += 1
            self._written += not self._problem
            if self._problem or self._unsynced in (1, MUCH):
                self._news.notify_all()
            self._refuse()

    def flush(self) -> None:
        """Return once every row that was appended is on disk."""
        with self._news:
            self._wanted = wanted = self._appended
            self._news.notify_all()
            self._news.wait_for(lambda: self._synced >= wanted or self._problem)
            if self._synced < wanted:
                self._refuse()

    def close(self) -> None:
        """Flush, and let the next writer in."""
        try:
            with self._news:
                self._closing = True
                self._news.notify_all()
            self._writer.join()
            if self._synced < self._appended:
                self._refuse()
        finally:
            self._closed.close()

    @property
    def _unsynced(self) -> int:
        return self._appended - self._synced

    def _refuse(self) -> None:
        if self._problem:
            lost = "the last row is" if self._unsynced == 1 else f"the last {self._unsynced:,} rows are"
            raise StorageError(
                f"cannot write {printable(self.path)}: {self._problem}; what was written before is kept, {lost} not"
            )

    def _sync(self) -> None:
        """What the thread does until the journal is closed or the disk refuses."""
        while True:
            with self._news:
                self._news.wait_for(lambda: self._unsynced or self._closing)
                self._news.wait_for(self._is_due, EVERY)
                written, size = self._written, self._size
                if written == self._synced:
                    return
            try:
                os.fsync(self._file)
            except OSError as problem:
                with self._news:
                    self._take_back(self._synced_size)
                    self._problem = reason(problem)
                    self._news.notify_all()
                    return
            with self._news:
                self._synced, self._synced_size = written, size
                self._news.notify_all()

    def _is_due(self) -> bool:
        return self._unsynced >= MUCH or self._wanted > self._synced or self._closing or bool(self._problem)

    def _write_down(self, line: bytes) -> str:
        """Write a row, and why the disk refused it: then the rows before it stay."""
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as problem:
            self._take_back(self._size)
            return reason(problem)
        self._size += len(line)
        return ""

    def _take_back(self, size: int) -> None:
        with suppress(OSError):  # else half a row stays, which readers pass over
            os.ftruncate(self._file, size)


class Rows:
    """The whole rows of a journal, one after the other; then `torn` bytes of a row that was never whole.

    `whole` is how many bytes are read so far.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.torn = self.whole = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, payload in self.raw():
            row = _decoded(payload)
            if row is None:
                raise self._damaged(number)
            yield row

    def at(self, places: Iterable[int]) -> Iterator[dict[str, Any]]:
        """The rows that begin at these bytes of the file, in this order."""
        try:
            with open(self.path, "rb") as file:
                for place in places:
                    file.seek(place)
                    row = _decoded(_payload(file.readline(LONGEST)) or b"")
                    if row is None:
                        raise StorageError(
                            f"{printable(self.path)}: a row was damaged after it was written (byte {place:,}); "
                            "restore the file, or begin again without it"
                        )
                    yield row
        except OSError as problem:
            raise StorageError(f"cannot read {printable(self.path)}: {reason(problem)}") from None

    def raw(self) -> Iterator[tuple[int, bytes]]:
        """The documents of the rows as they are written, with their lines; only their checksums are looked at."""
        self.torn = self.whole = 0
        try:
            with open(self.path, "rb") as file:
                yield from self._lines(file)
        except OSError as problem:
            raise StorageError(f"cannot read {printable(self.path)}: {reason(problem)}") from None

    def _lines(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        damaged = number = 0
        while line := file.readline(LONGEST):
            number += 1
            payload = _payload(line)
            if payload is None:
                damaged = damaged or number
                self.torn += len(line)
            elif damaged:
                raise self._damaged(damaged)
            else:
                self.whole += len(line)
                yield number, payload

    def _damaged(self, line: int) -> StorageError:
        return StorageError(
            f"{printable(self.path)}:{line}: the row was damaged after it was written; "
            "restore the file, or begin again without it"
        )


def is_journal(path: str | os.PathLike[str]) -> bool:
    """True if a file begins as a journal does."""
    try:
        with open(path, "rb") as file:
            return _payload(file.readline(LONGEST)) is not None
    except OSError:
        return False


def _line(payload: Mapping[str, Any]) -> bytes:
    data = msgspec.json.encode(payload)
    return b"%08x %s\n" % (zlib.crc32(data), data)


def _payload(line: bytes) -> bytes | None:
    """The document on a line, None where the line is not whole."""
    payload = line[9:-1]
    return payload if line[-1:] == b"\n" and line[:9] == b"%08x " % zlib.crc32(payload) else None


def _decoded(payload: bytes) -> dict[str, Any] | None:
    try:
        row = msgspec.json.decode(mended(payload))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return row if isinstance(row, dict) else None
