"""Zip archives as bundles: stored, deflated or zstd members, checked against what the archive says of them.

The list of members is at the end of an archive, so one that is cut short has none and is refused. With `salvage` its
members are found by what stands in front of each, and those that are whole are kept.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa

from steelyard.errors import InputError, printable
from steelyard.records.readers.bundles import BLOCK, LIMITS, Bundle, Limits, Member, is_hidden, refused_name

ZSTD = 93  # the method's number; zipfile lists such members and cannot read them before Python 3.14
_READ = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD)
_ENCRYPTED = 1
_SIZES_FOLLOW = 8
_UTF8 = 0x800
_LOCAL_HEADER = 30  # bytes before the name, which the last two fields give the length of
_ZIP64 = 1  # the number of the extra field for sizes beyond 32 bits
_NARROW = 2**32 - 1  # stands for such a size
_DESCRIPTOR = b"PK\x07\x08"
_DESCRIBED = 26  # bytes of the longest, with the first two behind it
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    OverflowError,
    ValueError,
)


def zip_bundle(
    name: str, stream: BinaryIO, limits: Limits = LIMITS, *, salvage: bool = False, repeats: bool = False
) -> Bundle:
    """The members of a zip archive; one that is damaged, encrypted or a bomb is refused.

    salvage   keep what is whole of an archive that is cut short; the bundle says that it is cut
    repeats   of members with one name, take the last; the bundle says which names occur twice
    """
    if not stream.seekable():
        raise InputError("a zip archive cannot be read from a pipe; save it as a file", file=name)
    cut = ""
    try:
        infos = zipfile.ZipFile(stream).infolist()
    except _BROKEN:
        infos = list(_scanned(stream, limits)) if salvage else []
        if not infos:
            raise InputError(_unlisted(stream, limits, salvage=salvage), file=name) from None
        kept = "1 whole member was" if len(infos) == 1 else f"{len(infos):,} whole members were"
        cut = f"the archive is cut short, its list of members is missing; {kept} kept"
    if len(infos) > limits.members:
        raise InputError(f"more than {limits.members:,} members", file=name)
    members: dict[str, Member] = {}
    repeated: dict[str, None] = {}
    for info in infos:
        member = info.orig_filename.removesuffix("/")  # zipfile's own name ends at a NUL
        if problem := refused_name(member):
            raise InputError(f"the member '{printable(member)}' is refused: {problem}", file=name)
        if member in members:
            if not repeats:
                raise InputError(occurs_twice(member), file=name)
            repeated[member] = None
        if info.is_dir() or is_hidden(member):
            continue
        if problem := _refused_member(info, limits):
            raise InputError(problem, file=f"{name}/{member}")
        members[member] = Member(info.file_size, partial(_chunks, stream, info, f"{name}/{member}"))
    packed = stream.seek(0, os.SEEK_END)
    total = sum(member.size for member in members.values())
    if _is_bomb(total, packed, limits):
        raise InputError(f"unpacks to more than {limits.ratio:,} times its size; this is no data", file=name)
    return Bundle(name, members, limits, repeated=tuple(repeated), cut=cut)


def occurs_twice(member: str) -> str:
    """What to say of a member whose name another one has too."""
    return f"the member '{printable(member)}' occurs twice"


def _unlisted(stream: BinaryIO, limits: Limits, *, salvage: bool) -> str:
    """What to say of an archive without a list of its members."""
    problem = "not a readable zip archive: it is cut short or damaged, its list of members is missing"
    if salvage:
        return f"{problem}, and no member is whole"
    whole = sum(1 for _ in _scanned(stream, limits))
    members = "one whole member" if whole == 1 else f"{whole:,} whole members"
    return f"{problem}; `salvage=True` keeps the {members} before the cut" if whole else problem


def _refused_member(info: zipfile.ZipInfo, limits: Limits) -> str | None:
    if info.flag_bits & _ENCRYPTED:
        return "the member is encrypted; unpack the archive first"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "the member is a link; pack the file itself"
    if info.compress_type not in _READ:
        return f"the member is compressed by a method that is not read ({info.compress_type}); pack it with deflate"
    if info.file_size > limits.member:
        return f"more than {limits.member:,} bytes"
    if _is_bomb(info.file_size, info.compress_size, limits):
        return f"unpacks to more than {limits.ratio:,} times its size; this is no data"
    return None


def _is_bomb(size: int, packed: int, limits: Limits) -> bool:
    return size > limits.spared and size > limits.ratio * packed


def _chunks(stream: BinaryIO, info: zipfile.ZipInfo, place: str) -> Iterator[bytes]:
    """The bytes of a member, which are as many and have the checksum that the archive says."""
    size = checksum = 0
    try:
        source = _opened(stream, info)
        while chunk := source.read(BLOCK):
            size += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
            if size > info.file_size:
                break
            yield chunk
    except _BROKEN:
        raise InputError("the member is damaged or cut short", file=place) from None
    if (size, checksum) != (info.file_size, info.CRC):
        raise InputError("the member is not as large as the archive says, or its checksum differs", file=place)


def _opened(stream: BinaryIO, info: zipfile.ZipInfo) -> Any:
    """A member as a stream of what it holds."""
    stream.seek(info.header_offset)
    header = _Header.read(stream)
    if header is None or header.named(info.flag_bits) != info.orig_filename:
        raise zipfile.BadZipFile
    packed = _Part(stream, stream.tell(), info.compress_size)
    if info.compress_type == zipfile.ZIP_STORED:
        return packed
    if info.compress_type == zipfile.ZIP_DEFLATED:
        return _Inflated(packed)
    return pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), "zstd")


class _Inflated:
    """What is deflated in some bytes."""

    def __init__(self, packed: _Part) -> None:
        self._packed, self._inflate, self._rest = packed, zlib.decompressobj(-zlib.MAX_WBITS), b""

    def read(self, size: int) -> bytes:
        while not self._inflate.eof:
            self._rest = self._rest or self._packed.read(size) or b""
            if not self._rest:
                raise EOFError
            data = self._inflate.decompress(self._rest, size)
            self._rest = self._inflate.unconsumed_tail
            if data:
                return data
        return b""


class _Part(io.RawIOBase):
    """Some bytes of a stream that others read too."""

    def __init__(self, stream: BinaryIO, start: int, size: int) -> None:
        self._stream, self._next, self._end = stream, start, start + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._stream.seek(self._next)
        data = self._stream.read(min(len(buffer), self._end - self._next))
        self._next += len(data)
        buffer[: len(data)] = data
        return len(data)


# -- archives without a list of their members ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Header:
    """What stands in front of a member. The sizes may be unknown there and follow the member's bytes."""

    name: bytes
    flags: int
    method: int
    checksum: int
    packed: int
    size: int

    @classmethod
    def read(cls, stream: BinaryIO) -> _Header | None:
        """The header at the stream's place, which is behind it then; None if there is none, or not all of it."""
        fixed = stream.read(_LOCAL_HEADER)
        if len(fixed) < _LOCAL_HEADER or not fixed.startswith(b"PK\x03\x04"):
            return None
        flags, method, checksum, packed, size, named, more = struct.unpack("<6xHH4xIIIHH", fixed)
        name, extra = stream.read(named), stream.read(more)
        if len(name) < named or len(extra) < more:
            return None
        size, packed = _wide(extra, size, packed)
        return cls(name=name, flags=flags, method=method, checksum=checksum, packed=packed, size=size)

    def named(self, flags: int) -> str:
        """The name, in the encoding that these flags say."""
        return self.name.decode("utf-8" if flags & _UTF8 else "cp437", "surrogateescape")

    def info(self, offset: int) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(self.named(self.flags))
        info.header_offset, info.flag_bits, info.compress_type = offset, self.flags, self.method
        info.CRC, info.compress_size, info.file_size = self.checksum, self.packed, self.size
        return info


def _wide(extra: bytes, size: int, packed: int) -> tuple[int, int]:
    """The sizes of a member, unpacked and packed; those beyond 32 bits are among the extra fields."""
    while len(extra) >= 4:
        kind, length = struct.unpack("<HH", extra[:4])
        if kind == _ZIP64:
            field = extra[4 : 4 + length]
            wide = [value for (value,) in struct.iter_unpack("<Q", field[: len(field) // 8 * 8])]
            size = wide.pop(0) if size == _NARROW and wide else size
            packed = wide.pop(0) if packed == _NARROW and wide else packed
        extra = extra[4 + length :]
    return size, packed


def _scanned(stream: BinaryIO, limits: Limits) -> Iterator[zipfile.ZipInfo]:
    """The members that are whole, up to the first place where none begins; at most one more than the limit."""
    end, offset = stream.seek(0, os.SEEK_END), 0
    for _ in range(limits.members + 1):
        stream.seek(offset)
        header = _Header.read(stream)
        if header is None:
            return
        start = stream.tell()
        behind = start + header.packed
        if header.flags & _SIZES_FOLLOW:
            described = _described(stream, start)
            if described is None:
                return
            (checksum, packed, size), behind = described
            header = replace(header, checksum=checksum, packed=packed, size=size)
        if behind > end:
            return
        yield header.info(offset)
        offset = behind


def _described(stream: BinaryIO, start: int) -> tuple[tuple[int, int, int], int] | None:
    """Checksum and sizes that follow a member's bytes, and where they end: the first that lead back to `start`."""
    window, place = b"", start  # what was read last, and where in the stream it begins
    while True:
        stream.seek(place + len(window))
        chunk = stream.read(BLOCK)
        window += chunk
        at = window.find(_DESCRIPTOR)
        while at >= 0 and (at + _DESCRIBED <= len(window) or not chunk):
            for layout in ("<4xIII", "<4xIQQ"):
                behind = at + struct.calcsize(layout)
                if behind <= len(window) and b"PK".startswith(window[behind : behind + 2]):
                    facts = struct.unpack(layout, window[at:behind])
                    if facts[1] == place + at - start:
                        return facts, place + behind
            at = window.find(_DESCRIPTOR, at + 1)
        if not chunk:
            return None
        kept = min(len(window), _DESCRIBED)
        place, window = place + len(window) - kept, window[len(window) - kept :]
