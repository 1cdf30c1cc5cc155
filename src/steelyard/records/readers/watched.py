"""A file whose reading is watched: somebody is told how much of it was read."""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO, cast

from steelyard.ground.arrays import Progress

_BUFFER = 2**19


def watched(stream: BinaryIO, progress: Progress) -> BinaryIO:
    """A stream that tells `progress` the share of its bytes that were read; one of unknown size stays as it is."""
    try:
        size = os.fstat(stream.fileno()).st_size
    except (OSError, AttributeError):
        return stream
    if not size or not stream.seekable():
        return stream
    return cast(BinaryIO, io.BufferedReader(_Watched(stream, size, progress), _BUFFER))


class _Watched(io.RawIOBase):
    """What is read more than once counts as often; the share ends at all of it."""

    def __init__(self, stream: BinaryIO, size: int, progress: Progress) -> None:
        self._stream, self._size, self._progress, self._read = stream, size, progress, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def seek(self, place: int, whence: int = 0) -> int:
        return self._stream.seek(place, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self._read += len(data)
        self._progress(min(self._read / self._size, 1.0))
        return len(data)
