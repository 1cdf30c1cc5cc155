"""How a file reaches the disk: whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from steelyard.errors import StorageError, printable


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a temporary file beside `path`, flush it to disk, and rename it into place.

    Whatever fails, the file that was there before is intact and nothing half-written stays behind. A link is followed;
    a device or a pipe is written to as it is.
    """
    data = content.encode() if isinstance(content, str) else content
    path = Path(os.path.realpath(path))
    try:
        if path.is_dir():
            raise StorageError(f"cannot write {printable(path)}: it is a folder")
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, data)
        flush_folder(path.parent)
    except OSError as problem:
        raise StorageError(f"cannot write {printable(path)}: {problem.strerror or type(problem).__name__}") from None


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def flush_folder(folder: Path) -> None:
    """Make a rename in this folder last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
