"""Files: opened so that what cannot be read says why, and written whole or not at all, one writer at a time."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from steelyard.errors import InputError, StorageError, printable

STANDARD_INPUT = "-"
PATIENCE = 60.0  # seconds to wait for another writer


@contextmanager
def opened(path: str) -> Iterator[tuple[str, BinaryIO]]:
    """The input's name for messages, and its bytes; what the system refuses is an error with that name."""
    name = "<stdin>" if path == STANDARD_INPUT else path
    with ExitStack() as closing:
        try:
            stream = sys.stdin.buffer if path == STANDARD_INPUT else closing.enter_context(open(path, "rb"))
        except OSError as problem:
            raise InputError(f"cannot be read: {reason(problem)}", file=name) from None
        except ValueError:
            raise InputError("cannot be read: there is no such name for a file", file=name) from None
        except AttributeError:
            raise InputError("cannot be read: standard input is closed", file=name) from None
        try:
            yield name, stream
        except OSError as problem:
            raise InputError(f"cannot be read: {reason(problem)}", file=name) from None


def reason(problem: OSError) -> str:
    """Why the system refused, in its own words."""
    return (problem.strerror or "the system gives no reason").lower()


def written_at(name: str) -> datetime:
    """When a file was last written, to the second; now, where there is no such file."""
    try:
        seconds = os.stat(name).st_mtime
    except (OSError, ValueError):
        seconds = time.time()
    return datetime.fromtimestamp(int(seconds), UTC)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a temporary file next to `path`, flush it to disk, and rename it into place.

    Whatever fails, the file that was there before is intact and nothing half-written stays behind. A link is followed;
    a device or a pipe is written to as it is.
    """
    write_files({path: content})


def write_files(files: Mapping[Path, str | bytes]) -> None:
    """Write several files as `write_atomic` does one: none is renamed into place before all are on disk."""
    temporary: dict[Path, Path] = {}
    new_folders: list[Path] = []
    path = Path()
    try:
        for path, content in files.items():
            real, data = Path(os.path.realpath(path)), content.encode() if isinstance(content, str) else content
            if real.is_dir():
                raise StorageError(f"cannot write {printable(real)}: it is a folder")
            if real.exists() and not real.is_file():
                real.write_bytes(data)
                continue
            _make_folders(real.parent, new_folders)
            temporary[real] = real.with_name(f".{real.name}.{secrets.token_hex(6)}")
            _write_flushed(temporary[real], data)
        for path, written in temporary.items():
            os.replace(written, path)
            flush_folder(path.parent)
    except BaseException as problem:
        for written in temporary.values():
            with suppress(OSError):  # it was not made
                written.unlink()
        _remove_empty(new_folders)
        if isinstance(problem, OSError):
            shown = problem.strerror or type(problem).__name__
            raise StorageError(f"cannot write {printable(path)}: {shown}") from None
        raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file next to `path`, to be written to; it takes the other's place once it is whole."""
    real = Path(os.path.realpath(path))
    new_folders: list[Path] = []
    try:
        if real.is_dir():
            raise StorageError(f"cannot write {printable(real)}: it is a folder")
        _make_folders(real.parent, new_folders)
        temporary = real.with_name(f".{real.name}.{secrets.token_hex(6)}")
        try:
            yield temporary
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, real)
            flush_folder(real.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except BaseException as problem:
        _remove_empty(new_folders)
        if isinstance(problem, OSError):
            shown = problem.strerror or type(problem).__name__
            raise StorageError(f"cannot write {printable(path)}: {shown}") from None
        raise


def _remove_empty(folders: Sequence[Path]) -> None:
    """Take back folders that were made for nothing; in some there may be something by now."""
    for empty in reversed(folders):
        with suppress(OSError):
            empty.rmdir()


def flush_folder(folder: Path) -> None:
    """Make a rename in this folder last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files, whole or not at all: next to its place first, then renamed into it."""
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(6)}")
    new_folders: list[Path] = []
    try:
        _make_folders(folder.parent, new_folders)
        if folder.exists():
            raise StorageError(f"{printable(folder)} is there already; a run is never written over")
        temporary.mkdir()
        try:
            for name, data in files.items():
                _write_flushed(temporary / name, data)
            flush_folder(temporary)
            os.rename(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        flush_folder(folder.parent)
    except OSError as problem:
        _remove_empty(new_folders)
        raise StorageError(f"cannot write {printable(folder)}: {problem.strerror or type(problem).__name__}") from None


def _make_folders(folder: Path, new_folders: list[Path]) -> None:
    """Make a folder and those above it, so that they last; those that were not there are added to `new_folders`."""
    if not folder.exists():
        _make_folders(folder.parent, new_folders)
        folder.mkdir(exist_ok=True)
        new_folders.append(folder)
        flush_folder(folder.parent)


def read_plain(path: Path, most: int | None = None) -> bytes:
    """The bytes of a plain file: no link is followed, no device or pipe is waited for, no more than `most` is read."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or (most is not None and status.st_size > most):
            raise OSError(0, "it is no plain file, or too large")
        return file.read()


def _write_flushed(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def exclusive(folder: Path, *, patience: float = PATIENCE) -> Iterator[None]:
    """One writer at a time in a folder, among all processes; a writer that dies lets go.

    `patience` is how many seconds to wait for another one.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = sqlite3.connect(folder / ".lock", timeout=patience, isolation_level=None, check_same_thread=False)
        try:
            lock.execute("BEGIN IMMEDIATE")
            yield
        finally:
            lock.close()
    except sqlite3.Error as problem:
        raise StorageError(f"{printable(folder)} is locked or cannot be written ({problem})") from None
    except OSError as problem:
        raise StorageError(f"cannot write {printable(folder)}: {problem.strerror or type(problem).__name__}") from None
