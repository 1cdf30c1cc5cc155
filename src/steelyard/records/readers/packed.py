"""Files that are compressed with gzip or zstd: read as what is inside them, and never trusted.

`a.csv.gz` is `a.csv` to every reader, to sniffing and to suffixes. Its digest is that of the file as it lies on disk.
What is compressed may follow itself (several gzip members, several zstd frames), gzip may end in zeros. A stream that
ends early says so in `is_cut`; what is damaged, or is a bomb, is refused while it is read.
"""

from __future__ import annotations

import hashlib
import io
import os
import zlib
from typing import Any, BinaryIO, Literal, Protocol, cast

import pyarrow as pa

from steelyard.errors import InputError
from steelyard.records.readers.bundles import LIMITS, Limits
from steelyard.records.readers.head import Head, look

Compression = Literal["gzip", "zstd"]
_SUFFIXES = (".gz", ".gzip", ".zst", ".zstd")
_STEP = 2**16
_SMALL_STEP = 2**10  # where a cut is expected: what zstd had in hand when it met the cut is lost


def inner_name(name: str) -> str:
    """The name without the suffix that says how it is compressed.

    >>> inner_name("a.csv.gz")
    'a.csv'
    """
    stem, suffix = os.path.splitext(name)
    return stem if suffix.lower() in _SUFFIXES else name


def look_inside(
    path: str, name: str, stream: BinaryIO, *, salvage: bool = False
) -> tuple[Head, BinaryIO, Packed | None]:
    """The head of a stream, or of what is compressed in it; a stream of the same; and the compressed one."""
    head, stream = look(path, stream)
    if head.container != "gzip" and head.container != "zstd":
        return head, stream, None
    packed = Packed(name, stream, head.container, small_steps=salvage)
    inner, unpacked = look(inner_name(path), cast(BinaryIO, io.BufferedReader(packed, _STEP)))
    return inner, unpacked, packed


class Packed(io.RawIOBase):
    """What is inside a compressed stream. `is_cut` says that the stream ended before it did."""

    def __init__(
        self, name: str, stream: BinaryIO, method: Compression, *, limits: Limits = LIMITS, small_steps: bool = False
    ) -> None:
        self._name, self._limits = name, limits
        self._step = _SMALL_STEP if small_steps else _STEP
        self._raw = _Digested(stream)
        self._source: _Unpacking = _Gzip(self._raw) if method == "gzip" else _zstd(self._raw)
        self._size = 0
        self.is_cut = False

    @property
    def sha256(self) -> str:
        """The digest of the compressed stream, all of it."""
        while self._raw.read(_STEP):
            pass
        return self._raw.digest.hexdigest()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b"" if self.is_cut else self._unpacked(min(len(buffer), self._step))
        self._size += len(data)
        self._check_size()
        buffer[: len(data)] = data
        return len(data)

    def _unpacked(self, size: int) -> bytes:
        try:
            return self._source.read(size)
        except EOFError:
            self.is_cut = True
        except zlib.error:
            raise self._damaged() from None
        except OSError as problem:
            if problem.errno is not None:  # the system's own
                raise
            if "truncated" not in str(problem).lower():
                raise self._damaged() from None
            self.is_cut = True
        return b""

    def _damaged(self) -> InputError:
        return InputError(
            "the compressed data is damaged, or something else follows it; unpack the file to see", file=self._name
        )

    def _check_size(self) -> None:
        """Refuse what is larger than any data, and what is far larger than it is on disk."""
        limits = self._limits
        if self._size > limits.total:
            raise InputError(f"unpacks to more than {limits.total // 2**30:,} GiB", file=self._name)
        if self._size > limits.spared and self._size > limits.ratio * self._raw.size:
            raise InputError(f"unpacks to more than {limits.ratio:,} times its size; this is no data", file=self._name)


class _Unpacking(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Digested(io.RawIOBase):
    """A stream that is digested as it is read. `size` is that of all of it, or of what was read of a pipe."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.digest, self._read = stream, hashlib.sha256(), 0
        self._whole = 0
        if stream.seekable():
            place = stream.tell()
            self._whole = stream.seek(0, os.SEEK_END) - place
            stream.seek(place)

    @property
    def size(self) -> int:
        return max(self._whole, self._read)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        self.digest.update(data)
        self._read += len(data)
        buffer[: len(data)] = data
        return len(data)


def _zstd(raw: _Digested) -> _Unpacking:
    stream: _Unpacking = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
    return stream


class _Gzip:
    """The members of a gzip stream, one after the other; an EOFError where one is cut short."""

    def __init__(self, raw: _Digested) -> None:
        self._raw, self._rest = raw, b""
        self._member: Any = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def read(self, size: int, /) -> bytes:
        while self._member is not None:
            data: bytes = self._member.decompress(self._rest, size)
            if self._member.eof:
                self._rest = self._member.unused_data
                self._member = self._next()
            else:
                self._rest = self._member.unconsumed_tail
            if data:
                return data
            if not self._rest and not (more := self._raw.read(_STEP)):
                raise EOFError
            self._rest = self._rest or more
        return b""

    def _next(self) -> Any:
        """The next member, behind any zeros; None where nothing but zeros follows."""
        self._rest = self._rest.lstrip(b"\x00")
        while not self._rest:
            if not (more := self._raw.read(_STEP)):
                return None
            self._rest = more.lstrip(b"\x00")
        return zlib.decompressobj(zlib.MAX_WBITS | 16)
