"""Files: opened so that what cannot be read says why, and written whole or not at all, one writer at a time.

Who may read what is written is a matter of the umask, or of an `Access`, which no umask changes. A folder of files is
written next to its place, under a lock, and renamed into it: what a process that was killed left half-made is known by
its name and by the lock that nobody holds, and `sweep` takes it away.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from steelyard.errors import InputError, StorageError, printable

STANDARD_INPUT = "-"
PATIENCE = 60.0  # seconds to wait for another writer
LEAVING = ".deleted-"  # in the name of a folder that is being removed
_LOCK = ".lock"
_HALF = re.compile(r"\..+\.(?:deleted-)?[0-9a-f]{12}")  # a folder on its way in or out
_FORGOTTEN = 3600.0  # seconds after which a half-made folder without a lock is nobody's


@dataclass(frozen=True)
class Access:
    """Who may read what is written, whatever the umask says: the modes of folders and of files."""

    folder: int
    file: int


OWNER, GROUP = Access(0o700, 0o600), Access(0o750, 0o640)


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


def write_atomic(path: Path, content: str | bytes, access: Access | None = None) -> None:
    """Write a temporary file next to `path`, flush it to disk, and rename it into place.

    Whatever fails, the file that was there before is intact and nothing half-written stays behind. A link is followed;
    a device or a pipe is written to as it is.
    """
    write_files({path: content}, access)


def write_files(files: Mapping[Path, str | bytes], access: Access | None = None) -> None:
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
            _make_folders(real.parent, new_folders, access)
            temporary[real] = real.with_name(f".{real.name}.{secrets.token_hex(6)}")
            _write_flushed(temporary[real], data, access)
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
        _make_folders(real.parent, new_folders, None)
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


def write_folder(folder: Path, files: Mapping[str, bytes], access: Access = OWNER) -> None:
    """Write a folder of files, whole or not at all: next to its place first, then renamed into it.

    What others left half-made there goes first.
    """
    new_folders: list[Path] = []
    try:
        _make_folders(folder.parent, new_folders, access)
        if folder.exists():
            raise StorageError(f"{printable(folder)} is there already; a run is never written over")
        sweep(folder.parent)
        with _half_made(folder, access) as temporary:
            for name, data in files.items():
                _write_flushed(temporary / name, data, access)
            flush_folder(temporary)
            (temporary / _LOCK).unlink()
            os.rename(temporary, folder)
        flush_folder(folder.parent)
    except (OSError, sqlite3.Error) as problem:
        _remove_empty(new_folders)
        said = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise StorageError(f"cannot write {printable(folder)}: {said or type(problem).__name__}") from None


@contextmanager
def _half_made(folder: Path, access: Access) -> Iterator[Path]:
    """A locked folder next to `folder`, to be written and renamed; what fails takes it away."""
    begun = None
    while begun is None:
        temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(6)}")
        try:
            _make_folder(temporary, access)
            begun = _begun(temporary, access)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    with closing(begun):
        try:
            yield temporary
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _begun(temporary: Path, access: Access) -> sqlite3.Connection | None:
    """The lock of a new folder; None where somebody took it for left behind in the moment before it was locked."""
    try:
        lock = _locked(temporary / _LOCK, access)
    except (sqlite3.Error, FileNotFoundError):
        if (temporary / _LOCK).exists():
            raise
        return None
    if (temporary / _LOCK).exists():
        return lock
    lock.close()
    return None


def left_behind(folder: Path) -> list[Path]:
    """The folders in a folder that a process which was killed left half-made or half removed, by name."""
    found = []
    for half in _halves(folder):
        with suppress(sqlite3.Error, OSError), _abandoned(half) as is_left:
            found += [half] if is_left else []
    return found


def sweep(folder: Path) -> list[Path]:
    """Remove what was left behind in a folder, as far as it is ours; the folders that went. Others may do the same."""
    gone = []
    for half in _halves(folder):
        with suppress(sqlite3.Error, OSError), _abandoned(half) as is_left:
            if is_left:
                remove_tree(half)
                gone.append(half)
    return gone


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, though another process may be about the same."""
    while True:
        try:
            return shutil.rmtree(folder)
        except FileNotFoundError:
            if not folder.exists():
                return None


def _halves(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            found = [e.name for e in entries if _HALF.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]
    except OSError:  # not there, or not for us to see
        return []
    return [folder / name for name in sorted(found)]


@contextmanager
def _abandoned(half: Path) -> Iterator[bool]:
    """Whether nobody writes a half-made folder, and nobody will while this lasts; sqlite3.Error where somebody does.

    One on its way out is finished by whoever finds it.
    """
    if LEAVING in half.name:
        yield True
    elif (half / _LOCK).exists():
        with closing(_locked(half / _LOCK, patience=0.0)):
            yield True
    else:  # about to be locked or renamed, or its writer was killed just then
        yield time.time() - half.stat().st_mtime > _FORGOTTEN


def make_folders(folder: Path, access: Access) -> None:
    """Make a folder and those above it that are not there, for whoever may read them."""
    _make_folders(folder, [], access)


def _make_folders(folder: Path, new_folders: list[Path], access: Access | None) -> None:
    """Make a folder and those above it, so that they last; those that were not there are added to `new_folders`."""
    if not folder.exists():
        _make_folders(folder.parent, new_folders, access)
        _make_folder(folder, access, exist_ok=True)
        new_folders.append(folder)
        flush_folder(folder.parent)


def _make_folder(folder: Path, access: Access | None, *, exist_ok: bool = False) -> None:
    try:
        folder.mkdir(mode=0o777 if access is None else access.folder)
    except FileExistsError:
        if not exist_ok or not folder.is_dir():
            raise
        return
    if access is not None:
        allow(folder, access.folder)


def allow(path: Path, mode: int) -> None:
    """Let a file or folder have this mode, where it is ours; the bits above it stay."""
    now = stat.S_IMODE(os.stat(path).st_mode)
    if now & 0o777 != mode:
        with suppress(PermissionError):  # of another owner, or a disk without modes
            os.chmod(path, now & ~0o777 | mode)


def read_plain(path: Path, most: int | None = None) -> bytes:
    """The bytes of a plain file: no link is followed, no device or pipe is waited for, no more than `most` is read."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or (most is not None and status.st_size > most):
            raise OSError(0, "it is no plain file, or too large")
        return file.read()


def _write_flushed(path: Path, data: bytes, access: Access | None) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if access is None else access.file)
    with os.fdopen(handle, "wb") as file:
        if access is not None:
            allow(path, access.file)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def exclusive(folder: Path, *, patience: float = PATIENCE, access: Access = OWNER) -> Iterator[None]:
    """One writer at a time in a folder, among all processes; a writer that dies lets go.

    `patience` is how many seconds to wait for another one.
    """
    try:
        make_folders(folder, access)
        with closing(_locked(folder / _LOCK, access, patience=patience)):
            yield
    except sqlite3.Error as problem:
        raise StorageError(f"{printable(folder)} is locked or cannot be written ({problem})") from None
    except OSError as problem:
        raise StorageError(f"cannot write {printable(folder)}: {problem.strerror or type(problem).__name__}") from None


def _locked(path: Path, access: Access | None = None, *, patience: float = PATIENCE) -> sqlite3.Connection:
    """A lock that is held until it is closed; without `access` it must be there."""
    if access is not None:
        make_file(path, access)
    lock = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=patience, isolation_level=None, check_same_thread=False
    )
    try:
        lock.execute("PRAGMA journal_mode = MEMORY")  # nothing is written, so nothing need be taken back
        lock.execute("BEGIN IMMEDIATE")
    except BaseException:
        lock.close()
        raise
    return lock


def make_file(path: Path, access: Access) -> None:
    """An empty file where there is none. SQLite gives the files next to it the same mode."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, access.file))
    allow(path, access.file)
